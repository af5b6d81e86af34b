//! Every route with tenant B's credential and tenant A's identifiers: what is A's looks to B as if it were not there.
//!
//! The routes come from the document the server itself serves. A route without a line here fails the test, and so
//! does a line without its route.

pub(crate) mod lines;
pub(crate) mod things;

use std::collections::BTreeSet;

use axum::http::Method;
use jobforge_core::Role;
use serde_json::Value;

use crate::world::{Answer, Key, World};
use lines::{LINES, Line, Probe};
use things::Things;

#[tokio::test]
async fn every_route_has_its_line_and_every_line_its_route() {
    let document: Value = serde_json::from_str(&jobforge_server::document()).unwrap();
    let mut routes = BTreeSet::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for method in item.as_object().unwrap().keys() {
            routes.insert(format!(
                "{} {}",
                method.to_uppercase(),
                path.strip_prefix("/api/v1").unwrap_or(path)
            ));
        }
    }
    let lines: BTreeSet<String> = LINES.iter().map(|line| line.route.to_owned()).collect();
    assert_eq!(lines.len(), LINES.len(), "a route has two lines");
    assert_eq!(routes, lines);
}

#[tokio::test]
async fn nothing_of_a_is_seen_or_changed_by_b() {
    let world = World::new().await;
    let things = Things::of_a(&world).await;
    let before = things.state(&world).await;
    for line in LINES {
        for role in [Role::TenantAdmin, Role::TenantViewer, Role::Producer, Role::Worker] {
            probe(&world, line, &world.key_of_b(role).await, &things).await;
        }
    }
    assert_eq!(things.state(&world).await, before, "something of A's was changed");
}

/// One route as one caller of B's.
async fn probe(world: &World, line: &Line, key: &Key, things: &Things) {
    match &line.probe {
        Probe::Nobodys => {}
        Probe::Own(body) => {
            let answer = ask(world, line, key, line.route, body.as_ref().map(|body| body(&things.ids))).await;
            for mark in things.marks() {
                assert!(!holds(&answer, &mark), "{} shows {mark} to B", line.route);
            }
        }
        Probe::Foreign(body) => {
            let (own, unknown) = (&things.ids, things::unknown());
            let foreign =
                ask(world, line, key, &own.fill(line.route), body.as_ref().map(|body| body(own))).await;
            let missing =
                ask(world, line, key, &unknown.fill(line.route), body.as_ref().map(|body| body(&unknown)))
                    .await;
            assert_eq!(
                (foreign.status, own.neutral(&foreign.bytes)),
                (missing.status, unknown.neutral(&missing.bytes)),
                "{} tells B's {} what is A's from what is not there",
                line.route,
                key.name,
            );
            assert!(!foreign.status.is_server_error(), "{}: {}", line.route, foreign.status);
        }
    }
}

async fn ask(world: &World, line: &Line, key: &Key, route: &str, body: Option<Value>) -> Answer {
    let (method, path) = route.split_once(' ').unwrap();
    let method = Method::from_bytes(method.as_bytes()).unwrap();
    world.send(Some(key), method, &format!("{path}{}", line.query), body).await
}

fn holds(answer: &Answer, mark: &str) -> bool {
    String::from_utf8_lossy(&answer.bytes).contains(mark)
}
