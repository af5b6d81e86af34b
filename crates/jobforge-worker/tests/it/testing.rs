//! What handlers are tested with: alone, and on a database.

use std::time::Duration;

use jobforge_core::NewJob;
use jobforge_testkit::{NOOP, OTHER};
use jobforge_worker::testing::{Trial, drain};
use jobforge_worker::{
    Context, End, HandlerError, HandlerResult, JobType, Level, Outcome, Worker, WorkerError,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::support::{Story, echo};

#[derive(Debug, Serialize, Deserialize)]
struct Noop {
    number: i64,
}

impl JobType for Noop {
    const TYPE: &'static str = NOOP;
}

async fn talk(context: Context, job: Noop) -> HandlerResult {
    context.log(Level::Info, format!("attempt {}", context.attempt())).await;
    for step in 0..3000_u16 {
        context.progress(f32::from(step) / 30.0, "on its way").await;
    }
    Ok(Outcome::complete(&job.number)?)
}

#[tokio::test]
async fn a_trial_shows_what_a_handler_said() {
    let tried = Trial::new(&Noop { number: 7 }).unwrap().failures(2).run(talk).await;
    assert!(matches!(&tried.outcome, Outcome::Complete(Some(result)) if result.get() == "7"), "{tried:?}");
    assert_eq!((tried.log[0].level, tried.log[0].message.as_str()), (Level::Info, "attempt 3"));
    // More than the way of the notes holds at a time.
    assert_eq!(tried.progress.len(), 3000);
}

#[tokio::test]
async fn a_trial_ends_as_an_attempt_would() {
    let misfit = Trial::new("text").unwrap().run(talk).await;
    assert!(
        matches!(&misfit.outcome, Outcome::Fail { error } if error.contains("does not fit")),
        "{misfit:?}"
    );
    let panicking = |_: Context, _: Value| async { panic!("no") };
    let panicked = Trial::new(&1).unwrap().run(panicking).await;
    assert!(matches!(&panicked.outcome, Outcome::Retry { error } if error.contains("panicked: no")));
    let later =
        |_: Context, _: Value| async { Err(HandlerError::new("busy").retry_after(Duration::from_secs(9))) };
    let retried = Trial::new(&1).unwrap().run(later).await;
    assert!(matches!(&retried.outcome, Outcome::RetryAfter { after, .. } if after.as_secs() == 9));
}

#[tokio::test(start_paused = true)]
async fn a_trial_is_canceled_and_timed_out() {
    let until_told = |context: Context, _: Value| async move {
        context.cancellation().cancelled().await;
        Ok(Outcome::Cancel { reason: "told to".to_owned() })
    };
    let canceled = Trial::new(&1).unwrap().cancel_after(Duration::from_secs(60)).run(until_told).await;
    assert!(matches!(&canceled.outcome, Outcome::Cancel { reason } if reason == "told to"), "{canceled:?}");
    let endless = |_: Context, _: Value| std::future::pending::<HandlerResult>();
    let timed_out = Trial::new(&1).unwrap().timeout_seconds(5).run(endless).await;
    assert!(matches!(&timed_out.outcome, Outcome::Retry { error } if error.contains("timed out after 5 s")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_runs_what_is_due_and_what_comes_of_it() {
    let story = Story::begin().await;
    story.define(|definition| definition.max_attempts = Some(1)).await;
    for key in ["same", "same", "same"] {
        story.enqueue_job(Noop { number: 0 }.into_job().unwrap().concurrency_key(key)).await;
    }
    let dying = story.enqueue_job(Noop { number: 13 }.into_job().unwrap()).await;
    let later = Noop { number: 0 }.into_job().unwrap();
    let later = later.run_at(jiff::Timestamp::now() + Duration::from_secs(3600));
    let later = story.enqueue_job(later).await;
    let worker = Worker::builder(story.config())
        .handle_job::<Noop>(|_: Context, job: Noop| async move {
            match job.number {
                13 => Err(HandlerError::new("unlucky")),
                _ => Ok(Outcome::done()),
            }
        })
        .build()
        .unwrap();
    let drained = drain(&worker).await.unwrap();
    // One at a time of the same key, and all of them.
    assert_eq!((drained.stats.completed, drained.stats.failed), (3, 1), "{drained:?}");
    assert_eq!(drained.ended.len(), 4);
    let death = drained.ended.iter().find(|ended| ended.job_id == dying).unwrap();
    assert_eq!(death.end, End::Dead { error: "unlucky".to_owned() });
    assert_eq!(drained.ended.iter().filter(|ended| ended.end == End::Completed).count(), 3);
    assert_eq!(story.job(later).await.status, "queued");
    assert!(drain(&worker).await.unwrap().ended.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_runs_only_the_types_it_was_told_to() {
    let story = Story::begin().await;
    let builder = || Worker::builder(story.config()).handle(NOOP, echo).handle(OTHER, echo);
    let refused = builder().only(["no.such"]).build().unwrap_err();
    assert!(
        matches!(&refused, WorkerError::UnknownType { unknown, .. } if unknown == "no.such"),
        "{refused}"
    );
    assert!(refused.to_string().contains(&format!("{NOOP}, {OTHER}")), "{refused}");
    assert!(matches!(builder().only(Vec::<String>::new()).build().unwrap_err(), WorkerError::NoHandlers));

    let ours = story.enqueue(json!(1)).await;
    let others = story.enqueue_job(NewJob::new(OTHER, &1).unwrap()).await;
    let stats = builder().only([NOOP]).build().unwrap().run_once(10).await.unwrap();
    assert_eq!(stats.completed, 1);
    assert_eq!(story.job(ours).await.status, "succeeded");
    assert_eq!(story.job(others).await.status, "queued");
}
