//! Reports of many jobs by their places: each row is judged by itself, whatever lies at the place it names.

use serde_json::{Value, json};
use uuid::Uuid;

use super::stage::Stage;
use crate::schema::TENANT_A;
use crate::schema::calls::Held;

/// Completes a batch by places; the verdicts are in the rows' order.
async fn complete_batch(stage: &Stage, jobs: &[Held], results: Option<Vec<Value>>) -> Vec<String> {
    let column = |of: fn(&Held) -> Uuid| jobs.iter().map(of).collect::<Vec<Uuid>>();
    let fences: Vec<i32> = jobs.iter().map(|job| job.fence).collect();
    let places: Vec<String> = jobs.iter().map(|job| job.locator.clone()).collect();
    let sql = "select verdict from jobforge.complete_jobs($1, $2, $3, $4, $5,
        array(select p::tid from unnest($6::text[]) with ordinality as u(p, at) order by at)) order by at";
    let (tenants, ids) = (column(|job| job.tenant_id), column(|job| job.id));
    let rows = stage
        .worker
        .query(sql, &[&jobs[0].lease_id, &tenants, &ids, &fences, &results, &places])
        .await
        .unwrap();
    rows.iter().map(|row| row.get(0)).collect()
}

async fn result(stage: &Stage, job: &Held) -> Value {
    let sql = "select result from jobforge.job_history where id = $1";
    stage.admin.query_one(sql, &[&job.id]).await.unwrap().get(0)
}

async fn claimed(stage: &Stage, count: i32) -> Vec<Held> {
    stage.jobs(count).await;
    stage.claim(count).await
}

#[tokio::test]
async fn a_guessed_fence_at_the_right_place_does_nothing() {
    let stage = Stage::set().await;
    let mut held = claimed(&stage, 2).await;
    held[0].fence += 1;
    assert_eq!(complete_batch(&stage, &held, None).await, ["stale", "done"]);
    assert_eq!(stage.told(held[0].id).await, "running 1/0/0");
    held[0].fence -= 1;
    assert_eq!(complete_batch(&stage, &held, None).await, ["done", "already"]);
}

#[tokio::test]
async fn each_result_goes_to_its_own_job_in_whatever_order_they_come() {
    let stage = Stage::set().await;
    let mut held = claimed(&stage, 4).await;
    held.swap(0, 3);
    held.swap(1, 3);
    let results = (0..4).map(|n| json!({ "n": n })).collect();
    assert_eq!(complete_batch(&stage, &held, Some(results)).await, ["done"; 4]);
    for (n, job) in held.iter().enumerate() {
        assert_eq!(result(&stage, job).await, json!({ "n": n }));
    }
}

#[tokio::test]
async fn results_stay_with_their_jobs_beside_a_row_that_moved() {
    let stage = Stage::set().await;
    let held = claimed(&stage, 3).await;
    stage.app.query("select * from jobforge.cancel_job($1, $2)", &[&TENANT_A, &held[1].id]).await.unwrap();
    let results = (0..3).map(|n| json!(n)).collect();
    assert_eq!(complete_batch(&stage, &held, Some(results)).await, ["done"; 3]);
    for (n, job) in held.iter().enumerate() {
        assert_eq!(result(&stage, job).await, json!(n));
    }
}

#[tokio::test]
async fn a_job_reported_twice_in_one_batch_is_done_once() {
    let stage = Stage::set().await;
    let mut held = claimed(&stage, 2).await;
    held.push(held[0].clone());
    assert_eq!(complete_batch(&stage, &held, None).await, ["done", "done", "already"]);
    let kept = "select count(*) from jobforge.job_history";
    assert_eq!(stage.count(kept).await, 2);
}

#[tokio::test]
async fn wrong_moved_and_foreign_places_are_judged_row_by_row() {
    let stage = Stage::set().await;
    let mut held = claimed(&stage, 5).await;
    let bystander = held.pop().unwrap();
    // One moved, one names the bystander's place, one the place of a row that was never there.
    stage.app.query("select * from jobforge.cancel_job($1, $2)", &[&TENANT_A, &held[0].id]).await.unwrap();
    held[1].locator = bystander.locator.clone();
    held[2].locator = "(4000000,1)".to_owned();
    assert_eq!(complete_batch(&stage, &held, None).await, ["done"; 4]);
    assert_eq!(stage.told(bystander.id).await, "running 1/0/0");
    assert_eq!(stage.count("select count(*) from jobforge.job_history").await, 4);
}

#[tokio::test]
async fn two_jobs_that_name_each_others_places_keep_their_own_results() {
    let stage = Stage::set().await;
    let mut held = claimed(&stage, 2).await;
    let (first, second) = (held[0].locator.clone(), held[1].locator.clone());
    (held[0].locator, held[1].locator) = (second, first);
    held.reverse();
    assert_eq!(complete_batch(&stage, &held, Some(vec![json!("b"), json!("a")])).await, ["done"; 2]);
    assert_eq!([result(&stage, &held[0]).await, result(&stage, &held[1]).await], [json!("b"), json!("a")]);
}

#[tokio::test]
async fn a_result_that_is_too_large_keeps_its_job_and_no_other() {
    let stage = Stage::set().await;
    let held = claimed(&stage, 3).await;
    // Not compressible, or it would be small enough where it is stored.
    let large: String = (0..70_000).map(|_| Uuid::new_v4().simple().to_string()).collect();
    let results = vec![json!(1), json!(large), json!(3)];
    assert_eq!(complete_batch(&stage, &held, Some(results)).await, ["done", "invalid", "done"]);
    assert_eq!(stage.told(held[1].id).await, "running 1/0/0");
    assert_eq!([result(&stage, &held[0]).await, result(&stage, &held[2]).await], [json!(1), json!(3)]);
}
