//! Sampled curves: of one tenant, and of the queues across tenants.

use jiff::Timestamp;
use serde::Serialize;
use tokio_postgres::GenericClient;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::wire::Columns;
use crate::error::Error;

/// Which curves, over which time.
#[derive(Clone, Debug)]
pub struct SeriesRequest {
    /// One of them; `None` means all: `queued`, `ready`, `running`, `dead`, `enqueued`, `completed`, `failed`,
    /// `canceled`, `oldest_seconds`.
    pub metric: Option<String>,
    /// From here on; `None` means an hour before `to`.
    pub from: Option<Timestamp>,
    /// Up to here; `None` means now.
    pub to: Option<Timestamp>,
    /// The most points of a curve, 1 to 1000.
    pub points: i32,
}

impl Default for SeriesRequest {
    fn default() -> SeriesRequest {
        SeriesRequest { metric: None, from: None, to: None, points: 120 }
    }
}

/// One point of one curve.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Point {
    /// Of this queue; `None` on a tenant's curve.
    pub queue: Option<String>,
    /// The curve.
    pub metric: String,
    /// The beginning of the stretch that the point stands for.
    pub at: Timestamp,
    /// Depths are averages, the age is the worst, what came and went is a sum.
    pub value: f64,
}

/// A tenant's curves, each in the order of time.
pub async fn read_series<C: GenericClient>(
    c: &C,
    tenant: Uuid,
    request: &SeriesRequest,
) -> Result<Vec<Point>, Error> {
    const OPERATION: &str = "read_series";
    let rows = c
        .query_typed(
            "with t as materialized (select set_config('app.tenant_id', $1::text, true) as tenant)
             select s.metric, s.at, s.value
             from t cross join lateral jobforge.read_series(p_tenant_id => t.tenant::uuid, p_metric => $2,
               p_from => $3, p_to => $4, p_points => $5) as s",
            &[
                (&tenant, Type::UUID),
                (&request.metric, Type::TEXT),
                (&request.from, Type::TIMESTAMPTZ),
                (&request.to, Type::TIMESTAMPTZ),
                (&request.points, Type::INT4),
            ],
        )
        .await
        .map_err(|error| Error::call(OPERATION, error))?;
    rows.iter().map(|row| read_point(None, &mut Columns::of(OPERATION, row))).collect()
}

/// The curves of one queue, or of all of them.
pub async fn read_system_series<C: GenericClient>(
    c: &C,
    queue: Option<&str>,
    request: &SeriesRequest,
) -> Result<Vec<Point>, Error> {
    const OPERATION: &str = "read_system_series";
    let rows = c
        .query_typed(
            "select s.queue, s.metric, s.at, s.value from jobforge.read_system_series(p_metric => $1,
               p_queue => $2, p_from => $3, p_to => $4, p_points => $5) as s",
            &[
                (&request.metric, Type::TEXT),
                (&queue, Type::TEXT),
                (&request.from, Type::TIMESTAMPTZ),
                (&request.to, Type::TIMESTAMPTZ),
                (&request.points, Type::INT4),
            ],
        )
        .await
        .map_err(|error| Error::call(OPERATION, error))?;
    let read = |columns: &mut Columns<'_>| {
        let queue = columns.take()?;
        read_point(Some(queue), columns)
    };
    rows.iter().map(|row| read(&mut Columns::of(OPERATION, row))).collect()
}

fn read_point(queue: Option<String>, columns: &mut Columns<'_>) -> Result<Point, Error> {
    Ok(Point { queue, metric: columns.take()?, at: columns.take()?, value: columns.take()? })
}
