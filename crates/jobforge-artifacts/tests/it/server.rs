//! Servers for the tests: moto, an S3 in Python (`scripts/setup test` installs it), and one that answers as told.

use std::collections::HashMap;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use jobforge_artifacts::{ArtifactStore, Limits, Place, S3};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::{limits, until};

const BUCKET: &str = "artifacts";

/// The store on a server at this port.
pub(crate) fn store_at(port: u16) -> Arc<ArtifactStore> {
    store_with(port, limits())
}

pub(crate) fn store_with(port: u16, limits: Limits) -> Arc<ArtifactStore> {
    let s3 = S3 {
        endpoint: Some(format!("http://127.0.0.1:{port}")),
        credentials: Some(("id".to_owned(), "secret".to_owned())),
        ..S3::default()
    };
    let place = Place::parse(&format!("s3://{BUCKET}/some/prefix"), s3).unwrap();
    Arc::new(ArtifactStore::open(&place, limits).unwrap())
}

/// A moto of the test's own; ends with it.
pub(crate) struct Moto {
    process: Child,
    pub(crate) port: u16,
}

impl Moto {
    pub(crate) async fn start() -> Moto {
        let port = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
        let home = PathBuf::from(std::env::var_os("HOME").unwrap_or_default());
        let process = Command::new(home.join(".cache/jobforge/moto/bin/moto_server"))
            .args(["-H", "127.0.0.1", "-p", &port.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("moto is installed (scripts/setup test)");
        let moto = Moto { process, port };
        until("moto listens", async || TcpStream::connect(("127.0.0.1", port)).await.is_ok()).await;
        let made = moto.request("PUT", "", "").await;
        assert!(made.starts_with("HTTP/1.1 200"), "{made}");
        moto
    }

    /// Does something to the bucket or an object in it, by hand; moto believes any signature.
    pub(crate) async fn request(&self, method: &str, key: &str, body: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).await.unwrap();
        let (port, length) = (self.port, body.len());
        let request = format!(
            "{method} /{BUCKET}{key} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Length: {length}\r\n\
             Authorization: AWS4-HMAC-SHA256 Credential=id/20250101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0\r\n\
             Connection: close\r\n\r\n{body}"
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.unwrap();
        String::from_utf8_lossy(&answer).into_owned()
    }
}

impl Drop for Moto {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Keeps objects in memory; while it is broken it answers everything with 500.
pub(crate) struct Moody {
    pub(crate) port: u16,
    mood: Arc<Mood>,
}

#[derive(Default)]
struct Mood {
    broken: AtomicBool,
    /// How many requests were answered with 500.
    refused: AtomicUsize,
}

type Objects = Arc<Mutex<HashMap<String, Vec<u8>>>>;

impl Moody {
    pub(crate) async fn start() -> Moody {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (mood, objects) = (Arc::new(Mood::default()), Objects::default());
        let of_server = mood.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(answer(stream, of_server.clone(), objects.clone()));
            }
        });
        Moody { port, mood }
    }

    pub(crate) fn set_broken(&self, broken: bool) {
        self.mood.broken.store(broken, Ordering::SeqCst);
    }

    pub(crate) fn refused(&self) -> usize {
        self.mood.refused.load(Ordering::SeqCst)
    }
}

/// One request a connection.
async fn answer(mut stream: TcpStream, mood: Arc<Mood>, objects: Objects) -> std::io::Result<()> {
    let mut read = Vec::new();
    let head = loop {
        if let Some(end) = read.windows(4).position(|four| four == b"\r\n\r\n") {
            break end + 4;
        }
        if stream.read_buf(&mut read).await? == 0 {
            return Ok(());
        }
    };
    let text = String::from_utf8_lossy(&read[..head]).to_lowercase();
    let length = text.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok());
    while read.len() < head + length.unwrap_or(0) {
        stream.read_buf(&mut read).await?;
    }
    let mut words = text.split(' ');
    let (method, key) = (words.next().unwrap_or_default(), words.next().unwrap_or_default().to_owned());
    let (status, body) = if mood.broken.load(Ordering::SeqCst) {
        mood.refused.fetch_add(1, Ordering::SeqCst);
        ("500 Internal Server Error", Vec::new())
    } else {
        let mut objects = objects.lock().unwrap();
        match method {
            "put" => {
                objects.insert(key, read.split_off(head));
                ("200 OK", Vec::new())
            }
            "delete" => {
                objects.remove(&key);
                ("204 No Content", Vec::new())
            }
            _ => objects.get(&key).map_or(("404 Not Found", Vec::new()), |found| ("200 OK", found.clone())),
        }
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Length: {}\r\nETag: \"x\"\r\nLast-Modified: Wed, 01 Jan 2025 00:00:00 GMT\r\n\
         Connection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(&body).await?;
    stream.shutdown().await
}
