//! Callers that misbehave on the wire: each gets its refusal or its end, and the server goes on.

use std::net::SocketAddr;
use std::time::Duration;

use jobforge_core::Role;
use jobforge_server::{CallerLimits, Server, ServerConfig, ServerHandle};
use jobforge_testkit::NOOP;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::auth_support::{PATIENCE, config};
use crate::world::{Key, World};

const SOON: Duration = Duration::from_millis(300);
const LATE: Duration = Duration::from_secs(3600);
const HEALTH: &str = "GET /api/v1/health/live HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";

pub(crate) struct Site {
    pub(crate) world: World,
    pub(crate) server: ServerHandle,
}

impl Site {
    async fn new(limits: CallerLimits) -> Site {
        Site::with(|config| config.callers = limits).await
    }

    /// A server with settings of its own, for callers who may be slow.
    pub(crate) async fn with(change: impl FnOnce(&mut ServerConfig)) -> Site {
        let world = World::new().await;
        let mut config = config(&world.db);
        config.callers = limits();
        change(&mut config);
        let server =
            Server::new(config).await.unwrap().start(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
        Site { world, server }
    }

    pub(crate) async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.server.address()).await.unwrap()
    }

    /// Everything that comes back until the server closes.
    pub(crate) async fn exchange(&self, bytes: &[u8]) -> String {
        let mut stream = self.connect().await;
        stream.write_all(bytes).await.unwrap();
        rest(&mut stream).await
    }

    /// A caller with nothing wrong is served, however long it takes for its turn to come.
    pub(crate) async fn goes_on(&self) {
        let answer = self.exchange(HEALTH.as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    }
}

fn limits() -> CallerLimits {
    CallerLimits { head: LATE, body: LATE, answer: LATE, open: 100 }
}

pub(crate) async fn rest(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    // A connection that is reset has still said what it said.
    let _ = timeout(PATIENCE, stream.read_to_end(&mut bytes)).await.expect("the server ends the connection");
    String::from_utf8_lossy(&bytes).into_owned()
}

pub(crate) fn enqueue(key: &Key, headers: &str, body: &str) -> String {
    let key = &key.text;
    format!(
        "POST /api/v1/jobs HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nauthorization: Bearer {key}\r\n\
         content-type: application/json\r\n{headers}\r\n\r\n{body}"
    )
}

#[track_caller]
pub(crate) fn refused(answer: &str, status: u16, reason: &str) {
    assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
    assert!(answer.contains("application/problem+json"), "{answer}");
    assert!(answer.contains(&format!("\"reason\":\"{reason}\"")), "{answer}");
}

#[tokio::test]
async fn a_slow_head_holds_nobody_up() {
    let site = Site::new(CallerLimits { head: SOON, open: 1, ..limits() }).await;
    for beginning in ["", "GET /api/v1/he", "GET / HTTP/1.1\r\nhost: localhost\r\nx: "] {
        let mut slow = site.connect().await;
        slow.write_all(beginning.as_bytes()).await.unwrap();
        site.goes_on().await;
    }
}

#[tokio::test]
async fn a_slow_body_is_refused() {
    let site = Site::new(CallerLimits { body: SOON, ..limits() }).await;
    let producer = site.world.key(Role::Producer).await;
    let answer = site.exchange(enqueue(&producer, "content-length: 100", "{").as_bytes()).await;
    refused(&answer, 408, "body_slow");
    site.goes_on().await;
}

#[tokio::test]
async fn an_answer_that_nobody_reads_holds_nobody_up() {
    let site = Site::new(CallerLimits { answer: SOON, open: 1, ..limits() }).await;
    let mut deaf = site.connect().await;
    // More than the buffers of both ends take.
    let request = "GET /docs/swagger-ui-bundle.js HTTP/1.1\r\nhost: localhost\r\n\r\n".repeat(50);
    deaf.write_all(request.as_bytes()).await.unwrap();
    site.goes_on().await;
}

