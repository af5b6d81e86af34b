//! Switch a job type off: jobs that are there go on, new ones are refused. Nothing is deleted.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use jobforge_core::{Definition, ListedDefinition};

use super::{look, save, version};
use crate::app::App;
use crate::auth::{Super, System};
use crate::extract::Place;
use crate::problem::Problem;

/// Switch a job type off; it stays known, and is switched on by `is_active`.
#[utoipa::path(delete, path = "/admin/jobs/definitions/{key}", operation_id = "deactivate_definition", tag = "definitions",
    params(
        ("key" = String, Path),
        ("If-Match" = Option<String>, Header, description = "Only if it is in the version of this ETag"),
    ),
    responses((status = 200, body = ListedDefinition)))]
pub(crate) async fn deactivate(
    State(app): State<Arc<App>>,
    caller: System<Super>,
    Place(key): Place<String>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let expected = version::expected(&headers)?;
    look(&app, &key).await?;
    let definition = Definition { is_active: Some(false), expected, ..Definition::new(key) };
    let saved = save(&app, &caller, &definition).await.map_err(version::precondition)?;
    Ok(version::answer(StatusCode::OK, saved))
}
