//! A canary at the redacted places of jobs in every state, said by their workers wherever a worker can say something:
//! no function for people and no table they may read shows it. And each guard, taken away, is missed.

use std::collections::BTreeMap;

use jobforge_testkit::TestDb;
use serde_json::json;
use tokio_postgres::Client;
use tokio_postgres::types::Json;
use uuid::Uuid;

use super::{CANARY, rule};
use crate::schema::calls::{Held, act_for, claim, enqueue_with};
use crate::schema::{APP, NOOP, OPERATOR, TENANT_A, WORKER, connect_as, migrated, mutated, told};

/// How a function for people is looked at.
enum Look {
    /// By these calls, of which each must answer something.
    Calls(&'static [&'static str]),
    /// Not: it tells numbers and names.
    Numbers,
    /// Not: it is about the system, not about jobs.
    System,
    /// Not: it tells what it was given by its caller.
    Argument,
}
use Look::{Argument, Calls, Numbers, System};

/// Every function that a tenant or an operator may execute. `$T` is the tenant, `$QUEUED`, `$RUNNING`, `$DEAD`, `$DONE`
/// jobs, `$OPERATION` a redrive.
const LOOKS: &[(&str, Look)] = &[
    ("canonical", Argument),
    ("clock", Numbers),
    ("dedupe_key", Argument),
    ("definition_rules", Calls(&["jobforge.definition_rules('{test.noop}')"])),
    ("pre_request", System),
    (
        "get_job",
        Calls(&[
            "jobforge.get_job($T, $QUEUED)",
            "jobforge.get_job($T, $RUNNING)",
            "jobforge.get_job($T, $DEAD)",
            "jobforge.get_job($T, $DONE)",
        ]),
    ),
    ("list_jobs", Calls(&["jobforge.list_jobs($T)", "jobforge.list_jobs($T, p_payload => '{\"open\": 1}')"])),
    ("list_logs", Calls(&["jobforge.list_logs($T, $RUNNING)", "jobforge.list_logs($T, $DONE)"])),
    ("list_audit", Calls(&["jobforge.list_audit($T)"])),
    ("list_system_audit", Calls(&["jobforge.list_system_audit()"])),
    ("record_audit", System),
    ("finished_jobs", Numbers),
    ("create_api_key", System),
    ("find_api_key", System),
    // Of credentials: nothing of a job's.
    ("create_session", System),
    ("find_session", System),
    ("end_session", System),
    ("list_api_keys", System),
    ("revoke_api_key", System),
    ("touch_api_keys", Numbers),
    ("has_keys", Numbers),
    (
        "list_attempts",
        Calls(&[
            "jobforge.list_attempts($T, $RUNNING)",
            "jobforge.list_attempts($T, $DEAD)",
            "jobforge.list_attempts($T, $DONE)",
        ]),
    ),
    (
        "explain_job",
        Calls(&[
            "jobforge.explain_job($T, $QUEUED)",
            "jobforge.explain_job($T, $RUNNING)",
            "jobforge.explain_job($T, $DEAD)",
        ]),
    ),
    ("list_dead_letters", Calls(&["jobforge.list_dead_letters($T)"])),
    ("group_dead_letters", Calls(&["jobforge.group_dead_letters($T)"])),
    ("redrive_jobs", Calls(&["jobforge.redrive_jobs($T, array[$DEAD], p_dry_run => true)"])),
    ("get_bulk", Calls(&["jobforge.get_bulk($T, $OPERATION)", "jobforge.get_bulk($T, $UNDER_WAY)"])),
    ("list_bulks", Calls(&["jobforge.list_bulks($T)"])),
    (
        "list_bulk_results",
        Calls(&[
            "jobforge.list_bulk_results($T, $OPERATION)",
            "jobforge.list_bulk_results($T, p_job_id => $DEAD)",
        ]),
    ),
    (
        "start_bulk",
        Calls(&[
            "jobforge.start_bulk($T, 'redrive', '{\"statuses\": [\"failed\"]}', p_dry_run => true, p_patch =>
        '[{\"op\": \"add\", \"path\": \"/card\", \"value\": {\"number\": \"canary-4111-1111\"}}]')",
        ]),
    ),
    ("step_bulk", Calls(&["jobforge.step_bulk($T, $UNDER_WAY, 1)"])),
    ("undo_bulk", Calls(&["jobforge.undo_bulk($T, $OPERATION, 1)"])),
    ("cancel_job", Calls(&["jobforge.cancel_job($T, $RUNNING)"])),
    ("reschedule_job", Calls(&["jobforge.reschedule_job($T, $QUEUED, jobforge.clock())"])),
    ("retry_job", Calls(&["jobforge.retry_job($T, $QUEUED)"])),
    (
        "enqueue_job",
        Calls(&["jobforge.enqueue_job($T, 'test.noop', '{\"card\": {\"number\": \"canary-4111-1111\"}}')"]),
    ),
    ("enqueue_gathered", Numbers),
    (
        "enqueue_jobs",
        Calls(&[
            "jobforge.enqueue_jobs($T, '{test.noop}', array['{\"card\": {\"number\": \"canary-4111-1111\"}}'::jsonb])",
        ]),
    ),
    (
        "enqueue_plain",
        Calls(&["jobforge.enqueue_plain($T, 'test.noop', '{\"card\": {\"number\": \"canary-4111-1111\"}}')"]),
    ),
    ("job_summary", Calls(&["jobforge.job_summary($T)"])),
    ("read_series", Numbers),
    ("bind_login", System),
    ("lead", System),
    ("list_definitions", Calls(&["jobforge.list_definitions()"])),
    ("list_forgotten_pauses", System),
    ("list_pauses", System),
    ("list_starved", System),
    ("list_stranded", System),
    ("list_stuck_leases", System),
    ("list_tenants", System),
    ("list_workers", Calls(&["jobforge.list_workers()"])),
    ("pause", System),
    ("promote_due", Numbers),
    ("prune", Numbers),
    ("queue_summary", Calls(&["jobforge.queue_summary()"])),
    ("read_system_series", Numbers),
    ("reap", Numbers),
    ("resign", System),
    ("resume", System),
    ("sample_stats", Numbers),
    ("system_state", Calls(&["jobforge.system_state()"])),
    ("upkeep_partitions", Numbers),
    ("upsert_definition", System),
    ("upsert_tenant", System),
    ("announce_artifact", Numbers),
    ("attach_artifact", Numbers),
    ("collect_artifacts", Numbers),
    ("confirm_artifacts", Numbers),
    ("upsert_connector_config", System),
    ("get_connector_config", System),
    ("list_connector_configs", System),
    ("delete_connector_config", System),
    ("enable_connector_config", System),
    ("list_sealed_secrets", System),
    ("reseal_secret", System),
];

