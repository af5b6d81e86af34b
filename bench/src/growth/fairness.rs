//! W7: many tenants, a large one beside small ones, and weights.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use jobforge_core::rpc;
use jobforge_worker::{Context as JobContext, Outcome, Worker};
use serde::Deserialize;
use tokio::time::sleep;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::ground::{Ground, Site, id_of};
use super::scenario::count;
use super::standing::DONE;
use super::{Evidence, Found, Scenario};
use crate::connection::connect;
use crate::contenders::Contender;
use crate::contenders::jobforge::{TYPE, job};
use crate::metric::{self, Against, Bound, Limit, Metric, Workload};
use crate::payload::{Payload, Size};
use crate::pickup::{PickupPlan, Recorder, pace};
use crate::statistics::{jain, percentile, worst_deviation};

const SMALL_TENANTS: usize = 50;
const HANDLER_TAKES: Duration = Duration::from_millis(1);
const WEIGHTS: [u32; 3] = [1, 2, 4];

const MANY_KEPT: &[Bound] = &[metric::bound(Against::Nothing, Limit::AtLeast(0.6))];
const SMALL_P99: &[Bound] = &[metric::bound(Against::Nothing, Limit::AtMost(1000.0))];
const SHARES_OFF: &[Bound] = &[metric::bound(Against::Nothing, Limit::AtMost(10.0))];

fn figure(name: impl Into<String>, unit: &'static str, bounds: &'static [Bound]) -> Metric {
    metric::named(Workload::W7, name.into(), unit, bounds)
}

/// The drain over many tenants against the drain of as many jobs of one, both laid out alike.
pub async fn tenants(ground: &Ground<'_>) -> Result<Found> {
    let jobs = ground.plan.jobs;
    let mut found = Found::default();
    for full in [1_000, 10_000] {
        let tenants = ground.plan.growth.scaled(full);
        // Twice as many as are run, so that the starts show how they are shared while everybody has work.
        let many = ground.site("many").await?;
        wait(&many, &new_tenants(tenants), 2 * jobs, PLAIN_PRIORITY).await?;
        many.settle().await?;
        let one = ground.site("one").await?;
        wait(&one, &[one.jobforge.tenant()], 2 * jobs, PLAIN_PRIORITY).await?;
        one.settle().await?;

        let before = many.count(WAITING_TENANTS).await?;
        let single = one.drain(jobs, Duration::ZERO).await?;
        one.clear().await?;
        let drained = many.drain(jobs, Duration::ZERO).await?;
        let evidence = evidence(&many, Scenario::Tenants, (before, WAITING_TENANTS)).await?;
        many.clear().await?;

        let name = count(tenants);
        let bounds = if full == 1_000 { MANY_KEPT } else { &[] };
        found.samples.push((figure(format!("{name} tenants: drain"), "jobs/s", &[]), drained.rate()));
        let ratio = drained.rate() / single.rate();
        found.samples.push((figure(format!("{name} tenants / 1"), "ratio", bounds), ratio));
        if full == 1_000 {
            // A tenant that never started counts as nought.
            let mut portions: Vec<f64> = drained.starts.values().map(|starts| *starts as f64).collect();
            portions.resize(tenants, 0.0);
            let index = jain(&portions).context("nothing was started")?;
            found.samples.push((figure(format!("{name} equal tenants: Jain's index"), "of 1", &[]), index));
        }
        found.evidence = Some(evidence);
    }
    Ok(found)
}

const WAITING_TENANTS: &str = "select count(distinct tenant_id) from jobforge.jobs where ready";

/// A large tenant at the best priority a tenant may have, and small ones that enqueue a job a second each.
pub async fn small_tenants(ground: &Ground<'_>) -> Result<Found> {
    #[derive(Deserialize)]
    struct Stamped {
        stamp_ns: Option<u64>,
    }
    let plan = ground.plan;
    let small = new_tenants(SMALL_TENANTS);
    let pickup = PickupPlan {
        rate_per_s: SMALL_TENANTS as u32,
        seconds: plan.pickup_seconds,
        warm_up: SMALL_TENANTS,
        payload: Payload::new(Size::Small),
    };
    let mut site = ground.site(Scenario::SmallTenants.name()).await?;
    wait(&site, &small, 0, PLAIN_PRIORITY).await?;
    // On top what the worker can run in that time, so that the large tenant never has fewer.
    let meanwhile = site.jobforge.worker_config()?.slots * 1000 * (plan.pickup_seconds as usize + 1);
    wait(&site, &[site.jobforge.tenant()], plan.jobs + meanwhile, BEST_PRIORITY).await?;
    site.settle().await?;

    let recorder = Recorder::new(&pickup);
    let started = Arc::clone(&recorder);
    let worker = Worker::builder(site.jobforge.worker_config()?)
        .handle(TYPE, move |_: JobContext, stamped: Stamped| {
            if let Some(stamp_ns) = stamped.stamp_ns {
                started.handler_started(stamp_ns);
            }
            async {
                sleep(HANDLER_TAKES).await;
                Ok(Outcome::done())
            }
        })
        .build()?;
    let before = site.count(LARGE_WAITING).await?;
    site.jobforge.connect().await?;
    let running = worker.start().await?;
    let latencies = paced(&site, (&pickup, &recorder), &small).await;
    running.shutdown().await;
    site.jobforge.disconnect().await?;
    let evidence = evidence(&site, Scenario::SmallTenants, (before, LARGE_WAITING)).await?;
    site.clear().await?;

    let millis: Vec<f64> = latencies?.iter().map(|latency| latency.as_secs_f64() * 1e3).collect();
    let at = |percent| percentile(&millis, percent).context("no latencies were measured");
    let name = format!("{SMALL_TENANTS} small tenants beside {} waiting", count(plan.jobs));
    Ok(Found {
        samples: vec![
            (figure(format!("{name}: start p50"), "ms", &[]), at(50.0)?),
            (figure(format!("{name}: start p99"), "ms", SMALL_P99), at(99.0)?),
        ],
        evidence: Some(evidence),
        held: Vec::new(),
    })
}

