//! Make a tenant known, or change it.

use std::sync::Arc;

use axum::extract::State;
use jobforge_core::{Clear, ListedTenant, Tenant, rpc};
use serde::Deserialize;
use utoipa::ToSchema;
use uuid::Uuid;

use super::look;
use crate::app::App;
use crate::auth::{Super, System};
use crate::change::operate;
use crate::extract::{Answer, Body, Place};
use crate::problem::Problem;
use crate::routes::admin::change::{self, Change, given};

/// What can be wrong with one.
const MEMBERS: [&str; 8] = [
    "name",
    "weight",
    "max_pending",
    "max_in_flight",
    "rate_per_second",
    "rate_burst",
    "retention",
    "time_zone",
];

/// A tenant. What is left out stays as it is, or takes the default when the tenant is new; null takes a limit away.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TenantInput {
    /// What people call it; a new one is called by its id.
    #[serde(default, deserialize_with = "given")]
    name: Option<String>,
    /// Its share of each turn beside the others', 1 to 100.
    #[serde(default, deserialize_with = "given")]
    weight: Option<i32>,
    /// How many of its jobs may wait.
    #[serde(default)]
    #[schema(value_type = Option<i32>)]
    max_pending: Change<i32>,
    /// How many of its jobs may run at a time.
    #[serde(default)]
    #[schema(value_type = Option<i32>)]
    max_in_flight: Change<i32>,
    /// How many of its jobs may start in a second.
    #[serde(default)]
    #[schema(value_type = Option<f64>)]
    rate_per_second: Change<f64>,
    /// How many of them at once, after a time with none.
    #[serde(default)]
    #[schema(value_type = Option<i32>)]
    rate_burst: Change<i32>,
    /// How long history is kept, whatever the definitions say: `day`, `week`, `month` or `year`.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    retention: Change<String>,
    /// What its schedules go by.
    #[serde(default, deserialize_with = "given")]
    #[schema(example = "Europe/Berlin")]
    time_zone: Option<String>,
}

/// Make a tenant known or change it. What is left out stays as it is.
#[utoipa::path(put, path = "/admin/tenants/{id}", operation_id = "upsert_tenant", tag = "tenants", params(("id" = Uuid, Path)), request_body = TenantInput, responses((status = 200, body = ListedTenant)))]
pub(crate) async fn upsert(
    State(app): State<Arc<App>>,
    caller: System<Super>,
    Place(id): Place<Uuid>,
    Body(input): Body<TenantInput>,
) -> Result<Answer<ListedTenant>, Problem> {
    let tenant = input.tenant(id)?;
    let changed = operate(&app, &caller.actor, async |c| rpc::upsert_tenant(c, &tenant).await).await;
    changed.map_err(|problem| match problem.reason() {
        "tenant_out_of_range" => problem.at_constraint(&MEMBERS),
        _ => problem.at_member(&MEMBERS),
    })?;
    look(&app, id).await.map(Answer)
}

impl TenantInput {
    fn tenant(self, id: Uuid) -> Result<Tenant, Problem> {
        let mut clear = Vec::new();
        let (rate_per_second, rate_burst) = change::rate(self.rate_per_second, self.rate_burst, &mut clear)?;
        Ok(Tenant {
            id,
            name: self.name,
            weight: self.weight,
            max_pending: self.max_pending.value(Clear::MaxPending, &mut clear),
            max_in_flight: self.max_in_flight.value(Clear::MaxInFlight, &mut clear),
            rate_per_second,
            rate_burst,
            retention: self.retention.value(Clear::Retention, &mut clear),
            time_zone: self.time_zone,
            clear,
        })
    }
}
