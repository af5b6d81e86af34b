//! One question at a time, unless several are of one transaction.
//!
//! `PgBouncer` before 1.23 takes its session back from a client that went away as soon as that session was idle once, though
//! answers to further statements are still to come: the next client is given them, another tenant's among them. The driver
//! tells an error before the session says that it is idle again, so even who waits for every answer may ask too early.
//! So nothing is sent here before the statement before it was answered to its very end. Within a transaction statements may
//! follow each other, because the session is not idle in between. A connection that was shown to lead to Postgres itself
//! ([`Way`]) needs none of this.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::task::{Context, Poll, ready};

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::tls::{ChannelBinding, TlsStream};

/// A kind and a length, which counts itself.
const HEADER: usize = 5;

/// Where a connection leads, as far as it is known.
#[derive(Debug, Default)]
pub(crate) struct Way {
    /// The process that its greeting named: Postgres names the session's own, a pooler makes one up. 0: none yet.
    backend: AtomicI32,
    direct: AtomicBool,
}

impl Way {
    /// Whether it can be shown.
    pub(crate) fn can_be_shown(&self) -> bool {
        self.backend.load(Ordering::Relaxed) != 0
    }

    /// Shown to lead to Postgres itself, if this is the process that the greeting named.
    pub(crate) fn answered_by(&self, backend: i32) {
        let shown = self.can_be_shown() && self.backend.load(Ordering::Relaxed) == backend;
        self.direct.store(shown, Ordering::Relaxed);
    }

    fn is_direct(&self) -> bool {
        self.direct.load(Ordering::Relaxed)
    }
}

/// A stream to Postgres on which questions take turns.
pub struct Turns<S> {
    stream: S,
    way: Arc<Way>,
    /// Handed over by the driver and not sent yet; so many bytes of it may go.
    out: BytesMut,
    cleared: usize,
    turn: Turn,
    ear: Ear,
}

impl<S> Turns<S> {
    pub(crate) fn new(stream: S, way: Arc<Way>) -> Turns<S> {
        Turns { stream, way, out: BytesMut::new(), cleared: 0, turn: Turn::default(), ear: Ear::default() }
    }

    /// Lets go what may go.
    fn clear(&mut self) {
        if self.way.is_direct() || !self.turn.begun {
            self.cleared = self.out.len();
        }
        while let Some((kind, body)) = frame(&self.out[self.cleared..]) {
            if !self.turn.take(kind, body) {
                break;
            }
            self.cleared += HEADER + body.len();
        }
    }
}

impl<S: AsyncWrite + Unpin> Turns<S> {
    /// Sends what was let go.
    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.cleared > 0 {
            let sent = ready!(Pin::new(&mut self.stream).poll_write(cx, &self.out[..self.cleared]))?;
            if sent == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.out.advance(sent);
            self.cleared -= sent;
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Turns<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buf.filled().len();
        ready!(Pin::new(&mut this.stream).poll_read(cx, buf))?;
        if !this.way.is_direct() {
            let mut news = &buf.filled()[before..];
            while let Some(said) = this.ear.hear(&mut news) {
                match said {
                    Said::Process(backend) => this.way.backend.store(backend, Ordering::Relaxed),
                    Said::Ready(status) => this.turn.answered(status)?,
                    Said::CopyIn => this.turn.begin_copy(),
                }
            }
        }
        Poll::Ready(Ok(()))
    }
}

