//! What a new connection goes through before anybody waits for it: calls that take and end nothing. A session compiles and
//! plans what it needs for the first time then, which takes as long as thousands of jobs.

use jobforge_core::rpc;
use tokio::time::timeout;
use tokio_postgres::Client;

use crate::engine::Engine;
use crate::link::{Link, within};

/// For a connection on which jobs are claimed, and reported where it is lent. If one fails, the calls that follow tell.
pub(crate) async fn rehearse_claims(engine: &Engine, client: &Client) {
    let config = &engine.config;
    let call = rpc::rehearse_claim(client, engine.worker_id(), &config.queues);
    let _ = within(config.call_timeout, "claim_jobs", call).await;
    rehearse_reports(engine, client).await;
}

/// The reporter's first connection, ahead of the first outcome, which would have to wait. If it does not open in time, whoever
/// needs it tries again.
pub(crate) async fn open_reports(engine: &Engine) -> Link {
    let opened = async {
        let mut link = Link::new(&engine.config);
        if let Ok(client) = link.client().await {
            rehearse_reports(engine, &client).await;
        }
        link
    };
    timeout(engine.config.call_timeout, opened).await.unwrap_or_else(|_| Link::new(&engine.config))
}

async fn rehearse_reports(engine: &Engine, client: &Client) {
    let call = rpc::rehearse_complete(client);
    let _ = within(engine.config.call_timeout, "rehearse_complete", call).await;
}
