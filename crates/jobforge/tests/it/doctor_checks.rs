//! Each check of `jobforge doctor`: green on a sound database, red once its fault is made.

use jobforge_core::rpc::{
    claim_jobs, enqueue_job, lead, pause, reap, register_worker, resume, upsert_tenant,
};
use jobforge_core::{ClaimRequest, Cursor, NewJob, NewPause, PauseKind, Registration, Tenant, migrate};
use jobforge_testkit::{APP, NOOP, OPERATOR, PrivateCluster, QUEUE, TENANT_A, TestDb, connect};
use serde_json::Value;
use tokio_postgres::Client;

use crate::{Cli, Ran, jobforge};

/// What one check came to.
struct Found {
    verdict: String,
    /// Everything it says, in one text.
    words: String,
}

struct Doctor {
    cli: Cli,
    flags: Vec<String>,
}

impl Doctor {
    fn of(db: &TestDb) -> Doctor {
        Doctor { cli: Cli::new(db, OPERATOR), flags: Vec::new() }
    }

    /// Where somebody leads no examination waits for a leader.
    async fn led(db: &TestDb) -> Doctor {
        lead(&db.as_operator().await, "the leader", 600).await.unwrap();
        Doctor::of(db)
    }

    fn report(&self) -> Value {
        let flags: Vec<&str> = self.flags.iter().map(String::as_str).collect();
        self.cli.run(&[&["doctor", "--json"], flags.as_slice()].concat()).parsed()
    }

    #[track_caller]
    fn finds(&self, name: &str, verdict: &str) -> Found {
        let found = found(&self.report(), name);
        assert_eq!(found.verdict, verdict, "{name}: {}", found.words);
        found
    }
}

#[track_caller]
fn found(report: &Value, name: &str) -> Found {
    let checks = report["checks"].as_array().unwrap();
    let check = checks.iter().find(|check| check["name"] == name);
    let check = check.unwrap_or_else(|| panic!("no check {name}: {report}"));
    Found { verdict: check["verdict"].as_str().unwrap().to_owned(), words: check.to_string() }
}

async fn register(worker: &Client, id: &str) {
    let registration = Registration {
        worker_id: id.to_owned(),
        host: "testhost".to_owned(),
        pid: Some(1),
        version: "test".to_owned(),
        queues: vec![QUEUE.to_owned()],
        types: vec![NOOP.to_owned()],
        slots: 1,
        metadata: None,
    };
    register_worker(worker, &registration).await.unwrap();
}

/// Worker `w1` runs one job of tenant A, another one waits.
async fn one_runs_one_waits(db: &TestDb) {
    let (app, worker) = (db.as_app().await, db.as_worker().await);
    let (queues, types) = (vec![QUEUE.to_owned()], vec![NOOP.to_owned()]);
    register(&worker, "w1").await;
    for _ in 0..2 {
        enqueue_job(&app, TENANT_A, &NewJob::raw(NOOP, serde_json::from_str("{}").unwrap())).await.unwrap();
    }
    let cursor = Cursor::default();
    let request = ClaimRequest {
        worker_id: "w1",
        queues: &queues,
        types: &types,
        limit: 1,
        free: 1,
        lease_id: None,
        new_lease_id: None,
        lease_seconds: 30,
        window: Some(1),
        quick: false,
        cursor: &cursor,
    };
    assert_eq!(claim_jobs(&worker, &request).await.unwrap().jobs.len(), 1);
}

async fn change(admin: &Client, sql: &str) {
    admin.batch_execute(sql).await.unwrap();
}

/// Opens a transaction with a snapshot, and keeps it open.
async fn hold_snapshot(client: &Client) {
    client
        .batch_execute("begin isolation level repeatable read; select count(*) from pg_class")
        .await
        .unwrap();
}

