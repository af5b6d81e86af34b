//! What a leader does.

use std::time::Duration;

use jobforge_core::rpc::{claim_jobs, enqueue_job};
use jobforge_core::{ClaimRequest, NewJob};
use jobforge_scheduler::SchedulerConfig;
use jobforge_testkit::{NOOP, QUEUE, TENANT_A, TestDb};
use uuid::Uuid;

use crate::{Claims, config, start, until};

/// A leader that looks for lost leases at their expiries alone, and whose term outlasts the test.
fn patient(db: &TestDb) -> SchedulerConfig {
    let reap_at_least_every = Duration::from_secs(300);
    SchedulerConfig { lead_seconds: 600, reap_at_least_every, ..config(db, "reaper") }
}

/// A worker that is not heard of again, with this many jobs on a lease of two seconds.
async fn lose_a_worker(db: &TestDb, jobs: i32) -> Vec<Uuid> {
    let (app, worker) = (db.as_app().await, db.as_worker().await);
    let claims = Claims::of("lost:1:boot");
    claims.register(&worker).await;
    let mut ids = Vec::new();
    for _ in 0..jobs {
        ids.push(enqueue_job(&app, TENANT_A, &NewJob::new(NOOP, &1).unwrap()).await.unwrap().id);
    }
    let request = ClaimRequest { limit: jobs, ..claims.request(2) };
    assert_eq!(claim_jobs(&worker, &request).await.unwrap().jobs.len(), ids.len());
    ids
}

/// The first look finds the lease alive, since the clock stands; the next one is due when it runs out.
#[tokio::test]
async fn jobs_of_a_lost_worker_come_back_when_its_lease_runs_out() {
    let db = TestDb::new().await;
    db.advance_clock(0.0).await;
    let id = lose_a_worker(&db, 1).await[0];
    let scheduler = start(patient(&db)).await;
    scheduler.settled().await;
    db.advance_clock(3.0).await;
    let admin = db.connect_super().await;
    until("the job waits again with one death", async || {
        let sql = "select status = 'queued' and deaths = 1 from jobforge.jobs where id = $1";
        admin.query_one(sql, &[&id]).await.unwrap().get(0)
    })
    .await;
    scheduler.shutdown().await;
}

#[tokio::test]
async fn a_job_that_somebody_holds_comes_back_soon_after_the_others() {
    let db = TestDb::new().await;
    let ids = lose_a_worker(&db, 3).await;
    let mut app = db.as_app().await;
    let cancel = app.transaction().await.unwrap();
    cancel.execute("select set_config('app.tenant_id', $1::uuid::text, true)", &[&TENANT_A]).await.unwrap();
    cancel.execute("select * from jobforge.cancel_job($1, $2)", &[&TENANT_A, &ids[1]]).await.unwrap();
    let scheduler = start(patient(&db)).await;
    let admin = db.connect_super().await;
    until("the others wait again", async || {
        let sql = "select count(*) = 2 from jobforge.jobs where status = 'queued'";
        admin.query_one(sql, &[]).await.unwrap().get(0)
    })
    .await;
    cancel.commit().await.unwrap();
    until("it is canceled", async || {
        let sql = "select count(*) = 1 from jobforge.job_history where id = $1 and status = 'canceled'";
        admin.query_one(sql, &[&ids[1]]).await.unwrap().get(0)
    })
    .await;
    scheduler.shutdown().await;
}

#[tokio::test]
async fn once_settled_partitions_exist_for_two_weeks_and_the_queues_are_sampled() {
    let db = TestDb::new().await;
    let app = db.as_app().await;
    enqueue_job(&app, TENANT_A, &NewJob::new(NOOP, &1).unwrap()).await.unwrap();
    let scheduler = start(config(&db, "keeper")).await;
    scheduler.settled().await;
    let admin = db.connect_super().await;
    let sql = "select count(*) from pg_inherits i join pg_class p on p.oid = i.inhrelid
               where i.inhparent = 'jobforge.job_history_week'::regclass and p.relname ~ '_[0-9]{8}$'
               and to_date(right(p.relname, 8), 'YYYYMMDD') between (now() at time zone 'UTC')::date
                 and (now() at time zone 'UTC')::date + 13";
    let days: i64 = admin.query_one(sql, &[]).await.unwrap().get(0);
    assert_eq!(days, 14);
    let sampled: i64 =
        admin.query_one("select sum(queued)::bigint from jobforge.queue_stats", &[]).await.unwrap().get(0);
    assert_eq!(sampled, 1);
    scheduler.shutdown().await;
}

