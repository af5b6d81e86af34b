//! The end of a connection whose caller may still be writing.
//!
//! A request can be refused before its body was read: it is too large, or its key is wrong. A socket that is closed with
//! bytes unread is reset, and the caller sees a broken pipe instead of its refusal. So the server says that it has ended,
//! and takes in what is still under way, within bounds.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use crate::stall::Unstalled;

/// The most that is taken in: a caller that sends more does not read its answer.
const MOST: usize = 64 << 20;
/// How long nothing may come.
const PAUSE: Duration = Duration::from_secs(2);

/// Ends a connection; returns when its caller has ended it too, or is not worth the wait.
pub(crate) async fn close(mut stream: Unstalled, patience: Duration) {
    if stream.shutdown().await.is_ok() {
        let _ = timeout(patience, take_in(&mut stream)).await;
    }
}

async fn take_in(stream: &mut Unstalled) {
    let mut bytes = vec![0; 64 << 10];
    let mut taken = 0;
    while taken < MOST {
        match timeout(PAUSE, stream.read(&mut bytes)).await {
            Ok(Ok(count)) if count > 0 => taken += count,
            _ => return,
        }
    }
}
