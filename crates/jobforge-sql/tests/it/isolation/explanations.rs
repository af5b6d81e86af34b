//! Why a job waits may lie with others: an explanation tells that as a number, and names nobody but the tenant's own.

use serde_json::Value;
use tokio_postgres::Client;
use uuid::Uuid;

use super::verdict::{Verdict, refused, same, works};
use super::{Site, probes};
use crate::schema::calls::{act_for, enqueue_with};
use crate::schema::{NOOP, TENANT_A, TENANT_B};

probes![
    another_tenants_job_is_not_explained,
    a_definitions_limit_names_only_own_jobs,
    a_key_is_a_tenants_own,
    another_tenants_pause_holds_nobody_else,
    the_crowd_is_a_number,
    a_used_up_rate_is_told,
    a_run_is_told_with_its_lease,
    look_ups_are_for_the_callers_tenant,
    curves_and_sums_are_the_tenants_own,
    operators_see_queues_and_leases_of_all,
];

/// The explanation as one JSON array, for a tenant.
async fn explain(client: &Client, tenant: Uuid, id: Uuid) -> Result<Value, String> {
    works("act", act_for(client, tenant).await)?;
    let sql = "select coalesce(jsonb_agg(jsonb_build_object('reason', e.reason, 'detail', e.detail, 'says', e.says)), '[]')
               from jobforge.explain_job($1, $2) as e";
    Ok(works("explain", client.query_one(sql, &[&tenant, &id]).await)?.get(0))
}

fn detail<'a>(told: &'a Value, reason: &str) -> Result<&'a Value, String> {
    let found = told.as_array().into_iter().flatten().find(|one| one["reason"] == reason);
    found.map(|one| &one["detail"]).ok_or(format!("{reason} is not told: {told}"))
}

async fn waiting(site: &Site, tenant: Uuid, queue: &str) -> Result<Uuid, String> {
    let extra = format!("'{{}}', p_queue => '{queue}'");
    Ok(works("enqueue", enqueue_with(&site.app, tenant, NOOP, &extra).await)?.0)
}

async fn another_tenants_job_is_not_explained(site: &Site) -> Verdict {
    let id = waiting(site, TENANT_B, "explain_other").await?;
    works("act", act_for(&site.app, TENANT_A).await)?;
    let sql = "select * from jobforge.explain_job($1, $2)";
    refused("as its own", site.app.query(sql, &[&TENANT_A, &id]).await, &["JF007 job_unknown"])?;
    refused("as the other's", site.app.query(sql, &[&TENANT_B, &id]).await, &["JF009 tenant_mismatch"])?;
    works("act", act_for(&site.only_a, TENANT_B).await)?;
    refused("by a bound login", site.only_a.query(sql, &[&TENANT_B, &id]).await, &["JF009 login_not_bound"])
}

/// Runs of both tenants fill a definition's limit; limits are counted by claims, so the rows are stored by hand.
async fn a_definitions_limit_names_only_own_jobs(site: &Site) -> Verdict {
    let queue = "explain_limit";
    let [mine, others] = site.held_in(queue).await?;
    let id = waiting(site, TENANT_A, queue).await?;
    let count = format!(
        "update jobforge.definitions set max_in_flight = 2 where key = '{NOOP}';
         insert into jobforge.limited_runs select 'definition', '{NOOP}', j.tenant_id, j.id, j.lease_id, j.fence
         from jobforge.jobs j where j.queue = '{queue}' and j.lease_id is not null;"
    );
    works("count the runs", site.admin.batch_execute(&count).await)?;
    let told = explain(&site.app, TENANT_A, id).await;
    let clear = "update jobforge.definitions set max_in_flight = null; delete from jobforge.limited_runs";
    works("clear", site.admin.batch_execute(clear).await)?;
    let told = told?;
    let limit = detail(&told, "definition_in_flight")?;
    same("how many run", &limit["running"], &2.into())?;
    same("which of them are told", &limit["job_ids"], &serde_json::json!([mine.id]))?;
    for secret in [others.id, TENANT_B, others.lease_id, mine.lease_id] {
        same("something of the other's is told", told.to_string().contains(&secret.to_string()), false)?;
    }
    Ok(())
}

