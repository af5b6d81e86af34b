//! The routes and how each is probed.

use serde_json::{Value, json};

use super::things::Ids;

/// A route and its probe.
pub(crate) struct Line {
    /// As the document tells it, without the root.
    pub(crate) route: &'static str,
    /// What stands behind the path.
    pub(crate) query: &'static str,
    pub(crate) probe: Probe,
}

type Body = fn(&Ids) -> Value;

/// How a route is probed.
pub(crate) enum Probe {
    /// It tells and takes nothing of any tenant.
    Nobodys,
    /// It names no subject: its answer must hold nothing of A's.
    Own(Option<Body>),
    /// It names a subject: A's must be answered as one that is not there.
    Foreign(Option<Body>),
}

const fn line(route: &'static str, probe: Probe) -> Line {
    Line { route, query: "", probe }
}

pub(crate) const LINES: &[Line] = &[
    line("GET /health/live", Probe::Nobodys),
    line("GET /health/ready", Probe::Nobodys),
    line("POST /bootstrap", Probe::Nobodys),
    line("POST /session", Probe::Nobodys),
    line("GET /session", Probe::Own(None)),
    line("DELETE /session", Probe::Own(None)),
    line("GET /jobs", Probe::Own(None)),
    line("POST /jobs", Probe::Own(Some(|_| json!({ "type": "test.noop" })))),
    line("GET /jobs/{id}", Probe::Foreign(None)),
];
