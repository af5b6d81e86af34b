//! Which login may execute which function: a list of names, so that a new function is open to nobody until somebody
//! writes down to whom. Every other function is called, and must be refused before it begins.

use std::collections::BTreeSet;

use super::verdict::{DENIED, Verdict, none, refused, works};
use super::{Site, probes};
use crate::schema::{APP, GATE, ONLY_A, ONLY_B, OPERATOR, STRANGER, WORKER, WORKER_A};

probes![every_function_is_refused_to_whom_it_is_not_for, every_function_is_granted_to_whom_it_is_for];

/// Without tenants' rows behind them: the clock, what definitions say of payloads, the form of a derived key.
const PLAIN: &[&str] = &["clock", "definition_rules"];
const KEY_FORM: &[&str] = &["canonical", "dedupe_key"];

/// For one tenant, under row-level security.
const TENANT: &[&str] = &[
    "announce_artifact",
    "attach_artifact",
    "cancel_job",
    "delete_connector_config",
    "enable_connector_config",
    "enqueue_job",
    "enqueue_jobs",
    "enqueue_plain",
    "explain_job",
    "get_bulk",
    "get_connector_config",
    "get_job",
    "group_dead_letters",
    "job_summary",
    "list_attempts",
    "list_audit",
    "list_bulk_results",
    "list_bulks",
    "list_connector_configs",
    "list_dead_letters",
    "list_jobs",
    "list_logs",
    "read_series",
    "redrive_jobs",
    "reschedule_job",
    "retry_job",
    "start_bulk",
    "step_bulk",
    "undo_bulk",
    "upsert_connector_config",
];

/// Across tenants, for a login that is bound to none.
const GATHER: &[&str] = &["enqueue_gathered"];

/// What says for whom a request of PostgREST acts.
const REQUEST: &[&str] = &["pre_request"];

/// Across tenants, by lease and fence.
const WORK: &[&str] = &[
    "append_log",
    "claim_jobs",
    "complete_job",
    "complete_jobs",
    "count_flow",
    "count_jobs",
    "disable_connector_config",
    "fail_job",
    "fail_jobs",
    "find_connector_config",
    "heartbeat",
    "hold_result",
    "look",
    "recall_marks",
    "rehearse_complete",
    "register_worker",
    "release_jobs",
    "release_others",
    "report_exit",
    "report_progress",
    "sleep_worker",
    "snooze_job",
    "stop_worker",
    "wake_worker",
];

/// The system's own.
const OPERATE: &[&str] = &[
    "bind_login",
    "collect_artifacts",
    "confirm_artifacts",
    "create_api_key",
    "create_session",
    "end_session",
    "find_api_key",
    "find_session",
    "finished_jobs",
    "has_keys",
    "lead",
    "list_api_keys",
    "list_definitions",
    "list_forgotten_pauses",
    "list_pauses",
    "list_sealed_secrets",
    "list_starved",
    "list_stranded",
    "list_stuck_leases",
    "list_system_audit",
    "list_tenants",
    "list_workers",
    "pause",
    "promote_due",
    "prune",
    "queue_summary",
    "read_system_series",
    "reap",
    "record_audit",
    "reseal_secret",
    "resign",
    "resume",
    "revoke_api_key",
    "sample_stats",
    "system_state",
    "touch_api_keys",
    "upkeep_partitions",
    "upsert_definition",
    "upsert_tenant",
];

fn allowed(login: &str) -> BTreeSet<&'static str> {
    let lists: &[&[&str]] = match login {
        APP | ONLY_A | ONLY_B => &[PLAIN, KEY_FORM, TENANT, GATHER, REQUEST],
        WORKER | WORKER_A => &[PLAIN, WORK],
        OPERATOR => &[PLAIN, KEY_FORM, TENANT, GATHER, OPERATE],
        STRANGER | GATE => &[],
        other => panic!("no list for {other}"),
    };
    lists.iter().flat_map(|list| list.iter().copied()).collect()
}

/// Each function with a call of it: whether one may call is decided before the arguments matter.
async fn functions(site: &Site) -> Result<Vec<(String, String)>, String> {
    let sql = "select p.proname::text, format('select jobforge.%I(%s)', p.proname, (
          select string_agg(case when a.o = p.pronargs and p.provariadic <> 0 then 'variadic ' else '' end
            || 'null::' || a.type::regtype, ', ' order by a.o)
          from unnest(p.proargtypes) with ordinality as a(type, o)))
        from pg_proc p where p.pronamespace = 'jobforge'::regnamespace and p.prorettype <> 'trigger'::regtype order by 1, 2";
    let rows = works("list the functions", site.admin.query(sql, &[]).await)?;
    Ok(rows.iter().map(|row| (row.get(0), row.get(1))).collect())
}

async fn every_function_is_refused_to_whom_it_is_not_for(site: &Site) -> Verdict {
    let functions = functions(site).await?;
    let mut faults = Vec::new();
    for (login, client) in site.logins() {
        let allowed = allowed(login);
        for (name, call) in &functions {
            if allowed.contains(name.as_str()) {
                continue;
            }
            if let Err(why) = refused(name, client.query(call, &[]).await, &[DENIED]) {
                faults.push(format!("{login}: {why}"));
            }
        }
    }
    none("calls that were let in", &faults)
}

async fn every_function_is_granted_to_whom_it_is_for(site: &Site) -> Verdict {
    let sql = "select p.proname::text from pg_proc p where p.pronamespace = (
          select n.oid from pg_namespace n where n.nspname = 'jobforge')
        and has_function_privilege(p.oid, 'execute')";
    let mut faults = Vec::new();
    for (login, client) in site.logins() {
        let granted = works(login, client.query(sql, &[]).await)?;
        let granted: BTreeSet<String> = granted.iter().map(|row| row.get(0)).collect();
        for name in allowed(login) {
            if !granted.contains(name) {
                faults.push(format!("{login} may not execute {name}"));
            }
        }
    }
    none("grants that lack", &faults)
}
