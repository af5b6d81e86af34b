//! JobForge's HTTP server as its users have it: logins that may do no more than they must, tenants with a key each.

use std::net::{Ipv4Addr, SocketAddr};

use anyhow::Result;
use jobforge_core::{KeyScope, NewKey, Tenant, rpc};
use jobforge_server::auth::key::KeyText;
use jobforge_server::{RateLimits, Server, ServerConfig};
use tokio_postgres::Client;
use uuid::Uuid;

use crate::connection::connect;
use crate::http::{Served, TENANTS};

/// Beyond what any machine does: limits are not what is measured.
const NO_LIMIT: u32 = 1_000_000;

/// Starts one in this process, with logins for tenants' calls and for the operator's.
pub async fn serve([tenant_url, operator_url]: [String; 2], gather: bool) -> Result<Served> {
    let operator = connect(&operator_url).await?;
    let mut tenants = Vec::new();
    for number in 0..TENANTS {
        let tenant = Uuid::now_v7();
        rpc::upsert_tenant(&operator, &Tenant::named(tenant, format!("bench {number}"))).await?;
        tenants.push((tenant, key(&operator, KeyScope::Producer(tenant)).await?));
    }
    let rates = RateLimits { per_credential: NO_LIMIT, refused_per_address: NO_LIMIT };
    let config = ServerConfig { gather, rates, ..ServerConfig::new(tenant_url.clone(), operator_url) };
    let handle = Server::new(config).await?.start(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await?;
    Ok(Served { handle, producer_url: tenant_url, tenants })
}

/// A new key.
pub async fn key(operator: &Client, scope: KeyScope) -> Result<String> {
    let made = KeyText::generate();
    let key = NewKey {
        id: made.id.clone(),
        secret_sha256: made.secret_sha256,
        scope,
        name: "bench".to_owned(),
        expires_at: None,
        author: None,
        only_first: false,
    };
    rpc::create_api_key(operator, &key).await?;
    Ok(made.expose().to_owned())
}
