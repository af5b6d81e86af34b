//! What a probe says, and the few sentences probes are made of.

use std::fmt::Debug;

use tokio_postgres::Error;

use crate::schema::told;

/// Green, or red with the reason.
pub(crate) type Verdict = Result<(), String>;

/// Not permitted by the server itself: neither a row nor a refusal of ours.
pub(crate) const DENIED: &str = "42501";

/// The call must be refused with one of these codes; where the code is ours, `JF009 reason` also asks for its reason.
pub(crate) fn refused<T: Debug>(what: &str, call: Result<T, Error>, wanted: &[&str]) -> Verdict {
    let error = match call {
        Ok(answer) => return Err(format!("{what}: answered {answer:?} instead of {wanted:?}")),
        Err(error) => error,
    };
    let Some(db) = error.as_db_error() else { return Err(format!("{what}: {error}")) };
    let (code, reason) = (db.code().code(), db.detail().unwrap_or(""));
    let as_wanted = |want: &&str| *want == code || **want == format!("{code} {reason}");
    if wanted.iter().any(as_wanted) {
        return Ok(());
    }
    Err(format!("{what}: refused with {} instead of {wanted:?}", told(&error)))
}

/// The call must work.
pub(crate) fn works<T>(what: &str, call: Result<T, Error>) -> Result<T, String> {
    call.map_err(|error| format!("{what}: {}", told(&error)))
}

/// Both must be equal.
#[allow(clippy::needless_pass_by_value, reason = "what is compared is mostly made for the comparison")]
pub(crate) fn same<T: PartialEq + Debug>(what: &str, found: T, wanted: T) -> Verdict {
    if found == wanted { Ok(()) } else { Err(format!("{what}: {found:?} instead of {wanted:?}")) }
}

/// The list of faults must be empty.
pub(crate) fn none<T: Debug>(what: &str, faults: &[T]) -> Verdict {
    if faults.is_empty() { Ok(()) } else { Err(format!("{what}: {faults:?}")) }
}
