//! What every request goes through: a name, a time limit, and no panic that ends more than itself.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderName, HeaderValue, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::app::App;
use crate::auth::origin;
use crate::held_bodies::Kept;
use crate::problem::{ErrorCode, Problem};

/// The header that names a request.
pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// The longest name a caller may give.
const NAME_LENGTH: usize = 128;
/// Where a balancer looks.
const HEALTH: &str = "/api/v1/health/";
/// What needs the database, and of it what does not.
const API: &str = "/api/v1/";
const LIVE: &str = "/api/v1/health/live";
/// Beyond the longest long poll; the calls of the database have limits of their own.
const LONGEST: Duration = Duration::from_secs(75);

/// A request's name: the caller's, or one of ours.
#[derive(Clone, Debug)]
pub(crate) struct RequestId(pub(crate) String);

impl RequestId {
    /// The name of the request with these parts.
    pub(crate) fn of(parts: &Parts) -> &str {
        parts.extensions.get::<RequestId>().map_or("", |id| &id.0)
    }
}

/// Names the request, bounds it, and names its answer.
pub(crate) async fn watch(State(app): State<Arc<App>>, mut request: Request, next: Next) -> Response {
    let id = request_id(&request);
    request.extensions_mut().insert(RequestId(id.clone()));
    // What the body takes up is given back when there is an answer.
    let kept = Kept::default();
    request.extensions_mut().insert(kept.clone());
    let fit = require_host(&request, &app).and_then(|()| require_open(&request, &app));
    let (method, uri) = (request.method().clone(), request.uri().clone());
    let mut response = tokio::select! {
        biased;
        response = async { match fit { Ok(()) => next.run(request).await, Err(problem) => problem.into_response() } } => response,
        () = tokio::time::sleep(LONGEST + app.config.call_timeout * 2) => Problem::unavailable("the request took too long").into_response(),
        () = app.stopped() => Problem::unavailable("the server stops").into_response(),
    };
    drop(kept);
    let status = response.status().as_u16();
    tracing::debug!(request_id = id, route = format!("{method} {}", uri.path()), status, "answered");
    if let Ok(value) = HeaderValue::from_str(&id) {
        response.headers_mut().insert(REQUEST_ID, value);
    }
    // What is sent as JSON or text is not to be taken for a page.
    response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// The host must be one of ours, unless the request shows what no foreign page can make a browser show. Probes of a
/// balancer come under any name, and learn nothing.
fn require_host(request: &Request, app: &App) -> Result<(), Problem> {
    let probe = request.uri().path().starts_with(HEALTH);
    if probe || request.headers().contains_key(header::AUTHORIZATION) {
        return Ok(());
    }
    origin::require_host(request.headers(), request.uri(), &app.config.hosts)
}

/// Before the logins were looked at nobody is served by them.
fn require_open(request: &Request, app: &App) -> Result<(), Problem> {
    let path = request.uri().path();
    if app.opened.is_cancelled() || !path.starts_with(API) || path == LIVE {
        return Ok(());
    }
    Err(Problem::unavailable("the server waits for its database; try again"))
}

/// A handler that panics fails its own request alone.
#[expect(clippy::needless_pass_by_value, reason = "the layer hands the panic over")]
pub(crate) fn on_panic(panic: Box<dyn Any + Send>) -> Response {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
    tracing::error!(panic = text, "a request's handler panicked");
    Problem::new(ErrorCode::Internal, "internal", "the server failed; its log tells more").into_response()
}

fn request_id(request: &Request) -> String {
    let given = request.headers().get(&REQUEST_ID).and_then(|value| value.to_str().ok());
    let sound =
        |id: &&str| !id.is_empty() && id.len() <= NAME_LENGTH && id.bytes().all(|c| c.is_ascii_graphic());
    // From the thread's own generator: the system's costs a call of the kernel for every request.
    let random = || uuid::Builder::from_random_bytes(rand::random()).into_uuid().to_string();
    given.filter(sound).map_or_else(random, str::to_owned)
}
