//! The rules a plan must keep, each asserted on what really ran inside the functions.

use jobforge_testkit::TestDb;
use serde_json::{Value, json};
use tokio_postgres::Row;
use uuid::Uuid;

use super::fill::{Jobs, fill, tenant};
use super::shape::Scan;
use super::watch::{Seen, Watched};
use crate::schema::{APP, NOOP, OPERATOR, OTHER, QUEUE, WORKER};

const CLAIM: &str = "select lease_id, tenant_id, id, fence, locator::text, priority, run_at::text, type
    from jobforge.claim_jobs('w1', $1, $2, $3, p_cursor => $4) where id is not null";

const LOOK: &str = "select (select l from jobforge.leases l";
const TAKE: &str = "update jobforge.jobs j set status = 'running'";
const AFTER_PLACE: &str = "ROW(priority, run_at, id) > ROW(";
const AFTER_TENANT: &str = "ROW(tenant_id, priority) > ROW(";

fn of_jobs(seen: &Seen) -> Vec<&Scan> {
    seen.scans.iter().filter(|scan| scan.table == "jobs").collect()
}

/// What broke a rule, so that one run tells all of it.
#[derive(Default)]
pub(crate) struct Faults(pub(crate) Vec<String>);

impl Faults {
    /// Every scan of `jobs` must satisfy this.
    fn all_jobs(&mut self, seen: &Seen, rule: impl Fn(&Scan) -> bool) {
        self.logins(seen);
        let broken = of_jobs(seen).into_iter().filter(|scan| !rule(scan));
        self.0.extend(broken.map(|scan| format!("jobs is read by {scan}")));
    }

    /// At least one must.
    fn some_jobs(&mut self, what: &str, seen: &Seen, rule: impl Fn(&Scan) -> bool) {
        if !of_jobs(seen).into_iter().any(rule) {
            self.0.push(format!("jobs is read by no scan for {what}"));
        }
    }

    /// Every call asks who its login is: however many there are, that is one look-up.
    fn logins(&mut self, seen: &Seen) {
        let walked =
            seen.scans.iter().filter(|scan| scan.table == "logins" && !scan.kind.starts_with("Index"));
        self.0.extend(walked.map(|scan| format!("logins is read by {scan}")));
    }

    fn none_of(&mut self, what: &str, scans: Vec<&Scan>) {
        self.0.extend(scans.into_iter().map(|scan| format!("{what}: {scan}")));
    }
}

async fn claim(worker: &mut Watched, types: &[&str], queues: &[&str], cursor: Option<Value>) -> Seen {
    let cursor = cursor.map(tokio_postgres::types::Json);
    let seen = worker.call(CLAIM, &[&queues, &types, &20, &cursor]).await;
    assert!(!seen.rows.is_empty(), "the claim found nothing: its plans were not tried");
    seen
}

/// A claim reads `jobs` only by the indexes made for it, in their order, no further than its limit, and writes by place.
fn claims_rules(faults: &mut Faults, seen: &Seen) {
    faults.all_jobs(seen, is_a_claims);
    faults.all_jobs(seen, |scan| !scan.statement.starts_with(TAKE) || scan.kind == "Tid Scan");
    // Behind a position, not filtered to be behind it; a look counts no further than to one more than few, lane by lane.
    faults.all_jobs(seen, |scan| {
        let behind = scan.has(AFTER_PLACE) || scan.has(AFTER_TENANT);
        let counts = scan.statement.starts_with(LOOK) && scan.has("type = ") && scan.tuples <= 33;
        scan.index != "jobs_turn" || behind || counts
    });
    faults.some_jobs("the walk of a tenant", seen, |scan| {
        scan.index == "jobs_turn" && scan.locks() && scan.has(AFTER_PLACE)
    });
    faults.some_jobs("the skip to the next tenant", seen, |scan| {
        scan.index == "jobs_turn" && scan.has(AFTER_TENANT)
    });
    faults.some_jobs("promotion", seen, |scan| scan.index == "jobs_future" && scan.has("run_at <= "));
    faults.some_jobs("reserved work", seen, |scan| scan.index == "jobs_apart" && scan.has("END = 0"));
    faults.some_jobs("suspects", seen, |scan| scan.index == "jobs_apart" && scan.has("END = 1"));
    faults.some_jobs("the taking", seen, |scan| scan.kind == "Tid Scan");
}