/// With what every canary begins.
const MARK: &str = "canary-";

const PAYLOAD: &str = r#"{"card": {"number": "canary-4111-1111"}, "items": [{"secret": "canary-item-22"}], "token": "canary-token-333",
    "note": "also canary-4111-1111 here", "open": 1}"#;

/// Jobs in every state, with the names that calls have for them.
async fn jobs(db: &TestDb) -> BTreeMap<&'static str, Uuid> {
    let (app, worker, operator) =
        (connect_as(db, APP).await, connect_as(db, WORKER).await, connect_as(db, OPERATOR).await);
    let schema = r#"'{"properties": {"token": {"writeOnly": true}}}'"#;
    rule(&operator, "'{/card/number,/items/*/secret}'", schema).await.unwrap();
    let extra =
        format!("'{PAYLOAD}', p_dedupe_key => jobforge.dedupe_key('{TENANT_A}', '{NOOP}', '{PAYLOAD}')");
    let mut ids = BTreeMap::from([("$T", TENANT_A)]);
    for name in ["$DEAD", "$LETTER", "$DONE", "$RUNNING"] {
        enqueue_with(&app, TENANT_A, NOOP, &format!("'{PAYLOAD}'")).await.unwrap();
        let job = claim(&worker, "w1", 1).await.unwrap().remove(0);
        assert_eq!(job.payload["token"], "canary-token-333", "the worker gets what was given");
        speak(&worker, &job).await;
        match name {
            "$DEAD" | "$LETTER" => fail(&worker, &job).await,
            "$DONE" => complete(&worker, &job).await,
            _ => {}
        }
        ids.insert(name, job.id);
    }
    ids.insert("$QUEUED", enqueue_with(&app, TENANT_A, NOOP, &extra).await.unwrap().0);
    let patch = format!(r#"'[{{"op": "replace", "path": "/card/number", "value": "{CANARY}"}}]'"#);
    let sql = format!(
        "select distinct operation_id from jobforge.redrive_jobs('{TENANT_A}', array['{}'::uuid], p_patch => {patch})",
        ids["$DEAD"]
    );
    ids.insert("$OPERATION", app.query_one(&sql, &[]).await.unwrap().get(0));
    let sql = format!(
        "select id from jobforge.start_bulk('{TENANT_A}', 'redrive', '{{\"statuses\": [\"dead\"]}}', p_patch => {patch})"
    );
    ids.insert("$UNDER_WAY", app.query_one(&sql, &[]).await.unwrap().get(0));
    ids
}

