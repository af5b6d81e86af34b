//! What a request's handler left unread of its body.
//!
//! Many refusals need no body: a wrong key, too many requests, no database. But a connection on which a part of the body
//! is still to come cannot take another request, and ends; a caller that keeps its connections would find the next one
//! broken. So the rest of a body of ordinary size is taken in, and where it is not, the answer says that the
//! connection ends.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::http::{Request, header};
use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tokio::time::timeout;

/// How long the rest may take: it was sent right behind the head, or is not worth the wait.
const PAUSE: Duration = Duration::from_millis(500);

type Place = Arc<Mutex<Option<Incoming>>>;

/// A body that comes back when its reader drops it before its end.
pub(crate) struct Lent {
    body: Option<Incoming>,
    back: Place,
}

/// Where it comes back to.
pub(crate) struct Unread {
    back: Place,
    /// The caller sends its body only if it is asked to.
    asks_first: bool,
}

/// Lends a request's body to its handler.
pub(crate) fn lend(request: Request<Incoming>) -> (Request<Lent>, Unread) {
    let back = Place::default();
    let unread = Unread { back: back.clone(), asks_first: request.headers().contains_key(header::EXPECT) };
    (request.map(|body| Lent { body: Some(body), back }), unread)
}

impl Unread {
    /// Takes in what is left, up to so many bytes. Whether nothing is left then.
    pub(crate) async fn take_in(self, most: usize) -> bool {
        let left = self.back.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(body) = left else { return true };
        if self.asks_first || body.size_hint().lower() > most as u64 {
            return false;
        }
        timeout(PAUSE, read_out(body, most)).await.unwrap_or(false)
    }
}

async fn read_out(mut body: Incoming, most: usize) -> bool {
    let mut taken = 0;
    while taken <= most {
        match poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
            None => return true,
            Some(Ok(frame)) => taken += frame.data_ref().map_or(0, Bytes::len),
            Some(Err(_)) => return false,
        }
    }
    false
}

impl Body for Lent {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        match &mut self.body {
            Some(body) => Pin::new(body).poll_frame(cx),
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(|| SizeHint::with_exact(0), Body::size_hint)
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let unread = self.body.take().filter(|body| !body.is_end_stream());
        *self.back.lock().unwrap_or_else(PoisonError::into_inner) = unread;
    }
}
