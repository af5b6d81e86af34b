//! `jobforge connectors`: set connectors up, look at them, seal their secrets anew.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::process::ExitCode;

use anyhow::{Context, Result};
use jobforge_connectors::configs::{MAX_SECRET, Sealed, SecretPlace, new_key, reseal};
use jobforge_core::rpc::{
    delete_connector_config, enable_connector_config, get_connector_config, list_connector_configs,
    upsert_connector_config,
};
use jobforge_core::{ConnectorChange, ConnectorConfig, ConnectorSecret, Payload, StoredSecret};
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::pause::person;
use crate::cli::{ConnectorsAction, ConnectorsArgs, ConnectorsSetArgs};
use crate::config::Config;
use crate::failure::Usage;
use crate::output::{Output, facts, local, table};
use crate::secrets::seal_keys;
use crate::target::{Purpose, Target};

pub(crate) async fn run(config: &Config, args: ConnectorsArgs, output: Output) -> Result<ExitCode> {
    match args.action {
        ConnectorsAction::NewKey => return print_key(output),
        ConnectorsAction::Reseal => return reseal_all(config, output).await,
        _ => {}
    }
    let target = Target::resolve(config, Purpose::Produce)?;
    let tenant = target.tenant()?;
    // What is wrong with the arguments is told before anything is tried.
    let change = match &args.action {
        ConnectorsAction::Set(args) => Some(change(tenant, args)?),
        _ => None,
    };
    let client = target.connect().await?;
    match args.action {
        ConnectorsAction::Set(_) => {
            let set = upsert_connector_config(&client, tenant, &change.unwrap_or_default()).await?;
            output.answer(&set, || show(&set))?;
        }
        ConnectorsAction::List { limit, after } => {
            let configs = list_connector_configs(&client, tenant, limit, after.as_deref()).await?;
            let full = usize::try_from(limit).is_ok_and(|limit| configs.len() == limit);
            let next = configs.last().filter(|_| full).map(|config| config.name.clone());
            output.answer(&json!({ "configs": configs, "next": next }), || {
                let more = next.as_ref().map(|name| format!("\n\nMore: --after {name}")).unwrap_or_default();
                format!("{}{more}", list(&configs))
            })?;
        }
        ConnectorsAction::Show { name } => {
            let config = get_connector_config(&client, tenant, &name).await?;
            output.answer(&config, || show(&config))?;
        }
        ConnectorsAction::Delete { name } => {
            let deleted = delete_connector_config(&client, tenant, &name).await?;
            output.answer(&json!({ "name": name, "deleted": deleted }), || match deleted {
                true => format!("{name} is deleted with its secrets"),
                false => format!("there is no connector config {name}"),
            })?;
        }
        ConnectorsAction::Enable { name } => {
            let enabled = enable_connector_config(&client, tenant, &name).await?;
            output.answer(&json!({ "name": name, "enabled": enabled }), || match enabled {
                true => format!("{name} is in use again"),
                false => format!("{name} was not disabled"),
            })?;
        }
        ConnectorsAction::Reseal | ConnectorsAction::NewKey => {}
    }
    Ok(ExitCode::SUCCESS)
}

fn print_key(output: Output) -> Result<ExitCode> {
    let (id, key) = new_key()?;
    output.answer(&json!({ "key_id": id, "key": key.expose_secret() }), || key.expose_secret().to_owned())?;
    Ok(ExitCode::SUCCESS)
}

