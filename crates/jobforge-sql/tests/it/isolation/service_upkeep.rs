//! Upkeep is served: leading, reaping, promoting, pruning, sampling, and the registry, as an operator's login.

use super::verdict::{Verdict, refused, same, works};
use super::{Site, in_queue, probes};
use crate::schema::calls::{ClaimOptions, claim_with, enqueue_with, lead};
use crate::schema::{NOOP, ONLY_A, OPERATOR, TENANT_A};

probes![
    a_leader_leads_and_an_old_term_is_refused,
    an_expired_lease_is_reaped,
    due_work_is_promoted_and_one_sleeper_looks,
    keys_workers_and_samples_are_pruned,
    old_operations_are_pruned,
    stats_are_sampled,
    partitions_are_made_and_dropped,
    workers_come_and_go,
    logins_are_bound_and_powerful_ones_refused,
];

async fn a_leader_leads_and_an_old_term_is_refused(site: &Site) -> Verdict {
    let first = works("lead", lead(&site.operator, "upkeep").await)?;
    works("resign", site.operator.query("select jobforge.resign('upkeep')", &[]).await)?;
    let second = works("lead again", lead(&site.operator, "upkeep").await)?;
    same("the second term", second, first + 1)?;
    for duty in ["reap", "promote_due", "prune", "sample_stats", "upkeep_partitions"] {
        let sql = format!("select * from jobforge.{duty}($1)");
        refused(duty, site.operator.query(&sql, &[&first]).await, &["JF006 term_over"])?;
        works(duty, site.operator.query(&sql, &[&second]).await)?;
    }
    Ok(())
}

async fn an_expired_lease_is_reaped(site: &Site) -> Verdict {
    let queue = "upkeep_reap";
    site.db.advance_clock(0.0).await;
    let found = async {
        for _ in 0..3 {
            works(
                "enqueue",
                enqueue_with(&site.app, TENANT_A, NOOP, &format!("'{{}}', p_queue => '{queue}'")).await,
            )?;
        }
        let options = ClaimOptions { lease_seconds: 2, window: Some(1), ..in_queue(queue) };
        let claim = works("claim", claim_with(&site.worker, "w1", 3, options).await)?;
        same("claimed", claim.jobs.len(), 3)?;
        site.db.advance_clock(3.0).await;
        let term = works("lead", lead(&site.operator, "upkeep").await)?;
        works("reap", site.operator.query("select * from jobforge.reap($1)", &[&term]).await)?;
        let sql = "select count(*) filter (where status = 'queued' and deaths = 0), count(*) filter (where deaths = 1)
                   from jobforge.jobs where queue = $1";
        let row = works("look", site.admin.query_one(sql, &[&queue]).await)?;
        same("free and dead", (row.get::<_, i64>(0), row.get::<_, i64>(1)), (2, 1))?;
        let left = "select count(*) from jobforge.lease_claims where lease_id = $1";
        let row = works("look", site.admin.query_one(left, &[&claim.lease_id]).await)?;
        same("what is left of the lease", row.get::<_, i64>(0), 0)
    };
    let found = found.await;
    site.db.set_clock(None).await;
    found
}

async fn due_work_is_promoted_and_one_sleeper_looks(site: &Site) -> Verdict {
    let queue = "upkeep_promote";
    let extra = format!("'{{}}', p_queue => '{queue}', p_run_at => jobforge.clock() + interval '2 seconds'");
    site.db.advance_clock(0.0).await;
    let found = async {
        works("enqueue", enqueue_with(&site.app, TENANT_A, NOOP, &extra).await)?;
        let early = works("claim", claim_with(&site.worker, "w1", 1, in_queue(queue)).await)?;
        same("claimed too early", early.jobs, vec![])?;
        site.db.advance_clock(3.0).await;
        let asleep = format!("select jobforge.sleep_worker('w1', '{{{queue}}}', '{{{NOOP}}}')");
        works("sleep", site.worker.query(&asleep, &[]).await)?;
        let look = "select sentinel, found_work from jobforge.look('w1')";
        let row = works("look", site.worker.query_one(look, &[]).await)?;
        same("the look", (row.get::<_, bool>(0), row.get::<_, Option<bool>>(1)), (true, Some(true)))?;
        works("wake", site.worker.query("select jobforge.wake_worker('w1')", &[]).await)?;
        let due = works("claim", claim_with(&site.worker, "w1", 1, in_queue(queue)).await)?;
        same("claimed when due", due.jobs.len(), 1)
    };
    let found = found.await;
    // The sentinel's turn must not outlast the clock's return.
    works("clear", site.admin.batch_execute("delete from jobforge.sentinel").await)?;
    site.db.set_clock(None).await;
    found
}

