//! Reports that the database refuses, or cannot store: the worker goes on, and no job is lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use jobforge_core::ProgramExit;
use jobforge_testkit::FaultPoints;
use jobforge_worker::{Context, Level, Outcome, WorkerConfig};
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::support::{Story, eventually, faults};

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
                context.log(Level::Info, "before").await;
                context.progress(f32::NAN, "nowhere").await;
                // A program ends in one way.
                context
                    .report_exit(ProgramExit {
                        exit_code: Some(1),
                        signal: Some(9),
                        ..ProgramExit::default()
                    })
                    .await;
                Ok(Outcome::done())
            }
        }
    };
    let worker = story.work(story.config(), handler).await;
    let snooze = story.enqueue(json!("snooze")).await;
    let error = story.enqueue(json!("error")).await;
    let notes = story.enqueue(json!("notes")).await;
    eventually("both failed", async || (worker.stats().failed >= 2).then_some(())).await;
    story.until(notes, "succeeded").await;
    let line = "select count(*) from jobforge.log_history where message = 'before'";
    assert_eq!(story.count(line).await, 1, "what was refused takes no other note along");
    worker.shutdown().await;
    worker.sound().unwrap();
    let told = story.attempts(snooze).await.remove(0).error.unwrap();
    assert!(told.contains("the snooze was refused") && told.contains("p_seconds"), "{told}");
    let told = story.attempts(error).await.remove(0).error.unwrap();
    assert!(told.starts_with("a\u{fffd}bé") && told.chars().count() == 8192, "{}", told.len());
    assert_eq!(worker.stats().lost, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_under_way_keeps_its_jobs_though_a_report_on_its_lease_is_refused() {
    let story = Story::begin().await;
    story.db.connect_super().await.batch_execute(REFUSE).await.unwrap();
    let points = FaultPoints::new();
    let gates = Arc::new(["long", "refused", "other"].map(|name| (name, Notify::new())));
    let (tries, doors) = (Arc::new(AtomicUsize::new(0)), gates.clone());
    let handler = move |_: Context, payload: Value| {
        let (tries, doors) = (tries.clone(), doors.clone());
        async move {
            let name = payload.as_str().unwrap_or_default();
            let again = name == "refused" && tries.fetch_add(1, Ordering::SeqCst) > 0;
            let door = doors.iter().find(|(door, _)| *door == name && !again);
            if let Some((_, door)) = door {
                door.notified().await;
            }
            match name == "refused" && !again {
                true => Ok(Outcome::Retry { error: "cannot be told".to_owned() }),
                false => Ok(Outcome::done()),
            }
        }
    };
    let worker = story.work(WorkerConfig { faults: faults(&points), ..story.config() }, handler).await;
    let [long, refused, other] = ["long", "refused", "other"].map(|name| json!(name));
    let (long, refused) = (story.enqueue(long).await, story.enqueue(refused).await);
    let other = story.enqueue(other).await;
    for id in [long, refused, other] {
        story.until(id, "running").await;
    }
    // The answer of a claim is there, and its job not taken in yet.
    points.pause("claimed");
    let late = story.enqueue(json!("late")).await;
    points.wait_reached("claimed").await;
    story.until(late, "running").await;
    gates[1].1.notify_one();
    gates[2].1.notify_one();
    // Told after the refusal, and after all that is done at once because of it.
    eventually("the other is told", async || (worker.stats().completed == 1).then_some(())).await;
    points.resume("claimed");
    assert_eq!(story.until(late, "succeeded").await.attempt, 1);
    assert_eq!(story.until(refused, "succeeded").await.attempt, 2, "it came back free");
    gates[0].1.notify_one();
    assert_eq!(story.until(long, "succeeded").await.attempt, 1);
    worker.shutdown().await;
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
