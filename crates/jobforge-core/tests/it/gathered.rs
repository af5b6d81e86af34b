//! What many callers of many tenants asked for, in one statement.

use jobforge_core::listen::{Listener, WAKE};
use jobforge_core::rpc::{enqueue_gathered, get_job, sleep_worker, upsert_tenant};
use jobforge_core::{Code, Enqueued, NewJob, Refusal, Tenant};
use jobforge_testkit::{NOOP, TENANT_A, TENANT_B, WORKER};
use uuid::Uuid;

use crate::story::{Story, W1, json, lanes, noop};

/// What became of each: nothing, or the code and the reason.
fn told(answers: &[Result<Enqueued, Refusal>]) -> Vec<Result<(), (Code, &str)>> {
    let told = answers.iter().map(|answer| match answer {
        Ok(_) => Ok(()),
        Err(refusal) => Err((refusal.code, refusal.reason.as_str())),
    });
    told.collect()
}

#[tokio::test]
async fn each_job_goes_to_its_own_tenant_and_is_answered_in_order() {
    let story = Story::begin().await;
    let tenants: Vec<Uuid> = (0..16).map(|_| Uuid::now_v7()).collect();
    for tenant in &tenants {
        upsert_tenant(&story.operator, &Tenant::named(*tenant, "many")).await.unwrap();
    }
    let numbered = |n: usize| NewJob::new(NOOP, &n).unwrap();
    let jobs: Vec<(Uuid, NewJob)> = (0..160).map(|n| (tenants[n * 7 % 16], numbered(n))).collect();
    let answers = enqueue_gathered(&story.app, &jobs).await.unwrap();
    let ids: Vec<Uuid> = answers.iter().map(|answer| answer.as_ref().unwrap().id).collect();
    assert!(ids.is_sorted());
    for (n, ((tenant, _), id)) in jobs.iter().zip(&ids).enumerate() {
        let job = get_job(&story.app, *tenant, *id).await.unwrap();
        assert_eq!(job.payload.get(), n.to_string());
        let foreign = get_job(&story.app, tenants[(n * 7 + 1) % 16], *id).await;
        assert_eq!(foreign.unwrap_err().code(), Some(Code::NotFound));
    }
    assert!(enqueue_gathered(&story.app, &[]).await.unwrap().is_empty());
}

#[tokio::test]
async fn what_a_job_asks_for_reaches_it_and_no_other() {
    let story = Story::begin().await;
    let run_at = jiff::Timestamp::now() + jiff::SignedDuration::from_hours(1);
    let jobs = [
        (TENANT_A, noop().queue("q1").tags(["t"]).concurrency_key("one")),
        (TENANT_B, noop().priority(20).correlation_id("c").created_by("bea")),
        (TENANT_A, noop().run_at(run_at).max_attempts(7).source_ref("ref")),
    ];
    let answers = enqueue_gathered(&story.app, &jobs).await.unwrap();
    let mut read = Vec::new();
    for ((tenant, _), answer) in jobs.iter().zip(answers) {
        read.push(get_job(&story.app, *tenant, answer.unwrap().id).await.unwrap());
    }
    assert_eq!((read[0].queue.as_str(), read[1].queue.as_str()), ("q1", "default"));
    assert_eq!((read[0].concurrency_key.as_deref(), read[1].concurrency_key.as_deref()), (Some("one"), None));
    assert_eq!((read[0].priority, read[1].priority), (100, 20));
    assert_eq!((read[0].created_by.as_deref(), read[1].created_by.as_deref()), (None, Some("bea")));
    assert!(read[0].tags.is_some() && read[1].tags.is_none());
    assert_eq!((read[1].correlation_id.as_deref(), read[2].correlation_id.as_deref()), (Some("c"), None));
    assert_eq!((read[2].max_attempts, read[2].source_ref.as_deref()), (7, Some("ref")));
    assert_eq!(read[2].run_at.as_microsecond(), run_at.as_microsecond());
}