async fn a_key_is_a_tenants_own(site: &Site) -> Verdict {
    let queue = "explain_key";
    let [mine, others] = site.held_in(queue).await?;
    let ids = [waiting(site, TENANT_A, queue).await?, waiting(site, TENANT_B, queue).await?];
    let count = format!(
        "update jobforge.jobs set concurrency_key = 'k', keyed = true where queue = '{queue}';
         insert into jobforge.limited_runs values
           ('key', '{TENANT_B}/k', '{TENANT_B}', '{}', '{}', {});",
        others.id, others.lease_id, others.fence
    );
    works("count the run", site.admin.batch_execute(&count).await)?;
    let told = (explain(&site.app, TENANT_A, ids[0]).await, explain(&site.app, TENANT_B, ids[1]).await);
    works("clear", site.admin.batch_execute("delete from jobforge.limited_runs").await)?;
    let (free, held) = (told.0?, told.1?);
    same("the other's key holds this one", detail(&free, "concurrency_key").is_ok(), false)?;
    same("the holder", &detail(&held, "concurrency_key")?["job_ids"], &serde_json::json!([others.id]))?;
    same("the first tenant's job is told", held.to_string().contains(&mine.id.to_string()), false)
}

async fn another_tenants_pause_holds_nobody_else(site: &Site) -> Verdict {
    let ids =
        [waiting(site, TENANT_A, "explain_pause").await?, waiting(site, TENANT_B, "explain_pause").await?];
    let pause = format!("select jobforge.pause('tenant', '{TENANT_B}', 'owes money')");
    works("pause", site.operator.query(&pause, &[]).await)?;
    let told = (explain(&site.app, TENANT_A, ids[0]).await, explain(&site.app, TENANT_B, ids[1]).await);
    let resume = format!("select jobforge.resume('tenant', '{TENANT_B}')");
    works("resume", site.operator.query(&resume, &[]).await)?;
    let (free, held) = (told.0?, told.1?);
    same("the other hears of it", free.to_string().contains("owes money"), false)?;
    same("the paused one hears why", &detail(&held, "tenant_paused")?["reason"], &"owes money".into())
}

async fn the_crowd_is_a_number(site: &Site) -> Verdict {
    let queue = "explain_crowd";
    waiting(site, TENANT_B, queue).await?;
    waiting(site, TENANT_B, queue).await?;
    let id = waiting(site, TENANT_A, queue).await?;
    let told = explain(&site.app, TENANT_A, id).await?;
    let turn = detail(&told, "waiting_turn")?;
    same("tenants with work", &turn["tenants"], &2.into())?;
    same("jobs before it", &turn["ahead"], &0.into())?;
    same("the other is named", told.to_string().contains(&TENANT_B.to_string()), false)
}

async fn a_used_up_rate_is_told(site: &Site) -> Verdict {
    let id = waiting(site, TENANT_A, "explain_rate").await?;
    let empty = format!(
        "update jobforge.tenants set rate_per_second = 0.001 where id = '{TENANT_A}';
         insert into jobforge.limit_buckets values ('tenant', '{TENANT_A}', 0, clock_timestamp());"
    );
    works("use the rate up", site.admin.batch_execute(&empty).await)?;
    let told = explain(&site.app, TENANT_A, id).await;
    let clear = "update jobforge.tenants set rate_per_second = null; delete from jobforge.limit_buckets";
    works("clear", site.admin.batch_execute(clear).await)?;
    same("the rate", &detail(&told?, "tenant_rate")?["rate"], &serde_json::json!(0.001))
}

async fn a_run_is_told_with_its_lease(site: &Site) -> Verdict {
    let [mine, _] = site.held_in("explain_run").await?;
    let told = explain(&site.app, TENANT_A, mine.id).await?;
    same("the worker", &detail(&told, "running")?["worker_id"], &"w1".into())
}

