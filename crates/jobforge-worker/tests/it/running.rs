//! Jobs that run and how they end.

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use jobforge_core::{NewJob, rpc};
use jobforge_testkit::{NOOP, TENANT_A};
use jobforge_worker::{Context, Exit, HandlerError, Level, Outcome, ProgramExit, Worker, WorkerConfig};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::{Barrier, Notify};

use crate::support::{PATIENCE, Story, echo, eventually};

#[tokio::test(flavor = "multi_thread")]
async fn jobs_run_in_claim_order_and_complete_with_their_results() {
    let story = Story::begin().await;
    let ids = story.enqueue_numbers(500).await;
    let seen = Arc::new(Mutex::new(Vec::new()));
    let order = seen.clone();
    let config = WorkerConfig { slots: 1, ..story.config() };
    let worker = story
        .work(config, move |context, payload| {
            order.lock().unwrap().push(context.job_id());
            echo(context, payload)
        })
        .await;
    for (n, id) in ids.iter().enumerate() {
        let job = story.until(*id, "succeeded").await;
        let result: Value = serde_json::from_str(job.result.unwrap().get()).unwrap();
        assert_eq!(result, json!({ "echo": n }));
    }
    assert_eq!(*seen.lock().unwrap(), ids);
    worker.shutdown().await;
    let stats = worker.stats();
    assert_eq!((stats.claimed, stats.completed, stats.failed, stats.running), (500, 500, 0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn each_outcome_becomes_what_it_says() {
    let story = Story::begin().await;
    // No second attempt comes before the first one's end was looked at.
    let hour = Some(3_600_000);
    story.define(|definition| (definition.retry_base_ms, definition.retry_cap_ms) = (hour, hour)).await;
    let worker = story.work(story.config(), |_, said: Value| async move {
        match said.as_str().unwrap() {
            "done" => Ok(Outcome::done()),
            "retry" => Ok(Outcome::Retry { error: "again".to_owned() }),
            "later" => Ok(Outcome::RetryAfter { error: "busy".to_owned(), after: Duration::from_secs(3000) }),
            "fail" => Ok(Outcome::Fail { error: "never".to_owned() }),
            "snooze" => Ok(Outcome::Snooze(Duration::from_secs(600))),
            "cancel" => Ok(Outcome::Cancel { reason: "no need".to_owned() }),
            "error" => Err(std::io::Error::other("disk on fire"))?,
            "permanent" => Err(HandlerError::new("hopeless").permanent()),
            _ => Err(HandlerError::new("exit").permanent().exit(Exit {
                code: Some(3),
                stderr_tail: Some("boom".to_owned()),
                ..Exit::default()
            })),
        }
    });
    let worker = worker.await;
    let expected = [
        ("done", "succeeded", 0),
        ("retry", "queued", 1),
        ("later", "queued", 1),
        ("fail", "failed", 1),
        ("snooze", "queued", 0),
        ("cancel", "canceled", 0),
        ("error", "queued", 1),
        ("permanent", "failed", 1),
        ("exit", "failed", 1),
    ];
    let mut ids = Vec::new();
    for (said, ..) in expected {
        ids.push(story.enqueue(json!(said)).await);
    }
    eventually("all are reported", async || {
        let stats = worker.stats();
        (stats.completed + stats.failed + stats.snoozed == 9).then_some(())
    })
    .await;
    for ((said, status, failures), id) in expected.into_iter().zip(&ids) {
        let job = story.job(*id).await;
        assert_eq!((job.status.as_str(), job.failures), (status, failures), "{said}");
    }
    let later = story.job(ids[2]).await;
    assert!(later.run_at.duration_since(later.created_at).as_secs() >= 3000);
    let attempts = story.attempts(ids[6]).await;
    assert_eq!((attempts[0].status.as_str(), attempts[0].error.as_deref()), ("failed", Some("disk on fire")));
    let attempts = story.attempts(ids[8]).await;
    assert_eq!((attempts[0].exit_code, attempts[0].stderr_tail.as_deref()), (Some(3), Some("boom")));
    worker.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_fails_one_attempt_and_the_worker_goes_on() {
    let story = Story::begin().await;
    let config = WorkerConfig { slots: 1, ..story.config() };
    let worker = story
        .work(config, |context, payload: Value| async move {
            if payload == json!("late") {
                tokio::task::yield_now().await;
                panic!("off the {}", "rails");
            }
            assert!(payload != json!("early"), "at once");
            echo(context, payload).await
        })
        .await;
    for (said, error) in
        [("late", "the handler panicked: off the rails"), ("early", "the handler panicked: at once")]
    {
        let id = story.enqueue_job(NewJob::new(NOOP, said).unwrap().max_attempts(1)).await;
        assert_eq!(story.until(id, "dead").await.error.as_deref(), Some(error));
    }
    let id = story.enqueue(json!("fine")).await;
    story.until(id, "succeeded").await;
    worker.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handler_that_takes_too_long_is_told_dropped_and_noted_as_a_timeout() {
    let story = Story::begin().await;
    story.define(|definition| definition.timeout_seconds = Some(1)).await;
    let told = Arc::new(Notify::new());
    let heard = told.clone();
    let worker = story
        .work(story.config(), move |context, _| {
            let heard = heard.clone();
            async move {
                context.cancellation().cancelled().await;
                heard.notify_one();
                std::future::pending().await
            }
        })
        .await;
    let id = story.enqueue_job(NewJob::new(NOOP, &()).unwrap().max_attempts(1)).await;
    tokio::time::timeout(PATIENCE, told.notified()).await.unwrap();
    let job = story.until(id, "dead").await;
    assert_eq!(job.error.as_deref(), Some("timed out after 1 s: the handler did not stop and was dropped"));
    let attempts = story.attempts(id).await;
    assert_eq!(
        (attempts[0].status.as_str(), attempts[0].error_class.as_deref()),
        ("timeout", Some("retryable"))
    );
    worker.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_is_heard_at_once_and_a_completion_wins_over_it() {
    let story = Story::begin().await;
    let started = Arc::new(Notify::new());
    let begun = started.clone();
    // The beats are twenty minutes apart: only the notification can be in time.
    let worker = story
        .work(
            WorkerConfig { lease_seconds: 3600, ..story.config() },
            move |context: Context, payload: Value| {
                let begun = begun.clone();
                async move {
                    begun.notify_one();
                    context.cancellation().cancelled().await;
                    if payload == json!("finish") {
                        Ok(Outcome::done())
                    } else {
                        Err(HandlerError::new("stopping"))
                    }
                }
            },
        )
        .await;
    eventually("the listener hears", async || worker.hears().then_some(())).await;
    for (said, status) in [("stop", "canceled"), ("finish", "succeeded")] {
        let id = story.enqueue(json!(said)).await;
        tokio::time::timeout(PATIENCE, started.notified()).await.unwrap();
        rpc::cancel_job(&story.app, TENANT_A, id, Some("a story")).await.unwrap();
        story.until(id, status).await;
    }
    worker.shutdown().await;
}

#[derive(Deserialize)]
struct Order {
    #[expect(dead_code, reason = "only its type matters")]
    amount: u32,
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payload_that_does_not_fit_fails_the_job_for_good() {
    let story = Story::begin().await;
    let worker = Worker::builder(story.config())
        .handle(NOOP, |_: Context, _: Order| async { Ok(Outcome::done()) })
        .build()
        .unwrap();
    let worker = worker.start().await.unwrap();
    let id = story.enqueue(json!({ "amount": "a lot" })).await;
    let job = story.until(id, "failed").await;
    let error = job.error.unwrap();
    assert!(error.starts_with("payload does not fit the handler: invalid type: string"), "{error}");
    worker.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_that_cannot_be_stored_fails_its_job_and_spoils_no_other() {
    let story = Story::begin().await;
    let worker = story
        .work(story.config(), |_, payload: Value| async move {
            let result = match payload.as_u64() {
                Some(3) => json!("nul \0 inside"),
                Some(7) => json!("x".repeat(2 << 20)),
                _ => json!("small"),
            };
            Ok(Outcome::complete(&result)?)
        })
        .await;
    let ids = story.enqueue_numbers(10).await;
    for (n, id) in ids.into_iter().enumerate() {
        let status = if [3, 7].contains(&n) { "failed" } else { "succeeded" };
        let job = story.until(id, status).await;
        assert_eq!(job.error.is_some(), status == "failed");
    }
    worker.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn logs_progress_and_the_trace_are_the_handlers_to_use() {
    let story = Story::begin().await;
    let traces = Arc::new(Mutex::new(Vec::new()));
    let seen = traces.clone();
    let worker = story
        .work(story.config(), move |context, _| {
            let seen = seen.clone();
            async move {
                for line in 0..100 {
                    context.log(Level::Info, format!("line {line}")).await;
                }
                context.progress(40.0, "nearly\0half").await;
                let trace = (context.traceparent().map(str::to_owned), context.child_traceparent());
                seen.lock().unwrap().push((trace, context.correlation_id().map(str::to_owned)));
                Ok(Outcome::done())
            }
        })
        .await;
    let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let id = story
        .enqueue_job(NewJob::new(NOOP, &()).unwrap().traceparent(parent).correlation_id("order 7"))
        .await;
    story.until(id, "succeeded").await;
    let lines = story.count("select count(*) from jobforge.log_history where message like 'line %'").await;
    assert_eq!(lines, 100);
    let ((traceparent, child), correlation) = traces.lock().unwrap().remove(0);
    assert_eq!((traceparent.as_deref(), correlation.as_deref()), (Some(parent), Some("order 7")));
    let child = child.unwrap();
    assert!(child.starts_with(&parent[..36]) && child != parent, "{child}");
    worker.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handler_may_complete_its_job_in_its_own_transaction() {
    let story = Story::begin().await;
    let url = story.config().database_url;
    let worker = story
        .work(story.config(), move |context, _| {
            let url = url.clone();
            async move {
                let mut client = jobforge_testkit::connect(&url).await;
                let transaction = client.transaction().await?;
                let result = serde_json::value::to_raw_value("mine")?;
                rpc::complete_job(&transaction, context.lease(), context.job_ref(), Some(&result)).await?;
                transaction.commit().await?;
                Ok(Outcome::AlreadyReported)
            }
        })
        .await;
    let id = story.enqueue(json!(1)).await;
    let job = story.until(id, "succeeded").await;
    assert_eq!(job.result.unwrap().get(), "\"mine\"");
    worker.shutdown().await;
    assert_eq!(worker.stats().completed, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tick_runs_what_is_due_up_to_its_limit_and_ends() {
    let story = Story::begin().await;
    story.enqueue_numbers(30).await;
    let worker = Worker::builder(story.config()).handle(NOOP, echo).build().unwrap();
    let stats = worker.run_once(20).await.unwrap();
    assert_eq!((stats.claimed, stats.completed), (20, 20));
    let stats = worker.run_once(20).await.unwrap();
    assert_eq!((stats.claimed, stats.completed), (10, 10));
    assert_eq!(worker.run_once(20).await.unwrap().claimed, 0);
    assert_eq!(story.count("select count(*) from jobforge.workers where stopped_at is null").await, 0);
}

/// The end of a program is told before the outcome, and again when the connection breaks on the way.
#[tokio::test]
async fn a_programs_end_is_told_again_after_a_broken_connection() {
    let story = Story::begin().await;
    let admin = story.db.connect_super().await;
    admin.batch_execute("begin; lock table jobforge.attempt_exits in exclusive mode").await.unwrap();
    let config = story.config();
    let worker = story
        .work(config, |context: Context, _: Value| async move {
            let exit = ProgramExit { pid: Some(4711), exit_code: Some(0), ..ProgramExit::default() };
            context.report_exit(exit).await;
            Ok(Outcome::done())
        })
        .await;
    let id = story.enqueue(json!({})).await;
    let other = story.db.connect_super().await;
    eventually("the report waits for the lock, and its connection is cut", async || {
        let sql = "select count(pg_terminate_backend(pid)) from pg_stat_activity
            where datname = current_database() and wait_event_type = 'Lock' and query like '%report_exit%'";
        (other.query_one(sql, &[]).await.unwrap().get::<_, i64>(0) > 0).then_some(())
    })
    .await;
    assert_eq!(story.job(id).await.status, "running", "no outcome before the program's end is told");
    admin.batch_execute("rollback").await.unwrap();
    story.until(id, "succeeded").await;
    let attempt = story.attempts(id).await.remove(0);
    assert_eq!((attempt.pid, attempt.exit_code), (Some(4711), Some(0)));
    worker.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_and_its_producers_go_on_while_the_schema_is_applied_again() {
    let story = Story::begin().await;
    let worker = story.work(story.config(), echo).await;
    let producer = story.db.as_app().await;
    let (over, mut told) = tokio::sync::watch::channel(false);
    let producing = tokio::spawn(async move {
        let (prepared, mut made) = (rpc::prepare_enqueue(&producer).await.unwrap(), 0);
        while !*told.borrow_and_update() {
            let job = NewJob::new(NOOP, &made).unwrap();
            let keyed = NewJob::new(NOOP, &made).unwrap().idempotency_key(made.to_string());
            rpc::enqueue_prepared(&producer, &prepared, TENANT_A, &job).await.unwrap();
            rpc::enqueue_job(&producer, TENANT_A, &keyed).await.unwrap();
            made += 2;
        }
        made
    });
    for _ in 0..5 {
        let applied = jobforge_core::migrate::reapply(&story.db.super_url()).await.unwrap();
        assert!(applied.functions_changed.len() > 10);
    }
    over.send_replace(true);
    let made = producing.await.unwrap();
    let all =
        "select count(*) from jobforge.job_history where status = 'succeeded' and failures + deaths = 0";
    eventually("all are over", async || (story.count(all).await == made).then_some(())).await;
    worker.shutdown().await;
    assert_eq!(worker.stats().lost, 0);
}

/// Whatever was open in the database when the handlers had begun, and said what they do, ends while they go on.
#[tokio::test(flavor = "multi_thread")]
async fn no_transaction_is_open_while_handlers_run() {
    let story = Story::begin().await;
    let (begun, end) = (Arc::new(Barrier::new(3)), Arc::new(Barrier::new(3)));
    let at = (begun.clone(), end.clone());
    let worker = story
        .work(WorkerConfig { slots: 2, ..story.config() }, move |context: Context, payload| {
            let (begun, end) = at.clone();
            async move {
                context.progress(50.0, "half").await;
                context.log(Level::Info, "it runs").await;
                begun.wait().await;
                end.wait().await;
                echo(context, payload).await
            }
        })
        .await;
    let ids = story.enqueue_numbers(2).await;
    begun.wait().await;
    let other = story.db.connect_super().await;
    let now: SystemTime = other.query_one("select clock_timestamp()", &[]).await.unwrap().get(0);
    eventually("all transactions that were open have ended", async || {
        let sql = "select count(*) from pg_stat_activity where datname = current_database()
            and backend_type = 'client backend' and pid <> pg_backend_pid() and xact_start <= $1";
        (other.query_one(sql, &[&now]).await.unwrap().get::<_, i64>(0) == 0).then_some(())
    })
    .await;
    for id in &ids {
        assert_eq!(story.job(*id).await.status, "running");
    }
    end.wait().await;
    for id in ids {
        story.until(id, "succeeded").await;
    }
    worker.shutdown().await;
}
