//! Objects of the artifact store: who writes a content while a collector deletes it, and what happens to those that
//! nobody confirms or holds.

use std::time::SystemTime;

use jobforge_testkit::Session;
use tokio_postgres::Error;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::stage::{Stage, refusal};
use crate::schema::calls::{complete, enqueue_with, fail};
use crate::schema::{NOOP, QUEUE, TENANT_A};

const DAY: f64 = 86_400.0;

fn object(digits: &str) -> String {
    format!("sha256:{digits:0>64}")
}

async fn announce(session: &Session, object: &str) -> Result<(), Error> {
    let sql = "select jobforge.announce_artifact($1, $2)";
    session.query(sql, &[&TENANT_A, &object]).await.map(drop)
}

/// A job whose payload is this object.
async fn naming(session: &Session, object: &str) -> Uuid {
    let payload = format!("'{{\"$artifact\": {{\"ref\": \"{object}\", \"bytes\": 7}}}}'");
    enqueue_with(session.client(), TENANT_A, NOOP, &payload).await.unwrap().0
}

async fn attach(session: &Session, job: Uuid, object: &str) -> Result<(), Error> {
    let sql = "select jobforge.attach_artifact($1, $2, $3, 7)";
    session.query(sql, &[&TENANT_A, &job, &object]).await.map(drop)
}

/// What a collector is given, with the mark to confirm it by.
async fn collect(stage: &Stage) -> Vec<(String, SystemTime)> {
    let term = stage.lead("leader").await.unwrap();
    let sql = "select ref, doomed_at from jobforge.collect_artifacts($1)";
    let rows = stage.operator.query(sql, &[&term]).await.unwrap();
    rows.iter().map(|row| (row.get(0), row.get(1))).collect()
}

async fn confirm(stage: &Stage, (object, at): &(String, SystemTime)) -> i32 {
    let term = stage.lead("leader").await.unwrap();
    let sql = "select jobforge.confirm_artifacts($1, array[$2::uuid], array[$3::text], $4)";
    stage.operator.query(sql, &[&term, &TENANT_A, object, at]).await.unwrap()[0].get(0)
}

/// The time at which nobody is about to attach what was announced before.
async fn a_day_later(stage: &Stage) {
    stage.lose(DAY + 1.0).await;
}

#[tokio::test]
async fn an_enqueue_under_way_keeps_its_object_from_the_collector() {
    let stage = Stage::set().await;
    let object = object("1");
    announce(&stage.app, &object).await.unwrap();
    assert_eq!(collect(&stage).await, [], "announced a moment ago");
    a_day_later(&stage).await;
    stage.app.begin().await;
    let job = naming(&stage.app, &object).await;
    attach(&stage.app, job, &object).await.unwrap();
    assert_eq!(collect(&stage).await, [], "passed by, though its day is over");
    // Another one with the same content does not wait for the first.
    stage.other.begin().await;
    let twin = naming(&stage.other, &object).await;
    attach(&stage.other, twin, &object).await.unwrap();
    stage.other.commit().await;
    stage.app.commit().await;
    assert_eq!(collect(&stage).await, [], "held");
    assert_eq!(stage.count("select count(*) from jobforge.artifacts where collect_at is null").await, 1);
}

#[tokio::test]
async fn whoever_comes_while_an_object_is_being_deleted_is_refused_until_that_is_over() {
    let stage = Stage::set().await;
    let object = object("1");
    announce(&stage.app, &object).await.unwrap();
    let job = naming(&stage.app, &object).await;
    a_day_later(&stage).await;
    let doomed = collect(&stage).await;
    assert_eq!(doomed.len(), 1);
    assert_eq!(refusal(attach(&stage.app, job, &object).await), "JF008 artifact_leaving");
    assert_eq!(refusal(announce(&stage.app, &object).await), "JF008 artifact_leaving");
    assert_eq!(collect(&stage).await, [], "it is handed out once");
    assert_eq!(confirm(&stage, &doomed[0]).await, 1);
    assert_eq!(refusal(attach(&stage.app, job, &object).await), "JF007 artifact_unknown");
    announce(&stage.app, &object).await.unwrap();
    attach(&stage.app, job, &object).await.unwrap();
}

