//! One HTTP client for everything outbound: outside the egress guard nobody makes another, and no crate brings
//! one along.

use super::{Violation, is_test_file};
use crate::source::{Tree, leading_word, line_of, rust::RustSource, words_at};

const RULE: &str = "egress";
const HOME: &str = "crates/jobforge-connectors/src/egress/";
/// The crate whose manifest may name the client.
const OWNER: &str = "crates/jobforge-connectors/Cargo.toml";
const CLIENT: &str = "reqwest";
/// What others may take from the client's crate: words about requests, nothing that sends one.
const WORDS: [&str; 3] = ["Method", "StatusCode", "header"];
const OTHER_CLIENTS: [&str; 9] =
    ["attohttpc", "awc", "curl", "hyper_rustls", "hyper_tls", "isahc", "minreq", "surf", "ureq"];
/// Crates that hold a client beside other things.
const HALF_CLIENTS: [&str; 2] = ["hyper", "hyper_util"];

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for (path, text) in tree.iter().filter(|(path, _)| path.starts_with("crates/")) {
        if path.ends_with(".rs") && path.contains("/src/") && !path.starts_with(HOME) && !is_test_file(path) {
            found.extend(clients(path, text));
        } else if path.ends_with("/Cargo.toml") {
            found.extend(dependencies(path, text));
        }
    }
    found
}

fn clients(path: &str, text: &str) -> Vec<Violation> {
    let source = RustSource::new(text);
    let code = source.code();
    let end = source.tests_from_line().unwrap_or(usize::MAX);
    let after = |crate_name: &'static str| {
        words_at(&code, crate_name).map(|at| (at, &code[at + crate_name.len()..])).collect::<Vec<_>>()
    };
    let own = after(CLIENT).into_iter().filter(|(_, rest)| !takes_only(rest, &WORDS));
    let others = OTHER_CLIENTS.into_iter().flat_map(after).filter(|(_, rest)| rest.starts_with("::"));
    let halves = HALF_CLIENTS.into_iter().flat_map(after).filter(|(_, rest)| takes(rest, "client"));
    let places = own.chain(others).chain(halves).map(|(at, _)| line_of(text, at));
    places.filter(|line| *line < end).map(|line| complaint(path, line)).collect()
}

fn complaint(path: &str, line: usize) -> Violation {
    Violation::at(RULE, (path, line), format!("an HTTP client outside {HOME}: requests go through Egress"))
}

/// The first segments of what stands behind a crate's name: `::a::b` has `a`, `::{a, b::c}` has `a` and `b`.
fn segments(rest: &str) -> Vec<&str> {
    let Some(path) = rest.strip_prefix("::") else { return Vec::new() };
    let Some(group) = path.strip_prefix('{') else { return vec![leading_word(path)] };
    let (mut depth, mut start, mut parts) = (0, 0, Vec::new());
    for (at, byte) in group.bytes().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' if depth > 0 => depth -= 1,
            b',' | b'}' if depth == 0 => {
                parts.push(leading_word(group[start..at].trim_start()));
                start = at + 1;
                if byte == b'}' {
                    break;
                }
            }
            _ => {}
        }
    }
    parts.retain(|part| !part.is_empty());
    parts
}

/// Whether nothing but these is taken; the bare crate could be taken under another name.
fn takes_only(rest: &str, allowed: &[&str]) -> bool {
    let segments = segments(rest);
    !segments.is_empty() && segments.iter().all(|segment| allowed.contains(segment))
}

fn takes(rest: &str, segment: &str) -> bool {
    segments(rest).contains(&segment)
}

/// What a crate is built with; what only its tests need sends nothing in production.
fn dependencies(path: &str, text: &str) -> Vec<Violation> {
    let mut section = "";
    let mut found = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.starts_with('[') {
            section = line;
        }
        let in_table = section.strip_prefix("[dependencies.").map(|name| name.trim_end_matches(']'));
        let name = in_table.filter(|_| line.starts_with('[')).unwrap_or_else(|| name_of(line));
        let brought =
            name == CLIENT && path != OWNER || OTHER_CLIENTS.contains(&name.replace('-', "_").as_str());
        if brought && section.contains("dependencies") && !section.contains("dev-dependencies") {
            found.push(Violation::at(
                RULE,
                (path, index + 1),
                format!("{name} is an HTTP client of its own"),
            ));
        }
    }
    found
}

/// `reqwest = …` and `reqwest.workspace = true` name the same.
fn name_of(line: &str) -> &str {
    let end = line.find(['=', '.', ' ']).unwrap_or(line.len());
    &line[..end]
}

#[cfg(test)]
mod tests {
    use super::super::complaints;
    use super::*;

    const WORKER: &str = "crates/jobforge-worker/src/runner.rs";

    #[test]
    fn a_client_outside_the_guard_fails() {
        for code in [
            "let c = reqwest::Client::new();",
            "let c = reqwest::ClientBuilder::new();",
            "use reqwest::{Method, Client};",
            "use reqwest::{header::{ACCEPT, HeaderMap}, blocking::Client};",
            "use reqwest::*;",
            "use reqwest as web;",
            "use reqwest;",
            "reqwest::get(url).await",
            "use hyper_util::client::legacy::Client;",
            "use hyper_util::{rt::TokioExecutor, client::legacy};",
            "hyper::client::conn::http1::handshake(io)",
            "ureq::get(url).call()",
        ] {
            let told = complaints(check, &[(WORKER, &format!("\n{code}"))]);
            assert_eq!(
                told,
                [format!("{WORKER}:2: [egress] an HTTP client outside {HOME}: requests go through Egress")],
                "{code}"
            );
        }
    }

    #[test]
    fn words_about_requests_tests_and_the_guard_itself_pass() {
        let client = "reqwest::Client::new()";
        let files = [
            (WORKER, "use reqwest::{Method, StatusCode};\nuse reqwest::header::{ACCEPT, HeaderMap};"),
            (
                "crates/jobforge/src/a.rs",
                "// reqwest::Client\nlet a = \"reqwest::Client\";\nuse hyper_util::rt;",
            ),
            ("crates/jobforge/src/b.rs", "#[cfg(test)]\nmod tests { use reqwest::Client; }"),
            ("crates/jobforge-connectors/src/egress/mod.rs", client),
            ("crates/jobforge/tests/it/a.rs", client),
            ("bench/src/a.rs", client),
        ];
        assert_eq!(complaints(check, &files), Vec::<String>::new());
    }

    #[test]
    fn a_crate_that_brings_a_client_along_fails() {
        let manifest = "crates/jobforge/Cargo.toml";
        for text in [
            "[dependencies]\nreqwest.workspace = true",
            "[dependencies]\nureq = \"3\"",
            "[build-dependencies]\nreqwest = { version = \"1\" }",
            "\n[dependencies.reqwest]\nversion = \"1\"",
        ] {
            assert_eq!(complaints(check, &[(manifest, text)]).len(), 1, "{text}");
        }
        let fine = [
            (OWNER, "[dependencies]\nreqwest.workspace = true"),
            (manifest, "[dependencies]\nserde = \"1\"\n[dev-dependencies]\nureq = \"3\""),
        ];
        assert_eq!(complaints(check, &fine), Vec::<String>::new());
    }
}
