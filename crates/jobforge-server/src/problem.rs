//! Every refusal, in the form of RFC 9457: a status, a stable code and reason, a sentence, and the places at fault.

use std::borrow::Cow;
use std::time::Duration;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use jobforge_core::schema::Problem as Fault;
use jobforge_core::{Code, Error};
use serde::Serialize;
use tokio_postgres::error::SqlState;
use utoipa::ToSchema;

use crate::lent::{is_canceled, is_late};

/// How long a caller should wait for the database or the broker to come back.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// What is wrong with a request before any function of the database has a say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorCode {
    /// A function refused.
    Refused(Code),
    /// JF101: no credential, or none that is valid.
    Unauthenticated,
    /// JF102: the request is not what the route takes.
    Malformed,
    /// JF103: the body is too large.
    TooLarge,
    /// JF104: there is no such route, or not by this method.
    NoRoute,
    /// JF105: too many requests.
    RateLimited,
    /// JF106: the database does not answer, or what else is needed; nothing is known to have changed.
    Unavailable,
    /// JF107: the server failed.
    Internal,
}

impl ErrorCode {
    /// All that the server itself gives.
    pub const OWN: [ErrorCode; 7] = [
        ErrorCode::Unauthenticated,
        ErrorCode::Malformed,
        ErrorCode::TooLarge,
        ErrorCode::NoRoute,
        ErrorCode::RateLimited,
        ErrorCode::Unavailable,
        ErrorCode::Internal,
    ];

    /// The code, e.g. `JF101`.
    pub fn as_str(self) -> &'static str {
        match self {
            ErrorCode::Refused(code) => code.as_str(),
            ErrorCode::Unauthenticated => "JF101",
            ErrorCode::Malformed => "JF102",
            ErrorCode::TooLarge => "JF103",
            ErrorCode::NoRoute => "JF104",
            ErrorCode::RateLimited => "JF105",
            ErrorCode::Unavailable => "JF106",
            ErrorCode::Internal => "JF107",
        }
    }

    fn status(self) -> StatusCode {
        match self {
            ErrorCode::Refused(code) => status(code),
            ErrorCode::Unauthenticated => StatusCode::UNAUTHORIZED,
            ErrorCode::Malformed => StatusCode::BAD_REQUEST,
            ErrorCode::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            ErrorCode::NoRoute => StatusCode::NOT_FOUND,
            ErrorCode::RateLimited => StatusCode::TOO_MANY_REQUESTS,
            ErrorCode::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            ErrorCode::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    fn title(self) -> &'static str {
        match self {
            ErrorCode::Refused(code) => title(code),
            ErrorCode::Unauthenticated => "no valid credential",
            ErrorCode::Malformed => "malformed request",
            ErrorCode::TooLarge => "too large",
            ErrorCode::NoRoute => "no such route",
            ErrorCode::RateLimited => "too many requests",
            ErrorCode::Unavailable => "a needed service does not answer",
            ErrorCode::Internal => "the server failed",
        }
    }
}

