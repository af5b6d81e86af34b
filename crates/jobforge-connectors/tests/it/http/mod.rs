//! `connector.http.request`, from the payload to the result.

mod configs;
mod refusals;

use std::time::Duration;

use jobforge_connectors::http::KEY;
use jobforge_core::{NewJob, rpc};
use jobforge_testkit::TENANT_A;
use serde_json::{Value, json};

use crate::server::{Reply, Server};
use crate::story::Story;

#[tokio::test]
async fn a_request_is_sent_as_given_and_its_answer_kept() {
    let story = Story::begin().await;
    let server = Server::start("127.0.0.1:0", |_| {
        let headers = [("content-type", "text/plain"), ("set-cookie", "session=canary"), ("x-answer", "yes")];
        Reply::with(201, &headers, "grüß dich".as_bytes())
    })
    .await;
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let payload = json!({
        "method": "PUT", "url": server.url("/a?b=c"), "headers": { "X-Mine": "1 2" }, "body": "raw \"text\"",
        "query": { "q": "ä &=", "n": 7, "list": ["x", true] },
    });
    let mut job = NewJob::new(KEY, &payload).unwrap();
    job.traceparent = Some(trace.to_owned());
    let id = story.enqueue_job(job).await;
    let job = story.until(id, |job| job.status == "succeeded").await;
    let result: Value = serde_json::from_str(job.result.unwrap().get()).unwrap();
    assert_eq!((&result["status"], &result["body"]), (&json!(201), &json!("grüß dich")));
    assert_eq!((&result["body_encoding"], &result["truncated"]), (&json!("text"), &json!(false)));
    assert_eq!(result["headers"]["x-answer"], "yes");
    assert!(result["duration_ms"].is_u64() && !result.to_string().contains("canary"), "{result}");

    let sent = &server.received()[0];
    assert_eq!(sent.line, "PUT /a?b=c&list=x&list=true&n=7&q=%C3%A4+%26%3D HTTP/1.1");
    assert_eq!((&sent.headers["x-mine"][..], &sent.body[..]), ("1 2", &b"raw \"text\""[..]));
    let child = &sent.headers["traceparent"];
    assert!(child.starts_with(&trace[..36]) && child != trace, "the same trace, another span: {child}");
}

#[tokio::test]
async fn json_is_sent_with_its_type_and_null_is_json_too() {
    let story = Story::begin().await;
    let server = Server::start("127.0.0.1:0", |_| Reply::status(204)).await;
    for json in [json!({ "a": [1, "zwei"] }), json!(null)] {
        let payload = json!({ "method": "POST", "url": server.url("/"), "json": json });
        assert_eq!(story.succeeds(KEY, &payload).await["body"], "");
        let sent = server.received().pop().unwrap();
        assert_eq!(sent.headers["content-type"], "application/json");
        assert_eq!(serde_json::from_slice::<Value>(&sent.body).unwrap(), json);
    }
}

#[tokio::test]
async fn a_body_is_cut_at_what_is_wanted_and_written_so_that_it_can_be_kept() {
    let story = Story::begin().await;
    let server = Server::start("127.0.0.1:0", |request| match request.line.split(' ').nth(1).unwrap() {
        "/binary" => Reply::with(200, &[], b"\0\xff\x01"),
        "/nul" => Reply::with(200, &[], b"text with \0 in it"),
        _ => Reply::with(200, &[], &[b'a'; 300_000]),
    })
    .await;
    let ask = |path: &str, bytes: usize| json!({ "url": server.url(path), "capture_bytes": bytes });
    let cut = story.succeeds(KEY, &ask("/", 10)).await;
    assert_eq!((&cut["body"], &cut["truncated"]), (&json!("aaaaaaaaaa"), &json!(true)));
    let most = story.succeeds(KEY, &ask("/", 262_144)).await;
    assert_eq!((most["body"].as_str().unwrap().len(), &most["truncated"]), (262_144, &json!(true)));
    let binary = story.succeeds(KEY, &ask("/binary", 100)).await;
    assert_eq!((&binary["body"], &binary["body_encoding"]), (&json!("AP8B"), &json!("base64")));
    // Postgres has no place for a NUL in JSON: as text it would lose the whole result.
    assert_eq!(story.succeeds(KEY, &ask("/nul", 100)).await["body_encoding"], "base64");
}

