//! Just enough of the Postgres protocol to tell which answer belongs to which statement.
//!
//! Every `Query`, `Sync` and `FunctionCall` of a client is answered by exactly one `ReadyForQuery`, after
//! one for the login. Counting both sides finds the end of an answer even when statements are pipelined.

use std::collections::HashMap;

/// One connection as seen from the middle.
#[derive(Debug, Default)]
pub(crate) struct Wire {
    client: Vec<u8>,
    logged_in: bool,
    /// Statement name to SQL text: a `Bind` names a statement that was parsed long before.
    statements: HashMap<Vec<u8>, Vec<u8>>,
    /// Client messages so far that the server answers with a `ReadyForQuery`.
    requests: u64,
    /// One-byte answers to requests for encryption that are still to come.
    bare_answers: usize,
    header: Vec<u8>,
    body_left: usize,
    /// `ReadyForQuery` messages so far.
    ready: u64,
    /// The `ReadyForQuery` that ends the answer to be held back.
    held: Option<u64>,
}

/// What may go to the client.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Passage {
    /// How many of the bytes.
    pub(crate) bytes: usize,
    /// Whether the answer to be held back is complete.
    pub(crate) answered: bool,
}

impl Wire {
    /// Takes note of the client's bytes. When they run a statement whose text or parameters contain
    /// `needle` (in any case), its answer is held back from now on, and `true` is returned.
    pub(crate) fn client_bytes(&mut self, bytes: &[u8], needle: Option<&str>) -> bool {
        self.client.extend_from_slice(bytes);
        let mut found = false;
        while let Some(message) = self.next_client_message() {
            let (kind, body) = (message[0], &message[5..]);
            if kind == b'P'
                && let [name, sql, ..] = strings(body)[..]
            {
                self.statements.insert(name.to_vec(), sql.to_vec());
            }
            if self.held.is_none() && needle.is_some_and(|needle| self.runs(kind, body, needle)) {
                self.held = Some(self.requests + 2);
                found = true;
            }
            if matches!(kind, b'Q' | b'S' | b'F') {
                self.requests += 1;
            }
        }
        found
    }

    /// Takes note of the server's bytes and says which may pass.
    pub(crate) fn server_bytes(&mut self, bytes: &[u8]) -> Passage {
        let last_passing = self.held.map(|held| held - 1);
        let mut passing = if last_passing.is_some_and(|last| self.ready >= last) { 0 } else { bytes.len() };
        let mut at = 0;
        while at < bytes.len() {
            if self.header.is_empty() && self.bare_answers > 0 {
                self.bare_answers -= 1;
                at += 1;
                continue;
            }
            if self.header.len() < 5 {
                self.header.push(bytes[at]);
                at += 1;
                self.body_left = length(self.header.get(1..5)).unwrap_or(4).saturating_sub(4);
            } else {
                let step = self.body_left.min(bytes.len() - at);
                at += step;
                self.body_left -= step;
            }
            if self.header.len() == 5 && self.body_left == 0 {
                if self.header[0] == b'Z' {
                    self.ready += 1;
                    if Some(self.ready) == last_passing {
                        passing = at;
                    }
                }
                self.header.clear();
            }
        }
        Passage { bytes: passing, answered: self.held.is_some_and(|held| self.ready >= held) }
    }

    /// The next whole message with its kind; login packets, which have no kind, are passed over.
    fn next_client_message(&mut self) -> Option<Vec<u8>> {
        const ENCRYPTION_REQUESTS: [usize; 2] = [80_877_103, 80_877_104];
        while !self.logged_in {
            let size = length(self.client.get(..4))?;
            let packet = take(&mut self.client, size)?;
            let asks_encryption =
                length(packet.get(4..8)).is_some_and(|code| ENCRYPTION_REQUESTS.contains(&code));
            if asks_encryption {
                self.bare_answers += 1;
            } else {
                self.logged_in = true;
            }
        }
        let size = length(self.client.get(1..5))?;
        take(&mut self.client, size + 1)
    }