/// By an index made for claims, in its order and no further than the limit; or, for locking and writing, by place.
fn is_a_claims(scan: &Scan) -> bool {
    if scan.kind == "Tid Scan" {
        return scan.statement.starts_with("update jobforge.jobs")
            || scan.above.iter().any(|kind| kind == "LockRows");
    }
    let of_claims = ["jobs_turn", "jobs_apart", "jobs_future", "jobs_keyed"];
    let by_index = scan.kind.starts_with("Index") && of_claims.contains(&scan.index.as_str());
    let one = scan.statement.starts_with(LOOK) && scan.index == "jobs_future" && scan.tuples <= 1;
    by_index && (one || scan.stops_at_its_limit())
}

/// The cursor a worker would send with its next claim.
fn cursor_after(rows: &[Row]) -> Value {
    let marks: Vec<Value> = rows
        .iter()
        .rev()
        .filter(|row| row.get::<_, i16>("priority") >= 10)
        .take(1)
        .map(|row| {
            json!({ "queue": QUEUE, "type": row.get::<_, String>("type"), "tenant_id": row.get::<_, Uuid>("tenant_id"),
                    "priority": row.get::<_, i16>("priority"), "run_at": row.get::<_, String>("run_at"),
                    "id": row.get::<_, Uuid>("id") })
        })
        .collect();
    json!({ "marks": marks })
}

pub(crate) async fn claims_walk_their_indexes(faults: &mut Faults, db: &TestDb) {
    let mut worker = Watched::login(db, WORKER).await;
    let first = claim(&mut worker, &[NOOP], &[QUEUE], None).await;
    claims_rules(faults, &first);
    // The walk of one lane needs no sort at all.
    faults.all_jobs(&first, |scan| {
        !(scan.locks() && scan.index == "jobs_turn" && scan.above.iter().any(|kind| kind == "Sort"))
    });
    let seen = claim(&mut worker, &[NOOP], &[QUEUE], Some(cursor_after(&first.rows))).await;
    claims_rules(faults, &seen);
    // And one that sweeps.
    let long_ago = "update jobforge.sweeps set swept_at = '-infinity'";
    db.connect_super().await.batch_execute(long_ago).await.expect("let a sweep come");
    let seen = claim(&mut worker, &[NOOP], &[QUEUE], Some(cursor_after(&first.rows))).await;
    claims_rules(faults, &seen);
    faults.some_jobs("swept", &seen, |scan| scan.index == "jobs_future" && scan.tuples <= 1);
}

