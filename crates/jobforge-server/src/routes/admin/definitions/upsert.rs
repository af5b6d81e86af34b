//! Make a job type known, or change it.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use jobforge_core::{Definition, ListedDefinition};

use super::input::DefinitionInput;
use super::{look, save, version};
use crate::app::App;
use crate::auth::{Super, System};
use crate::extract::{Body, Place};
use crate::problem::Problem;

/// Make a job type known or change it. What is left out stays as it is.
#[utoipa::path(put, path = "/admin/jobs/definitions/{key}", operation_id = "upsert_definition", tag = "definitions", request_body = DefinitionInput,
    params(
        ("key" = String, Path),
        ("If-Match" = Option<String>, Header, description = "Only if it is in the version of this ETag; *: only if it is there"),
        ("If-None-Match" = Option<String>, Header, description = "*: only if it is not there"),
    ),
    responses((status = 200, body = ListedDefinition, headers(("ETag" = String, description = "Its version, for If-Match")))))]
pub(crate) async fn upsert(
    State(app): State<Arc<App>>,
    caller: System<Super>,
    Place(key): Place<String>,
    headers: HeaderMap,
    Body(mut input): Body<DefinitionInput>,
) -> Result<Response, Problem> {
    if input.key.take().is_some_and(|given| given != key) {
        return Err(Problem::malformed(
            "key_differs",
            "the key in the body is another than that of the path",
        ));
    }
    let definition = Definition { expected: version::expected(&headers)?, ..input.definition(key)? };
    if version::must_exist(&headers) {
        // Definitions are never deleted: what is there now is there in a moment.
        look(&app, &definition.key)
            .await
            .map_err(|problem| problem.with_status(StatusCode::PRECONDITION_FAILED))?;
    }
    let saved = save(&app, &caller, &definition).await.map_err(version::precondition)?;
    Ok(version::answer(StatusCode::OK, saved))
}
