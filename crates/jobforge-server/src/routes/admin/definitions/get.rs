//! One definition, with its version.

use std::sync::Arc;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use jobforge_core::ListedDefinition;

use super::{look, version};
use crate::app::App;
use crate::auth::{Read, System};
use crate::extract::Place;
use crate::problem::Problem;

/// Look at a job type.
#[utoipa::path(get, path = "/admin/jobs/definitions/{key}", operation_id = "get_definition", tag = "definitions", 
    params(("key" = String, Path), ("If-None-Match" = Option<String>, Header, description = "The ETag of an earlier answer")),
    responses(
        (status = 200, body = ListedDefinition, headers(("ETag" = String, description = "Its version, for If-Match"))),
        (status = 304, description = "It is as it was"),
    ))]
pub(crate) async fn get(
    State(app): State<Arc<App>>,
    _: System<Read>,
    Place(key): Place<String>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let definition = look(&app, &key).await?;
    Ok(version::unless_known(&headers, definition))
}