/// Where all that is ready can be taken, no turn is looked for.
pub(crate) async fn few_jobs_are_taken_at_once(faults: &mut Faults, db: &TestDb) {
    let app = Watched::login(db, APP).await;
    for n in 0..3 {
        let whose = tenant(n);
        app.run(&format!(
            "set app.tenant_id = '{whose}'; select jobforge.enqueue_job('{whose}', '{NOOP}', p_queue => 'few')"
        ))
        .await;
    }
    // Retries of other rules would fall due at any moment, and a claim that has to make them ready takes turns.
    let later = "update jobforge.jobs set run_at = now() + interval '1 day'
                 where status = 'queued' and not ready and run_at < now() + interval '1 hour'";
    db.connect_super().await.batch_execute(later).await.expect("put retries off");
    let mut worker = Watched::login(db, WORKER).await;
    let seen = claim(&mut worker, &[NOOP, OTHER], &["few", "another"], None).await;
    assert_eq!(seen.rows.len(), 3);
    faults.all_jobs(&seen, is_a_claims);
    faults.all_jobs(&seen, |scan| !scan.has(AFTER_TENANT) && scan.tuples <= 33);
    faults.some_jobs("few", &seen, |scan| scan.index == "jobs_turn" && scan.locks());

    // One job alone, on a lease that is there, takes a look and an update.
    let whose = tenant(0);
    app.run(&format!(
        "set app.tenant_id = '{whose}'; select jobforge.enqueue_job('{whose}', '{NOOP}', p_queue => 'few')"
    ))
    .await;
    let one = "select * from jobforge.claim_jobs('w1', '{few,another}', $1, 20, $2) where id is not null";
    let lease: Uuid = seen.rows[0].get("lease_id");
    let seen = worker.call(one, &[&[NOOP, OTHER].as_slice(), &lease]).await;
    assert_eq!(seen.rows.len(), 1);
    faults.all_jobs(&seen, is_a_claims);
    faults.all_jobs(&seen, |scan| {
        scan.statement.starts_with(LOOK) || (scan.statement.starts_with(TAKE) && scan.kind == "Tid Scan")
    });
}

pub(crate) async fn lanes_are_walked_one_by_one(faults: &mut Faults, db: &TestDb) {
    let mut worker = Watched::login(db, WORKER).await;
    let first = claim(&mut worker, &[NOOP, OTHER], &[QUEUE, "another"], None).await;
    claims_rules(faults, &first);
    let cursor = Some(cursor_after(&first.rows));
    let seen = claim(&mut worker, &[NOOP, OTHER], &[QUEUE, "another"], cursor).await;
    claims_rules(faults, &seen);
}

/// A claimed job as the arguments of a report.
fn tokens(row: &Row) -> (Uuid, Uuid, Uuid, i32, String) {
    (row.get("lease_id"), row.get("tenant_id"), row.get("id"), row.get("fence"), row.get("locator"))
}

pub(crate) async fn reports_go_by_place_or_key(faults: &mut Faults, db: &TestDb) {
    let mut worker = Watched::login(db, WORKER).await;
    // Suspects are on a lease of their own and would mix in.
    let claimed = claim(&mut worker, &[NOOP], &[QUEUE], None).await;
    let mut jobs = claimed.rows.iter().filter(|row| row.get::<_, i32>("fence") == 1).map(tokens);
    let mut next = || jobs.next().expect("enough jobs were claimed to report on");

    let (lease, tenant, id, fence, place) = next();
    let by_place = "select verdict from jobforge.complete_jobs($1, array[$2::uuid], array[$3::uuid], array[$4::integer], null,
                      array[$5::text::tid])";
    let seen = worker.call(by_place, &[&lease, &tenant, &id, &fence, &place]).await;
    assert_eq!(seen.rows[0].get::<_, String>(0), "done");
    faults.all_jobs(&seen, |scan| {
        scan.kind == "Tid Scan" && scan.statement.contains("delete from jobforge.jobs")
    });
    reads_no_history(faults, &seen);

    let (lease, tenant, id, fence, _) = next();
    let by_key = "select verdict from jobforge.complete_jobs($1, array[$2::uuid], array[$3::uuid], array[$4::integer])";
    let seen = worker.call(by_key, &[&lease, &tenant, &id, &fence]).await;
    assert_eq!(seen.rows[0].get::<_, String>(0), "done");
    faults.all_jobs(&seen, |scan| match scan.statement.contains("delete from jobforge.jobs") {
        true => scan.kind == "Tid Scan",
        false => scan.is_by_key(),
    });
    reads_no_history(faults, &seen);

    for report in [
        "select * from jobforge.heartbeat($1, array[$2::uuid], array[$3::uuid], array[$4::integer])",
        "select * from jobforge.report_progress($1, $2, $3, $4, 50)",
        "select * from jobforge.append_log($1, $2, $3, $4, '{info}', '{line}')",
        "select * from jobforge.fail_jobs($1, array[$2::uuid], array[$3::uuid], array[$4::integer], '{retryable}', '{bad}')",
        "select * from jobforge.release_jobs($1, array[$2::uuid], array[$3::uuid], array[$4::integer])",
        "select * from jobforge.snooze_job($1, $2, $3, $4, 60)",
    ] {
        let (lease, tenant, id, fence, _) = next();
        let seen = worker.call(report, &[&lease, &tenant, &id, &fence]).await;
        faults.all_jobs(&seen, is_by_key_or_place);
        faults.some_jobs(report, &seen, Scan::is_by_key);
    }
}

