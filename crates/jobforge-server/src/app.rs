//! What all requests share.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::extract::MatchedPath;
use axum::http::Method;
use axum::http::request::Parts;
use jobforge_core::{Actor, Error, Subject, rpc};
use serde_json::json;
use serde_json::value::to_raw_value;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::auth::bootstrap::Bootstrap;
use crate::auth::key::Keys;
use crate::auth::rate::Rates;
use crate::auth::session::Sessions;
use crate::auth::token::Tokens;
use crate::bulks::Bulks;
use crate::config::ServerConfig;
use crate::db::Db;
use crate::gather::{Enqueues, Reports};
use crate::held_bodies::HeldBodies;
use crate::problem::Problem;
use crate::rules::Rules;
use crate::waiters::Waiters;
use crate::wake::Wakes;

/// Who acts for a tenant is noted once in this time.
const NOTED: Duration = Duration::from_secs(60);

/// A credential, the tenant it names, and the route it does so for.
type Named = (String, Uuid, Method, String);

/// A server's state.
pub(crate) struct App {
    pub(crate) config: ServerConfig,
    pub(crate) db: Arc<Db>,
    pub(crate) enqueues: Enqueues,
    pub(crate) reports: Reports,
    pub(crate) wakes: Wakes,
    pub(crate) rules: Rules,
    pub(crate) keys: Keys,
    pub(crate) waiters: Waiters,
    pub(crate) bulks: Bulks,
    pub(crate) sessions: Sessions,
    pub(crate) tokens: Option<Tokens>,
    pub(crate) bootstrap: Bootstrap,
    pub(crate) rates: Rates,
    pub(crate) bodies: Arc<HeldBodies>,
    /// What was noted lately of those who name a tenant.
    named: Mutex<HashMap<Named, Instant>>,
    /// The database was there and the logins are fit: requests are let in.
    pub(crate) opened: CancellationToken,
    /// Long polls and streams end.
    pub(crate) ending: CancellationToken,
    /// Everything ends, whatever is under way.
    stop: CancellationToken,
}

impl fmt::Debug for App {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("App")
    }
}

impl App {
    pub(crate) fn new(config: ServerConfig, tokens: Option<Tokens>) -> Result<App, Error> {
        let db = Arc::new(Db::new(&config)?);
        let enqueues = Enqueues::start(db.clone(), &config);
        let (ending, stop) = (CancellationToken::new(), CancellationToken::new());
        let waiters = Waiters::start(db.clone(), &config, ending.clone());
        let reports = Reports::start(db.clone(), config.call_timeout);
        let ear = config.worker_url.as_ref().map(|url| config.direct_url.as_ref().unwrap_or(url).clone());
        let wakes = Wakes::start(ear, db.clone(), ending.clone());
        Ok(App {
            keys: Keys::new(config.credential_memory),
            sessions: Sessions::new(config.credential_memory),
            rates: Rates::new(config.rates),
            bodies: HeldBodies::new(config.held_body_bytes),
            bootstrap: Bootstrap::default(),
            rules: Rules::default(),
            named: Mutex::default(),
            tokens,
            waiters,
            bulks: Bulks::default(),
            reports,
            wakes,
            config,
            db,
            enqueues,
            opened: CancellationToken::new(),
            ending,
            stop,
        })
    }

    /// Returns when nothing may go on.
    pub(crate) async fn stopped(&self) {
        self.stop.cancelled().await;
    }

    pub(crate) fn stop(&self) {
        self.ending.cancel();
        self.stop.cancel();
        self.db.close();
    }

    /// Notes that somebody who belongs to no tenant acts for one: once a minute for each route.
    pub(crate) async fn note_named_tenant(
        &self,
        actor: &Actor,
        tenant: Uuid,
        parts: &Parts,
    ) -> Result<(), Problem> {
        let route = parts.extensions.get::<MatchedPath>().map_or(parts.uri.path(), MatchedPath::as_str);
        let named = (actor.credential.clone(), tenant, parts.method.clone(), route.to_owned());
        let now = Instant::now();
        if self.named().get(&named).is_some_and(|at| now.duration_since(*at) < NOTED) {
            return Ok(());
        }
        let client = self.db.operator().await?;
        let detail = json!({ "method": parts.method.as_str(), "path": parts.uri.path() });
        let detail = to_raw_value(&detail).unwrap_or_default();
        let subject = Subject::new("tenant", tenant.to_string());
        let note = async |c: &_| {
            let note = rpc::record_audit(c, Some(tenant), "act_for_tenant", Some(&subject), &detail);
            rpc::as_actor(c, actor, note).await
        };
        client.call(note).await?;
        self.named().insert(named, now);
        Ok(())
    }

    /// Forgets what is over.
    pub(crate) fn tidy(&self) {
        self.rates.tidy();
        self.named().retain(|_, at| at.elapsed() < NOTED);
    }

    fn named(&self) -> MutexGuard<'_, HashMap<Named, Instant>> {
        self.named.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
