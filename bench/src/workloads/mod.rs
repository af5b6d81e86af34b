//! The workloads. Each takes a contender and an empty database and returns the samples of one run.

mod bulk_and_drain;
mod http;
mod pickup;
mod single;

use anyhow::Result;

use crate::cli::Plan;
use crate::contenders::Contender;
use crate::cost::{Cost, Meter};
use crate::metric::{CostMetrics, Metric, Workload};
use crate::payload::Payload;
use crate::postgres_cpu::Postmaster;
use crate::server::{Database, Server};

pub type Samples = Vec<(Metric, f64)>;

/// One stretch of measuring on one fresh database. Bulk enqueue, drain and their costs share one, because the
/// drain needs what the enqueue brings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pass {
    Single { connections: usize },
    Http,
    BulkAndDrain,
    BulkBy { method: &'static str },
    Pickup,
}

/// Where and with what a pass runs.
pub struct Setting<'a> {
    pub server: &'a Server,
    pub postmaster: Option<&'a Postmaster>,
    pub plan: &'a Plan,
    pub payload: &'a Payload,
    pub database: Database,
}

impl Pass {
    /// The passes a contender must go through for the workloads asked for.
    pub fn needed(plan: &Plan, contender: &dyn Contender) -> Vec<Self> {
        let wanted = |workload: Workload| plan.workloads.contains(&workload);
        let mut passes = Vec::new();
        if wanted(Workload::W1) {
            passes.extend([Pass::Single { connections: 1 }, Pass::Single { connections: 10 }, Pass::Http]);
        }
        if wanted(Workload::W2) {
            passes.extend(contender.bulk_methods()[1..].iter().map(|method| Pass::BulkBy { method }));
        }
        if wanted(Workload::W2) || wanted(Workload::W3) || wanted(Workload::W5) {
            passes.push(Pass::BulkAndDrain);
        }
        if wanted(Workload::W4) {
            passes.push(Pass::Pickup);
        }
        passes
    }

    pub fn label(self) -> String {
        match self {
            Pass::Single { connections } => format!("W1 enqueue one by one on {connections}"),
            Pass::Http => "W1 enqueue over HTTP".to_owned(),
            Pass::BulkAndDrain => "W2 bulk enqueue, W3 drain".to_owned(),
            Pass::BulkBy { method } => format!("W2 bulk enqueue by {method}"),
            Pass::Pickup => "W4 pickup".to_owned(),
        }
    }

    pub async fn run(self, setting: &Setting<'_>, contender: &mut dyn Contender) -> Result<Samples> {
        contender.prepare(&setting.database.url).await?;
        match self {
            Pass::Single { connections } => single::run(setting, contender, connections).await,
            Pass::Http => http::run(setting, contender).await,
            Pass::BulkAndDrain => bulk_and_drain::run(setting, contender).await,
            Pass::BulkBy { method } => bulk_and_drain::run_alternative(setting, contender, method).await,
            Pass::Pickup => pickup::run(setting, contender).await,
        }
    }
}

impl Setting<'_> {
    async fn meter(&self) -> Result<Meter<'_>> {
        Meter::start(self.server, self.postmaster, &self.database).await
    }
}

fn cost_samples(metrics: CostMetrics, cost: Cost, jobs: usize) -> Samples {
    let per_job = |total: f64| total / jobs as f64;
    let mut samples =
        vec![(metrics.wal, per_job(cost.wal_bytes)), (metrics.transactions, per_job(cost.transactions))];
    samples.extend(cost.cpu_seconds.map(|seconds| (metrics.cpu, per_job(seconds * 1e6))));
    samples
}
