//! What a browser may do here by itself, without a header that only its user's programs can set.
//!
//! A page of somebody else's can make a browser send requests, with cookies; it cannot make it send `Authorization`,
//! for this server allows no cross-origin reads. So requests with that header are not looked at here. All others:
//! the name they came under must be ours, or a foreign name that was pointed at this machine would make that page
//! one of our own (DNS rebinding); and what changes something must come from a page of ours.

use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, Method, StatusCode, Uri, header};
use std::net::IpAddr;

use crate::problem::Problem;

const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The name or address, without the port, under which the caller sees this server.
pub(crate) fn host<'a>(headers: &'a HeaderMap, uri: &'a Uri) -> Option<&'a str> {
    authority(headers, uri).map(without_port)
}

/// Refuses a request that came under a name which is not ours. An address is no name: nobody else can point it here. A
/// request without a host comes from no browser.
pub(crate) fn require_host(headers: &HeaderMap, uri: &Uri, ours: &[String]) -> Result<(), Problem> {
    let Some(host) = host(headers, uri) else { return Ok(()) };
    let known = ours.iter().any(|name| without_port(name).eq_ignore_ascii_case(host));
    if known || address(host).is_some() || is_localhost(host) {
        return Ok(());
    }
    let detail = "the server does not go by this host name; server.hosts lists those it goes by";
    Err(Problem::malformed("host_unknown", detail).with_status(StatusCode::MISDIRECTED_REQUEST))
}

/// Whether the caller sees this server on its own machine, where nobody listens in between.
pub(crate) fn is_local(headers: &HeaderMap, uri: &Uri) -> bool {
    host(headers, uri).is_some_and(|host| {
        is_localhost(host) || address(host).is_some_and(|address| address.to_canonical().is_loopback())
    })
}

/// Refuses a change that a page of somebody else's may have asked for: the browser must say that it was one of ours.
pub(crate) fn require_own_page(parts: &Parts) -> Result<(), Problem> {
    match came_from(parts) {
        _ if !changes(&parts.method) => Ok(()),
        Page::Own => Ok(()),
        Page::Unknown | Page::Foreign => Err(foreign()),
    }
}

/// The same for requests without a cookie, which need not come from a browser at all.
pub(crate) fn refuse_foreign_page(parts: &Parts) -> Result<(), Problem> {
    match came_from(parts) {
        Page::Own | Page::Unknown => Ok(()),
        Page::Foreign => Err(foreign()),
    }
}

enum Page {
    Own,
    Foreign,
    /// The caller does not say.
    Unknown,
}

/// By `Sec-Fetch-Site`, which no page can forge; by `Origin` where a browser is too old for it.
fn came_from(parts: &Parts) -> Page {
    let text = |name: &HeaderName| parts.headers.get(name).map(|value| value.to_str().unwrap_or_default());
    let own = |yes: bool| if yes { Page::Own } else { Page::Foreign };
    if let Some(site) = text(&FETCH_SITE) {
        return own(site == "same-origin");
    }
    let Some(origin) = text(&header::ORIGIN) else { return Page::Unknown };
    let origin = origin.strip_prefix("https://").or_else(|| origin.strip_prefix("http://"));
    let here = authority(&parts.headers, &parts.uri);
    own(origin.zip(here).is_some_and(|(origin, here)| origin.eq_ignore_ascii_case(here)))
}

fn foreign() -> Problem {
    let detail = "a session changes something only from a page of this server";
    Problem::forbidden("cross_site", detail)
}

fn changes(method: &Method) -> bool {
    !matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS)
}

fn authority<'a>(headers: &'a HeaderMap, uri: &'a Uri) -> Option<&'a str> {
    let given = headers.get(header::HOST).map(|value| value.to_str().unwrap_or("?"));
    given.or_else(|| uri.authority().map(axum::http::uri::Authority::as_str))
}

fn without_port(authority: &str) -> &str {
    match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|c| c.is_ascii_digit()) && !host.ends_with(':') => host,
        _ => authority,
    }
}

fn address(host: &str) -> Option<IpAddr> {
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    bare.parse().ok()
}

fn is_localhost(host: &str) -> bool {
    let host = host.to_ascii_lowercase();
    host == "localhost" || host.ends_with(".localhost")
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::Request;

    fn parts(headers: &[(&str, &str)]) -> Parts {
        let mut request = Request::builder().method(Method::POST).uri("/api/v1/session");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap().into_parts().0
    }

    #[test]
    fn names_are_ours_addresses_or_localhost() {
        let ours = ["jobs.example.com".to_owned()];
        let known = |host: &str| {
            let parts = parts(&[("host", host)]);
            require_host(&parts.headers, &parts.uri, &ours).is_ok()
        };
        for host in [
            "jobs.example.com",
            "JOBS.example.com:8080",
            "localhost:1",
            "127.0.0.1:8080",
            "[::1]:80",
            "10.0.0.7",
        ] {
            assert!(known(host), "{host}");
        }
        for host in [
            "evil.example",
            "jobs.example.com.evil.example",
            "localhost.evil.example",
            "127.0.0.1.nip.io",
            "",
        ] {
            assert!(!known(host), "{host}");
        }
    }

    #[test]
    fn only_this_machine_is_local() {
        let local = |host: &str| {
            let parts = parts(&[("host", host)]);
            is_local(&parts.headers, &parts.uri)
        };
        assert!(["localhost", "localhost:80", "127.0.0.1:1", "[::1]", "a.localhost"].into_iter().all(local));
        assert!(!["10.0.0.7", "jobs.example.com", "[::2]:80"].into_iter().any(local));
    }

    #[test]
    fn a_change_must_come_from_a_page_of_ours() {
        let here = ("host", "jobs.example.com:8080");
        for (headers, own, not_foreign) in [
            (vec![here], false, true),
            (vec![here, ("sec-fetch-site", "same-origin")], true, true),
            (vec![here, ("sec-fetch-site", "same-site")], false, false),
            (
                vec![here, ("sec-fetch-site", "cross-site"), ("origin", "http://jobs.example.com:8080")],
                false,
                false,
            ),
            (vec![here, ("origin", "https://jobs.example.com:8080")], true, true),
            (vec![here, ("origin", "https://jobs.example.com")], false, false),
            (vec![here, ("origin", "https://evil.example")], false, false),
            (vec![here, ("origin", "null")], false, false),
        ] {
            let parts = parts(&headers);
            assert_eq!(require_own_page(&parts).is_ok(), own, "{headers:?}");
            assert_eq!(refuse_foreign_page(&parts).is_ok(), not_foreign, "{headers:?}");
        }
    }
}
