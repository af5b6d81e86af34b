//! Handlers that ask the database something.

use std::sync::Arc;
use std::time::Duration;

use jobforge_core::{Code, Error, Level, LogLine, rpc};
use jobforge_worker::{Context, HandlerResult, Outcome, WorkerConfig};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_postgres::Client;
use uuid::Uuid;

use crate::support::Story;

/// One number that a statement answers, as a call's question.
async fn ask(client: Arc<Client>, sql: &'static str) -> Result<i32, Error> {
    let answer = client.query_typed_one(sql, &[]).await;
    answer.map(|row| row.get(0)).map_err(|source| Error::Database { operation: "ask", source })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_without_an_answer_is_given_up_and_the_next_has_another_connection() {
    let story = Story::begin().await;
    let config = WorkerConfig { call_timeout: Duration::from_secs(3), ..story.config() };
    let calls = |context: Context, _: Value| async move {
        const PID: &str = "select pg_backend_pid()";
        let first = context.call("ask", |client| ask(client, PID)).await?;
        let again = context.call("ask", |client| ask(client, PID)).await?;
        let hangs = context.call("hang", |client| ask(client, "select 1 from pg_sleep(600)")).await;
        let told = hangs.map_err(|error| error.to_string());
        let after = context.call("ask", |client| ask(client, PID)).await?;
        HandlerResult::Ok(Outcome::complete(&json!([first == again, told.unwrap_err(), first == after]))?)
    };
    let worker = story.work(config, calls).await;
    let id = story.enqueue(json!(1)).await;
    let result = story.until(id, "succeeded").await.result.unwrap();
    assert_eq!(result.get(), r#"[true, "hang got no answer within 3s", false]"#);
    worker.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_is_told_that_the_job_is_lost_stops_its_handler() {
    let story = Story::begin().await;
    let (sender, mut told) = mpsc::unbounded_channel();
    let calls = move |context: Context, _: Value| {
        let sender = sender.clone();
        async move {
            let job = context.job_ref();
            let line = LogLine { level: Level::Info, message: "x".to_owned() };
            let tell = |client: Arc<Client>| async move {
                rpc::append_log(&*client, Uuid::new_v4(), job, &[line]).await
            };
            let before = context.is_cancelled();
            let code = context.call("append_log", tell).await.unwrap_err().code();
            sender.send((before, code, context.is_cancelled())).unwrap();
            Ok(Outcome::done())
        }
    };
    let worker = story.work(story.config(), calls).await;
    story.enqueue(json!(1)).await;
    assert_eq!(told.recv().await, Some((false, Some(Code::LeaseLost), true)));
    worker.shutdown().await;
}
