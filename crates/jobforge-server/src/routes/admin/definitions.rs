//! Definitions: the job types there are. They belong to no tenant; who reads sees them all.

pub(crate) mod create;
pub(crate) mod deactivate;
pub(crate) mod get;
mod input;
pub(crate) mod list;
pub(crate) mod upsert;
mod version;

use axum::http::StatusCode;
use jobforge_core::{Code, Definition, ListedDefinition, rpc};

use crate::app::App;
use crate::auth::{Super, System};
use crate::change::operate;
use crate::problem::{ErrorCode, Problem};

/// What can be wrong with one.
const MEMBERS: [&str; 17] = [
    "key",
    "queue",
    "priority",
    "timeout_seconds",
    "max_attempts",
    "max_deaths",
    "retry_base_ms",
    "retry_factor",
    "retry_cap_ms",
    "retry_jitter",
    "retention",
    "dead_retention",
    "max_in_flight",
    "max_in_flight_per_key",
    "rate_per_second",
    "rate_burst",
    "redact",
];

/// Writes a definition down and tells what it is now.
async fn save(
    app: &App,
    caller: &System<Super>,
    definition: &Definition,
) -> Result<ListedDefinition, Problem> {
    let saved = operate(app, &caller.actor, async |c| rpc::upsert_definition(c, definition).await).await;
    saved.map_err(at_its_place)?;
    app.rules.forget(&definition.key);
    look(app, &definition.key).await
}

/// The place that a refusal speaks of.
fn at_its_place(problem: Problem) -> Problem {
    match problem.reason() {
        "preset_unknown" => problem.at("/retry_preset"),
        "definition_out_of_range" => problem.at_constraint(&MEMBERS),
        _ => problem.at_member(&MEMBERS),
    }
}

/// The definition of this key.
async fn look(app: &App, key: &str) -> Result<ListedDefinition, Problem> {
    let client = app.db.operator().await?;
    client.call(async |c| rpc::get_definition(c, key).await).await?.ok_or_else(|| {
        let code = ErrorCode::Refused(Code::UnknownDefinition);
        Problem::new(code, "unknown_definition", format!("definition {key} is not known"))
            .with_status(StatusCode::NOT_FOUND)
    })
}