#[tokio::test]
async fn a_sound_database_is_found_sound_and_a_login_without_rights_is_told_so() {
    let db = TestDb::new().await;
    one_runs_one_waits(&db).await;
    let sound = Doctor::of(&db).report();
    for name in [
        "indexes",
        "drift: tables",
        "drift: security",
        "drift: functions",
        "bloat: jobs",
        "bloat: leases",
        "bloat: lease_claims",
        "snapshot holders",
        "stuck leases",
        "stranded jobs",
        "starving limits",
        "forgotten pauses",
    ] {
        let found = found(&sound, name);
        assert_eq!(found.verdict, "ok", "{name}: {}", found.words);
    }
    let stranger = Cli::new(&db, APP).run(&["doctor", "--json"]);
    assert_eq!(stranger.code, 1, "whether the schema was applied it may not see: {stranger:?}");
    let failed =
        stranger.parsed()["checks"].as_array().unwrap().iter().any(|check| check["verdict"] == "fail");
    assert!(!failed, "what a login may not see is no failure of a check: {stranger:?}");
    let names = [
        "schema",
        "scheduler",
        "workers",
        "stuck leases",
        "stranded jobs",
        "starving limits",
        "forgotten pauses",
    ];
    for name in names {
        let found = found(&stranger.parsed(), name);
        assert_eq!(found.verdict, "skip", "{name}: {}", found.words);
        assert!(found.words.contains("jf_operator"), "{}", found.words);
    }
    assert_eq!(found(&stranger.parsed(), "drift: tables").verdict, "ok", "the catalogs are everybody's");
}

#[tokio::test]
async fn a_server_that_takes_no_writes_is_found() {
    let db = TestDb::new().await;
    let (mut doctor, admin) = (Doctor::led(&db).await, db.connect_super().await);
    doctor.finds("server", "ok");
    // Other connections are refused by the client itself.
    doctor.cli.url += "?target_session_attrs=read-only";
    let closed = format!("alter database {} set default_transaction_read_only = on", db.name());
    change(&admin, &closed).await;
    let words = doctor.finds("server", "fail").words;
    assert!(words.contains("read-only") && words.contains("connect to the primary"), "{words}");
}

#[tokio::test]
async fn a_schema_of_another_text_is_found() {
    let db = TestDb::new().await;
    let (doctor, admin) = (Doctor::led(&db).await, db.connect_super().await);
    doctor.finds("schema", "ok");
    change(&admin, "update jobforge.schema_functions set sha256 = 'old' where name = '00_base'").await;
    let words = doctor.finds("schema", "fail").words;
    assert!(words.contains("1 files are missing or differ") && words.contains("jobforge migrate"), "{words}");
    migrate::up(&db.super_url()).await.unwrap();
    doctor.finds("schema", "ok");
    change(&admin, "update jobforge.schema_migrations set sha256 = 'other' where version = 2").await;
    let words = doctor.finds("schema", "fail").words;
    assert!(words.contains("another text of 0002_system"), "{words}");
    assert!(!words.contains("jobforge migrate"), "it would refuse: {words}");
    let ahead = "insert into jobforge.schema_migrations (version, name, sha256, took_ms) values (9999, '9999_x', '', 0)";
    change(&admin, ahead).await;
    let words = doctor.finds("schema", "fail").words;
    assert!(words.contains("9999_x") && words.contains("upgrade this program"), "{words}");
}

#[tokio::test]
async fn a_worker_that_went_silent_is_found() {
    let db = TestDb::new().await;
    let (doctor, admin, worker) = (Doctor::led(&db).await, db.connect_super().await, db.as_worker().await);
    register(&worker, "w1").await;
    doctor.finds("workers", "ok");
    change(&admin, "update jobforge.workers set last_seen = last_seen - interval '2 minutes'").await;
    let words = doctor.finds("workers", "warn").words;
    assert!(words.contains("0 alive, 1 silent") && words.contains("jobforge work"), "{words}");
    register(&worker, "w2").await;
    let words = doctor.finds("workers", "warn").words;
    assert!(words.contains("1 alive, 1 silent") && words.contains("without stopping: w1"), "{words}");
    register(&worker, "w1").await;
    doctor.finds("workers", "ok");
}

#[tokio::test]
async fn attempts_that_were_lost_are_found_for_an_hour() {
    let db = TestDb::new().await;
    one_runs_one_waits(&db).await;
    let (doctor, admin, operator) = (Doctor::of(&db), db.connect_super().await, db.as_operator().await);
    let term = lead(&operator, "the leader", 600).await.unwrap().term;
    doctor.finds("lost attempts", "ok");
    change(&admin, "update jobforge.leases set expires_at = clock_timestamp() - interval '5 minutes'").await;
    assert_eq!(reap(&operator, term, 10).await.unwrap().deaths, 1);
    let words = doctor.finds("lost attempts", "warn").words;
    assert!(words.contains("1 in the last hour") && words.contains("see their logs"), "{words}");
    change(&admin, "update jobforge.attempts set finished_at = finished_at - interval '61 minutes'").await;
    doctor.finds("lost attempts", "ok");
    change(
        &admin,
        "update jobforge.attempts set finished_at = clock_timestamp(), tenant_id = gen_random_uuid()",
    )
    .await;
    doctor.finds("lost attempts", "ok");
}

