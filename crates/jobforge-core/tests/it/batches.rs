//! Batches of many rows, and of many tenants.

use jobforge_core::rpc::{enqueue_grouped, enqueue_job, enqueue_jobs, get_job, upsert_tenant};
use jobforge_core::{Code, NewJob, Tenant};
use jobforge_testkit::{NOOP, TENANT_A, TENANT_B};
use uuid::Uuid;

use crate::story::{Story, json, noop};

fn numbered(n: usize) -> NewJob {
    NewJob::new(NOOP, &n).unwrap()
}

#[tokio::test]
async fn a_large_batch_is_answered_and_claimed_in_its_order() {
    let story = Story::begin().await;
    let jobs: Vec<NewJob> = (0..1000).map(numbered).collect();
    let answers = enqueue_jobs(&story.app, TENANT_A, &jobs).await.unwrap();
    let ids: Vec<Uuid> = answers.into_iter().map(|answer| answer.unwrap().id).collect();
    assert!(ids.is_sorted());
    let claimed: Vec<Uuid> = story.claim(1000).await.jobs.iter().map(|job| job.job.id).collect();
    assert_eq!(claimed, ids);
}

#[tokio::test]
async fn columns_that_only_some_rows_fill_reach_the_right_rows() {
    let story = Story::begin().await;
    let run_at: jiff::Timestamp = jiff::Timestamp::now() + jiff::SignedDuration::from_hours(1);
    let jobs = [
        noop().queue("q1").tags(["t"]),
        noop().priority(20).correlation_id("c"),
        noop().run_at(run_at).max_attempts(7).source_ref("ref"),
    ];
    let answers = enqueue_jobs(&story.app, TENANT_A, &jobs).await.unwrap();
    let mut read = Vec::new();
    for answer in answers {
        read.push(get_job(&story.app, TENANT_A, answer.unwrap().id).await.unwrap());
    }
    assert_eq!((read[0].queue.as_str(), read[1].queue.as_str()), ("q1", "default"));
    assert_eq!((read[0].priority, read[1].priority), (100, 20));
    assert!(read[0].tags.is_some() && read[1].tags.is_none());
    assert_eq!((read[1].correlation_id.as_deref(), read[2].correlation_id.as_deref()), (Some("c"), None));
    assert_eq!((read[2].max_attempts, read[2].source_ref.as_deref()), (7, Some("ref")));
    assert_eq!(read[2].run_at.as_microsecond(), run_at.as_microsecond());
}

#[tokio::test]
async fn jobs_of_many_tenants_go_in_together_and_are_answered_in_order() {
    let story = Story::begin().await;
    let tenants: Vec<Uuid> = (0..16).map(|_| Uuid::now_v7()).collect();
    for tenant in &tenants {
        upsert_tenant(&story.operator, &Tenant::named(*tenant, "many")).await.unwrap();
    }
    let jobs: Vec<(Uuid, NewJob)> = (0..160).map(|n| (tenants[n * 7 % 16], numbered(n))).collect();
    let mut app = story.db.as_app().await;
    let answers = enqueue_grouped(&mut app, &jobs).await.unwrap();
    for (n, ((tenant, _), answer)) in jobs.iter().zip(answers).enumerate() {
        let job = get_job(&app, *tenant, answer.unwrap().id).await.unwrap();
        assert_eq!(job.payload.get(), n.to_string());
    }
    assert!(enqueue_grouped(&mut app, &[]).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_bad_tenant_or_row_takes_no_neighbour_along() {
    let story = Story::begin().await;
    let stranger = Uuid::nil().max(Uuid::now_v7());
    let jobs = [
        (stranger, noop()),
        (TENANT_B, numbered(1)),
        (TENANT_A, NewJob::raw(NOOP, json(r#""\u0000""#))),
        (stranger, noop()),
        (TENANT_A, NewJob::raw("no.such", json("1"))),
        (TENANT_A, numbered(2)),
    ];
    let mut app = story.db.as_app().await;
    let answers = enqueue_grouped(&mut app, &jobs).await.unwrap();
    let told: Vec<_> = answers
        .iter()
        .map(|answer| answer.as_ref().map(|_| ()).map_err(|refusal| (refusal.code, refusal.reason.as_str())))
        .collect();
    let unknown = Err((Code::NotFound, "tenant_unknown"));
    assert_eq!(
        told,
        [
            unknown,
            Ok(()),
            Err((Code::PayloadInvalid, "payload_nul")),
            unknown,
            Err((Code::UnknownDefinition, "unknown_definition")),
            Ok(()),
        ]
    );
    assert_eq!(story.claim(10).await.jobs.len(), 2);
}

#[tokio::test]
async fn a_job_says_who_made_it_whatever_way_it_came() {
    let story = Story::begin().await;
    let who = async |id: Uuid| get_job(&story.app, TENANT_A, id).await.unwrap().created_by;
    let plain = story.enqueue(&noop().created_by("ann")).await;
    assert_eq!(who(plain.id).await.as_deref(), Some("ann"));
    let keyed = story.enqueue(&noop().created_by("ann").idempotency_key("k")).await;
    assert_eq!(who(keyed.id).await.as_deref(), Some("ann"));
    assert_eq!(who(story.enqueue(&noop()).await.id).await, None);
    let long = enqueue_job(&story.app, TENANT_A, &noop().created_by("x".repeat(256))).await.unwrap_err();
    assert_eq!((long.code(), long.reason()), (Some(Code::InvalidArgument), Some("created_by_length")));

    let both = [noop().created_by("ann"), noop().created_by("bea")];
    let answers = enqueue_jobs(&story.app, TENANT_A, &both).await.unwrap();
    assert_eq!(who(answers[0].as_ref().unwrap().id).await.as_deref(), Some("ann"));
    assert_eq!(answers[1].as_ref().unwrap_err().reason, "created_by_differs");
    let mut app = story.db.as_app().await;
    let answers = enqueue_grouped(&mut app, &both.map(|job| (TENANT_A, job))).await.unwrap();
    let ids: Vec<Uuid> = answers.into_iter().map(|answer| answer.unwrap().id).collect();
    assert_eq!((who(ids[0]).await.as_deref(), who(ids[1]).await.as_deref()), (Some("ann"), Some("bea")));
}
