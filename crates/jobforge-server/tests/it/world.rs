//! A server on a database of its own, a key of each kind, and callers.

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, Method, Request, StatusCode};
use jobforge_core::rpc::{create_api_key, revoke_api_key};
use jobforge_core::{KeyScope, NewKey, Role};
use jobforge_server::auth::key::KeyText;
use jobforge_server::{Server, ServerConfig};
use jobforge_testkit::{APP, OPERATOR, TENANT_A, TENANT_B, TestDb, WORKER};
use serde_json::Value;
use tower::ServiceExt;
use uuid::Uuid;

/// A server and whoever calls it.
pub(crate) struct World {
    pub(crate) db: TestDb,
    pub(crate) router: Router,
}

/// A credential.
#[derive(Clone)]
pub(crate) struct Key {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) text: String,
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) bytes: Vec<u8>,
}

impl Answer {
    /// The body as JSON; null where there is none.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.bytes).unwrap_or(Value::Null)
    }

    /// Fails the test unless this was the status.
    #[track_caller]
    pub(crate) fn expect(self, status: u16) -> Value {
        assert_eq!(self.status.as_u16(), status, "{}", String::from_utf8_lossy(&self.bytes));
        self.json()
    }

    /// Fails the test unless it was refused like this.
    #[track_caller]
    pub(crate) fn refused(self, status: u16, code: &str, reason: &str) -> Value {
        let kind = self.headers.get("content-type").and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        assert_eq!(kind, "application/problem+json", "{}", String::from_utf8_lossy(&self.bytes));
        let body = self.expect(status);
        assert_eq!((body["code"].as_str(), body["reason"].as_str()), (Some(code), Some(reason)), "{body}");
        assert_eq!(body["type"], format!("/errors/{code}"));
        body
    }
}

impl World {
    pub(crate) async fn new() -> World {
        World::with(|_| {}).await
    }

    /// A server with settings of its own.
    pub(crate) async fn with(change: impl FnOnce(&mut ServerConfig)) -> World {
        let db = TestDb::new().await;
        let mut config = ServerConfig::new(url(&db, APP), url(&db, OPERATOR));
        config.worker_url = Some(url(&db, WORKER));
        change(&mut config);
        let router = Server::new(config).await.unwrap().router();
        World { db, router }
    }

    /// A key of this role, for tenant A where the role needs one.
    pub(crate) async fn key(&self, role: Role) -> Key {
        self.key_of(role, (role != Role::SuperAdmin).then_some(TENANT_A)).await
    }

    /// The same for tenant B.
    pub(crate) async fn key_of_b(&self, role: Role) -> Key {
        self.key_of(role, Some(TENANT_B)).await
    }

    pub(crate) async fn key_of(&self, role: Role, tenant: Option<Uuid>) -> Key {
        let made = KeyText::generate();
        let key = NewKey {
            id: made.id.clone(),
            secret_sha256: made.secret_sha256,
            scope: KeyScope::of(role, tenant).unwrap(),
            name: role.to_string(),
            expires_at: None,
            author: None,
            only_first: false,
        };
        create_api_key(&self.db.as_operator().await, &key).await.unwrap();
        Key { id: made.id.clone(), name: key.name, text: made.expose().to_owned() }
    }

    pub(crate) async fn revoke(&self, key: &Key) {
        revoke_api_key(&self.db.as_operator().await, &key.id, None, None).await.unwrap();
    }

    pub(crate) async fn get(&self, key: &Key, path: &str) -> Answer {
        self.send(Some(key), Method::GET, path, None).await
    }

    pub(crate) async fn post(&self, key: &Key, path: &str, body: Value) -> Answer {
        self.send(Some(key), Method::POST, path, Some(body)).await
    }

    /// One request, with a JSON body if there is one.
    pub(crate) async fn send(
        &self,
        key: Option<&Key>,
        method: Method,
        path: &str,
        body: Option<Value>,
    ) -> Answer {
        let mut request = Request::builder().method(method).uri(format!("/api/v1{path}"));
        if let Some(key) = key {
            request = request.header("authorization", format!("Bearer {}", key.text));
        }
        let request = match body {
            Some(body) => {
                request.header("content-type", "application/json").body(Body::from(body.to_string())).unwrap()
            }
            None => request.body(Body::empty()).unwrap(),
        };
        self.request(request).await
    }

    /// One request as it is.
    pub(crate) async fn request(&self, request: Request<Body>) -> Answer {
        World::ask(&self.router, request).await
    }

    /// One request to some server.
    pub(crate) async fn ask(router: &Router, request: Request<Body>) -> Answer {
        let response = router.clone().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let bytes = to_bytes(body, usize::MAX).await.unwrap().to_vec();
        Answer { status: parts.status, headers: parts.headers, bytes }
    }
}

fn url(db: &TestDb, login: &str) -> String {
    // Over the socket: a password costs an unoptimised build some fifty milliseconds a connection.
    db.url_as(login, None)
}
