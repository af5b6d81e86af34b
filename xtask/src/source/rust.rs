//! Rust text taken apart into code, comments and string literals by a lexer of one pass.

use super::{is_word_byte, line_of};

/// A Rust file, lexed.
pub(crate) struct RustSource<'a> {
    text: &'a str,
    pieces: Vec<Piece>,
}

/// A function found in a file.
pub(crate) struct RustFunction {
    pub(crate) name: String,
    pub(crate) line: usize,
    /// Lines between the braces that hold more than a comment, which is how clippy counts too.
    pub(crate) body_lines: usize,
    /// What stands between the item before and the `fn`: attributes and visibility.
    pub(crate) attributes: String,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Comment,
    Literal,
}

struct Piece {
    kind: Kind,
    start: usize,
    end: usize,
}

impl<'a> RustSource<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        Self { text, pieces: lex(text.as_bytes()) }
    }

    /// The text with comments and literals blanked; offsets and lines stay as they are.
    pub(crate) fn code(&self) -> String {
        self.blank(|_| true)
    }

    /// Comments with their lines.
    pub(crate) fn comments(&self) -> impl Iterator<Item = (usize, &'a str)> + '_ {
        self.pieces_of(Kind::Comment)
    }

    /// String and character literals with their lines, quotes and prefixes included.
    pub(crate) fn literals(&self) -> impl Iterator<Item = (usize, &'a str)> + '_ {
        self.pieces_of(Kind::Literal)
    }

    pub(crate) fn functions(&self) -> Vec<RustFunction> {
        let code = self.code();
        let counted = self.blank(|kind| kind == Kind::Comment);
        super::words_at(&code, "fn")
            .filter_map(|at| {
                // A function pointer's type has no name.
                let name =
                    Some(super::leading_word(code[at + 2..].trim_start())).filter(|name| !name.is_empty())?;
                let (open, close) = body(code.as_bytes(), at)?;
                let before = code[..at].rfind([';', '}', '{']).map_or(0, |index| index + 1);
                let body_lines =
                    counted[open + 1..close].lines().filter(|line| !line.trim().is_empty()).count();
                Some(RustFunction {
                    name: name.to_owned(),
                    line: line_of(self.text, at),
                    body_lines,
                    attributes: code[before..at].to_owned(),
                })
            })
            .collect()
    }

    /// The line from which on the file is its test module, if it ends in one.
    pub(crate) fn tests_from_line(&self) -> Option<usize> {
        let code = self.code();
        code.match_indices("#[cfg(test)]")
            .find(|(at, mark)| code[at + mark.len()..].trim_start().starts_with("mod "))
            .map(|(at, _)| line_of(self.text, at))
    }

    fn pieces_of(&self, kind: Kind) -> impl Iterator<Item = (usize, &'a str)> + '_ {
        let wanted = self.pieces.iter().filter(move |piece| piece.kind == kind);
        wanted.map(|piece| (line_of(self.text, piece.start), &self.text[piece.start..piece.end]))
    }

    fn blank(&self, hide: impl Fn(Kind) -> bool) -> String {
        let mut bytes = self.text.as_bytes().to_vec();
        for piece in self.pieces.iter().filter(|piece| hide(piece.kind)) {
            bytes[piece.start..piece.end]
                .iter_mut()
                .filter(|byte| **byte != b'\n')
                .for_each(|byte| *byte = b' ');
        }
        String::from_utf8(bytes).expect("pieces begin and end at characters")
    }
}

/// The offsets of a function's braces; `None` for a declaration without a body.
fn body(code: &[u8], from: usize) -> Option<(usize, usize)> {
    let mut nesting = 0_usize;
    let mut open = None;
    for (index, byte) in code.iter().enumerate().skip(from) {
        match byte {
            b'(' | b'[' => nesting += 1,
            b')' | b']' => nesting = nesting.checked_sub(1)?,
            b'{' => {
                if nesting == 0 && open.is_none() {
                    open = Some(index);
                }
                nesting += 1;
            }
            b'}' => {
                nesting = nesting.checked_sub(1)?;
                if nesting == 0 && open.is_some() {
                    return Some((open?, index));
                }
            }
            b';' if nesting == 0 && open.is_none() => return None,
            _ => {}
        }
    }
    None
}

fn lex(text: &[u8]) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut at = 0;
    while at < text.len() {
        let (kind, end) = match text[at] {
            b'/' if text[at..].starts_with(b"//") => (Kind::Comment, find(text, at, b"\n")),
            b'/' if text[at..].starts_with(b"/*") => (Kind::Comment, block_comment_end(text, at)),
            b'"' => (Kind::Literal, quoted_end(text, at + 1, b'"')),
            b'\'' => match char_end(text, at) {
                Some(end) => (Kind::Literal, end),
                None => {
                    at += 1;
                    continue;
                }
            },
            byte if is_word_byte(byte) => match raw_string_end(text, at) {
                Some(end) => (Kind::Literal, end),
                None => {
                    at += text[at..].iter().take_while(|byte| is_word_byte(**byte)).count();
                    continue;
                }
            },
            _ => {
                at += 1;
                continue;
            }
        };
        pieces.push(Piece { kind, start: at, end });
        at = end;
    }
    pieces
}

/// The offset of `needle` at or after `from`, or the end of the text.
fn find(text: &[u8], from: usize, needle: &[u8]) -> usize {
    text[from..]
        .windows(needle.len())
        .position(|window| window == needle)
        .map_or(text.len(), |found| from + found)
}

fn block_comment_end(text: &[u8], start: usize) -> usize {
    let mut depth = 0_usize;
    let mut at = start;
    while at < text.len() {
        if text[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if text[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    text.len()
}

fn quoted_end(text: &[u8], mut at: usize, quote: u8) -> usize {
    while at < text.len() {
        match text[at] {
            b'\\' => at += 2,
            byte if byte == quote => return at + 1,
            _ => at += 1,
        }
    }
    text.len()
}

/// The end of a character literal; `None` when the quote begins a lifetime.
fn char_end(text: &[u8], start: usize) -> Option<usize> {
    if text.get(start + 1) == Some(&b'\\') {
        return Some(quoted_end(text, start + 1, b'\''));
    }
    let width = text[start + 1..].iter().skip(1).take_while(|byte| (0x80..0xC0).contains(*byte)).count() + 1;
    (text.get(start + 1 + width) == Some(&b'\'')).then_some(start + width + 2)
}

/// The end of a string with hashes (`r#"…"#`, `br"…"`), whose backslashes mean nothing. Escaped strings with
/// a prefix (`b"…"`) need nothing special: the prefix is code and the rest an ordinary string.
fn raw_string_end(text: &[u8], start: usize) -> Option<usize> {
    let prefix = text[start..].iter().take_while(|byte| is_word_byte(**byte)).count();
    if !matches!(&text[start..start + prefix], b"r" | b"br" | b"cr") {
        return None;
    }
    let hashes = text[start + prefix..].iter().take_while(|byte| **byte == b'#').count();
    let open = start + prefix + hashes;
    if text.get(open) != Some(&b'"') {
        return None;
    }
    let mut close = vec![b'"'];
    close.resize(hashes + 1, b'#');
    Some((find(text, open + 1, &close) + close.len()).min(text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_comments_and_literals_are_told_apart() {
        let text = "let a = \"x // y\"; // \"no\"\nlet c = '\"'; /* a /* b */ c */ fn f<'a>(s: &'a str) {}";
        let source = RustSource::new(text);
        assert_eq!(source.literals().map(|(_, text)| text).collect::<Vec<_>>(), ["\"x // y\"", "'\"'"]);
        assert_eq!(source.comments().map(|(line, _)| line).collect::<Vec<_>>(), [1, 2]);
        assert!(source.code().contains("fn f<'a>(s: &'a str) {}"));
    }

    #[test]
    fn raw_strings_end_at_their_hashes() {
        let source = RustSource::new("let a = r#\"one \" two \\\"#; let b = 'é'; let c = r\"x\";");
        assert_eq!(source.literals().count(), 3);
        assert!(source.code().trim_end().ends_with(';'));
    }

    #[test]
    fn a_body_is_counted_without_comments_and_blank_lines() {
        let text = "trait T { fn declared(&self) -> u8; }\nfn f() -> [u8; 2] {\n    // why\n\n    let s = \"}\n}\";\n    g(s)\n}\n";
        let functions = RustSource::new(text).functions();
        let found: Vec<_> = functions.iter().map(|f| (f.name.as_str(), f.line, f.body_lines)).collect();
        assert_eq!(found, [("f", 2, 3)]);
    }
}
