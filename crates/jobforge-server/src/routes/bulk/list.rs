//! A page of operations, the latest first.

use std::sync::Arc;

use axum::extract::State;
use jobforge_core::{Bulk, rpc};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use crate::app::App;
use crate::auth::{Read, Tenant};
use crate::cursor;
use crate::extract::{Answer, Params};
use crate::problem::Problem;

/// Which page.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct PageParams {
    /// The most of the page, 1 to 10000.
    #[param(minimum = 1, maximum = 10000)]
    limit: Option<i32>,
    /// Where the page before ended.
    cursor: Option<String>,
}

impl PageParams {
    /// The most of the page, and where it begins.
    pub(super) fn read(&self) -> Result<(i32, Option<Uuid>), Problem> {
        let place = self.cursor.as_deref().map(cursor::read::<Uuid>).transpose()?;
        Ok((self.limit.unwrap_or(50), place))
    }
}

/// Where a page that is full ended.
pub(super) fn next_cursor<T>(page: &[T], limit: i32, id: impl Fn(&T) -> Uuid) -> Option<String> {
    let full = usize::try_from(limit).is_ok_and(|limit| page.len() >= limit);
    page.last().filter(|_| full).map(|last| cursor::write(&id(last)))
}

/// A page of operations.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct BulkPage {
    /// The operations, the latest first.
    operations: Vec<Bulk>,
    /// How to get the next page, if there may be one.
    next_cursor: Option<String>,
}

/// List operations on many jobs.
#[utoipa::path(get, path = "/bulk", tag = "bulk operations", params(PageParams), responses((status = 200, body = BulkPage)))]
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    tenant: Tenant<Read>,
    Params(params): Params<PageParams>,
) -> Result<Answer<BulkPage>, Problem> {
    let (limit, before) = params.read()?;
    let client = app.db.tenant().await?;
    let operations = client.call(async |c| rpc::list_bulks(c, tenant.id, limit, before).await).await?;
    let next_cursor = next_cursor(&operations, limit, |bulk| bulk.id);
    Ok(Answer(BulkPage { operations, next_cursor }))
}
