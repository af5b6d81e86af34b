//! A TCP proxy in front of Postgres that fails on demand.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use crate::or_fail::OrFail;
use crate::wire::Wire;

/// A proxy on a port of its own; dropping it closes everything.
#[derive(Debug)]
pub struct FaultProxy {
    port: u16,
    target_port: u16,
    control: Arc<Control>,
    acceptor: JoinHandle<()>,
}

/// What the proxy does with bytes from now on, on every connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mode {
    /// Forwards them.
    Pass,
    /// Forwards them late, in both directions.
    Delay(Duration),
    /// Holds them, and forwards them when the mode changes.
    Stall,
    /// Swallows them and keeps the sockets open, as a network does that lost its route: no FIN, no RST.
    /// A connection that lost bytes stays silent for ever.
    Silence,
    /// Closes every connection, and new ones at once.
    Refuse,
    /// Forwards this many more bytes in one direction, closes that connection, and passes from then on.
    CutAfter {
        /// The direction that is counted.
        direction: Direction,
        /// How many bytes still pass.
        bytes: u64,
    },
    /// Lets the server run the next statement whose text or parameters contain this (in any case), closes
    /// the connection when the server has answered, and passes from then on. The client never learns the
    /// outcome: with `COMMIT` that is the classic doubt.
    CutBeforeAnswerTo(String),
}

/// The way bytes go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the client to Postgres.
    ToServer,
    /// From Postgres to the client.
    ToClient,
}

/// What one connection has carried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionCounts {
    /// Bytes forwarded to Postgres.
    pub to_server: u64,
    /// Bytes forwarded to the client.
    pub to_client: u64,
    /// Whether it is still open.
    pub open: bool,
}

impl FaultProxy {
    /// A proxy to a port on 127.0.0.1, passing everything.
    pub async fn start(target_port: u16) -> FaultProxy {
        let listener = TcpListener::bind("127.0.0.1:0").await.or_fail("start a fault proxy");
        let port = listener.local_addr().or_fail("start a fault proxy").port();
        let control = Arc::new(Control {
            mode: watch::Sender::new(Mode::Pass),
            cut: watch::Sender::new(()),
            links: Mutex::default(),
        });
        let acceptor = tokio::spawn(accept(listener, target_port, control.clone()));
        FaultProxy { port, target_port, control, acceptor }
    }

    /// Its own port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The URL that leads through the proxy instead of straight to its target.
    pub fn through(&self, url: &str) -> String {
        let (direct, through) =
            (format!("@127.0.0.1:{}/", self.target_port), format!("@127.0.0.1:{}/", self.port));
        assert!(
            url.contains(&direct),
            "the URL does not lead to the proxy's target, port {}",
            self.target_port
        );
        url.replace(&direct, &through)
    }

    /// Changes what happens from now on.
    pub fn set_mode(&self, mode: Mode) {
        let refuse = mode == Mode::Refuse;
        self.control.mode.send_replace(mode);
        if refuse {
            self.cut();
        }
    }

    /// The mode; those that strike once are [`Mode::Pass`] afterwards.
    pub fn mode(&self) -> Mode {
        self.control.mode.borrow().clone()
    }

    /// Closes all connections there are now; new ones are served.
    pub fn cut(&self) {
        self.control.cut.send_replace(());
    }

    /// Lets the next commit happen without telling the client.
    pub fn cut_between_commit_and_answer(&self) {
        self.cut_before_answer_to("COMMIT");
    }

    /// Lets the next statement that contains `needle` happen without telling the client.
    pub fn cut_before_answer_to(&self, needle: &str) {
        self.set_mode(Mode::CutBeforeAnswerTo(needle.to_owned()));
    }

    /// All connections so far, oldest first.
    pub fn connections(&self) -> Vec<ConnectionCounts> {
        guard(&self.control.links).iter().map(|link| link.counts()).collect()
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        self.acceptor.abort();
    }
}

#[derive(Debug)]
struct Control {
    mode: watch::Sender<Mode>,
    cut: watch::Sender<()>,
    links: Mutex<Vec<Arc<Link>>>,
}

/// One connection of a client, with the one to Postgres behind it.
#[derive(Debug, Default)]
struct Link {
    to_server: AtomicU64,
    to_client: AtomicU64,
    closed: AtomicBool,
    silent: AtomicBool,
    wire: Mutex<Wire>,
}

/// The connection is to be closed on both sides.
struct Cut;

impl From<io::Error> for Cut {
    fn from(_: io::Error) -> Cut {
        Cut
    }
}

