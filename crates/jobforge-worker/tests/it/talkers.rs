//! Jobs that say more than the database can be told.

use std::sync::Arc;
use std::time::Duration;

use jobforge_testkit::Mode;
use jobforge_worker::WorkerConfig;
use serde_json::json;
use tokio::sync::watch;

use crate::faults::through_proxy;
use crate::support::{Story, echo, eventually};

/// So many that one word of each takes longer than a round of notes may.
const TALKERS: usize = 10;

#[tokio::test(flavor = "multi_thread")]
async fn jobs_that_go_on_talking_hold_no_outcome_up() {
    let story = Story::begin().await;
    let (proxy, config) = through_proxy(&story).await;
    let config = WorkerConfig { slots: TALKERS + 1, ..config };
    // More than may start before others were told.
    let others = config.tight_window() - TALKERS + 2;
    let words = Arc::new(watch::Sender::new("before"));
    let hears = words.clone();
    let worker = story
        .work(config, move |context, payload| {
            let words = hears.clone();
            async move {
                while payload == json!("talks") && *words.borrow() != "no more" {
                    let word = *words.borrow();
                    // Waits while as much is on its way as may be.
                    context.progress(50.0, word).await;
                }
                echo(context, payload).await
            }
        })
        .await;
    let mut talkers = Vec::new();
    for _ in 0..TALKERS {
        talkers.push(story.enqueue(json!("talks")).await);
    }
    let all_said = async |word: &str| {
        for id in &talkers {
            eventually(&format!("a talker's {word:?} is told"), async || {
                (story.job(*id).await.progress_message.as_deref() == Some(word)).then_some(())
            })
            .await;
        }
    };
    all_said("before").await;
    proxy.set_mode(Mode::Delay(Duration::from_millis(25)));
    story.enqueue_numbers(others).await;
    eventually("the others are told", async || {
        (worker.stats().completed == u64::try_from(others).unwrap()).then_some(())
    })
    .await;
    words.send_replace("after");
    all_said("after").await;
    words.send_replace("no more");
    for id in talkers {
        story.until(id, "succeeded").await;
    }
    proxy.set_mode(Mode::Pass);
    worker.shutdown().await;
}
