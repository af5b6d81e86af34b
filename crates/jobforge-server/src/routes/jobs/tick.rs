//! Run due jobs in this server, in development.

use std::sync::Arc;

use axum::extract::State;
use jobforge_core::Code;
use serde::Deserialize;
use utoipa::ToSchema;

use crate::app::App;
use crate::auth::{Operate, System};
use crate::extract::{Answer, BodyIfAny};
use crate::problem::{ErrorCode, Problem};
use crate::routes::no_route;
use crate::tick::Ticked;

/// How many; the body may be left out.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct TickInput {
    /// The most jobs, 1 to 1000; 10 unless it is given.
    #[schema(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

/// Run due jobs now, whosever they are, and answer when they have run. In development alone: elsewhere there is no such
/// route.
#[utoipa::path(post, path = "/jobs/tick", tag = "jobs", request_body = Option<TickInput>, responses((status = 200, body = Ticked)))]
pub(crate) async fn tick(
    State(app): State<Arc<App>>,
    caller: Result<System<Operate>, Problem>,
    input: Result<BodyIfAny<TickInput>, Problem>,
) -> Result<Answer<Ticked>, Problem> {
    let Some(tick) = app.config.tick.clone().filter(|_| app.config.development) else {
        return Err(no_route().await);
    };
    caller?;
    let BodyIfAny(input) = input?;
    let limit = input.limit.unwrap_or(10);
    if !(1..=1000).contains(&limit) {
        let code = ErrorCode::Refused(Code::InvalidArgument);
        return Err(Problem::new(code, "limit_out_of_range", "limit is 1 to 1000"));
    }
    // In a task of its own: a caller that goes away leaves no job half done.
    match tokio::spawn(async move { tick.run_due(limit).await }).await {
        Ok(Ok(ticked)) => Ok(Answer(ticked)),
        Ok(Err(error)) => Err(failed(&*error)),
        Err(error) => Err(failed(&error)),
    }
}

fn failed(error: &(dyn std::error::Error + 'static)) -> Problem {
    tracing::error!(error, "a tick failed");
    Problem::new(ErrorCode::Internal, "internal", "the server failed; its log tells more")
}
