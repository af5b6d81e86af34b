//! Connections that notice within seconds that their server is gone, frozen or demoted.
//!
//! Nothing here spawns a task: the caller drives the [`Connection`], or lets [`with_connection`] do it on
//! its own task.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use tokio::time::timeout;
use tokio_postgres::config::{Host, TargetSessionAttrs};
use tokio_postgres::{Client, Config, GenericClient, Socket};

use crate::error::Error;
pub use crate::hosts::reach;
pub use crate::plain::cancel;
use crate::rpc::inspect_server;
use crate::turns::Turns;

/// What moves a client's bytes; it does nothing unless it is polled.
pub type Connection = tokio_postgres::Connection<Socket, Turns<Socket>>;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const KEEPALIVE_IDLE: Duration = Duration::from_secs(5);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(2);
const KEEPALIVE_RETRIES: u32 = 2;
const USER_TIMEOUT: Duration = Duration::from_secs(10);
/// The driver's own default, by which a URL that says nothing is known.
const DRIVER_KEEPALIVE_IDLE: Duration = Duration::from_secs(2 * 60 * 60);
/// How long a connection may take to say goodbye.
const GOODBYE: Duration = Duration::from_secs(1);

/// Connects to a server that takes writes. The caller drives the connection.
pub async fn connect(url: &str) -> Result<(Client, Connection), Error> {
    connect_with(&config(url)?).await
}

/// Connects as this configuration says. The whole handshake is bounded: a frozen server accepts a
/// connection and then says nothing.
pub async fn connect_with(config: &Config) -> Result<(Client, Connection), Error> {
    let after = CONNECT_TIMEOUT * 2;
    match timeout(after, reach(config)).await {
        Ok(Ok(connected)) => Ok(connected),
        Ok(Err(source)) => Err(Error::Connect { server: server(config), source }),
        Err(_) => Err(Error::Timeout { operation: "connect", after }),
    }
}

/// The configuration of a URL, with our timeouts where it names none, and only servers that take writes.
pub fn config(url: &str) -> Result<Config, Error> {
    let mut config: Config = url.parse().map_err(Error::Url)?;
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(CONNECT_TIMEOUT);
    }
    if config.get_tcp_user_timeout().is_none() {
        config.tcp_user_timeout(USER_TIMEOUT);
    }
    if config.get_keepalives_idle() == DRIVER_KEEPALIVE_IDLE {
        config.keepalives_idle(KEEPALIVE_IDLE);
    }
    if config.get_keepalives_interval().is_none() {
        config.keepalives_interval(KEEPALIVE_INTERVAL);
    }
    if config.get_keepalives_retries().is_none() {
        config.keepalives_retries(KEEPALIVE_RETRIES);
    }
    if config.get_target_session_attrs() == TargetSessionAttrs::Any {
        config.target_session_attrs(TargetSessionAttrs::ReadWrite);
    }
    Ok(config)
}

/// Connects, lets `work` use the client, and says goodbye, all on the caller's task.
pub async fn with_connection<T, F>(url: &str, work: impl FnOnce(Client) -> F) -> Result<T, Error>
where
    F: Future<Output = Result<T, Error>>,
{
    let (client, connection) = connect(url).await?;
    drive(connection, work(client)).await
}

/// Runs `work`, which owns the connection's client, and moves the bytes meanwhile. A connection that
/// breaks ends the work by its own error.
pub async fn drive<T>(connection: Connection, work: impl Future<Output = T>) -> T {
    let mut open = Some(connection);
    let mut work = pin!(work);
    let answer = poll_fn(|cx| {
        loop {
            if let Poll::Ready(answer) = work.as_mut().poll(cx) {
                return Poll::Ready(answer);
            }
            let Some(connection) = &mut open else { return Poll::Pending };
            match connection.poll_message(cx) {
                // A notice or notification nobody asked for; there may be more behind it.
                Poll::Ready(Some(Ok(_))) => {}
                // Only its drop tells the queries under way that no answer will come.
                Poll::Ready(Some(Err(_)) | None) => open = None,
                Poll::Pending => return Poll::Pending,
            }
        }
    })
    .await;
    if let Some(connection) = open {
        // The client is gone with the work, so the connection ends once its goodbye is sent.
        let _ = timeout(GOODBYE, connection).await;
    }
    answer
}