/// The status of a function's refusal.
pub(crate) fn status(code: Code) -> StatusCode {
    match code {
        Code::InvalidArgument => StatusCode::BAD_REQUEST,
        Code::UnknownDefinition | Code::PayloadInvalid => StatusCode::UNPROCESSABLE_ENTITY,
        Code::IdempotencyConflict | Code::LeaseLost | Code::WrongState => StatusCode::CONFLICT,
        Code::LimitExceeded => StatusCode::TOO_MANY_REQUESTS,
        Code::NotFound => StatusCode::NOT_FOUND,
        Code::Forbidden => StatusCode::FORBIDDEN,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

fn title(code: Code) -> &'static str {
    match code {
        Code::InvalidArgument => "invalid argument",
        Code::UnknownDefinition => "unknown definition",
        Code::PayloadInvalid => "payload invalid",
        Code::IdempotencyConflict => "idempotency conflict",
        Code::LimitExceeded => "limit exceeded",
        Code::LeaseLost => "lease lost",
        Code::NotFound => "not found",
        Code::WrongState => "wrong state",
        Code::Forbidden => "forbidden",
        _ => "refused",
    }
}

/// A refusal on its way to the caller.
#[derive(Clone, Debug)]
pub struct Problem {
    code: ErrorCode,
    reason: Cow<'static, str>,
    detail: String,
    faults: Vec<Fault>,
    status: Option<StatusCode>,
    retry_after: Option<Duration>,
}

/// A refusal as it is written.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Problem)]
pub(crate) struct ProblemBody {
    /// Where the code is explained.
    #[serde(rename = "type")]
    #[schema(example = "/errors/JF007")]
    pub(crate) kind: String,
    /// What the code means.
    pub(crate) title: String,
    /// The HTTP status.
    pub(crate) status: u16,
    /// What is wrong with this request.
    pub(crate) detail: String,
    /// The stable code.
    #[schema(example = "JF007")]
    pub(crate) code: String,
    /// The stable reason within the code.
    #[schema(example = "job_unknown")]
    pub(crate) reason: String,
    /// The places at fault, where there are any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    pub(crate) errors: Vec<FaultBody>,
}

/// One place at fault.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = Fault)]
pub(crate) struct FaultBody {
    /// The place as a JSON Pointer into the body; empty for the whole.
    #[schema(example = "/payload/to")]
    pub(crate) path: String,
    /// What is wrong there.
    pub(crate) message: String,
}

impl Problem {
    /// A refusal with its stable reason and its sentence.
    pub fn new(code: ErrorCode, reason: impl Into<Cow<'static, str>>, detail: impl Into<String>) -> Problem {
        Problem {
            code,
            reason: reason.into(),
            detail: detail.into(),
            faults: Vec::new(),
            status: None,
            retry_after: None,
        }
    }

    /// The request is not what the route takes.
    pub(crate) fn malformed(reason: impl Into<Cow<'static, str>>, detail: impl Into<String>) -> Problem {
        Problem::new(ErrorCode::Malformed, reason, detail)
    }

    /// The role or its tenant does not allow it.
    pub(crate) fn forbidden(reason: impl Into<Cow<'static, str>>, detail: impl Into<String>) -> Problem {
        Problem::new(ErrorCode::Refused(Code::Forbidden), reason, detail)
    }

    /// The same whatever is wrong with a credential, so that nobody learns which keys exist.
    pub(crate) fn unauthenticated() -> Problem {
        Problem::new(
            ErrorCode::Unauthenticated,
            "credential_invalid",
            "a valid API key, token or session is needed",
        )
    }

    /// The database cannot be asked now.
    pub(crate) fn unavailable(detail: impl Into<String>) -> Problem {
        Problem {
            retry_after: Some(RETRY_AFTER),
            ..Problem::new(ErrorCode::Unavailable, "database_unavailable", detail)
        }
    }

    /// The database did not do it in the time that a call has.
    pub(crate) fn late(detail: impl Into<String>) -> Problem {
        Problem {
            retry_after: Some(RETRY_AFTER),
            ..Problem::new(ErrorCode::Unavailable, "call_timeout", detail)
        }
    }

    /// The broker does not answer, and the server is not ready without it.
    pub(crate) fn broker_unavailable() -> Problem {
        let detail = "the broker does not answer, and server.ready_requires_broker is set";
        Problem {
            retry_after: Some(RETRY_AFTER),
            ..Problem::new(ErrorCode::Unavailable, "broker_unavailable", detail)
        }
    }

    pub(crate) fn with_faults(mut self, faults: Vec<Fault>) -> Problem {
        self.faults = faults;
        self
    }

    /// The place at fault, where none is told yet.
    pub(crate) fn at(mut self, path: &str) -> Problem {
        if self.faults.is_empty() {
            self.faults.push(Fault { path: path.to_owned(), message: self.detail.clone() });
        }
        self
    }

    /// The member at fault, where the reason begins with its name.
    pub(crate) fn at_member(self, members: &[&str]) -> Problem {
        let named = |name: &&&str| self.reason.strip_prefix(**name).is_some_and(|rest| rest.starts_with('_'));
        match members.iter().find(named) {
            Some(name) => self.at(&format!("/{name}")),
            None => self,
        }
    }

    /// The member whose constraint was violated, told by its name instead of the table's.
    pub(crate) fn at_constraint(mut self, members: &[&str]) -> Problem {
        let constraint =
            self.detail.split_once("check constraint \"").and_then(|(_, rest)| rest.split_once('"'));
        let stem = constraint.and_then(|(name, _)| Some(name.split_once('_')?.1.rsplit_once('_')?.0));
        let member = stem.and_then(|stem| {
            let exact = members.iter().find(|name| **name == stem);
            exact.or_else(|| members.iter().find(|name| name.contains(stem)))
        });
        let Some(member) = member else { return self };
        if let Some((subject, _)) = self.detail.split_once(": new row for relation") {
            self.detail = format!("{subject}: {member} is not one of its values");
        }
        self.at(&format!("/{member}"))
    }

    pub(crate) fn with_status(mut self, status: StatusCode) -> Problem {
        self.status = Some(status);
        self
    }

    pub(crate) fn retry_after(mut self, after: Duration) -> Problem {
        self.retry_after = Some(after);
        self
    }

    /// The faults' places moved under this one: a payload is a member of the body.
    pub(crate) fn under(mut self, place: &str) -> Problem {
        for fault in &mut self.faults {
            fault.path = format!("{place}{}", fault.path);
        }
        self
    }

    pub(crate) fn reason(&self) -> &str {
        &self.reason
    }

    pub(crate) fn code(&self) -> ErrorCode {
        self.code
    }

    pub(crate) fn status_code(&self) -> StatusCode {
        self.status.unwrap_or_else(|| self.code.status())
    }

    pub(crate) fn body(&self) -> ProblemBody {
        let errors = self.faults.iter();
        ProblemBody {
            kind: format!("/errors/{}", self.code.as_str()),
            title: self.code.title().to_owned(),
            status: self.status_code().as_u16(),
            detail: self.detail.clone(),
            code: self.code.as_str().to_owned(),
            reason: self.reason.clone().into_owned(),
            errors: errors.map(|f| FaultBody { path: f.path.clone(), message: f.message.clone() }).collect(),
        }
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Problem {
        match error {
            Error::Refused { code, reason, message, .. } => {
                Problem::new(ErrorCode::Refused(code), reason, as_members(&message))
            }
            Error::Invalid { job_type, problems } => Problem::new(
                ErrorCode::Refused(Code::PayloadInvalid),
                "payload_invalid",
                format!("the payload for {job_type} does not fit its schema"),
            )
            .with_faults(problems)
            .under("/payload"),
            Error::Database { source, .. } if source.code().is_some_and(is_unstorable) => Problem::malformed(
                "value_unstorable",
                "a text, a number or a time is none that can be stored",
            ),
            error if is_canceled(&error) || is_lock_timeout(&error) => Problem::late(
                "the database did not do it in time, and was told to stop: nothing was changed; try again",
            ),
            error if is_late(&error) => {
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "the database does not answer in time"
                );
                Problem::late(
                    "the database did not answer in time: what was asked may have been done; look before it is tried again",
                )
            }
            error if error.is_transient() => {
                // That it is away is told once, where connections are lent.
                if !error.is_connection() {
                    tracing::warn!(error = &error as &dyn std::error::Error, "a call may be tried again");
                }
                Problem::unavailable("the database cannot be reached; what was asked may be tried again")
            }
            error => {
                tracing::error!(error = &error as &dyn std::error::Error, "a call failed");
                // What the driver says may tell of the schema, the server or the data.
                Problem::new(ErrorCode::Internal, "internal", "the server failed; its log tells more")
            }
        }
    }
}

/// Whether somebody else's lock was in the way for longer than a transaction of its own limit waits.
fn is_lock_timeout(error: &Error) -> bool {
    matches!(error, Error::Database { source, .. } if source.code() == Some(&SqlState::LOCK_NOT_AVAILABLE))
}

/// A function names its parameters, which to a caller of the API are members without the `p_` before them.
fn as_members(message: &str) -> String {
    let mut text = String::with_capacity(message.len());
    let mut rest = message;
    while let Some(at) = rest.find("p_") {
        let (before, name) = rest.split_at(at);
        text.push_str(before);
        let inside = text.ends_with(|c: char| c.is_alphanumeric() || c == '_');
        text.push_str(if inside { "p_" } else { "" });
        rest = &name[2..];
    }
    text + rest
}

/// NUL and half surrogates, which JSON can say and Postgres cannot keep; numbers beyond all bounds; years before 4713 BC.
fn is_unstorable(state: &SqlState) -> bool {
    let states = [
        SqlState::CHARACTER_NOT_IN_REPERTOIRE,
        SqlState::UNTRANSLATABLE_CHARACTER,
        SqlState::INVALID_TEXT_REPRESENTATION,
        SqlState::DATETIME_FIELD_OVERFLOW,
    ];
    states.contains(state)
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let body = serde_json::to_vec(&self.body()).unwrap_or_default();
        let mut response = (self.status_code(), body).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Some(after) = self.retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(after.as_secs().max(1)));
        }
        if self.code == ErrorCode::Unauthenticated {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::as_members;

    #[test]
    fn parameters_are_told_as_members() {
        assert_eq!(as_members("p_limit must be 1 to 5000"), "limit must be 1 to 5000");
        assert_eq!(as_members("give p_run_at or p_max_attempts"), "give run_at or max_attempts");
        assert_eq!(as_members("step_bulk: (p_patch) of p_"), "step_bulk: (patch) of ");
        assert_eq!(as_members("nothing here"), "nothing here");
    }
}
