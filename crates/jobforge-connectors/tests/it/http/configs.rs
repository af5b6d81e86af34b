//! Requests through a connector config: its address, its headers, its secrets.

use jobforge_connectors::http::KEY;
use serde_json::json;

use crate::server::{Reply, Server};
use crate::story::Story;

const SECRET: &str = "hunter2-canary";

#[tokio::test]
async fn a_config_gives_address_headers_and_secrets_and_no_secret_comes_back() {
    let story = Story::begin().await;
    // A receiver that says what it was sent.
    let server = Server::start("127.0.0.1:0", |request| {
        let status = if request.line.contains("/fail") { 500 } else { 200 };
        Reply::with(
            status,
            &[("x-echo", &request.headers["authorization"])],
            format!("{:?}", request.headers).as_bytes(),
        )
    })
    .await;
    let settings = json!({
        "base_url": server.url("/v1"), "headers": { "Authorization": "Bearer secret:token", "X-Kind": "test" },
    });
    story.configure("crm", settings, &[("token", SECRET)]);
    let result = story
        .succeeds(KEY, &json!({ "connector": "crm", "url": "users", "headers": { "X-Kind": "mine" } }))
        .await;
    let sent = server.received().pop().unwrap();
    assert_eq!(sent.line, "GET /v1/users HTTP/1.1");
    assert_eq!(
        (&sent.headers["authorization"], &sent.headers["x-kind"][..]),
        (&format!("Bearer {SECRET}"), "mine")
    );
    assert!(
        !result.to_string().contains(SECRET) && result["headers"]["x-echo"] == "Bearer [redacted]",
        "{result}"
    );
    let (error, _) = story.retries(KEY, &json!({ "connector": "crm", "url": "/fail" })).await;
    assert!(!error.contains(SECRET) && error.contains("[redacted]"), "{error}");
}

#[tokio::test]
async fn a_configs_secrets_go_nowhere_else() {
    let story = Story::begin().await;
    let home = Server::start("127.0.0.1:0", |_| Reply::status(200)).await;
    let thief = Server::start("127.0.0.1:0", |_| Reply::status(200)).await;
    let token = json!({ "Authorization": "secret:token" });
    story.configure("crm", json!({ "base_url": home.url("/v1/"), "headers": token }), &[("token", SECRET)]);
    story.configure("homeless", json!({ "headers": token }), &[("token", SECRET)]);
    for (payload, expected) in [
        (json!({ "connector": "crm", "url": thief.url("/") }), "leads away"),
        (json!({ "connector": "crm", "url": home.url("/v2/") }), "leads away"),
        (json!({ "connector": "crm", "url": "../../v2" }), "leads away"),
        (json!({ "connector": "homeless", "url": thief.url("/") }), "header authorization is refused"),
        (
            json!({ "connector": "crm", "url": "", "headers": { "X": "secret:other" } }),
            "there is no secret \"other\"",
        ),
    ] {
        let error = story.fails(KEY, &payload).await;
        assert!(error.contains(expected) && !error.contains(SECRET), "{payload}: {error}");
    }
    assert_eq!((home.accepted().await, thief.accepted().await), (0, 0));

    // Nor along with a redirect.
    let leads_to = thief.url("/");
    let guide =
        Server::start("127.0.0.1:0", move |_| Reply::with(307, &[("location", &leads_to)], b"")).await;
    story.configure("moved", json!({ "base_url": guide.url("/"), "headers": token }), &[("token", SECRET)]);
    story.succeeds(KEY, &json!({ "connector": "moved", "url": "" })).await;
    assert_eq!((guide.received().len(), thief.received().len()), (1, 1));
    assert!(!format!("{:?}", thief.received()).contains(SECRET));
}
