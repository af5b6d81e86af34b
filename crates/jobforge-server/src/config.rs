//! What a server is told before it starts.

use std::sync::Arc;
use std::time::Duration;

use crate::auth::TokenConfig;
use crate::broker_check::BrokerCheck;
use crate::sealer::Sealer;
use crate::tick::Tick;

/// The settings of one server. A library reads no environment: whoever starts it fills this in.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// The login for tenants' calls: a member of `jf_tenant`, trusted to name any tenant.
    pub tenant_url: String,
    /// The login for keys, definitions, tenants and workers: a member of `jf_operator`.
    pub operator_url: String,
    /// The login for workers' calls: a member of `jf_worker`. Without it there are no worker routes.
    pub worker_url: Option<String>,
    /// A way around a pooler, on which notifications are heard.
    pub direct_url: Option<String>,
    /// The most connections of each login.
    pub connections: usize,
    /// How long a call of the database may take; then it is told to stop, and the answer is 503.
    pub call_timeout: Duration,
    /// The largest body of a request, in bytes.
    pub max_body_bytes: usize,
    /// The most bytes of requests' bodies in memory at once, over all connections; one tenant may take up half of them.
    /// Twice the largest body at least.
    pub held_body_bytes: usize,
    /// Concurrent enqueues are written together.
    pub gather: bool,
    /// Development: jobs can be run by a request, and no key needs to be made by hand.
    pub development: bool,
    /// What runs due jobs when a request asks for it, in development alone.
    pub tick: Option<Arc<dyn Tick>>,
    /// The most requests that wait for jobs to end, up to 10,000; one tenant may have half of them.
    pub waiters: usize,
    /// Who seals connectors' secrets. Without, a secret given in clear is refused.
    pub sealer: Option<Arc<dyn Sealer>>,
    /// The broker without which the server is not ready. Without, the database alone counts.
    pub broker: Option<Arc<dyn BrokerCheck>>,
    /// Whose tokens are taken beside API keys.
    pub tokens: Option<TokenConfig>,
    /// How long a credential that was looked up is believed without asking again; less than five seconds, so that a
    /// revocation is felt in time where no notification is heard.
    pub credential_memory: Duration,
    /// The names under which browsers may reach this server; an address is one always, and so is `localhost`.
    pub hosts: Vec<String>,
    /// How many requests are taken.
    pub rates: RateLimits,
    /// How slow callers may be, and how many.
    pub callers: CallerLimits,
}

/// How slow a caller may be, and how many there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallerLimits {
    /// For the head of a request, and between two of them.
    pub head: Duration,
    /// For the whole body of a request.
    pub body: Duration,
    /// For taking in any part of an answer.
    pub answer: Duration,
    /// The most connections at a time; more wait to be accepted.
    pub open: usize,
}

/// Requests a second, as many of them at once; 0 is no limit.
#[derive(Clone, Copy, Debug)]
pub struct RateLimits {
    /// Of one credential.
    pub per_credential: u32,
    /// Refused ones of one address: whoever guesses keys is slowed down.
    pub refused_per_address: u32,
}

impl ServerConfig {
    /// A server on these logins, with everything else at its default.
    pub fn new(tenant_url: impl Into<String>, operator_url: impl Into<String>) -> ServerConfig {
        ServerConfig {
            tenant_url: tenant_url.into(),
            operator_url: operator_url.into(),
            worker_url: None,
            direct_url: None,
            connections: 8,
            call_timeout: Duration::from_secs(10),
            max_body_bytes: 4 << 20,
            held_body_bytes: 256 << 20,
            gather: true,
            development: false,
            tick: None,
            waiters: 5_000,
            sealer: None,
            broker: None,
            tokens: None,
            credential_memory: Duration::from_secs(3),
            hosts: Vec::new(),
            rates: RateLimits { per_credential: 5_000, refused_per_address: 20 },
            callers: CallerLimits {
                head: Duration::from_secs(30),
                body: Duration::from_secs(30),
                answer: Duration::from_secs(30),
                open: 4096,
            },
        }
    }
}
