//! What every request goes through: a name, a time limit, and no panic that ends more than itself.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::{HeaderName, HeaderValue};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use uuid::Uuid;

use crate::app::App;
use crate::problem::{ErrorCode, Problem};

/// The header that names a request.
pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// The longest name a caller may give.
const NAME_LENGTH: usize = 128;
/// Beyond the longest long poll.
const LONGEST: Duration = Duration::from_secs(75);

/// A request's name: the caller's, or one of ours.
#[derive(Clone, Debug)]
pub(crate) struct RequestId(pub(crate) String);

/// Names the request, bounds it, and names its answer.
pub(crate) async fn watch(State(app): State<Arc<App>>, mut request: Request, next: Next) -> Response {
    let id = request_id(&request);
    request.extensions_mut().insert(RequestId(id.clone()));
    let route = format!("{} {}", request.method(), request.uri().path());
    let mut response = tokio::select! {
        biased;
        response = next.run(request) => response,
        () = tokio::time::sleep(LONGEST) => Problem::unavailable("the request took too long").into_response(),
        () = app.stopped() => Problem::unavailable("the server stops").into_response(),
    };
    tracing::debug!(request_id = id, route, status = response.status().as_u16(), "answered");
    if let Ok(value) = HeaderValue::from_str(&id) {
        response.headers_mut().insert(REQUEST_ID, value);
    }
    response
}

/// A handler that panics fails its own request alone.
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
    given.filter(sound).map_or_else(|| Uuid::new_v4().to_string(), str::to_owned)
}
