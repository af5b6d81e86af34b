//! `jobforge keys`: make, list and revoke the keys of the HTTP API.

use std::process::ExitCode;

use anyhow::Result;
use jiff::Timestamp;
use jobforge_core::rpc::{create_api_key, list_api_keys, revoke_api_key};
use jobforge_core::{ApiKey, KeyScope, NewKey, Role};
use jobforge_server::auth::key::{KeyText, is_id};
use serde_json::json;
use uuid::Uuid;

use super::from_now;
use super::pause::person;
use crate::cli::{KeysAction, KeysArgs, KeysCreateArgs};
use crate::config::Config;
use crate::failure::Usage;
use crate::output::{Output, local, say, table};
use crate::target::{Purpose, Target};

pub(crate) async fn run(config: &Config, args: KeysArgs, output: Output) -> Result<ExitCode> {
    let target = Target::resolve(config, Purpose::Operate)?;
    match args.action {
        KeysAction::List { limit, after } => {
            let client = target.connect().await?;
            let keys = list_api_keys(&client, config.tenant, limit, after.as_deref()).await?;
            let full = usize::try_from(limit).is_ok_and(|limit| keys.len() == limit);
            let next = keys.last().filter(|_| full).map(|key| key.id.as_str());
            output.answer(&json!({ "keys": keys, "next": next }), || {
                let more = next.map(|id| format!("\n\nMore: --after {id}")).unwrap_or_default();
                format!("{}{more}", list(&keys))
            })?;
        }
        KeysAction::Create(args) => create(config, &target, args, output).await?,
        KeysAction::Revoke { id, author } => {
            let id = id_of(id)?;
            let client = target.connect().await?;
            let author = author.unwrap_or_else(person);
            let revoked = revoke_api_key(&client, &id, Some(&author), config.tenant).await?;
            output.answer(&json!({ "id": id, "revoked": revoked }), || match revoked {
                true => format!("key {id} is revoked"),
                false => format!("key {id} was revoked before"),
            })?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

async fn create(config: &Config, target: &Target, args: KeysCreateArgs, output: Output) -> Result<()> {
    let scope = scope(Role::from(args.role), config.tenant, target)?;
    let end = args.length.map(|length| from_now("--for", length)).transpose()?;
    let made = KeyText::generate();
    let new = NewKey {
        id: made.id.clone(),
        secret_sha256: made.secret_sha256,
        scope,
        name: args.name,
        expires_at: args.until.or(end),
        author: Some(args.author.unwrap_or_else(person)),
        only_first: false,
    };
    let known = create_api_key(&target.connect().await?, &new).await?;
    // Alone on stdout, so that a script can take it as it is.
    output.answer(&json!({ "key": made.expose(), "about": known }), || made.expose().to_owned())?;
    if !output.is_json() {
        say(&format!("a key of {}, id {}; it is shown this once", whose(&known), known.id));
    }
    Ok(())
}

/// Of a whole key its id alone: whoever revokes one in a hurry has it at hand, and no answer repeats its secret.
fn id_of(given: String) -> Result<String> {
    match KeyText::parse(&given) {
        Some(key) => Ok(key.id),
        // What is no id may be a secret, so it reaches neither the screen nor the database and its log.
        None if !is_id(&given) => Err(Usage::new(
            "that is neither a key nor its id, the 12 digits and small letters between jf_ and the next underscore",
        )
        .into()),
        None => Ok(given),
    }
}

/// No wider than what was asked for: a tenant that is named is never left out.
fn scope(role: Role, named: Option<Uuid>, target: &Target) -> Result<KeyScope> {
    let tenant = match role {
        Role::SuperAdmin | Role::Worker => named,
        Role::TenantAdmin | Role::TenantViewer | Role::Producer => Some(target.tenant()?),
    };
    KeyScope::of(role, tenant).ok_or_else(|| {
        let set = tenant.map_or_else(|| "none".to_owned(), |tenant| tenant.to_string());
        Usage::new(format!("a key of the role {role} is of no tenant, and one is set: {set}")).into()
    })
}

fn whose(key: &ApiKey) -> String {
    match key.tenant_id {
        Some(tenant) => format!("{} of tenant {tenant}", key.role),
        None => format!("{} of all tenants", key.role),
    }
}

fn list(keys: &[ApiKey]) -> String {
    let time = |at: Option<Timestamp>| at.map_or_else(|| "-".to_owned(), local);
    let rows = keys.iter().map(|key| {
        vec![
            key.id.clone(),
            key.role.to_string(),
            key.tenant_id.map_or_else(|| "-".to_owned(), |tenant| tenant.to_string()),
            key.name.clone(),
            local(key.created_at),
            key.created_by.clone(),
            time(key.last_used_at),
            time(key.expires_at),
            time(key.revoked_at),
        ]
    });
    table(&["id", "role", "tenant", "name", "made", "by", "used", "ends", "revoked"], rows)
}
