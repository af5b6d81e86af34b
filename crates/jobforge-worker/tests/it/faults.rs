//! Connections that break at the worst moment.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::poll;
use jobforge_testkit::{FaultPoints, FaultProxy, Mode, WORKER};
use jobforge_worker::{Level, Outcome, WorkerConfig, WorkerHandle};
use serde_json::json;
use tokio::sync::Notify;
use tokio::time::timeout;
use uuid::Uuid;

use crate::support::{Lines, PATIENCE, Story, echo, eventually, faults};

type Runs = Arc<AtomicUsize>;

pub(crate) async fn through_proxy(story: &Story) -> (FaultProxy, WorkerConfig) {
    let proxy = FaultProxy::start(story.db.cluster_port()).await;
    let config = WorkerConfig { database_url: proxy.through(&story.tcp_url()), ..story.config() };
    (proxy, config)
}

/// Returns when the worker stands before its next claim and none is under way.
async fn hold_claims(story: &Story, points: &FaultPoints) {
    points.pause("claim");
    story.enqueue(json!("probe")).await;
    points.wait_reached("claim").await;
}

/// A job that a worker claims whose answer is lost: it never hears of it.
pub(crate) async fn claim_unheard(story: &Story, proxy: &FaultProxy, points: &FaultPoints) -> Uuid {
    hold_claims(story, points).await;
    let unheard = story.enqueue(json!("unheard")).await;
    proxy.cut_before_answer_to("claim_jobs");
    points.resume("claim");
    eventually("the answer is lost", async || (proxy.mode() == Mode::Pass).then_some(())).await;
    unheard
}

