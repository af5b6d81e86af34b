//! A server that notes who came and what was sent, and answers as it is told.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use futures_util::future::BoxFuture;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// What came in one request.
#[derive(Clone, Debug)]
pub(crate) struct Received {
    /// `GET /path?query HTTP/1.1`
    pub(crate) line: String,
    /// By name in small letters.
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Vec<u8>,
}

/// What the server does with a request.
pub(crate) enum Reply {
    /// Writes this and closes.
    Raw(Vec<u8>),
    /// Does something longer with the connection.
    Stream(Box<dyn FnOnce(TcpStream) -> BoxFuture<'static, ()> + Send>),
    /// Says nothing and keeps the connection.
    Hang,
}

impl Reply {
    /// An answer with a status, headers and a body.
    pub(crate) fn with(status: u16, headers: &[(&str, &str)], body: &[u8]) -> Reply {
        let mut raw =
            format!("HTTP/1.1 {status} X\r\nconnection: close\r\ncontent-length: {}\r\n", body.len());
        for (name, value) in headers {
            raw.push_str(&format!("{name}: {value}\r\n"));
        }
        raw.push_str("\r\n");
        Reply::Raw([raw.as_bytes(), body].concat())
    }

    pub(crate) fn status(status: u16) -> Reply {
        Reply::with(status, &[], b"")
    }
}

/// Stopped when dropped.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    /// The ports of who came, in order.
    accepted: Arc<Mutex<Vec<u16>>>,
    received: Arc<Mutex<Vec<Received>>>,
    task: JoinHandle<()>,
}

impl Server {
    /// Listens here; port 0 is any free one.
    pub(crate) async fn start(
        at: &str,
        answer: impl Fn(Received) -> Reply + Send + Sync + 'static,
    ) -> Server {
        Server::on(TcpListener::bind(at).await.unwrap(), answer)
    }

    /// Listens on every address of the machine, of both families, and would answer 200.
    pub(crate) async fn everywhere() -> Server {
        // Where there is no IPv6 there is nothing of it to reach either.
        let listener = match TcpListener::bind("[::]:0").await {
            Ok(listener) => listener,
            Err(_) => TcpListener::bind("0.0.0.0:0").await.unwrap(),
        };
        Server::on(listener, |_| Reply::status(200))
    }

    fn on(listener: TcpListener, answer: impl Fn(Received) -> Reply + Send + Sync + 'static) -> Server {
        let address = listener.local_addr().unwrap();
        let (accepted, received) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(Vec::new())));
        let (count, notes, answer) = (accepted.clone(), received.clone(), Arc::new(answer));
        let task = tokio::spawn(async move {
            loop {
                let (stream, peer) = listener.accept().await.unwrap();
                count.lock().unwrap().push(peer.port());
                tokio::spawn(serve(stream, notes.clone(), answer.clone()));
            }
        });
        Server { address, accepted, received, task }
    }

    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// How many connections were accepted, those included that wait in the backlog: one more is made, and
    /// once it is seen all before it were.
    pub(crate) async fn accepted(&self) -> usize {
        let probe = TcpStream::connect(("127.0.0.1", self.port())).await.unwrap();
        let port = probe.local_addr().unwrap().port();
        let take = |peers: &mut Vec<u16>| {
            let place = peers.iter().position(|peer| *peer == port)?;
            peers.remove(place);
            Some(place)
        };
        loop {
            let before = take(&mut self.accepted.lock().unwrap());
            if let Some(before) = before {
                return before;
            }
            tokio::task::yield_now().await;
        }
    }

    pub(crate) fn received(&self) -> Vec<Received> {
        self.received.lock().unwrap().clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(
    mut stream: TcpStream,
    notes: Arc<Mutex<Vec<Received>>>,
    answer: Arc<impl Fn(Received) -> Reply>,
) {
    let Some(received) = read(&mut stream).await else { return };
    notes.lock().unwrap().push(received.clone());
    match answer(received) {
        Reply::Raw(bytes) => {
            // A client that had enough closes early.
            let _ = stream.write_all(&bytes).await;
            let _ = stream.shutdown().await;
        }
        Reply::Stream(work) => work(stream).await,
        Reply::Hang => drop(stream.read(&mut [0]).await),
    }
}

async fn read(stream: &mut TcpStream) -> Option<Received> {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break end;
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    };
    let mut body = bytes.split_off(end + 4);
    let head = String::from_utf8(bytes).unwrap();
    let mut lines = head.trim_end().lines();
    let line = lines.next().unwrap().to_owned();
    let split =
        |line: &str| line.split_once(": ").map(|(name, value)| (name.to_lowercase(), value.to_owned()));
    let headers: BTreeMap<String, String> = lines.filter_map(split).collect();
    let length = headers.get("content-length").map_or(0, |length| length.parse().unwrap());
    while body.len() < length {
        stream.read_buf(&mut body).await.ok()?;
    }
    Some(Received { line, headers, body })
}
