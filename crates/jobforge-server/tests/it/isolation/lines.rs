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
    line("GET /admin/jobs/definitions", Probe::Own(None)),
    line("POST /admin/jobs/definitions", Probe::Own(Some(|_| json!({ "key": "test.more" })))),
    line("GET /admin/jobs/definitions/{key}", Probe::Own(None)),
    line("PUT /admin/jobs/definitions/{key}", Probe::Own(Some(|_| json!({})))),
    line("DELETE /admin/jobs/definitions/{key}", Probe::Own(None)),
    line("GET /admin/tenants", Probe::Own(None)),
    line("GET /admin/tenants/{id}", Probe::Foreign(None)),
    line("PUT /admin/tenants/{id}", Probe::Foreign(Some(|_| json!({ "weight": 9 })))),
    line("GET /admin/pauses", Probe::Own(None)),
    line("POST /admin/pauses", Probe::Foreign(Some(|ids| json!({ "kind": "tenant", "name": ids.tenant })))),
    line("DELETE /admin/pauses/{kind}/{name}", Probe::Own(None)),
    line("GET /admin/keys", Probe::Own(None)),
    line(
        "POST /admin/keys",
        Probe::Foreign(Some(|ids| json!({ "role": "producer", "tenant_id": ids.tenant }))),
    ),
    line("DELETE /admin/keys/{id}", Probe::Foreign(None)),
    line("GET /admin/connectors", Probe::Own(None)),
    line("GET /admin/connectors/{name}", Probe::Foreign(None)),
    line("PUT /admin/connectors/{name}", Probe::Own(Some(|_| json!({ "settings": {} })))),
    line("DELETE /admin/connectors/{name}", Probe::Foreign(None)),
    line("POST /admin/connectors/{name}/enable", Probe::Foreign(None)),
    line("GET /admin/workers", Probe::Own(None)),
    line("GET /admin/queues", Probe::Own(None)),
    line("GET /admin/system", Probe::Own(None)),
    line("GET /admin/series", Probe::Own(None)),
    line("GET /admin/audit", Probe::Own(None)),
    line("GET /audit", Probe::Own(None)),
];
