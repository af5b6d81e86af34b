//! What all requests share.

use std::fmt;
use std::sync::Arc;

use axum::http::request::Parts;
use jobforge_core::{Actor, Error, Subject, rpc};
use serde_json::json;
use serde_json::value::to_raw_value;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::auth::key::Keys;
use crate::bulks::Bulks;
use crate::config::ServerConfig;
use crate::db::Db;
use crate::gather::Enqueues;
use crate::problem::Problem;
use crate::rules::Rules;
use crate::waiters::Waiters;

/// A server's state.
pub(crate) struct App {
    pub(crate) config: ServerConfig,
    pub(crate) db: Arc<Db>,
    pub(crate) enqueues: Enqueues,
    pub(crate) rules: Rules,
    pub(crate) keys: Keys,
    pub(crate) waiters: Waiters,
    pub(crate) bulks: Bulks,
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
        let enqueues = Enqueues::start(db.clone(), &config);
        let (ending, stop) = (CancellationToken::new(), CancellationToken::new());
        let waiters = Waiters::start(db.clone(), &config, ending.clone());
        Ok(App {
            config,
            db,
            enqueues,
            rules: Rules::default(),
            keys: Keys::default(),
            waiters,
            bulks: Bulks::default(),
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

    /// Notes that somebody who belongs to no tenant acts for one.
    pub(crate) async fn note_named_tenant(
        &self,
        actor: &Actor,
        tenant: Uuid,
        parts: &Parts,
    ) -> Result<(), Problem> {
        let client = self.db.operator().await?;
        let detail = json!({ "method": parts.method.as_str(), "path": parts.uri.path() });
        let detail = to_raw_value(&detail).unwrap_or_default();
        let subject = Subject::new("tenant", tenant.to_string());
        let note = rpc::record_audit(&*client, Some(tenant), "act_for_tenant", Some(&subject), &detail);
        let answer = rpc::as_actor(&client, actor, note).await;
        client.done(answer)
    }
}
