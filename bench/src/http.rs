//! An HTTP server under load, and a client that keeps its connection.

use std::net::SocketAddr;

use anyhow::{Context, Result, ensure};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use jobforge_server::ServerHandle;
use tokio::net::TcpStream;
use uuid::Uuid;

/// Whose jobs come in.
pub const TENANTS: usize = 16;

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
    sender: SendRequest<Full<Bytes>>,
    host: HeaderValue,
    key: HeaderValue,
}

impl Served {
    /// A caller of its own connection; callers are spread over the tenants.
    pub async fn client(&self, number: usize) -> Result<Client> {
        let (_, key) = &self.tenants[number % self.tenants.len()];
        Client::connect(self.handle.address(), key).await
    }
}

impl Client {
    async fn connect(address: SocketAddr, key: &str) -> Result<Self> {
        let stream = TcpStream::connect(address).await.context("connecting to the server")?;
        stream.set_nodelay(true)?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        let key = HeaderValue::from_str(&format!("Bearer {key}"))?;
        Ok(Self { sender, host: HeaderValue::from_str(&address.to_string())?, key })
    }

    /// Enqueues a new job; answered when it is durable.
    pub async fn enqueue(&mut self, body: Bytes) -> Result<()> {
        let request = Request::post("/api/v1/jobs")
            .header(HOST, &self.host)
            .header(AUTHORIZATION, &self.key)
            .header(CONTENT_TYPE, "application/json")
            .body(Full::new(body))?;
        self.sender.ready().await?;
        let response = self.sender.send_request(request).await?;
        let status = response.status();
        let text = response.into_body().collect().await?.to_bytes();
        ensure!(status == StatusCode::CREATED, "{status}: {}", String::from_utf8_lossy(&text));
        Ok(())
    }
}
