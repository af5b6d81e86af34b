//! Nothing hangs on the leader, and no job stays behind a claimer's remembered position.

use std::time::Duration;

use jobforge_testkit::Session;
use serde_json::Value;
use uuid::Uuid;

use super::stage::{Stage, ids, mark_behind};
use crate::schema::calls::{
    ClaimOptions, act_for, claim, claim_with, enqueue_many, enqueue_with, fail, release,
};
use crate::schema::{NOOP, QUEUE, TENANT_A, WORKER_A};

const NONE: [Uuid; 0] = [];

/// A claim that starts from a remembered position.
async fn claim_from(stage: &Stage, cursor: &Value) -> Vec<Uuid> {
    let o = ClaimOptions { types: vec![NOOP], cursor: Some(cursor.clone()), ..ClaimOptions::default() };
    ids(&claim_with(stage.worker.client(), "w1", 100, o).await.unwrap().jobs)
}

/// A cursor right behind a job that was just taken.
async fn cursor_now(stage: &Stage) -> Value {
    let job = stage.running().await;
    mark_behind(stage, &job).await
}

/// A job whose transaction stays open while positions go past it, and the last of these cursors.
async fn late_behind(stage: &Stage) -> (Uuid, Value) {
    for _ in 0..10 {
        let cursor = cursor_now(stage).await;
        claim_from(stage, &cursor).await;
        stage.pass(1.0).await;
    }
    stage.other.begin().await;
    let (late, _) = enqueue_with(stage.other.client(), TENANT_A, NOOP, "'{}'").await.unwrap();
    let mut cursor = Value::Null;
    for _ in 0..30 {
        stage.pass(1.0).await;
        cursor = cursor_now(stage).await;
        assert_eq!(claim_from(stage, &cursor).await, NONE);
    }
    (late, cursor)
}

#[tokio::test]
async fn a_job_that_commits_behind_a_position_is_found_by_the_first_sweep_after_it() {
    let stage = Stage::set().await;
    let (late, cursor) = late_behind(&stage).await;
    stage.other.commit().await;
    assert_eq!(claim_from(&stage, &cursor).await, NONE, "the position hides it until somebody sweeps");
    stage.pass(1.0).await;
    assert_eq!(claim_from(&stage, &cursor).await, [late]);
}

/// What a worker that starts is told.
async fn recalled(session: &Session, types: &str) -> Option<Value> {
    let sql = format!("select jobforge.recall_marks('{{default}}', '{types}')");
    session.query(&sql, &[]).await.unwrap()[0].get(0)
}