    fn runs(&self, kind: u8, body: &[u8], needle: &str) -> bool {
        match kind {
            b'Q' => contains(body, needle),
            b'B' => {
                let statement = strings(body).get(1).and_then(|name| self.statements.get(*name));
                contains(body, needle) || statement.is_some_and(|sql| contains(sql, needle))
            }
            _ => false,
        }
    }
}

fn length(bytes: Option<&[u8]>) -> Option<usize> {
    let bytes: [u8; 4] = bytes?.try_into().ok()?;
    usize::try_from(u32::from_be_bytes(bytes)).ok()
}

fn take(buffer: &mut Vec<u8>, size: usize) -> Option<Vec<u8>> {
    (buffer.len() >= size).then(|| buffer.drain(..size).collect())
}

/// The zero-ended strings at the start of a body: in `Parse` name and SQL, in `Bind` portal and name.
fn strings(body: &[u8]) -> Vec<&[u8]> {
    body.splitn(3, |byte| *byte == 0).collect()
}

fn contains(body: &[u8], needle: &str) -> bool {
    body.windows(needle.len()).any(|window| window.eq_ignore_ascii_case(needle.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u8, body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(body.len() + 4).unwrap().to_be_bytes();
        [&[kind], &length[..], body].concat()
    }

    fn logged_in() -> Wire {
        let mut wire = Wire::default();
        wire.client_bytes(&[0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f], None);
        wire.client_bytes(&[0, 0, 0, 9, 0, 3, 0, 0, 0], None);
        wire.server_bytes(b"N");
        wire.server_bytes(&message(b'Z', b"I"));
        wire
    }

    #[test]
    fn only_the_answer_to_the_statement_is_held_back() {
        let mut wire = logged_in();
        assert!(!wire.client_bytes(&message(b'Q', b"select 1\0"), Some("commit")));
        assert!(wire.client_bytes(&message(b'Q', b"COMMIT\0"), Some("commit")));
        let earlier = [message(b'C', b"SELECT 1\0"), message(b'Z', b"T")].concat();
        let both = [earlier.clone(), message(b'C', b"COMMIT\0"), message(b'Z', b"I")].concat();
        assert_eq!(wire.server_bytes(&both), Passage { bytes: earlier.len(), answered: true });
    }

    #[test]
    fn a_statement_is_found_by_its_name_when_it_runs_and_not_when_it_is_prepared() {
        let mut wire = logged_in();
        assert!(!wire.client_bytes(&message(b'P', b"s1\0select claim()\0\0\0"), Some("claim")));
        assert!(!wire.client_bytes(&message(b'S', b""), Some("claim")));
        assert!(wire.client_bytes(&message(b'B', b"\0s1\0\0\0\0\0\0\0"), Some("claim")));
        wire.client_bytes(&message(b'S', b""), None);
        let prepared = message(b'Z', b"I");
        assert_eq!(wire.server_bytes(&prepared), Passage { bytes: prepared.len(), answered: false });
        assert_eq!(wire.server_bytes(&message(b'D', b"row")), Passage { bytes: 0, answered: false });
        assert_eq!(wire.server_bytes(&message(b'Z', b"I")), Passage { bytes: 0, answered: true });
    }

    #[test]
    fn messages_may_come_byte_by_byte() {
        let mut wire = logged_in();
        let bytes = message(b'Q', b"commit\0");
        let found = bytes.iter().filter(|byte| wire.client_bytes(&[**byte], Some("COMMIT"))).count();
        assert_eq!(found, 1);
        let answers = message(b'Z', b"I");
        let passed: Vec<_> = answers.iter().map(|byte| wire.server_bytes(&[*byte])).collect();
        assert!(passed.iter().all(|passage| passage.bytes == 0));
        assert!(passed.last().unwrap().answered);
    }
}
