//! What the server knows of its database being away: told once when it begins and once when it ends, not by every request.
//!
//! Meanwhile most requests are refused at once: one now and then tries to connect, so that a server which comes back is not
//! met by a crowd.
//!
//! And which connections are too old: whatever leads to a server that takes no writes any more is not used again, be it
//! only to read, for what is written now is written elsewhere.

use std::error::Error as StdError;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use jobforge_core::Error;
use tokio::sync::watch;

/// Between two tries to connect while none succeeds.
const PAUSE: Duration = Duration::from_millis(300);
/// An outage that comes and goes is told of once in this time.
const TOLD: Duration = Duration::from_secs(10);

/// What is known.
#[derive(Debug)]
pub(crate) struct Outage {
    state: Mutex<State>,
    /// Connections made before are not used any more.
    demoted: watch::Sender<Instant>,
}

#[derive(Debug, Default)]
struct State {
    /// Since when nobody answers.
    since: Option<Instant>,
    /// When that was last told.
    told: Option<Instant>,
}

impl Outage {
    pub(crate) fn new() -> Outage {
        Outage { state: Mutex::default(), demoted: watch::Sender::new(Instant::now()) }
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
        let mut state = self.state();
        let is_new = state.since.is_none();
        state.since.get_or_insert_with(Instant::now);
        if is_new && state.told.is_none_or(|told| told.elapsed() > TOLD) {
            state.told = Some(Instant::now());
            tracing::warn!(error, "the database does not answer: requests get 503 until it does");
        } else {
            tracing::debug!(error, "the database does not answer");
        }
    }

    /// Whether it is known that nobody answers.
    pub(crate) fn is_on(&self) -> bool {
        self.state().since.is_some()
    }

    /// Whether a connection of this age leads to a server that was found to take no writes.
    pub(crate) fn is_stale(&self, made: Instant) -> bool {
        made < self.demoted()
    }

    /// When a server was last found to take no writes.
    pub(crate) fn demoted(&self) -> Instant {
        *self.demoted.borrow()
    }

    /// Hears of servers that take no writes any more, from now on.
    pub(crate) fn demotions(&self) -> watch::Receiver<Instant> {
        self.demoted.subscribe()
    }

    fn end(&self) {
        if let Some(since) = self.state().since.take() {
            tracing::info!(after_ms = millis(since), "the database answers again");
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The tries of one login to connect.
#[derive(Debug, Default)]
pub(crate) struct Tries(Mutex<Tried>);

#[derive(Debug, Default)]
struct Tried {
    /// While none succeeds: when the next one may begin.
    next: Option<Instant>,
    succeeded: Option<Instant>,
}

impl Tries {
    /// Begins a try, unless it would be one too many: none succeeded lately, or not since the server was `demoted`.
    pub(crate) fn begin(&self, demoted: Instant) -> Option<Instant> {
        let (now, mut tried) = (Instant::now(), self.tried());
        if tried.succeeded.is_some_and(|at| at < demoted) {
            tried.next.get_or_insert(now);
        }
        if let Some(next) = &mut tried.next {
            if now < *next {
                return None;
            }
            *next = now + PAUSE;
        }
        Some(now)
    }

    pub(crate) fn succeeded(&self) {
        *self.tried() = Tried { next: None, succeeded: Some(Instant::now()) };
    }

    /// A try that began then came to nothing; if another one succeeded meanwhile, it says nothing.
    pub(crate) fn failed(&self, began: Instant) {
        let mut tried = self.tried();
        if tried.succeeded.is_none_or(|at| at < began) {
            tried.next.get_or_insert_with(|| Instant::now() + PAUSE);
        }
    }

    fn tried(&self) -> MutexGuard<'_, Tried> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn millis(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX)
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
    #[test]
    fn while_no_try_succeeds_few_are_made() {
        let (tries, demoted) = (Tries::default(), Instant::now());
        let (first, second) = (tries.begin(demoted).unwrap(), tries.begin(demoted).unwrap());
        tries.failed(first);
        assert_eq!(tries.begin(demoted), None, "too early");
        tries.tried().next = Some(Instant::now());
        assert!(tries.begin(demoted).is_some(), "one after the pause");
        assert_eq!(tries.begin(demoted), None, "and no other beside it");
        tries.succeeded();
        tries.failed(second);
        assert!(tries.begin(demoted).is_some(), "what failed late says nothing");
        let demoted = Instant::now();
        assert!(tries.begin(demoted).is_some(), "one finds out whether there is another server");
        assert_eq!(tries.begin(demoted), None, "for all");
    }
}
