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
use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::app::App;
use crate::bulks::Drive;
use crate::extract::Answer;
use crate::openapi::ROOT;

/// An operation, and how it gets on.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = DrivenBulk)]
pub(crate) struct DrivenBulk {
    #[serde(flatten)]
    bulk: Bulk,
    /// Whether this server goes on with it; null when nothing is left to do.
    drive: Option<Drive>,
}

impl DrivenBulk {
    fn new(app: &App, tenant: Uuid, bulk: Bulk) -> DrivenBulk {
        DrivenBulk { drive: app.bulks.drive_of(tenant, &bulk), bulk }
    }
}

/// An operation: 202 with where to follow it while something is left to do.
fn answer(bulk: DrivenBulk) -> Response {
    if bulk.drive.is_none() {
        return Answer(bulk).into_response();
    }
    let location = HeaderValue::from_str(&format!("{ROOT}/bulk/{}", bulk.bulk.id)).ok();
    let mut response = (StatusCode::ACCEPTED, Answer(bulk)).into_response();
    response.headers_mut().extend(location.map(|location| (header::LOCATION, location)));
    response
}
