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
    let mut note = |way: &str, look: Look, slowest: Duration| {
        let name = format!("{}: {}{way}", Scenario::Looks.title(ground.plan), look.title());
        let figure = metric::named(Workload::W9, name, "ms, slowest of 20", LOOK);
        samples.push((figure, slowest.as_secs_f64() * 1000.0));
    };
    for look in Look::ALL {
        let slowest = slowest(async || Ok(looker.look(look).await?)).await;
        note("", look, slowest.with_context(|| format!("looking: {look:?}"))?);
    }
    let served = site.jobforge.serve(true).await?.context("a server")?;
    let mut browser = site.jobforge.browser(&served).await?;
    for look in Look::ALL {
        let path = looker.path(look);
        note(", over HTTP", look, slowest(async || browser.get(&path).await).await?);
    }
    served.handle.shutdown().await;
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

/// How long the slowest of some looks takes.
async fn slowest(mut look: impl AsyncFnMut() -> Result<()>) -> Result<Duration> {
    let mut slowest = Duration::ZERO;
    for _ in 0..TIMES {
        let start = Instant::now();
        look().await?;
        slowest = slowest.max(start.elapsed());
    }
    Ok(slowest)
}

impl Looker<'_> {
    /// Where the API shows the same, with the budget that it gives a filter.
    fn path(&self, look: Look) -> String {
        let (live, over) = (self.live, self.over);
        match look {
            Look::GetLive => format!("jobs/{live}"),
            Look::GetOver => format!("jobs/{over}"),
            Look::Attempts => format!("jobs/{over}/attempts"),
            Look::Explain => format!("jobs/{live}/explain"),
            Look::Newest => "jobs".to_owned(),
            Look::Over => "jobs?status=succeeded".to_owned(),
            Look::Rare => "jobs?tag=nobody".to_owned(),
            Look::Search => "jobs?payload=%7B%22nobody%22%3A%22has%22%7D".to_owned(),
            Look::Summary => "jobs/summary".to_owned(),
        }
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