/// Looked up and locked by the key, then written or ended where it was found.
fn is_by_key_or_place(scan: &Scan) -> bool {
    let ends =
        ["update jobforge.jobs", "jobforge.apply_end("].iter().any(|call| scan.statement.contains(call));
    scan.is_by_key() || (scan.kind == "Tid Scan" && ends)
}

/// The move writes to the history and does not look at it.
fn reads_no_history(faults: &mut Faults, seen: &Seen) {
    let read = seen.scans.iter().filter(|scan| scan.table.contains("history")).collect();
    faults.none_of("a completion reads the history", read);
}

pub(crate) async fn people_go_by_key(faults: &mut Faults, db: &TestDb) {
    let mut app = Watched::login(db, APP).await;
    let whose = tenant(3);
    app.run(&format!("set app.tenant_id = '{whose}'")).await;
    let enqueue = "select id from jobforge.enqueue_job($1, $2, p_dedupe_key => $3, p_queue => 'another')";
    let key = Uuid::new_v4().to_string();
    let seen = app.call(enqueue, &[&whose, &NOOP, &key]).await;
    let id: Uuid = seen.rows[0].get(0);
    let twin = app.call(enqueue, &[&whose, &NOOP, &key]).await;
    assert_eq!(twin.rows[0].get::<_, Uuid>(0), id);
    faults.all_jobs(&twin, |scan| scan.index == "jobs_dedupe" || scan.is_by_key());
    for call in [
        "select * from jobforge.get_job($1, $2)",
        "select * from jobforge.list_attempts($1, $2)",
        "select * from jobforge.list_logs($1, $2)",
        "select * from jobforge.reschedule_job($1, $2, now() + interval '1 day')",
        "select * from jobforge.retry_job($1, $2)",
        "select * from jobforge.cancel_job($1, $2)",
    ] {
        let seen = app.call(call, &[&whose, &id]).await;
        faults.all_jobs(&seen, |scan| {
            let looks_for_twins = scan.index == "jobs_dedupe";
            scan.is_by_key()
                || looks_for_twins
                || (scan.kind == "Tid Scan" && scan.statement.contains("delete from"))
        });
        faults.some_jobs(call, &seen, Scan::is_by_key);
        // Where there are many rows, they are not walked; an empty partition may be read any way.
        let walked: Vec<_> =
            seen.scans.iter().filter(|scan| scan.kind == "Seq Scan" && scan.tuples > 1000).collect();
        assert!(walked.is_empty(), "{call} walks {walked:#?}");
    }
}

/// Its definitions are hashed and its rows are not, or they would go into the indexes backwards.
pub(crate) async fn a_batch_is_stored_in_its_order(faults: &mut Faults, db: &TestDb) {
    let mut app = Watched::login(db, APP).await;
    let whose = tenant(3);
    app.run(&format!("set app.tenant_id = '{whose}'")).await;
    let batch = "select at from jobforge.enqueue_jobs($1, array_fill($2::text, array[100]),
        array_fill('{}'::jsonb, array[100]), array_fill('batch'::text, array[100]))";
    let seen = app.call(batch, &[&whose, &NOOP]).await;
    if !seen.rows.iter().map(|row| row.get::<_, i32>(0)).eq(1..=100) {
        faults.0.push("a batch is not answered in its order".to_owned());
    }
    let walked = |scan: &&Scan| scan.table == "definitions" && scan.kind == "Seq Scan";
    faults.none_of("a batch walks the definitions", seen.scans.iter().filter(walked).collect());
    faults.logins(&seen);
}