/// What is old is made old past the functions: nothing else can.
async fn keys_workers_and_samples_are_pruned(site: &Site) -> Verdict {
    let age = format!(
        "insert into jobforge.idempotency_keys (tenant_id, type, key, job_id, payload_hash, created_at)
         values ('{TENANT_A}', 'test.noop', 'upkeep_old', gen_random_uuid(), '', now() - interval '3 days');
         insert into jobforge.workers (worker_id, started_at, last_seen)
         values ('upkeep_old', now() - interval '500 days', now() - interval '500 days');
         insert into jobforge.queue_stats values (now() - interval '8 days', 'upkeep', 0, 0, 0, 0, false);
         insert into jobforge.tenant_stats values ('{TENANT_A}', now() - interval '8 days', 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, false);
         insert into jobforge.sleepers values ('upkeep_old', '{{q}}', '{{t}}', now() - interval '1 day');
         insert into jobforge.job_history (tenant_id, id, run_at, created_at, finished_at, fence, failures, deaths,
           max_attempts, priority, status, retention, queue, type, payload, source)
         values ('{TENANT_A}', gen_random_uuid(), now(), now(), now() - interval '60 days', 1, 0, 0, 5, 100, 'succeeded', 'week',
           'upkeep', 'test.noop', '{{}}', 'manual');"
    );
    works("make old rows", site.admin.batch_execute(&age).await)?;
    let term = works("lead", lead(&site.operator, "upkeep").await)?;
    let sql = "select array[keys, workers, sleepers, stats, history] from jobforge.prune($1)";
    let row = works("prune", site.operator.query_one(sql, &[&term]).await)?;
    same("keys, workers, sleepers, samples, history", row.get::<_, Vec<i32>>(0), vec![1, 1, 1, 2, 1])
}

async fn old_operations_are_pruned(site: &Site) -> Verdict {
    let age = |days: i32| {
        format!(
            "with o as (insert into jobforge.bulk_operations (tenant_id, id, kind, actor, filter, started_at)
               values ('{TENANT_A}', gen_random_uuid(), 'cancel', 'upkeep', '{{}}', now() - interval '{days} days') returning id)
             insert into jobforge.bulk_results (tenant_id, operation_id, job_id, at, verdict)
             select '{TENANT_A}', o.id, gen_random_uuid(), now(), 'skipped' from o;"
        )
    };
    works("make operations", site.admin.batch_execute(&(age(401) + &age(399))).await)?;
    let term = works("lead", lead(&site.operator, "upkeep").await)?;
    works("prune", site.operator.query("select * from jobforge.prune($1)", &[&term]).await)?;
    let sql = "select count(*), (select count(*) from jobforge.bulk_results r where r.operation_id = any (array_agg(o.id))),
                 (select count(*) from jobforge.bulk_results r where not exists (
                    select from jobforge.bulk_operations x where x.id = r.operation_id))
               from jobforge.bulk_operations o where actor = 'upkeep'";
    let row = works("look", site.admin.query_one(sql, &[]).await)?;
    let left: (i64, i64, i64) = (row.get(0), row.get(1), row.get(2));
    works(
        "clear",
        site.admin.batch_execute("delete from jobforge.bulk_operations where actor = 'upkeep'").await,
    )?;
    same("operations left, with their results, and results without", left, (1, 1, 0))
}

