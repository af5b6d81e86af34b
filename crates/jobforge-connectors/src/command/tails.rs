//! The end of what a program printed: bounded, whole lines, readable whatever the bytes are.

/// The most that is kept of a stream.
pub(super) const MOST: usize = 64 * 1024;

/// Keeps the last bytes of a stream, however long it is.
#[derive(Debug, Default)]
pub(super) struct Tail {
    kept: Vec<u8>,
    /// Whether earlier bytes are gone.
    cut: bool,
}

impl Tail {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        if bytes.len() >= MOST {
            self.cut |= bytes.len() > MOST || !self.kept.is_empty();
            self.kept.clear();
            self.kept.extend_from_slice(&bytes[bytes.len() - MOST..]);
            return;
        }
        self.kept.extend_from_slice(bytes);
        // Moved seldom: only when twice as much is there.
        if self.kept.len() > 2 * MOST {
            self.trim();
        }
    }

    /// The last whole lines as text, and nothing if nothing was printed.
    pub(super) fn text(mut self) -> Option<String> {
        self.trim();
        let text = visible(whole_lines(&self.kept, self.cut));
        let text = if text.len() > MOST { last_of(&text) } else { text };
        (!text.is_empty()).then_some(text)
    }

    /// The last line that is not empty; an error when its beginning is not kept any more.
    pub(super) fn last_line(&self) -> Result<&[u8], TooLong> {
        let mut lines = self.kept.rsplit(|byte| *byte == b'\n');
        let line = lines.by_ref().find(|line| !line.trim_ascii().is_empty());
        match line {
            Some(_) if self.cut && lines.next().is_none() => Err(TooLong),
            line => Ok(line.unwrap_or_default().trim_ascii()),
        }
    }

    fn trim(&mut self) {
        if self.kept.len() > MOST {
            self.kept.drain(..self.kept.len() - MOST);
            self.cut = true;
        }
    }
}

/// A line that is longer than what is kept.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooLong;

/// Text in which NUL and what is no UTF-8 show as `\xNN`.
pub(super) fn visible(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for (at, piece) in chunk.valid().split('\0').enumerate() {
            text.push_str(if at > 0 { "\\x00" } else { "" });
            text.push_str(piece);
        }
        text.extend(chunk.invalid().iter().map(|byte| format!("\\x{byte:02x}")));
    }
    text
}

/// Without the rest of a line whose beginning is gone, unless there is no other.
fn whole_lines(bytes: &[u8], cut: bool) -> &[u8] {
    let end = bytes.iter().position(|byte| *byte == b'\n').map(|at| at + 1);
    match end {
        Some(end) if cut && end < bytes.len() => &bytes[end..],
        _ => bytes,
    }
}

/// The last lines of a text that grew when it was made visible.
fn last_of(text: &str) -> String {
    let from = (text.len() - MOST..text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
    let lines = whole_lines(&text.as_bytes()[from..], true);
    text[text.len() - lines.len()..].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tail(pushes: &[&[u8]]) -> Tail {
        let mut tail = Tail::default();
        pushes.iter().for_each(|bytes| tail.push(bytes));
        tail
    }

    #[test]
    fn the_last_whole_lines_are_kept_however_much_there_was() {
        let line = |n: usize| format!("line {n}\n");
        let all: String = (0..50_000).map(line).collect();
        let pieces: Vec<&[u8]> = all.as_bytes().chunks(1000).collect();
        for pushes in [pieces, vec![all.as_bytes()]] {
            let tail = tail(&pushes);
            assert!(tail.kept.capacity() <= 8 * MOST, "{}", tail.kept.capacity());
            let text = tail.text().unwrap();
            assert!(text.len() <= MOST && text.len() > MOST - 20, "{}", text.len());
            assert!(text.starts_with("line ") && text.ends_with("line 49999\n"));
        }
        assert_eq!(tail(&[b"a\nb"]).text().as_deref(), Some("a\nb"));
        assert_eq!(tail(&[]).text(), None);
        let endless = tail(&[&[b'x'; 3 * MOST]]).text().unwrap();
        assert_eq!(endless.len(), MOST, "one endless line is better than none");
    }

    #[test]
    fn what_is_no_text_is_made_visible_and_stays_within_the_bound() {
        assert_eq!(visible(b"a\0b\xff\xfe\xc3\xa4\xc3"), "a\\x00b\\xff\\xfe\u{e4}\\xc3");
        let noise = tail(&[&[0xff; MOST]]).text().unwrap();
        assert!(noise.len() <= MOST && noise.ends_with("\\xff"));
        let lines = tail(&[&b"\xff\xff\n".repeat(30_000)]).text().unwrap();
        assert!(lines.len() <= MOST && lines.starts_with("\\xff\\xff\n"));
    }

    #[test]
    fn the_last_line_is_found_or_known_to_be_too_long() {
        assert_eq!(tail(&[b"a\n {\"b\": 1} \n\n \n"]).last_line(), Ok(&b"{\"b\": 1}"[..]));
        assert_eq!(tail(&[b"a"]).last_line(), Ok(&b"a"[..]));
        assert_eq!(tail(&[]).last_line(), Ok(&b""[..]));
        assert_eq!(tail(&[&[b'x'; MOST + 1]]).last_line(), Err(TooLong));
        assert_eq!(tail(&[&[b'x'; MOST + 1], b"\nend"]).last_line(), Ok(&b"end"[..]));
    }
}