#[tokio::test]
async fn missing_and_invalid_indexes_are_found() {
    let db = TestDb::new().await;
    let (doctor, admin) = (Doctor::led(&db).await, db.connect_super().await);
    change(&admin, "create index by_hand on jobforge.jobs (source)").await;
    doctor.finds("indexes", "warn");
    let invalid = "update pg_index set indisvalid = $1 where indexrelid = 'jobforge.jobs_future'::regclass";
    admin.execute(invalid, &[&false]).await.unwrap();
    let words = doctor.finds("indexes", "fail").words;
    assert!(words.contains("reindex index concurrently jobforge.jobs_future"), "{words}");
    change(&admin, "drop index jobforge.jobs_future").await;
    let words = doctor.finds("indexes", "fail").words;
    assert!(words.contains("create index jobs_future") && words.contains("concurrently"), "{words}");
}

#[tokio::test]
async fn a_schema_changed_by_hand_is_found_and_functions_are_mended() {
    let db = TestDb::new().await;
    let (doctor, admin) = (Doctor::led(&db).await, db.connect_super().await);
    change(&admin, "alter table jobforge.jobs add column by_hand text").await;
    let words = doctor.finds("drift: tables", "warn").words;
    assert!(words.contains("add column by_hand"), "{words}");
    change(&admin, "alter table jobforge.tenants drop constraint tenants_weight_range").await;
    let words = doctor.finds("drift: tables", "fail").words;
    assert!(words.contains("tenants_weight_range") && words.contains("jobforge migrate --print"), "{words}");
    change(&admin, "drop policy tenant_reads on jobforge.jobs").await;
    let words = doctor.finds("drift: security", "fail").words;
    assert!(words.contains("create policy tenant_reads on jobforge.jobs"), "{words}");

    let other =
        "create or replace function jobforge.canonical(p_value jsonb) returns text language plpgsql immutable
                 as $$ begin return 'other'; end $$";
    change(&admin, other).await;
    let words = doctor.finds("drift: functions", "fail").words;
    assert!(words.contains("canonical") && words.contains("jobforge migrate --functions"), "{words}");
    let args = ["migrate", "--functions", "--database-url", &db.super_url()];
    let mended = Ran::of(jobforge(doctor.cli.dir.path()).args(args).output().unwrap());
    assert!(mended.code == 0 && mended.stdout.contains("applied 90_read"), "{mended:?}");
    doctor.finds("drift: functions", "ok");
    change(&admin, "alter function jobforge.retry_job(uuid, uuid) owner to jf_sys").await;
    let words = doctor.finds("drift: functions", "fail").words;
    assert!(words.contains("jobforge.retry_job(uuid, uuid) owner to jf_fn"), "{words}");
}

/// The probe of the doctor's own login cannot see what others were let in to.
#[tokio::test]
async fn what_opens_tables_to_others_is_red_and_what_opens_nothing_is_not() {
    let db = TestDb::new().await;
    let (doctor, admin) = (Doctor::led(&db).await, db.connect_super().await);
    doctor.finds("drift: security", "ok");
    let faults = [
        (
            "create policy opened on jobforge.jobs for select to jf_tenant using (true)",
            "drop policy opened on jobforge.jobs",
            "opens: create policy opened on jobforge.jobs for select to jf_tenant using (true)",
        ),
        (
            "grant select on jobforge.jobs to public",
            "revoke select on jobforge.jobs from public",
            "opens: grant select on table jobforge.jobs to public",
        ),
        (
            "grant select (payload) on jobforge.jobs to pg_monitor",
            "revoke select (payload) on jobforge.jobs from pg_monitor",
            "opens: grant select (payload) on table jobforge.jobs to pg_monitor",
        ),
        (
            "grant execute on function jobforge.bind_login to public",
            "revoke execute on function jobforge.bind_login from public",
            "opens: grant execute on function jobforge.bind_login(",
        ),
        (
            "create function jobforge.mine() returns bigint language sql security definer
               as 'select count(*) from jobforge.jobs'",
            "drop function jobforge.mine()",
            "opens: grant execute on function jobforge.mine() to public",
        ),
        (
            "create view jobforge.mine as select * from jobforge.jobs; grant select on jobforge.mine to public",
            "drop view jobforge.mine",
            "opens: grant select on table jobforge.mine to public",
        ),
        (
            "create materialized view jobforge.mine as select * from jobforge.jobs; grant select on jobforge.mine to public",
            "drop materialized view jobforge.mine",
            "opens: grant select on table jobforge.mine to public",
        ),
    ];
    for (fault, mended, told) in faults {
        change(&admin, fault).await;
        let words = doctor.finds("drift: security", "fail").words;
        for part in [told, "1 open what is installed closed", "drop or revoke"] {
            assert!(words.contains(part), "{fault}: {words}");
        }
        change(&admin, mended).await;
        doctor.finds("drift: security", "ok");
    }
    let harmless =
        "create policy narrower on jobforge.jobs as restrictive for select to jf_operator using (true);
                    grant usage on schema jobforge to pg_monitor";
    change(&admin, harmless).await;
    let words = doctor.finds("drift: security", "warn").words;
    assert!(words.contains("0 facts missing, 2 too many") && words.contains("narrower"), "{words}");
}

