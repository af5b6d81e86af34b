//! Sampled curves of the queues across tenants.

use std::sync::Arc;

use axum::extract::State;
use jiff::Timestamp;
use jobforge_core::{Point, SeriesRequest, rpc};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::app::App;
use crate::auth::{Super, System};
use crate::extract::{Answer, Params};
use crate::problem::Problem;

/// Which curves, over which time.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct SystemSeriesParams {
    /// Only of this queue.
    queue: Option<String>,
    /// One curve: queued, ready, running, dead, enqueued, completed, failed, canceled, `oldest_seconds`.
    metric: Option<String>,
    /// From here on; an hour before `to` where nothing is said.
    from: Option<Timestamp>,
    /// Up to here; now where nothing is said.
    to: Option<Timestamp>,
    /// The most points of a curve, 1 to 1000.
    #[param(minimum = 1, maximum = 1000, default = 120)]
    points: Option<i32>,
}

/// Curves.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SystemSeries {
    /// The points of all curves, each curve in the order of time.
    points: Vec<Point>,
}

/// Read the queues' curves.
#[utoipa::path(get, path = "/admin/series", operation_id = "read_system_series", tag = "operate", params(SystemSeriesParams), responses((status = 200, body = SystemSeries)))]
pub(crate) async fn read(
    State(app): State<Arc<App>>,
    _: System<Super>,
    Params(params): Params<SystemSeriesParams>,
) -> Result<Answer<SystemSeries>, Problem> {
    let SystemSeriesParams { queue, metric, from, to, points } = params;
    let request = SeriesRequest { metric, from, to, points: points.unwrap_or(120) };
    let client = app.db.operator().await?;
    let points = client.call(async |c| rpc::read_system_series(c, queue.as_deref(), &request).await).await?;
    Ok(Answer(SystemSeries { points }))
}
