//! The section `[server]`: where the HTTP API listens, its logins, and how much it takes.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use jobforge_server::{CallerLimits, RateLimits, ServerConfig};
use serde::{Deserialize, Serialize};

use super::tokens::TokenSettings;

/// The least and the most that callers may take for anything, in seconds.
const TIMES: std::ops::RangeInclusive<u64> = 1..=3600;
/// The least and the most that a body's limit may be.
const BODY_BYTES: std::ops::RangeInclusive<usize> = 1024..=1 << 30;

#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ServerSettings {
    pub(crate) listen: SocketAddr,
    pub(crate) operator_url: Option<String>,
    pub(crate) worker_url: Option<String>,
    pub(crate) connections: usize,
    pub(crate) call_timeout_seconds: u64,
    pub(crate) waiters: usize,
    pub(crate) max_body_bytes: usize,
    pub(crate) held_body_bytes: usize,
    pub(crate) gather: bool,
    pub(crate) hosts: Vec<String>,
    pub(crate) ready_requires_broker: bool,
    pub(crate) rates: RateSettings,
    pub(crate) tokens: TokenSettings,
    pub(crate) callers: CallerSettings,
}

#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RateSettings {
    pub(crate) per_credential: u32,
    pub(crate) refused_per_address: u32,
}

#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CallerSettings {
    pub(crate) head_seconds: u64,
    pub(crate) body_seconds: u64,
    pub(crate) answer_seconds: u64,
    pub(crate) open: usize,
}

/// The logins of a server.
pub(crate) struct ServerLogins {
    pub(crate) tenant: String,
    pub(crate) operator: String,
    pub(crate) worker: Option<String>,
}

impl ServerSettings {
    /// Refuses what cannot work.
    pub(super) fn validate(&self) -> Result<()> {
        for (name, url) in
            [("server.operator_url", &self.operator_url), ("server.worker_url", &self.worker_url)]
        {
            if let Some(url) = url {
                // The driver's message may repeat the URL, and so its password.
                url.parse::<tokio_postgres::Config>()
                    .ok()
                    .with_context(|| format!("{name} is no Postgres URL"))?;
            }
        }
        let rules = [
            ((1..=1000).contains(&self.connections), "server.connections must be 1 to 1000"),
            ((1..=60).contains(&self.call_timeout_seconds), "server.call_timeout_seconds must be 1 to 60"),
            ((1..=10_000).contains(&self.waiters), "server.waiters must be 1 to 10000"),
            (BODY_BYTES.contains(&self.max_body_bytes), "server.max_body_bytes must be 1024 to 1073741824"),
            (
                self.held_body_bytes / 2 >= self.max_body_bytes,
                "server.held_body_bytes must be twice server.max_body_bytes at least: one tenant may take up half",
            ),
            (self.rates.per_credential > 0, "server.rates.per_credential must be more than 0"),
            (self.rates.refused_per_address > 0, "server.rates.refused_per_address must be more than 0"),
            (
                self.callers.times().all(|time| TIMES.contains(&time)),
                "the times of server.callers must be 1 to 3600 seconds",
            ),
            ((1..=100_000).contains(&self.callers.open), "server.callers.open must be 1 to 100000"),
            (
                self.hosts.iter().all(|host| is_name(host)),
                "server.hosts takes names alone, without scheme, port or path",
            ),
        ];
        match rules.iter().find(|(kept, _)| !kept) {
            Some((_, broken)) => bail!("{broken}"),
            None => self.tokens.taken().map(drop),
        }
    }

    /// A server's settings with these logins.
    pub(crate) fn config(&self, logins: ServerLogins) -> ServerConfig {
        ServerConfig {
            worker_url: logins.worker,
            connections: self.connections,
            max_body_bytes: self.max_body_bytes,
            held_body_bytes: self.held_body_bytes,
            call_timeout: Duration::from_secs(self.call_timeout_seconds),
            waiters: self.waiters,
            gather: self.gather,
            hosts: self.hosts.clone(),
            rates: RateLimits {
                per_credential: self.rates.per_credential,
                refused_per_address: self.rates.refused_per_address,
            },
            callers: self.callers.limits(),
            ..ServerConfig::new(logins.tenant, logins.operator)
        }
    }
}

impl CallerSettings {
    fn times(&self) -> impl Iterator<Item = u64> {
        [self.head_seconds, self.body_seconds, self.answer_seconds].into_iter()
    }

    fn limits(&self) -> CallerLimits {
        CallerLimits {
            head: Duration::from_secs(self.head_seconds),
            body: Duration::from_secs(self.body_seconds),
            answer: Duration::from_secs(self.answer_seconds),
            open: self.open,
        }
    }
}

fn is_name(host: &str) -> bool {
    !host.is_empty() && host.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'.' || c == b'-')
}
