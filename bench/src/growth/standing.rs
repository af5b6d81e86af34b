//! W6 but for the held snapshot: a drain in the presence of rows that it has nothing to do with.

use std::time::Duration;

use anyhow::Result;

use super::ground::{Ground, id_of};
use super::{Evidence, Found, Scenario};
use crate::cli::Plan;
use crate::contenders::jobforge::TYPE;
use crate::metric::{self, Bound, Limit, Workload};

/// What a drain must keep of its speed.
pub const KEPT: &[Bound] = &[metric::bound(metric::Against::Nothing, Limit::AtLeast(0.8))];

/// How many jobs of each held tenant wait: enough to stand in the way, few enough to lay out.
const HELD_WAITING: usize = 10;

/// What stands around, and how it is counted.
pub struct Standing {
    scenario: Scenario,
    title: String,
    /// Jobs enqueued beyond those that are drained.
    more_jobs: usize,
    layout: String,
    count: &'static str,
}

impl Standing {
    pub fn of(scenario: Scenario, plan: &Plan) -> Self {
        let scaled = |full| plan.growth.scaled(full);
        let (more_jobs, layout, count) = match scenario {
            Scenario::Backlog => {
                (scaled(1_000_000), String::new(), "select count(*) from jobforge.jobs where ready")
            }
            Scenario::History => {
                (0, history(scaled(10_000_000), 1_000), "select count(*) from jobforge.job_history")
            }
            Scenario::Future => (
                0,
                tenants(scaled(10_000)) + &future(scaled(1_000_000), scaled(10_000)),
                "select count(*) from jobforge.jobs where not ready and run_at > now()",
            ),
            Scenario::OtherType => (
                0,
                other_type(scaled(1_000_000)),
                "select count(*) from jobforge.jobs where ready and type = 'bench.other'",
            ),
            Scenario::Running => (
                0,
                running(scaled(10_000), "(select id from jobforge.tenants where name = 'bench')"),
                "select count(*) from jobforge.jobs j join jobforge.leases l on l.id = j.lease_id",
            ),
            Scenario::Paused => (
                0,
                held(scaled(10_000) - 1) + PAUSE,
                "select count(distinct j.tenant_id) from jobforge.jobs j
                 join jobforge.pauses p on p.kind = 'tenant' and p.name = j.tenant_id::text",
            ),
            Scenario::AtLimit => (
                0,
                held(scaled(10_000) - 1) + &running(scaled(10_000) - 1, TENANT_OF_I) + LIMIT,
                "select count(distinct j.tenant_id) from jobforge.jobs j
                 join jobforge.tenants t on t.id = j.tenant_id and t.max_in_flight = 1
                 join jobforge.limited_runs r on r.name = t.id::text",
            ),
            other => unreachable!("{} has a measure of its own", other.name()),
        };
        Self { scenario, title: scenario.title(plan), more_jobs, layout, count }
    }
}

pub async fn measure(ground: &Ground<'_>, standing: &Standing) -> Result<Found> {
    let jobs = ground.plan.jobs;
    let mut site = ground.site(standing.scenario.name()).await?;
    site.lay_out(&standing.layout).await?;
    site.enqueue(jobs + standing.more_jobs).await?;
    let before = site.count(standing.count).await?;
    let over = site.count(DONE).await?;
    site.settle().await?;

    let plain = ground.plain_drain().await?;
    let drained = site.drain(jobs, Duration::ZERO).await?;

    let evidence = Evidence {
        scenario: standing.scenario.name(),
        before,
        after: site.count(standing.count).await?,
        drained: site.count(DONE).await? - over,
        strays: site.count(STRAYS).await?,
    };
    site.clear().await?;
    let name = &standing.title;
    Ok(Found {
        samples: vec![
            (metric::named(Workload::W6, format!("{name}: drain"), "jobs/s", &[]), drained.rate()),
            (metric::named(Workload::W6, format!("{name} / plain"), "ratio", KEPT), drained.rate() / plain),
        ],
        evidence: Some(evidence),
        held: Vec::new(),
    })
}

pub const DONE: &str = "select count(*) from jobforge.job_history";

const STRAYS: &str =
    "select count(*) from jobforge.job_history h join jobforge.tenants t on t.id = h.tenant_id
    where t.name = 'held'";

/// The id of the tenant that a generated row `i` belongs to, spread over the whole range of ids.
const TENANT_OF_I: &str = "md5('tenant ' || i)::uuid";

const PAUSE: &str = "
    insert into jobforge.pauses (kind, name, reason, author, paused_at)
    select 'tenant', t.id::text, '', 'bench', now() from jobforge.tenants t where t.name = 'held';";

