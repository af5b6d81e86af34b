//! A server from its start to its end.
//!
//! HTTP/1.1 by hyper itself: axum's own way of serving has no bound for a caller that sends its head byte by byte, for
//! one that does not read its answer, or for how many there are.

use std::convert::Infallible;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::ConnectInfo;
use axum::http::{HeaderValue, Request, header};
use axum::response::Response;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use jobforge_core::Error;
use secrecy::SecretString;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, oneshot};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt;

use crate::app::App;
use crate::auth::token::Tokens;
use crate::config::{CallerLimits, ServerConfig};
use crate::opening::Found;
use crate::stall::Unstalled;
use crate::{linger, opening, router, unread, upkeep};

/// How long requests may go on after the server was told to stop.
const GRACE: Duration = Duration::from_secs(10);
/// After a connection could not be accepted: there may be too many open files.
const PAUSE: Duration = Duration::from_millis(100);
/// The largest head of a request, in bytes.
const HEAD: usize = 64 << 10;

/// Why a server does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// A login cannot be used.
    #[error("the login of {0} cannot be used")]
    Login(&'static str, #[source] Error),
    /// JobForge does not know a login.
    #[error(
        "the login of {name} is not registered; as an operator run: select jobforge.bind_login('{login}')"
    )]
    Unregistered {
        /// The setting that names it.
        name: &'static str,
        /// The login.
        login: String,
        /// What the database said.
        #[source]
        source: Error,
    },
    /// The schema is missing, or older than this program.
    #[error(
        "the schema is missing or old: {count} of its files are not applied, first {first}; run `jobforge migrate`"
    )]
    Schema {
        /// The first file that was not applied.
        first: String,
        /// How many were not.
        count: usize,
    },
    /// The settings for tokens are unsound.
    #[error("server.tokens cannot be used: {0}")]
    Tokens(&'static str),
    /// The address cannot be listened on.
    #[error("cannot listen on {0}")]
    Listen(SocketAddr, #[source] std::io::Error),
}

/// A server that can be started.
#[derive(Debug)]
pub struct Server {
    app: Arc<App>,
    found: Found,
}

/// A server that runs.
#[derive(Debug)]
pub struct ServerHandle {
    address: SocketAddr,
    app: Arc<App>,
    opening: Opening,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Server {
    /// Looks at the database: a superuser or an owner would see every tenant's data, and is refused, like a login that does
    /// not get in and a schema that is missing. A database that does not answer is no refusal: the server waits for it
    /// once it is started, and answers 503 meanwhile.
    pub async fn new(config: ServerConfig) -> Result<Server, StartError> {
        let tokens = config.tokens.as_ref().map(Tokens::new).transpose().map_err(StartError::Tokens)?;
        let app = App::new(config, tokens).map_err(|error| StartError::Login("server", error))?;
        let found = opening::look(&app).await.inspect_err(|_| app.stop())?;
        Ok(Server { app: Arc::new(app), found })
    }

    /// While there is no key at all: the token with which the first one is made, on this machine, by
    /// `POST /api/v1/bootstrap`. For the console, and nowhere else.
    pub fn bootstrap_token(&self) -> Option<&SecretString> {
        match &self.found {
            Found::Fit(token) => token.as_ref(),
            Found::Away => None,
        }
    }

    /// The routes, for whoever serves them by other means; [`Server::start_upkeep`] belongs to that.
    pub fn router(&self) -> Router {
        router::router(self.app.clone())
    }

    /// Begins what goes on between requests. [`Server::start`] does so by itself.
    pub fn start_upkeep(&self) {
        upkeep::start(&self.app);
    }

    /// Listens and serves until it is told to stop.
    pub async fn start(self, address: SocketAddr) -> Result<ServerHandle, StartError> {
        let listen = |error| StartError::Listen(address, error);
        let listener = TcpListener::bind(address).await.map_err(listen)?;
        let address = listener.local_addr().map_err(listen)?;
        let stop = CancellationToken::new();
        self.start_upkeep();
        let config = &self.app.config;
        let serving = Serving {
            router: self.router(),
            limits: config.callers,
            max_body_bytes: config.max_body_bytes,
            stop: stop.clone(),
        };
        let task = tokio::spawn(serving.run(listener));
        let opening = match self.found {
            Found::Fit(token) => Opening::Over(token),
            Found::Away => Opening::UnderWay(wait_for_database(self.app.clone())),
        };
        Ok(ServerHandle { address, app: self.app, opening, stop, task })
    }
}

impl ServerHandle {
    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// How many bytes the bodies of requests under way take up in memory.
    pub fn held_body_bytes(&self) -> usize {
        self.app.bodies.bytes()
    }

    /// Returns once the database was found and requests are served, with the token of [`Server::bootstrap_token`], once; or
    /// with why this server will never serve.
    pub async fn opened(&mut self) -> Result<Option<SecretString>, StartError> {
        let token = match &mut self.opening {
            Opening::Over(token) => token.take(),
            Opening::UnderWay(found) => match found.await {
                Ok(found) => found?,
                // The server ends.
                Err(_) => std::future::pending().await,
            },
        };
        self.opening = Opening::Over(None);
        Ok(token)
    }

    /// Takes no new requests, ends long polls, lets the others end within ten seconds.
    pub async fn shutdown(self) {
        self.stop.cancel();
        self.app.ending.cancel();
        let app = self.app;
        let mut task = self.task;
        if tokio::time::timeout(GRACE, &mut task).await.is_err() {
            task.abort();
        }
        upkeep::note_uses(&app).await;
        app.stop();
    }
}

/// How far the first look at the database is.
#[derive(Debug)]
enum Opening {
    Over(Option<SecretString>),
    UnderWay(oneshot::Receiver<Result<Option<SecretString>, StartError>>),
}

fn wait_for_database(app: Arc<App>) -> oneshot::Receiver<Result<Option<SecretString>, StartError>> {
    let (tell, told) = oneshot::channel();
    tokio::spawn(async move {
        if let Some(found) = opening::wait(&app).await {
            // Whoever started the server may not want to know.
            let _ = tell.send(found);
        }
    });
    told
}

/// Connections and what they share.
#[derive(Clone)]
struct Serving {
    router: Router,
    limits: CallerLimits,
    max_body_bytes: usize,
    stop: CancellationToken,
}

impl Serving {
    /// Accepts until it is told to stop; returns when all connections have ended.
    async fn run(self, listener: TcpListener) {
        let open = Arc::new(Semaphore::new(self.limits.open));
        let connections = TaskTracker::new();
        let accept = async {
            loop {
                // Closed by nobody.
                let Ok(permit) = open.clone().acquire_owned().await else { return };
                match listener.accept().await {
                    Ok((stream, peer)) => {
                        let connection = self.clone().connection(stream, peer);
                        connections.spawn(async move {
                            connection.await;
                            drop(permit);
                        });
                    }
                    Err(error) => {
                        tracing::warn!(
                            error = &error as &dyn std::error::Error,
                            "a connection is not accepted"
                        );
                        tokio::time::sleep(PAUSE).await;
                    }
                }
            }
        };
        tokio::select! {
            () = accept => {}
            () = self.stop.cancelled() => {}
        }
        drop(listener);
        connections.close();
        connections.wait().await;
    }

    async fn connection(self, stream: TcpStream, peer: SocketAddr) {
        // A request is small and its answer waited for.
        let _ = stream.set_nodelay(true);
        let router = self.router;
        let service = service_fn(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(ConnectInfo(peer));
            Box::pin(answer(router.clone(), request, self.max_body_bytes))
        });
        let io = TokioIo::new(Unstalled::new(stream, self.limits.answer));
        let mut connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(self.limits.head)
            .max_buf_size(HEAD)
            .serve_connection(io, service);
        let ended = tokio::select! {
            ended = poll_fn(|cx| connection.poll_without_shutdown(cx)) => ended,
            () = self.stop.cancelled() => {
                Pin::new(&mut connection).graceful_shutdown();
                poll_fn(|cx| connection.poll_without_shutdown(cx)).await
            }
        };
        if let Err(error) = &ended {
            tracing::debug!(error = error as &dyn std::error::Error, %peer, "a connection ended early");
        }
        // Who was silent for too long is not writing.
        if !ended.is_err_and(|error| error.is_timeout()) {
            let stream = connection.into_parts().io.into_inner();
            self.stop.run_until_cancelled(linger::close(stream, self.limits.body)).await;
        }
    }
}

/// What is left of a body after its answer would be taken for the next request.
async fn answer(router: Router, request: Request<Incoming>, most: usize) -> Result<Response, Infallible> {
    let (request, unread) = unread::lend(request);
    let mut response = router.oneshot(request).await?;
    if !unread.take_in(most).await {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    Ok(response)
}
