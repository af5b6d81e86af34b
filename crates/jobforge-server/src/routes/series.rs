//! A tenant's sampled curves.

use std::sync::Arc;

use axum::extract::State;
use jiff::Timestamp;
use jobforge_core::{Point, SeriesRequest, rpc};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::app::App;
use crate::auth::{Read, Tenant};
use crate::extract::{Answer, Params};
use crate::problem::Problem;

/// Which curves, over which time.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct SeriesParams {
    /// One of queued, ready, running, dead, enqueued, completed, failed, canceled, oldest_seconds; all unless it is given.
    metric: Option<String>,
    /// From here on; an hour before `to` unless it is given.
    from: Option<Timestamp>,
    /// Up to here; now unless it is given.
    to: Option<Timestamp>,
    /// The most points of a curve, 1 to 1000; 120 unless it is given.
    #[param(minimum = 1, maximum = 1000)]
    points: Option<i32>,
}

/// Curves.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Series {
    /// Each curve in the order of time; none where nobody samples.
    points: Vec<Point>,
}

/// Read the tenant's curves.
#[utoipa::path(get, path = "/series", tag = "jobs", params(SeriesParams), responses((status = 200, body = Series)))]
pub(crate) async fn series(
    State(app): State<Arc<App>>,
    tenant: Tenant<Read>,
    Params(params): Params<SeriesParams>,
) -> Result<Answer<Series>, Problem> {
    let SeriesParams { metric, from, to, points } = params;
    let request =
        SeriesRequest { metric, from, to, points: points.unwrap_or(SeriesRequest::default().points) };
    let client = app.db.tenant().await?;
    client
        .call(async |c| rpc::read_series(c, tenant.id, &request).await)
        .await
        .map(|points| Answer(Series { points }))
}