/// Called as the owner of the tenants' functions would call them, with another tenant than the caller's.
async fn look_ups_are_for_the_callers_tenant(site: &Site) -> Verdict {
    let make = format!(
        "create or replace function jobforge.curious(p_call text) returns void
         language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
         as $$ begin execute format('select * from jobforge.%s', replace(p_call, '$1', quote_literal('{TENANT_B}') || '::uuid')); end $$;
         alter function jobforge.curious(text) owner to jf_fn;
         revoke all on function jobforge.curious(text) from public;
         grant execute on function jobforge.curious(text) to jf_tenant;"
    );
    works("make the curious function", site.admin.batch_execute(&make).await)?;
    let found = async {
        works("act", act_for(&site.app, TENANT_A).await)?;
        for call in [
            "holding_pauses($1, 'default', 'test.noop', now())",
            "limited_now($1, 'definition', 'test.noop', 10)",
            "tokens_now($1, 'tenant', '', 1, 1, now())",
            "apart_ahead($1, gen_random_uuid(), 10)",
            "lane_crowd($1, 'default', 'test.noop', 10)",
            "lane_rates($1, 'default', now())",
        ] {
            let asked = site.app.query("select jobforge.curious($1)", &[&call]).await;
            refused(call, asked, &["JF009 tenant_mismatch"])?;
        }
        Ok(())
    };
    let found = found.await;
    works("drop it", site.admin.batch_execute("drop function jobforge.curious(text)").await)?;
    found
}

async fn curves_and_sums_are_the_tenants_own(site: &Site) -> Verdict {
    let store = format!(
        "insert into jobforge.tenant_stats (tenant_id, at, queued, ready, running, dead, enqueued, completed, failed, canceled,
           seconds, estimated)
         select t, date_trunc('minute', now()) - interval '3 hours', n, n, n, n, n, n, n, n, 60, false
         from (values ('{TENANT_A}'::uuid, 111), ('{TENANT_B}', 222)) as v(t, n) on conflict do nothing;
         update jobforge.sampler set began_at = now() - interval '1 day', until = now(), sampled_at = now();"
    );
    works("store samples", site.admin.batch_execute(&store).await)?;
    let found = async {
        for (tenant, wanted) in [(TENANT_A, 111), (TENANT_B, 222)] {
            works("act", act_for(&site.app, tenant).await)?;
            let sql = "select value::bigint from jobforge.read_series($1, 'completed', now() - interval '4 hours', now() - interval '2 hours', 1)";
            let row = works("curve", site.app.query_one(sql, &[&tenant]).await)?;
            same("the curve", row.get::<_, i64>(0), wanted)?;
            let sql = "select coalesce(completed_day, 0) % 1000 from jobforge.job_summary($1)";
            let row = works("sums", site.app.query_one(sql, &[&tenant]).await)?;
            let sum: i64 = row.get(0);
            same("the day's sum", (wanted..wanted + 100).contains(&sum), true)?;
        }
        Ok(())
    };
    let found = found.await;
    let clear =
        "delete from jobforge.tenant_stats where seconds = 60; update jobforge.sampler set until = null";
    works("clear", site.admin.batch_execute(clear).await)?;
    found
}

async fn operators_see_queues_and_leases_of_all(site: &Site) -> Verdict {
    let queue = "explain_system";
    let come =
        "select jobforge.register_worker('explain_worker', 'h', 1, 'v', '{explain_system}', '{test.noop}')";
    works("register", site.worker.query(come, &[]).await)?;
    let held = site.held_in(queue).await?;
    waiting(site, TENANT_B, queue).await?;
    let sql = "select ready, running from jobforge.queue_summary() where queue = $1";
    let row = works("queues", site.operator.query_one(sql, &[&queue]).await)?;
    same("ready and running", (row.get::<_, i64>(0), row.get::<_, i64>(1)), (1, 2))?;
    let sql = "select live_leases > 0, leases @? format('$[*] ? (@.lease_id == \"%s\")', $1::text)::jsonpath, live_workers > 0, tenants > 2
               from jobforge.system_state()";
    let row = works("state", site.operator.query_one(sql, &[&held[0].lease_id.to_string()]).await)?;
    let told: [bool; 4] = [row.get(0), row.get(1), row.get(2), row.get(3)];
    same("leases, this lease, workers, tenants", told, [true; 4])?;
    let stats = format!(
        "insert into jobforge.queue_stats (at, queue, queued, ready, running, dead, estimated)
                         values (now(), '{queue}', 7, 0, 0, 0, false)"
    );
    works("store a sample", site.admin.batch_execute(&stats).await)?;
    let sql = "select value from jobforge.read_system_series('queued', $1)";
    let row = works("curve", site.operator.query_one(sql, &[&queue]).await)?;
    same("the curve", row.get::<_, f64>(0), 7.0)
}
