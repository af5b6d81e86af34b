//! Signatures, verified by what receivers use: the public packages of Standard Webhooks for Node and Python, and
//! plain HMAC for the hexadecimal form.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use jobforge_connectors::webhook::KEY;
use jobforge_core::rpc;
use jobforge_testkit::TENANT_A;
use serde_json::json;

use super::{SECRET, delivery};
use crate::server::{Received, Reply, Server};
use crate::story::Story;

const OTHER: &str = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

const NODE: &str = "
    const { Webhook } = require('standardwebhooks');
    const { secret, headers, body } = JSON.parse(require('fs').readFileSync(0));
    new Webhook(secret).verify(body, headers);";
const PYTHON: &str = "
import json, sys
from standardwebhooks import Webhook
given = json.load(sys.stdin)
Webhook(given['secret']).verify(given['body'], given['headers'])";
/// The key is what stands behind the prefix, decoded; the signature is over the body alone.
const PLAIN: &str = "
import base64, hashlib, hmac, json, sys
given = json.load(sys.stdin)
key = base64.b64decode(given['secret'].removeprefix('whsec_'))
expected = 'sha256=' + hmac.new(key, given['body'].encode(), hashlib.sha256).hexdigest()
sys.exit(0 if hmac.compare_digest(expected, given['headers'][given['plain']]) else 1)";

/// Where `scripts/setup test` puts the receivers' packages.
fn packages() -> PathBuf {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../target/packages/webhooks");
    assert!(
        root.join("node_modules").is_dir() && root.join("venv").is_dir(),
        "missing: run scripts/setup test"
    );
    root
}

/// Whether a receiver accepts what came.
fn accepts(command: &mut Command, secret: &str, plain: &str, received: &Received) -> bool {
    let body = std::str::from_utf8(&received.body).unwrap();
    let given = json!({ "secret": secret, "headers": received.headers, "body": body, "plain": plain });
    let mut child = command.stdin(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(given.to_string().as_bytes()).unwrap();
    child.wait().unwrap().success()
}

/// Whether the receivers of Node and Python accept what came; they must agree.
fn standard(secret: &str, received: &Received) -> bool {
    let packages = packages();
    let node = accepts(Command::new("node").args(["-e", NODE]).current_dir(&packages), secret, "", received);
    let mut python = Command::new(packages.join("venv/bin/python"));
    let python = accepts(python.args(["-c", PYTHON]), secret, "", received);
    assert_eq!(node, python);
    node
}

fn hexadecimal(secret: &str, header: &str, received: &Received) -> bool {
    accepts(Command::new("python3").args(["-c", PLAIN]), secret, header, received)
}

#[tokio::test]
async fn receivers_verify_what_is_sent_and_nothing_else() {
    let story = Story::begin().await;
    let server = Server::start("127.0.0.1:0", |_| Reply::status(200)).await;
    let mut payload = delivery(&server);
    payload["body"] = json!({ "text": "grüße \u{1f600} \"quoted\"", "n": 1.5, "nested": [null, true, {}] });
    let id = story.enqueue(KEY, &payload).await;
    story.until(id, |job| job.status == "succeeded").await;
    let received = server.received().remove(0);

    assert!(standard(SECRET, &received) && hexadecimal(SECRET, "x-jobforge-signature", &received));
    assert!(!standard(OTHER, &received) && !hexadecimal(OTHER, "x-jobforge-signature", &received));
    let mut forged = received.clone();
    forged.body = String::from_utf8(forged.body).unwrap().replace("true", "false").into_bytes();
    assert_ne!(forged.body, received.body);
    assert!(!standard(SECRET, &forged) && !hexadecimal(SECRET, "x-jobforge-signature", &forged));
    let mut renamed = received.clone();
    renamed.headers.insert("webhook-id".to_owned(), "another".to_owned());
    assert!(!standard(SECRET, &renamed));

    let headers = &received.headers;
    assert_eq!(serde_json::from_slice::<serde_json::Value>(&received.body).unwrap(), payload["body"]);
    assert_eq!((&headers["webhook-id"], &headers["x-jobforge-delivery"]), (&id.to_string(), &id.to_string()));
    assert_eq!((&headers["x-jobforge-event"][..], &headers["x-jobforge-attempt"][..]), ("invoice.paid", "1"));
    assert_eq!(headers["content-type"], "application/json");
}

#[tokio::test]
async fn during_a_rotation_holders_of_either_secret_verify() {
    let story = Story::begin().await;
    let server = Server::start("127.0.0.1:0", |_| Reply::status(200)).await;
    let secrets = [("signing_secret", OTHER), ("previous_signing_secret", SECRET), ("unrelated", "x")];
    story.configure(
        "acme",
        json!({ "url": server.url("/"), "signature_header": "X-Acme-Signature" }),
        &secrets,
    );
    story.succeeds(KEY, &json!({ "connector": "acme", "event_type": "a", "body": [1] })).await;
    let received = server.received().remove(0);
    assert_eq!(received.headers["webhook-signature"].split(' ').count(), 2);
    assert!(standard(SECRET, &received) && standard(OTHER, &received));
    // One header holds one plain signature: the current secret's.
    assert!(hexadecimal(OTHER, "x-acme-signature", &received));
    assert!(!received.headers.contains_key("x-jobforge-signature"));
}

#[tokio::test]
async fn a_delivery_keeps_its_id_and_is_signed_anew_in_every_attempt() {
    let story = Story::begin().await;
    let server = Server::start("127.0.0.1:0", |request| match &request.headers["x-jobforge-attempt"][..] {
        // The next attempt comes when the story asks for it.
        "1" => Reply::with(500, &[("retry-after", "3600")], b""),
        _ => Reply::status(200),
    })
    .await;
    let id = story.enqueue(KEY, &delivery(&server)).await;
    story.until(id, |job| job.failures == 1).await;
    // A second passes between two attempts, so that their times differ.
    tokio::time::sleep(std::time::Duration::from_millis(1100)).await;
    rpc::retry_job(&story.app, TENANT_A, id).await.unwrap();
    story.until(id, |job| job.status == "succeeded").await;
    let received = server.received();
    let of = |name: &str| received.iter().map(|request| request.headers[name].clone()).collect::<Vec<_>>();
    assert_eq!(of("webhook-id"), vec![id.to_string(); 2]);
    let times: BTreeMap<_, _> = of("webhook-timestamp").into_iter().zip(of("webhook-signature")).collect();
    assert_eq!(times.len(), 2, "each attempt has its own time and signature");
    assert!(received.iter().all(|request| standard(SECRET, request)));
}