/// Connections live in this task's set, so they end with it.
async fn accept(listener: TcpListener, target_port: u16, control: Arc<Control>) {
    let mut connections = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        while connections.try_join_next().is_some() {}
        let link = Arc::new(Link::default());
        guard(&control.links).push(link.clone());
        let control = control.clone();
        connections.spawn(async move {
            let _ = serve(client, target_port, &control, &link).await;
            link.closed.store(true, Ordering::Relaxed);
        });
    }
}

async fn serve(client: TcpStream, target_port: u16, control: &Control, link: &Link) -> Result<(), Cut> {
    let mut cut = control.cut.subscribe();
    if *control.mode.borrow() == Mode::Refuse {
        return Err(Cut);
    }
    let server = TcpStream::connect(("127.0.0.1", target_port)).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let up = Pump { direction: Direction::ToServer, control, link };
    let down = Pump { direction: Direction::ToClient, control, link };
    tokio::select! {
        ended = async { tokio::try_join!(up.run(from_client, to_server), down.run(from_server, to_client)) } => {
            ended.map(|_| ())
        }
        _ = cut.changed() => Err(Cut),
    }
}

struct Pump<'a> {
    direction: Direction,
    control: &'a Control,
    link: &'a Link,
}

/// What to do with a piece of the stream.
struct Verdict {
    forward: usize,
    then_cut: bool,
}

impl Pump<'_> {
    async fn run(&self, mut from: OwnedReadHalf, mut to: OwnedWriteHalf) -> Result<(), Cut> {
        let mut buffer = vec![0; 16 * 1024];
        loop {
            let size = from.read(&mut buffer).await?;
            self.wait_for_leave().await?;
            if self.link.silent.load(Ordering::Relaxed) {
                if size == 0 {
                    // The end of the stream is swallowed like everything else.
                    std::future::pending::<()>().await;
                }
                continue;
            }
            if size == 0 {
                return Ok(to.shutdown().await?);
            }
            let verdict = self.judge(&buffer[..size]);
            to.write_all(&buffer[..verdict.forward]).await?;
            self.count(verdict.forward);
            if verdict.then_cut {
                return Err(Cut);
            }
        }
    }

    /// Returns when the bytes in hand may go on, or must be dropped.
    async fn wait_for_leave(&self) -> Result<(), Cut> {
        let mut modes = self.control.mode.subscribe();
        loop {
            let mode = modes.borrow_and_update().clone();
            match mode {
                Mode::Stall => modes.changed().await.map_err(|_| Cut)?,
                Mode::Refuse => return Err(Cut),
                Mode::Silence => {
                    self.link.silent.store(true, Ordering::Relaxed);
                    return Ok(());
                }
                Mode::Delay(time) => {
                    tokio::time::sleep(time).await;
                    return Ok(());
                }
                Mode::Pass | Mode::CutAfter { .. } | Mode::CutBeforeAnswerTo(_) => return Ok(()),
            }
        }
    }

    /// Decides under the lock of the mode, so that a mode that strikes once strikes one connection.
    fn judge(&self, bytes: &[u8]) -> Verdict {
        let mut verdict = Verdict { forward: bytes.len(), then_cut: false };
        self.control.mode.send_if_modified(|mode| {
            let mut strikes = self.watch_wire(bytes, mode, &mut verdict);
            if let Mode::CutAfter { direction, bytes: left } = mode
                && *direction == self.direction
            {
                let allowed = usize::try_from(*left).unwrap_or(usize::MAX);
                verdict.forward = verdict.forward.min(allowed);
                strikes = bytes.len() >= allowed;
                verdict.then_cut |= strikes;
                *left = left.saturating_sub(bytes.len() as u64);
            }
            if strikes {
                *mode = Mode::Pass;
            }
            strikes
        });
        verdict
    }

    /// Follows the protocol in every mode, because a statement to be struck may have been prepared before.
    fn watch_wire(&self, bytes: &[u8], mode: &Mode, verdict: &mut Verdict) -> bool {
        let mut wire = guard(&self.link.wire);
        if self.direction == Direction::ToClient {
            let passage = wire.server_bytes(bytes);
            *verdict = Verdict { forward: passage.bytes, then_cut: passage.answered };
            return false;
        }
        let needle = if let Mode::CutBeforeAnswerTo(needle) = mode { Some(needle.as_str()) } else { None };
        wire.client_bytes(bytes, needle)
    }

    fn count(&self, bytes: usize) {
        let counter = match self.direction {
            Direction::ToServer => &self.link.to_server,
            Direction::ToClient => &self.link.to_client,
        };
        counter.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

impl Link {
    fn counts(&self) -> ConnectionCounts {
        ConnectionCounts {
            to_server: self.to_server.load(Ordering::Relaxed),
            to_client: self.to_client.load(Ordering::Relaxed),
            open: !self.closed.load(Ordering::Relaxed),
        }
    }
}

/// A panic elsewhere in the test does not make the proxy's lists wrong.
fn guard<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
