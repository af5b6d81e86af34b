//! What a request brings, read strictly: what is not understood is refused with its place.

use std::sync::Arc;

use axum::body::HttpBody;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{FromRequest, FromRequestParts, Query, Request};
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use jobforge_core::schema::Problem as Fault;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use serde_path_to_error::{Path, Segment};

use crate::app::App;
use crate::held_bodies::{Kept, Owner, too_large};
use crate::json_bounds;
use crate::problem::{ErrorCode, Problem};

/// A JSON body.
pub(crate) struct Body<T>(pub(crate) T);

/// A JSON body with `rows.rs`' rows, which are held to the bounds one by one: what is wrong with a row is not wrong with the body.
pub(crate) struct Batch<T>(pub(crate) T);

/// A JSON body that may be missing.
pub(crate) struct BodyIfAny<T>(pub(crate) T);

/// A body that says it is JSON, not read yet.
pub(crate) struct Json(pub(crate) Bytes);

/// The parameters behind the question mark.
pub(crate) struct Params<T>(pub(crate) T);

/// What stands in the path.
pub(crate) struct Place<T>(pub(crate) T);

/// A JSON answer. Typed all the way, because a `Value` in between would change numbers: 1.10 stays 1.10.
pub(crate) struct Answer<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequest<Arc<App>> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Body<T>, Problem> {
        let Json(bytes) = Json::from_request(request, app).await?;
        read_json(&bytes).map(Body)
    }
}

impl<T: DeserializeOwned> FromRequest<Arc<App>> for Batch<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Batch<T>, Problem> {
        let Json(bytes) = Json::from_request(request, app).await?;
        read_object(&bytes).map(Batch)
    }
}

impl<T: DeserializeOwned + Default> FromRequest<Arc<App>> for BodyIfAny<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<BodyIfAny<T>, Problem> {
        let told = require_json(&request);
        let bytes = read_body(request, app).await?;
        if bytes.is_empty() {
            return Ok(BodyIfAny(T::default()));
        }
        told?;
        read_json(&bytes).map(BodyIfAny)
    }
}

impl FromRequest<Arc<App>> for Json {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Json, Problem> {
        require_json(&request)?;
        read_body(request, app).await.map(Json)
    }
}

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Params<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Params<T>, Problem> {
        // Postgres stores no NUL, and would fail the call with words of its own.
        if parts.uri.query().is_some_and(|query| query.contains("%00")) {
            return Err(Problem::malformed("query_malformed", "a parameter has a NUL character"));
        }
        let query = Query::from_request_parts(parts, state).await;
        let refused =
            |error: QueryRejection| Problem::malformed("query_malformed", sentence(&error.body_text()));
        query.map(|Query(params)| Params(params)).map_err(refused)
    }
}

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Place<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Place<T>, Problem> {
        let path = axum::extract::Path::from_request_parts(parts, state).await;
        let refused =
            |error: PathRejection| Problem::malformed("path_malformed", sentence(&error.body_text()));
        path.map(|axum::extract::Path(place)| Place(place)).map_err(refused)
    }
}

impl<T: Serialize> IntoResponse for Answer<T> {
    fn into_response(self) -> Response {
        match serde_json::to_vec(&self.0) {
            Ok(body) => ([(header::CONTENT_TYPE, "application/json")], body).into_response(),
            Err(error) => {
                tracing::error!(error = %error, "an answer cannot be written");
                Problem::new(ErrorCode::Internal, "internal", "the server failed; its log tells more")
                    .into_response()
            }
        }
    }
}

/// A body's JSON object, or the place at which it is wrong.
pub(crate) fn read_json<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    json_bounds::check(bytes)?;
    read_object(bytes)
}

fn read_object<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    if is_array(bytes) {
        // A parser would take its elements for the members, in their order.
        return Err(misread(
            String::new(),
            "body_invalid",
            "expected a JSON object, not an array".to_owned(),
        ));
    }
    serde_json::from_slice(bytes).map_err(|error| unread(place::<T>(bytes), &error))
}

