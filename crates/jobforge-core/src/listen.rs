//! Notifications, driven by the caller. A notification is a hint: with all of them lost, everything still
//! works by polling.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::timeout;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{AsyncMessage, Client};
use uuid::Uuid;

use crate::connect::{Connection, connect};
use crate::error::Error;

/// There is work: claim now.
pub const WAKE: &str = "jobforge_wake";
/// A job shall stop; the payload is its lease's id: beat now.
pub const CANCEL: &str = "jobforge_cancel";
/// Somebody looks for all sleepers; the payload is its worker's id.
pub const TICK: &str = "jobforge_tick";

const OPERATION: &str = "listen";
/// Where a listener talks to itself.
const TEST: &str = "jobforge_test";
const TEST_PATIENCE: Duration = Duration::from_secs(1);

/// Makes a session listen; what it hears, whoever drives its connection gets.
pub async fn on(client: &Client, channels: &[&str]) -> Result<(), Error> {
    let quoted = channels.iter().map(|name| name.replace('"', "\"\""));
    let sql: String = quoted.map(|name| format!("listen \"{name}\";")).collect();
    client.batch_execute(&sql).await.map_err(|error| Error::call(OPERATION, error))
}

/// Makes a session stop listening.
pub async fn off(client: &Client) -> Result<(), Error> {
    client.batch_execute("unlisten *").await.map_err(|error| Error::call(OPERATION, error))
}

/// What was heard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notification {
    /// On which channel.
    pub channel: String,
    /// What it said.
    pub payload: String,
}

/// A connection that listens. It makes progress only while one of its methods is awaited.
pub struct Listener {
    client: Client,
    ear: Ear,
}

impl Listener {
    /// Connects and listens on these channels. Behind a transaction pooler this succeeds and hears nothing:
    /// see [`Listener::test`].
    ///
    /// Who may be behind one listens to no channel before it has heard a test: what a pooler's session was told to listen to is
    /// sent to whoever uses it next, who never asked for it.
    pub async fn connect(url: &str, channels: &[&str]) -> Result<Listener, Error> {
        let mut listener = Listener::mute(url).await?;
        listener.resume(channels).await?;
        Ok(listener)
    }

    /// One that listens to nothing.
    async fn mute(url: &str) -> Result<Listener, Error> {
        let (client, connection) = connect(url).await?;
        Ok(Listener { client, ear: Ear { connection: Some(connection), heard: VecDeque::new() } })
    }

    /// Listens to nothing for a while: Postgres wakes every session that listens for whatever is said in its database.
    pub async fn rest(&mut self) -> Result<(), Error> {
        self.ear.drive(off(&self.client)).await
    }

    /// Listens on these channels. What was said while it rested is lost.
    pub async fn resume(&mut self, channels: &[&str]) -> Result<(), Error> {
        let channels: Vec<&str> = channels.iter().copied().chain([TEST]).collect();
        self.ear.drive(on(&self.client, &channels)).await
    }

    /// The next notification; an error when the connection is lost. Nothing is lost when the future is
    /// dropped.
    pub async fn next(&mut self) -> Result<Notification, Error> {
        loop {
            if let Some(notification) = self.ear.heard.pop_front() {
                return Ok(notification);
            }
            if self.ear.connection.is_none() {
                return Err(Error::Closed { operation: OPERATION });
            }
            poll_fn(|cx| self.ear.poll_heard(cx)).await.map_err(|error| Error::call(OPERATION, error))?;
        }
    }

    /// Whether this listener hears what it says to itself within a second.
    pub async fn test(&mut self) -> Result<bool, Error> {
        let nonce = Uuid::new_v4().to_string();
        self.say(&nonce).await?;
        self.hears(&nonce).await
    }

    /// Whether this listener hears within a second what another session says: behind a pooler one hears, at times, itself
    /// and nobody else.
    pub async fn test_from(&mut self, url: &str) -> Result<bool, Error> {
        let nonce = Uuid::new_v4().to_string();
        Listener::mute(url).await?.say(&nonce).await?;
        self.hears(&nonce).await
    }

    /// Says a test to all who listen, from a session of its own.
    pub async fn speak(url: &str) -> Result<(), Error> {
        Listener::mute(url).await?.say("").await
    }

    async fn say(&mut self, nonce: &str) -> Result<(), Error> {
        let params: [(&(dyn ToSql + Sync), Type); 2] = [(&TEST, Type::TEXT), (&nonce, Type::TEXT)];
        let say = self.client.execute_typed("select pg_notify($1, $2)", &params);
        self.ear.drive(say).await.map(drop).map_err(|error| Error::call(OPERATION, error))
    }

    async fn hears(&mut self, nonce: &str) -> Result<bool, Error> {
        let mut others = VecDeque::new();
        let answer = timeout(TEST_PATIENCE, self.hear_own(nonce, &mut others)).await;
        others.append(&mut self.ear.heard);
        self.ear.heard = others;
        match answer {
            Ok(heard) => heard.map(|()| true),
            Err(_) => Ok(false),
        }
    }

    async fn hear_own(&mut self, nonce: &str, others: &mut VecDeque<Notification>) -> Result<(), Error> {
        loop {
            let notification = self.next().await?;
            if notification.channel != TEST {
                others.push_back(notification);
            } else if notification.payload == nonce {
                return Ok(());
            }
        }
    }
}

/// The receiving half.
struct Ear {
    /// None once it has ended: only its drop tells a query under way that no answer will come.
    connection: Option<Connection>,
    /// Heard while something else was awaited.
    heard: VecDeque<Notification>,
}

impl Ear {
    /// Awaits a query and keeps what is heard meanwhile.
    async fn drive<T>(&mut self, query: impl Future<Output = T>) -> T {
        let mut query = pin!(query);
        poll_fn(|cx| {
            loop {
                if let Poll::Ready(answer) = query.as_mut().poll(cx) {
                    return Poll::Ready(answer);
                }
                if self.connection.is_none() || self.poll_heard(cx).is_pending() {
                    return Poll::Pending;
                }
            }
        })
        .await
    }

    /// Ready once something was heard or the connection has ended.
    fn poll_heard(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), tokio_postgres::Error>> {
        loop {
            let Some(connection) = &mut self.connection else { return Poll::Ready(Ok(())) };
            match connection.poll_message(cx) {
                Poll::Ready(Some(Ok(AsyncMessage::Notification(said)))) => {
                    let (channel, payload) = (said.channel().to_owned(), said.payload().to_owned());
                    self.heard.push_back(Notification { channel, payload });
                    return Poll::Ready(Ok(()));
                }
                Poll::Ready(Some(Ok(_))) => {}
                Poll::Ready(end) => {
                    self.connection = None;
                    return Poll::Ready(end.map_or(Ok(()), |end| end.map(|_| ())));
                }
                Poll::Pending => return Poll::Pending,
            }
        }
    }
}