const LIMIT: &str = "
    select count(jobforge.upsert_tenant(t.id, p_max_in_flight => 1)) from jobforge.tenants t where t.name = 'held';
    insert into jobforge.limited_runs (kind, name, tenant_id, job_id, lease_id, fence)
    select 'tenant', j.tenant_id::text, j.tenant_id, j.id, j.lease_id, j.fence from jobforge.jobs j
    where j.lease_id is not null;";

fn tenants(tenants: usize) -> String {
    format!(
        "insert into jobforge.tenants (id, name)
         select {TENANT_OF_I}, 'held' from generate_series(1, {tenants}) as i;"
    )
}

fn held(held: usize) -> String {
    let id = id_of(&format!("i * {HELD_WAITING} + k"));
    tenants(held)
        + &format!(
            "insert into jobforge.jobs (tenant_id, id, run_at, created_at, max_attempts, priority, ready, status,
               retention, queue, type, payload, source)
             select {TENANT_OF_I}, {id}, now(), now(), 5,
               100, true, 'queued', 'week', 'default', '{TYPE}', '{{\"a\": 1}}', 'manual'
             from generate_series(1, {HELD_WAITING}) as k, generate_series(1, {held}) as i;"
        )
}

/// Jobs that are over, spread over so many tenants; of one, the bench's own.
pub fn history(rows: usize, tenants: usize) -> String {
    let (id, others) = (id_of("n"), tenants - 1);
    format!(
        "insert into jobforge.tenants (id, name)
         select {TENANT_OF_I}, 'other' from generate_series(1, {others}) as i;
         insert into jobforge.job_history (tenant_id, id, run_at, created_at, started_at, finished_at, fence, failures,
           deaths, max_attempts, priority, status, retention, queue, type, payload, source)
         select coalesce(t.id, (select id from jobforge.tenants where name = 'bench')),
           {id}, now(), now(), now(), now(), 1, 0, 0::smallint,
           5, 100, 'succeeded', 'week', 'default', '{TYPE}', '{{\"a\": 1}}', 'manual'
         from generate_series(1, {rows}) as n
         left join (select i, {TENANT_OF_I} as id from generate_series(1, {others}) as i) as t on t.i = n % {tenants};"
    )
}

fn future(rows: usize, tenants: usize) -> String {
    let id = id_of("n");
    format!(
        "insert into jobforge.jobs (tenant_id, id, run_at, created_at, max_attempts, priority, ready, status, retention,
           queue, type, payload, source)
         select t.id, {id}, now() + interval '1 hour' + n * interval '1 ms',
           now(), 5, 100, false, 'queued', 'week', 'default', '{TYPE}', '{{\"a\": 1}}', 'manual'
         from generate_series(1, {rows}) as n
         join (select i, {TENANT_OF_I} as id from generate_series(1, {tenants}) as i) as t on t.i = n % {tenants} + 1;"
    )
}

fn other_type(rows: usize) -> String {
    let id = id_of("n");
    format!(
        "select jobforge.upsert_definition(p_key => 'bench.other');
         insert into jobforge.jobs (tenant_id, id, run_at, created_at, max_attempts, priority, ready, status, retention,
           queue, type, payload, source)
         select t.id, {id}, now(), now(), 5, 100, true, 'queued', 'week',
           'default', 'bench.other', '{{\"a\": 1}}', 'manual'
         from jobforge.tenants t, generate_series(1, {rows}) as n where t.name = 'bench';"
    )
}

/// Jobs of the tenant that an expression over `i` names, on ten leases of a worker elsewhere.
fn running(rows: usize, tenant: &str) -> String {
    let id = id_of("i");
    format!(
        "insert into jobforge.workers (worker_id, started_at, last_seen) values ('elsewhere', now(), now());
         insert into jobforge.leases (id, worker_no, window_size, ttl_seconds, created_at, beat_at, expires_at)
         select md5('lease ' || l)::uuid, w.no, 100000, 3600, now(), now(), now() + interval '1 hour'
         from jobforge.workers w, generate_series(0, 9) as l;
         insert into jobforge.jobs (tenant_id, id, lease_id, run_at, created_at, started_at, fence, worker_no,
           max_attempts, priority, ready, taken, status, retention, queue, type, payload, source)
         select {tenant}, {id}, md5('lease ' || i % 10)::uuid,
           now(), now(), now(), 1, w.no, 5, 100, false, true, 'running', 'week', 'default', '{TYPE}', '{{\"a\": 1}}', 'manual'
         from jobforge.workers w, generate_series(1, {rows}) as i;
         insert into jobforge.lease_claims (lease_id, tenant_ids, job_ids)
         select j.lease_id, array_agg(j.tenant_id order by j.id), array_agg(j.id order by j.id)
         from jobforge.jobs j where j.lease_id is not null group by j.lease_id;"
    )
}
