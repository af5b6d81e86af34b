//! Reports that the database refuses, or cannot store: the worker goes on, and no job is lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use jobforge_worker::{Context, Outcome};
use serde_json::{Value, json};

use crate::support::{Story, eventually};

/// A constraint that one job's failure violates.
const REFUSE: &str = "
    create function public.refuse() returns trigger language plpgsql as $$
    begin raise check_violation using message = 'made to refuse'; end $$;
    create trigger refuse before update on jobforge.jobs for each row
    when (new.failures > old.failures and old.payload = '\"refused\"') execute function public.refuse()";

#[tokio::test(flavor = "multi_thread")]
async fn what_no_database_takes_is_a_failure_and_no_more() {
    let story = Story::begin().await;
    let handler = |context: Context, payload: Value| async move {
        match payload.as_str() {
            Some("snooze") => Ok(Outcome::Snooze(Duration::MAX)),
            Some("error") => Ok(Outcome::Retry { error: format!("a\0b{}", "é".repeat(1 << 20)) }),
            _ => {
                context.progress(f32::NAN, "nowhere").await;
                Ok(Outcome::done())
            }
        }
    };
    let worker = story.work(story.config(), handler).await;
    let snooze = story.enqueue(json!("snooze")).await;
    let error = story.enqueue(json!("error")).await;
    let progress = story.enqueue(json!("progress")).await;
    eventually("both failed", async || (worker.stats().failed >= 2).then_some(())).await;
    story.until(progress, "succeeded").await;
    worker.shutdown().await;
    worker.sound().unwrap();
    let told = story.attempts(snooze).await.remove(0).error.unwrap();
    assert!(told.contains("the snooze was refused") && told.contains("p_seconds"), "{told}");
    let told = story.attempts(error).await.remove(0).error.unwrap();
    assert!(told.starts_with("a\u{fffd}bé") && told.chars().count() == 8192, "{}", told.len());
    assert_eq!(worker.stats().lost, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_whose_end_the_database_refuses_goes_back_and_the_others_go_on() {
    let story = Story::begin().await;
    story.db.connect_super().await.batch_execute(REFUSE).await.unwrap();
    let tries = Arc::new(AtomicUsize::new(0));
    let tried = tries.clone();
    let handler = move |_: Context, payload: Value| {
        let first = payload == json!("refused") && tried.fetch_add(1, Ordering::SeqCst) == 0;
        async move {
            match first {
                true => Ok(Outcome::Retry { error: "cannot be told".to_owned() }),
                false => Ok(Outcome::done()),
            }
        }
    };
    let worker = story.work(story.config(), handler).await;
    let refused = story.enqueue(json!("refused")).await;
    story.enqueue_numbers(20).await;
    let job = story.until(refused, "succeeded").await;
    assert_eq!((job.attempt, job.failures, job.deaths), (2, 0, 0), "it came back free");
    eventually("all are told", async || (worker.stats().completed == 21).then_some(())).await;
    worker.shutdown().await;
    assert_eq!(tries.load(Ordering::SeqCst), 2);
}
