//! Operations on many jobs: started by a request, driven to their end by the server.

pub(crate) mod get;
pub(crate) mod list;
pub(crate) mod results;
pub(crate) mod resume;
pub(crate) mod start;
pub(crate) mod undo;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use jobforge_core::Bulk;

use crate::extract::Answer;
use crate::openapi::ROOT;

/// An operation: 202 with where to follow it while something is left to do.
fn answer(bulk: Bulk) -> Response {
    if !matches!(bulk.status.as_str(), "running" | "undoing") {
        return Answer(bulk).into_response();
    }
    let location = HeaderValue::from_str(&format!("{ROOT}/bulk/{}", bulk.id)).ok();
    let mut response = (StatusCode::ACCEPTED, Answer(bulk)).into_response();
    response.headers_mut().extend(location.map(|location| (header::LOCATION, location)));
    response
}