/// Under row-level security, as the functions' owner.
pub(crate) async fn lists_walk_the_key_backwards(faults: &mut Faults, db: &TestDb) {
    let mut app = Watched::login(db, APP).await;
    let whose = tenant(0);
    app.run(&format!("set app.tenant_id = '{whose}'")).await;
    for list in [
        "select * from jobforge.list_jobs($1)",
        "select * from jobforge.list_jobs($1, '{queued}', p_limit => 10)",
        "select * from jobforge.list_jobs($1, p_cursor => '80000000-0000-0000-0000-000000000000', p_limit => 10)",
        "select * from jobforge.list_jobs($1, p_tag => 'none', p_payload => '{\"none\": 1}', p_budget_ms => 1)",
    ] {
        let seen = app.call(list, &[&whose]).await;
        faults.some_jobs(list, &seen, |scan| scan.index == "jobs_pk");
        faults.all_jobs(&seen, |scan| {
            scan.index == "jobs_pk"
                && scan.kind.starts_with("Index")
                && scan.backward
                && scan.has("tenant_id = ")
                && scan.has("(id < ")
                && scan.stops_at_its_limit()
                && scan.tuples <= 1000
        });
        let read: u64 =
            seen.scans.iter().filter(|scan| scan.table.contains("history")).map(|scan| scan.tuples).sum();
        if read > 1100 {
            faults.0.push(format!("{list} reads {read} rows of the history"));
        }
    }
}

/// What an explanation and a summary read does not grow with what is stored.
pub(crate) async fn explanations_are_bounded(faults: &mut Faults, db: &TestDb) {
    let mut app = Watched::login(db, APP).await;
    let whose = tenant(0);
    app.run(&format!("set app.tenant_id = '{whose}'")).await;
    let admin = db.connect_super().await;
    let last = "select id from jobforge.jobs where tenant_id = $1 and ready and deaths < 2 and priority >= 10
                order by priority, run_at desc limit 1";
    let id: Uuid = admin.query_one(last, &[&whose]).await.expect("the tenant has a ready job").get(0);
    let seen = app.call("select reason from jobforge.explain_job($1, $2)", &[&whose, &id]).await;
    faults.all_jobs(&seen, |scan| {
        scan.is_by_key()
            || (["jobs_turn", "jobs_apart", "jobs_keyed"].contains(&scan.index.as_str())
                && scan.stops_at_its_limit()
                && scan.tuples <= 10_001)
    });
    faults.some_jobs("its place", &seen, |scan| {
        scan.index == "jobs_turn" && scan.has("ROW(priority, run_at, id) < ROW(")
    });
    faults.some_jobs("the crowd", &seen, |scan| scan.index == "jobs_turn" && scan.has(AFTER_TENANT));
    let seen = app.call("select ready from jobforge.job_summary($1, 1000)", &[&whose]).await;
    faults.all_jobs(&seen, |scan| {
        scan.index == "jobs_pk"
            && scan.has("tenant_id = ")
            && scan.stops_at_its_limit()
            && scan.tuples <= 1001
    });
    reads_no_history(faults, &seen);

    let mut operator = Watched::login(db, OPERATOR).await;
    let pages = "select pg_relation_size('jobforge.jobs') / 8192";
    let all: i64 = admin.query_one(pages, &[]).await.expect("measure the table").get(0);
    // A hundred pages of the table, on the average. The least of several: the first one reads the catalogue, too.
    let mut touched = u64::MAX;
    for _ in 0..3 {
        touched =
            touched.min(operator.call("select queue from jobforge.queue_summary(2000)", &[]).await.pages);
    }
    if all > 2000 && touched > 1000 {
        faults.0.push(format!("a summary of the queues touches {touched} of {all} pages"));
    }
}

