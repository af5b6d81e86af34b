//! The life of a job: enqueued, claimed, ended, read.

use jiff::Timestamp;
use jobforge_core::rpc::{
    claim_jobs, close_lease, complete_job, complete_jobs, enqueue_job, enqueue_prepared, fail_job, get_job,
    list_attempts, list_jobs, prepare_enqueue, rehearse_claim, rehearse_complete, release_jobs,
};
use jobforge_core::{ClaimRequest, Class, Code, Completion, Cursor, Error, Job, JobFilter, NewJob, Verdict};
use jobforge_testkit::{NOOP, OTHER, QUEUE, TENANT_A, TENANT_B, WORKER};
use uuid::Uuid;

use crate::story::{Story, W1, failure, json, lanes, noop, refused, request};

#[tokio::test]
async fn a_job_is_enqueued_claimed_completed_and_read() {
    let story = Story::begin().await;
    let job = NewJob::new(NOOP, &serde_json::json!({"n": 1})).unwrap();
    let job = job
        .correlation_id("order-7")
        .tags(["red", "blue"])
        .source("event")
        .source_ref("shop")
        .max_attempts(3);
    let enqueued = story.enqueue(&job).await;
    assert_eq!((enqueued.status.as_str(), enqueued.existing), ("queued", false));

    let claimed = story.claim(10).await;
    assert_eq!(claimed.jobs.len(), 1);
    let taken = &claimed.jobs[0];
    assert_eq!((taken.lease_id, taken.lease_expires_at), (claimed.lease_id, claimed.expires_at));
    assert_eq!((taken.job.id, taken.job.tenant_id, taken.job.fence), (enqueued.id, TENANT_A, 1));
    assert_eq!((taken.job_type.as_str(), taken.queue.as_str(), taken.priority), (NOOP, QUEUE, 100));
    assert_eq!((taken.failures, taken.deaths, taken.max_attempts, taken.timeout_seconds), (0, 0, 3, 300));
    assert_eq!((taken.correlation_id.as_deref(), taken.payload.get()), (Some("order-7"), r#"{"n": 1}"#));
    assert!(!taken.solo && taken.claim_no > 0 && taken.run_at == enqueued.run_at);
    let read = get_job(&story.app, TENANT_A, enqueued.id).await.unwrap();
    assert_eq!((read.status.as_str(), read.worker_id.as_deref(), read.attempt), ("running", Some(W1), 1));

    let done = Completion { job: taken.job, result: Some(json("[true]")), locator: Some(taken.locator) };
    assert_eq!(complete_jobs(&story.worker, taken.lease_id, &[done]).await.unwrap(), [Verdict::Done]);
    let read = get_job(&story.app, TENANT_A, enqueued.id).await.unwrap();
    assert_over(&read);
    let attempts = list_attempts(&story.app, TENANT_A, enqueued.id).await.unwrap();
    assert_eq!((attempts.len(), attempts[0].number, attempts[0].status.as_str()), (1, 1, "succeeded"));
}

#[tokio::test]
async fn a_prepared_enqueue_is_an_enqueue() {
    let mut story = Story::begin().await;
    let prepared = prepare_enqueue(&story.app).await.unwrap();
    for n in 0..8 {
        let tenant = [TENANT_A, TENANT_B][n % 2];
        let job = NewJob { created_by: Some(format!("author {n}")), ..NewJob::new(NOOP, &n).unwrap() };
        let enqueued = enqueue_prepared(&story.app, &prepared, tenant, &job).await.unwrap();
        let read = get_job(&story.app, tenant, enqueued.id).await.unwrap();
        assert_eq!(
            (read.payload.get(), read.created_by.as_deref()),
            (n.to_string().as_str(), job.created_by.as_deref())
        );
        assert_eq!((enqueued.existing, enqueued.run_at), (false, read.run_at));
    }
    // What is not plain goes the usual way, with all its options.
    let keyed = noop().idempotency_key("once");
    let first = enqueue_prepared(&story.app, &prepared, TENANT_A, &keyed).await.unwrap();
    let again = enqueue_prepared(&story.app, &prepared, TENANT_A, &keyed).await.unwrap();
    assert_eq!((first.existing, again.existing, again.id), (false, true, first.id));
    let unknown = NewJob::new("nobody.knows", &1).unwrap();
    let refusal = enqueue_prepared(&story.app, &prepared, TENANT_A, &unknown).await;
    assert_eq!(refusal.unwrap_err().code(), Some(Code::UnknownDefinition));

    let transaction = story.app.transaction().await.unwrap();
    let never = enqueue_prepared(&transaction, &prepared, TENANT_A, &noop()).await.unwrap();
    transaction.rollback().await.unwrap();
    assert_eq!(get_job(&story.app, TENANT_A, never.id).await.unwrap_err().code(), Some(Code::NotFound));
    let used = "select sum(generic_plans + custom_plans)::bigint from pg_prepared_statements where statement ~ 'enqueue_plain'";
    let used: i64 = story.app.query_typed_one(used, &[]).await.unwrap().get(0);
    assert_eq!(used, 10, "the plain ones went by the prepared statement");
}

#[tokio::test]
async fn an_enqueue_tells_the_moment_from_which_its_job_is_due() {
    let story = Story::begin().await;
    let admin = story.db.connect_super().await;
    let large = NewJob::new(NOOP, &"x".repeat(1000)).unwrap();
    let in_sql = "select e.id, e.run_at from generate_series(1, 200) as n
        cross join lateral jobforge.enqueue_job(set_config('app.tenant_id', $1, true)::uuid, $2, to_jsonb(n)) as e";
    let mut told = Vec::new();
    // A tenant with a limit, and one that is written in capitals, go the long way.
    for (limit, spelled) in [(None, TENANT_A.to_string()), (Some(9999), TENANT_B.to_string())] {
        let limited = "update jobforge.tenants set max_pending = $1";
        admin.execute(limited, &[&limit]).await.unwrap();
        for job in [&noop(), &large].into_iter().cycle().take(200) {
            let enqueued = enqueue_job(&story.app, TENANT_A, job).await.unwrap();
            told.push((enqueued.id, enqueued.run_at));
        }
        for spelled in [&spelled, &spelled.to_uppercase()] {
            let rows = story.app.query(in_sql, &[spelled, &NOOP]).await.unwrap();
            told.extend(rows.iter().map(|row| (row.get(0), row.get(1))));
        }
    }
    let (ids, times): (Vec<Uuid>, Vec<Timestamp>) = told.into_iter().unzip();
    let true_ones = "select count(*) from unnest($1::uuid[], $2::timestamptz[]) as told(id, run_at)
        join jobforge.jobs j using (id) where j.run_at = told.run_at and j.created_at = told.run_at";
    let count: i64 = admin.query_one(true_ones, &[&ids, &times]).await.unwrap().get(0);
    assert_eq!(count, 1200);
}

#[tokio::test]
async fn a_rehearsed_claim_goes_all_the_way_and_takes_nothing() {
    let story = Story::begin().await;
    let waiting = story.enqueue(&noop()).await;
    let admin = story.db.connect_super().await;
    let counts = format!("alter role {WORKER} in database {} set track_functions = 'pl'", story.db.name());
    admin.batch_execute(&counts).await.unwrap();
    let mut session = story.db.connect_as(WORKER).await;
    let transaction = session.transaction().await.unwrap();
    rehearse_claim(&transaction, W1, &lanes().0).await.unwrap();
    let went =
        "select coalesce(array_agg(funcname::text order by funcname), '{}') from pg_stat_xact_user_functions
      where funcname in ('claim_jobs', 'look_around', 'survey', 'hold_lease', 'trusted_marks', 'take_turns')";
    let went: Vec<String> = transaction.query_one(went, &[]).await.unwrap().get(0);
    let whole = ["claim_jobs", "hold_lease", "look_around", "survey", "take_turns", "trusted_marks"];
    assert_eq!(went, whole, "what is compiled now");
    transaction.commit().await.unwrap();
    let leases: i64 = admin.query_one("select count(*) from jobforge.leases", &[]).await.unwrap().get(0);
    assert_eq!(leases, 0);
    assert_eq!(story.claim(10).await.jobs[0].job.id, waiting.id);
}

#[tokio::test]
async fn a_rehearsed_completion_goes_all_the_way_and_ends_nothing() {
    let story = Story::begin().await;
    story.enqueue(&noop()).await;
    let held = story.claim(1).await;
    let admin = story.db.connect_super().await;
    let counts = format!("alter role {WORKER} in database {} set track_functions = 'pl'", story.db.name());
    admin.batch_execute(&counts).await.unwrap();
    let mut session = story.db.connect_as(WORKER).await;
    let transaction = session.transaction().await.unwrap();
    rehearse_complete(&transaction).await.unwrap();
    let went =
        "select coalesce(array_agg(funcname::text order by funcname), '{}') from pg_stat_xact_user_functions
      where funcname in ('retire', 'retire_at')";
    let went: Vec<String> = transaction.query_one(went, &[]).await.unwrap().get(0);
    assert_eq!(went, ["retire", "retire_at"], "what is compiled now");
    transaction.commit().await.unwrap();
    let over: i64 = admin.query_one("select count(*) from jobforge.job_history", &[]).await.unwrap().get(0);
    assert_eq!(over, 0);
    let done = Completion { job: held.jobs[0].job, result: None, locator: Some(held.jobs[0].locator) };
    assert_eq!(complete_jobs(&story.worker, held.lease_id, &[done]).await.unwrap(), [Verdict::Done]);
}

fn assert_over(job: &Job) {
    assert_eq!(job.status, "succeeded");
    assert_eq!(job.result.as_ref().unwrap().get(), "[true]");
    assert_eq!(job.tags.as_ref().unwrap().get(), r#"["red", "blue"]"#);
    assert_eq!((job.source.as_str(), job.source_ref.as_deref()), ("event", Some("shop")));
    assert!(job.finished_at.is_some() && job.started_at.is_some());
    let text = serde_json::to_value(job).unwrap();
    assert_eq!((text["type"].as_str(), text["payload"]["n"].as_i64()), (Some(NOOP), Some(1)));
}

#[tokio::test]
async fn numbers_and_text_come_back_exactly() {
    let story = Story::begin().await;
    let exact = r#"{"a": 9007199254740993, "b": 1.10, "c": 123456789012345678901234567890.5, "d": "é😀"}"#;
    story.enqueue(&NewJob::raw(NOOP, json(exact))).await;
    let taken = story.claim(1).await.jobs.remove(0);
    assert_eq!(taken.payload.get(), exact);
    let done = complete_job(&story.worker, taken.lease_id, taken.job, Some(&json(exact))).await.unwrap();
    assert_eq!(done, Verdict::Done);
    let read = get_job(&story.app, TENANT_A, taken.job.id).await.unwrap();
    assert_eq!((read.payload.get(), read.result.unwrap().get()), (exact, exact));
}

#[tokio::test]
async fn an_enqueue_that_is_rolled_back_leaves_no_job() {
    let mut story = Story::begin().await;
    let transaction = story.app.transaction().await.unwrap();
    let id = enqueue_job(&transaction, TENANT_A, &noop()).await.unwrap().id;
    transaction.rollback().await.unwrap();
    assert!(story.claim(1).await.jobs.is_empty());
    let gone = refused(get_job(&story.app, TENANT_A, id).await);
    assert_eq!(gone, (Code::NotFound, "job_unknown".to_owned()));
}

#[tokio::test]
async fn a_completion_is_part_of_the_callers_transaction() {
    let mut story = Story::begin().await;
    let (first, second) = (story.running().await, story.running().await);
    let setup = "create table public.effects (n integer); grant insert, select on public.effects to public";
    story.db.connect_super().await.batch_execute(setup).await.unwrap();

    let transaction = story.worker.transaction().await.unwrap();
    transaction.batch_execute("insert into public.effects values (1)").await.unwrap();
    let verdict = complete_job(&transaction, first.lease_id, first.job, None).await.unwrap();
    assert_eq!(verdict, Verdict::Done);
    transaction.rollback().await.unwrap();
    assert_eq!(get_job(&story.app, TENANT_A, first.job.id).await.unwrap().status, "running");

    let transaction = story.worker.transaction().await.unwrap();
    transaction.batch_execute("insert into public.effects values (2)").await.unwrap();
    complete_job(&transaction, second.lease_id, second.job, None).await.unwrap();
    transaction.commit().await.unwrap();
    assert_eq!(get_job(&story.app, TENANT_A, second.job.id).await.unwrap().status, "succeeded");
    let effects = story.app.query("select n from public.effects", &[]).await.unwrap();
    assert_eq!(effects.iter().map(|row| row.get(0)).collect::<Vec<i32>>(), [2]);
}

#[tokio::test]
async fn claims_follow_priority_and_turn_and_share_a_lease() {
    let story = Story::begin().await;
    let late = story.enqueue(&noop().priority(200)).await.id;
    let soon = story.enqueue(&noop().priority(20)).await.id;
    let other = enqueue_job(&story.app, TENANT_B, &NewJob::raw(OTHER, json("{}"))).await.unwrap().id;
    let claimed = story.claim(10).await;
    let ids: Vec<_> = claimed.jobs.iter().map(|job| job.job.id).collect();
    assert_eq!(ids, [soon, late, other]);
    assert!(claimed.turn.is_some() && !claimed.more);

    story.enqueue(&noop()).await;
    let (queues, types) = lanes();
    let mut cursor = Cursor::default();
    cursor.advance(&claimed);
    let again = ClaimRequest { lease_id: Some(claimed.lease_id), ..request(&queues, &types, 1, &cursor) };
    let again = claim_jobs(&story.worker, &again).await.unwrap();
    assert_eq!((again.jobs.len(), again.lease_id), (1, claimed.lease_id));
}

#[tokio::test]
async fn a_long_drain_by_a_remembered_position_takes_every_job_once() {
    let story = Story::begin().await;
    let jobs = vec![noop(); 500];
    jobforge_core::rpc::enqueue_jobs(&story.app, TENANT_A, &jobs).await.unwrap();
    let (queues, types) = lanes();
    let mut cursor = Cursor::default();
    let mut seen = std::collections::HashSet::new();
    loop {
        let claimed = claim_jobs(&story.worker, &request(&queues, &types, 64, &cursor)).await.unwrap();
        cursor.advance(&claimed);
        if claimed.jobs.is_empty() {
            break;
        }
        assert!(claimed.jobs.iter().all(|job| seen.insert(job.job.id)));
    }
    assert_eq!(seen.len(), 500);
    let claimed = claim_jobs(&story.worker, &request(&queues, &types, 64, &cursor)).await.unwrap();
    assert!(!claimed.more, "an empty queue is told as such once the positions are forgotten");
}

#[tokio::test]
async fn a_failed_job_is_retried_and_then_dead() {
    let story = Story::begin().await;
    let id = story.enqueue(&noop().max_attempts(2)).await.id;
    for (attempt, expected) in [(1, "queued"), (2, "dead")] {
        let taken = story.claim(1).await.jobs.remove(0);
        assert_eq!((taken.job.id, taken.job.fence, taken.failures), (id, attempt, attempt - 1));
        let failed =
            fail_job(&story.worker, taken.lease_id, &failure(taken.job, Class::Retryable)).await.unwrap();
        assert_eq!((failed.verdict, failed.status.as_deref()), (Verdict::Done, Some(expected)));
        assert_eq!(failed.run_at.is_some(), expected == "queued");
        story.db.advance_clock(60.0).await;
    }
    let dead = JobFilter { statuses: Some(vec!["dead".into()]), ..JobFilter::default() };
    let page = list_jobs(&story.app, TENANT_A, &dead).await.unwrap();
    assert_eq!((page.jobs.len(), page.jobs[0].id, page.jobs[0].failures, page.complete), (1, id, 2, true));
    let attempts = list_attempts(&story.app, TENANT_A, id).await.unwrap();
    let told: Vec<_> = attempts.iter().map(|a| (a.number, a.status.as_str(), a.error.as_deref())).collect();
    assert_eq!(told, [(1, "failed", Some("it broke")), (2, "failed", Some("it broke"))]);
}

#[tokio::test]
async fn what_is_given_back_runs_again_and_a_closed_lease_is_gone() {
    let story = Story::begin().await;
    let taken = story.running().await;
    assert_eq!(release_jobs(&story.worker, taken.lease_id, &[taken.job]).await.unwrap(), [Verdict::Done]);
    let again = story.claim(1).await.jobs.remove(0);
    assert_eq!((again.job.id, again.job.fence, again.failures), (taken.job.id, 2, 0));
    close_lease(&story.worker, again.lease_id).await.unwrap();
    assert_eq!(story.claim(1).await.jobs[0].job.fence, 3);
    let closed: Result<(), Error> = close_lease(&story.worker, again.lease_id).await;
    assert_eq!(refused(closed), (Code::LeaseLost, "lease_lost".to_owned()));
}
