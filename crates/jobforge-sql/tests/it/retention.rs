//! Retention, by the clock: what is over stays for its class's time and then leaves, with all that stands beside it and
//! nothing else.

#![allow(clippy::unwrap_used, reason = "a failed step fails the story, wherever it is")]

mod classes;
mod dead_letters;
mod leftovers;

use serde_json::Value;
use tokio_postgres::types::Json;
use uuid::Uuid;

use crate::races::stage::Stage;
use crate::schema::QUEUE;
use crate::schema::calls::{ClaimOptions, Held, claim_with, complete, enqueue, fail};

/// A type for each class, named after it: its finished jobs and its dead letters have the same one.
const TYPES: [&str; 4] = ["keep.day", "keep.week", "keep.month", "keep.year"];

/// The stage with a type for each class.
async fn stage_of_classes() -> Stage {
    let stage = Stage::set().await;
    // The worker is not one of long ago when the clock moves on from here.
    at(&stage, "2031-03-01 10:00").await;
    let come = "select jobforge.register_worker('w1', 'testhost', 1, 'test', array[$1], array[$2], 10)";
    stage.worker.query(come, &[&QUEUE, &TYPES[0]]).await.unwrap();
    for name in TYPES {
        let class = &name[5..];
        let sql = "select jobforge.upsert_definition($1, p_retention => $2, p_dead_retention => $2, p_max_attempts => 2)";
        stage.operator.query(sql, &[&name, &class]).await.unwrap();
    }
    stage
}

/// The clock stands at a time of its own, e.g. `2031-03-05 10:00`, in UTC.
async fn at(stage: &Stage, time: &str) {
    let sql = "update jobforge_test.clock set at = ($1::text || '+00')::timestamptz";
    stage.admin.execute(sql, &[&time]).await.unwrap();
}

/// A job of this tenant and type, claimed.
async fn held(stage: &Stage, tenant: Uuid, kind: &'static str) -> Held {
    let id = enqueue(stage.app.client(), tenant, kind, Value::Null).await.unwrap();
    let job = claim_one(stage, kind).await;
    assert_eq!(job.id, id);
    job
}

async fn claim_one(stage: &Stage, kind: &'static str) -> Held {
    let options = ClaimOptions { queues: vec![QUEUE], types: vec![kind], ..ClaimOptions::default() };
    claim_with(stage.worker.client(), "w1", 1, options).await.unwrap().jobs.remove(0)
}

/// Progress and a line in the log of a running job.
async fn note(stage: &Stage, job: &Held) {
    let progress = "select jobforge.report_progress($1, $2, $3, $4, 50)";
    let log = "select jobforge.append_log($1, $2, $3, $4, '{info}', '{a line}')";
    let exit = "select jobforge.report_exit($1, $2, $3, $4, 4711, 1, null, 'out', 'err')";
    for sql in [progress, log, exit] {
        stage.worker.query(sql, &[&job.lease_id, &job.tenant_id, &job.id, &job.fence]).await.unwrap();
    }
}

/// A job that failed once and then succeeded, at this time: an attempt, a line of its log and its program's end go with it.
async fn finish(stage: &Stage, tenant: Uuid, kind: &'static str) -> Uuid {
    let job = held(stage, tenant, kind).await;
    note(stage, &job).await;
    fail(stage.worker.client(), &job, "retryable").await.unwrap();
    let now = "select * from jobforge.retry_job($1, $2)";
    stage.app.query(now, &[&job.tenant_id, &job.id]).await.unwrap();
    let again = claim_one(stage, kind).await;
    assert_eq!(complete(stage.worker.client(), &again).await.unwrap(), "done");
    job.id
}

/// A dead letter with an attempt, a line in its log, its program's end, and progress.
async fn die(stage: &Stage, tenant: Uuid, kind: &'static str) -> Uuid {
    let job = held(stage, tenant, kind).await;
    note(stage, &job).await;
    let (_, status) = fail(stage.worker.client(), &job, "permanent").await.unwrap();
    assert_eq!(status.as_deref(), Some("failed"));
    job.id
}

/// Makes and drops partitions until nothing is left to do; how many were refused at the end.
async fn upkeep(stage: &Stage) -> i32 {
    loop {
        let term = stage.lead("leader").await.unwrap();
        let sql = "select made, dropped, refused from jobforge.upkeep_partitions($1, 1000)";
        let row = &stage.operator.query(sql, &[&term]).await.unwrap()[0];
        if (row.get::<_, i32>(0), row.get::<_, i32>(1)) == (0, 0) {
            return row.get(2);
        }
    }
}

/// What one call, or all calls until nothing was left, deleted.
#[derive(Debug, Default, PartialEq)]
struct Gone {
    keys: i32,
    history: i32,
    dead_letters: i32,
    orphans: i32,
}

/// One call: what it deleted, whether there may be more, and where to go on.
async fn prune(stage: &Stage, limit: i32, after: Option<Value>) -> (Gone, bool, Value) {
    let term = stage.lead("leader").await.unwrap();
    let sql = "select keys, history, dead_letters, orphans, more, after from jobforge.prune($1, $2, $3)";
    let row = &stage.operator.query(sql, &[&term, &limit, &after.map(Json)]).await.unwrap()[0];
    let gone = Gone { keys: row.get(0), history: row.get(1), dead_letters: row.get(2), orphans: row.get(3) };
    (gone, row.get(4), row.get::<_, Json<Value>>(5).0)
}

/// As a scheduler does it: from where the last call stopped, until nothing is left.
async fn prune_all(stage: &Stage, limit: i32) -> Gone {
    let (mut all, mut after) = (Gone::default(), None);
    for _ in 0..1000 {
        let (gone, more, next) = prune(stage, limit, after).await;
        all.keys += gone.keys;
        all.history += gone.history;
        all.dead_letters += gone.dead_letters;
        all.orphans += gone.orphans;
        if !more {
            return all;
        }
        after = Some(next);
    }
    panic!("a thousand calls did not come to an end");
}

/// How many rows of these jobs a table has.
async fn rows_of(stage: &Stage, table: &str, jobs: &[Uuid]) -> i64 {
    let key = if ["jobs", "job_history"].contains(&table) { "id" } else { "job_id" };
    let sql = format!("select count(*) from jobforge.{table} where {key} = any ($1)");
    stage.admin.query_one(&sql, &[&jobs]).await.unwrap().get(0)
}
