//! An HTTP server under load, and a client that keeps its connection.
//!
//! The client shares two cores with what is measured, and what it takes is taken from both sides of every ratio. So it speaks
//! just the HTTP that it needs, on the task that waits for the answer: a library's client hands each request to another task
//! and each answer back.

use std::io::Write;
use std::net::SocketAddr;

use anyhow::{Context, Result, bail, ensure};
use jobforge_server::ServerHandle;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use uuid::Uuid;

/// Whose jobs come in.
pub const TENANTS: usize = 16;

const CREATED: u16 = 201;
const OK: u16 = 200;

/// A server that runs, and who may call it.
pub struct Served {
    pub handle: ServerHandle,
    /// The login that it enqueues with.
    pub producer_url: String,
    /// The tenants and their keys.
    pub tenants: Vec<(Uuid, String)>,
}

/// One caller.
pub struct Client {
    stream: TcpStream,
    /// The headers of every request.
    headers: String,
    request: Vec<u8>,
    answer: Vec<u8>,
}

/// Where an answer's body is, and its status.
struct Head {
    status: u16,
    body_at: usize,
    body_bytes: usize,
}

impl Served {
    /// A caller of its own connection; callers are spread over the tenants.
    pub async fn client(&self, number: usize) -> Result<Client> {
        let (_, key) = &self.tenants[number % self.tenants.len()];
        Client::connect(self.handle.address(), key).await
    }
}

impl Client {
    pub async fn connect(address: SocketAddr, key: &str) -> Result<Self> {
        let stream = TcpStream::connect(address).await.context("connecting to the server")?;
        stream.set_nodelay(true)?;
        let headers = format!("host: {address}\r\nauthorization: Bearer {key}\r\n");
        Ok(Self { stream, headers, request: Vec::new(), answer: Vec::new() })
    }

    /// Enqueues a new job; answered when it is durable.
    pub async fn enqueue(&mut self, body: &str) -> Result<()> {
        let Self { request, headers, .. } = self;
        request.clear();
        let bytes = body.len();
        write!(
            request,
            "POST /api/v1/jobs HTTP/1.1\r\n{headers}content-type: application/json\r\ncontent-length: {bytes}\r\n\r\n{body}"
        )?;
        self.send(CREATED).await
    }

    /// Gets what is there, e.g. `jobs?limit=50`.
    pub async fn get(&mut self, path: &str) -> Result<()> {
        let Self { request, headers, .. } = self;
        request.clear();
        write!(request, "GET /api/v1/{path} HTTP/1.1\r\n{headers}\r\n")?;
        self.send(OK).await.with_context(|| format!("getting {path}"))
    }

    async fn send(&mut self, expected: u16) -> Result<()> {
        self.stream.write_all(&self.request).await?;
        self.answer.clear();
        let head = loop {
            if let Some(head) = head(&self.answer)? {
                break head;
            }
            self.read().await?;
        };
        while self.answer.len() < head.body_at + head.body_bytes {
            self.read().await?;
        }
        ensure!(head.status == expected, "{}: {}", head.status, self.answer[head.body_at..].escape_ascii());
        Ok(())
    }

    async fn read(&mut self) -> Result<()> {
        let read = self.stream.read_buf(&mut self.answer).await?;
        ensure!(read > 0, "the server closed the connection");
        Ok(())
    }
}

/// An answer's head, once all of it is there.
fn head(answer: &[u8]) -> Result<Option<Head>> {
    let Some(end) = answer.windows(4).position(|window| window == b"\r\n\r\n") else { return Ok(None) };
    let text = str::from_utf8(&answer[..end]).context("an answer's headers")?;
    let mut lines = text.split("\r\n");
    let status = lines.next().and_then(|line| line.split(' ').nth(1));
    let status = status.and_then(|status| status.parse().ok()).context("an answer without a status")?;
    for line in lines {
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            return Ok(Some(Head { status, body_at: end + 4, body_bytes: value.trim().parse()? }));
        }
    }
    bail!("an answer of unknown length: {text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answers_head_is_read_once_it_is_complete() {
        assert!(head(b"HTTP/1.1 201 Created\r\nContent-Len").unwrap().is_none());
        let whole = head(b"HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\n{}").unwrap().unwrap();
        assert_eq!((whole.status, whole.body_at, whole.body_bytes), (201, 43, 2));
        assert!(head(b"HTTP/1.1 200 OK\r\n\r\n").is_err(), "where it ends is not known");
    }
}