#[tokio::test]
async fn a_huge_body_is_refused() {
    let site = Site::new(limits()).await;
    let producer = site.world.key(Role::Producer).await;
    let huge = 10 << 20;
    let head = enqueue(&producer, &format!("content-length: {huge}"), "");
    let mut stream = site.connect().await;
    stream.write_all(head.as_bytes()).await.unwrap();
    refused(&rest(&mut stream).await, 413, "body_too_large");

    let (mut read, mut write) = site.connect().await.into_split();
    let head = enqueue(&producer, "transfer-encoding: chunked", "");
    let pour = tokio::spawn(async move {
        let chunk = format!("10000\r\n{}\r\n", " ".repeat(0x1_0000));
        let mut poured = write.write_all(head.as_bytes()).await;
        for _ in 0..huge / 0x1_0000 {
            poured = poured.and(write.write_all(chunk.as_bytes()).await);
        }
        // The server may have closed meanwhile; the other half stays to be read.
        (write, poured.is_ok())
    });
    let mut bytes = Vec::new();
    let _ = timeout(PATIENCE, read.read_to_end(&mut bytes)).await.expect("the server ends the connection");
    refused(&String::from_utf8_lossy(&bytes), 413, "body_too_large");
    drop(pour.await.unwrap());
    site.goes_on().await;
}

/// Most callers write all of their body before they read: what they are told must wait for them.
#[tokio::test]
async fn a_caller_that_writes_all_before_it_reads_is_told_why_it_is_refused() {
    let site = Site::new(limits()).await;
    let producer = site.world.key(Role::Producer).await;
    let nobody = Key { text: "jf_nobody".to_owned(), ..producer.clone() };
    let body = " ".repeat(10 << 20);
    for (key, status, reason) in [(&producer, 413, "body_too_large"), (&nobody, 401, "credential_invalid")] {
        let request = enqueue(key, &format!("content-length: {}", body.len()), &body);
        refused(&site.exchange(request.as_bytes()).await, status, reason);
    }
    site.goes_on().await;
}

/// A refusal that needs no body leaves a connection that goes on, or says that it ends.
#[tokio::test]
async fn a_kept_connection_outlives_a_refusal() {
    let site = Site::new(limits()).await;
    let nobody = Key { text: "jf_nobody".to_owned(), ..site.world.key(Role::Producer).await };
    let keep = |headers: &str| enqueue(&nobody, headers, "").replace("connection: close\r\n", "");
    for (headers, body) in [
        ("content-length: 9", "{\"a\": 12}"),
        ("transfer-encoding: chunked", "9\r\n{\"a\": 12}\r\n0\r\n\r\n"),
    ] {
        let mut stream = site.connect().await;
        stream.write_all(keep(headers).as_bytes()).await.unwrap();
        // The head is refused before the body is there.
        tokio::time::sleep(Duration::from_millis(100)).await;
        stream.write_all(body.as_bytes()).await.unwrap();
        stream.write_all(HEALTH.as_bytes()).await.unwrap();
        let answers = rest(&mut stream).await;
        refused(&answers, 401, "credential_invalid");
        assert!(answers.contains("HTTP/1.1 200 OK"), "{answers}");
    }
    for head in ["content-length: 9", "content-length: 9999999", "content-length: 9\r\nexpect: 100-continue"]
    {
        let answer = site.exchange(keep(head).as_bytes()).await;
        refused(&answer, 401, "credential_invalid");
        assert!(answer.contains("connection: close"), "{answer}");
    }
}

