//! A claim that is under way onto a lease that is there. Until its jobs are taken in, nobody may give back what seems to be
//! unknown on that lease, nor close it.

use std::sync::Arc;
use std::time::Instant;

use uuid::Uuid;

use crate::engine::Engine;
use crate::job::{Lease, Life};
use crate::runner::Claimer;

/// Lasts until the claim's jobs are taken in, or its end is known.
pub(crate) struct Claiming {
    engine: Arc<Engine>,
    lease: Arc<Lease>,
}

impl Claimer {
    /// The lease to put new jobs on, if it has enough life before it. One without jobs is not renewed: it is
    /// left to end, and the database makes a new one.
    pub(crate) fn usable_lease(&mut self) -> Option<Claiming> {
        self.fit_window();
        let claiming = Claiming::on(&self.engine, self.lease.as_ref()?);
        let (config, lease) = (&self.engine.config, &claiming.lease);
        let holds_jobs = self.engine.holdings.holds_jobs(lease);
        let lasts = lease.good_until() > Instant::now() + config.heartbeat_interval() + config.margin();
        if lease.life() == Life::Live && !lease.is_retiring() && (holds_jobs || lasts) {
            return Some(claiming);
        }
        if !holds_jobs && !lease.is_retiring() {
            self.engine.holdings.forget(lease);
        }
        self.lease = None;
        None
    }
}

impl Claiming {
    /// Before the lease is looked at: whoever lets it retire after that look sees that a claim is under way.
    fn on(engine: &Arc<Engine>, lease: &Arc<Lease>) -> Claiming {
        lease.set_claiming(true);
        Claiming { engine: engine.clone(), lease: lease.clone() }
    }

    pub(crate) fn lease_id(&self) -> Uuid {
        self.lease.id
    }
}

impl Drop for Claiming {
    fn drop(&mut self) {
        self.lease.set_claiming(false);
        if self.lease.is_retiring() {
            self.engine.report_now.notify_one();
        }
    }
}