/// A sample reads no more of the live table than it may, and of the history only what was written since the last one.
pub(crate) async fn samples_are_bounded(faults: &mut Faults, db: &TestDb) {
    let mut operator = Watched::login(db, OPERATOR).await;
    let term: i64 = operator.call("select term from jobforge.lead('plans')", &[]).await.rows[0].get(0);
    let sample = "select jobforge.sample_stats($1, 2000)";
    operator.call(sample, &[&term]).await;
    // As if the last one had been a minute ago.
    let admin = db.connect_super().await;
    let back = "update jobforge.sampler set until = until - interval '1 minute'";
    admin.batch_execute(back).await.expect("turn the sampler back");
    let seen = operator.call(sample, &[&term]).await;
    faults.none_of(
        "a sample reads the history from its beginning",
        seen.scans
            .iter()
            .filter(|s| s.table.starts_with("job_history") && !s.kind.starts_with("Tid Range"))
            .collect(),
    );
    faults.none_of(
        "a sample reads more of the live table than a part",
        seen.scans.iter().filter(|s| s.table == "jobs" && s.kind != "Sample Scan").collect(),
    );
    let read: u64 = seen.scans.iter().filter(|s| s.table == "jobs").map(|s| s.tuples).sum();
    if read > 20_000 {
        faults.0.push(format!("a sample of 2,000 jobs reads {read}"));
    }
}

/// However many jobs wait, a look at dead letters and an operation on them meets dead letters only.
pub(crate) async fn dead_letters_walk_their_index(faults: &mut Faults, db: &TestDb) {
    let whose = tenant(1);
    let kill = "update jobforge.jobs set status = 'failed', ready = false, finished_at = now() where ctid = any (array(
                  select ctid from jobforge.jobs where tenant_id = $1 and ready limit 6))";
    let killed = db.connect_super().await.execute(kill, &[&whose]).await.expect("make dead letters");
    assert_eq!(killed, 6, "too few dead letters");
    let mut app = Watched::login(db, APP).await;
    app.run(&format!("set app.tenant_id = '{whose}'")).await;
    let walks = |scan: &Scan| {
        scan.index == "jobs_dead_letters" && scan.kind.starts_with("Index") && scan.stops_at_its_limit()
    };
    for look in [
        "select * from jobforge.list_dead_letters($1, p_limit => 10)",
        "select * from jobforge.list_dead_letters($1, p_type => 'test.noop', p_failed_after => now() - interval '1 day')",
        "select * from jobforge.group_dead_letters($1)",
        "select * from jobforge.redrive_jobs($1, p_queue => 'default', p_dry_run => true, p_limit => 1)",
    ] {
        let seen = app.call(look, &[&whose]).await;
        faults.all_jobs(&seen, |scan| walks(scan) || scan.is_by_key() || scan.index == "jobs_dedupe");
        faults.some_jobs(look, &seen, walks);
    }
    let start = "select id from jobforge.start_bulk($1, 'redrive', '{\"queue\": \"default\"}')";
    let seen = app.call(start, &[&whose]).await;
    faults.all_jobs(&seen, walks);
    let operation: Uuid = seen.rows[0].get(0);
    let step = app.call("select done from jobforge.step_bulk($1, $2, 3)", &[&whose, &operation]).await;
    faults.all_jobs(&step, |scan| walks(scan) || scan.is_by_key() || scan.index == "jobs_dedupe");
    assert_eq!(step.rows[0].get::<_, i64>(0), 3);
    let undo = app.call("select undone from jobforge.undo_bulk($1, $2)", &[&whose, &operation]).await;
    assert_eq!(undo.rows[0].get::<_, i64>(0), 3);
    faults.all_jobs(&undo, Scan::is_by_key);
}

