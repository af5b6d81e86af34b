//! The bodies of all requests together are bounded: one that finds no room is refused, and no other is harmed.

use jobforge_core::Role;
use jobforge_testkit::{APP, NOOP, TENANT_A};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::auth_support::{PATIENCE, until};
use crate::guard_tcp::{Site, enqueue, refused, rest};
use crate::world::Key;

/// The largest body; of this length each large one is.
const LARGE: usize = 1 << 20;
/// What is sent of one that takes its time: how far ahead of it room is made matters nothing then.
const SENT: usize = LARGE - 1;

async fn site(held: usize) -> Site {
    Site::with(|config| {
        config.max_body_bytes = LARGE;
        config.held_body_bytes = held;
    })
    .await
}

/// A job as long as this, by spaces that say nothing.
fn job(length: usize) -> String {
    let job = format!("{{\"type\": \"{NOOP}\"}}");
    format!("{job}{}", " ".repeat(length - job.len()))
}

async fn send(site: &Site, key: &Key, body: &str) -> String {
    site.exchange(enqueue(key, &format!("content-length: {}", body.len()), body).as_bytes()).await
}

/// A connection on which a large body was sent but for its end.
async fn unfinished(site: &Site, key: &Key) -> TcpStream {
    let mut stream = site.connect().await;
    stream.write_all(enqueue(key, &format!("content-length: {LARGE}"), "").as_bytes()).await.unwrap();
    stream.write_all(&job(LARGE).as_bytes()[..SENT]).await.unwrap();
    stream
}

/// The other part of it, and the answer.
async fn finish(mut stream: TcpStream) -> String {
    stream.write_all(&job(LARGE).as_bytes()[SENT..]).await.unwrap();
    rest(&mut stream).await
}

/// Returns when all that was sent of so many large bodies is in the server's memory.
async fn until_held(site: &Site, count: usize) {
    until("the server has taken them in", async || site.server.held_body_bytes() >= count * SENT).await;
}

#[track_caller]
fn made(answer: &str) {
    assert!(answer.starts_with("HTTP/1.1 201 "), "{answer}");
}

#[tokio::test]
async fn unfinished_bodies_take_up_what_there_is_and_harm_nobody() {
    let site = site(2 * LARGE).await;
    let (a, b) = (site.world.key(Role::Producer).await, site.world.key_of_b(Role::Producer).await);
    let (first, second) = (unfinished(&site, &a).await, unfinished(&site, &b).await);
    until_held(&site, 2).await;
    for key in [&a, &b] {
        let full = send(&site, key, &job(100)).await;
        refused(&full, 503, "bodies_full");
        assert!(full.contains("\r\nretry-after: 1\r\n") && full.contains("\"code\":\"JF105\""), "{full}");
    }
    // Nobody has room, not even who has taken up nothing; who sends no body needs none.
    let login = "POST /api/v1/session HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
                 content-type: application/json\r\ncontent-length: 20\r\n\r\n{\"key\": \"jf_nobody\"}";
    refused(&site.exchange(login.as_bytes()).await, 503, "bodies_full");
    let chunked = enqueue(&a, "transfer-encoding: chunked", "1\r\n{\r\n");
    refused(&site.exchange(chunked.as_bytes()).await, 503, "bodies_full");
    site.goes_on().await;
    let list = format!(
        "GET /api/v1/jobs HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nauthorization: Bearer {}\r\n\r\n",
        site.world.key(Role::TenantViewer).await.text
    );
    assert!(site.exchange(list.as_bytes()).await.starts_with("HTTP/1.1 200 "));

    // Those under way end well, and leave their room to others.
    made(&finish(first).await);
    made(&send(&site, &a, &job(LARGE)).await);
    // So does one whose caller goes away.
    drop(second);
    until("its room is given back", async || send(&site, &b, &job(LARGE)).await.starts_with("HTTP/1.1 201 "))
        .await;
}

#[tokio::test]
async fn a_tenant_takes_up_half_and_leaves_the_other_to_others() {
    let site = site(4 * LARGE).await;
    let (a, b) = (site.world.key(Role::Producer).await, site.world.key_of_b(Role::Producer).await);
    let (first, second) = (unfinished(&site, &a).await, unfinished(&site, &a).await);
    until_held(&site, 2).await;
    refused(&send(&site, &a, &job(100)).await, 503, "bodies_full");
    // Another key of the same tenant is no other tenant.
    refused(&send(&site, &site.world.key(Role::TenantAdmin).await, &job(100)).await, 503, "bodies_full");
    made(&send(&site, &b, &job(LARGE)).await);
    made(&finish(first).await);
    made(&finish(second).await);
}

/// Otherwise a few heads would keep everybody out.
#[tokio::test]
async fn what_is_announced_and_does_not_come_takes_up_no_room() {
    let site = site(2 * LARGE).await;
    let producer = site.world.key(Role::Producer).await;
    let mut silent = Vec::new();
    for _ in 0..20 {
        let mut stream = site.connect().await;
        let head = format!("content-length: {LARGE}\r\nexpect: 100-continue");
        stream.write_all(enqueue(&producer, &head, "").as_bytes()).await.unwrap();
        // It is asked for its body once that is waited for.
        let mut asked = [0; 12];
        timeout(PATIENCE, stream.read_exact(&mut asked)).await.expect("an answer").unwrap();
        assert_eq!(&asked, b"HTTP/1.1 100");
        silent.push(stream);
    }
    made(&send(&site, &producer, &job(LARGE)).await);
}

#[tokio::test]
async fn a_body_takes_up_its_room_until_it_is_answered() {
    let site = site(2 * LARGE).await;
    let producer = site.world.key(Role::Producer).await;
    let holder = site.world.db.session_at(&site.world.db.url_as(APP, None)).await;
    holder.begin().await;
    let keyed = "select set_config('app.tenant_id', $1::uuid::text, true),
                 jobforge.enqueue_job($1::uuid, 'test.noop', p_idempotency_key => 'k')";
    holder.query(keyed, &[&TENANT_A]).await.unwrap();
    let mut waiting = site.connect().await;
    let head = format!("content-length: {LARGE}\r\nidempotency-key: k");
    waiting.write_all(enqueue(&producer, &head, &job(LARGE)).as_bytes()).await.unwrap();
    // Read it is by then.
    let monitor = site.world.db.connect_super().await;
    let blocked =
        "select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'";
    until("it waits for the key", async || !monitor.query(blocked, &[]).await.unwrap().is_empty()).await;
    refused(&send(&site, &producer, &job(100)).await, 503, "bodies_full");
    holder.commit().await;
    let answer = rest(&mut waiting).await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    assert_eq!(site.server.held_body_bytes(), 0);
    made(&send(&site, &producer, &job(LARGE)).await);
}
