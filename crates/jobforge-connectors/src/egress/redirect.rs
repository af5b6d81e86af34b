//! Redirects, followed by hand, so that every hop passes the same checks as the first.

use bytes::Bytes;
use reqwest::header::{ACCEPT, ACCEPT_LANGUAGE, CONTENT_TYPE, HeaderMap, HeaderName, LOCATION, USER_AGENT};
use reqwest::{Method, StatusCode};
use url::Url;

use super::error::EgressError;

/// Headers that go along to another origin; all others may be meant for the first one alone.
const FOR_EVERYBODY: [HeaderName; 5] =
    [ACCEPT, ACCEPT_LANGUAGE, CONTENT_TYPE, USER_AGENT, HeaderName::from_static("traceparent")];

/// One request of a chain.
#[derive(Clone, Debug)]
pub(super) struct Hop {
    pub(super) method: Method,
    pub(super) url: Url,
    pub(super) headers: HeaderMap,
    pub(super) body: Option<Bytes>,
}

impl Hop {
    pub(super) fn host(&self) -> &str {
        self.url.host_str().unwrap_or_default()
    }

    /// Where this answer leads; nowhere if it is no redirect.
    pub(super) fn next(&self, status: StatusCode, answer: &HeaderMap) -> Result<Option<Hop>, EgressError> {
        if !matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308) {
            return Ok(None);
        }
        let Some(location) = answer.get(LOCATION) else { return Ok(None) };
        let host = || self.host().to_owned();
        let lost = || EgressError::Location { host: host() };
        let location = std::str::from_utf8(location.as_bytes()).map_err(|_| lost())?;
        let url = self.url.join(location).map_err(|_| lost())?;
        if self.url.scheme() == "https" && url.scheme() != "https" {
            return Err(EgressError::Downgrade { host: host() });
        }
        let mut next = Hop { url, ..self.clone() };
        if becomes_get(status, &self.method) {
            next.method = Method::GET;
            next.body = None;
            next.headers.remove(CONTENT_TYPE);
        }
        if next.url.origin() != self.url.origin() {
            next.headers = kept(&next.headers);
        }
        Ok(Some(next))
    }
}

/// As every browser does, and as RFC 9110 allows: what was posted is not posted again elsewhere.
fn becomes_get(status: StatusCode, method: &Method) -> bool {
    match status.as_u16() {
        301 | 302 => *method == Method::POST,
        303 => *method != Method::HEAD,
        _ => false,
    }
}

fn kept(headers: &HeaderMap) -> HeaderMap {
    // What is marked as secret stays behind under any name.
    let open = headers.iter().filter(|(name, value)| FOR_EVERYBODY.contains(name) && !value.is_sensitive());
    open.map(|(name, value)| (name.clone(), value.clone())).collect()
}

#[cfg(test)]
mod tests {
    use reqwest::header::{AUTHORIZATION, COOKIE, HeaderValue};

    use super::*;

    fn hop(method: Method, url: &str) -> Hop {
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, HeaderValue::from_static("Bearer a"));
        headers.insert(COOKIE, HeaderValue::from_static("a=b"));
        headers.insert("x-api-key", HeaderValue::from_static("a"));
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
        headers.insert(ACCEPT, HeaderValue::from_static("text/html"));
        let mut secret = HeaderValue::from_static("key");
        secret.set_sensitive(true);
        headers.insert(USER_AGENT, secret);
        Hop { method, url: url.parse().unwrap(), headers, body: Some(Bytes::from_static(b"body")) }
    }

    fn next(hop: &Hop, status: u16, location: &str) -> Result<Option<Hop>, EgressError> {
        let mut answer = HeaderMap::new();
        answer.insert(LOCATION, HeaderValue::from_str(location).unwrap());
        hop.next(StatusCode::from_u16(status).unwrap(), &answer)
    }

    #[test]
    fn another_origin_gets_neither_credentials_nor_secrets() {
        for location in ["https://b.example/", "https://a.example:8443/", "//b.example/x"] {
            let other = next(&hop(Method::GET, "https://a.example/"), 307, location).unwrap().unwrap();
            let names: Vec<&str> = other.headers.keys().map(HeaderName::as_str).collect();
            assert_eq!(names, ["content-type", "accept"], "{location}");
        }
        let upgraded =
            next(&hop(Method::GET, "http://a.example/"), 301, "https://a.example/").unwrap().unwrap();
        assert!(!upgraded.headers.contains_key(AUTHORIZATION));
        let same = next(&hop(Method::GET, "https://a.example/x/y"), 302, "../z?q=1").unwrap().unwrap();
        assert_eq!(same.url.as_str(), "https://a.example/z?q=1");
        assert!(same.headers.contains_key(AUTHORIZATION) && same.headers.contains_key("x-api-key"));
    }

    #[test]
    fn the_method_follows_the_status() {
        let cases = [
            (Method::POST, 301, Method::GET),
            (Method::POST, 302, Method::GET),
            (Method::PUT, 302, Method::PUT),
            (Method::PUT, 303, Method::GET),
            (Method::HEAD, 303, Method::HEAD),
            (Method::POST, 307, Method::POST),
            (Method::DELETE, 308, Method::DELETE),
        ];
        for (method, status, expected) in cases {
            let after = next(&hop(method.clone(), "https://a.example/"), status, "/b").unwrap().unwrap();
            assert_eq!(after.method, expected, "{method} {status}");
            assert_eq!(after.body.is_some(), method == expected, "{method} {status}");
            assert_eq!(after.headers.contains_key(CONTENT_TYPE), method == expected, "{method} {status}");
        }
    }

    #[test]
    fn what_leads_nowhere_or_down_is_told() {
        let from = hop(Method::GET, "https://a.example/");
        assert!(matches!(next(&from, 302, "http://a.example/"), Err(EgressError::Downgrade { .. })));
        assert!(matches!(next(&from, 302, "ftp://a.example/"), Err(EgressError::Downgrade { .. })));
        assert!(matches!(next(&from, 302, "http://[broken"), Err(EgressError::Location { .. })));
        assert!(next(&from, 304, "/b").unwrap().is_none());
        assert!(from.next(StatusCode::FOUND, &HeaderMap::new()).unwrap().is_none());
    }
}
