//! What can go wrong between a caller and the database, and the one place where SQLSTATEs become codes.

use std::fmt;
use std::time::Duration;

use tokio_postgres::error::{Severity, SqlState};

use crate::migrate::MigrateError;
use crate::preflight::Unfit;
use crate::schema::Problem;

/// Why a function of JobForge refused a call. Each has its SQLSTATE, the same in every language.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Code {
    /// JF001: an argument is missing, malformed or out of range.
    InvalidArgument,
    /// JF002: the job type has no active definition.
    UnknownDefinition,
    /// JF003: a payload or result cannot be stored.
    PayloadInvalid,
    /// JF004: an idempotency key was used before with another payload.
    IdempotencyConflict,
    /// JF005: a limit is reached.
    LimitExceeded,
    /// JF006: the lease is lost or the fence is stale.
    LeaseLost,
    /// JF007: the thing named does not exist.
    NotFound,
    /// JF008: the job is not in a state that allows this.
    WrongState,
    /// JF009: the login may not do this.
    Forbidden,
}

const CODES: [(Code, &str); 9] = [
    (Code::InvalidArgument, "JF001"),
    (Code::UnknownDefinition, "JF002"),
    (Code::PayloadInvalid, "JF003"),
    (Code::IdempotencyConflict, "JF004"),
    (Code::LimitExceeded, "JF005"),
    (Code::LeaseLost, "JF006"),
    (Code::NotFound, "JF007"),
    (Code::WrongState, "JF008"),
    (Code::Forbidden, "JF009"),
];