/// The doom is decided under the row's lock: who comes at the same time waits for it, and is refused.
#[tokio::test]
async fn an_announcement_that_meets_the_doom_waits_and_is_refused() {
    let stage = Stage::set().await;
    let object = object("1");
    announce(&stage.app, &object).await.unwrap();
    a_day_later(&stage).await;
    stage.operator.begin().await;
    assert_eq!(collect(&stage).await.len(), 1);
    let Stage { app, operator, .. } = stage;
    let sql = format!("select jobforge.announce_artifact('{TENANT_A}', '{object}')");
    let waiting = app.spawn_blocked(&sql, vec![]).await;
    operator.commit().await;
    let (_, answer) = waiting.finish().await;
    assert_eq!(refusal(answer), "JF008 artifact_leaving");
}

#[tokio::test]
async fn what_nobody_confirms_is_handed_out_again_and_may_be_written_after_a_minute() {
    let stage = Stage::set().await;
    let (again, anew) = (object("1"), object("2"));
    for object in [&again, &anew] {
        announce(&stage.app, object).await.unwrap();
    }
    a_day_later(&stage).await;
    let first = collect(&stage).await;
    assert_eq!(first.len(), 2);
    stage.lose(59.0).await;
    assert_eq!(refusal(announce(&stage.app, &anew).await), "JF008 artifact_leaving");
    stage.lose(2.0).await;
    announce(&stage.app, &anew).await.unwrap();
    // The collector comes back late: what was announced since is not forgotten.
    let late = first.iter().find(|(object, _)| *object == anew).unwrap();
    assert_eq!(confirm(&stage, late).await, 0);
    assert_eq!(stage.count("select count(*) from jobforge.artifacts").await, 2);
    stage.lose(300.0).await;
    let second = collect(&stage).await;
    assert_eq!(second.iter().map(|(object, _)| object).collect::<Vec<_>>(), [&again]);
    assert_eq!(confirm(&stage, &second[0]).await, 1);
}

#[tokio::test]
async fn an_object_leaves_with_the_last_job_that_holds_it() {
    let stage = Stage::set().await;
    let object = object("1");
    // What upkeep leaves at this time: how many objects are to be deleted, and how many holds there are.
    let left_at = async |time: &str| {
        let sql = "update jobforge_test.clock set at = ($1::text || '+00')::timestamptz";
        stage.admin.execute(sql, &[&time]).await.unwrap();
        let term = stage.lead("leader").await.unwrap();
        stage.operator.query("select * from jobforge.upkeep_partitions($1, 1000)", &[&term]).await.unwrap();
        stage.operator.query("select * from jobforge.prune($1)", &[&term]).await.unwrap();
        (collect(&stage).await.len(), stage.count("select count(*) from jobforge.job_artifacts").await)
    };
    assert_eq!(left_at("2031-03-05 10:00").await, (0, 0));
    // The worker is none of long ago.
    let come = format!("select jobforge.register_worker('w1', 'h', 1, 'v', '{{{QUEUE}}}', '{{{NOOP}}}')");
    stage.worker.run(&come).await;
    announce(&stage.app, &object).await.unwrap();
    for _ in 0..2 {
        let job = naming(&stage.app, &object).await;
        attach(&stage.app, job, &object).await.unwrap();
    }
    let jobs = stage.claim(2).await;
    complete(stage.worker.client(), &jobs[0]).await.unwrap();
    // A dead letter stays for a year.
    assert_eq!(
        fail(stage.worker.client(), &jobs[1], "permanent").await.unwrap().1.as_deref(),
        Some("failed")
    );
    assert_eq!(
        left_at("2031-03-12 23:59").await,
        (0, 2),
        "past its class's time, and its partition is there"
    );
    assert_eq!(left_at("2031-03-13 00:01").await, (0, 1), "the dead letter holds it");
    assert_eq!(left_at("2032-03-05 09:59").await, (0, 1));
    assert_eq!(left_at("2032-03-05 10:01").await, (1, 0));
}

