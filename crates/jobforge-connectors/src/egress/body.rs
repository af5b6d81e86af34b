//! Answers' bodies, read only as far as somebody wants them. The cap counts decoded bytes while they come, so
//! that a small answer which unpacks to a large one is left at the same point.

use bytes::{Bytes, BytesMut};
use reqwest::Response;

use super::error::EgressError;

/// The beginning of an answer's body.
#[derive(Debug)]
pub struct Body {
    /// What was read, decoded.
    pub bytes: Bytes,
    /// How the reading ended.
    pub end: BodyEnd,
}

/// How the reading of a body ended.
#[derive(Debug)]
pub enum BodyEnd {
    /// All of it was read.
    Whole,
    /// There is more than was wanted.
    Cut,
    /// It broke off, or did not come in time.
    Failed(EgressError),
}

impl Body {
    /// Whether more was sent than is here.
    pub fn is_cut(&self) -> bool {
        !matches!(self.end, BodyEnd::Whole)
    }
}

/// Reads at most `limit` bytes, then drops the connection. `read` outlives a caller that stops waiting.
pub(super) async fn read(
    mut response: Response,
    limit: usize,
    read: &mut BytesMut,
) -> reqwest::Result<BodyEnd> {
    while let Some(chunk) = response.chunk().await? {
        let room = limit - read.len();
        read.extend_from_slice(&chunk[..chunk.len().min(room)]);
        if chunk.len() > room {
            return Ok(BodyEnd::Cut);
        }
    }
    Ok(BodyEnd::Whole)
}
