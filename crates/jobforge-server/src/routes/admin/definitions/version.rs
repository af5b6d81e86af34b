//! A definition's version: the time of its last change, as an ETag.

use axum::body::Body;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use jiff::Timestamp;
use jobforge_core::{Code, Expected, ListedDefinition};

use crate::etag;
use crate::extract::Answer;
use crate::problem::{ErrorCode, Problem};

/// What `If-Match` and `If-None-Match` ask for: one version, or that it is new. `If-Match: *` is not told here.
pub(super) fn expected(headers: &HeaderMap) -> Result<Expected, Problem> {
    match (text(headers, &header::IF_MATCH)?, text(headers, &header::IF_NONE_MATCH)?) {
        (None, None) => Ok(Expected::Anything),
        (None, Some("*")) => Ok(Expected::Nothing),
        (Some("*"), None) => Ok(Expected::Anything),
        (Some(tag), None) => read(tag).map(Expected::ChangedAt).ok_or_else(changed),
        _ => {
            let detail = "a change takes If-Match with one ETag or *, or If-None-Match: *";
            Err(Problem::malformed("precondition_malformed", detail))
        }
    }
}

/// Whether it must be there, in whatever version.
pub(super) fn must_exist(headers: &HeaderMap) -> bool {
    headers.get(header::IF_MATCH).is_some_and(|value| value.as_bytes() == b"*")
}

/// The same refusal as the database's, with the status of a precondition.
pub(super) fn precondition(problem: Problem) -> Problem {
    match problem.code() {
        ErrorCode::Refused(Code::WrongState) => problem.with_status(StatusCode::PRECONDITION_FAILED),
        _ => problem,
    }
}

/// A definition with its version.
pub(super) fn answer(status: StatusCode, definition: ListedDefinition) -> Response {
    let tag = HeaderValue::from_str(&write(definition.updated_at)).ok();
    let mut response = (status, Answer(definition)).into_response();
    response.headers_mut().extend(tag.map(|tag| (header::ETAG, tag)));
    response
}

/// The same, or 304 where the caller has this version.
pub(super) fn unless_known(headers: &HeaderMap, definition: ListedDefinition) -> Response {
    let known = etag::is_known(headers, write(definition.updated_at).trim_matches('"'));
    let mut response = answer(StatusCode::OK, definition);
    if known {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        *response.body_mut() = Body::empty();
        response.headers_mut().remove(header::CONTENT_TYPE);
    }
    response
}

fn write(at: Timestamp) -> String {
    format!("\"{}\"", at.as_microsecond())
}

fn read(tag: &str) -> Option<Timestamp> {
    let number = tag.strip_prefix('"')?.strip_suffix('"')?;
    Timestamp::from_microsecond(number.parse().ok()?).ok()
}

fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, Problem> {
    let malformed =
        || Problem::malformed("precondition_malformed", format!("the header {name} is there once, as text"));
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else { return Ok(None) };
    match (value.to_str(), values.next()) {
        (Ok(text), None) => Ok(Some(text.trim())),
        _ => Err(malformed()),
    }
}

/// A tag that none of ours can be.
fn changed() -> Problem {
    let detail = "the definition is not in the version that If-Match names";
    Problem::new(ErrorCode::Refused(Code::WrongState), "definition_changed", detail)
        .with_status(StatusCode::PRECONDITION_FAILED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_read_as_it_was_written_and_nothing_else_is() {
        let at = Timestamp::from_microsecond(1_790_000_000_123_456).unwrap();
        assert_eq!(read(&write(at)), Some(at));
        for other in ["", "\"", "\"\"", "1", "W/\"1\"", "\"1\", \"2\"", "\"99999999999999999999\""] {
            assert_eq!(read(other), None, "{other}");
        }
    }
}
