//! One connection of the worker's own, made anew whenever it broke.
//!
//! Whoever uses it asks for the client, makes a call through [`within`], and shows the answer to
//! [`Link::heed`], which throws a broken connection away.

use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::time::Duration;

use jobforge_core::connect::Connection;
use jobforge_core::{Error, connect};
use tokio::task::JoinHandle;
use tokio_postgres::{AsyncMessage, Client};

use crate::config::WorkerConfig;
use crate::engine::Engine;
use crate::listener::heed;

/// A connection and how to make it.
#[derive(Debug)]
pub(crate) struct Link {
    url: String,
    /// How long a new connection may take.
    patience: Duration,
    open: Option<Open>,
    /// Connections made so far.
    made: u64,
    /// Who is told what is said on it, and of its end, where it may be told to listen.
    listens_for: Option<Arc<Engine>>,
}

#[derive(Debug)]
struct Open {
    client: Arc<Client>,
    driver: JoinHandle<()>,
    listens_for: Option<Arc<Engine>>,
}

impl Link {
    pub(crate) fn new(config: &WorkerConfig) -> Link {
        Link {
            url: config.database_url.clone(),
            patience: config.call_timeout,
            open: None,
            made: 0,
            listens_for: None,
        }
    }

    /// One that may be told to listen.
    pub(crate) fn listening(engine: &Arc<Engine>) -> Link {
        Link { listens_for: Some(engine.clone()), ..Link::new(&engine.config) }
    }

    /// The client; connects if there is none.
    pub(crate) async fn client(&mut self) -> Result<Arc<Client>, Error> {
        if let Some(client) = self.opened() {
            return Ok(client);
        }
        self.open = None;
        let (client, connection) = within(self.patience, "connect", connect::connect(&self.url)).await?;
        let driver = tokio::spawn(drive(connection, self.listens_for.clone()));
        let client = Arc::new(client);
        self.open = Some(Open { client: client.clone(), driver, listens_for: self.listens_for.clone() });
        self.made += 1;
        Ok(client)
    }

    /// Which connection this is: a new number means a new session.
    pub(crate) fn made(&self) -> u64 {
        self.made
    }

    /// The client, if there is one.
    pub(crate) fn opened(&self) -> Option<Arc<Client>> {
        self.open.as_ref().filter(|open| !open.client.is_closed()).map(|open| open.client.clone())
    }

    /// Whether this very connection is open.
    pub(crate) fn is_open(&self) -> bool {
        self.opened().is_some()
    }

    /// Throws this connection away, unless another has taken its place.
    pub(crate) fn forget(&mut self, client: &Arc<Client>) {
        if self.open.as_ref().is_some_and(|open| Arc::ptr_eq(&open.client, client)) {
            self.open = None;
        }
    }

    /// Throws the connection away if the answer shows that it broke.
    pub(crate) fn heed<T>(&mut self, answer: &Result<T, Error>) {
        if let Err(error) = answer
            && error.is_connection()
        {
            self.open = None;
        }
    }
}

impl Drop for Open {
    /// The driver of a silent connection would wait for ever for answers nobody wants.
    fn drop(&mut self) {
        self.driver.abort();
        // A driver that is stopped does not tell that nobody hears on it any more.
        if let Some(engine) = &self.listens_for {
            engine.ear.set_claimer_hears(false);
        }
    }
}

/// Moves a connection's bytes to its end, which the calls on it tell.
async fn drive(mut connection: Connection, listens_for: Option<Arc<Engine>>) {
    while let Some(Ok(message)) = poll_fn(|cx| connection.poll_message(cx)).await {
        if let (AsyncMessage::Notification(said), Some(engine)) = (message, &listens_for) {
            engine.ear.note_claimer_heard();
            heed(engine, said.channel(), said.payload());
        }
    }
    if let Some(engine) = listens_for {
        // Whoever sleeps must learn that nobody will wake it this way.
        engine.ear.set_claimer_hears(false);
        engine.wake.notify_one();
    }
}

/// A call that has no answer in time counts as a broken connection.
pub(crate) async fn within<T>(
    after: Duration,
    operation: &'static str,
    call: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    match tokio::time::timeout(after, call).await {
        Ok(answer) => answer,
        Err(_) => Err(Error::Timeout { operation, after }),
    }
}

/// An error with its causes, for a log line.
pub(crate) fn told(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}
