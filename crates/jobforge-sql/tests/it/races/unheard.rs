//! What a worker never heard of goes back while its lease goes on; and what workers tell waits only a moment for others' locks.

use tokio_postgres::Error;
use tokio_postgres::types::ToSql;

use super::stage::{Stage, ids, refusal};
use crate::schema::TENANT_A;
use crate::schema::calls::{ClaimOptions, Held, claim_with, complete, release, release_all, snooze};

/// Gives back what is on the lease of these jobs beside them.
async fn release_others(stage: &Stage, known: &[&Held]) -> Result<i32, Error> {
    let tenants: Vec<_> = known.iter().map(|job| job.tenant_id).collect();
    let jobs: Vec<_> = known.iter().map(|job| job.id).collect();
    let fences: Vec<_> = known.iter().map(|job| job.fence).collect();
    let sql = "select jobforge.release_others($1, $2, $3, $4)";
    let answer = stage.rival.client().query_one(sql, &[&known[0].lease_id, &tenants, &jobs, &fences]).await;
    answer.map(|row| row.get(0))
}

/// The code of an answer that Postgres itself refused.
fn code<T: std::fmt::Debug>(answer: Result<T, Error>) -> String {
    answer.unwrap_err().code().unwrap().code().to_owned()
}

#[tokio::test]
async fn what_is_not_listed_goes_back_free_and_the_lease_goes_on() {
    let stage = Stage::set().await;
    stage.jobs(4).await;
    let jobs = stage.claim(4).await;
    // One that was known once, by a fence that is over.
    let old = Held { fence: jobs[2].fence - 1, ..jobs[2].clone() };
    assert_eq!(release_others(&stage, &[&jobs[0], &jobs[3], &old]).await.unwrap(), 2);
    for (job, told) in jobs.iter().zip(["running 1/0/0", "queued 1/0/0", "queued 1/0/0", "running 1/0/0"]) {
        assert_eq!(stage.told(job.id).await, told);
    }
    assert_eq!(release_others(&stage, &[&jobs[0], &jobs[3]]).await.unwrap(), 0, "there is nothing else");
    assert_eq!(complete(stage.worker.client(), &jobs[0]).await.unwrap(), "done");
    assert_eq!(refusal(complete(stage.worker.client(), &jobs[1]).await), "JF006 fence_stale");
    assert_eq!(ids(&stage.claim(4).await), [jobs[1].id, jobs[2].id], "they kept their places");
}

#[tokio::test]
async fn an_unheard_job_that_is_to_stop_is_canceled() {
    let stage = Stage::set().await;
    stage.jobs(2).await;
    let jobs = stage.claim(2).await;
    stage.app.query("select * from jobforge.cancel_job($1, $2)", &[&TENANT_A, &jobs[1].id]).await.unwrap();
    assert_eq!(release_others(&stage, &[&jobs[0]]).await.unwrap(), 0);
    assert_eq!(stage.told(jobs[1].id).await, "canceled 1/0/0");
}

#[tokio::test]
async fn a_list_with_holes_gives_nothing_away() {
    let stage = Stage::set().await;
    stage.jobs(2).await;
    let jobs = stage.claim(2).await;
    let lease = jobs[0].lease_id;
    for (lists, reason) in [
        ("null, null, null", "jobs_missing"),
        ("'{}', '{}', '{}'", "jobs_missing"),
        ("array[null::uuid], array[null::uuid], array[1]", "jobs_missing"),
        ("array[gen_random_uuid()], array[gen_random_uuid()], array[null::integer]", "jobs_missing"),
        ("array[gen_random_uuid()], array[gen_random_uuid()], array[1, 1]", "columns_differ"),
        ("null, array[gen_random_uuid()], array[1]", "columns_differ"),
    ] {
        let sql = format!("select jobforge.release_others('{lease}', {lists})");
        assert_eq!(refusal(stage.worker.query(&sql, &[]).await), format!("JF001 {reason}"), "{lists}");
    }
    stage.pass(31.0).await;
    assert_eq!(refusal(release_others(&stage, &[&jobs[0]]).await), "JF006 lease_lost");
    for job in jobs {
        assert_eq!(stage.told(job.id).await, "running 1/0/0");
    }
}

/// The claim whose answer is lost may still be under way.
#[tokio::test]
async fn a_claim_that_is_putting_jobs_on_the_lease_is_waited_for() {
    let stage = Stage::set().await;
    stage.jobs(2).await;
    let known = stage.claim(1).await;
    stage.worker.begin().await;
    let o = ClaimOptions { lease_id: Some(known[0].lease_id), ..ClaimOptions::default() };
    let unheard = claim_with(stage.worker.client(), "w1", 1, o).await.unwrap().jobs;
    assert_eq!(code(release_others(&stage, &[&known[0]]).await), "55P03", "it cannot say what there is");
    stage.worker.commit().await;
    assert_eq!(release_others(&stage, &[&known[0]]).await.unwrap(), 1);
    assert_eq!(stage.told(unheard[0].id).await, "queued 1/0/0");
    assert_eq!(stage.told(known[0].id).await, "running 1/0/0");
}

#[tokio::test]
async fn what_a_worker_tells_of_a_job_that_somebody_holds_is_refused_for_the_moment() {
    let stage = Stage::set().await;
    let job = stage.running().await;
    stage.other.begin().await;
    stage.other.query("select * from jobforge.cancel_job($1, $2)", &[&TENANT_A, &job.id]).await.unwrap();
    let note: [&(dyn ToSql + Sync); 4] = [&job.lease_id, &job.tenant_id, &job.id, &job.fence];
    for sql in [
        "select jobforge.report_progress($1, $2, $3, $4, 50)",
        "select jobforge.append_log($1, $2, $3, $4, '{info}', '{said}')",
        "select jobforge.report_exit($1, $2, $3, $4, 17)",
        "select jobforge.hold_result($1, $2, $3, $4, 'sha256:0', 1)",
    ] {
        assert_eq!(code(stage.worker.query(sql, &note).await), "55P03", "{sql}");
    }
    assert_eq!(code(snooze(stage.worker.client(), &job, 1.0).await), "55P03");
    assert_eq!(code(release(stage.worker.client(), &job).await), "55P03");
    assert_eq!(code(release_all(stage.worker.client(), job.lease_id).await), "55P03");
    stage.other.rollback().await;
    assert_eq!(stage.told(job.id).await, "running 1/0/0");
    assert_eq!(stage.count("select count(*) from jobforge.job_logs").await, 0);
    assert_eq!(complete(stage.worker.client(), &job).await.unwrap(), "done");
}
