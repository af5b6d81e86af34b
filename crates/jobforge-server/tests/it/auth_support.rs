//! Servers beside the world's own, callers from somewhere, and patience.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::http::{Method, Request};
use jobforge_server::{Server, ServerConfig};
use jobforge_testkit::{APP, OPERATOR, TestDb};
use serde_json::Value;

use crate::world::{Answer, Key, World};

/// How long a test waits for what must come.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
/// Longer than any test.
pub(crate) const FOR_EVER: Duration = Duration::from_secs(3600);

/// The settings of another server on this database.
pub(crate) fn config(db: &TestDb) -> ServerConfig {
    ServerConfig::new(db.url_as(APP, None), db.url_as(OPERATOR, None))
}

/// Another server on this database, with its upkeep.
pub(crate) async fn second(db: &TestDb, change: impl FnOnce(&mut ServerConfig)) -> Router {
    let mut config = config(db);
    change(&mut config);
    let server = Server::new(config).await.unwrap();
    server.start_upkeep();
    server.router()
}

/// Asks again until the answer is as wanted.
pub(crate) async fn until(what: &str, mut ask: impl AsyncFnMut() -> bool) {
    let begun = Instant::now();
    while !ask().await {
        assert!(begun.elapsed() < PATIENCE, "never: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A request with headers, from an address or from nowhere.
pub(crate) struct Ask {
    method: Method,
    path: String,
    headers: Vec<(String, String)>,
    body: Option<String>,
    from: Option<SocketAddr>,
}

impl Ask {
    pub(crate) fn new(method: Method, path: &str) -> Ask {
        Ask { method, path: format!("/api/v1{path}"), headers: Vec::new(), body: None, from: None }
    }

    pub(crate) fn get(path: &str) -> Ask {
        Ask::new(Method::GET, path)
    }

    pub(crate) fn post(path: &str, body: &Value) -> Ask {
        let ask = Ask::new(Method::POST, path).header("content-type", "application/json");
        Ask { body: Some(body.to_string()), ..ask }
    }

    /// The same by another method.
    pub(crate) fn put(self) -> Ask {
        Ask { method: Method::PUT, ..self }
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Ask {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn bearer(self, token: &str) -> Ask {
        self.header("authorization", &format!("Bearer {token}"))
    }

    pub(crate) fn key(self, key: &Key) -> Ask {
        self.bearer(&key.text)
    }

    pub(crate) fn from(self, address: &str) -> Ask {
        Ask { from: Some(address.parse().unwrap()), ..self }
    }

    pub(crate) async fn of(self, router: &Router) -> Answer {
        let mut request = Request::builder().method(self.method).uri(self.path);
        for (name, value) in self.headers {
            request = request.header(name, value);
        }
        let mut request = request.body(self.body.map_or_else(Body::empty, Body::from)).unwrap();
        if let Some(from) = self.from {
            request.extensions_mut().insert(ConnectInfo(from));
        }
        World::ask(router, request).await
    }
}