/// Of those that tenants may give themselves.
const BEST_PRIORITY: i16 = 10;
const PLAIN_PRIORITY: i16 = 100;

const LARGE_WAITING: &str = "select count(*) from jobforge.jobs where ready and priority = 10";

async fn paced(
    site: &Site<'_>,
    (plan, recorder): (&PickupPlan, &Recorder),
    small: &[Uuid],
) -> Result<Vec<Duration>> {
    let producer = site.jobforge.producer()?;
    let next = AtomicUsize::new(0);
    pace(plan, recorder, |payload| {
        let tenant = small[next.fetch_add(1, Ordering::Relaxed) % small.len()];
        async move {
            rpc::enqueue_job(producer, tenant, &job(&payload)).await?;
            Ok(())
        }
    })
    .await
}

/// Three tenants, each with enough for the whole drain, and whose jobs are started.
pub async fn weights(ground: &Ground<'_>) -> Result<Found> {
    let jobs = ground.plan.jobs;
    let site = ground.site(Scenario::Weights.name()).await?;
    let tenants = new_tenants(WEIGHTS.len());
    wait(&site, &tenants, jobs * WEIGHTS.len(), PLAIN_PRIORITY).await?;
    for (tenant, weight) in tenants.iter().zip(WEIGHTS) {
        site.lay_out(&format!("select jobforge.upsert_tenant('{tenant}', p_weight => {weight})")).await?;
    }
    site.settle().await?;
    let before = site.count(WAITING_TENANTS).await?;
    let drained = site.drain(jobs, Duration::ZERO).await?;
    let evidence = evidence(&site, Scenario::Weights, (before, WAITING_TENANTS)).await?;
    site.clear().await?;

    let starts = |tenant: &Uuid| drained.starts.get(tenant).map_or(0.0, |starts| *starts as f64);
    let portions: Vec<f64> = tenants.iter().map(starts).collect();
    let off = worst_deviation(&portions, &WEIGHTS.map(f64::from)).context("nothing was started")?;
    let share = |(weight, portion): (u32, &f64)| {
        (figure(format!("weights 1:2:4: share of weight {weight}"), "%", &[]), 100.0 * portion / jobs as f64)
    };
    let mut samples: Vec<_> = WEIGHTS.into_iter().zip(&portions).map(share).collect();
    samples.push((figure("weights 1:2:4: worst share off by", "%", SHARES_OFF), 100.0 * off));
    Ok(Found { samples, evidence: Some(evidence), held: Vec::new() })
}

async fn evidence(site: &Site<'_>, scenario: Scenario, (before, query): (i64, &str)) -> Result<Evidence> {
    let after = site.count(query).await?;
    let drained = site.count(DONE).await?;
    Ok(Evidence { scenario: scenario.name(), before, after, drained, strays: 0 })
}

fn new_tenants(tenants: usize) -> Vec<Uuid> {
    (0..tenants).map(|_| Uuid::now_v7()).collect()
}

/// Waiting jobs of the tenants in turn, as if all had enqueued them at the same pace.
async fn wait(site: &Site<'_>, tenants: &[Uuid], jobs: usize, priority: i16) -> Result<()> {
    let admin = connect(&site.database.url).await?;
    let jobs = i32::try_from(jobs)?;
    admin
        .execute_typed(
            &format!(
                "with known as (
               insert into jobforge.tenants (id, name) select t, 'sharing' from unnest($1) as t on conflict do nothing)
             insert into jobforge.jobs (tenant_id, id, run_at, created_at, max_attempts, priority, ready, status,
               retention, queue, type, payload, source)
             select $1[n % cardinality($1) + 1], {}, now(), now(), 5, $3, true,
               'queued', 'week', 'default', $4, '{{\"a\": 1}}', 'manual'
             from generate_series(1, $2) as n",
                id_of("n")
            ),
            &[
                (&tenants, Type::UUID_ARRAY),
                (&jobs, Type::INT4),
                (&priority, Type::INT2),
                (&TYPE, Type::TEXT),
            ],
        )
        .await
        .context("laying out the tenants' jobs")?;
    Ok(())
}