#[tokio::test]
async fn statuses_decide_between_retry_and_the_end() {
    let story = Story::begin().await;
    let server = Server::start("127.0.0.1:0", |request| {
        let status = request.line.split(['/', ' ']).nth(2).unwrap().parse().unwrap();
        Reply::with(status, &[("location", "/200")], b"because")
    })
    .await;
    let at = |status: u16| json!({ "url": server.url(&format!("/{status}")) });
    for status in [400, 401, 404, 410, 422] {
        let error = story.fails(KEY, &at(status)).await;
        assert!(error.starts_with(&format!("GET 127.0.0.1 answered {status} ")), "{error}");
        assert!(error.ends_with(": because"), "{error}");
    }
    for status in [408, 429, 500, 503] {
        story.retries(KEY, &at(status)).await;
    }
    let mut gentle = at(404);
    gentle["expect"] = json!([404]);
    assert_eq!(story.succeeds(KEY, &gentle).await["status"], 404);
    let mut strict = at(500);
    strict["permanent"] = json!(["5xx"]);
    story.fails(KEY, &strict).await;
    let mut stubborn = at(404);
    stubborn["retryable"] = json!([404]);
    story.retries(KEY, &stubborn).await;
    assert_eq!(story.succeeds(KEY, &at(302)).await["status"], 200, "followed");
    let mut still = at(302);
    still["follow_redirects"] = json!(false);
    assert!(story.fails(KEY, &still).await.contains("302"));
}

#[tokio::test]
async fn an_answer_says_when_to_come_again() {
    let story = Story::begin().await;
    let server = Server::start("127.0.0.1:0", |request| {
        let date =
            [("date", "Sun, 06 Nov 1994 08:49:37 GMT"), ("retry-after", "Sun, 06 Nov 1994 09:49:37 GMT")];
        match request.line.contains("date") {
            true => Reply::with(503, &date, b""),
            false => Reply::with(429, &[("retry-after", "3600")], b""),
        }
    })
    .await;
    for path in ["/seconds", "/date"] {
        let (_, wait) = story.retries(KEY, &json!({ "url": server.url(path) })).await;
        assert!(wait >= Duration::from_secs(3600), "{path}: {wait:?}");
    }
}

#[tokio::test]
async fn no_connection_no_answer_and_no_end_are_worth_a_retry() {
    let story = Story::begin().await;
    let hangs = Server::start("127.0.0.1:0", |_| Reply::Hang).await;
    let payload = json!({ "url": hangs.url("/secret-path?token=canary"), "timeout_seconds": 1 });
    let (error, _) = story.retries(KEY, &payload).await;
    assert_eq!(error, "127.0.0.1 did not answer within 1 s");
    // Half an answer is none.
    let breaks = Server::start("127.0.0.1:0", |_| {
        Reply::Raw(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf".to_vec())
    })
    .await;
    story.retries(KEY, &json!({ "url": breaks.url("/") })).await;
    let gone = Server::start("127.0.0.1:0", |_| Reply::Hang).await.url("/");
    let (error, _) = story.retries(KEY, &json!({ "url": gone })).await;
    assert!(error.starts_with("the connection to 127.0.0.1 failed"), "{error}");
}

#[tokio::test]
async fn a_canceled_job_waits_no_longer() {
    let story = Story::begin().await;
    let hangs = Server::start("127.0.0.1:0", |_| Reply::Hang).await;
    let id = story.enqueue(KEY, &json!({ "url": hangs.url("/"), "timeout_seconds": 300 })).await;
    story.until(id, |_| hangs.received().len() == 1).await;
    rpc::cancel_job(&story.app, TENANT_A, id, Some("enough")).await.unwrap();
    story.until(id, |job| job.status == "canceled").await;
}
