//! A wide window is for jobs that are all quick. A slow one among them shows only while it runs, when hundreds may wait
//! behind it on a lease that was made for quick ones: should the worker die, they would be taken for started.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time::sleep;

use crate::engine::Engine;
use crate::job::Lease;

/// How often to look. A job that is not over by then is slow.
const LOOK: Duration = Duration::from_millis(100);

/// Wakes the claimer when a lease's wide window turns out to be too wide, whatever it waits for: the buffer may be full,
/// or the queue empty.
pub(crate) async fn watch(engine: Arc<Engine>, lease: Arc<Lease>) {
    while !lease.is_retiring() && engine.holdings.knows(lease.id) {
        sleep(LOOK).await;
        if !engine.pace.is_quick(true, Instant::now()) {
            engine.buffer.room.notify_one();
            engine.wake.notify_one();
        }
    }
}

/// Gives back what waits on a lease, which takes no more: it can be had again on one with a tight window.
pub(crate) fn narrow(engine: &Engine, lease: &Arc<Lease>) {
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