#[tokio::test]
async fn a_bad_row_or_tenant_takes_no_neighbour_along() {
    let story = Story::begin().await;
    let stranger = Uuid::now_v7();
    let jobs = [
        (stranger, noop()),
        (TENANT_B, noop()),
        (TENANT_A, NewJob::raw(NOOP, json(r#""\u0000""#))),
        (TENANT_A, NewJob::raw("no.such", json("1"))),
        (TENANT_A, noop().priority(5)),
        (TENANT_A, noop().created_by("x".repeat(256))),
        (TENANT_A, noop()),
    ];
    let answers = enqueue_gathered(&story.app, &jobs).await.unwrap();
    let refused = [
        Err((Code::NotFound, "tenant_unknown")),
        Ok(()),
        Err((Code::PayloadInvalid, "payload_nul")),
        Err((Code::UnknownDefinition, "unknown_definition")),
        Err((Code::Forbidden, "priority_reserved")),
        Err((Code::InvalidArgument, "created_by_length")),
        Ok(()),
    ];
    assert_eq!(told(&answers), refused);
    assert_eq!(story.claim(10).await.jobs.len(), 2);
}

#[tokio::test]
async fn a_tenants_limit_and_retention_are_its_own() {
    let story = Story::begin().await;
    let limited = Tenant { max_pending: Some(2), ..Tenant::new(TENANT_A) };
    upsert_tenant(&story.operator, &limited).await.unwrap();
    let keeper = Tenant { retention: Some("year".to_owned()), ..Tenant::named(Uuid::now_v7(), "keeper") };
    upsert_tenant(&story.operator, &keeper).await.unwrap();
    let jobs: Vec<(Uuid, NewJob)> =
        [TENANT_A, TENANT_B, keeper.id].into_iter().cycle().take(9).map(|t| (t, noop())).collect();
    let answers = enqueue_gathered(&story.app, &jobs).await.unwrap();
    let full = Err((Code::LimitExceeded, "max_pending"));
    assert_eq!(told(&answers), [Ok(()), Ok(()), Ok(()), Ok(()), Ok(()), Ok(()), full, Ok(()), Ok(())]);
    let kept = async |tenant, at: usize| {
        let id = answers[at].as_ref().unwrap().id;
        get_job(&story.app, tenant, id).await.unwrap().retention
    };
    assert_eq!(kept(keeper.id, 2).await, "year");
    assert_ne!(kept(TENANT_B, 1).await, "year");
}

#[tokio::test]
async fn a_sleeper_is_woken() {
    let story = Story::begin().await;
    let (queues, types) = lanes();
    let mut listener = Listener::connect(&story.db.url_as(WORKER, None), &[WAKE]).await.unwrap();
    sleep_worker(&story.worker, W1, &queues, &types, 60).await.unwrap();
    enqueue_gathered(&story.app, &[(TENANT_A, noop()), (TENANT_B, noop())]).await.unwrap();
    assert_eq!(listener.next().await.unwrap().channel, WAKE);
}

/// Whoever calls the function itself is not sifted before.
#[tokio::test]
async fn plain_jobs_are_checked_as_those_with_options() {
    let story = Story::begin().await;
    story
        .operator
        .batch_execute("select jobforge.upsert_definition('off', p_is_active => false)")
        .await
        .unwrap();
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    let rows: [(Uuid, &str, &str, &str, &str); 7] = [
        (TENANT_A, NOOP, "{}", "ann", ""),
        (TENANT_A, NOOP, &deep, "ann", "JF003 payload_too_deep"),
        (TENANT_B, "nothing.known", "{}", "ann", "JF002 unknown_definition"),
        (TENANT_B, "off", "{}", "ann", "JF002 inactive_definition"),
        (Uuid::now_v7(), NOOP, "{}", "ann", "JF007 tenant_unknown"),
        (TENANT_A, NOOP, "{}", &"x".repeat(256), "JF001 created_by_length"),
        (TENANT_B, NOOP, "{}", "bea", ""),
    ];
    let sql = "select e.at, e.id, coalesce(e.error_code || ' ' || e.error_reason, '')
        from jobforge.enqueue_gathered($1, $2, ($3::text[])::jsonb[], p_created_bys => $4) as e order by e.at";
    let column =
        |pick: fn(&(Uuid, &str, &str, &str, &str)) -> String| rows.iter().map(pick).collect::<Vec<_>>();
    let tenants: Vec<Uuid> = rows.iter().map(|row| row.0).collect();
    let texts = [column(|row| row.1.into()), column(|row| row.2.into()), column(|row| row.3.into())];
    let answers = story.app.query(sql, &[&tenants, &texts[0], &texts[1], &texts[2]]).await.unwrap();
    let told: Vec<String> = answers.iter().map(|answer| answer.get(2)).collect();
    assert_eq!(told, column(|row| row.4.into()));
    for (row, answer) in rows.iter().zip(&answers) {
        let id: Option<Uuid> = answer.get(1);
        assert_eq!(id.is_some(), row.4.is_empty());
        if let Some(id) = id {
            let job = get_job(&story.app, row.0, id).await.unwrap();
            assert_eq!((job.job_type.as_str(), job.created_by.as_deref()), (row.1, Some(row.3)));
        }
    }
}
