//! What the connection that claims has ready where jobs come one at a time: the claim, parsed, and an ear of its own. Parsing
//! would be a good part of such a job's way, and so would the way from another connection's thread.
//!
//! Postgres wakes every session that listens for every notification of the database, and counts that as a transaction: a worker
//! that has had nothing to do for some seconds leaves the listening to its heartbeat's thread. Until then that one rests
//! (`listener.rs`).

use std::time::Duration;

use jobforge_core::{listen, rpc};

use crate::link::within;
use crate::listener::CHANNELS;
use crate::runner::Claimer;

/// How long a sleeper that nobody wakes goes on listening.
pub(crate) const LISTENS: Duration = Duration::from_secs(3);

/// What is ready on which connection.
#[derive(Default)]
pub(crate) struct Readiness {
    /// The claim as it was prepared on the connection of that number, unless that failed.
    claim: Option<rpc::PreparedClaim>,
    claim_on: u64,
    /// The connection that was told to listen, and the one that does.
    told_on: u64,
    listens_on: u64,
}

impl Readiness {
    /// The claim, if it was prepared on this connection.
    pub(crate) fn claim(&self, made: u64) -> Option<&rpc::PreparedClaim> {
        self.claim.as_ref().filter(|_| self.claim_on == made)
    }

    pub(crate) fn forget_claim(&mut self) {
        self.claim = None;
    }
}

impl Claimer {
    /// Prepares the claim, once per connection, and listens for work. Whoever hears on the very way that claims go has no
    /// pooler between, or one that leaves sessions whole; else a statement's name may mean another's.
    pub(crate) async fn make_ready(&mut self) {
        if self.is_ready() {
            return;
        }
        let patience = self.engine.config.call_timeout;
        let Ok(client) = self.link.client().await else { return };
        let made = self.link.made();
        if self.readiness.claim_on != made {
            self.readiness.claim_on = made;
            let answer = within(patience, "claim_jobs", rpc::prepare_claim(&*client)).await;
            self.link.heed(&answer);
            self.readiness.claim = answer.ok();
        }
        self.readiness.told_on = made;
        let answer = within(patience, "listen", listen::on(&client, &CHANNELS)).await;
        self.link.heed(&answer);
        if answer.is_ok() {
            self.readiness.listens_on = made;
        }
    }

    /// Whether nothing is left to make ready on this connection, be it because that failed.
    pub(crate) fn is_ready(&self) -> bool {
        let made = self.link.made();
        let ready = self.readiness.claim_on == made && self.readiness.told_on == made;
        self.engine.config.direct_url.is_some() || ready
    }

    /// Whether the connection that claims hears for itself that there is work.
    pub(crate) fn hears(&self) -> bool {
        self.readiness.listens_on == self.link.made() && self.link.is_open()
    }

    /// Leaves the listening to others until there was work again. From before it is told to the session the heartbeat's
    /// listener passes on what it hears at once.
    pub(crate) async fn stop_listening(&mut self) {
        self.readiness.told_on = 0;
        self.readiness.listens_on = 0;
        self.engine.ear.set_claimer_hears(false);
        let Ok(client) = self.link.client().await else { return };
        let answer = within(self.engine.config.call_timeout, "unlisten", listen::off(&client)).await;
        self.link.heed(&answer);
    }
}
