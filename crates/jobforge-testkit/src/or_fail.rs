//! Ending a test with an error's whole chain of causes.

use std::error::Error;

/// Panics with a sentence instead of a debug dump.
pub(crate) trait OrFail<T> {
    /// The value, or a panic that says `cannot {what}: {error}: {cause}`.
    fn or_fail(self, what: &str) -> T;
}

impl<T, E: Error> OrFail<T> for Result<T, E> {
    #[track_caller]
    fn or_fail(self, what: &str) -> T {
        match self {
            Ok(value) => value,
            Err(error) => panic!("cannot {what}: {}", with_causes(&error)),
        }
    }
}

fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    text
}