/// Where the body is wrong: found by reading it again, so that bodies with nothing wrong are read fast.
fn place<T: DeserializeOwned>(bytes: &[u8]) -> String {
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let read = serde_path_to_error::deserialize::<_, T>(&mut reader);
    read.err().map(|error| pointer(error.path())).unwrap_or_default()
}

/// Whether a body is to be an array.
pub(crate) fn is_array(bytes: &[u8]) -> bool {
    bytes.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'[')
}

/// The elements of a body's array, each to be read by itself, and held to the bounds then.
pub(crate) fn read_rows(bytes: &[u8]) -> Result<Vec<&RawValue>, Problem> {
    serde_json::from_slice(bytes).map_err(|error| unread(String::new(), &error))
}

fn unread(path: String, error: &serde_json::Error) -> Problem {
    // What the parser says names members and types, not values, but for what it calls invalid.
    let message = sentence(&error.to_string());
    // The parser stands at the object then, not at the member.
    let named = ["missing field `", "duplicate field `"].iter().find_map(|begin| message.strip_prefix(begin));
    let path = match named.and_then(|rest| rest.split_once('`')) {
        Some((name, _)) => format!("{path}/{name}"),
        None => path,
    };
    let reason = if error.is_data() { "body_invalid" } else { "body_malformed" };
    misread(path, reason, message)
}

fn misread(path: String, reason: &'static str, message: String) -> Problem {
    Problem::malformed(reason, message.clone()).with_faults(vec![Fault { path, message }])
}

/// A place in the body, as a JSON Pointer.
fn pointer(path: &Path) -> String {
    let mut text = String::new();
    for segment in path {
        match segment {
            Segment::Seq { index } => text.push_str(&format!("/{index}")),
            Segment::Map { key } => {
                text.push('/');
                text.push_str(&key.replace('~', "~0").replace('/', "~1"));
            }
            Segment::Enum { .. } | Segment::Unknown => {}
        }
    }
    text
}

async fn read_body(request: Request, app: &Arc<App>) -> Result<Bytes, Problem> {
    // Before any of it is read, where it says how long it is.
    if request.body().size_hint().lower() > app.config.max_body_bytes as u64 {
        return Err(too_large());
    }
    let mut room = app.bodies.room(Owner::of(request.extensions()));
    let kept = request.extensions().get::<Kept>().cloned().unwrap_or_default();
    let taken = room.take_in(request.into_body(), app.config.max_body_bytes);
    let slow = |_| {
        Problem::malformed("body_slow", "the body did not come in time")
            .with_status(StatusCode::REQUEST_TIMEOUT)
    };
    let bytes = tokio::time::timeout(app.config.callers.body, taken).await.map_err(slow)??;
    kept.keep(room);
    Ok(bytes)
}

fn require_json(request: &Request) -> Result<(), Problem> {
    if request.headers().contains_key(header::CONTENT_ENCODING) {
        let detail = "the body must not be encoded: leave Content-Encoding out";
        return Err(
            Problem::malformed("content_encoding", detail).with_status(StatusCode::UNSUPPORTED_MEDIA_TYPE)
        );
    }
    if is_json(request.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok())) {
        return Ok(());
    }
    let detail = "the body must be JSON: Content-Type: application/json";
    Err(Problem::malformed("content_type", detail).with_status(StatusCode::UNSUPPORTED_MEDIA_TYPE))
}

fn is_json(content_type: Option<&str>) -> bool {
    let kind = content_type.and_then(|value| value.split(';').next()).unwrap_or_default().trim();
    kind.eq_ignore_ascii_case("application/json")
        || (kind.len() > 17 && kind[..12].eq_ignore_ascii_case("application/") && kind.ends_with("+json"))
}

/// A message without its tail of positions, cut to a length that fits a sentence.
fn sentence(text: &str) -> String {
    text.chars().take(300).collect()
}
