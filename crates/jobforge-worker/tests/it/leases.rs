//! Leases: kept alive, found lost, and what may run under them.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use jobforge_core::{NewJob, rpc};
use jobforge_testkit::{FaultPoints, FaultProxy, Mode, NOOP, TENANT_A};
use jobforge_worker::{Context, HandlerError, Outcome, Worker, WorkerConfig, WorkerHandle};
use serde_json::{Value, json};
use tokio::sync::{Notify, Semaphore};
use tokio::task::block_in_place;
use tokio::time::timeout;

use crate::support::{Lines, PATIENCE, Story, echo, eventually, faults};

#[test]
fn a_handler_that_blocks_every_thread_does_not_stop_the_beats() {
    // The worker's runtime is not the story's: its threads will be blocked.
    let busy = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let calm = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    calm.block_on(async {
        let story = Story::begin().await;
        let ids = story.enqueue_numbers(2).await;
        let config = WorkerConfig { lease_seconds: 5, ..story.config() };
        let worker = Worker::builder(config)
            .handle(NOOP, |_: Context, _: Value| async {
                let until = Instant::now() + Duration::from_secs(7);
                while Instant::now() < until {
                    std::hint::spin_loop();
                }
                Ok(Outcome::done())
            })
            .build()
            .unwrap();
        let handle = busy.spawn(async move { worker.start().await }).await.unwrap().unwrap();
        eventually("all jobs are over", async || {
            assert_eq!(story.reap().await.deaths, 0);
            (handle.stats().completed == 2).then_some(())
        })
        .await;
        for id in ids {
            let job = story.job(id).await;
            assert_eq!((job.status.as_str(), job.attempt, job.deaths), ("succeeded", 1, 0));
        }
        busy.spawn(async move { handle.shutdown().await }).await.unwrap();
    });
    busy.shutdown_background();
}