#[tokio::test]
async fn a_leader_samples_what_comes_and_goes() {
    let db = TestDb::new().await;
    let app = db.as_app().await;
    let quick = SchedulerConfig { stats_every: Duration::from_millis(200), ..config(&db, "sampler") };
    let scheduler = start(quick).await;
    scheduler.settled().await;
    enqueue_job(&app, TENANT_A, &NewJob::new(NOOP, &1).unwrap()).await.unwrap();
    let admin = db.connect_super().await;
    until("the job is counted for its queue and its tenant", async || {
        let sql = "select (select coalesce(sum(enqueued), 0) from jobforge.queue_stats where queue = $1) = 1
                     and (select coalesce(sum(enqueued), 0) from jobforge.tenant_stats where tenant_id = $2) = 1";
        admin.query_one(sql, &[&QUEUE, &TENANT_A]).await.unwrap().get(0)
    })
    .await;
    scheduler.shutdown().await;
}

#[tokio::test]
async fn due_work_becomes_ready_without_any_worker() {
    let db = TestDb::new().await;
    let app = db.as_app().await;
    let soon = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(1);
    let later = NewJob::new(NOOP, &1).unwrap().run_at(soon);
    let id = enqueue_job(&app, TENANT_A, &later).await.unwrap().id;
    let quick = SchedulerConfig { promote_every: Duration::from_millis(200), ..config(&db, "promoter") };
    let scheduler = start(quick).await;
    let admin = db.connect_super().await;
    until("the job is ready", async || {
        admin.query_one("select ready from jobforge.jobs where id = $1", &[&id]).await.unwrap().get(0)
    })
    .await;
    scheduler.shutdown().await;
}

/// More than one call takes: a round goes on until nothing is left.
#[tokio::test]
async fn dead_letters_past_their_time_are_gone_after_one_round() {
    let db = TestDb::new().await;
    let admin = db.connect_super().await;
    let letters = "insert into jobforge.jobs (tenant_id, id, run_at, created_at, finished_at, fence, max_attempts, priority,
          ready, status, retention, queue, type, payload, source)
        select $1, gen_random_uuid(), now(), now(), now() - n * interval '1 hour', 1, 5, 100, false, 'dead', 'week', $2, $3,
          '{}', 'manual'
        from generate_series(366 * 24 - 99, 366 * 24 + 2500) as n";
    admin.execute(letters, &[&TENANT_A, &QUEUE, &NOOP]).await.unwrap();
    let once = SchedulerConfig { prune_every: Duration::from_secs(3600), ..config(&db, "pruner") };
    let scheduler = start(once).await;
    until("the old dead letters are gone", async || {
        let sql = "select count(*) <= 100 from jobforge.jobs";
        admin.query_one(sql, &[]).await.unwrap().get(0)
    })
    .await;
    scheduler.shutdown().await;
    let left = "select count(*), min(finished_at) > now() - interval '366 days 1 minute' from jobforge.jobs";
    let row = admin.query_one(left, &[]).await.unwrap();
    assert_eq!((row.get::<_, i64>(0), row.get::<_, bool>(1)), (99, true), "the younger ones stay");
}

#[tokio::test]
async fn an_idle_leader_asks_little() {
    let db = TestDb::new().await;
    let defaults = SchedulerConfig::default();
    // Statements in a minute without leases: what the defaults' periods add up to.
    let per_minute = |period: Duration| 60.0 / period.as_secs_f64();
    let periods = [
        defaults.lead_every,
        defaults.reap_at_least_every,
        defaults.promote_every,
        defaults.prune_every,
        defaults.stats_every,
        defaults.partitions_every,
    ];
    let statements: f64 = periods.into_iter().map(per_minute).sum();
    assert!(statements < 60.0, "{statements} statements a minute");

    // And nothing is asked beyond the periods: a settled leader with long ones is silent.
    let long = Duration::from_secs(3600);
    let silent = SchedulerConfig {
        lead_every: Duration::from_secs(300),
        lead_seconds: 600,
        reap_at_least_every: long,
        promote_every: long,
        prune_every: long,
        stats_every: long,
        ..config(&db, "silent")
    };
    let scheduler = start(silent).await;
    scheduler.settled().await;
    let admin = db.connect_super().await;
    let sql = "select coalesce(max(state_change), '-infinity') < now() - interval '300 milliseconds'
               and bool_and(state = 'idle') from pg_stat_activity
               where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'";
    until("all its sessions have been idle for a while", async || {
        admin.query_one(sql, &[]).await.unwrap().get(0)
    })
    .await;
    scheduler.shutdown().await;
}