/// Claims until a sweep has walked from a position that is worth keeping: the cursor of that claim, and what is recalled.
/// Transactions of other databases of this server hold the sweeps back, as long as they last.
async fn swept(stage: &Stage) -> (Value, Value) {
    let kept = async {
        loop {
            stage.pass(1.0).await;
            let cursor = cursor_now(stage).await;
            claim_from(stage, &cursor).await;
            if let Some(marks) = recalled(&stage.worker, "{test.noop}").await {
                return (cursor, marks);
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(60), kept).await.expect("positions are kept")
}

#[tokio::test]
async fn who_starts_goes_on_where_the_last_sweep_walked_from_and_finds_what_came_late() {
    let stage = Stage::set().await;
    assert_eq!(recalled(&stage.worker, "{test.noop}").await, None);
    let cursor = cursor_now(&stage).await;
    claim_from(&stage, &cursor).await;
    assert_eq!(recalled(&stage.worker, "{test.noop}").await, None, "that one walked from the beginning");
    let (cursor, marks) = swept(&stage).await;
    let lane = |mark: &Value| (mark["queue"].clone(), mark["type"].clone(), mark["tenant_id"].clone());
    assert_eq!(lane(&marks[0]), lane(&cursor["marks"][0]));
    assert_eq!(recalled(&stage.worker, "{test.noop,test.other}").await, None, "another worker's lanes");
    // Behind the positions, and not there when they were noted.
    stage.other.begin().await;
    let (later, _) = enqueue_with(stage.other.client(), TENANT_A, NOOP, "'{}'").await.unwrap();
    for _ in 0..30 {
        stage.pass(1.0).await;
        let cursor = cursor_now(&stage).await;
        claim_from(&stage, &cursor).await;
    }
    let marks = recalled(&stage.worker, "{test.noop}").await.unwrap();
    stage.other.commit().await;
    stage.pass(1.0).await;
    assert_eq!(claim_from(&stage, &serde_json::json!({ "marks": marks })).await, [later]);
}

#[tokio::test]
async fn positions_of_many_tenants_are_not_told_to_who_works_for_one() {
    let stage = Stage::set().await;
    swept(&stage).await;
    let bound = stage.db.session_at(&stage.db.url_as(WORKER_A, None)).await;
    assert_eq!(recalled(&bound, "{test.noop}").await, None);
    stage.worker.run("begin").await;
    stage.worker.run(&format!("set local app.bound_tenant = '{TENANT_A}'")).await;
    assert_eq!(recalled(&stage.worker, "{test.noop}").await, None, "narrowed for a while");
}

/// More tenants than a turn holds, behind the story's in the turn.
async fn crowd(stage: &Stage) -> Vec<Uuid> {
    let others: Vec<Uuid> = (1..=200).map(|n| Uuid::from_u128((0x9000_u128 << 112) | n)).collect();
    for tenant in &others {
        stage.tenant(*tenant, "'busy'").await;
    }
    others
}

/// A late job that is committed, among a crowd that has work, with a cursor behind it whose turn is the crowd's.
async fn late_in_a_crowd(stage: &Stage) -> (Uuid, Value) {
    let others = crowd(stage).await;
    let (late, mut cursor) = late_behind(stage).await;
    for tenant in &others {
        enqueue_many(stage.app.client(), *tenant, NOOP, 12).await.unwrap();
    }
    stage.other.commit().await;
    cursor["turn"] = serde_json::json!(others[0]);
    (late, cursor)
}

/// Whether the next claim sweeps though no second went by.
async fn sweeps_on(stage: &Stage) -> bool {
    stage.count("select count(*) from jobforge.sweeps where late or swept_at = '-infinity'").await > 0
}

/// A claim of 64, a second after the one before.
async fn claim_a_turn(stage: &Stage, cursor: &Value) -> Vec<Uuid> {
    stage.pass(1.0).await;
    claim_from_turn(stage, cursor).await
}

async fn claim_from_turn(stage: &Stage, cursor: &Value) -> Vec<Uuid> {
    let o = ClaimOptions { types: vec![NOOP], cursor: Some(cursor.clone()), ..ClaimOptions::default() };
    ids(&claim_with(stage.worker.client(), "w1", 64, o).await.unwrap().jobs)
}

#[tokio::test]
async fn a_late_job_that_somebody_holds_does_not_make_every_claim_sweep() {
    let stage = Stage::set().await;
    let (late, cursor) = late_in_a_crowd(&stage).await;
    let holder = stage.db.session().await;
    holder.begin().await;
    holder.query("select from jobforge.jobs where id = $1 for update", &[&late]).await.unwrap();
    assert!(!claim_a_turn(&stage, &cursor).await.contains(&late));
    assert!(!sweeps_on(&stage).await, "claims sweep for a job that cannot be had");
    holder.rollback().await;
    assert!(!claim_a_turn(&stage, &cursor).await.contains(&late));
    assert!(sweeps_on(&stage).await, "it can be had now");
}

#[tokio::test]
async fn a_late_job_whose_type_has_no_room_does_not_make_every_claim_sweep() {
    let stage = Stage::set().await;
    let (late, cursor) = late_in_a_crowd(&stage).await;
    let running = stage.count("select count(*) from jobforge.jobs where status = 'running'").await;
    stage.definition(NOOP, &format!("p_max_in_flight => {}", running + 64)).await;
    let taken = claim_a_turn(&stage, &cursor).await;
    assert!(taken.len() == 64 && !taken.contains(&late));
    assert!(!sweeps_on(&stage).await, "claims sweep for a job that may not start");
}

#[tokio::test]
async fn a_late_job_that_stays_makes_four_claims_a_second_sweep_and_not_all() {
    let stage = Stage::set().await;
    let (_, cursor) = late_in_a_crowd(&stage).await;
    claim_a_turn(&stage, &cursor).await;
    let swept = "select extract(epoch from swept_at)::float8 from jobforge.sweeps";
    let mut sweeps = Vec::new();
    for _ in 0..20 {
        stage.pass(0.1).await;
        claim_from_turn(&stage, &cursor).await;
        let at: f64 = stage.admin.query_one(swept, &[]).await.unwrap().get(0);
        sweeps.push((at - stage.now().await).abs() < 1e-6);
    }
    assert!(sweeps[..9].iter().all(|swept| *swept), "for a second each claim sweeps: {sweeps:?}");
    let later = sweeps[10..].iter().filter(|swept| **swept).count();
    assert!((3..=4).contains(&later), "{later} of ten claims in a second sweep: {sweeps:?}");
}

#[tokio::test]
async fn a_sweep_of_who_knows_no_position_of_a_late_jobs_tenant_leaves_the_job_to_the_next() {
    let stage = Stage::set().await;
    let others = crowd(&stage).await;
    let job = stage.running().await;
    let mut cursor = Value::Null;
    for _ in 0..12 {
        stage.pass(1.0).await;
        cursor = cursor_now(&stage).await;
        claim_from(&stage, &cursor).await;
    }
    for tenant in &others {
        enqueue_many(stage.app.client(), *tenant, NOOP, 1).await.unwrap();
    }
    release(stage.worker.client(), &job).await.unwrap();
    // Another worker sweeps, whose positions and turn are others', and is gone.
    let mut of_others = cursor.clone();
    of_others["turn"] = serde_json::json!(others[0]);
    of_others["marks"][0]["tenant_id"] = serde_json::json!(others[0]);
    let o = ClaimOptions { types: vec![NOOP], cursor: Some(of_others), ..ClaimOptions::default() };
    let taken = claim_with(stage.rival.client(), "w2", 64, o).await.unwrap().jobs;
    assert!(taken.len() == 64 && !ids(&taken).contains(&job.id));
    assert!(claim_a_turn(&stage, &cursor).await.contains(&job.id));
}

#[tokio::test]
async fn among_more_tenants_than_a_turn_holds_a_late_job_is_found_by_the_first_sweeps_too() {
    let stage = Stage::set().await;
    let (late, mut cursor) = late_in_a_crowd(&stage).await;
    // Four claims a second, and the turn goes round in a little less.
    let mut found = None;
    for claim in 0..32 {
        if claim % 4 == 0 {
            stage.pass(1.0).await;
        }
        let o = ClaimOptions { types: vec![NOOP], cursor: Some(cursor.clone()), ..ClaimOptions::default() };
        let claimed = claim_with(stage.worker.client(), "w1", 64, o).await.unwrap();
        cursor["turn"] = serde_json::json!(claimed.turn);
        cursor["owed"] = serde_json::json!(claimed.owed);
        if ids(&claimed.jobs).contains(&late) {
            found = Some(claim / 4);
            break;
        }
    }
    assert!(found.is_some_and(|second| second <= 1), "found in second {found:?}");
}

#[tokio::test]
async fn a_released_job_behind_a_position_is_found_by_the_next_claim() {
    let stage = Stage::set().await;
    let job = stage.running().await;
    stage.pass(1.0).await;
    let cursor = cursor_now(&stage).await;
    claim_from(&stage, &cursor).await;
    release(stage.worker.client(), &job).await.unwrap();
    assert_eq!(claim_from(&stage, &cursor).await, [job.id]);
}

#[tokio::test]
async fn what_a_reaper_gives_back_free_is_found_behind_a_position_by_the_next_claim() {
    let stage = Stage::set().await;
    stage.jobs(3).await;
    let held = stage.claim_in(3, 1).await;
    stage.pass(31.0).await;
    let cursor = cursor_now(&stage).await;
    claim_from(&stage, &cursor).await;
    assert_eq!(stage.reap().await.1, 2);
    assert_eq!(claim_from(&stage, &cursor).await, ids(&held[1..]));
}

#[tokio::test]
async fn a_claim_that_was_rolled_back_is_found_again_within_a_minute() {
    let stage = Stage::set().await;
    let id = stage.job().await;
    stage.rival.begin().await;
    assert_eq!(claim(stage.rival.client(), "w2", 1).await.unwrap().len(), 1);
    stage.pass(1.0).await;
    let mut cursor = Value::Null;
    for _ in 0..10 {
        cursor = cursor_now(&stage).await;
        claim_from(&stage, &cursor).await;
        stage.pass(1.0).await;
    }
    stage.rival.rollback().await;
    stage.pass(61.0).await;
    assert_eq!(claim_from(&stage, &cursor).await, [id]);
}

#[tokio::test]
async fn with_a_dead_leader_claims_promote_what_falls_due() {
    let stage = Stage::set().await;
    let job = stage.running().await;
    fail(stage.worker.client(), &job, "retryable").await.unwrap();
    assert_eq!(stage.claim(1).await, []);
    stage.lose(5.0).await;
    let again = stage.claim(1).await;
    assert_eq!((again[0].id, again[0].fence), (job.id, 2));
}

#[tokio::test]
async fn an_open_snapshot_that_only_reads_does_not_keep_the_sweeps_looking_back() {
    let stage = Stage::set().await;
    let reader = stage.db.session().await;
    reader.run("begin isolation level repeatable read; select count(*) from jobforge.jobs").await;
    let start = stage.now().await;
    let low = "select greatest(extract(epoch from low)::float8, 0) from jobforge.sweeps";
    // Transactions of other databases of this server hold the sweeps back too, as long as they last.
    let moved = async {
        loop {
            let cursor = cursor_now(&stage).await;
            claim_from(&stage, &cursor).await;
            stage.pass(1.0).await;
            if stage.admin.query_one(low, &[]).await.unwrap().get::<_, f64>(0) > start {
                break;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(60), moved).await.expect("the sweeps go on behind a reader");
    reader.commit().await;
}

/// What waits for a job that somebody holds goes by the clock of when it has it, not of when it asked.
#[tokio::test]
async fn a_job_that_is_moved_to_now_after_a_long_wait_for_its_lock_is_not_behind_a_position() {
    let stage = Stage::set().await;
    let id = enqueue_with(
        stage.app.client(),
        TENANT_A,
        NOOP,
        "'{}', p_run_at => jobforge.clock() + interval '1 hour'",
    )
    .await
    .unwrap()
    .0;
    let holder = stage.an_app().await;
    holder.begin().await;
    holder.query("select * from jobforge.cancel_job($1, $2)", &[&TENANT_A, &id]).await.unwrap();
    let sql = "select * from jobforge.reschedule_job($1, $2, jobforge.clock())";
    let asked = stage.now().await;
    let moving = stage.an_app().await.spawn_blocked(sql, vec![Box::new(TENANT_A), Box::new(id)]).await;
    stage.pass(30.0).await;
    holder.rollback().await;
    moving.finish().await.1.unwrap();
    let sql = "select extract(epoch from run_at)::float8 from jobforge.jobs where id = $1";
    let due: f64 = stage.admin.query_one(sql, &[&id]).await.unwrap().get(0);
    assert!(due >= asked + 30.0, "due {} s after it was asked", due - asked);
    assert_eq!(ids(&stage.claim(1).await), [id]);
}

/// More falls due in one moment than claims make ready while positions go past it.
#[tokio::test]
async fn what_is_made_ready_long_after_it_fell_due_is_found_by_the_first_sweeps_behind_a_position() {
    let stage = Stage::set().await;
    act_for(stage.app.client(), TENANT_A).await.unwrap();
    let sql = "select count(*) from jobforge.enqueue_jobs($1, array_fill($2::text, array[9500]),
                 array_fill('{}'::jsonb, array[9500]),
                 p_run_ats => array_fill(jobforge.clock() + interval '1 second', array[9500]))";
    stage.app.query(sql, &[&TENANT_A, &NOOP]).await.unwrap();
    let mut found = Vec::new();
    for _ in 0..11 {
        stage.pass(1.0).await;
        let at = stage.admin.query_one("select jobforge.clock()::text", &[]).await.unwrap();
        let cursor = serde_json::json!({ "marks": [{ "queue": QUEUE, "type": NOOP, "tenant_id": TENANT_A,
            "priority": 100, "run_at": at.get::<_, String>(0), "id": Uuid::max() }] });
        found = claim_from(&stage, &cursor).await;
    }
    assert!(!found.is_empty(), "the last that became ready are not had");
}