#[tokio::test]
async fn the_result_of_an_earlier_attempt_is_let_go() {
    let stage = Stage::set().await;
    let job = stage.running().await;
    let hold = "select jobforge.hold_result($1, $2, $3, $4, $5, 7)";
    let held = async |object: &str| {
        let params: [&(dyn ToSql + Sync); 5] = [&job.lease_id, &job.tenant_id, &job.id, &job.fence, &object];
        stage.worker.query(hold, &params).await.unwrap();
    };
    held(&object("1")).await;
    // The collector comes by and, while it is held, need not come again.
    stage.meddle("update jobforge.artifacts set collect_at = jobforge.clock()", &[]).await;
    assert_eq!(collect(&stage).await, []);
    held(&object("2")).await;
    held(&object("2")).await;
    assert_eq!(complete(stage.worker.client(), &job).await.unwrap(), "done");
    a_day_later(&stage).await;
    let doomed = collect(&stage).await;
    assert_eq!(doomed.iter().map(|(object, _)| object.clone()).collect::<Vec<_>>(), [object("1")]);
}

#[tokio::test]
async fn a_hold_without_a_job_is_found_and_let_go() {
    let stage = Stage::set().await;
    let object = object("1");
    announce(&stage.app, &object).await.unwrap();
    let job = naming(&stage.app, &object).await;
    attach(&stage.app, job, &object).await.unwrap();
    stage.meddle("delete from jobforge.jobs where id = $1", &[&job]).await;
    a_day_later(&stage).await;
    assert_eq!(collect(&stage).await, []);
    let term = stage.lead("leader").await.unwrap();
    let row = &stage.operator.query("select orphans from jobforge.prune($1)", &[&term]).await.unwrap()[0];
    assert_eq!(row.get::<_, i32>(0), 1);
    assert_eq!(collect(&stage).await.len(), 1);
}

#[tokio::test]
async fn what_is_malformed_or_does_not_fit_is_refused_and_changes_nothing() {
    let stage = Stage::set().await;
    let (object, other) = (object("1"), object("2"));
    for malformed in [
        "",
        "sha256:1",
        &object[7..],
        &object.replace('1', "G"),
        &object.to_uppercase(),
        &format!("{object}/.."),
    ] {
        assert_eq!(refusal(announce(&stage.app, malformed).await), "JF001 ref_malformed", "{malformed}");
    }
    let none = "select jobforge.announce_artifact($1, null)";
    assert_eq!(refusal(stage.app.query(none, &[&TENANT_A]).await), "JF001 ref_malformed");
    for object in [&object, &other] {
        announce(&stage.app, object).await.unwrap();
    }
    let (job, plain) = (naming(&stage.app, &object).await, stage.job().await);
    let call = async |job: Uuid, object: &str, bytes: i64| {
        let sql = "select jobforge.attach_artifact($1, $2, $3, $4)";
        refusal(stage.app.query(sql, &[&TENANT_A, &job, &object, &bytes]).await)
    };
    assert_eq!(call(job, &other, 7).await, "JF003 artifact_mismatch");
    assert_eq!(call(job, &object, 8).await, "JF003 artifact_mismatch");
    assert_eq!(call(plain, &object, 7).await, "JF003 artifact_mismatch");
    assert_eq!(call(Uuid::nil(), &object, 7).await, "JF007 job_unknown");
    let running = stage.claim(1).await.remove(0);
    let hold = "select jobforge.hold_result($1, $2, $3, $4, $5, $6)";
    for (bytes, object, reason) in [
        (0_i64, object.as_str(), "JF001 bytes_out_of_range"),
        (1 << 31, &object, "JF001 bytes_out_of_range"),
        (7, "sha256:", "JF001 ref_malformed"),
    ] {
        let params: [&(dyn ToSql + Sync); 6] =
            [&running.lease_id, &running.tenant_id, &running.id, &running.fence, &object, &bytes];
        assert_eq!(refusal(stage.worker.query(hold, &params).await), reason);
    }
    let over =
        stage.operator.query("select * from jobforge.collect_artifacts($1)", &[&(stage.term - 1)]).await;
    assert_eq!(refusal(over), "JF006 term_over");
    assert_eq!(stage.count("select count(*) from jobforge.job_artifacts").await, 0);
}
