//! `jobforge tenants`: look at tenants, change their weights and limits.

use std::process::ExitCode;

use anyhow::Result;
use jobforge_core::rpc::{list_tenants, upsert_tenant};
use jobforge_core::{Code, Error, Hold, ListedTenant, Tenant};
use serde_json::json;
use tokio_postgres::Client;
use uuid::Uuid;

use crate::cli::{TenantsAction, TenantsArgs, TenantsSetArgs};
use crate::config::Config;
use crate::output::{Output, facts, local, table};
use crate::target::{Purpose, Target};

pub(crate) async fn run(config: &Config, args: TenantsArgs, output: Output) -> Result<ExitCode> {
    let client = Target::resolve(config, Purpose::Operate)?.connect().await?;
    match args.action {
        TenantsAction::List { limit, after } => {
            let tenants = list_tenants(&client, limit, after).await?;
            let full = usize::try_from(limit).is_ok_and(|limit| tenants.len() == limit);
            let next = tenants.last().filter(|_| full).map(|tenant| tenant.id);
            output.answer(&json!({ "tenants": tenants, "next": next }), || {
                let more = next.map(|id| format!("\n\nMore: --after {id}")).unwrap_or_default();
                format!("{}{more}", list(&tenants))
            })?;
        }
        TenantsAction::Show { id } => {
            let tenant = find(&client, id).await?;
            output.answer(&tenant, || show(&tenant))?;
        }
        TenantsAction::Set(args) => {
            let id = args.id;
            upsert_tenant(&client, &change(args)).await?;
            let tenant = find(&client, id).await?;
            output.answer(&tenant, || show(&tenant))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// A pause in a few words.
pub(super) fn pause(hold: &Hold) -> String {
    let until = hold.until.map(|at| format!(", until {}", local(at))).unwrap_or_default();
    let reason = if hold.reason.is_empty() { String::new() } else { format!(": {}", hold.reason) };
    format!("since {} by {}{until}{reason}", local(hold.paused_at), hold.author)
}

/// A rate with its burst.
pub(super) fn rate(per_second: Option<f64>, burst: Option<i32>) -> Option<String> {
    let burst = burst.map(|burst| format!(", {burst} at once")).unwrap_or_default();
    Some(format!("{}/s{burst}", per_second?))
}

/// What is not set, in a column.
pub(super) fn or_dash(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

/// Pages go by id and begin after one: the page of one tenant begins after the id before it.
async fn find(client: &Client, id: Uuid) -> Result<ListedTenant> {
    let before = id.as_u128().checked_sub(1).map(Uuid::from_u128);
    let found = list_tenants(client, 1, before).await?.into_iter().find(|tenant| tenant.id == id);
    found.ok_or_else(|| {
        let message = format!("tenant {id} is not known");
        let reason = "tenant_unknown".to_owned();
        Error::Refused { operation: "list_tenants", code: Code::NotFound, reason, message }.into()
    })
}

fn change(args: TenantsSetArgs) -> Tenant {
    Tenant {
        id: args.id,
        name: args.name,
        weight: args.weight,
        max_pending: args.max_pending,
        max_in_flight: args.limits.max_in_flight,
        rate_per_second: args.limits.rate,
        rate_burst: args.limits.burst,
        retention: args.retention,
        time_zone: args.time_zone,
        clear: args.limits.cleared(),
    }
}

fn list(tenants: &[ListedTenant]) -> String {
    if tenants.is_empty() {
        return "no tenants".to_owned();
    }
    let rows = tenants.iter().map(|tenant| {
        vec![
            tenant.id.to_string(),
            tenant.name.clone(),
            tenant.weight.to_string(),
            or_dash(tenant.max_pending),
            or_dash(tenant.max_in_flight),
            or_dash(rate(tenant.rate_per_second, tenant.rate_burst)),
            or_dash(tenant.retention.as_deref()),
            or_dash(tenant.pause.as_ref().map(pause)),
        ]
    });
    table(&["id", "name", "weight", "max pending", "max in flight", "rate", "retention", "paused"], rows)
}

fn show(tenant: &ListedTenant) -> String {
    facts(
        &format!("{} {}", tenant.name, tenant.id),
        [
            ("weight", Some(tenant.weight.to_string())),
            ("max pending", tenant.max_pending.map(|most| most.to_string())),
            ("max in flight", tenant.max_in_flight.map(|most| most.to_string())),
            ("rate", rate(tenant.rate_per_second, tenant.rate_burst)),
            ("retention", tenant.retention.clone()),
            ("time zone", Some(tenant.time_zone.clone())),
            ("known since", Some(local(tenant.created_at))),
            ("paused", tenant.pause.as_ref().map(pause)),
        ],
    )
}
