//! What all requests share.

use std::fmt;
use std::sync::Arc;

use axum::http::request::Parts;
use jobforge_core::{Error, rpc};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::auth::Identity;
use crate::auth::key::Keys;
use crate::config::ServerConfig;
use crate::db::Db;
use crate::gather::Enqueues;
use crate::problem::Problem;
use crate::rules::Rules;

/// A server's state.
pub(crate) struct App {
    pub(crate) config: ServerConfig,
    pub(crate) db: Arc<Db>,
    pub(crate) enqueues: Enqueues,
    pub(crate) rules: Rules,
    pub(crate) keys: Keys,
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
    pub(crate) fn new(config: ServerConfig) -> Result<App, Error> {
        let db = Arc::new(Db::new(&config)?);
        let enqueues = Enqueues::start(db.clone(), config.call_timeout);
        let (ending, stop) = (CancellationToken::new(), CancellationToken::new());
        Ok(App { config, db, enqueues, rules: Rules::default(), keys: Keys::default(), ending, stop })
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

    /// Notes that somebody who belongs to no tenant acts for one.
    pub(crate) async fn note_named_tenant(
        &self,
        identity: &Identity,
        tenant: Uuid,
        request_id: &str,
        parts: &Parts,
    ) -> Result<(), Problem> {
        let client = self.db.operator().await?;
        let action = format!("{} {}", parts.method, parts.uri.path());
        let note = rpc::AuditNote {
            tenant_id: Some(tenant),
            action: &action,
            actor: &identity.actor,
            request_id,
        };
        let answer = rpc::record_audit(&*client, &note).await;
        client.done(answer)
    }
}
