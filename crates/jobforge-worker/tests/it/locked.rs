//! Somebody holds one of many jobs locked, in a transaction left open, when it is to be told of: that one waits, nobody else.

use std::sync::Arc;
use std::time::Duration;

use jobforge_testkit::{FaultPoints, Session};
use jobforge_worker::{Context, Level, Outcome, Stats, WorkerConfig, WorkerHandle};
use serde_json::{Value, json};
use tokio::sync::Notify;
use uuid::Uuid;

use crate::faults::{claim_unheard, through_proxy};
use crate::support::{Story, echo, eventually, faults};

/// A worker on which one job stands in the middle of its handler, locked by somebody, whom it is about to be told of.
struct Locked {
    story: Story,
    worker: WorkerHandle,
    job: Uuid,
    holder: Session,
    /// Lets the handler go on.
    gate: Arc<Notify>,
}

impl Locked {
    /// All jobs end so; the locked one says something before it does.
    async fn begin(outcome: fn() -> Outcome, says: bool) -> Locked {
        let story = Story::begin().await;
        let (open, gate) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let signals = (open.clone(), gate.clone());
        let handler = move |context: Context, payload: Value| {
            let (open, gate) = signals.clone();
            async move {
                if payload == json!("locked") {
                    open.notify_one();
                    gate.notified().await;
                    if says {
                        context.progress(50.0, "half").await;
                        context.log(Level::Info, "said").await;
                    }
                }
                Ok(outcome())
            }
        };
        let worker = story.work(story.config(), handler).await;
        let job = story.enqueue(json!("locked")).await;
        open.notified().await;
        let holder = story.db.session().await;
        holder.begin().await;
        holder.run(&format!("select from jobforge.jobs where id = '{job}' for update")).await;
        Locked { story, worker, job, holder, gate }
    }

    /// The others are told while it is locked, and it is told afterwards.
    async fn holds_no_other_up(self, told: fn(&Stats) -> u64) -> Story {
        let Locked { story, worker, job, holder, gate } = self;
        gate.notify_one();
        // Longer than one report is patient: its repetition has the others in it.
        for round in 1..=3 {
            story.enqueue_numbers(50).await;
            eventually("the others are told", async || (told(&worker.stats()) == round * 50).then_some(()))
                .await;
        }
        assert_eq!(story.job(job).await.status, "running");
        holder.commit().await;
        eventually("it is told", async || (told(&worker.stats()) == 151).then_some(())).await;
        worker.shutdown().await;
        assert_eq!(worker.stats().lost, 0);
        story
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_completion_that_waits_for_somebodys_lock_holds_no_other_up() {
    Locked::begin(Outcome::done, false).await.holds_no_other_up(|stats| stats.completed).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_that_waits_for_somebodys_lock_holds_no_other_up() {
    let fail = || Outcome::Fail { error: "no".to_owned() };
    Locked::begin(fail, false).await.holds_no_other_up(|stats| stats.failed).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snooze_that_waits_for_somebodys_lock_holds_no_other_up() {
    let snooze = || Outcome::Snooze(Duration::from_secs(3600));
    Locked::begin(snooze, false).await.holds_no_other_up(|stats| stats.snoozed).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_locked_job_says_holds_no_other_up_and_is_told_before_its_end() {
    let locked = Locked::begin(Outcome::done, true).await;
    let story = locked.holds_no_other_up(|stats| stats.completed).await;
    let said = "select count(*) from jobforge.log_history where message = 'said'";
    assert_eq!(story.count(said).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_stops_gives_all_back_but_what_somebody_holds_locked() {
    let story = Story::begin().await;
    let config = WorkerConfig { grace_seconds: 0, ..story.config() };
    let worker = Arc::new(story.work(config, |_, _: Value| std::future::pending()).await);
    let ids = story.enqueue_numbers(4).await;
    eventually("they run", async || (worker.stats().running == 4).then_some(())).await;
    let holder = story.db.session().await;
    holder.begin().await;
    holder.run(&format!("select from jobforge.jobs where id = '{}' for update", ids[1])).await;
    let stopping = tokio::spawn({
        let worker = worker.clone();
        async move { worker.shutdown().await }
    });
    for id in [ids[0], ids[2], ids[3]] {
        story.until(id, "queued").await;
    }
    assert_eq!(story.job(ids[1]).await.status, "running");
    holder.commit().await;
    stopping.await.unwrap();
    worker.sound().unwrap();
    let back = "select count(*) from jobforge.jobs where status = 'queued' and deaths + failures = 0";
    assert_eq!((story.count(back).await, worker.stats().released), (4, 4));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_cannot_be_closed_yet_holds_nobody_up_and_leaves_nobody_waiting() {
    let story = Story::begin().await;
    let (proxy, config) = through_proxy(&story).await;
    let points = FaultPoints::new();
    let worker = story.work(WorkerConfig { faults: faults(&points), ..config }, echo).await;
    points.pause("report");
    let unheard = claim_unheard(&story, &proxy, &points).await;
    points.wait_reached("report").await;
    story.until(unheard, "running").await;
    let holder = story.db.session().await;
    holder.begin().await;
    holder.run(&format!("select from jobforge.jobs where id = '{unheard}' for update")).await;
    points.resume("report");
    for round in 1..=3 {
        story.enqueue_numbers(50).await;
        eventually("the others are told", async || (worker.stats().completed >= round * 50).then_some(()))
            .await;
    }
    assert_eq!(story.job(unheard).await.status, "running");
    let waiting = "select count(*) from pg_stat_activity
                   where datname = current_database() and wait_event_type = 'Lock'";
    eventually("nobody waits for long", async || (story.count(waiting).await == 0).then_some(())).await;
    holder.commit().await;
    let job = story.until(unheard, "succeeded").await;
    assert_eq!((job.attempt, job.deaths), (2, 0));
    worker.shutdown().await;
    worker.sound().unwrap();
}
