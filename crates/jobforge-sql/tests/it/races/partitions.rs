//! The history's partitions: a missing one stops nothing, upkeep never waits for long, old ones go whole.

use super::stage::Stage;
use crate::schema::calls::complete;

/// Made, dropped and refused, under a term that is taken anew: these stories jump over days.
async fn upkeep(stage: &Stage) -> (i32, i32, i32) {
    let term = stage.lead("leader").await.expect("the old leader's term ran out");
    let sql = "select made, dropped, refused from jobforge.upkeep_partitions($1, 1000)";
    let row = &stage.operator.query(sql, &[&term]).await.unwrap()[0];
    (row.get(0), row.get(1), row.get(2))
}

async fn leaf_of(stage: &Stage, id: uuid::Uuid) -> String {
    let sql = "select tableoid::regclass::text from jobforge.job_history where id = $1";
    stage.admin.query_one(sql, &[&id]).await.unwrap().get(0)
}

const DAY: f64 = 86_400.0;

#[tokio::test]
async fn a_completion_without_its_partition_goes_to_the_default_one() {
    let stage = Stage::set().await;
    stage.lose(40.0 * DAY).await;
    let job = stage.running().await;
    assert_eq!(complete(stage.worker.client(), &job).await.unwrap(), "done");
    assert_eq!(leaf_of(&stage, job.id).await, "jobforge.job_history_week_default");
    assert_eq!(complete(stage.worker.client(), &job).await.unwrap(), "already");
}

#[tokio::test]
async fn upkeep_gives_up_on_what_somebody_holds_and_does_the_rest() {
    let stage = Stage::set().await;
    let reader = stage.db.session().await;
    reader.run("begin; lock table jobforge.job_history_week in access share mode").await;
    stage.lose(DAY).await;
    let (made, dropped, refused) = upkeep(&stage).await;
    assert!(made > 0 && refused > 0 && dropped == 0, "made {made}, dropped {dropped}, refused {refused}");
    let limit = "select count(*) from pg_proc where proname = 'upkeep_partitions'
        and 'lock_timeout=50ms' = any (proconfig)";
    assert_eq!(stage.count(limit).await, 1, "it waits 50 ms at most");
    reader.commit().await;
    assert_eq!(upkeep(&stage).await, (refused, 0, 0), "the next round makes up for it");
    assert_eq!(upkeep(&stage).await, (0, 0, 0), "and there is nothing more to do");
}

#[tokio::test]
async fn a_completion_goes_on_while_upkeep_runs_into_a_reader() {
    let stage = Stage::set().await;
    stage.lose(DAY).await;
    let reader = stage.db.session().await;
    reader.run("begin; select * from jobforge.job_history").await;
    upkeep(&stage).await;
    let job = stage.running().await;
    stage.worker.run("set lock_timeout = '10s'").await;
    assert_eq!(complete(stage.worker.client(), &job).await.unwrap(), "done");
}

#[tokio::test]
async fn a_partition_is_dropped_when_its_class_is_past_its_time_and_not_before() {
    let stage = Stage::set().await;
    let job = stage.running().await;
    complete(stage.worker.client(), &job).await.unwrap();
    let leaf = leaf_of(&stage, job.id).await;
    assert!(leaf.starts_with("jobforge.job_history_week_2"), "{leaf}");
    let there = format!("select count(to_regclass('{leaf}'))");

    stage.lose(7.0 * DAY - 1.0).await;
    upkeep(&stage).await;
    assert_eq!(stage.count(&there).await, 1, "within its time");
    stage.lose(DAY + 2.0).await;
    assert!(upkeep(&stage).await.1 > 0);
    assert_eq!(stage.count(&there).await, 0, "past it");
}

#[tokio::test]
async fn upkeep_drops_what_it_may_while_a_reader_holds_another_class() {
    let stage = Stage::set().await;
    stage.lose(3.0 * DAY).await;
    let reader = stage.db.session().await;
    reader.run("begin; lock table jobforge.job_history_day in access share mode").await;
    let (_, dropped, refused) = upkeep(&stage).await;
    assert!(dropped > 0 && refused > 0, "dropped {dropped}, refused {refused}");
    reader.rollback().await;
    assert!(upkeep(&stage).await.1 > 0);
}

/// What a reader keeps is asked for once a round, and does not use up the round of the others.
#[tokio::test]
async fn a_class_in_use_keeps_no_other_waiting() {
    let stage = Stage::set().await;
    stage.lose(12.0 * DAY).await;
    let reader = stage.db.session().await;
    reader
        .run("begin; lock table jobforge.job_history_day, jobforge.attempt_history_day in access share mode")
        .await;
    let expired =
        "select count(*) from jobforge.expired_partitions(jobforge.clock()) where parent <> all ($1)";
    let held = ["job_history_day", "attempt_history_day"];
    let free: i64 = stage.admin.query_one(expired, &[&held.as_slice()]).await.unwrap().get(0);
    assert!(free > 10, "{free} partitions have nobody in their way");
    let term = stage.lead("leader").await.unwrap();
    let sql = "select dropped from jobforge.upkeep_partitions($1, 10)";
    let row = &stage.operator.query(sql, &[&term]).await.unwrap()[0];
    assert_eq!(row.get::<_, i32>(0), 10, "a round of ten drops ten");
    let job = stage.running().await;
    assert_eq!(complete(stage.worker.client(), &job).await.unwrap(), "done", "beside the reader");
    reader.rollback().await;
    upkeep(&stage).await;
    assert_eq!(stage.count("select count(*) from jobforge.expired_partitions(jobforge.clock())").await, 0);
}