async fn stats_are_sampled(site: &Site) -> Verdict {
    works("enqueue", enqueue_with(&site.app, TENANT_A, NOOP, "'{}', p_queue => 'upkeep_stats'").await)?;
    let term = works("lead", lead(&site.operator, "upkeep").await)?;
    works("sample", site.operator.query("select jobforge.sample_stats($1)", &[&term]).await)?;
    let sql = "select count(*) from jobforge.queue_stats where queue = 'upkeep_stats' and queued > 0";
    let row = works("look", site.admin.query_one(sql, &[]).await)?;
    same("samples", row.get::<_, i64>(0), 1)?;
    // A second one counts what came since the first: the first must be known, and where it ended.
    site.db.advance_clock(2.0).await;
    let found = async {
        works("enqueue", enqueue_with(&site.app, TENANT_A, NOOP, "'{}', p_queue => 'upkeep_stats'").await)?;
        site.db.advance_clock(3.0).await;
        let term = works("lead", lead(&site.operator, "upkeep").await)?;
        works("sample", site.operator.query("select jobforge.sample_stats($1)", &[&term]).await)?;
        let sql = "select sum(enqueued)::bigint from jobforge.queue_stats where queue = 'upkeep_stats'";
        let row = works("look", site.admin.query_one(sql, &[]).await)?;
        same("enqueued since the first sample", row.get::<_, i64>(0), 2)?;
        let sql = "select count(*) from jobforge.tenant_stats where tenant_id = $1 and enqueued > 1 and at > now() - interval '2 minutes'";
        let row = works("look", site.admin.query_one(sql, &[&TENANT_A]).await)?;
        same("the tenant's sample", row.get::<_, i64>(0) > 0, true)
    };
    let found = found.await;
    site.db.set_clock(None).await;
    works("begin anew", site.admin.batch_execute("update jobforge.sampler set until = null").await)?;
    found
}

async fn partitions_are_made_and_dropped(site: &Site) -> Verdict {
    let age = "create table jobforge.job_history_day_20200101 partition of jobforge.job_history_day
                 for values from ('2020-01-01 00:00+00') to ('2020-01-02 00:00+00');
               alter table jobforge.job_history_day_20200101 owner to jf_owner;";
    works("make an old partition", site.admin.batch_execute(age).await)?;
    let drop = "do $$ begin execute (select format('drop table jobforge.%I', max(c.relname)) from pg_class c
                  where c.relname ~ '^job_history_day_2[0-9]{7}$'); end $$";
    works("drop a coming one", site.admin.batch_execute(drop).await)?;
    let term = works("lead", lead(&site.operator, "upkeep").await)?;
    let sql = "select made, dropped, refused from jobforge.upkeep_partitions($1)";
    let row = works("upkeep", site.operator.query_one(sql, &[&term]).await)?;
    same(
        "made, dropped, refused",
        (row.get::<_, i32>(0), row.get::<_, i32>(1), row.get::<_, i32>(2)),
        (1, 1, 0),
    )
}

async fn workers_come_and_go(site: &Site) -> Verdict {
    let come = "select jobforge.register_worker('upkeep_worker', 'h', 1, 'v', '{default}', '{test.noop}')";
    works("register", site.worker.query(come, &[]).await)?;
    let row =
        works("stop", site.worker.query_one("select jobforge.stop_worker('upkeep_worker')", &[]).await)?;
    same("a known worker stopped", row.get::<_, bool>(0), true)?;
    let sql = "select stopped_at is not null from jobforge.list_workers() where worker_id = 'upkeep_worker'";
    let row = works("list", site.operator.query_one(sql, &[]).await)?;
    same("it is listed as stopped", row.get::<_, bool>(0), true)
}

async fn logins_are_bound_and_powerful_ones_refused(site: &Site) -> Verdict {
    let bind = "select jobforge.bind_login($1, $2)";
    works("bind", site.operator.query(bind, &[&ONLY_A, &TENANT_A]).await)?;
    works("bind an operator", site.operator.query(bind, &[&OPERATOR, &TENANT_A]).await)?;
    let unbind = site.operator.query("select jobforge.bind_login($1)", &[&OPERATOR]).await;
    works("trust it again", site.admin.query("select jobforge.bind_login($1)", &[&OPERATOR]).await)?;
    refused("who is bound", unbind, &["JF009 login_bound"])?;
    refused(
        "a superuser",
        site.operator.query(bind, &[&"postgres", &TENANT_A]).await,
        &["JF009 login_too_powerful"],
    )?;
    refused(
        "nobody",
        site.operator.query(bind, &[&"jf_no_such_role", &TENANT_A]).await,
        &["JF007 role_unknown"],
    )
}