#[tokio::test]
async fn a_body_that_is_not_as_long_as_it_says_makes_no_job() {
    let site = Site::new(limits()).await;
    let producer = site.world.key(Role::Producer).await;
    let job = format!("{{\"type\": \"{NOOP}\"}}");

    let mut broken = site.connect().await;
    broken.write_all(enqueue(&producer, "content-length: 1000", &job).as_bytes()).await.unwrap();
    broken.shutdown().await.unwrap();
    let answer = rest(&mut broken).await;
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 400 "), "{answer}");

    let short = site.exchange(enqueue(&producer, "content-length: 5", &job).as_bytes()).await;
    refused(&short, 400, "body_malformed");
    for lie in [
        "content-length: -1",
        "content-length: 1e3",
        "content-length: 99999999999999999999999",
        "content-length: 5\r\ncontent-length: 6",
    ] {
        let answer = site.exchange(enqueue(&producer, lie, &job).as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 400 "), "{lie}: {answer}");
    }
    let chunked = enqueue(&producer, "transfer-encoding: chunked", "zz\r\n{}\r\n0\r\n\r\n");
    let answer = site.exchange(chunked.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");

    let admin = site.world.db.connect_super().await;
    assert!(admin.query("select from jobforge.jobs", &[]).await.unwrap().is_empty());
    site.goes_on().await;
    let fine = enqueue(&producer, &format!("content-length: {}", job.len()), &job);
    assert!(site.exchange(fine.as_bytes()).await.starts_with("HTTP/1.1 201 "));
}

#[tokio::test]
async fn noise_is_refused_and_a_large_head_too() {
    let site = Site::new(limits()).await;
    for noise in
        ["\0\0\0\0\r\n\r\n", "GET\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "\u{16}\u{3}\u{1}\r\n\r\n"]
    {
        let answer = site.exchange(noise.as_bytes()).await;
        assert!(
            answer.is_empty() || answer.starts_with("HTTP/1.1 4") || answer.starts_with("HTTP/1.1 505"),
            "{answer}"
        );
    }
    let large = format!(
        "GET /api/v1/health/live HTTP/1.1\r\nhost: localhost\r\nx: {}\r\n\r\n",
        "x".repeat(1_000_000)
    );
    let mut stream = site.connect().await;
    let _ = stream.write_all(large.as_bytes()).await;
    let answer = rest(&mut stream).await;
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431 "), "{answer}");
    site.goes_on().await;
}

#[tokio::test]
async fn a_server_stops_although_somebody_stays_connected() {
    let site = Site::new(limits()).await;
    let mut idle = site.connect().await;
    idle.write_all(HEALTH.replace("connection: close\r\n", "").as_bytes()).await.unwrap();
    let mut first = [0; 12];
    idle.read_exact(&mut first).await.unwrap();
    assert_eq!(&first, b"HTTP/1.1 200");
    let silent = site.connect().await;
    site.goes_on().await;
    // Less than what it gives to requests under way: there are none.
    timeout(Duration::from_secs(8), site.server.shutdown()).await.expect("nobody is waited for");
    assert!(rest(&mut idle).await.contains("\"status\":\"ok\""));
    drop(silent);
}

/// Its body comes a moment after it was refused, and the next request after that.
#[tokio::test]
async fn a_refusal_by_the_head_alone_leaves_the_connection() {
    let site = Site::new(limits()).await;
    let mut stream = site.connect().await;
    for _ in 0..3 {
        let head = "POST /api/v1/jobs HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer jf_no_key\r\n\
                    content-type: application/json\r\ncontent-length: 2\r\n\r\n";
        stream.write_all(head.as_bytes()).await.unwrap();
        tokio::time::sleep(SOON / 3).await;
        stream.write_all(b"{}").await.unwrap();
        let mut answer = String::new();
        while !answer.contains("credential_invalid") {
            let mut bytes = [0; 4096];
            let read = timeout(PATIENCE, stream.read(&mut bytes)).await.expect("an answer").unwrap();
            assert_ne!(read, 0, "the connection ended: {answer}");
            answer.push_str(&String::from_utf8_lossy(&bytes[..read]));
        }
        refused(&answer, 401, "credential_invalid");
    }
    stream.write_all(HEALTH.as_bytes()).await.unwrap();
    let answer = rest(&mut stream).await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
}
