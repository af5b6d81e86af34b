//! Bad input, and the code and reason with which each is refused.

use std::time::Duration;

use jobforge_core::rpc::{
    PrunePosition, append_log, bind_login, claim_jobs, enqueue_job, enqueue_jobs, get_job, lead, list_jobs,
    list_workers, promote_due, prune, reap, register_worker, report_exit, report_progress, snooze_job,
    upsert_definition, upsert_tenant,
};
use jobforge_core::{
    ClaimRequest, ClaimedJob, Code, Cursor, Definition, JobFilter, Level, LogLine, NewJob, ProgramExit,
    Registration, Tenant,
};
use jobforge_testkit::{NOOP, TENANT_A, TENANT_B};
use tokio_postgres::Client;
use uuid::Uuid;

use crate::story::{Story, json, lanes, noop, refused, registration, request};

#[tokio::test]
async fn an_enqueue_is_refused_for_each_thing_wrong_with_it() {
    let story = Story::begin().await;
    let long = "x".repeat(256);
    let far: jiff::Timestamp = "2200-01-01T00:00:00Z".parse().unwrap();
    let gone: jiff::Timestamp = "2000-01-01T00:00:00Z".parse().unwrap();
    let deep = format!("{}1{}", "[".repeat(129), "]".repeat(129));
    let big = serde_json::to_string(&"x".repeat(300_000)).unwrap();
    let cases = [
        (NewJob::raw("no.such", json("{}")), Code::UnknownDefinition, "unknown_definition"),
        (noop().queue("a b"), Code::InvalidArgument, "queue_malformed"),
        (noop().priority(-1), Code::InvalidArgument, "priority_out_of_range"),
        (noop().priority(i32::MAX), Code::InvalidArgument, "priority_out_of_range"),
        (noop().priority(5), Code::Forbidden, "priority_reserved"),
        (noop().run_at(far), Code::InvalidArgument, "run_at_out_of_range"),
        (noop().run_at(gone), Code::InvalidArgument, "run_at_out_of_range"),
        (noop().run_at(jiff::Timestamp::MIN), Code::InvalidArgument, "run_at_out_of_range"),
        (noop().max_attempts(0), Code::InvalidArgument, "max_attempts_out_of_range"),
        (noop().max_attempts(i32::MAX), Code::InvalidArgument, "max_attempts_out_of_range"),
        (noop().idempotency_key(""), Code::InvalidArgument, "idempotency_key_length"),
        (noop().idempotency_key(long.as_str()), Code::InvalidArgument, "idempotency_key_length"),
        (noop().dedupe_key(""), Code::InvalidArgument, "dedupe_key_length"),
        (noop().id(Uuid::new_v4()), Code::InvalidArgument, "id_not_version_7"),
        (
            noop().id("01800000-0000-7000-8000-000000000000".parse().unwrap()),
            Code::InvalidArgument,
            "id_not_recent",
        ),
        (noop().correlation_id(long.as_str()), Code::InvalidArgument, "correlation_id_length"),
        (noop().traceparent("00-xyz"), Code::InvalidArgument, "traceparent_malformed"),
        (noop().tags(["x".repeat(2000)]), Code::InvalidArgument, "tags_malformed"),
        (noop().source("elsewhere"), Code::InvalidArgument, "source_unknown"),
        (noop().source_ref(long.as_str()), Code::InvalidArgument, "source_ref_length"),
        (noop().correlation_id("a\0b"), Code::InvalidArgument, "text_nul"),
        (NewJob::raw(NOOP, json(r#"{"a":"\u0000"}"#)), Code::PayloadInvalid, "payload_nul"),
        (NewJob::raw(NOOP, json(r#""\ud800""#)), Code::PayloadInvalid, "payload_half_surrogate"),
        (NewJob::raw(NOOP, json(&big)), Code::PayloadInvalid, "payload_too_large"),
        (NewJob::raw(NOOP, json(&deep)), Code::PayloadInvalid, "payload_too_deep"),
        (
            NewJob::raw(
                NOOP,
                json(&"[".repeat(9000).chars().chain("]".repeat(9000).chars()).collect::<String>()),
            ),
            Code::PayloadInvalid,
            "payload_too_deep",
        ),
        (NewJob::raw(NOOP, json("1e200000")), Code::PayloadInvalid, "number_too_long"),
        (NewJob::raw(NOOP, json(&"7".repeat(401))), Code::PayloadInvalid, "number_too_long"),
    ];
    let jobs: Vec<NewJob> = cases.iter().map(|(job, ..)| job.clone()).chain([noop()]).collect();
    let batch = enqueue_jobs(&story.app, TENANT_A, &jobs).await.unwrap();
    for ((job, code, reason), answer) in cases.iter().zip(&batch) {
        let single = refused(enqueue_job(&story.app, TENANT_A, job).await);
        assert_eq!(single, (*code, (*reason).to_owned()), "single");
        let refusal = answer.as_ref().unwrap_err();
        assert_eq!((refusal.code, refusal.reason.as_str()), (*code, *reason), "batch");
    }
    // The sound neighbour of all of them went in.
    assert_eq!(story.claim(100).await.jobs[0].job.id, batch.last().unwrap().as_ref().unwrap().id);
}

#[tokio::test]
async fn a_tenant_must_be_known_and_the_logins_own() {
    let story = Story::begin().await;
    let stranger = Uuid::now_v7();
    let unknown = refused(enqueue_job(&story.app, stranger, &noop()).await);
    assert_eq!(unknown, (Code::NotFound, "tenant_unknown".to_owned()));
    let bound = story.db.as_tenant_a().await;
    assert!(enqueue_job(&bound, TENANT_A, &noop()).await.is_ok());
    let foreign = refused(enqueue_job(&bound, TENANT_B, &noop()).await);
    assert_eq!(foreign, (Code::Forbidden, "login_not_bound".to_owned()));
    let foreign = refused(enqueue_jobs(&bound, TENANT_B, &[noop()]).await);
    assert_eq!(foreign, (Code::Forbidden, "login_not_bound".to_owned()));
    let id = enqueue_job(&story.app, TENANT_B, &noop()).await.unwrap().id;
    assert_eq!(refused(get_job(&bound, TENANT_B, id).await).0, Code::Forbidden);
    assert_eq!(refused(get_job(&bound, TENANT_A, id).await), (Code::NotFound, "job_unknown".to_owned()));

    // The typed call names the tenant twice; by hand they can differ or be missing.
    for (call, code, reason) in [
        ("select * from jobforge.enqueue_job(null, 'test.noop')", "JF001", "tenant_missing"),
        (
            "select * from jobforge.enqueue_job('11111111-1111-1111-1111-111111111111', 'test.noop')",
            "JF009",
            "tenant_mismatch",
        ),
    ] {
        let error = story.app.query(call, &[]).await.unwrap_err();
        let error = error.as_db_error().unwrap();
        assert_eq!((error.code().code(), error.detail()), (code, Some(reason)));
    }
}

#[tokio::test]
async fn a_batch_has_bounds() {
    let story = Story::begin().await;
    assert!(enqueue_jobs(&story.app, TENANT_A, &[]).await.unwrap().is_empty());
    let many = vec![noop(); 10_001];
    let refusal = refused(enqueue_jobs(&story.app, TENANT_A, &many).await);
    assert_eq!(refusal, (Code::InvalidArgument, "batch_size".to_owned()));
}

#[tokio::test]
async fn a_claim_has_bounds() {
    let story = Story::begin().await;
    let (queues, types) = lanes();
    let cursor = Cursor::default();
    let sound = request(&queues, &types, 1, &cursor);
    let many: Vec<String> = (0..501).map(|n| format!("t{n}")).collect();
    let cases = [
        (ClaimRequest { limit: 0, ..sound }, Code::InvalidArgument, "limit_out_of_range"),
        (ClaimRequest { limit: 5001, ..sound }, Code::InvalidArgument, "limit_out_of_range"),
        (ClaimRequest { limit: i32::MAX, ..sound }, Code::InvalidArgument, "limit_out_of_range"),
        (ClaimRequest { queues: &[], ..sound }, Code::InvalidArgument, "queues_out_of_range"),
        (ClaimRequest { types: &many, ..sound }, Code::InvalidArgument, "types_out_of_range"),
        (ClaimRequest { lease_seconds: 3601, ..sound }, Code::InvalidArgument, "lease_out_of_range"),
        (ClaimRequest { window: Some(0), ..sound }, Code::InvalidArgument, "window_out_of_range"),
        (ClaimRequest { worker_id: "nobody", ..sound }, Code::NotFound, "worker_unknown"),
        (ClaimRequest { lease_id: Some(Uuid::nil()), ..sound }, Code::LeaseLost, "lease_lost"),
    ];
    for (request, code, reason) in cases {
        assert_eq!(refused(claim_jobs(&story.worker, &request).await), (code, reason.to_owned()));
    }
}

type Numbers = (Option<i32>, Option<i32>, Option<i32>);

async fn exit_refused(
    worker: &Client,
    taken: &ClaimedJob,
    (pid, exit_code, signal): Numbers,
) -> (Code, String) {
    let exit = ProgramExit { pid, exit_code, signal, ..ProgramExit::default() };
    refused(report_exit(worker, taken.lease_id, taken.job, &exit).await)
}

#[tokio::test]
async fn notes_and_snoozes_have_bounds() {
    let story = Story::begin().await;
    let taken = story.running().await;
    let (worker, lease) = (&story.worker, taken.lease_id);
    let cases = [
        (refused(report_progress(worker, lease, taken.job, 101.0, "").await), "percent_out_of_range"),
        (refused(report_progress(worker, lease, taken.job, f32::NAN, "").await), "percent_out_of_range"),
        (exit_refused(worker, &taken, (Some(0), None, None)).await, "pid_out_of_range"),
        (exit_refused(worker, &taken, (None, Some(256), None)).await, "exit_code_out_of_range"),
        (exit_refused(worker, &taken, (None, None, Some(65))).await, "signal_out_of_range"),
        (exit_refused(worker, &taken, (None, Some(1), Some(9))).await, "code_and_signal"),
        (
            refused(snooze_job(worker, lease, taken.job, Duration::from_secs(40_000_000)).await),
            "snooze_out_of_range",
        ),
        (
            refused(
                append_log(
                    worker,
                    lease,
                    taken.job,
                    &vec![LogLine { level: Level::Info, message: String::new() }; 10_001],
                )
                .await,
            ),
            "batch_size",
        ),
    ];
    for ((code, reason), expected) in cases {
        assert_eq!((code, reason.as_str()), (Code::InvalidArgument, expected));
    }
}

#[tokio::test]
async fn reading_and_registering_have_bounds() {
    let story = Story::begin().await;
    let filter = JobFilter { limit: 0, ..JobFilter::default() };
    let endless = JobFilter { limit: i32::MAX, ..JobFilter::default() };
    let term = lead(&story.operator, "me", 10).await.unwrap().term;
    let cases = [
        (refused(list_jobs(&story.app, TENANT_A, &filter).await), "limit_out_of_range"),
        (refused(list_jobs(&story.app, TENANT_A, &endless).await), "limit_out_of_range"),
        (refused(reap(&story.operator, term, i32::MAX).await), "limit_out_of_range"),
        (refused(promote_due(&story.operator, term, i32::MAX).await), "limit_out_of_range"),
        (
            refused(prune(&story.operator, term, i32::MAX, &PrunePosition::default()).await),
            "limit_out_of_range",
        ),
        (
            refused(
                list_jobs(&story.app, TENANT_A, &JobFilter { budget_ms: 0, ..JobFilter::default() }).await,
            ),
            "budget_out_of_range",
        ),
        (
            refused(
                list_jobs(
                    &story.app,
                    TENANT_A,
                    &JobFilter { statuses: Some(vec!["gone".to_owned()]), ..JobFilter::default() },
                )
                .await,
            ),
            "status_unknown",
        ),
        (refused(list_workers(&story.operator, 0).await), "limit_out_of_range"),
        (
            refused(register_worker(&story.worker, &Registration { slots: 0, ..registration("w2") }).await),
            "slots_out_of_range",
        ),
        (refused(register_worker(&story.worker, &registration(&"w".repeat(201))).await), "worker_id_length"),
        (refused(upsert_tenant(&story.operator, &Tenant::named(Uuid::now_v7(), "")).await), "name_length"),
        (refused(upsert_definition(&story.operator, &Definition::new("a b")).await), "key_malformed"),
        (
            refused(
                upsert_definition(
                    &story.operator,
                    &Definition { max_attempts: Some(70_000), ..Definition::new("a") },
                )
                .await,
            ),
            "definition_out_of_range",
        ),
        (refused(lead(&story.operator, "", 10).await), "holder_malformed"),
        (refused(lead(&story.operator, "me", 601).await), "lease_out_of_range"),
    ];
    for ((code, reason), expected) in cases {
        assert_eq!((code, reason.as_str()), (Code::InvalidArgument, expected));
    }
    let unknown = refused(bind_login(&story.operator, "no_such_role", None).await);
    assert_eq!(unknown, (Code::NotFound, "role_unknown".to_owned()));
    let superuser = refused(bind_login(&story.operator, "postgres", None).await);
    assert_eq!(superuser, (Code::Forbidden, "login_too_powerful".to_owned()));
    let late = refused(reap(&story.operator, 99, 10).await);
    assert_eq!(late, (Code::LeaseLost, "term_over".to_owned()));
}

#[tokio::test]
async fn an_inactive_type_takes_no_jobs() {
    let story = Story::begin().await;
    let inactive = Definition { is_active: Some(false), ..Definition::new(NOOP) };
    upsert_definition(&story.operator, &inactive).await.unwrap();
    let refusal = refused(enqueue_job(&story.app, TENANT_A, &noop()).await);
    assert_eq!(refusal, (Code::UnknownDefinition, "inactive_definition".to_owned()));
}

#[tokio::test]
async fn a_login_calls_only_what_its_role_may() {
    let story = Story::begin().await;
    let error = enqueue_job(&story.worker, TENANT_A, &noop()).await.unwrap_err();
    assert!(matches!(error, jobforge_core::Error::Database { .. }), "{error:?}");
    assert!(!error.is_connection() && !error.is_transient() && error.code().is_none());
}
