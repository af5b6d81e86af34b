//! What no function can store, even one that has gone wrong: rows of the hot tables that no life of a job leads to.
//! They are tried as the functions' owner, past every function.

use super::verdict::{DENIED, Verdict, refused, works};
use super::{Site, probes};
use crate::schema::calls::{complete, enqueue_with};
use crate::schema::{NOOP, TENANT_A};

probes![jobs_are_sound, new_jobs_are_sound, history_is_sound, leases_are_sound, claims_are_sound];

/// Set on a job that waits.
const UNSOUND_WAITING: &[&str] = &[
    "failures = -1",
    "deaths = -1",
    "failures = fence + 1",
    "deaths = fence + 1",
    "keyed = true",
    "concurrency_key = 'k'",
    "status = 'running'",
    "status = 'blocked'",
    "status = 'lost'",
    "lease_id = id",
    "taken = true",
    "taken = true, ready = false",
    "finished_at = now()",
    "finished_at = now(), status = 'dead'",
];

/// Set on a job that runs.
const UNSOUND_RUNNING: &[&str] = &[
    "status = 'queued'",
    "started_at = null",
    "fence = 0",
    "finished_at = now()",
    "ready = true",
    "lease_id = null",
    "lease_id = null, finished_at = now(), status = 'succeeded'",
];

/// Given to a job that is new, beside what each needs.
const UNSOUND_NEW: &[(&str, &str)] = &[
    ("fence", "1"),
    ("fence", "-1"),
    ("failures", "1"),
    ("deaths", "1"),
    ("deaths", "-1"),
    ("keyed", "true"),
    ("concurrency_key", "'k'"),
    ("lease_id", "gen_random_uuid()"),
    ("finished_at", "now()"),
    ("taken", "true"),
    ("status", "'running'"),
    ("status", "'dead'"),
    ("status", "'blocked'"),
];

async fn jobs_are_sound(site: &Site) -> Verdict {
    let extra = "'{}', p_queue => 'sound_waiting'";
    works("enqueue", enqueue_with(&site.app, TENANT_A, NOOP, extra).await)?;
    site.held_in("sound_running").await?;
    for set in UNSOUND_WAITING {
        no_owner_may(site, &format!("update jobforge.jobs set {set} where queue = 'sound_waiting'")).await?;
    }
    for set in UNSOUND_RUNNING {
        no_owner_may(site, &format!("update jobforge.jobs set {set} where queue = 'sound_running'")).await?;
    }
    Ok(())
}

async fn new_jobs_are_sound(site: &Site) -> Verdict {
    let insert = |column: &str, value: &str| {
        let (status, more) = match column {
            "status" => (value, String::new()),
            _ => ("'queued'", format!(", {column}")),
        };
        let last = if more.is_empty() { String::new() } else { format!(", {value}") };
        format!(
            "insert into jobforge.jobs (tenant_id, id, run_at, created_at, max_attempts, priority, ready, status, retention,
               queue, type, payload, source{more})
             values ('{TENANT_A}', gen_random_uuid(), now(), now(), 3, 100, true, {status}, 'week', 'sound_new', '{NOOP}',
               '{{}}', 'manual'{last})"
        )
    };
    for (column, value) in UNSOUND_NEW {
        no_one_may(site, &insert(column, value), "sound_new").await?;
    }
    works("begin", site.admin.batch_execute("begin; set local role jf_sys").await)?;
    let sound = site.admin.batch_execute(&insert("deaths", "0")).await;
    works("rollback", site.admin.batch_execute("rollback").await)?;
    works("a sound insert", sound)
}

async fn history_is_sound(site: &Site) -> Verdict {
    let [job, other] = site.held_in("sound_history").await?;
    for job in [&job, &other] {
        works("complete", complete(&site.worker, job).await)?;
    }
    no_owner_may(
        site,
        "insert into jobforge.job_history
         select (jsonb_populate_record(h, '{\"status\": \"dead\"}')).* from jobforge.job_history h
         where h.queue = 'sound_history'",
    )
    .await
}

async fn leases_are_sound(site: &Site) -> Verdict {
    let [job, _] = site.held_in("sound_leases").await?;
    for set in
        ["window_size = 0", "window_size = 100001", "ttl_seconds = 0", "ttl_seconds = 3601", "solo = true"]
    {
        no_owner_may(site, &format!("update jobforge.leases set {set} where id = '{}'", job.lease_id))
            .await?;
    }
    Ok(())
}

async fn claims_are_sound(site: &Site) -> Verdict {
    no_owner_may(
        site,
        "insert into jobforge.lease_claims (lease_id, tenant_ids, job_ids)
         values (gen_random_uuid(), '{}', array[gen_random_uuid()])",
    )
    .await
}

async fn no_owner_may(site: &Site, sql: &str) -> Verdict {
    no_one_may(site, sql, "sound").await
}

async fn no_one_may(site: &Site, sql: &str, rule: &str) -> Verdict {
    works("begin", site.admin.batch_execute("begin; set local role jf_sys").await)?;
    let tried = site.admin.batch_execute(sql).await;
    works("rollback", site.admin.batch_execute("rollback").await)?;
    let by =
        tried.as_ref().err().and_then(|error| error.as_db_error()).map(|error| error.message().to_owned());
    refused(sql, tried, &[DENIED])?;
    match by {
        Some(message) if message.contains(&format!("policy \"{rule}\"")) => Ok(()),
        message => Err(format!("{sql}: refused by another rule: {message:?}")),
    }
}
