//! What a handler makes of a job: an outcome, or an error that the retry policy judges.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use jobforge_core::Payload;
use serde::Serialize;

use crate::link::told;

/// What a handler answers.
pub type HandlerResult = Result<Outcome, HandlerError>;

/// How an attempt ended, in the handler's words. What becomes of the job the database decides.
#[derive(Debug)]
#[non_exhaustive]
pub enum Outcome {
    /// Done, with a result or without.
    Complete(Option<Payload>),
    /// Failed; the definition's policy says when to try again.
    Retry {
        /// What went wrong.
        error: String,
    },
    /// Failed; try again no earlier than this from now.
    RetryAfter {
        /// What went wrong.
        error: String,
        /// The least delay.
        after: Duration,
    },
    /// Failed in a way that no retry mends.
    Fail {
        /// What went wrong.
        error: String,
    },
    /// Not now: run again after this, without counting a failure.
    Snooze(Duration),
    /// Stopped, because it was asked to or because there is nothing left to do.
    Cancel {
        /// Why.
        reason: String,
    },
    /// The handler reported by itself, inside its own transaction.
    AlreadyReported,
}

impl Outcome {
    /// Done, with nothing to hand on.
    pub fn done() -> Outcome {
        Outcome::Complete(None)
    }

    /// Done, with a result.
    pub fn complete<T: Serialize + ?Sized>(result: &T) -> Result<Outcome, serde_json::Error> {
        serde_json::value::to_raw_value(result).map(|result| Outcome::Complete(Some(result)))
    }
}

/// Why a handler failed: retryable unless told otherwise. Every error becomes one with `?`.
#[derive(Debug)]
pub struct HandlerError {
    pub(crate) message: String,
    pub(crate) permanent: bool,
    pub(crate) timed_out: bool,
    pub(crate) retry_after: Option<Duration>,
    pub(crate) exit: Option<Box<Exit>>,
}

/// How a program that a handler ran has ended.
#[derive(Debug, Clone, Default)]
pub struct Exit {
    /// Its exit code, if it had one.
    pub code: Option<i32>,
    /// The end of its standard output.
    pub stdout_tail: Option<String>,
    /// The end of its standard error.
    pub stderr_tail: Option<String>,
}

impl HandlerError {
    /// A retryable failure.
    pub fn new(message: impl Into<String>) -> HandlerError {
        HandlerError {
            message: message.into(),
            permanent: false,
            timed_out: false,
            retry_after: None,
            exit: None,
        }
    }

    /// The same of an error with its causes, as `?` makes one; for errors whose type is not known.
    pub fn of(error: &(dyn Error + 'static)) -> HandlerError {
        HandlerError::new(told(error))
    }

    /// No retry mends this.
    #[must_use]
    pub fn permanent(self) -> HandlerError {
        HandlerError { permanent: true, ..self }
    }

    /// The attempt took longer than the handler allows: it is told as a timeout, like one of the definition.
    #[must_use]
    pub fn timed_out(self) -> HandlerError {
        HandlerError { timed_out: true, ..self }
    }

    /// Try again no earlier than this from now.
    #[must_use]
    pub fn retry_after(self, after: Duration) -> HandlerError {
        HandlerError { retry_after: Some(after), ..self }
    }

    /// With the end of the program that failed.
    #[must_use]
    pub fn exit(self, exit: Exit) -> HandlerError {
        HandlerError { exit: Some(Box::new(exit)), ..self }
    }
}

impl fmt::Display for HandlerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// Not itself an `Error`, which is what makes this blanket conversion possible.
impl<E: Error + Send + Sync + 'static> From<E> for HandlerError {
    fn from(error: E) -> HandlerError {
        HandlerError::of(&error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_carries_its_causes_and_is_retryable() {
        let parse = "x".parse::<i32>().unwrap_err();
        let error = HandlerError::from(std::io::Error::other(parse));
        assert_eq!(error.to_string(), "invalid digit found in string");
        assert!(!error.permanent && error.retry_after.is_none());
    }
}
