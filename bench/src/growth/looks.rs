//! W9: how long a look takes beside a million live jobs and ten million that are over, all of one tenant.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use jobforge_core::{Error, JobFilter, rpc};
use serde_json::value::to_raw_value;
use tokio_postgres::Client;
use uuid::Uuid;

use super::ground::{Ground, Site};
use super::standing::{DONE, history};
use super::{Evidence, Found, Scenario};
use crate::contenders::Contender;
use crate::metric::{self, Against, Bound, Limit, Workload};

/// Each look is made so often; the slowest counts.
const TIMES: usize = 20;
/// What a filter that finds little may take before it ends with a partial page.
const BUDGET_MS: i32 = 80;
/// So many live jobs a summary counts one by one.
const COUNTED: i32 = 10_000;

const LOOK: &[Bound] = &[metric::bound(Against::Nothing, Limit::AtMost(100.0))];

pub async fn measure(ground: &Ground<'_>) -> Result<Found> {
    let scaled = |full| ground.plan.growth.scaled(full);
    let mut site = ground.site(Scenario::Looks.name()).await?;
    site.lay_out(&history(scaled(10_000_000), 1)).await?;
    site.enqueue(scaled(1_000_000)).await?;
    site.settle().await?;
    let (before, live) = (site.count(DONE).await?, id(&site, "jobs").await?);
    let over = id(&site, "job_history").await?;

    site.jobforge.connect().await?;
    let looker = Looker { client: site.jobforge.producer()?, tenant: site.jobforge.tenant(), live, over };
    let mut samples = Vec::new();
    for look in Look::ALL {
        let slowest = looker.slowest(look).await.with_context(|| format!("looking: {look:?}"))?;
        let name = format!("{}: {}", Scenario::Looks.title(ground.plan), look.title());
        let figure = metric::named(Workload::W9, name, "ms, slowest of 20", LOOK);
        samples.push((figure, slowest.as_secs_f64() * 1000.0));
    }
    site.jobforge.disconnect().await?;

    let after = site.count(DONE).await?;
    site.clear().await?;
    let evidence = Evidence { scenario: Scenario::Looks.name(), before, after, drained: 0, strays: 0 };
    Ok(Found { samples, evidence: Some(evidence), held: Vec::new() })
}

/// One way to look.
#[derive(Debug, Clone, Copy)]
enum Look {
    GetLive,
    GetOver,
    Attempts,
    Explain,
    Newest,
    Over,
    Rare,
    Search,
    Summary,
}

impl Look {
    const ALL: [Look; 9] = [
        Look::GetLive,
        Look::GetOver,
        Look::Attempts,
        Look::Explain,
        Look::Newest,
        Look::Over,
        Look::Rare,
        Look::Search,
        Look::Summary,
    ];

    fn title(self) -> &'static str {
        match self {
            Look::GetLive => "get, live",
            Look::GetOver => "get, over",
            Look::Attempts => "attempts",
            Look::Explain => "explain",
            Look::Newest => "list, newest",
            Look::Over => "list, succeeded",
            Look::Rare => "list, a tag that nobody has",
            Look::Search => "list, a payload that nobody has",
            Look::Summary => "summary",
        }
    }
}

struct Looker<'a> {
    client: &'a Client,
    tenant: Uuid,
    live: Uuid,
    over: Uuid,
}

impl Looker<'_> {
    async fn slowest(&self, look: Look) -> Result<Duration> {
        let mut slowest = Duration::ZERO;
        for _ in 0..TIMES {
            let start = Instant::now();
            self.look(look).await?;
            slowest = slowest.max(start.elapsed());
        }
        Ok(slowest)
    }

    async fn look(&self, look: Look) -> Result<(), Error> {
        let (client, tenant) = (self.client, self.tenant);
        let page = JobFilter { budget_ms: BUDGET_MS, ..JobFilter::default() };
        match look {
            Look::GetLive => rpc::get_job(client, tenant, self.live).await.map(drop),
            Look::GetOver => rpc::get_job(client, tenant, self.over).await.map(drop),
            Look::Attempts => rpc::list_attempts(client, tenant, self.over).await.map(drop),
            Look::Explain => rpc::explain_job(client, tenant, self.live).await.map(drop),
            Look::Newest => rpc::list_jobs(client, tenant, &page).await.map(drop),
            Look::Over => {
                let statuses = Some(vec!["succeeded".to_owned()]);
                rpc::list_jobs(client, tenant, &JobFilter { statuses, ..page }).await.map(drop)
            }
            Look::Rare => {
                let tag = Some("nobody".to_owned());
                rpc::list_jobs(client, tenant, &JobFilter { tag, ..page }).await.map(drop)
            }
            Look::Search => {
                let payload = to_raw_value(&serde_json::json!({ "nobody": "has" })).ok();
                rpc::list_jobs(client, tenant, &JobFilter { payload, ..page }).await.map(drop)
            }
            Look::Summary => rpc::job_summary(client, tenant, COUNTED).await.map(drop),
        }
    }
}

/// A job from the middle of a table.
async fn id(site: &Site<'_>, table: &str) -> Result<Uuid> {
    let admin = crate::connection::connect(&site.database.url).await?;
    let query = format!(
        "select id from jobforge.{table} order by id offset (select count(*) / 2 from jobforge.{table}) limit 1"
    );
    Ok(admin.query_typed_one(&query, &[]).await.context("finding a job to look at")?.try_get(0)?)
}
