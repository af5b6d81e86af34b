//! Payloads that do not fit are never run; what is secret does not leave the process.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jobforge_core::Payload;
use jobforge_testkit::NOOP;
use jobforge_worker::{
    Context, Exit, HandlerError, Level, Outcome, Secrets, Worker, WorkerConfig, hush_handler_panics,
};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::support::{Story, echo, eventually};

fn raw(value: &Value) -> Payload {
    serde_json::value::to_raw_value(value).unwrap()
}

fn numbers() -> Value {
    json!({"type": "object", "required": ["to"], "properties": {"n": {"type": "integer"}}})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payload_that_does_not_fit_fails_for_good_and_is_never_run() {
    let story = Story::begin().await;
    story.define(|definition| definition.arg_schema = Some(raw(&numbers()))).await;
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = runs.clone();
    let worker = story
        .work(story.config(), move |context, payload| {
            counted.fetch_add(1, Ordering::SeqCst);
            echo(context, payload)
        })
        .await;
    let bad = story.enqueue(json!({"n": "canary-value"})).await;
    let good = story.enqueue(json!({"n": 1, "to": "x"})).await;
    story.until(good, "succeeded").await;
    let job = story.until(bad, "failed").await;
    let error = job.error.unwrap();
    assert!(error.starts_with("JF003 "), "{error}");
    assert!(error.contains("/n: ") && error.contains("\"to\" is a required"), "{error}");
    assert!(!error.contains("canary"), "{error}");
    assert_eq!((job.failures, runs.load(Ordering::SeqCst)), (1, 1), "only the good one ran");
    worker.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_schema_holds_for_jobs_that_start_later() {
    let story = Story::begin().await;
    let worker = story.work(story.config(), echo).await;
    let before = story.enqueue(json!({"n": "x"})).await;
    story.until(before, "succeeded").await;
    story.define(|definition| definition.arg_schema = Some(raw(&numbers()))).await;
    eventually("a job is refused by the new schema", async || {
        let id = story.enqueue(json!({"n": "x"})).await;
        let ended = async || {
            Some(story.job(id).await.status).filter(|status| status != "queued" && status != "running")
        };
        (eventually("the job ends", ended).await == "failed").then_some(())
    })
    .await;
    worker.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schema_that_no_validator_takes_stops_jobs_without_ending_them() {
    let story = Story::begin().await;
    let hour = Some(3_600_000);
    story
        .define(|definition| {
            // The database knows nothing of regular expressions.
            definition.arg_schema = Some(raw(&json!({"pattern": "("})));
            (definition.retry_base_ms, definition.retry_cap_ms) = (hour, hour);
        })
        .await;
    let worker = story.work(story.config(), echo).await;
    let id = story.enqueue(json!("x")).await;
    let job =
        eventually("the attempt fails", async || Some(story.job(id).await).filter(|job| job.failures > 0))
            .await;
    assert_eq!(job.status, "queued", "to be tried again when the schema is mended");
    assert!(job.error.unwrap().contains("schema cannot be used"));
    worker.shutdown().await;
}

const TOKEN: &str = "canary-in-the-payload";
const KEY: &str = "canary-of-the-worker";
const SESSION: &str = "canary-of-the-session";

/// Everything the canaries must not be in, in every form; the forms that only the worker knows tell whether it looked.
fn babble() -> String {
    let coded = STANDARD.encode(format!("user:{TOKEN}"));
    format!("{TOKEN} {KEY} {SESSION} {coded} {}", STANDARD.encode(KEY))
}

async fn stored(story: &Story) -> String {
    let sql = "select concat_ws(' ', (select string_agg(l::text, ' ') from jobforge.job_logs l),
          (select string_agg(l::text, ' ') from jobforge.log_history l), (select string_agg(p::text, ' ') from jobforge.job_progress p),
          (select string_agg(a::text, ' ') from jobforge.attempts a), (select string_agg(j.error, ' ') from jobforge.jobs j),
          (select string_agg(h.result::text, ' ') from jobforge.job_history h))";
    story.db.connect_super().await.query_one(sql, &[]).await.unwrap().get(0)
}

#[track_caller]
fn assert_clean(text: &str) {
    for secret in ["canary", &STANDARD.encode(KEY)[..20], &STANDARD.encode(format!("user:{TOKEN}"))[8..28]] {
        assert!(!text.contains(secret), "{secret} in {text}");
    }
    assert!(text.contains("[redacted]"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn secrets_do_not_leave_the_process_whatever_a_handler_does() {
    let printed = Arc::new(Mutex::new(Vec::new()));
    let hook = printed.clone();
    std::panic::set_hook(Box::new(move |panic| hook.lock().unwrap().push(panic.to_string())));
    hush_handler_panics();
    let story = Story::begin().await;
    story.define(|definition| definition.redact = Some(vec!["/token".to_owned()])).await;
    let config = WorkerConfig { secrets: Secrets::from_iter([KEY]), ..story.config() };
    let worker = story
        .work(config, |context: Context, payload: Value| async move {
            context.add_secret(SESSION);
            context.log(Level::Info, babble()).await;
            context.progress(50.0, babble()).await;
            match payload["how"].as_str().unwrap() {
                "error" => Err(HandlerError::new(babble()).permanent().exit(Exit {
                    code: Some(1),
                    stdout_tail: Some(babble()),
                    stderr_tail: Some(babble()),
                })),
                "panic" => panic!("{}", babble()),
                "cancel" => Ok(Outcome::Cancel { reason: babble() }),
                "fail" => Ok(Outcome::Fail { error: babble() }),
                _ => Ok(Outcome::complete(&json!({"said": format!("{KEY} {SESSION}"), "n": 1}))?),
            }
        })
        .await;
    for (how, status) in [
        ("error", "failed"),
        ("panic", "queued"),
        ("fail", "failed"),
        ("done", "succeeded"),
        ("cancel", "canceled"),
    ] {
        let id = story.enqueue(json!({"how": how, "token": TOKEN})).await;
        eventually(how, async || {
            let job = story.job(id).await;
            (job.status == status && job.attempt > 0).then_some(())
        })
        .await;
    }
    worker.shutdown().await;
    assert_clean(&stored(&story).await);
    let printed = printed.lock().unwrap().join("\n");
    assert_eq!(printed, "", "the hook before is not asked about handlers");
}

#[derive(Deserialize)]
struct Typed {
    #[serde(rename = "pin")]
    _pin: u32,
}

#[tokio::test(flavor = "multi_thread")]
async fn a_decoder_does_not_repeat_what_is_hidden() {
    let story = Story::begin().await;
    story.define(|definition| definition.redact = Some(vec!["/pin".to_owned()])).await;
    let worker = Worker::builder(story.config())
        .handle(NOOP, |_, _: Typed| async { Ok(Outcome::done()) })
        .build()
        .unwrap()
        .start()
        .await
        .unwrap();
    // Too short to be searched for.
    let id = story.enqueue(json!({"pin": "8264"})).await;
    let error = story.until(id, "failed").await.error.unwrap();
    assert!(error.starts_with("payload does not fit the handler: at line 1"), "{error}");
    assert!(!error.contains("8264"), "{error}");
    worker.shutdown().await;
}
