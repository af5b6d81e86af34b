//! A job's log lines, in pages.

use std::sync::Arc;

use axum::extract::State;
use jobforge_core::{LogPosition, LoggedLine, LogsRequest, rpc};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use crate::app::App;
use crate::auth::{Look, Tenant};
use crate::cursor;
use crate::extract::{Answer, Params, Place};
use crate::problem::Problem;

/// Which lines.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct LogParams {
    /// Only of the attempt of this number.
    number: Option<i32>,
    /// The most lines, 1 to 10000.
    #[param(minimum = 1, maximum = 10000)]
    limit: Option<i32>,
    /// Where the page before ended.
    cursor: Option<String>,
}

/// A page of log lines.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct LogPage {
    /// The lines in their order.
    lines: Vec<LoggedLine>,
    /// Where to go on, also for lines that are yet to come; absent before the first line.
    next_cursor: Option<String>,
    /// Whether these were all there are for now.
    complete: bool,
}

/// Read a job's log. Whoever reads along asks again with the cursor.
#[utoipa::path(get, path = "/jobs/{id}/logs", tag = "jobs", params(("id" = Uuid, Path), LogParams), responses((status = 200, body = LogPage)))]
pub(crate) async fn logs(
    State(app): State<Arc<App>>,
    tenant: Tenant<Look>,
    Place(id): Place<Uuid>,
    Params(params): Params<LogParams>,
) -> Result<Answer<LogPage>, Problem> {
    let after = params.cursor.as_deref().map(cursor::read::<(i32, i32)>).transpose()?;
    let after = after.map(|(number, line)| LogPosition { number, line });
    let limit = params.limit.unwrap_or(1000);
    let client = app.db.tenant().await?;
    let request = LogsRequest { number: params.number, after, limit };
    let lines = client.call(async |c| rpc::list_logs(c, tenant.id, id, request).await).await?;
    let end = lines.last().map(LoggedLine::position).or(after);
    Ok(Answer(LogPage {
        complete: i32::try_from(lines.len()).is_ok_and(|lines| lines < limit),
        next_cursor: end.map(|end| cursor::write(&(end.number, end.line))),
        lines,
    }))
}
