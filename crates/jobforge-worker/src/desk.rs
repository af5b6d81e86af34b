//! Where handlers put questions to the database: one connection that all of them share, made when the first
//! one asks. Nobody holds it while a handler runs; calls go through it side by side.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use jobforge_core::Error;
use tokio::sync::Mutex;
use tokio_postgres::Client;

use crate::config::WorkerConfig;
use crate::link::{Link, within};

/// The shared connection.
#[derive(Debug)]
pub(crate) struct Desk {
    link: Mutex<Link>,
    patience: Duration,
}

impl Desk {
    pub(crate) fn new(config: &WorkerConfig) -> Desk {
        Desk { link: Mutex::new(Link::new(config)), patience: config.call_timeout }
    }

    /// Makes one call, within the time in which a statement must be answered.
    pub(crate) async fn call<T, F, W>(&self, operation: &'static str, call: F) -> Result<T, Error>
    where
        F: FnOnce(Arc<Client>) -> W,
        W: Future<Output = Result<T, Error>>,
    {
        let client = self.link.lock().await.client().await?;
        let answer = within(self.patience, operation, call(client.clone())).await;
        if answer.as_ref().is_err_and(Error::is_connection) {
            self.link.lock().await.forget(&client);
        }
        answer
    }
}