/// Whoever followed an advice to revoke what is left would close what must be open.
#[tokio::test]
async fn what_is_left_of_a_grant_opens_nothing_and_what_is_more_than_it_does() {
    let db = TestDb::new().await;
    let (doctor, admin) = (Doctor::led(&db).await, db.connect_super().await);
    let narrowed =
        "revoke delete on jobforge.jobs from jf_fn; revoke select (payload) on jobforge.jobs from jf_tenant;
                    revoke select (status) on jobforge.jobs from jf_tenant";
    change(&admin, narrowed).await;
    let words = doctor.finds("drift: security", "fail").words;
    for part in [
        "2 facts missing, 0 too many",
        "missing: grant delete, insert, select, update on table jobforge.jobs to jf_fn;",
        "of it there is: grant insert, select, update on table jobforge.jobs to jf_fn;",
    ] {
        assert!(words.contains(part), "{part}: {words}");
    }
    assert!(!words.contains("open"), "{words}");
    change(&admin, "grant truncate on jobforge.jobs to jf_fn").await;
    let words = doctor.finds("drift: security", "fail").words;
    let told = "opens: grant insert, select, truncate, update on table jobforge.jobs to jf_fn;";
    assert!(words.contains("2 facts missing, 1 open") && words.contains(told), "{words}");
}

/// Everybody may call a new function, and whoever does reads by it what they may read without it.
#[tokio::test]
async fn a_function_that_somebody_made_in_the_schema_opens_nothing() {
    let db = TestDb::new().await;
    let (doctor, admin) = (Doctor::led(&db).await, db.connect_super().await);
    let own =
        "create function jobforge.mine(at timestamptz) returns bigint language sql as 'select 1::bigint';
               create function jobforge.\"Their own\"() returns bigint language sql as 'select 1::bigint'";
    change(&admin, own).await;
    let words = doctor.finds("drift: security", "warn").words;
    assert!(words.contains("0 facts missing, 2 too many") && !words.contains("opens"), "{words}");
}

#[tokio::test]
async fn dead_rows_that_stay_and_a_table_without_vacuum_are_found() {
    let db = TestDb::new().await;
    let (doctor, admin) = (Doctor::led(&db).await, db.connect_super().await);
    // Whatever autovacuum does meanwhile: rows that a snapshot sees are not removed.
    let holder = db.connect_super().await;
    hold_snapshot(&holder).await;
    change(
        &admin,
        "insert into jobforge.lease_claims (lease_id, tenant_ids, job_ids)
           select gen_random_uuid(), '{}', '{}' from generate_series(1, 60000);
         delete from jobforge.lease_claims;",
    )
    .await;
    change(&admin, "select pg_stat_force_next_flush()").await;
    let words = doctor.finds("bloat: lease_claims", "warn").words;
    assert!(words.contains("60000 dead rows") && words.contains("vacuum jobforge.lease_claims"), "{words}");
    change(&admin, "alter table jobforge.leases set (autovacuum_enabled = false)").await;
    let words = doctor.finds("bloat: leases", "warn").words;
    assert!(words.contains("autovacuum is off"), "{words}");
}

