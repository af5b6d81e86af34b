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

/// How long a caller should wait for the database to come back.
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
    /// JF106: the database does not answer; nothing is known to have changed.
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
            ErrorCode::Unavailable => "the database does not answer",
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

    pub(crate) fn with_faults(mut self, faults: Vec<Fault>) -> Problem {
        self.faults = faults;
        self
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
                Problem::new(ErrorCode::Refused(code), reason, message)
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
