//! Workers without work.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use jobforge_core::{NewJob, rpc};
use jobforge_testkit::{FaultPoints, FaultProxy, Mode, NOOP, TENANT_A, WORKER};
use jobforge_worker::{Context, HandlerResult, Outcome, WorkerConfig, WorkerHandle};
use serde_json::{Value, json};

use crate::support::{Story, echo, eventually, faults};

/// Longer than any story.
const NEVER: Duration = Duration::from_secs(3600);

async fn asleep(story: &Story, workers: &[&WorkerHandle]) {
    eventually("the workers sleep", async || {
        let marked = story.count("select count(*) from jobforge.sleepers").await;
        let all = usize::try_from(marked).unwrap() == workers.len();
        (all && workers.iter().all(|worker| worker.hears())).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_enqueue_wakes_a_sleeper() {
    let story = Story::begin().await;
    let worker = story.work(unlooking(&story), echo).await;
    asleep(&story, &[&worker]).await;
    one_by_one(&story, async || ()).await;
    worker.shutdown().await;
}

/// A worker to which no look tells of work: what it runs it was woken for.
fn unlooking(story: &Story) -> WorkerConfig {
    WorkerConfig { look: NEVER, ..story.config() }
}

/// Enqueues one job after the other, each after what `before` does.
async fn one_by_one(story: &Story, before: impl AsyncFn()) {
    for n in 0..20 {
        before().await;
        let id = story.enqueue(json!(n)).await;
        story.until(id, "succeeded").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_connection_that_claims_hears_for_itself() {
    let story = Story::begin().await;
    let points = FaultPoints::new();
    let worker = story.work(WorkerConfig { faults: faults(&points), ..unlooking(&story) }, echo).await;
    asleep(&story, &[&worker]).await;
    // The listener passes on no word of work.
    points.pause("hear");
    one_by_one(&story, async || ()).await;
    points.resume("hear");
    worker.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_begins_with_all_that_a_backlog_takes_and_spares_what_an_idle_one_does_not() {
    let story = Story::begin().await;
    let sessions = format!(
        "select count(*) from pg_stat_activity where datname = current_database() and usename = '{WORKER}'"
    );
    let own = story.count(&sessions).await;
    let sessions = async || story.count(&sessions).await - own;
    // One that claims, and one beside it; one that reports, and one that listens.
    for (spared, kept) in [(NEVER, 4), (Duration::ZERO, 3)] {
        let worker = story.work(WorkerConfig { spared, ..unlooking(&story) }, echo).await;
        asleep(&story, &[&worker]).await;
        eventually("it keeps what it needs", async || (sessions().await == kept).then_some(())).await;
        worker.shutdown().await;
        eventually("its sessions end", async || (sessions().await == 0).then_some(())).await;
    }
}

/// Sessions whose last word was that they listen to nothing.
const QUIET: &str =
    "select count(*) from pg_stat_activity where datname = current_database() and query ~ '^unlisten'";

/// A worker whose listener rests, because the connection that claims has shown that it hears. Its beats are twenty minutes apart.
async fn with_a_resting_listener(story: &Story, points: &FaultPoints) -> WorkerHandle {
    let config = WorkerConfig { faults: faults(points), lease_seconds: 3600, ..unlooking(story) };
    let worker = story.work(config, blocking).await;
    asleep(story, &[&worker]).await;
    eventually("the listener rests", async || {
        let id = story.enqueue(json!("quick")).await;
        story.until(id, "succeeded").await;
        (story.count(QUIET).await == 1).then_some(())
    })
    .await;
    worker
}

/// Runs until it is canceled, where its argument says so.
async fn blocking(context: Context, how: Value) -> HandlerResult {
    if how == "long" {
        context.cancellation().cancelled().await;
        return Ok(Outcome::Cancel { reason: "canceled".to_owned() });
    }
    Ok(Outcome::done())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_listener_rests_while_the_connection_that_claims_hears() {
    let story = Story::begin().await;
    let points = FaultPoints::new();
    points.pause("listen_again");
    let worker = with_a_resting_listener(&story, &points).await;
    let heard = points.hits("hear");
    for _ in 0..5 {
        let id = story.enqueue(json!("quick")).await;
        story.until(id, "succeeded").await;
    }
    assert_eq!(points.hits("hear"), heard, "nobody woke it");
    // A request to cancel reaches the connection that claims.
    let id = story.enqueue(json!("long")).await;
    story.until(id, "running").await;
    rpc::cancel_job(&story.app, TENANT_A, id, None).await.unwrap();
    story.until(id, "canceled").await;
    points.resume("listen_again");
    worker.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_listener_is_back_where_something_runs_for_long() {
    let story = Story::begin().await;
    let points = FaultPoints::new();
    let worker = with_a_resting_listener(&story, &points).await;
    let long = story.enqueue(json!("long")).await;
    eventually("it listens again", async || (story.count(QUIET).await == 0).then_some(())).await;
    // And does not rest for every quick job beside.
    let heard = points.hits("hear");
    let id = story.enqueue(json!("quick")).await;
    story.until(id, "succeeded").await;
    eventually("it hears", async || (points.hits("hear") > heard).then_some(())).await;
    rpc::cancel_job(&story.app, TENANT_A, long, None).await.unwrap();
    story.until(long, "canceled").await;
    worker.shutdown().await;
}

/// Each session that listens is woken by each tick of the sentinel.
#[tokio::test(flavor = "multi_thread")]
async fn an_idle_claiming_connection_stops_listening_until_there_was_work() {
    let story = Story::begin().await;
    let points = FaultPoints::new();
    let config = WorkerConfig { faults: faults(&points), ..unlooking(&story) };
    let workers = [story.work(config.clone(), echo).await, story.work(config, echo).await];
    asleep(&story, &[&workers[0], &workers[1]]).await;
    one_by_one(&story, async || ()).await;
    let rested = points.hits("listen_again");
    // The sentinel's last word is its look. Both listeners rested, and are back.
    eventually("the sleeper that is not the sentinel stops listening", async || {
        let back = points.hits("listen_again") >= rested + 2;
        (back && story.count(QUIET).await == 1).then_some(())
    })
    .await;
    let id = story.enqueue(json!("first")).await;
    story.until(id, "succeeded").await;
    points.pause("hear");
    one_by_one(&story, async || ()).await;
    points.resume("hear");
    for worker in workers {
        worker.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_listener_stands_in_for_a_claiming_connection_that_is_lost() {
    let story = Story::begin().await;
    let worker = story.work(unlooking(&story), echo).await;
    asleep(&story, &[&worker]).await;
    one_by_one(&story, async || {
        let claims = "select count(pg_terminate_backend(pid)) from pg_stat_activity
            where datname = current_database() and state = 'idle' and query ~ 'jobforge.(claim_jobs|look|sleep_worker)'";
        story.count(claims).await;
    })
    .await;
    worker.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_falls_due_is_found_without_a_notification() {
    let story = Story::begin().await;
    let worker = story.work(story.config(), echo).await;
    asleep(&story, &[&worker]).await;
    let due = Timestamp::now() + Duration::from_millis(1500);
    let id = story.enqueue_job(NewJob::new(NOOP, &1).unwrap().run_at(due)).await;
    story.until(id, "succeeded").await;
    worker.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_listener_the_worker_polls() {
    let story = Story::begin().await;
    let proxy = FaultProxy::start(story.db.cluster_port()).await;
    proxy.set_mode(Mode::Refuse);
    let config = WorkerConfig { direct_url: Some(proxy.through(&story.tcp_url())), ..story.config() };
    let worker = story.work(config, echo).await;
    for n in 0..3 {
        let id = story.enqueue(json!(n)).await;
        story.until(id, "succeeded").await;
    }
    assert!(!worker.hears());
    // A worker that hears nothing does not ask to be woken.
    assert_eq!(story.count("select count(*) from jobforge.sleepers").await, 0);
    worker.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_listener_that_went_silent_is_noticed() {
    let story = Story::begin().await;
    let proxy = FaultProxy::start(story.db.cluster_port()).await;
    let config = WorkerConfig { direct_url: Some(proxy.through(&story.tcp_url())), ..story.config() };
    let deaf = story.work(config, echo).await;
    let hearing =
        story.work(WorkerConfig { queues: vec!["elsewhere".to_owned()], ..story.config() }, echo).await;
    asleep(&story, &[&deaf, &hearing]).await;
    proxy.set_mode(Mode::Silence);
    let id = story.enqueue(json!(1)).await;
    story.until(id, "succeeded").await;
    deaf.shutdown().await;
    hearing.shutdown().await;
}

const SENTINEL_LOOKED: &str = "select (extract(epoch from expires_at) * 1000)::bigint from jobforge.sentinel";

/// As after a failover that left the old server running: the connection stands, and nothing is said on it.
#[tokio::test(flavor = "multi_thread")]
async fn a_listener_that_nobody_talks_to_any_more_is_made_anew_at_once() {
    let story = Story::begin().await;
    let proxy = FaultProxy::start(story.db.cluster_port()).await;
    let config = WorkerConfig { direct_url: Some(proxy.through(&story.tcp_url())), ..story.config() };
    let worker = story.work(config, echo).await;
    let hearing =
        story.work(WorkerConfig { queues: vec!["elsewhere".to_owned()], ..story.config() }, echo).await;
    asleep(&story, &[&worker, &hearing]).await;
    let (before, began) = (proxy.connections().len(), Instant::now());
    // A connection on which something got lost stays silent; the sentinel speaks each second.
    proxy.set_mode(Mode::Silence);
    for _ in 0..2 {
        let spoke = story.count(SENTINEL_LOOKED).await;
        eventually("the sentinel looks", async || {
            (story.count(SENTINEL_LOOKED).await != spoke).then_some(())
        })
        .await;
    }
    proxy.set_mode(Mode::Pass);
    eventually("it listens anew", async || {
        let made = proxy.connections().len() - before;
        (made >= 2 && worker.hears()).then_some(())
    })
    .await;
    // A way that is deaf from the beginning is left alone for half a minute.
    assert!(began.elapsed() < Duration::from_secs(25), "{:?}", began.elapsed());
    worker.shutdown().await;
    hearing.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn serial_idle_workers_cost_one_look_a_second_together() {
    let story = Story::begin().await;
    let proxy = FaultProxy::start(story.db.cluster_port()).await;
    let url = proxy.through(&story.tcp_url());
    let config = WorkerConfig { database_url: url, ..story.config() };
    let mut workers = Vec::new();
    for _ in 0..4 {
        workers.push(story.work(config.clone(), echo).await);
    }
    asleep(&story, &workers.iter().collect::<Vec<_>>()).await;
    let sent = || proxy.connections().iter().map(|connection| connection.to_server).sum::<u64>();
    // One of them becomes the sentinel first.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let (before, began) = (sent(), Instant::now());
    tokio::time::sleep(Duration::from_secs(5)).await;
    // A look takes some 200 bytes on its way; four workers looking each for itself would send four a second.
    let looks = (sent() - before) / 200;
    let together = began.elapsed().as_secs() + 5;
    assert!(looks < together, "{looks} looks, {together} at most");
    for worker in workers {
        worker.shutdown().await;
    }
}

/// Positions that somebody left behind, from which nobody has swept since.
const LEFT: &str = "insert into jobforge.sweeps (queue, lanes, swept_at, full_at, low, mark_at, mark_xid, marks)
  values ('default', jobforge.lanes('{test.noop}'), '-infinity', now(), now(), now(), '1',
    jsonb_build_array(jsonb_build_object('queue', 'default', 'type', 'test.noop', 'tenant_id', gen_random_uuid(),
      'priority', 100, 'run_at', now() - interval '1 hour', 'id', gen_random_uuid())))";
const SWEPT: &str = "select count(*) from jobforge.sweeps where marks <> '[]' and swept_at > '-infinity'
  and lanes = jobforge.lanes('{test.noop}')";

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_starts_goes_by_the_positions_of_those_before_it() {
    let story = Story::begin().await;
    story.db.connect_super().await.batch_execute(LEFT).await.unwrap();
    let worker = story.work(story.config(), echo).await;
    let id = story.enqueue(json!(1)).await;
    story.until(id, "succeeded").await;
    worker.shutdown().await;
    assert_eq!(story.count(SWEPT).await, 1, "its first claim had them");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_runs_what_is_due_and_ends_goes_by_no_positions() {
    let story = Story::begin().await;
    story.db.connect_super().await.batch_execute(LEFT).await.unwrap();
    story.enqueue(json!(1)).await;
    let worker = jobforge_worker::Worker::builder(story.config()).handle(NOOP, echo).build().unwrap();
    assert_eq!(worker.run_once(10).await.unwrap().completed, 1);
    assert_eq!(story.count(SWEPT).await, 0, "it looked everywhere");
}

/// A worker that has emptied a lane of a hundred jobs and looked twice since, whose next claim with positions is the first to
/// sweep.
async fn emptied(story: &Story, dear_look: Duration) -> WorkerHandle {
    let points = FaultPoints::new();
    let config = WorkerConfig { dear_look, faults: faults(&points), ..story.config() };
    let worker = story.work(config, echo).await;
    asleep(story, &[&worker]).await;
    story.enqueue_numbers(100).await;
    eventually("they are done", async || (worker.stats().completed == 100).then_some(())).await;
    let admin = story.db.connect_super().await;
    for _ in 0..2 {
        let claims = points.hits("claim");
        admin.batch_execute("notify jobforge_wake").await.unwrap();
        eventually("one more claim began", async || (points.hits("claim") > claims).then_some(())).await;
    }
    admin.batch_execute("update jobforge.sweeps set swept_at = '-infinity'").await.unwrap();
    worker
}

#[tokio::test(flavor = "multi_thread")]
async fn positions_outlast_an_empty_queue_only_where_looking_everywhere_is_dear() {
    for (dear_look, kept) in [(Duration::ZERO, 1), (NEVER, 0)] {
        let story = Story::begin().await;
        let worker = emptied(&story, dear_look).await;
        let id = story.enqueue(json!("later")).await;
        story.until(id, "succeeded").await;
        worker.shutdown().await;
        let swept = "select count(*) from jobforge.sweeps
          where swept_at > '-infinity' and lanes = jobforge.lanes('{test.noop}')";
        assert_eq!(story.count(swept).await, kept, "a claim sweeps only where it has positions");
    }
}
