//! Starts the parts of a worker and ends them in order: stop claiming, keep beating, let handlers end,
//! interrupt the rest, report, give back, say goodbye.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use jobforge_core::rpc;
use tokio::task::{JoinError, JoinSet, consume_budget};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::engine::{Engine, Finished, Inboxes, Phase};
use crate::executor::{Ending, execute};
use crate::job::Stop;
use crate::link::{Link, told, within};
use crate::reporter::Reporter;
use crate::runner::Claimer;

/// How much longer than their grace slots are waited for.
const SLACK: Duration = Duration::from_millis(500);

/// The parts that a supervisor drives. Dropping it ends them all at once, as a crash would.
pub(crate) struct Parts {
    pub(crate) engine: Arc<Engine>,
    pub(crate) claimer: Claimer,
    pub(crate) inboxes: Inboxes,
    /// The reporter's first connection.
    pub(crate) reports: Link,
    /// The heartbeat's thread, and what ends it.
    pub(crate) heart: Heart,
}

/// The heartbeat's thread; it ends with this.
pub(crate) struct Heart {
    pub(crate) over: CancellationToken,
    pub(crate) ended: CancellationToken,
    pub(crate) thread: Option<thread::JoinHandle<()>>,
}

/// Runs a worker until it is told to stop, or has used up its budget.
pub(crate) async fn supervise(parts: Parts) {
    let Parts { engine, claimer, inboxes, reports, heart } = parts;
    let mut reporter = JoinSet::new();
    reporter.spawn(Reporter::new(engine.clone(), inboxes, reports).run());
    let mut slots = JoinSet::new();
    for number in 0..engine.config.slots {
        slots.spawn(slot(engine.clone(), number));
    }
    let mut hints = hints(&engine);
    let mut claiming = JoinSet::new();
    claiming.spawn(claimer.run());

    let to_the_end = async {
        let claimer = claimer_of(&engine, claiming.join_next().await);
        engine.buffer.seal();
        hints.shutdown().await;
        drain(&engine, &mut slots).await;
        claimer
    };
    let claimer = tokio::select! {
        claimer = to_the_end => claimer,
        _ = reporter.join_next() => return fall(&engine, "reporter"),
        () = heart.ended.cancelled() => return fall(&engine, "heartbeat"),
    };
    tokio::select! {
        () = report_all(&engine, &mut reporter) => {}
        () = heart.ended.cancelled() => return fall(&engine, "heartbeat"),
    }
    if let Some(claimer) = claimer {
        goodbye(claimer).await;
    }
    heart.end().await;
}

/// A part is gone that nothing goes on without: jobs would run whose ends nobody tells, or that others run too. All ends at
/// once, as in a crash, and whoever started the worker sees it end.
fn fall(engine: &Engine, part: &str) {
    tracing::error!(worker_id = engine.worker_id(), part, "a part of the worker ended: so does the worker");
    engine.fallen.store(true, Ordering::Release);
}

/// The claimer that ended. Without one nothing new is claimed, so the worker ends as if it were told to.
fn claimer_of(engine: &Engine, ended: Option<Result<Claimer, JoinError>>) -> Option<Claimer> {
    match ended? {
        Ok(claimer) => Some(claimer),
        Err(_) => {
            tracing::error!(
                worker_id = engine.worker_id(),
                part = "claimer",
                "a part of the worker ended: the worker stops"
            );
            engine.fallen.store(true, Ordering::Release);
            engine.phase.send_modify(|phase| *phase = (*phase).max(Phase::Draining));
            None
        }
    }
}

/// Hears the broker's hints, if there is one.
fn hints(engine: &Arc<Engine>) -> JoinSet<()> {
    #[allow(unused_mut, reason = "without the feature nothing is put in")]
    let mut hints = JoinSet::new();
    #[cfg(feature = "amqp")]
    if let Some(broker) = &engine.config.broker {
        hints.spawn(crate::broker::hear_hints(engine.clone(), broker.clone()));
    }
    #[cfg(not(feature = "amqp"))]
    let _ = engine;
    hints
}

/// One slot: runs one job after the other.
async fn slot(engine: Arc<Engine>, number: usize) {
    while let Some(job) = engine.buffer.take().await {
        engine.counters.running.fetch_add(1, Ordering::Relaxed);
        let began = Instant::now();
        job.begin(began);
        engine.pace.begin(number, began);
        engine.journal.started(&job);
        // A handler's panic is caught where it runs; this is for the destructors of one that was dropped.
        let ending =
            AssertUnwindSafe(execute(&engine, &job, began)).catch_unwind().await.unwrap_or(Ending::Release);
        let took = began.elapsed();
        job.end(took);
        engine.pace.end(number, took);
        engine.counters.running.fetch_sub(1, Ordering::Relaxed);
        engine.finish(Finished { job, ending, started: true });
        // Jobs that end at once must not keep the claims and reports from their share of the thread.
        consume_budget().await;
    }
}

/// Waits for the handlers, at most for the grace; then interrupts them.
async fn drain(engine: &Arc<Engine>, slots: &mut JoinSet<()>) {
    let all_ended = async { while slots.join_next().await.is_some() {} };
    tokio::pin!(all_ended);
    let grace = Duration::from_secs(engine.config.grace_seconds);
    tokio::select! {
        () = &mut all_ended => return,
        () = async {
            engine.reached(Phase::Draining).await;
            // What has not started runs elsewhere.
            engine.give_back(engine.buffer.take_out(|_| true));
            engine.buffer.seal();
            let _ = timeout(grace, engine.reached(Phase::Now)).await;
        } => {}
    }
    for job in engine.holdings.jobs() {
        job.stop(Stop::Interrupted);
    }
    // A slot that does not end even then is blocked; its job goes back when its lease is closed.
    let _ = timeout(engine.config.stop_grace + SLACK, all_ended).await;
}

/// Lets the reporter tell what there is to tell, while the leases can live.
async fn report_all(engine: &Engine, reporter: &mut JoinSet<()>) {
    for lease in engine.holdings.leases() {
        lease.retire();
    }
    engine.last_call.cancel();
    if let Ok(Some(Ok(()))) = timeout(engine.config.lease(), reporter.join_next()).await {
        return;
    }
    tracing::warn!(worker_id = engine.worker_id(), "stopped without having reported everything");
    engine.fallen.store(true, Ordering::Release);
}

async fn goodbye(mut claimer: Claimer) {
    let patience = claimer.engine.config.call_timeout;
    let worker_id = claimer.engine.worker_id().to_owned();
    let answer = match claimer.link.client().await {
        Ok(client) => within(patience, "stop_worker", rpc::stop_worker(&*client, &worker_id)).await,
        Err(error) => Err(error),
    };
    if let Err(error) = answer {
        tracing::warn!(worker_id, error = told(&error), "stopped without saying so");
    }
}

impl Heart {
    async fn end(mut self) {
        self.over.cancel();
        if let Some(thread) = self.thread.take() {
            // It ends at once; joining it is blocking all the same.
            let _ = tokio::task::spawn_blocking(move || thread.join()).await;
        }
    }
}

impl Drop for Heart {
    fn drop(&mut self) {
        self.over.cancel();
    }
}