#[tokio::test(flavor = "multi_thread")]
async fn a_report_whose_answer_is_lost_is_repeated_and_counts_once() {
    let story = Story::begin().await;
    let (proxy, config) = through_proxy(&story).await;
    let runs = Arc::new(AtomicUsize::new(0));
    let ran = runs.clone();
    let worker = story
        .work(config, move |context, payload| {
            ran.fetch_add(1, Ordering::SeqCst);
            echo(context, payload)
        })
        .await;
    proxy.cut_before_answer_to("complete_jobs");
    let id = story.enqueue(json!(1)).await;
    story.until(id, "succeeded").await;
    assert_eq!(proxy.mode(), Mode::Pass, "the answer was lost");
    eventually("the worker knows it", async || (worker.stats().completed == 1).then_some(())).await;
    assert_eq!(runs.load(Ordering::SeqCst), 1);
    assert_eq!(story.count("select count(*) from jobforge.job_history").await, 1);
    worker.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_whose_answer_is_lost_counts_once() {
    let story = Story::begin().await;
    let (proxy, config) = through_proxy(&story).await;
    let worker = story.work(config, |_, _| async { Ok(Outcome::Retry { error: "again".to_owned() }) }).await;
    proxy.cut_before_answer_to("fail_jobs");
    let id = story.enqueue(json!(1)).await;
    eventually("the worker knows it", async || (worker.stats().failed >= 1).then_some(())).await;
    assert_eq!(proxy.mode(), Mode::Pass, "the answer was lost");
    worker.shutdown().await;
    let job = story.job(id).await;
    assert_eq!(u64::try_from(job.failures).unwrap(), worker.stats().failed);
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_of_a_claim_whose_answer_is_lost_go_back_free() {
    let story = Story::begin().await;
    let (proxy, config) = through_proxy(&story).await;
    let points = FaultPoints::new();
    let config = WorkerConfig { faults: faults(&points), ..config };
    let open = Arc::new(Notify::new());
    let waits = open.clone();
    let worker = story
        .work(config, move |context, payload| {
            let waits = waits.clone();
            async move {
                if payload == json!("long") {
                    waits.notified().await;
                }
                echo(context, payload).await
            }
        })
        .await;
    let long = story.enqueue(json!("long")).await;
    story.until(long, "running").await;
    let unheard = claim_unheard(&story, &proxy, &points).await;
    // The old lease keeps what runs on it; new work goes to a new one, and so does what nobody here heard of.
    let job = story.until(unheard, "succeeded").await;
    assert_eq!((job.attempt, job.deaths, job.failures), (2, 0, 0));
    let job = story.job(long).await;
    assert_eq!((job.status.as_str(), job.attempt), ("running", 1));
    open.notify_one();
    story.until(long, "succeeded").await;
    assert_eq!(worker.stats().lost, 0);
    worker.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_worker_comes_back_from_every_broken_connection() {
    let story = Story::begin().await;
    let (proxy, config) = through_proxy(&story).await;
    let points = FaultPoints::new();
    let worker = story.work(WorkerConfig { faults: faults(&points), ..config }, echo).await;
    for mode in [Mode::Refuse, Mode::Silence] {
        // A claim without a lease whose answer is lost would keep the job from everybody until its lease ends.
        hold_claims(&story, &points).await;
        let id = story.enqueue(json!(1)).await;
        proxy.set_mode(mode.clone());
        points.resume("claim");
        eventually("the worker notices", async || (!worker.hears()).then_some(())).await;
        proxy.set_mode(Mode::Pass);
        story.until(id, "succeeded").await;
        assert!(worker.last_round() < Duration::from_secs(10), "{mode:?}");
        eventually("it hears again", async || worker.hears().then_some(())).await;
    }
    worker.shutdown().await;
}

#[tokio::test]
async fn jobs_of_a_first_claim_whose_answer_is_lost_go_back_free() {
    let story = Story::begin().await;
    let (proxy, config) = through_proxy(&story).await;
    let points = FaultPoints::new();
    let worker = story.work(WorkerConfig { faults: faults(&points), ..config }, echo).await;
    // The worker holds nothing yet: the lease is made by the very claim whose answer never comes.
    let unheard = claim_unheard(&story, &proxy, &points).await;
    story.until(unheard, "succeeded").await;
    let job = story.job(unheard).await;
    assert_eq!((job.deaths, job.failures, job.attempt), (0, 0, 2));
    worker.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_outlives_its_callers_patience_counts_no_death() {
    let story = Story::begin().await;
    let worker =
        story.work(WorkerConfig { call_timeout: Duration::from_secs(1), ..story.config() }, echo).await;
    let holder = story.db.session().await;
    holder.begin().await;
    // A claim comes to a halt before it can note its jobs.
    holder.run("lock table jobforge.lease_claims in share mode").await;
    let late = story.enqueue(json!("late")).await;
    // Of its own sessions: one that asked this before may be on its way out.
    let looked = format!(
        "select count(*) from pg_stat_activity where datname = current_database() and usename = '{WORKER}'
           and state = 'idle' and query like '%jobforge.heartbeat(%'"
    );
    eventually("its lease was to be closed", async || (story.count(&looked).await > 0).then_some(())).await;
    holder.commit().await;
    let job = story.until(late, "succeeded").await;
    assert_eq!((job.attempt, job.deaths), (2, 0));
    worker.shutdown().await;
    worker.sound().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_handler_says_while_the_database_is_away_is_told_when_it_is_back() {
    let lines = Lines::capture();
    let story = Story::begin().await;
    let (proxy, config) = through_proxy(&story).await;
    let [speak, said, end] = [(); 3].map(|()| Arc::new(Notify::new()));
    let signals = [speak.clone(), said.clone(), end.clone()];
    let worker = story
        .work(config, move |context, payload| {
            let [speak, said, end] = signals.clone();
            async move {
                speak.notified().await;
                context.progress(40.0, "nearly\0half").await;
                speak.notified().await;
                // More than go in one call.
                for line in 0..1500 {
                    context.log(Level::Info, format!("line {line}")).await;
                }
                said.notify_one();
                end.notified().await;
                echo(context, payload).await
            }
        })
        .await;
    let id = story.enqueue(json!(1)).await;
    story.until(id, "running").await;
    proxy.set_mode(Mode::Refuse);
    speak.notify_one();
    let failed = || lines.count("WARN", "reports wait for the database");
    eventually("it cannot be told", async || (failed() > 0).then_some(())).await;
    speak.notify_one();
    timeout(PATIENCE, said.notified()).await.unwrap();
    proxy.set_mode(Mode::Pass);
    let progress = eventually("it is told, with nothing else to tell", async || {
        let job = story.job(id).await;
        job.progress_percent.zip(job.progress_message)
    })
    .await;
    assert_eq!(progress, (40.0, "nearly\u{fffd}half".to_owned()));
    let lines = "select count(*) from jobforge.job_logs where message like 'line %'";
    eventually("every line is told", async || (story.count(lines).await == 1500).then_some(())).await;
    end.notify_one();
    story.until(id, "succeeded").await;
    worker.shutdown().await;
}

/// Of two claims side by side the second is done and its answer lost: before the first is made, or after it.
async fn the_second_of_two_claims_is_lost(before_the_first: bool) {
    const CLAIMED: &str = "select coalesce(max(claim_no), 0) from jobforge.lease_claims";
    let story = Story::begin().await;
    let (proxy, config) = through_proxy(&story).await;
    let points = FaultPoints::new();
    let worker = story.work(WorkerConfig { claim_max: 8, faults: faults(&points), ..config }, echo).await;
    let (first, second) = ("first of two claims", "second of two claims");
    points.pause(first);
    points.pause(second);
    story.enqueue_numbers(4000).await;
    points.wait_reached(first).await;
    points.wait_reached(second).await;
    let claims = story.count(CLAIMED).await;
    if !before_the_first {
        points.resume(first);
        eventually("the first claim", async || (story.count(CLAIMED).await > claims).then_some(())).await;
    }
    proxy.cut_before_answer_to("claim_jobs");
    points.resume(second);
    eventually("the answer is lost", async || (proxy.mode() == Mode::Pass).then_some(())).await;
    points.resume(first);
    eventually("all are over", async || {
        (story.count("select count(*) from jobforge.jobs").await == 0).then_some(())
    })
    .await;
    let unharmed =
        "select count(*) from jobforge.job_history where status = 'succeeded' and deaths + failures = 0";
    assert_eq!(story.count(unharmed).await, 4000);
    assert!(
        story.count("select count(*) from jobforge.job_history where fence > 1").await > 0,
        "it had claimed some"
    );
    worker.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_of_a_claim_that_is_lost_before_the_one_beside_it_go_back_free() {
    the_second_of_two_claims_is_lost(true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_of_a_claim_that_is_lost_after_the_one_beside_it_go_back_free() {
    the_second_of_two_claims_is_lost(false).await;
}

/// A worker with two groups of four under way, or more, and what it ran.
async fn two_groups_under_way(
    story: &Story,
    config: WorkerConfig,
    points: &FaultPoints,
) -> (WorkerHandle, Runs) {
    let runs = Runs::default();
    let ran = runs.clone();
    // Longer than the story's patience: only full groups go.
    let report_delay = Duration::from_secs(300);
    let config = WorkerConfig { report_group: 4, report_delay, faults: faults(points), ..config };
    let worker = story
        .work(config, move |_, _| {
            ran.fetch_add(1, Ordering::SeqCst);
            async { Ok(Outcome::done()) }
        })
        .await;
    points.pause("report");
    story.enqueue_numbers(200).await;
    eventually("two groups are under way", async || (points.hits("report") >= 2).then_some(())).await;
    (worker, runs)
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_groups_under_way_one_loses_its_answer_and_is_repeated() {
    let story = Story::begin().await;
    let (proxy, config) = through_proxy(&story).await;
    let points = FaultPoints::new();
    let (worker, runs) = two_groups_under_way(&story, config, &points).await;
    proxy.cut_before_answer_to("complete_jobs");
    points.resume("report");
    eventually("all are told", async || (worker.stats().completed == 200).then_some(())).await;
    assert_eq!(proxy.mode(), Mode::Pass, "the answer was lost");
    worker.shutdown().await;
    assert_eq!((runs.load(Ordering::SeqCst), worker.stats().lost), (200, 0));
    assert_eq!(story.count("select count(*) from jobforge.job_history").await, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_stops_waits_for_the_groups_under_way() {
    let story = Story::begin().await;
    let points = FaultPoints::new();
    let (worker, runs) = two_groups_under_way(&story, story.config(), &points).await;
    let mut stopping = pin!(worker.shutdown());
    assert!(poll!(stopping.as_mut()).is_pending(), "two groups are not told yet");
    points.resume("report");
    stopping.await;
    assert_eq!(worker.stats().completed, runs.load(Ordering::SeqCst) as u64);
    let ended = story.count("select count(*) from jobforge.job_history").await;
    assert_eq!(u64::try_from(ended).unwrap(), worker.stats().completed);
    assert_eq!(story.count("select count(*) from jobforge.jobs where lease_id is not null").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_that_waits_holds_up_no_group_that_comes_after() {
    let story = Story::begin().await;
    let points = FaultPoints::new();
    // Longer than the story's patience: the group that waits is not given up, and the others go when they are full.
    let (call_timeout, report_delay) = (Duration::from_secs(300), Duration::from_secs(300));
    let config = WorkerConfig {
        report_group: 4,
        report_delay,
        call_timeout,
        faults: faults(&points),
        ..story.config()
    };
    let worker = story.work(config, |_, _| async { Ok(Outcome::done()) }).await;
    let completed = async |jobs: u64| {
        eventually("they are told", async || (worker.stats().completed == jobs).then_some(())).await;
    };
    points.pause("report");
    story.enqueue_numbers(1).await;
    points.wait_reached("report").await;
    let holder = story.db.session().await;
    holder.begin().await;
    holder.run("select from jobforge.jobs where lease_id is not null for update").await;
    points.resume("report");
    story.enqueue_numbers(4).await;
    completed(4).await;
    // Nothing is left to tell but the one that waits for the lock: the next group goes beside it.
    story.enqueue_numbers(4).await;
    completed(8).await;
    holder.commit().await;
    completed(9).await;
    worker.shutdown().await;
}