/// A handler that waits to be stopped at its first attempt and ends well at later ones.
fn stopped_once(
    stopped: &Arc<Notify>,
) -> impl Fn(Context, Value) -> futures_util::future::BoxFuture<'static, jobforge_worker::HandlerResult> + use<>
{
    let stopped = stopped.clone();
    move |context, _| {
        let stopped = stopped.clone();
        async move {
            if context.attempt() == 1 {
                context.cancellation().cancelled().await;
                stopped.notify_one();
                return Err(HandlerError::new("stopped"));
            }
            Ok(Outcome::done())
        }
        .boxed()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_confirmed_beat_handlers_stop_and_report_nothing() {
    let story = Story::begin().await;
    let proxy = FaultProxy::start(story.db.cluster_port()).await;
    let stopped = Arc::new(Notify::new());
    let config =
        WorkerConfig { lease_seconds: 2, database_url: proxy.through(&story.tcp_url()), ..story.config() };
    let worker = story.work(config, stopped_once(&stopped)).await;
    let id = story.enqueue_numbers(1).await[0];
    story.until(id, "running").await;

    proxy.set_mode(Mode::Stall);
    timeout(PATIENCE, stopped.notified()).await.unwrap();
    assert_eq!(story.job(id).await.status, "running", "nothing is reported");
    // The database was there all the time and others lived: the lease ends, and the reaper takes the job.
    let reaped = eventually("the lease is reaped", async || {
        let reaped = story.reap().await;
        (reaped.leases > 0).then_some(reaped)
    })
    .await;
    assert_eq!(reaped.deaths, 1);
    proxy.set_mode(Mode::Pass);
    let job = story.until(id, "succeeded").await;
    assert_eq!((job.attempt, job.deaths, job.failures), (2, 1, 0));
    worker.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn after_an_outage_interrupted_jobs_go_back_free() {
    let story = Story::begin().await;
    let proxy = FaultProxy::start(story.db.cluster_port()).await;
    let (stopped, points) = (Arc::new(Notify::new()), FaultPoints::new());
    let database_url = proxy.through(&story.tcp_url());
    let config = WorkerConfig { lease_seconds: 2, database_url, faults: faults(&points), ..story.config() };
    let worker = story.work(config, stopped_once(&stopped)).await;
    let id = story.enqueue_numbers(1).await[0];
    story.until(id, "running").await;

    points.pause("claim");
    proxy.set_mode(Mode::Refuse);
    timeout(PATIENCE, stopped.notified()).await.unwrap();
    // Nobody gave a sign of life for a minute: that was an outage, and the lease lives on.
    story.db.advance_clock(60.0).await;
    proxy.set_mode(Mode::Pass);
    eventually("the job is given back", async || (worker.stats().released == 1).then_some(())).await;
    points.resume("claim");
    let job = story.until(id, "succeeded").await;
    assert_eq!((job.attempt, job.deaths, job.failures), (2, 0, 0));
    worker.shutdown().await;
}

/// Its last jobs go back while slots wait for room in the window, and nothing is claimed after them that would wake those.
#[tokio::test(flavor = "multi_thread")]
async fn a_single_round_that_loses_its_lease_with_jobs_waiting_ends() {
    let story = Story::begin().await;
    let points = FaultPoints::new();
    let (go_on, budget) = (Arc::new(Semaphore::new(0)), 10);
    let waits = go_on.clone();
    let config = WorkerConfig { lease_seconds: 6, slots: 4, faults: faults(&points), ..story.config() };
    points.pause("report");
    story.enqueue_numbers(budget).await;
    let worker = Worker::builder(config).handle(NOOP, move |context: Context, payload: Value| {
        let waits = waits.clone();
        async move {
            waits.acquire().await.unwrap().forget();
            echo(context, payload).await
        }
    });
    let worker = worker.build().unwrap().start_once(budget).await.unwrap();
    let comes_to = async |claimed, running, buffered| {
        eventually(&format!("{claimed} claimed, {running} running, {buffered} waiting"), async || {
            let stats = worker.stats();
            ((stats.claimed, stats.running, stats.buffered) == (claimed, running, buffered)).then_some(())
        })
        .await;
    };
    comes_to(8, 4, 4).await;
    go_on.add_permits(2);
    comes_to(10, 4, 4).await;
    go_on.add_permits(6);
    comes_to(10, 0, 2).await;
    points.pause("beat");
    eventually("what waits is to go back", async || (worker.stats().buffered == 0).then_some(())).await;
    points.resume("beat");
    points.resume("report");
    timeout(PATIENCE, worker.ended()).await.unwrap();
    worker.sound().unwrap();
}

/// Starts one job that pays no heed to its cancellation, on a worker that would wait for it longer than the story does.
async fn heedless(story: &Story, config: WorkerConfig, points: &FaultPoints) -> WorkerHandle {
    let config = WorkerConfig { stop_grace: 2 * PATIENCE, faults: faults(points), ..config };
    let worker = story.work(config, |_, _| std::future::pending()).await;
    let id = story.enqueue(json!(1)).await;
    story.until(id, "running").await;
    points.pause("claim");
    worker
}

async fn nothing_runs(worker: &WorkerHandle) {
    eventually("the handler is dropped", async || (worker.stats().running == 0).then_some(())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_handler_runs_past_the_end_of_its_lease() {
    let story = Story::begin().await;
    let points = FaultPoints::new();
    let worker = heedless(&story, WorkerConfig { lease_seconds: 1, ..story.config() }, &points).await;
    points.pause("beat");
    nothing_runs(&worker).await;
    points.resume("beat");
    points.resume("claim");
    worker.vanish();
}

#[tokio::test(flavor = "multi_thread")]
async fn no_handler_goes_on_once_its_lease_is_known_to_be_lost() {
    let story = Story::begin().await;
    let points = FaultPoints::new();
    let heartbeat = Some(Duration::from_millis(50));
    let config = WorkerConfig { lease_seconds: 3600, heartbeat, ..story.config() };
    let worker = heedless(&story, config, &points).await;
    story.db.connect_super().await.batch_execute("delete from jobforge.leases").await.unwrap();
    nothing_runs(&worker).await;
    worker.vanish();
}

/// A worker that stops interrupts its handlers, and its beats go on.
#[tokio::test(flavor = "multi_thread")]
async fn a_handler_has_its_whole_grace_while_its_lease_is_renewed() {
    const ENDS: &str = "select (extract(epoch from max(expires_at)) * 1000)::bigint from jobforge.leases";
    const NOW: &str = "select (extract(epoch from clock_timestamp()) * 1000)::bigint";
    let story = Story::begin().await;
    let (stopped, go_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let signals = [stopped.clone(), go_on.clone()];
    let config = WorkerConfig { lease_seconds: 6, grace_seconds: 0, stop_grace: PATIENCE, ..story.config() };
    let worker = story
        .work(config, move |context, payload| {
            let [stopped, go_on] = signals.clone();
            async move {
                context.cancellation().cancelled().await;
                stopped.notify_one();
                go_on.notified().await;
                echo(context, payload).await
            }
        })
        .await;
    let id = story.enqueue(json!(1)).await;
    story.until(id, "running").await;
    tokio::join!(worker.shutdown(), async {
        timeout(PATIENCE, stopped.notified()).await.unwrap();
        let end = story.count(ENDS).await;
        eventually("the lease would be over", async || (story.count(NOW).await > end).then_some(())).await;
        assert_eq!(worker.stats().running, 1);
        go_on.notify_one();
    });
    let job = story.job(id).await;
    assert_eq!((job.status.as_str(), job.attempt), ("succeeded", 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_outcome_that_comes_after_the_lease_is_dropped() {
    let story = Story::begin().await;
    let points = FaultPoints::new();
    let config = WorkerConfig { lease_seconds: 1, faults: faults(&points), ..story.config() };
    points.pause("beat");
    let (go_on, waits) = mpsc::channel();
    let waits = Arc::new(Mutex::new(waits));
    // A zombie: it blocks its thread, and cannot even be dropped.
    let zombie = story
        .work(config, move |context, payload| {
            let waits = waits.clone();
            async move {
                block_in_place(|| waits.lock().unwrap().recv()).unwrap();
                echo(context, payload).await
            }
        })
        .await;
    let id = story.enqueue_numbers(1).await[0];
    story.until(id, "running").await;
    points.pause("claim");
    eventually("the lease is reaped", async || (story.reap().await.deaths == 1).then_some(())).await;
    let honest = story.work(story.config(), |_, _| async { Ok(Outcome::complete("honest")?) }).await;
    story.until(id, "succeeded").await;

    go_on.send(()).unwrap();
    points.resume("beat");
    points.resume("claim");
    eventually("the zombie's outcome is dropped", async || (zombie.stats().lost == 1).then_some(())).await;
    let job = story.job(id).await;
    assert_eq!((job.result.unwrap().get(), job.attempt, job.deaths), ("\"honest\"", 2, 1));
    assert_eq!(zombie.stats().completed, 0);
    zombie.shutdown().await;
    honest.shutdown().await;
}

/// Whoever widens a lease waits for whoever holds the lock 42.
const WIDENING_WAITS: &str = "
    create function public.hold() returns trigger language plpgsql as
      $$ begin perform pg_advisory_xact_lock(42); return new; end $$;
    create trigger hold before update on jobforge.leases for each row
      when (new.window_size > old.window_size) execute function public.hold()";

/// Once its jobs turn out to be quick, the worker goes on with its lease and widens it.
#[tokio::test(flavor = "multi_thread")]
async fn no_more_jobs_start_unreported_than_the_lease_was_told() {
    let story = Story::begin().await;
    let holder = story.db.connect_super().await;
    holder.batch_execute(WIDENING_WAITS).await.unwrap();
    holder.batch_execute("select pg_advisory_lock(42)").await.unwrap();
    let points = FaultPoints::new();
    points.pause("report");
    let started = Arc::new(AtomicUsize::new(0));
    let starts = started.clone();
    let config = WorkerConfig { slots: 4, report_group: 8, faults: faults(&points), ..story.config() };
    let (tight, window) = (config.tight_window(), config.window());
    story.enqueue_numbers(100).await;
    let worker = story
        .work(config, move |context, payload| {
            starts.fetch_add(1, Ordering::SeqCst);
            echo(context, payload)
        })
        .await;
    eventually("the window is full", async || (started.load(Ordering::SeqCst) == tight).then_some(())).await;
    points.resume("report");
    let waiting = "select count(*) from pg_locks where locktype = 'advisory' and objid = 42 and not granted
        and database = (select oid from pg_database where datname = current_database())";
    eventually("a claim would widen the lease", async || {
        story.enqueue_numbers(100).await;
        (story.count(waiting).await == 1).then_some(())
    })
    .await;
    assert_eq!(worker.stats().unreported_most, tight, "what the lease was told before");
    holder.batch_execute("select pg_advisory_unlock(42)").await.unwrap();
    let left = "select count(*) from jobforge.jobs";
    eventually("all are over", async || (story.count(left).await == 0).then_some(())).await;
    let most = worker.stats().unreported_most;
    assert!((tight..=window).contains(&most), "{most}");
    worker.shutdown().await;
}

/// Some jobs are quick, and some wait until they are released.
struct Mixture {
    story: Story,
    worker: WorkerHandle,
    released: Arc<Semaphore>,
    tight: usize,
    wide: usize,
}

impl Mixture {
    /// A worker that has seen quick jobs alone, and has a lease with a wide window.
    async fn begin(slots: usize) -> Mixture {
        let story = Story::begin().await;
        let config = WorkerConfig { slots, report_group: 8, ..story.config() };
        let (tight, wide) = (config.tight_window(), config.window());
        let released = Arc::new(Semaphore::new(0));
        let waits = released.clone();
        let handler = move |context, payload: Value| {
            let waits = waits.clone();
            async move {
                if payload == "slow" {
                    waits.acquire().await.unwrap().forget();
                }
                echo(context, payload).await
            }
        };
        let worker = story.work(config, handler).await;
        let mixture = Mixture { story, worker, released, tight, wide };
        mixture.widen().await;
        mixture
    }

    /// Quick jobs, until the worker takes all jobs for quick.
    async fn widen(&self) {
        eventually("the window is wide", async || {
            self.story.enqueue_numbers(100).await;
            self.all_over().await;
            (self.leases(self.tight).await == 0 && self.leases(self.wide).await > 0).then_some(())
        })
        .await;
    }

    /// Two slow jobs and ten quick ones behind them, claimed onto a lease with a wide window. A machine that holds a
    /// quick job up for a moment makes the worker careful too soon: then once more.
    async fn claim_mixed(&self) {
        let payloads = ["slow", "slow"].into_iter().chain(["quick"; 10]);
        let jobs: Vec<NewJob> = payloads.map(|payload| NewJob::new(NOOP, &payload).unwrap()).collect();
        loop {
            rpc::enqueue_jobs(&self.story.app, TENANT_A, &jobs).await.unwrap();
            let claimed = "select count(*) from jobforge.jobs where fence > 0";
            eventually("they are claimed", async || (self.story.count(claimed).await == 12).then_some(()))
                .await;
            let careful = format!(
                "select count(*) from jobforge.jobs j join jobforge.leases l on l.id = j.lease_id
                 where l.window_size = {} and j.fence = 1",
                self.tight
            );
            if self.story.count(&careful).await == 0 {
                return;
            }
            self.released.add_permits(2);
            self.all_over().await;
            self.widen().await;
        }
    }

    /// How many leases have such a window.
    async fn leases(&self, window: usize) -> i64 {
        self.story.count(&format!("select count(*) from jobforge.leases where window_size = {window}")).await
    }

    async fn all_over(&self) {
        eventually("all are over", async || {
            (self.story.count("select count(*) from jobforge.jobs").await == 0).then_some(())
        })
        .await;
    }
}

/// A worker that dies is taken to have started as many jobs as the window holds: with slow ones among them few had.
#[tokio::test(flavor = "multi_thread")]
async fn a_slow_job_among_quick_ones_makes_the_next_leases_window_tight() {
    let mixture = Mixture::begin(4).await;
    let slow = mixture.story.enqueue("slow".into()).await;
    eventually("the next lease's window is tight", async || {
        mixture.story.enqueue_numbers(5).await;
        (mixture.leases(mixture.tight).await > 0).then_some(())
    })
    .await;
    assert_eq!(mixture.story.job(slow).await.status, "running");
    mixture.released.add_permits(1);
    mixture.story.until(slow, "succeeded").await;

    // It is remembered for hundreds of jobs.
    mixture.all_over().await;
    eventually("the wide lease is closed", async || (mixture.leases(mixture.wide).await == 0).then_some(()))
        .await;
    mixture.story.enqueue_numbers(100).await;
    mixture.all_over().await;
    assert_eq!(mixture.leases(mixture.wide).await, 0);
    mixture.worker.shutdown().await;
}

/// They were claimed when all was quick; without this they would count as started until they are.
#[tokio::test(flavor = "multi_thread")]
async fn what_waits_behind_slow_jobs_goes_back_and_comes_on_a_tight_lease() {
    let mixture = Mixture::begin(2).await;
    mixture.claim_mixed().await;
    // A claim each: that of a worker that is merely stuck gives back and does not claim again.
    let again =
        "select coalesce(min(fence), 0)::bigint from jobforge.jobs where payload = to_jsonb('quick'::text)";
    eventually("they were claimed again", async || (mixture.story.count(again).await >= 2).then_some(()))
        .await;
    let running =
        "select count(*) from jobforge.jobs where payload = to_jsonb('slow'::text) and ready and not taken";
    assert_eq!(
        mixture.story.count(running).await,
        2,
        "while both of the slow ones ran, taken for quick ones"
    );
    let out = "select count(*) from jobforge.jobs where payload = to_jsonb('quick'::text) and taken";
    assert_eq!(mixture.story.count(out).await, 10, "none of the others is");
    mixture.released.add_permits(2);
    mixture.all_over().await;
    mixture.worker.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn suspects_run_one_at_a_time_on_leases_of_their_own() {
    let story = Story::begin().await;
    let ids = story.enqueue_numbers(5).await;
    let suspects = [ids[1], ids[2], ids[4]];
    let admin = story.db.connect_super().await;
    for id in suspects {
        admin.execute("update jobforge.jobs set deaths = 2, fence = 2 where id = $1", &[&id]).await.unwrap();
    }
    let (running, overlap) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let leases = Arc::new(Mutex::new(std::collections::HashSet::new()));
    let (beside, overlapped, seen) = (running.clone(), overlap.clone(), leases.clone());
    let worker = story
        .work(story.config(), move |context, _| {
            let (beside, overlapped, seen) = (beside.clone(), overlapped.clone(), seen.clone());
            async move {
                seen.lock().unwrap().insert(context.lease());
                if suspects.contains(&context.job_id()) {
                    overlapped.fetch_or(beside.fetch_add(1, Ordering::SeqCst) > 0, Ordering::SeqCst);
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    beside.fetch_sub(1, Ordering::SeqCst);
                }
                Ok(Outcome::done())
            }
        })
        .await;
    for id in ids {
        story.until(id, "succeeded").await;
    }
    assert!(!overlap.load(Ordering::SeqCst));
    assert_eq!(leases.lock().unwrap().len(), 4);
    eventually("their leases are closed", async || {
        (story.count("select count(*) from jobforge.leases where solo").await == 0).then_some(())
    })
    .await;
    worker.shutdown().await;
}

/// A claim of nothing but a suspect makes no other lease: the next claim must not ask for one.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_of_suspects_alone_misses_no_lease() {
    let lines = Lines::capture();
    let story = Story::begin().await;
    let ids = story.enqueue_numbers(5).await;
    let admin = story.db.connect_super().await;
    admin.execute("update jobforge.jobs set deaths = 2, fence = 2", &[]).await.unwrap();
    let worker = story.work(story.config(), echo).await;
    for id in ids {
        story.until(id, "succeeded").await;
    }
    worker.shutdown().await;
    // A machine that is busy may cost other warnings.
    assert_eq!(lines.count("WARN", "claiming on a new one"), 0, "{}", lines.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_stuck_before_long_jobs_gives_its_buffer_back() {
    let story = Story::begin().await;
    let open = Arc::new(Notify::new());
    let waits = open.clone();
    let config = WorkerConfig { slots: 1, ..story.config() };
    let stuck = story
        .work(config, move |_, _| {
            let waits = waits.clone();
            async move {
                waits.notified().await;
                Ok(Outcome::done())
            }
        })
        .await;
    let ids = story.enqueue_numbers(2).await;
    eventually("both are claimed", async || (stuck.stats().claimed == 2).then_some(())).await;
    let other = story.work(story.config(), echo).await;
    let job = story.until(ids[1], "succeeded").await;
    assert_eq!((job.attempt, job.deaths), (2, 0));
    open.notify_one();
    story.until(ids[0], "succeeded").await;
    stuck.shutdown().await;
    other.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_without_jobs_is_not_renewed() {
    const UNTIL: &str = "select (extract(epoch from max(expires_at)) * 1000000)::bigint from jobforge.leases";
    let story = Story::begin().await;
    let points = FaultPoints::new();
    let heartbeat = Some(Duration::from_millis(50));
    let worker =
        story.work(WorkerConfig { heartbeat, faults: faults(&points), ..story.config() }, echo).await;
    story.enqueue(json!(1)).await;
    eventually("it is told", async || (worker.stats().completed == 1).then_some(())).await;
    // One beat may have been under way.
    let beats = async |more: usize| {
        let enough = points.hits("beat") + more;
        eventually("it beats on", async || (points.hits("beat") >= enough).then_some(())).await;
    };
    beats(2).await;
    let until = story.count(UNTIL).await;
    beats(5).await;
    assert_eq!(story.count(UNTIL).await, until);
    worker.shutdown().await;
}
