//! What the server knows of its database being away: told once when it begins and once when it ends, not by every request.
//!
//! And which connections are too old: whatever leads to a server that takes no writes any more is not used again, be it
//! only to read, for what is written now is written elsewhere.

use std::error::Error as StdError;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use jobforge_core::Error;
use tokio::sync::watch;

/// What is known.
#[derive(Debug)]
pub(crate) struct Outage {
    /// Since when nobody answers.
    since: Mutex<Option<Instant>>,
    /// Connections made before are not used any more.
    demoted: watch::Sender<Instant>,
}

impl Outage {
    pub(crate) fn new() -> Outage {
        Outage { since: Mutex::default(), demoted: watch::Sender::new(Instant::now()) }
    }

    /// Learns from how a call ended.
    pub(crate) fn heed<T>(&self, answer: &Result<T, Error>) {
        match answer {
            Err(error) if error.is_connection() => {
                if error.is_read_only() {
                    self.demoted.send_replace(Instant::now());
                }
                self.begin(error);
            }
            _ => self.end(),
        }
    }

    /// There is no connection to be had.
    pub(crate) fn begin(&self, error: &(dyn StdError + 'static)) {
        let mut since = self.since.lock().unwrap_or_else(PoisonError::into_inner);
        if since.is_none() {
            *since = Some(Instant::now());
            tracing::warn!(error, "the database does not answer: requests get 503 until it does");
        } else {
            tracing::debug!(error, "the database does not answer");
        }
    }

    /// Whether it is known that nobody answers.
    pub(crate) fn is_on(&self) -> bool {
        self.since.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Whether a connection of this age leads to a server that was found to take no writes.
    pub(crate) fn is_stale(&self, made: Instant) -> bool {
        made < *self.demoted.borrow()
    }

    /// Hears of servers that take no writes any more, from now on.
    pub(crate) fn demotions(&self) -> watch::Receiver<Instant> {
        self.demoted.subscribe()
    }

    fn end(&self) {
        let ended = self.since.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(since) = ended {
            tracing::info!(after_ms = since.elapsed().as_millis(), "the database answers again");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_only_server_makes_older_connections_stale_and_a_broken_one_does_not() {
        let outage = Outage::new();
        let made = Instant::now();
        outage.heed::<()>(&Err(Error::Closed { operation: "test" }));
        assert!(outage.is_on() && !outage.is_stale(made));
        outage.heed(&Ok(()));
        assert!(!outage.is_on());
        outage.heed::<()>(&Err(Error::ReadOnly));
        assert!(outage.is_on() && outage.is_stale(made));
        assert!(!outage.is_stale(Instant::now()));
    }
}
