//! How a worker stops.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use jobforge_testkit::{FaultPoints, NOOP};
use jobforge_worker::{Context, Faults, HandlerError, Outcome, Worker, WorkerConfig, WorkerError};
use serde_json::Value;
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::support::{PATIENCE, Story, echo, eventually};

/// A handler that says that it began, and ends when it is let go or told to stop.
struct Gate {
    begun: Notify,
    open: Notify,
    stopped: Notify,
}

fn gate() -> Arc<Gate> {
    Arc::new(Gate { begun: Notify::new(), open: Notify::new(), stopped: Notify::new() })
}

impl Gate {
    async fn pass(&self, context: &Context) -> Result<Outcome, HandlerError> {
        self.begun.notify_one();
        tokio::select! {
            () = self.open.notified() => Ok(Outcome::done()),
            () = context.cancellation().cancelled() => {
                self.stopped.notify_one();
                Err(HandlerError::new("told to stop"))
            }
        }
    }
}

async fn start(story: &Story, config: WorkerConfig, gate: &Arc<Gate>) -> Arc<jobforge_worker::WorkerHandle> {
    let gate = gate.clone();
    let handler = move |context: Context, _: Value| {
        let gate = gate.clone();
        async move { gate.pass(&context).await }
    };
    Arc::new(story.work(config, handler).await)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_runs_may_end_and_what_waits_goes_back_free() {
    let story = Story::begin().await;
    let ids = story.enqueue_numbers(2).await;
    let gate = gate();
    let worker = start(&story, WorkerConfig { slots: 1, ..story.config() }, &gate).await;
    timeout(PATIENCE, gate.begun.notified()).await.unwrap();
    eventually("the second job is claimed too", async || (worker.stats().claimed == 2).then_some(())).await;

    let stopping = tokio::spawn({
        let worker = worker.clone();
        async move { worker.shutdown().await }
    });
    let given_back = story.until(ids[1], "queued").await;
    assert_eq!((given_back.attempt, given_back.failures, given_back.deaths), (1, 0, 0));
    assert!(!stopping.is_finished());
    gate.open.notify_one();
    timeout(PATIENCE, stopping).await.unwrap().unwrap();
    assert_eq!(story.job(ids[0]).await.status, "succeeded");
    assert_eq!(story.count("select count(*) from jobforge.leases").await, 0);
    assert_eq!(story.count("select count(*) from jobforge.sleepers").await, 0);
    assert_eq!(story.count("select count(*) from jobforge.workers where stopped_at is not null").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn after_the_grace_handlers_are_interrupted_and_their_jobs_go_back_free() {
    let story = Story::begin().await;
    let id = story.enqueue_numbers(1).await[0];
    let gate = gate();
    let worker = start(&story, WorkerConfig { grace_seconds: 0, ..story.config() }, &gate).await;
    timeout(PATIENCE, gate.begun.notified()).await.unwrap();
    timeout(PATIENCE, worker.shutdown()).await.unwrap();
    timeout(PATIENCE, gate.stopped.notified()).await.unwrap();
    let job = story.job(id).await;
    assert_eq!((job.status.as_str(), job.failures, job.deaths), ("queued", 0, 0));
    assert_eq!(worker.stats().released, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_call_waits_for_no_handler() {
    let story = Story::begin().await;
    let id = story.enqueue_numbers(1).await[0];
    let gate = gate();
    let worker = start(&story, WorkerConfig { grace_seconds: 3600, ..story.config() }, &gate).await;
    timeout(PATIENCE, gate.begun.notified()).await.unwrap();
    let patient = tokio::spawn({
        let worker = worker.clone();
        async move { worker.shutdown().await }
    });
    assert!(timeout(Duration::from_millis(300), worker.ended()).await.is_err());
    timeout(PATIENCE, worker.shutdown()).await.unwrap();
    timeout(PATIENCE, patient).await.unwrap().unwrap();
    assert_eq!(story.job(id).await.status, "queued");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_whose_handler_never_yields_goes_back_with_its_lease() {
    let story = Story::begin().await;
    let id = story.enqueue_numbers(1).await[0];
    let begun = Arc::new(Notify::new());
    let says = begun.clone();
    let config = WorkerConfig { grace_seconds: 0, ..story.config() };
    let (release, blocked) = std::sync::mpsc::channel::<()>();
    let blocked = Arc::new(std::sync::Mutex::new(blocked));
    let worker = story
        .work(config, move |_, _| {
            let (says, blocked) = (says.clone(), blocked.clone());
            async move {
                says.notify_one();
                let _ = blocked.lock().unwrap().recv();
                Ok(Outcome::done())
            }
        })
        .await;
    timeout(PATIENCE, begun.notified()).await.unwrap();
    timeout(PATIENCE, worker.shutdown()).await.unwrap();
    let job = story.job(id).await;
    assert_eq!((job.status.as_str(), job.failures, job.deaths), ("queued", 0, 0));
    drop(release);
}

/// A worker of which a part panics where it comes by this point.
async fn a_part_panics(point: &'static str) {
    let story = Story::begin().await;
    let hook = move |hit| async move { assert_ne!(hit, point, "made to panic") }.boxed();
    let faults = Faults::at_points(Arc::new(hook));
    let config = WorkerConfig { heartbeat: Some(Duration::from_millis(100)), faults, ..story.config() };
    let worker = story.work(config, echo).await;
    let id = story.enqueue_numbers(1).await[0];
    timeout(PATIENCE, worker.ended()).await.unwrap();
    assert_ne!(story.job(id).await.status, "failed", "its end is nobody's failure");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_whose_reporter_is_gone_ends() {
    a_part_panics("report").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_whose_heartbeat_is_gone_ends() {
    a_part_panics("beat").await;
}

/// Points at which a worker panics once they are set to fail.
fn panics(points: &FaultPoints) -> Faults {
    let points = points.clone();
    Faults::at_points(Arc::new(move |point| {
        let points = points.clone();
        async move { points.hit(point).await.expect("made to panic") }.boxed()
    }))
}

/// A worker that was to run one job, of which a part panics while that job still runs or is about to be told.
async fn a_part_panics_in_the_only_round(point: &'static str) {
    let (story, points, gate) = (Story::begin().await, FaultPoints::new(), gate());
    let pass = gate.clone();
    let handler = move |context: Context, _: Value| {
        let gate = pass.clone();
        async move { gate.pass(&context).await }
    };
    let heartbeat = Some(Duration::from_millis(100));
    let config = WorkerConfig { heartbeat, faults: panics(&points), ..story.config() };
    let worker = Worker::builder(config).handle(NOOP, handler).build().unwrap();
    let id = story.enqueue_numbers(1).await[0];
    let worker = worker.start_once(1).await.unwrap();
    timeout(PATIENCE, gate.begun.notified()).await.unwrap();
    points.fail(point);
    if point == "report" {
        gate.open.notify_one();
    }
    timeout(PATIENCE, worker.ended()).await.unwrap();
    assert!(matches!(worker.sound(), Err(WorkerError::Fallen)));
    assert_eq!(story.job(id).await.status, "running", "nobody could tell its end");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_single_round_whose_reporter_is_gone_ends_and_says_so() {
    a_part_panics_in_the_only_round("report").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_single_round_whose_heartbeat_is_gone_ends_and_says_so() {
    a_part_panics_in_the_only_round("beat").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_whose_claimer_is_gone_lets_its_jobs_end_and_ends() {
    let (story, points, gate) = (Story::begin().await, FaultPoints::new(), gate());
    let worker = start(&story, WorkerConfig { faults: panics(&points), ..story.config() }, &gate).await;
    let id = story.enqueue_numbers(1).await[0];
    timeout(PATIENCE, gate.begun.notified()).await.unwrap();
    points.fail("claim");
    story.enqueue_numbers(1).await;
    eventually("it says so", async || worker.sound().err().map(drop)).await;
    gate.open.notify_one();
    timeout(PATIENCE, worker.ended()).await.unwrap();
    assert_eq!(story.job(id).await.status, "succeeded", "what ran may end");
}