/// What does not open makes the exit code 1: its key must not be thrown away.
async fn reseal_all(config: &Config, output: Output) -> Result<ExitCode> {
    let keys = seal_keys()?;
    keys.sealing_id()?;
    let client = Target::resolve(config, Purpose::Operate)?.connect().await?;
    let done = reseal(&client, &keys).await?;
    output.answer(&done, || {
        let mut text = format!("{} secrets are sealed anew with {}", done.resealed, done.key_id);
        if done.changed > 0 {
            text.push_str(&format!(", {} were changed meanwhile", done.changed));
        }
        for left in &done.unopened {
            let (tenant, config, secret) = (left.tenant_id, &left.config, &left.secret);
            text.push_str(&format!("\nleft: {secret} of {config} of tenant {tenant}: {}", left.error));
        }
        text
    })?;
    Ok(if done.unopened.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn change(tenant: Uuid, args: &ConnectorsSetArgs) -> Result<ConnectorChange> {
    let mut secrets = BTreeMap::new();
    for given in &args.secrets {
        let (name, variable) = reference(given)?;
        secrets.insert(name.to_owned(), Some(StoredSecret::Env(variable.to_owned())));
    }
    secrets.extend(args.removed.iter().map(|name| (name.clone(), None)));
    if let Some(name) = &args.secret_stdin {
        let place = SecretPlace { tenant, config: &args.name, secret: name };
        let keys = seal_keys()?;
        keys.sealing_id()?;
        let Sealed { key_id, bytes } = keys.seal(place, &stdin_secret()?)?;
        secrets.insert(name.clone(), Some(StoredSecret::Sealed { key_id, bytes }));
    }
    let updated_by = Some(person());
    Ok(ConnectorChange { name: args.name.clone(), settings: settings(args)?, secrets, updated_by })
}

/// Whatever else stands there may be a secret: it is not repeated.
fn reference(given: &str) -> Result<(&str, &str)> {
    let parts = given.split_once('=').and_then(|(name, rest)| Some((name, rest.strip_prefix("env:")?)));
    let advice = "--secret takes NAME=env:VARIABLE; a value itself comes by --secret-stdin NAME";
    parts.ok_or_else(|| Usage::new(advice).into())
}

fn stdin_secret() -> Result<SecretString> {
    let mut text = String::new();
    // One more than allowed, so that what is too long is seen and an endless one is not read.
    let most = u64::try_from(MAX_SECRET + 3)?;
    std::io::stdin().take(most).read_to_string(&mut text).context("cannot read the secret from stdin")?;
    let line = text.strip_suffix('\n').unwrap_or(&text);
    Ok(SecretString::from(line.strip_suffix('\r').unwrap_or(line)))
}

/// The file's settings, and over them the single ones.
fn settings(args: &ConnectorsSetArgs) -> Result<Option<Payload>> {
    let mut settings: Map<String, Value> = match &args.settings_file {
        Some(path) => {
            let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
            serde_json::from_str(&text)
                .map_err(|error| Usage::new(format!("{} is no JSON object: {error}", path.display())))?
        }
        None => Map::new(),
    };
    for given in &args.settings {
        let (name, value) = given
            .split_once('=')
            .ok_or_else(|| Usage::new(format!("--setting {given}: takes NAME=VALUE")))?;
        let value = serde_json::from_str(value).unwrap_or_else(|_| Value::from(value));
        settings.insert(name.to_owned(), value);
    }
    let given = args.settings_file.is_some() || !args.settings.is_empty();
    Ok(if given { Some(serde_json::value::to_raw_value(&settings)?) } else { None })
}

fn list(configs: &[ConnectorConfig]) -> String {
    if configs.is_empty() {
        return "no connector configs".to_owned();
    }
    let rows = configs.iter().map(|config| {
        vec![
            config.name.clone(),
            secrets(config),
            config.disabled_reason.clone().unwrap_or_else(|| "-".to_owned()),
            local(config.updated_at),
            config.updated_by.clone(),
        ]
    });
    table(&["name", "secrets", "disabled", "changed", "by"], rows)
}

fn show(config: &ConnectorConfig) -> String {
    let disabled = config.disabled_at.zip(config.disabled_reason.as_ref());
    facts(
        &config.name,
        [
            ("settings", Some(config.settings.get().to_owned())),
            ("secrets", Some(secrets(config))),
            ("disabled", disabled.map(|(at, why)| format!("since {}: {why}", local(at)))),
            ("made", Some(local(config.created_at))),
            ("changed", Some(format!("{} by {}", local(config.updated_at), config.updated_by))),
        ],
    )
}

fn secrets(config: &ConnectorConfig) -> String {
    let told = |secret: &ConnectorSecret| match &secret.key_id {
        Some(key_id) => format!("{} (sealed with {key_id})", secret.name),
        None => format!("{} (environment)", secret.name),
    };
    let all: Vec<String> = config.secrets.iter().map(told).collect();
    if all.is_empty() { "none".to_owned() } else { all.join(", ") }
}
