//! What is refused before anything is sent.

use jobforge_connectors::http::KEY;
use serde_json::{Value, json};

use crate::server::{Reply, Server};
use crate::story::Story;

#[tokio::test]
async fn payloads_that_do_not_fit_are_refused_by_place_and_without_their_values() {
    let story = Story::begin().await;
    let server = Server::start("127.0.0.1:0", |_| Reply::status(200)).await;
    let bad: [(&str, Value); 14] = [
        ("/method", json!({ "method": "canary" })),
        ("/timeout_seconds", json!({ "timeout_seconds": 301 })),
        ("/timeout_seconds", json!({ "timeout_seconds": 0 })),
        ("/timeout_seconds", json!({ "timeout_seconds": "canary" })),
        ("/capture_bytes", json!({ "capture_bytes": 262_145 })),
        ("/headers/X", json!({ "headers": { "X": ["canary"] } })),
        ("/query/q", json!({ "query": { "q": { "canary": 1 } } })),
        ("/expect/0", json!({ "expect": [600] })),
        ("/retryable/0", json!({ "retryable": ["6xx"] })),
        ("/permanent", json!({ "permanent": 500 })),
        ("/follow_redirects", json!({ "follow_redirects": "canary" })),
        ("the whole", json!({ "unknown": "canary" })),
        ("the whole", json!({ "body": "canary", "json": 1 })),
        ("/url", json!({ "url": { "canary": 1 } })),
    ];
    for (place, change) in bad {
        let mut payload = json!({ "url": server.url("/") });
        payload.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        let error = story.fails(KEY, &payload).await;
        assert!(error.starts_with(&format!("the payload is refused: {place}: ")), "{place}: {error}");
        assert!(!error.contains("canary"), "{error}");
    }
    assert!(story.fails(KEY, &json!({})).await.contains("\"url\" is a required property"));
    assert!(story.fails(KEY, &json!("canary")).await.starts_with("the payload is refused: the whole"));
    assert_eq!(server.accepted().await, 0);
}

#[tokio::test]
async fn urls_and_headers_that_are_never_sent() {
    let story = Story::begin().await;
    let server = Server::start("127.0.0.1:0", |_| Reply::status(200)).await;
    let to = |url: &str| json!({ "url": url });
    for (payload, expected) in [
        (to("/relative"), "it is no absolute URL"),
        (to("file:///etc/passwd"), "only http and https"),
        (to("gopher://127.0.0.1:6379/x"), "only http and https"),
        (to(&format!("http://user:canary@{}/", server.address)), "a user name or password"),
        (to("http://127.0.0.1:22/"), "its port is not allowed"),
        (to("http://10.0.0.1/"), "10.0.0.1 is not an address that may be reached"),
        (to("http://[::ffff:a9fe:a9fe]/latest/meta-data"), "is not an address that may be reached"),
        (json!({ "url": server.url("/"), "headers": { "Host": "x" } }), "header host is refused"),
        (json!({ "url": server.url("/"), "headers": { "X": "a\r\nY: canary" } }), "header x is refused"),
        (json!({ "url": server.url("/"), "headers": { "a b": "c" } }), "it is no name of a header"),
        (json!({ "url": server.url("/"), "headers": { "X": "secret:token" } }), "header x is refused"),
        (json!({ "url": server.url("/"), "connector": "nobody" }), "connector config nobody is not known"),
    ] {
        let error = story.fails(KEY, &payload).await;
        assert!(error.contains(expected) && !error.contains("canary"), "{payload}: {error}");
    }
    assert_eq!(server.accepted().await, 0);
}

#[tokio::test]
async fn without_leave_nothing_on_loopback_is_reached() {
    let story = Story::allowing(&[]).await;
    let server = Server::everywhere().await;
    for host in ["127.0.0.1", "2130706433", "[::1]"] {
        story.fails(KEY, &json!({ "url": format!("http://{host}:{}/", server.port()) })).await;
    }
    // A name: the same answer as for one that nobody knows.
    let (error, _) =
        story.retries(KEY, &json!({ "url": format!("http://localhost:{}/", server.port()) })).await;
    assert_eq!(error, "localhost has no address that may be reached");
    assert_eq!(server.accepted().await, 0);
}
