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
    line("GET /jobs/summary", Probe::Own(None)),
    line("POST /jobs/tick", Probe::Nobodys),
    line("GET /jobs/{id}", Probe::Foreign(None)),
    line("GET /jobs/{id}/attempts", Probe::Foreign(None)),
    line("GET /jobs/{id}/logs", Probe::Foreign(None)),
    line("GET /jobs/{id}/result", Probe::Foreign(None)),
    Line { query: "?timeout_seconds=0", ..line("GET /jobs/{id}/wait", Probe::Foreign(None)) },
    line("GET /jobs/{id}/explain", Probe::Foreign(None)),
    line("POST /jobs/{id}/cancel", Probe::Foreign(Some(|_| json!({ "reason": "not mine" })))),
    line("POST /jobs/{id}/retry", Probe::Foreign(None)),
    line("POST /jobs/{id}/reschedule", Probe::Foreign(Some(|_| json!({ "max_attempts": 9 })))),
    line("POST /jobs/{id}/redrive", Probe::Foreign(Some(|_| json!({})))),
    line("GET /dead-letters", Probe::Own(None)),
    line("GET /dead-letters/groups", Probe::Own(None)),
    line("GET /bulk", Probe::Own(None)),
    line(
        "POST /bulk",
        Probe::Own(Some(|_| json!({ "kind": "cancel", "filter": { "type": "test.noop" }, "reason": "all" }))),
    ),
    line("GET /bulk/{id}", Probe::Foreign(None)),
    line("GET /bulk/{id}/results", Probe::Foreign(None)),
    line("POST /bulk/{id}/resume", Probe::Foreign(None)),
    line("POST /bulk/{id}/undo", Probe::Foreign(None)),
    Line {
        query: "?metric=depth&from=2020-01-01T00:00:00Z&to=2020-01-02T00:00:00Z",
        ..line("GET /series", Probe::Own(None))
    },
    line("POST /worker/register", Probe::Own(Some(worker))),
    line("POST /worker/stop", Probe::Own(Some(|_| json!({ "worker_id": "w" })))),
    line("POST /worker/jobs/claim", Probe::Foreign(Some(claim))),
    line("POST /worker/heartbeat", Probe::Foreign(Some(|ids| json!({ "lease_id": ids.lease })))),
    line("POST /worker/jobs/complete", Probe::Foreign(Some(|ids| batch(ids, &json!({}))))),
    line("POST /worker/jobs/fail", Probe::Foreign(Some(|ids| batch(ids, &failure())))),
    line("POST /worker/jobs/release", Probe::Foreign(Some(|ids| batch(ids, &json!({}))))),
    line("POST /worker/jobs/{id}/complete", Probe::Foreign(Some(|ids| one(ids, &json!({}))))),
    line("POST /worker/jobs/{id}/fail", Probe::Foreign(Some(|ids| one(ids, &failure())))),
    line("POST /worker/jobs/{id}/release", Probe::Foreign(Some(|ids| one(ids, &json!({}))))),
    line("POST /worker/jobs/{id}/heartbeat", Probe::Foreign(Some(|ids| one(ids, &json!({}))))),
    line("POST /worker/jobs/{id}/snooze", Probe::Foreign(Some(|ids| one(ids, &json!({ "seconds": 5 }))))),
    line(
        "POST /worker/jobs/{id}/progress",
        Probe::Foreign(Some(|ids| one(ids, &json!({ "percent": 5, "message": "mine" })))),
    ),
    line(
        "POST /worker/jobs/{id}/log",
        Probe::Foreign(Some(|ids| one(ids, &json!({ "lines": [{ "level": "info", "message": "mine" }] })))),
    ),
    line("POST /worker/jobs/{id}/exit", Probe::Foreign(Some(|ids| one(ids, &json!({ "exit_code": 0 }))))),
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

fn worker(_: &Ids) -> Value {
    json!({ "worker_id": "w", "host": "h", "version": "1", "queues": ["default"], "types": ["test.noop"], "slots": 1 })
}

fn claim(ids: &Ids) -> Value {
    json!({ "worker_id": "w", "queues": ["default"], "types": ["test.noop"], "limit": 5, "lease_id": ids.lease })
}

fn failure() -> Value {
    json!({ "class": "permanent", "error": "mine" })
}

/// A report on the running job, without its tenant: the credential's own is meant.
fn batch(ids: &Ids, more: &Value) -> Value {
    let job = with(json!({ "id": ids.running, "fence": 1 }), more);
    json!({ "lease_id": ids.lease, "jobs": [job] })
}

/// A report on the job of the path, whose tenant is named.
fn one(ids: &Ids, more: &Value) -> Value {
    with(json!({ "lease_id": ids.lease, "tenant_id": ids.tenant, "fence": 1 }), more)
}

fn with(mut body: Value, more: &Value) -> Value {
    let members = more.as_object().into_iter().flatten().map(|(name, value)| (name.clone(), value.clone()));
    if let Some(body) = body.as_object_mut() {
        body.extend(members);
    }
    body
}