/// Whoever drives this reads, and flushes after it: what an answer lets go is sent then.
impl<S: AsyncWrite + Unpin> AsyncWrite for Turns<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        ready!(this.poll_send(cx))?;
        if this.way.is_direct() && this.out.is_empty() {
            return Pin::new(&mut this.stream).poll_write(cx, bytes);
        }
        this.out.extend_from_slice(bytes);
        this.clear();
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        this.clear();
        ready!(this.poll_send(cx))?;
        Pin::new(&mut this.stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.poll_send(cx))?;
        Pin::new(&mut this.stream).poll_shutdown(cx)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> TlsStream for Turns<S> {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

/// Whose turn it is.
#[derive(Debug, Default)]
struct Turn {
    /// Whether the greeting is over.
    begun: bool,
    /// Answers that are still to end.
    owed: u32,
    /// Whether what is sent now is in a transaction that does not end with it.
    in_transaction: bool,
    /// Whether parts of a statement were sent, and more of it follows.
    in_parts: bool,
}

impl Turn {
    /// Whether this may go now; it is taken for gone then.
    fn take(&mut self, kind: u8, body: &[u8]) -> bool {
        let is_copied = matches!(kind, b'd' | b'c' | b'f');
        if self.owed > 0 && !self.in_transaction && !self.in_parts && !is_copied {
            return false;
        }
        match kind {
            b'Q' => {
                self.owed += 1;
                self.in_transaction = text(body).eq_ignore_ascii_case("begin");
            }
            b'S' => {
                self.owed += 1;
                self.in_parts = false;
            }
            b'P' | b'B' => {
                self.in_parts = true;
                // A statement whose text is not here may be any.
                let (_, rest) = split_text(body);
                self.in_transaction &= match kind {
                    b'P' => leaves_transactions(text(rest)),
                    _ => text(rest).is_empty(),
                };
            }
            b'D' | b'E' | b'C' | b'H' => self.in_parts = true,
            // A copy's data, or the end.
            _ => {}
        }
        true
    }

    /// The session says that it is ready: idle, in a transaction, or in a failed one.
    fn answered(&mut self, status: u8) -> io::Result<()> {
        if self.begun && self.owed == 0 {
            // Somebody else's. So would the next answers be.
            return Err(io::Error::new(io::ErrorKind::InvalidData, "an answer to no question"));
        }
        self.begun = true;
        self.owed = self.owed.saturating_sub(1);
        if self.owed == 0 {
            self.in_transaction = status != b'I';
        } else if status == b'I' {
            // It did not begin, or ended before its time.
            self.in_transaction = false;
        }
        Ok(())
    }

    /// The session waits for data, and does not answer the end of the statement that asked for them.
    fn begin_copy(&mut self) {
        self.owed = self.owed.saturating_sub(1);
    }
}

/// Whether a statement, by its first word, begins no transaction and ends none.
fn leaves_transactions(sql: &str) -> bool {
    let word: String = sql.chars().take_while(char::is_ascii_alphabetic).collect();
    ["select", "with", "insert", "update", "delete"].iter().any(|known| word.eq_ignore_ascii_case(known))
}

/// A message's text, up to its end.
fn text(body: &[u8]) -> &str {
    std::str::from_utf8(split_text(body).0).unwrap_or_default().trim()
}

fn split_text(body: &[u8]) -> (&[u8], &[u8]) {
    let end = body.iter().position(|byte| *byte == 0).unwrap_or(body.len());
    (&body[..end], body.get(end + 1..).unwrap_or_default())
}

/// The first message, if it is all there, and its body.
fn frame(bytes: &[u8]) -> Option<(u8, &[u8])> {
    let (header, rest) = bytes.split_first_chunk::<HEADER>()?;
    Some((header[0], rest.get(..body_length(*header))?))
}

fn body_length([_, a, b, c, d]: [u8; HEADER]) -> usize {
    usize::try_from(i32::from_be_bytes([a, b, c, d])).unwrap_or_default().saturating_sub(4)
}

/// What matters of what the session says.
enum Said {
    /// The greeting named this process.
    Process(i32),
    Ready(u8),
    CopyIn,
}

/// Reads what comes in pieces of any size.
#[derive(Debug, Default)]
struct Ear {
    header: [u8; HEADER],
    /// Bytes of the header that were heard.
    got: usize,
    /// Bytes of the body that are to come.
    left: usize,
    /// The body's first bytes.
    start: [u8; 4],
    kept: usize,
}

impl Ear {
    /// The next thing that matters, in bytes that are used up by it.
    fn hear(&mut self, bytes: &mut &[u8]) -> Option<Said> {
        while !bytes.is_empty() {
            if self.got < HEADER {
                self.header[self.got] = bytes.get_u8();
                self.got += 1;
                if self.got == HEADER {
                    (self.left, self.kept) = (body_length(self.header), 0);
                }
            } else {
                let length = self.left.min(bytes.len());
                let (body, rest) = bytes.split_at(length);
                for byte in body.iter().take(self.start.len() - self.kept) {
                    self.start[self.kept] = *byte;
                    self.kept += 1;
                }
                (self.left, *bytes) = (self.left - length, rest);
            }
            if self.got == HEADER && self.left == 0 {
                self.got = 0;
                match self.header[0] {
                    b'Z' => return Some(Said::Ready(self.start[0])),
                    b'K' => return Some(Said::Process(i32::from_be_bytes(self.start))),
                    b'G' => return Some(Said::CopyIn),
                    _ => {}
                }
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

    use super::*;

    const IDLE: &[u8] = b"Z\0\0\0\x05I";
    const OPEN: &[u8] = b"Z\0\0\0\x05T";
    const FAILED: &[u8] = b"Z\0\0\0\x05E";

    /// A driver's end of a connection, and the server's.
    struct Wire {
        turns: Turns<DuplexStream>,
        server: DuplexStream,
    }

    impl Wire {
        /// Behind the greeting of a server that names process 7.
        async fn begin() -> Wire {
            let (near, server) = duplex(1 << 16);
            let mut wire = Wire { turns: Turns::new(near, Arc::default()), server };
            assert_eq!(wire.send(b"no kind, no turn").await, b"no kind, no turn");
            wire.answer(&[&message(b'K', &[0, 0, 0, 7, 1, 2, 3, 4]), IDLE].concat()).await;
            wire
        }

        /// What arrives when the driver sends this.
        async fn send(&mut self, bytes: &[u8]) -> Vec<u8> {
            self.turns.write_all(bytes).await.unwrap();
            self.turns.flush().await.unwrap();
            let mut arrived = vec![0; 1 << 16];
            let length = self.server.read(&mut arrived).now_or_never().map_or(0, Result::unwrap);
            arrived.truncate(length);
            arrived
        }

        /// What arrives when the driver has read this answer.
        async fn answer(&mut self, bytes: &[u8]) -> Vec<u8> {
            self.server.write_all(bytes).await.unwrap();
            let mut heard = vec![0; bytes.len()];
            self.turns.read_exact(&mut heard).await.unwrap();
            assert_eq!(heard, bytes);
            self.send(b"").await
        }
    }

    fn message(kind: u8, body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(body.len() + 4).unwrap();
        [&[kind][..], &length.to_be_bytes(), body].concat()
    }

    fn simple(sql: &str) -> Vec<u8> {
        message(b'Q', format!("{sql}\0").as_bytes())
    }

    fn extended(sql: &str) -> Vec<u8> {
        let parse = message(b'P', format!("name\0{sql}\0\0\0").as_bytes());
        [parse, message(b'B', b"\0\0"), message(b'E', b"\0"), message(b'S', b"")].concat()
    }

    #[tokio::test]
    async fn a_question_waits_for_the_end_of_the_answer_before_it() {
        let mut wire = Wire::begin().await;
        let (first, second, third) = (extended("select 1"), simple("select 2"), extended("select 3"));
        assert_eq!(wire.send(&[&first[..], &second, &third].concat()).await, first);
        assert_eq!(wire.answer(&message(b'E', b"an error is not the end")).await, b"");
        assert_eq!(wire.answer(IDLE).await, second);
        // In whatever pieces it comes.
        assert_eq!(wire.answer(&IDLE[..2]).await, b"");
        assert_eq!(wire.answer(&IDLE[2..]).await, third);
        assert_eq!(wire.send(&first).await, b"");
        assert_eq!(wire.answer(&message(b'D', IDLE)).await, b"", "that is data");
        assert_eq!(wire.answer(IDLE).await, first);
    }

    #[tokio::test]
    async fn the_statements_of_a_transaction_follow_each_other() {
        for (begin, end) in [("begin", "commit"), ("BEGIN", " ROLLBACK"), ("Begin", "end;")] {
            let mut wire = Wire::begin().await;
            let transaction =
                [simple(begin), extended("select 1"), extended("select 2"), simple(end)].concat();
            let next = simple("begin");
            assert_eq!(wire.send(&[&transaction[..], &next].concat()).await, transaction);
            assert_eq!(wire.answer(&[OPEN, OPEN, FAILED].concat()).await, b"");
            assert_eq!(wire.answer(IDLE).await, next);
        }
    }

    #[tokio::test]
    async fn how_a_session_answers_tells_whether_it_is_in_a_transaction() {
        let mut wire = Wire::begin().await;
        let begin = extended("begin isolation level serializable");
        let (first, second) = (extended("select 1"), extended("select 2"));
        assert_eq!(wire.send(&[&begin[..], &first, &second].concat()).await, begin);
        assert_eq!(wire.answer(OPEN).await, [&first[..], &second].concat());
        assert_eq!(wire.answer(&[OPEN, OPEN].concat()).await, b"");
        // A statement that may end it, however it is sent.
        let named = [message(b'B', b"\0name\0\0\0"), message(b'E', b"\0"), message(b'S', b"")].concat();
        for end in [extended("commit"), extended("/* */ select 1"), simple("select 1; commit"), named] {
            assert_eq!(wire.send(&[&end[..], &first].concat()).await, end);
            assert_eq!(wire.answer(OPEN).await, first);
            wire.answer(OPEN).await;
        }
    }

    #[tokio::test]
    async fn a_transaction_that_did_not_begin_is_none() {
        let mut wire = Wire::begin().await;
        let sent = [simple("begin"), extended("select 1")].concat();
        assert_eq!(wire.send(&sent).await, sent);
        assert_eq!(wire.answer(&[&message(b'E', b"canceled")[..], IDLE].concat()).await, b"");
        let next = extended("select 2");
        assert_eq!(wire.send(&next).await, b"");
        assert_eq!(wire.answer(IDLE).await, next);
    }

    #[tokio::test]
    async fn a_copy_is_not_held_up() {
        let mut wire = Wire::begin().await;
        let (copy, next) = (extended("copy t from stdin"), extended("select 1"));
        assert_eq!(wire.send(&copy).await, copy);
        wire.answer(&message(b'G', b"\0\0\0")).await;
        let data = [message(b'd', b"1\n"), message(b'c', b""), message(b'S', b"")].concat();
        assert_eq!(wire.send(&[&data[..], &next].concat()).await, data);
        assert_eq!(wire.answer(IDLE).await, next);
    }

    #[tokio::test]
    async fn an_answer_that_was_not_asked_for_ends_the_connection() {
        let mut wire = Wire::begin().await;
        wire.server.write_all(IDLE).await.unwrap();
        let error = wire.turns.read(&mut [0; 6]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    }

    #[tokio::test]
    async fn on_the_way_to_postgres_itself_nothing_waits() {
        let (first, second) = (extended("select 1"), extended("select 2"));
        for (backend, all) in [(7, true), (8, false), (0, false)] {
            let mut wire = Wire::begin().await;
            assert_eq!(wire.send(&[&first[..], &second].concat()).await, first);
            wire.turns.way.answered_by(backend);
            assert_eq!(wire.send(&first).await == [&second[..], &first].concat(), all, "{backend}");
        }
        // Who was not greeted does not know where it leads.
        let unknown = Way::default();
        unknown.answered_by(0);
        assert!(!unknown.is_direct());
    }

    #[tokio::test]
    async fn messages_arrive_whole_in_whatever_pieces_they_are_sent() {
        let mut wire = Wire::begin().await;
        let (first, second) = (extended("select 1"), simple("select 2"));
        let mut arrived = Vec::new();
        for byte in first.iter().chain(&second) {
            arrived.extend(wire.send(&[*byte]).await);
        }
        assert_eq!(arrived, first);
        assert_eq!(wire.answer(IDLE).await, second);
    }
}
