//! Answers that never end, grow when they are unpacked, or come by the byte: time and memory stay bounded.

use std::process::Stdio;
use std::time::{Duration, Instant};

use jobforge_connectors::egress::{BodyEnd, Egress, EgressError, EgressSettings, Response};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::process::Command;
use uuid::Uuid;

use super::{PATIENCE, get, settings};
use crate::server::{Reply, Server};

/// What a request may keep of an answer here.
const CAP: usize = 256 * 1024;
/// What the process may grow by while it does.
const GROWTH: usize = 16 * 1024 * 1024;

fn egress() -> Egress {
    let settings = EgressSettings { max_body_bytes: CAP, ..settings(&["127.0.0.0/8"]) };
    Egress::new(&settings).unwrap()
}

/// An answer that goes on with what this command writes, for as long as somebody reads.
fn streamed(encoding: &'static str, program: &'static str, arguments: &'static [&'static str]) -> Reply {
    Reply::Stream(Box::new(move |stream| {
        Box::pin(async move {
            let mut child = Command::new(program)
                .args(arguments)
                .stdout(Stdio::piped())
                .kill_on_drop(true)
                .spawn()
                .unwrap();
            let source = child.stdout.take().unwrap();
            pour(stream, encoding, source).await;
        })
    }))
}

async fn pour(mut stream: TcpStream, encoding: &str, mut source: impl AsyncRead + Unpin) {
    let head = format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-encoding: {encoding}\r\n\r\n");
    let mut chunk = vec![0; 65536];
    let _ = stream.write_all(head.as_bytes()).await;
    while let Ok(length @ 1..) = source.read(&mut chunk).await {
        if stream.write_all(&chunk[..length]).await.is_err() {
            return;
        }
    }
}

/// Ten gigabytes of zeros as Zstandard writes them: a block of four bytes says 128 KiB of the same byte.
fn zstd_bomb() -> Vec<u8> {
    const BLOCK: u32 = 128 * 1024;
    let mut bomb = vec![0x28, 0xb5, 0x2f, 0xfd, 0, 0x58];
    for number in (0..10 * 1024 * 1024 * 1024_u64 / u64::from(BLOCK)).rev() {
        let header = BLOCK << 3 | 1 << 1 | u32::from(number == 0);
        bomb.extend_from_slice(&header.to_le_bytes()[..3]);
        bomb.push(0);
    }
    bomb
}

/// The most memory this process ever held.
fn peak_memory() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 1024
}

/// The answer, which must be cut at the cap, in time and with little memory.
async fn defused(server: &Server) -> Response {
    let egress = egress();
    // What the first request costs in any case (certificates, pools) is not the answer's doing.
    let plain = Server::start("127.0.0.1:0", |_| Reply::with(200, &[], &[b'a'; 8192])).await;
    egress.send(Uuid::nil(), get(&plain.url("/"))).await.unwrap();
    let before = peak_memory();
    let answer = tokio::time::timeout(PATIENCE, egress.send(Uuid::nil(), get(&server.url("/")))).await;
    let answer = answer.unwrap().unwrap();
    assert!(matches!(answer.body.end, BodyEnd::Cut), "{:?}", answer.body.end);
    assert_eq!(answer.body.bytes.len(), CAP);
    let growth = peak_memory() - before;
    assert!(growth <= GROWTH, "grew by {growth} bytes");
    answer
}

#[tokio::test]
async fn a_gzip_bomb_is_left_at_the_cap() {
    let server = Server::start("127.0.0.1:0", |_| {
        streamed("gzip", "sh", &["-c", "head -c 10737418240 /dev/zero | gzip -1"])
    })
    .await;
    assert!(defused(&server).await.body.bytes.iter().all(|byte| *byte == 0), "decoded, not raw");
}

#[tokio::test]
async fn a_zstd_bomb_is_left_at_the_cap() {
    let bomb = zstd_bomb();
    assert!(bomb.len() < 400_000);
    let server =
        Server::start("127.0.0.1:0", move |_| Reply::with(200, &[("content-encoding", "zstd")], &bomb)).await;
    assert!(defused(&server).await.body.bytes.iter().all(|byte| *byte == 0), "decoded, not raw");
}