/// Refuses a standby and a demoted primary, so that a connection left over from a failover is thrown away.
pub async fn check_writable<C: GenericClient>(c: &C) -> Result<(), Error> {
    if inspect_server(c).await?.read_only { Err(Error::ReadOnly) } else { Ok(()) }
}

/// Pauses between attempts to connect: they double from 100 ms to 5 s, spread so that a crowd of clients
/// does not come back in step.
#[derive(Clone, Debug, Default)]
pub struct Backoff {
    attempts: u32,
}

impl Backoff {
    const FIRST: Duration = Duration::from_millis(100);
    const LONGEST: Duration = Duration::from_secs(5);

    /// Starts with the shortest pause.
    pub fn new() -> Backoff {
        Backoff::default()
    }

    /// The next pause: between half of its length and all of it.
    pub fn next_delay(&mut self) -> Duration {
        let full = Self::FIRST.saturating_mul(1 << self.attempts.min(16)).min(Self::LONGEST);
        self.attempts = self.attempts.saturating_add(1);
        full.mul_f64(rand::random_range(0.5..=1.0))
    }

    /// Starts anew, after a success.
    pub fn reset(&mut self) {
        self.attempts = 0;
    }
}

/// Where a configuration leads, without the password.
fn server(config: &Config) -> String {
    let named = |host: &Host| match host {
        Host::Tcp(host) => host.clone(),
        Host::Unix(path) => path.display().to_string(),
    };
    let mut hosts: Vec<String> = config.get_hosts().iter().map(named).collect();
    if hosts.is_empty() {
        hosts = config.get_hostaddrs().iter().map(ToString::to_string).collect();
    }
    let ports = config.get_ports();
    let port = |index: usize| ports.get(index).or(ports.first()).copied().unwrap_or(5432);
    let places = hosts.iter().enumerate().map(|(index, host)| format!("{host}:{}", port(index)));
    let places = if hosts.is_empty() { "nowhere".to_owned() } else { places.collect::<Vec<_>>().join(",") };
    let user = config.get_user().unwrap_or("the default user");
    format!("{places}/{} as {user}", config.get_dbname().unwrap_or("the default database"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_that_says_nothing_gets_our_timeouts_and_one_that_does_keeps_its_own() {
        let plain = config("postgres://app:secret@db.example/jobs").unwrap();
        assert_eq!(plain.get_connect_timeout(), Some(&CONNECT_TIMEOUT));
        assert_eq!(plain.get_tcp_user_timeout(), Some(&USER_TIMEOUT));
        assert_eq!(plain.get_keepalives_idle(), KEEPALIVE_IDLE);
        assert_eq!(plain.get_keepalives_interval(), Some(KEEPALIVE_INTERVAL));
        assert_eq!(plain.get_keepalives_retries(), Some(KEEPALIVE_RETRIES));
        assert_eq!(plain.get_target_session_attrs(), TargetSessionAttrs::ReadWrite);
        assert_eq!(server(&plain), "db.example:5432/jobs as app");
        let several = config("postgres://app:secret@one:1,two:2/jobs").unwrap();
        assert_eq!(server(&several), "one:1,two:2/jobs as app");

        let own = config("postgres://db.example/jobs?connect_timeout=9&keepalives_idle=60").unwrap();
        assert_eq!(own.get_connect_timeout(), Some(&Duration::from_secs(9)));
        assert_eq!(own.get_keepalives_idle(), Duration::from_secs(60));
    }

    #[test]
    fn pauses_double_up_to_the_longest_and_start_anew() {
        let mut backoff = Backoff::new();
        let pauses: Vec<Duration> = (0..10).map(|_| backoff.next_delay()).collect();
        for (attempt, pause) in pauses.iter().enumerate() {
            let full = Duration::from_millis(100 << attempt.min(6)).min(Backoff::LONGEST);
            assert!(*pause <= full && *pause >= full / 2, "{attempt}: {pause:?}");
        }
        backoff.reset();
        assert!(backoff.next_delay() <= Backoff::FIRST);
    }
}