/// Says the canary in every way a running job can.
async fn speak(worker: &Client, job: &Held) {
    let text = "charging canary-4111-1111 with canary-item-22 and canary-token-333";
    let log = "select jobforge.append_log($1, $2, $3, $4, '{info}', array[$5::text])";
    worker.query(log, &[&job.lease_id, &job.tenant_id, &job.id, &job.fence, &text]).await.unwrap();
    let progress = "select jobforge.report_progress($1, $2, $3, $4, 50, $5)";
    worker.query(progress, &[&job.lease_id, &job.tenant_id, &job.id, &job.fence, &text]).await.unwrap();
    let exit = "select jobforge.report_exit($1, $2, $3, $4, 4711, 1, null, $5, $5)";
    worker.query(exit, &[&job.lease_id, &job.tenant_id, &job.id, &job.fence, &text]).await.unwrap();
}

async fn fail(worker: &Client, job: &Held) {
    let text = "card canary-4111-1111 and canary-item-22 were declined by canary-token-333";
    let sql = "select * from jobforge.fail_job($1, $2, $3, $4, 'permanent', $5, p_stdout_tail => $5, p_stderr_tail => $5)";
    worker.query(sql, &[&job.lease_id, &job.tenant_id, &job.id, &job.fence, &text]).await.unwrap();
}

async fn complete(worker: &Client, job: &Held) {
    let result = json!({"card": {"number": "canary-of-the-result"}, "echo": {"of": [CANARY]}, "items": [{"secret": 7}]});
    let sql = "select jobforge.complete_job($1, $2, $3, $4, $5)";
    worker.query(sql, &[&job.lease_id, &job.tenant_id, &job.id, &job.fence, &Json(result)]).await.unwrap();
}

/// Where people see the canary: the functions and tables by name.
async fn leaks(db: &TestDb) -> Vec<String> {
    let ids = jobs(db).await;
    let mut found = Vec::new();
    for login in [APP, OPERATOR] {
        let client = connect_as(db, login).await;
        act_for(&client, TENANT_A).await.unwrap();
        let looks: BTreeMap<&str, &Look> = LOOKS.iter().map(|(name, look)| (*name, look)).collect();
        for name in granted(&client).await {
            match looks.get(name.as_str()) {
                Some(Calls(calls)) => {
                    for call in *calls {
                        if seen(&client, &filled(call, &ids)).await {
                            found.push(name.clone());
                        }
                    }
                }
                Some(Numbers | System | Argument) => {}
                None => panic!("{name} is granted to {login} and not looked at"),
            }
        }
        for (table, columns) in readable(&client).await {
            let sql = format!(
                "select count(*) from jobforge.{table} as t where concat_ws(' ', {columns}) like '%{MARK}%'"
            );
            if client.query_one(&sql, &[]).await.unwrap().get::<_, i64>(0) > 0 {
                found.push(table);
            }
        }
    }
    found.sort();
    found.dedup();
    found
}

fn filled(call: &str, ids: &BTreeMap<&str, Uuid>) -> String {
    // The longest names first: one may begin with another.
    let mut names: Vec<_> = ids.iter().collect();
    names.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
    names.iter().fold(call.to_owned(), |call, (name, id)| call.replace(**name, &format!("'{id}'::uuid")))
}

/// Whether the canary stands anywhere in a call's answer. Looking changes nothing.
async fn seen(client: &Client, call: &str) -> bool {
    client.batch_execute("begin").await.unwrap();
    let rows = client.query(&format!("select r::text from {call} as r"), &[]).await;
    let rows = rows.unwrap_or_else(|error| panic!("{call}: {}", told(&error)));
    client.batch_execute("rollback").await.unwrap();
    assert!(!rows.is_empty(), "{call} answers nothing");
    rows.iter().any(|row| row.get::<_, Option<String>>(0).unwrap_or_default().contains(MARK))
}

async fn granted(client: &Client) -> Vec<String> {
    let sql = "select distinct p.proname::text from pg_proc p join pg_namespace n on n.oid = p.pronamespace
               where n.nspname = 'jobforge' and has_function_privilege(p.oid, 'execute') order by 1";
    client.query(sql, &[]).await.unwrap().iter().map(|row| row.get(0)).collect()
}

async fn readable(client: &Client) -> Vec<(String, String)> {
    let sql = "select c.relname::text, string_agg('t.' || quote_ident(a.attname), ', ') from pg_class c
               join pg_namespace n on n.oid = c.relnamespace join pg_attribute a on a.attrelid = c.oid and a.attnum > 0
               where n.nspname = 'jobforge' and has_column_privilege(c.oid, a.attnum, 'select') and not a.attisdropped
               group by c.relname";
    client.query(sql, &[]).await.unwrap().iter().map(|row| (row.get(0), row.get(1))).collect()
}

#[tokio::test]
async fn a_redacted_value_is_shown_to_nobody() {
    let db = migrated().await;
    assert_eq!(leaks(&db).await, Vec::<String>::new());
}