#[tokio::test]
async fn a_session_that_keeps_a_snapshot_is_named_with_its_statement() {
    let db = TestDb::new().await;
    let flags = ["--snapshot-age", "0s"].map(str::to_owned).to_vec();
    let at_once = Doctor { flags, ..Doctor::led(&db).await };
    at_once.finds("snapshot holders", "ok");
    let mut other = db.connect_super().await;
    hold_snapshot(&other).await;
    let words = at_once.finds("snapshot holders", "ok").words;
    assert!(
        words.contains("of 1 this login sees no more than the age: grant it pg_read_all_stats"),
        "{words}"
    );
    other = db.as_operator().await;
    let pid: i32 = other.query_one("select pg_backend_pid()", &[]).await.unwrap().get(0);
    hold_snapshot(&other).await;
    Doctor::of(&db).finds("snapshot holders", "ok");
    let words = at_once.finds("snapshot holders", "warn").words;
    for part in [&format!("pid {pid}, {OPERATOR}, idle in transaction"), "select count(*) from pg_class"] {
        assert!(words.contains(part), "{part}: {words}");
    }
    assert!(words.contains(&format!("pg_terminate_backend({pid})")), "{words}");
    change(&other, "commit").await;
    at_once.finds("snapshot holders", "ok");
}

#[tokio::test]
async fn slots_and_prepared_transactions_hold_snapshots_too() {
    let mut cluster = PrivateCluster::start().await;
    let url = cluster.super_url("postgres");
    migrate::up(&url).await.unwrap();
    let admin = connect(&url).await;
    change(&admin, "alter system set max_prepared_transactions = 2").await;
    change(&admin, "alter system set wal_level = logical").await;
    drop(admin);
    cluster.restart().await;
    let admin = connect(&url).await;
    change(&admin, "select pg_create_logical_replication_slot('forgotten', 'test_decoding')").await;
    change(&admin, "begin; create table held (a int); prepare transaction 'half done'").await;
    let dir = tempfile::tempdir().unwrap();
    let args = ["doctor", "--json", "--snapshot-age", "0s", "--database-url", &url];
    let report = Ran::of(jobforge(dir.path()).args(args).output().unwrap()).parsed();
    let found = found(&report, "snapshot holders");
    assert_eq!(found.verdict, "warn", "{}", found.words);
    for part in ["1 of 2 are old", "prepared transaction half done", "rollback prepared 'half done'"] {
        assert!(found.words.contains(part), "{part}: {}", found.words);
    }
}

#[tokio::test]
async fn a_lease_that_nobody_takes_back_is_found() {
    let db = TestDb::new().await;
    one_runs_one_waits(&db).await;
    let (doctor, admin) = (Doctor::of(&db), db.connect_super().await);
    change(&admin, "update jobforge.leases set expires_at = clock_timestamp() - interval '5 minutes'").await;
    let words = doctor.finds("stuck leases", "fail").words;
    assert!(words.contains("of w1, 1 jobs") && words.contains("jobforge schedule"), "{words}");
    let operator = db.as_operator().await;
    lead(&operator, "the leader", 600).await.unwrap();
    let report = doctor.report();
    assert!(found(&report, "stuck leases").words.contains("the leader leads but does not reap"), "{report}");
    assert_eq!(found(&report, "scheduler").verdict, "ok");
}

#[tokio::test]
async fn a_job_whose_lease_is_gone_is_found() {
    let db = TestDb::new().await;
    one_runs_one_waits(&db).await;
    let (doctor, admin) = (Doctor::led(&db).await, db.connect_super().await);
    doctor.finds("stranded jobs", "ok");
    change(&admin, "delete from jobforge.leases").await;
    let words = doctor.finds("stranded jobs", "fail").words;
    for part in ["1 run on leases that are gone", &TENANT_A.to_string(), "jobforge schedule"] {
        assert!(words.contains(part), "{part}: {words}");
    }
    let operator = db.as_operator().await;
    let term = lead(&operator, "the leader", 600).await.unwrap().term;
    operator.query("select * from jobforge.prune($1)", &[&term]).await.unwrap();
    doctor.finds("stranded jobs", "ok");
}

#[tokio::test]
async fn a_full_limit_behind_which_work_waits_is_found() {
    let db = TestDb::new().await;
    one_runs_one_waits(&db).await;
    let (doctor, admin, operator) =
        (Doctor::led(&db).await, db.connect_super().await, db.as_operator().await);
    let limited = Tenant { max_in_flight: Some(1), ..Tenant::new(TENANT_A) };
    upsert_tenant(&operator, &limited).await.unwrap();
    change(
        &admin,
        "insert into jobforge.limited_runs select 'tenant', tenant_id::text, tenant_id, id, lease_id, fence
           from jobforge.jobs where status = 'running' on conflict do nothing",
    )
    .await;
    doctor.finds("starving limits", "ok");
    let long_ago = "update jobforge.jobs set run_at = run_at - interval '1 hour' where status = 'queued'";
    change(&admin, long_ago).await;
    let words = doctor.finds("starving limits", "warn").words;
    let advice = format!("jobforge tenants set {TENANT_A} --max-in-flight N");
    assert!(words.contains("max_in_flight 1 is full") && words.contains(&advice), "{words}");
    upsert_tenant(&operator, &Tenant { max_in_flight: Some(2), ..limited }).await.unwrap();
    doctor.finds("starving limits", "ok");
}

