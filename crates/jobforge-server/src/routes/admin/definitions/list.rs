//! A page of definitions, in the order of their keys.

use std::sync::Arc;

use axum::extract::State;
use jobforge_core::{ListedDefinition, rpc};
use serde::Serialize;
use utoipa::ToSchema;

use crate::app::App;
use crate::auth::{Read, System};
use crate::extract::{Answer, Params};
use crate::problem::Problem;
use crate::routes::admin::page::{self, PageParams};

/// A page of definitions.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DefinitionPage {
    /// The definitions.
    definitions: Vec<ListedDefinition>,
    /// How to get the next page, if there may be one.
    next_cursor: Option<String>,
}

/// List job types.
#[utoipa::path(get, path = "/admin/jobs/definitions", operation_id = "list_definitions", tag = "definitions", params(PageParams), responses((status = 200, body = DefinitionPage)))]
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    _: System<Read>,
    Params(params): Params<PageParams>,
) -> Result<Answer<DefinitionPage>, Problem> {
    let after: Option<String> = params.after()?;
    let client = app.db.operator().await?;
    let definitions =
        client.call(async |c| rpc::list_definitions(c, params.limit, after.as_deref()).await).await?;
    let next_cursor = page::next(params.limit, &definitions, |last| last.key.clone());
    Ok(Answer(DefinitionPage { definitions, next_cursor }))
}