#[tokio::test]
async fn keys_and_everything_else_stay() {
    let db = migrated().await;
    let ids = jobs(&db).await;
    let app = connect_as(&db, APP).await;
    act_for(&app, TENANT_A).await.unwrap();
    let sql = "select payload, result, dedupe_key from jobforge.get_job($1, $2)";
    let row = app.query_one(sql, &[&TENANT_A, &ids["$DONE"]]).await.unwrap();
    let hidden = "[redacted]";
    assert_eq!(
        row.get::<_, Json<serde_json::Value>>(0).0,
        json!({"card": {"number": hidden}, "items": [{"secret": hidden}], "token": hidden, "note": "also [redacted] here", "open": 1})
    );
    assert_eq!(
        row.get::<_, Json<serde_json::Value>>(1).0,
        json!({"card": {"number": hidden}, "echo": {"of": [hidden]}, "items": [{"secret": hidden}]})
    );
    let row = app.query_one(sql, &[&TENANT_A, &ids["$QUEUED"]]).await.unwrap();
    assert_eq!(row.get::<_, String>(2), hidden, "a derived key is the payload once more");
}

/// Each guard: what takes its place in which file, and where the canary then shows.
const LOOKING: &[(&str, &str, &str, &str)] = &[
    ("90_read.sql", "jobforge.redact_payload(f.payload, r.paths)", "f.payload", "get_job"),
    (
        "90_read.sql",
        "case when r.paths <> '{}' then jobforge.redact_strings",
        "case when false then jobforge.redact_strings",
        "get_job",
    ),
    (
        "90_read.sql",
        "jobforge.redact_strings(jobforge.redact(f.result, r.paths),\n      jobforge.redacted_values(f.payload, r.paths))",
        "jobforge.redact(f.result, r.paths)",
        "get_job",
    ),
    ("90_read.sql", "when r.paths <> '{}' and starts_with", "when false and starts_with", "get_job"),
    (
        "67_bulk_look.sql",
        "jobforge.redact_patch(p_operation.patch, p_operation.filter)",
        "p_operation.patch",
        "get_bulk",
    ),
    ("88_redact.sql", "select d.redact || d.write_only from", "select d.redact from", "get_job"),
    (
        "88_redact.sql",
        "v_key, jobforge.redact_at(p_value -> v_key, p_steps[2:])",
        "v_key, p_value -> v_key",
        "get_job",
    ),
    (
        "0010_rules.sql",
        "revoke select (dedupe_key) on jobforge.jobs from",
        "grant select (dedupe_key) on jobforge.jobs to",
        "jobs",
    ),
];

/// The same of what is redacted when it is stored.
const REPORTING: &[(&str, &str, &str, &str)] = &[
    ("55_exits.sql", "jobforge.redact_text(p_stdout_tail, v_secrets)", "p_stdout_tail", "list_attempts"),
    ("55_exits.sql", "jobforge.redact_text(p_stderr_tail, v_secrets)", "p_stderr_tail", "list_attempts"),
    (
        "50_fail.sql",
        "      v_row.error := jobforge.redact_text(v_row.error, v_secrets);\n",
        "",
        "list_dead_letters",
    ),
    (
        "50_fail.sql",
        "jobforge.redact_text(v_row.stdout_tail, v_secrets)",
        "v_row.stdout_tail",
        "list_attempts",
    ),
    ("50_fail.sql", "jobforge.redact_text(v_row.stderr_tail, v_secrets)", "v_row.stderr_tail", "attempts"),
    (
        "54_notes.sql",
        "jobforge.redact_text(coalesce(u.message, ''), v_secrets)",
        "coalesce(u.message, '')",
        "job_logs",
    ),
    (
        "54_notes.sql",
        "jobforge.redact_text(coalesce(p_message, ''), jobforge.job_secrets(p_tenant_id, p_job_id))",
        "coalesce(p_message, '')",
        "job_progress",
    ),
    ("67_bulk_look.sql", "jobforge.redact_before(r.before)", "r.before", "list_bulk_results"),
];

async fn assert_missed(faults: &[(&str, &str, &str, &str)]) {
    for (file, from, to, place) in faults {
        let db = mutated(|name, text| {
            assert!(name != *file || text.contains(from), "{file} has no longer {from:?}");
            if name == *file { text.replace(from, to) } else { text }
        });
        let found = leaks(&db.await).await;
        assert!(found.iter().any(|leak| leak == place), "without {from:?} of {file}: {found:?}");
    }
}

#[tokio::test]
async fn every_guard_of_a_look_is_missed_when_it_is_gone() {
    assert_missed(LOOKING).await;
}

#[tokio::test]
async fn every_guard_of_a_report_is_missed_when_it_is_gone() {
    assert_missed(REPORTING).await;
}
