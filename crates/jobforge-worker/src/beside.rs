//! Claims beside the first ones go on a connection of their own. It is opened, and goes through a claim that takes nothing,
//! while others claim: nobody waits for it.

use std::sync::Arc;

use jobforge_core::{Error, rpc};
use tokio::task::JoinSet;
use tokio_postgres::Client;

use crate::engine::Engine;
use crate::link::{Link, within};

/// The second connection for claims.
#[derive(Default)]
pub(crate) struct Beside {
    link: Option<Link>,
    opening: JoinSet<Link>,
}

impl Beside {
    /// The client, if the connection is there.
    pub(crate) fn client(&mut self) -> Option<Arc<Client>> {
        if let Some(Ok(link)) = self.opening.try_join_next() {
            self.link = Some(link);
        }
        self.link.as_ref()?.opened()
    }

    /// Opens the connection, unless that is under way, for the claims after this one.
    pub(crate) fn open(&mut self, engine: &Arc<Engine>) {
        if self.opening.is_empty() && self.client().is_none() {
            let link = self.link.take().unwrap_or_else(|| Link::new(&engine.config));
            self.opening.spawn(open(engine.clone(), link));
        }
    }

    /// Throws the connection away if the answer shows that it broke.
    pub(crate) fn heed<T>(&mut self, answer: &Result<T, Error>) {
        if let Some(link) = &mut self.link {
            link.heed(answer);
        }
    }
}

async fn open(engine: Arc<Engine>, mut link: Link) -> Link {
    if let Ok(client) = link.client().await {
        rehearse(&engine, &client).await;
    }
    link
}

/// Lets a new connection go through a claim that takes nothing. If that fails, the claims that follow tell.
pub(crate) async fn rehearse(engine: &Engine, client: &Client) {
    let config = &engine.config;
    let call = rpc::rehearse_claim(client, engine.worker_id(), &config.queues);
    let _ = within(config.call_timeout, "claim_jobs", call).await;
}
