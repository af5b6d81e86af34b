//! What is left of a body that nobody read. A request that is refused by its head alone, for want of a credential or of a
//! database, would end its connection otherwise, and the caller's next request with it.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::http::{Request, header};
use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tokio::sync::oneshot;
use tokio::time::timeout;

/// A longer rest is not worth reading: that connection ends.
const MOST: u64 = 64 << 10;
/// What was sent with the head comes soon; who sends it byte by byte is not waited for.
const PATIENCE: Duration = Duration::from_millis(500);

/// The rest of a request's body, once nobody reads it any more.
pub(crate) struct Unread(oneshot::Receiver<Incoming>);

/// A body that comes back when it is dropped before its end.
pub(crate) struct Watched {
    /// There until the drop.
    body: Option<Incoming>,
    back: Option<oneshot::Sender<Incoming>>,
}

impl Unread {
    /// Watches a request's body.
    pub(crate) fn watch(request: Request<Incoming>) -> (Request<Watched>, Unread) {
        // Who asks first whether to send a body has not sent it.
        let waits = request.headers().contains_key(header::EXPECT);
        let (back, rest) = oneshot::channel();
        let back = (!waits).then_some(back);
        (request.map(|body| Watched { body: Some(body), back }), Unread(rest))
    }

    /// Reads it, if it is short.
    pub(crate) async fn drain(mut self) {
        let Ok(mut body) = self.0.try_recv() else { return };
        if body.size_hint().upper().is_none_or(|length| length > MOST) {
            return;
        }
        let read =
            async { while let Some(Ok(_)) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {} };
        // Late or broken, the connection ends as it would have.
        let _ = timeout(PATIENCE, read).await;
    }
}

impl Body for Watched {
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
        self.body.as_ref().map_or_else(SizeHint::default, Body::size_hint)
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        if let (Some(body), Some(back)) = (self.body.take(), self.back.take())
            && !body.is_end_stream()
        {
            // Nobody waits for it when the whole request was given up.
            let _ = back.send(body);
        }
    }
}