#[tokio::test]
async fn a_pause_that_somebody_forgot_is_found() {
    let db = TestDb::new().await;
    one_runs_one_waits(&db).await;
    let (doctor, admin, operator) =
        (Doctor::led(&db).await, db.connect_super().await, db.as_operator().await);
    let new = NewPause {
        kind: PauseKind::Tenant,
        name: TENANT_A.to_string(),
        reason: "unpaid".to_owned(),
        until: None,
        author: Some("ann".to_owned()),
    };
    pause(&operator, &new).await.unwrap();
    doctor.finds("forgotten pauses", "ok");
    change(&admin, "update jobforge.pauses set paused_at = paused_at - interval '2 days'").await;
    let words = doctor.finds("forgotten pauses", "warn").words;
    for part in ["by ann: unpaid", &format!("jobforge resume tenant {TENANT_A}")] {
        assert!(words.contains(part), "{part}: {words}");
    }
    resume(&operator, PauseKind::Tenant, &new.name, None).await.unwrap();
    doctor.finds("forgotten pauses", "ok");
}

#[tokio::test]
async fn a_clock_that_differs_is_found_whichever_is_ahead() {
    let db = TestDb::new().await;
    let (doctor, admin) = (Doctor::led(&db).await, db.connect_super().await);
    doctor.finds("clock", "ok");
    // The catalog's own clock cannot be set; one that stands before it in the path can.
    let path = format!(
        "create schema fake; grant usage on schema fake to public;
         alter database {} set search_path = fake, pg_catalog",
        db.name()
    );
    change(&admin, &path).await;
    for ahead in ["1 hour", "-1 hour"] {
        let clock = format!(
            "create or replace function fake.clock_timestamp() returns timestamptz language sql volatile
               as $$ select pg_catalog.clock_timestamp() + interval '{ahead}' $$"
        );
        change(&admin, &clock).await;
        let words = doctor.finds("clock", "warn").words;
        assert!(words.contains("let both follow a time server"), "{words}");
        assert_eq!(words.contains("is -3"), ahead.starts_with('-'), "{words}");
    }
    change(&admin, "drop function fake.clock_timestamp").await;
    doctor.finds("clock", "ok");
}

#[tokio::test]
async fn roles_that_are_missing_mighty_or_may_log_in_are_found() {
    // Roles belong to the whole Postgres.
    let cluster = PrivateCluster::start().await;
    let url = cluster.super_url("postgres");
    migrate::up(&url).await.unwrap();
    let admin = connect(&url).await;
    lead(&admin, "the leader", 600).await.unwrap();
    let dir = tempfile::tempdir().unwrap();
    let roles = || {
        let args = ["doctor", "--json", "--database-url", &url];
        found(&Ran::of(jobforge(dir.path()).args(args).output().unwrap()).parsed(), "roles")
    };
    let sound = roles();
    assert_eq!(sound.verdict, "ok", "{}", sound.words);
    let faults = [
        ("jf_tenant login", "jf_tenant nologin", "warn", "may log in: jf_tenant", "nologin"),
        (
            "jf_fn bypassrls",
            "jf_fn nobypassrls",
            "fail",
            "not bound by row-level security: jf_fn",
            "nobypassrls",
        ),
        ("jf_worker superuser", "jf_worker nosuperuser", "fail", "security: jf_worker", "nosuperuser"),
        (
            "jf_operator rename to gone",
            "gone rename to jf_operator",
            "fail",
            "missing: jf_operator",
            "migrate",
        ),
    ];
    for (fault, mended, verdict, told, advice) in faults {
        change(&admin, &format!("alter role {fault}")).await;
        let sick = roles();
        assert_eq!(sick.verdict, verdict, "{fault}: {}", sick.words);
        assert!(sick.words.contains(told) && sick.words.contains(advice), "{fault}: {}", sick.words);
        change(&admin, &format!("alter role {mended}")).await;
        let sound = roles();
        assert_eq!(sound.verdict, "ok", "{mended}: {}", sound.words);
    }
}
