//! What a program prints: read always and to the end, so that it never waits for us; its last lines kept, its
//! lines passed on while it runs, its amount bounded.

use std::io::BufRead;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jobforge_worker::{Context, Level};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::tails::{Tail, visible};

/// The longest line that is passed on; the rest of it is left out.
const LINE: usize = 4096;
/// The most lines of an attempt that the database keeps, and room for a last word.
const LINES: usize = 9_999;
/// How much may wait to be stored; what comes beyond that is left out of the log.
const WAITING: usize = 4 * 1024 * 1024;

/// What both streams of a program share.
pub(super) struct Output {
    /// How much may be printed.
    most: u64,
    printed: AtomicU64,
    /// Told once too much was printed.
    pub(super) flooded: Notify,
    lines: AtomicUsize,
    waiting: AtomicUsize,
    left_out: AtomicUsize,
    tails: [Mutex<Tail>; 2],
}

/// One of a program's streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stream {
    Stdout,
    Stderr,
}

impl Stream {
    fn level(self) -> Level {
        match self {
            Stream::Stdout => Level::Info,
            Stream::Stderr => Level::Warn,
        }
    }
}

/// Lines on their way to the log.
pub(super) type Lines = UnboundedReceiver<(Level, String)>;

impl Output {
    pub(super) fn new(most: u64) -> Arc<Output> {
        let (printed, lines, waiting) = (AtomicU64::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
        let (flooded, left_out) = (Notify::new(), AtomicUsize::new(0));
        let tails = Default::default();
        Arc::new(Output { most, printed, flooded, lines, waiting, left_out, tails })
    }

    pub(super) fn channel() -> (UnboundedSender<(Level, String)>, Lines) {
        unbounded_channel()
    }

    /// Reads a stream to its end and keeps its tail.
    pub(super) async fn read(
        self: Arc<Output>,
        which: Stream,
        mut stream: impl AsyncRead + Unpin,
        log: UnboundedSender<(Level, String)>,
    ) {
        let level = which.level();
        let mut line = Line::default();
        let mut buffer = vec![0; 64 * 1024];
        loop {
            let read = stream.read(&mut buffer).await.unwrap_or(0);
            if read == 0 {
                break;
            }
            let bytes = &buffer[..read];
            self.tail(which).push(bytes);
            line.push(bytes, |text| self.pass_on(level, text, &log));
            let amount = u64::try_from(read).unwrap_or(u64::MAX);
            if self.printed.fetch_add(amount, Ordering::Relaxed).saturating_add(amount) > self.most {
                self.flooded.notify_one();
            }
        }
        line.end(|text| self.pass_on(level, text, &log));
    }

    /// What was kept of a stream, whether or not it has ended.
    pub(super) fn take(&self, which: Stream) -> Tail {
        std::mem::take(&mut self.tail(which))
    }

    fn tail(&self, which: Stream) -> MutexGuard<'_, Tail> {
        let [stdout, stderr] = &self.tails;
        let tail = if which == Stream::Stdout { stdout } else { stderr };
        tail.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pass_on(&self, level: Level, bytes: &[u8], log: &UnboundedSender<(Level, String)>) {
        // Counted up to the end and not beyond: a program may print for days.
        if self.lines.load(Ordering::Relaxed) >= LINES || self.waiting.load(Ordering::Relaxed) > WAITING {
            self.left_out.fetch_add(1, Ordering::Relaxed);
            return;
        }
        self.lines.fetch_add(1, Ordering::Relaxed);
        let text = visible(bytes);
        self.waiting.fetch_add(text.len(), Ordering::Relaxed);
        let _ = log.send((level, text));
    }

    /// Hands the lines to the attempt's log, and at the end says how many were left out.
    pub(super) async fn forward(self: Arc<Output>, mut lines: Lines, context: Context) {
        while let Some((level, text)) = lines.recv().await {
            self.waiting.fetch_sub(text.len(), Ordering::Relaxed);
            context.log(level, text).await;
        }
        let left_out = self.left_out.load(Ordering::Relaxed);
        if left_out > 0 {
            context.log(Level::Warn, format!("{left_out} more lines are not in this log")).await;
        }
    }
}

/// A line that grows from read to read, as far as it is passed on.
#[derive(Default)]
struct Line {
    begun: Vec<u8>,
    cut: bool,
}

impl Line {
    fn push(&mut self, bytes: &[u8], mut whole: impl FnMut(&[u8])) {
        let mut rest = bytes;
        while !rest.is_empty() {
            let line = rest;
            // The fast search for one byte; a slice cannot fail.
            let length = rest.skip_until(b'\n').unwrap_or(line.len());
            let piece = line[..length].strip_suffix(b"\n");
            let (piece, ends) = piece.map_or((&line[..length], false), |piece| (piece, true));
            let room = LINE - self.begun.len();
            self.cut |= piece.len() > room;
            self.begun.extend_from_slice(&piece[..piece.len().min(room)]);
            if ends {
                self.pass(&mut whole);
            }
        }
    }

    fn end(&mut self, mut whole: impl FnMut(&[u8])) {
        if !self.begun.is_empty() {
            self.pass(&mut whole);
        }
    }

    fn pass(&mut self, whole: &mut impl FnMut(&[u8])) {
        if std::mem::take(&mut self.cut) {
            // The cut may have hit a character: what is left of it would show as bytes.
            let end = self.begun.utf8_chunks().map(|chunk| chunk.valid().len()).sum::<usize>();
            if self.begun.len() - end < 4 && std::str::from_utf8(&self.begun[..end]).is_ok() {
                self.begun.truncate(end);
            }
            self.begun.extend_from_slice("…".as_bytes());
        } else if self.begun.ends_with(b"\r") {
            self.begun.pop();
        }
        whole(&self.begun);
        self.begun.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(pieces: &[&[u8]]) -> Vec<String> {
        let (mut line, mut found) = (Line::default(), Vec::new());
        for piece in pieces {
            line.push(piece, |text| found.push(visible(text)));
        }
        line.end(|text| found.push(visible(text)));
        found
    }

    #[test]
    fn lines_are_whole_whatever_the_reads_are() {
        assert_eq!(lines(&[b"a\nb", b"c\r\n", b"\nlast"]), ["a", "bc", "", "last"]);
        assert_eq!(lines(&[b"a\n"]), ["a"]);
        assert!(lines(&[]).is_empty());
    }

    #[test]
    fn a_long_line_is_cut_and_says_so() {
        let long = "ä".repeat(LINE);
        let found = lines(&[b"x", long.as_bytes(), b"\nnext"]);
        assert_eq!(found.len(), 2);
        assert!(found[0].ends_with("ä…") && found[0].len() <= LINE + 3, "{}", found[0].len());
        assert_eq!(found[1], "next");
    }
}
