//! A wide window is for jobs that are all quick. A slow one among them shows only while it runs, when hundreds may wait
//! behind it on a lease that was made for quick ones: should the worker die, they would be taken for started.

use std::sync::Arc;
use std::time::{Duration, Instant};

use jobforge_core::Claimed;
use tokio::time::sleep;

use crate::engine::Engine;
use crate::job::Lease;
use crate::runner::Claimer;

/// How often to look. A job that is not over by then is slow.
const LOOK: Duration = Duration::from_millis(100);

impl Claimer {
    /// Takes the pace into account: the window of the next claim, and whether the lease there is may take more jobs.
    pub(crate) fn fit_window(&mut self) {
        let config = &self.engine.config;
        self.quick = self.engine.pace.is_quick(self.quick, Instant::now());
        self.window = if self.quick { config.window() } else { config.tight_window() };
        match &self.lease {
            Some(lease) if lease.is_retiring() => {}
            // What a budget has counted is not given back: others would have to be claimed in its place.
            Some(lease) if lease.window() > self.window && self.budget.is_none() => {
                narrow(&self.engine, lease);
            }
            Some(lease) if lease.window() > self.window => {
                lease.retire();
                self.engine.report_now.notify_one();
            }
            _ => {}
        }
    }

    /// The window to ask for: of a new lease, or where the one there is has less.
    pub(crate) fn wider(&self) -> Option<usize> {
        let has = self.lease.as_ref().map_or(0, |lease| lease.window());
        (self.window > has).then_some(self.window)
    }

    /// Goes by the window that the claim gave the lease there is.
    pub(crate) fn widen(&mut self, claimed: &Claimed) {
        if let Some(window) = self.wider()
            && let Some(lease) = self.lease.clone().filter(|lease| lease.id == claimed.lease_id)
        {
            lease.widen(window);
            self.engine.buffer.settle(&lease, 0);
            self.watch_window();
        }
    }

    /// Looks after a lease with a wide window, once it is held: what nobody holds needs no looking after.
    pub(crate) fn watch_window(&mut self) {
        self.watching.abort_all();
        let wide = |lease: &&Arc<Lease>| lease.window() > self.engine.config.tight_window();
        if let Some(lease) = self.lease.as_ref().filter(wide).filter(|_| self.budget.is_none()) {
            self.watching.spawn(watch(self.engine.clone(), lease.clone()));
        }
    }
}

/// Wakes the claimer when a lease's wide window turns out to be too wide, whatever it waits for: the buffer may be full,
/// or the queue empty.
async fn watch(engine: Arc<Engine>, lease: Arc<Lease>) {
    while !lease.is_retiring() && engine.holdings.knows(lease.id) {
        sleep(LOOK).await;
        if !engine.pace.is_quick(true, Instant::now()) {
            engine.buffer.room.notify_one();
            engine.wake.notify_one();
        }
    }
}

/// Gives back what waits on a lease, which takes no more: it can be had again on one with a tight window.
fn narrow(engine: &Engine, lease: &Arc<Lease>) {
    lease.retire();
    let waiting = engine.buffer.take_out(|job| Arc::ptr_eq(&job.lease, lease));
    tracing::debug!(
        worker_id = engine.worker_id(),
        given_back = waiting.len(),
        "jobs are not all quick any more"
    );
    engine.give_back(waiting);
    engine.report_now.notify_one();
}
