//! `jobforge definitions`: look at job types, change them and their limits.

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};
use jobforge_connectors::connectors;
use jobforge_core::rpc::{get_definition, list_definitions, upsert_definition};
use jobforge_core::schema::check_schema;
use jobforge_core::{Code, Definition, Error, Expected, ListedDefinition, Payload};
use serde_json::json;
use tokio_postgres::Client;

use super::tenants::{or_dash, pause, rate};
use crate::cli::{DefinitionsAction, DefinitionsArgs, DefinitionsSetArgs};
use crate::config::Config;
use crate::output::{Output, facts, local, table};
use crate::target::{Purpose, Target};

pub(crate) async fn run(config: &Config, args: DefinitionsArgs, output: Output) -> Result<ExitCode> {
    let client = Target::resolve(config, Purpose::Operate)?.connect().await?;
    match args.action {
        DefinitionsAction::List { limit, after } => {
            let definitions = list_definitions(&client, limit, after.as_deref()).await?;
            let full = usize::try_from(limit).is_ok_and(|limit| definitions.len() == limit);
            let next = definitions.last().filter(|_| full).map(|definition| definition.key.clone());
            output.answer(&json!({ "definitions": definitions, "next": next }), || {
                let more = next.as_ref().map(|key| format!("\n\nMore: --after {key}")).unwrap_or_default();
                format!("{}{more}", list(&definitions))
            })?;
        }
        DefinitionsAction::Show { key } => {
            let definition = find(&client, &key).await?;
            output.answer(&definition, || show(&definition))?;
        }
        DefinitionsAction::InstallConnectors => {
            let installed = connectors().map(|connector| connector.definition());
            for definition in &installed {
                upsert_definition(&client, definition).await?;
            }
            let keys = installed.map(|definition| definition.key);
            output.answer(&json!({ "installed": keys }), || format!("installed {}", keys.join(", ")))?;
        }
        DefinitionsAction::Set(args) => {
            let change = change(*args)?;
            upsert_definition(&client, &change).await?;
            let definition = find(&client, &change.key).await?;
            output.answer(&definition, || show(&definition))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

async fn find(client: &Client, key: &str) -> Result<ListedDefinition> {
    get_definition(client, key).await?.ok_or_else(|| {
        let message = format!("definition {key} is not known");
        let reason = "unknown_definition".to_owned();
        let code = Code::UnknownDefinition;
        Error::Refused { operation: "list_definitions", code, reason, message }.into()
    })
}

/// The schema of a file, if it is one by which workers could judge.
fn schema(key: &str, file: &Path) -> Result<Payload> {
    let text =
        fs::read_to_string(file).with_context(|| format!("cannot read the schema in {}", file.display()))?;
    let schema: Payload = serde_json::from_str(&text)
        .with_context(|| format!("the schema in {} is no JSON", file.display()))?;
    check_schema(&serde_json::from_str(schema.get())?).map_err(|problems| {
        let told: Vec<String> = problems.iter().map(ToString::to_string).collect();
        let message = format!("definition {key}: {}", told.join("; "));
        let (operation, code) = ("upsert_definition", Code::InvalidArgument);
        Error::Refused { operation, code, reason: "schema_malformed".to_owned(), message }
    })?;
    Ok(schema)
}

fn change(args: DefinitionsSetArgs) -> Result<Definition> {
    let arg_schema = args.schema.as_deref().map(|file| schema(&args.key, file)).transpose()?;
    Ok(Definition {
        arg_schema,
        redact: args.redact,
        key: args.key,
        description: args.description,
        queue: args.queue,
        priority: args.priority,
        timeout_seconds: args.timeout_seconds,
        max_attempts: args.max_attempts,
        max_deaths: args.max_deaths,
        retry_preset: args.retry_preset,
        retry_base_ms: args.retry_base_ms,
        retry_factor: args.retry_factor,
        retry_cap_ms: args.retry_cap_ms,
        retry_jitter: args.retry_jitter,
        retention: args.retention,
        is_active: args.active,
        max_in_flight: args.limits.max_in_flight,
        max_in_flight_per_key: args.max_in_flight_per_key,
        rate_per_second: args.limits.rate,
        rate_burst: args.limits.burst,
        dead_retention: args.dead_retention,
        clear: args.limits.cleared(),
        expected: Expected::Anything,
    })
}

fn list(definitions: &[ListedDefinition]) -> String {
    if definitions.is_empty() {
        return "no definitions".to_owned();
    }
    let rows = definitions.iter().map(|definition| {
        vec![
            definition.key.clone(),
            definition.queue.clone(),
            definition.priority.to_string(),
            definition.max_attempts.to_string(),
            or_dash(definition.max_in_flight),
            or_dash(rate(definition.rate_per_second, definition.rate_burst)),
            state(definition),
        ]
    });
    table(&["key", "queue", "priority", "attempts", "max in flight", "rate", "state"], rows)
}

fn state(definition: &ListedDefinition) -> String {
    match (&definition.pause, definition.is_active) {
        (Some(hold), _) => format!("paused {}", pause(hold)),
        (None, true) => "active".to_owned(),
        (None, false) => "inactive".to_owned(),
    }
}

fn show(definition: &ListedDefinition) -> String {
    let d = definition;
    let retry = format!(
        "after {} ms, times {}, at most {} ms, spread by {:.0} %",
        d.retry_base_ms,
        d.retry_factor,
        d.retry_cap_ms,
        d.retry_jitter * 100.0
    );
    let redacted: Vec<&str> = d.redact.iter().chain(&d.write_only).map(String::as_str).collect();
    facts(
        &d.key,
        [
            ("description", Some(d.description.clone()).filter(|text| !text.is_empty())),
            ("queue", Some(format!("{}, priority {}", d.queue, d.priority))),
            ("timeout", Some(format!("{} s", d.timeout_seconds))),
            ("failures", Some(format!("{} allowed, {} deaths", d.max_attempts, d.max_deaths))),
            ("retry", Some(retry)),
            ("retention", Some(format!("{}, dead letters {}", d.retention, d.dead_retention))),
            ("max in flight", d.max_in_flight.map(|most| most.to_string())),
            ("of one key", Some(d.max_in_flight_per_key.to_string())),
            ("rate", rate(d.rate_per_second, d.rate_burst)),
            ("schema", d.arg_schema.as_ref().map(ToString::to_string)),
            ("redacted", Some(redacted.join(", ")).filter(|paths| !paths.is_empty())),
            ("changed", Some(local(d.updated_at))),
            ("state", Some(state(d))),
        ],
    )
}