impl Code {
    /// The SQLSTATE, e.g. `JF001`.
    pub fn as_str(self) -> &'static str {
        CODES.iter().find(|(code, _)| *code == self).map_or("JF000", |(_, text)| text)
    }

    /// The code of an SQLSTATE, if it is one of ours.
    pub fn parse(text: &str) -> Option<Code> {
        CODES.iter().find(|(_, known)| *known == text).map(|(code, _)| *code)
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An operation that did not succeed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A function said no; nothing changed.
    #[error("{operation} refused ({code} {reason}): {message}")]
    Refused {
        /// The function called.
        operation: &'static str,
        /// The class of the refusal.
        code: Code,
        /// The stable reason, e.g. `tenant_missing`.
        reason: String,
        /// The sentence for people.
        message: String,
    },
    /// The database or the way to it failed.
    #[error("{operation} failed in the database")]
    Database {
        /// The function called.
        operation: &'static str,
        /// What the driver said.
        #[source]
        source: tokio_postgres::Error,
    },
    /// The answer is not what this version expects: schema and program differ.
    #[error("{operation} answered in an unexpected form: {detail}")]
    Shape {
        /// The function called.
        operation: &'static str,
        /// What was unexpected.
        detail: String,
    },
    /// The connection was closed by the other side.
    #[error("{operation} ended: the connection is closed")]
    Closed {
        /// What was under way.
        operation: &'static str,
    },
    /// There was no answer in time.
    #[error("{operation} got no answer within {after:?}")]
    Timeout {
        /// What was attempted.
        operation: &'static str,
        /// How long it was waited for.
        after: Duration,
    },
    /// A payload does not serialise to JSON.
    #[error("the payload for {job_type} is not JSON")]
    Payload {
        /// The type of the job that was to be made.
        job_type: String,
        /// What the serialiser said.
        #[source]
        source: serde_json::Error,
    },
    /// A payload does not fit its type's schema; nothing was enqueued.
    #[error("the payload for {job_type} does not fit its schema: {}", told(problems))]
    Invalid {
        /// The type of the job that was to be made.
        job_type: String,
        /// Everything that is wrong, by place.
        problems: Vec<Problem>,
    },
    /// The connection string cannot be read.
    #[error("the database URL cannot be read")]
    Url(#[source] tokio_postgres::Error),
    /// No connection could be made.
    #[error("no connection to {server}")]
    Connect {
        /// Where to, without the password.
        server: String,
        /// What the driver said.
        #[source]
        source: tokio_postgres::Error,
    },
    /// The server takes no writes: a standby, or a primary that was demoted.
    #[error("the server is read-only")]
    ReadOnly,
    /// The login or the server is not fit to run on.
    #[error("the database connection is not fit for use: {0}")]
    Unfit(Unfit),
    /// The schema could not be brought up to date.
    #[error(transparent)]
    Migration(#[from] MigrateError),
}

impl Error {
    /// The code, when a function of JobForge refused the call.
    pub fn code(&self) -> Option<Code> {
        match self {
            Error::Refused { code, .. } => Some(*code),
            Error::Payload { .. } | Error::Invalid { .. } => Some(Code::PayloadInvalid),
            _ => None,
        }
    }

    /// The stable reason of a refusal.
    pub fn reason(&self) -> Option<&str> {
        match self {
            Error::Refused { reason, .. } => Some(reason),
            Error::Invalid { .. } => Some("payload_invalid"),
            _ => None,
        }
    }

    /// Whether the connection must be thrown away: it is closed, its server is going down or has become
    /// read-only. A wrong password is not of this kind: a new connection would not help.
    pub fn is_connection(&self) -> bool {
        match self {
            Error::Database { source, .. } | Error::Connect { source, .. } => is_broken(source),
            Error::ReadOnly | Error::Closed { .. } | Error::Timeout { .. } => true,
            Error::Migration(error) => error.driver_error().is_some_and(is_broken),
            _ => false,
        }
    }

    /// Whether the server takes no writes: every connection to it is of no use, not this one alone.
    pub fn is_read_only(&self) -> bool {
        match self {
            Error::ReadOnly => true,
            Error::Database { source, .. } => source.code() == Some(&SqlState::READ_ONLY_SQL_TRANSACTION),
            _ => false,
        }
    }

    /// Whether the same call may succeed when it is made again, on a new connection if
    /// [`Error::is_connection`] says so.
    pub fn is_transient(&self) -> bool {
        let database = match self {
            Error::Database { source, .. } => Some(source),
            Error::Migration(error) => error.driver_error(),
            _ => None,
        };
        self.is_connection() || database.is_some_and(may_pass)
    }

    /// The error of a call: a refusal if it carries one of our codes.
    pub(crate) fn call(operation: &'static str, source: tokio_postgres::Error) -> Error {
        let refusal =
            source.as_db_error().and_then(|db| Code::parse(db.code().code()).map(|code| (db, code)));
        match refusal {
            Some((db, code)) => Error::Refused {
                operation,
                code,
                reason: db.detail().unwrap_or_default().to_owned(),
                message: db.message().to_owned(),
            },
            None => Error::Database { operation, source },
        }
    }

    pub(crate) fn shape(operation: &'static str, detail: impl fmt::Display) -> Error {
        Error::Shape { operation, detail: detail.to_string() }
    }
}

fn told(problems: &[Problem]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

fn is_broken(error: &tokio_postgres::Error) -> bool {
    let Some(db) = error.as_db_error() else {
        let cause = std::error::Error::source(error).and_then(|cause| cause.downcast_ref::<std::io::Error>());
        return error.is_closed() || cause.is_some() || is_out_of_step(error);
    };
    let code = db.code().code();
    // 28: wrong login, 3D: no such database, 42: no such option. They are fatal and stay so.
    let fatal = matches!(db.parsed_severity(), Some(Severity::Fatal | Severity::Panic))
        && !["28", "3D", "42"].iter().any(|class| code.starts_with(class));
    fatal
        || code.starts_with("08")
        || code.starts_with("57P")
        || *db.code() == SqlState::READ_ONLY_SQL_TRANSACTION
}

/// Whether an answer came that belongs to no question, or to another one: whoever asks next on such a connection could be
/// given somebody else's. The driver tells it by its words alone.
fn is_out_of_step(error: &tokio_postgres::Error) -> bool {
    ["unexpected message from server", "error parsing response from server"]
        .contains(&error.to_string().as_str())
}

fn may_pass(error: &tokio_postgres::Error) -> bool {
    let passing = [
        SqlState::T_R_SERIALIZATION_FAILURE,
        SqlState::T_R_DEADLOCK_DETECTED,
        SqlState::LOCK_NOT_AVAILABLE,
        SqlState::TOO_MANY_CONNECTIONS,
    ];
    error.code().is_some_and(|code| passing.contains(code))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_their_sqlstates() {
        for (code, text) in CODES {
            assert_eq!((code.as_str(), Code::parse(text)), (text, Some(code)));
        }
        assert_eq!(Code::parse("22P02"), None);
    }
}
