//! What is kept of an answer: little enough for a row, readable where it is text, and no credentials.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use reqwest::header::HeaderMap;
use serde::Serialize;

use crate::egress::Response;

/// Headers that hold credentials or ask for them.
const LEFT_OUT: [&str; 8] = [
    "authentication-info",
    "authorization",
    "cookie",
    "proxy-authenticate",
    "proxy-authorization",
    "set-cookie",
    "set-cookie2",
    "www-authenticate",
];
const MAX_HEADERS: usize = 50;
const MAX_HEADER_BYTES: usize = 8 * 1024;

/// An answer as a job's result.
#[derive(Debug, Serialize)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: String,
    pub(crate) body_encoding: Encoding,
    pub(crate) truncated: bool,
    pub(crate) duration_ms: u64,
}

/// How a body is written down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Encoding {
    /// As it is.
    Text,
    /// In Base64: it is no text, or none that the database can keep.
    Base64,
}

impl Answer {
    /// What is kept. A config's secrets are hidden by the worker, which was told them when the config was found.
    pub(crate) fn of(response: &Response) -> Answer {
        let (body, body_encoding) = written(&response.body.bytes, response.body.is_cut());
        Answer {
            status: response.status.as_u16(),
            headers: kept(&response.headers).collect(),
            body,
            body_encoding,
            truncated: response.body.is_cut(),
            duration_ms: u64::try_from(response.elapsed.as_millis()).unwrap_or(u64::MAX),
        }
    }

    /// The answer in one sentence, for an error.
    pub(crate) fn told(&self, host: &str) -> String {
        let status = reqwest::StatusCode::from_u16(self.status).ok();
        let reason = status.and_then(|status| status.canonical_reason()).unwrap_or("without a known reason");
        let (dots, status) = (if self.truncated { " …" } else { "" }, self.status);
        match (self.body_encoding, self.body.trim()) {
            (Encoding::Text, body) if !body.is_empty() => {
                format!("{host} answered {status} {reason}: {body}{dots}")
            }
            _ => format!("{host} answered {status} {reason}"),
        }
    }
}

fn kept(headers: &HeaderMap) -> impl Iterator<Item = (String, String)> {
    let mut room = MAX_HEADER_BYTES;
    let open = headers.iter().filter(|(name, _)| !LEFT_OUT.contains(&name.as_str())).take(MAX_HEADERS);
    let open = open.map(|(name, value)| {
        (name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned())
    });
    open.take_while(move |(name, value)| {
        let size = name.len() + value.len();
        let fits = size <= room;
        room = room.saturating_sub(size);
        fits
    })
}

/// Text that the database can keep stays text. Control characters would grow sixfold in JSON, and a NUL has
/// no place in Postgres at all.
fn written(bytes: &[u8], cut: bool) -> (String, Encoding) {
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => Some(text),
        // The cut may go through a character.
        Err(error) if cut && error.error_len().is_none() => {
            std::str::from_utf8(&bytes[..error.valid_up_to()]).ok()
        }
        Err(_) => None,
    };
    let plain = |text: &&str| !text.chars().any(|c| c.is_ascii_control() && !matches!(c, '\t' | '\n' | '\r'));
    match text.filter(plain) {
        Some(text) => (text.to_owned(), Encoding::Text),
        None => (STANDARD.encode(bytes), Encoding::Base64),
    }
}

#[cfg(test)]
mod tests {
    use reqwest::header::{HeaderName, HeaderValue};

    use super::*;

    #[test]
    fn bodies_are_written_so_that_they_can_be_kept() {
        assert_eq!(written(b"a\tb\r\n", false), ("a\tb\r\n".to_owned(), Encoding::Text));
        assert_eq!(written("aé".as_bytes(), false), ("aé".to_owned(), Encoding::Text));
        assert_eq!(written(b"a\xc3", true), ("a".to_owned(), Encoding::Text), "cut through a character");
        assert_eq!(written(b"a\xc3", false).1, Encoding::Base64);
        assert_eq!(written(b"a\0b", false), ("YQBi".to_owned(), Encoding::Base64));
        assert_eq!(written(b"\x1b[31m", false).1, Encoding::Base64);
    }

    #[test]
    fn credentials_are_left_out_and_the_rest_is_capped() {
        let mut headers = HeaderMap::new();
        for name in LEFT_OUT {
            headers.insert(name, HeaderValue::from_static("secret"));
        }
        headers.insert("x-a", HeaderValue::from_bytes(b"\xff").unwrap());
        assert_eq!(kept(&headers).collect::<Vec<_>>(), [("x-a".to_owned(), "\u{fffd}".to_owned())]);
        for number in 0..90 {
            let name = HeaderName::from_bytes(format!("x-{number}").as_bytes()).unwrap();
            headers.insert(name, HeaderValue::from_static("v"));
        }
        assert_eq!(kept(&headers).count(), MAX_HEADERS);
        headers.insert("x-a", HeaderValue::from_bytes(&[b'v'; 9000]).unwrap());
        assert!(
            kept(&headers).map(|(name, value)| name.len() + value.len()).sum::<usize>() <= MAX_HEADER_BYTES
        );
    }
}