#[tokio::test]
async fn a_brotli_bomb_is_left_at_the_cap() {
    const SCRIPT: &str = "
        const zlib = require('zlib'), { Readable } = require('stream');
        const zeros = Buffer.alloc(1 << 20);
        const source = Readable.from((function* () { for (let i = 0; i < 10240; i++) yield zeros; })());
        source.pipe(zlib.createBrotliCompress({ params: { [zlib.constants.BROTLI_PARAM_QUALITY]: 1 } })).pipe(process.stdout);";
    let server = Server::start("127.0.0.1:0", |_| streamed("br", "node", &["-e", SCRIPT])).await;
    assert!(defused(&server).await.body.bytes.iter().all(|byte| *byte == 0), "decoded, not raw");
}

#[tokio::test]
async fn an_endless_body_is_left_at_the_cap() {
    let server = Server::start("127.0.0.1:0", |_| {
        Reply::Stream(Box::new(|mut stream| {
            Box::pin(async move {
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").await;
                let chunk = [b"1000\r\n".as_slice(), &[b'a'; 4096], b"\r\n"].concat();
                while stream.write_all(&chunk).await.is_ok() {}
            })
        }))
    })
    .await;
    defused(&server).await;
}

#[tokio::test]
async fn a_body_that_comes_by_the_byte_ends_with_its_time() {
    let server = Server::start("127.0.0.1:0", |_| {
        Reply::Stream(Box::new(|mut stream| {
            Box::pin(async move {
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await;
                while stream.write_all(b"a").await.is_ok() {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            })
        }))
    })
    .await;
    let mut request = get(&server.url("/"));
    request.timeout = Duration::from_secs(5);
    let began = Instant::now();
    let answer = egress().send(Uuid::nil(), request).await.unwrap();
    assert!(matches!(answer.body.end, BodyEnd::Failed(EgressError::Timeout { .. })), "{:?}", answer.body.end);
    assert!(!answer.body.bytes.is_empty() && answer.status == 200, "what came before is kept");
    assert!(began.elapsed() < PATIENCE);
}

#[tokio::test]
async fn who_says_nothing_is_not_waited_for() {
    let server = Server::start("127.0.0.1:0", |_| Reply::Hang).await;
    let mut request = get(&server.url("/"));
    request.timeout = Duration::from_millis(300);
    let error = egress().send(Uuid::nil(), request).await.unwrap_err();
    assert!(matches!(error, EgressError::Timeout { .. }) && !error.is_permanent(), "{error}");

    // Nor one that pauses for longer than an answer may, or beyond the worker's own limit, whatever a request
    // asks for: the error tells whose time it was.
    let short = Duration::from_millis(300);
    for settings in [
        EgressSettings { read_timeout: short, ..settings(&["127.0.0.0/8"]) },
        EgressSettings { max_timeout: short, ..settings(&["127.0.0.0/8"]) },
    ] {
        let request = get(&server.url("/"));
        let asked = request.timeout;
        let error = Egress::new(&settings).unwrap().send(Uuid::nil(), request).await.unwrap_err();
        assert!(matches!(error, EgressError::Timeout { after, .. } if after < asked), "{error}");
    }
}

#[tokio::test]
async fn headers_beyond_all_measure_are_refused() {
    let many = Server::start("127.0.0.1:0", |_| {
        let headers: String = (0..200).map(|number| format!("x-{number}: a\r\n")).collect();
        Reply::Raw(format!("HTTP/1.1 200 OK\r\n{headers}\r\n").into_bytes())
    })
    .await;
    assert!(egress().send(Uuid::nil(), get(&many.url("/"))).await.is_err());
    let large = Server::start("127.0.0.1:0", |_| Reply::with(200, &[("x", &"a".repeat(70_000))], b"")).await;
    let error = egress().send(Uuid::nil(), get(&large.url("/"))).await.unwrap_err();
    assert!(matches!(error, EgressError::Headers { .. }), "{error}");
    let endless = Server::start("127.0.0.1:0", |_| {
        Reply::Stream(Box::new(|mut stream| {
            Box::pin(async move {
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nx: ").await;
                while stream.write_all(&[b'a'; 4096]).await.is_ok() {}
            })
        }))
    })
    .await;
    let before = peak_memory();
    assert!(egress().send(Uuid::nil(), get(&endless.url("/"))).await.is_err());
    assert!(peak_memory() - before <= GROWTH);
}

#[tokio::test]
async fn a_server_that_is_not_there_is_a_failure_worth_a_retry() {
    let gone = Server::start("127.0.0.1:0", |_| Reply::Hang).await.url("/");
    tokio::task::yield_now().await;
    let error = egress().send(Uuid::nil(), get(&gone)).await.unwrap_err();
    assert!(!error.is_permanent(), "{error}");
    assert!(!error.to_string().contains("http://"), "{error}");
}
