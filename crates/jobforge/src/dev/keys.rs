//! The keys of a development server: one for each kind of caller, made once and kept while they are valid.

use std::collections::BTreeMap;

use anyhow::Result;
use jobforge_core::connect::connect;
use jobforge_core::rpc::{create_api_key, find_api_key};
use jobforge_core::{KeyScope, NewKey};
use jobforge_server::auth::key::KeyText;
use tokio_postgres::Client;

use crate::demo::TENANT;
use crate::dev::home::DevHome;
use crate::logs::hide;

/// Keys by name, as they are written into the announcement.
pub(crate) type Keys = BTreeMap<String, String>;

const SCOPES: [(&str, KeyScope); 3] = [
    ("admin", KeyScope::SuperAdmin),
    ("tenant", KeyScope::TenantAdmin(TENANT)),
    ("worker", KeyScope::Worker(None)),
];

/// The keys of an earlier start as far as the database knows them, and new ones for the others.
pub(crate) async fn prepare(home: &DevHome, operator_url: &str) -> Result<Keys> {
    let (client, connection) = connect(operator_url).await?;
    tokio::spawn(connection);
    let kept = home.keys()?.unwrap_or_default();
    let (mut keys, mut fresh) = (Keys::new(), Vec::new());
    for (name, scope) in SCOPES {
        let text = match kept.get(name) {
            Some(text) if is_valid(&client, text, scope).await? => text.clone(),
            _ => {
                let made = KeyText::generate();
                let text = made.expose().to_owned();
                fresh.push(new_key(name, scope, &made));
                text
            }
        };
        hide(&text);
        keys.insert(name.to_owned(), text);
    }
    if !fresh.is_empty() {
        // Kept first: a key that only the database knows would be of use to nobody.
        home.keep_keys(&keys)?;
    }
    for key in &fresh {
        create_api_key(&client, key).await?;
    }
    Ok(keys)
}

async fn is_valid(client: &Client, text: &str, scope: KeyScope) -> Result<bool> {
    let Some(key) = KeyText::parse(text) else { return Ok(false) };
    let found = find_api_key(client, &key.id).await?;
    Ok(found.is_some_and(|known| {
        known.secret_sha256 == key.secret_sha256 && known.scope == scope && !known.revoked && !known.expired
    }))
}

fn new_key(name: &str, scope: KeyScope, made: &KeyText) -> NewKey {
    NewKey {
        id: made.id.clone(),
        secret_sha256: made.secret_sha256,
        scope,
        name: format!("jobforge dev: {name}"),
        expires_at: None,
        author: None,
        only_first: false,
    }
}
