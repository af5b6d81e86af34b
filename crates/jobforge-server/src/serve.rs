//! A server from its start to its end.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use jobforge_core::{Error, preflight};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::app::App;
use crate::config::ServerConfig;
use crate::router;

/// How long requests may go on after the server was told to stop.
const GRACE: Duration = Duration::from_secs(10);

/// Why a server does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// A login cannot be used.
    #[error("the login of {0} cannot be used")]
    Login(&'static str, #[source] Error),
    /// The address cannot be listened on.
    #[error("cannot listen on {0}")]
    Listen(SocketAddr, #[source] std::io::Error),
}

/// A server that can be started.
#[derive(Debug)]
pub struct Server {
    app: Arc<App>,
}

/// A server that runs.
#[derive(Debug)]
pub struct ServerHandle {
    address: SocketAddr,
    app: Arc<App>,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Server {
    /// Checks the logins: a superuser or an owner would see every tenant's data.
    pub async fn new(config: ServerConfig) -> Result<Server, StartError> {
        let named = [
            ("server.tenant_url", Some(&config.tenant_url)),
            ("server.operator_url", Some(&config.operator_url)),
            ("server.worker_url", config.worker_url.as_ref()),
        ];
        for (name, url) in named {
            if let Some(url) = url {
                check(url).await.map_err(|error| StartError::Login(name, error))?;
            }
        }
        let app = App::new(config).map_err(|error| StartError::Login("server", error))?;
        Ok(Server { app: Arc::new(app) })
    }

    /// The routes, for whoever serves them by other means.
    pub fn router(&self) -> axum::Router {
        router::router(self.app.clone())
    }

    /// Listens and serves until it is told to stop.
    pub async fn start(self, address: SocketAddr) -> Result<ServerHandle, StartError> {
        let listen = |error| StartError::Listen(address, error);
        let listener = TcpListener::bind(address).await.map_err(listen)?;
        let address = listener.local_addr().map_err(listen)?;
        let stop = CancellationToken::new();
        let service = self.router().into_make_service_with_connect_info::<SocketAddr>();
        let stopped = stop.clone().cancelled_owned();
        let task = tokio::spawn(async move {
            if let Err(error) = axum::serve(listener, service).with_graceful_shutdown(stopped).await {
                tracing::error!(error = &error as &dyn std::error::Error, "the server ended");
            }
        });
        Ok(ServerHandle { address, app: self.app, stop, task })
    }
}

impl ServerHandle {
    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Takes no new requests, ends long polls, lets the others end within ten seconds.
    pub async fn shutdown(self) {
        self.stop.cancel();
        self.app.ending.cancel();
        let app = self.app;
        let mut task = self.task;
        if tokio::time::timeout(GRACE, &mut task).await.is_err() {
            app.stop();
            task.abort();
        }
        app.stop();
    }
}

async fn check(url: &str) -> Result<(), Error> {
    jobforge_core::connect::with_connection(url, async |client| preflight::check(&client).await).await
}