pub(crate) async fn upkeep_walks_its_indexes(faults: &mut Faults, db: &TestDb) {
    let mut operator = Watched::login(db, OPERATOR).await;
    let term: i64 = operator.call("select term from jobforge.lead('plans')", &[]).await.rows[0].get(0);
    let seen = operator.call("select jobforge.promote_due($1)", &[&term]).await;
    faults.all_jobs(&seen, |scan| {
        scan.kind == "Tid Scan" || (scan.index == "jobs_future" && scan.stops_at_its_limit())
    });
    faults.some_jobs("promotion", &seen, |scan| scan.index == "jobs_future" && scan.has("run_at <= "));

    // A lease of one second, made to have ended.
    let worker = Watched::login(db, WORKER).await;
    let lease = "select from jobforge.claim_jobs('w2', '{default}', '{test.noop}', 5, p_lease_seconds => 1)";
    worker.run(lease).await;
    let admin = db.connect_super().await;
    let end = "update jobforge.leases set expires_at = clock_timestamp(), beat_at = clock_timestamp()
               where ttl_seconds = 1";
    admin.batch_execute(end).await.expect("end the lease");
    let seen = operator.call("select leases from jobforge.reap($1)", &[&term]).await;
    assert!(seen.rows[0].get::<_, i32>(0) > 0, "no lease was reaped");
    faults.all_jobs(&seen, is_by_key_or_place);
    faults.some_jobs("reaping", &seen, Scan::is_by_key);
    dead_letters_leave_by_their_index(faults, db, &mut operator, term).await;
}

/// Live jobs are not walked over, nor are dead letters of which none is past its time.
async fn dead_letters_leave_by_their_index(
    faults: &mut Faults,
    db: &TestDb,
    operator: &mut Watched,
    term: i64,
) {
    let admin = db.connect_super().await;
    for kind in [NOOP, OTHER] {
        fill(&admin, Jobs { count: 40, tenants: 4, kind, state: "dead" }).await;
    }
    let age = "update jobforge.jobs set finished_at = finished_at - interval '400 days'
               where status = 'dead' and type = 'test.noop';
               insert into jobforge.attempts (tenant_id, job_id, number, status, started_at, finished_at)
               select tenant_id, id, 1, 'failed', now(), now() from jobforge.jobs where status = 'dead'
               on conflict do nothing";
    admin.batch_execute(age).await.expect("make dead letters old");
    let sql = "select dead_letters from jobforge.prune($1, 100)";
    let seen = operator.call(sql, &[&term]).await;
    assert!(seen.rows[0].get::<_, i32>(0) >= 40, "no dead letter was pruned");
    // No index tells what runs on a lease that is gone: that is looked for page by page, for so long, and goes back by place.
    faults.all_jobs(&seen, |scan| {
        scan.kind.starts_with("Tid")
            || scan.is_by_key()
            || (scan.kind.starts_with("Index")
                && scan.index == "jobs_dead_letters"
                && (scan.has("(id = ") || scan.stops_at_its_limit())
                && scan.tuples <= 101)
    });
    faults.some_jobs("the walk of a tenant's dead letters", &seen, |scan| {
        scan.index == "jobs_dead_letters" && scan.has("ROW(finished_at, id) > ROW(")
    });
    faults.some_jobs("the skip to the next tenant with dead letters", &seen, |scan| {
        scan.index == "jobs_dead_letters" && scan.has("tenant_id > ")
    });
    let walked: Vec<_> = seen
        .scans
        .iter()
        .filter(|scan| {
            ["attempts", "job_logs", "attempt_exits", "job_progress", "job_artifacts"]
                .contains(&scan.table.as_str())
        })
        .filter(|scan| !scan.kind.starts_with("Index") && scan.kind != "Tid Scan")
        .collect();
    faults.none_of("notes are walked", walked);
}
