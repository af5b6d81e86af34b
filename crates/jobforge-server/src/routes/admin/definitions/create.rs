//! Make a job type known that is not.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use jobforge_core::{Definition, Expected, ListedDefinition};

use super::input::DefinitionInput;
use super::{save, version};
use crate::app::App;
use crate::auth::{Super, System};
use crate::extract::Body;
use crate::problem::Problem;

/// Make a job type known; refused where it is known already.
#[utoipa::path(post, path = "/admin/jobs/definitions", operation_id = "create_definition", tag = "definitions", request_body = DefinitionInput,
    responses((status = 201, body = ListedDefinition, headers(("ETag" = String, description = "Its version, for If-Match")))))]
pub(crate) async fn create(
    State(app): State<Arc<App>>,
    caller: System<Super>,
    Body(mut input): Body<DefinitionInput>,
) -> Result<Response, Problem> {
    let key = input.key.take();
    let key =
        key.ok_or_else(|| Problem::malformed("key_missing", "a definition that is to be new needs its key"))?;
    let definition = Definition { expected: Expected::Nothing, ..input.definition(key)? };
    let made = save(&app, &caller, &definition).await?;
    Ok(version::answer(StatusCode::CREATED, made))
}
