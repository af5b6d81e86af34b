//! W6 to W9: JobForge against itself. What a drain loses to what grows around it, how it shares between tenants,
//! what idling costs, and how long a look takes.
//!
//! On a noisy machine the reference has to be close: each scenario is laid out first, then a plain drain is measured
//! in a database of its own, then the scenario, and the ratio is of these two.

mod drain;
mod fairness;
mod ground;
mod idle;
mod looks;
mod plan;
mod plots;
mod scenario;
mod snapshot;
mod standing;

use anyhow::{Context, Result};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use self::ground::Ground;
pub use self::plan::{GrowthPlan, GrowthSizes};
pub use self::plots::write as write_plots;
pub use self::scenario::Scenario;
use crate::cli::Plan;
use crate::figures::Figures;
use crate::metric::Metric;
use crate::payload::Size;
use crate::server::Server;

/// What the figures rest on and the plots are drawn from.
#[derive(Debug, Default, Serialize)]
pub struct Findings {
    pub evidence: Vec<Evidence>,
    /// The last run under a held snapshot.
    pub held: Vec<Second>,
}

impl Findings {
    /// What makes a figure worth less than it looks: jobs ran that something should have held back.
    pub fn strays(&self) -> Vec<String> {
        let strayed = self.evidence.iter().filter(|evidence| evidence.strays > 0);
        let told = |evidence: &Evidence| {
            let Evidence { scenario, strays, drained, .. } = evidence;
            format!(
                "{scenario}: {strays} of the {drained} jobs that ran belong to tenants that were held back"
            )
        };
        strayed.map(told).collect()
    }
}

/// That a scenario was what its name says.
#[derive(Debug, Clone, Serialize)]
pub struct Evidence {
    pub scenario: &'static str,
    /// What stood around the drain, counted before it and after it.
    pub before: i64,
    pub after: i64,
    /// Jobs in the history that were not there before.
    pub drained: i64,
    /// Those of them that a pause or a limit should have held back.
    pub strays: i64,
}

/// One second of a steady load.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Second {
    pub second: u32,
    pub started: usize,
    pub p50_ms: f64,
    pub p99_ms: f64,
}

/// What one scenario found out in one run.
#[derive(Debug, Default)]
pub struct Found {
    pub samples: Vec<(Metric, f64)>,
    pub evidence: Option<Evidence>,
    pub held: Vec<Second>,
}

pub async fn run(plan: &Plan, server: &Server, figures: &mut Figures) -> Result<Findings> {
    let scenarios: Vec<Scenario> = Scenario::wanted(plan);
    let mut findings = Findings::default();
    if scenarios.is_empty() {
        return Ok(findings);
    }
    let ground = Ground::lay(server, plan).await?;
    let progress = ProgressBar::new(scenarios.len() as u64 * u64::from(plan.runs))
        .with_style(ProgressStyle::with_template("{bar:30} {pos}/{len} {elapsed} (left: {eta}) {msg}")?);
    for run in 0..plan.runs {
        for scenario in &scenarios {
            progress.set_message(format!("run {}: {}", run + 1, scenario.title(plan)));
            let found = scenario.measure(&ground).await;
            let found = found.with_context(|| scenario.title(plan))?;
            for (metric, sample) in found.samples {
                figures.record(Size::Small, &metric, "jobforge", sample);
            }
            findings.evidence.extend(found.evidence);
            if !found.held.is_empty() {
                findings.held = found.held;
            }
            progress.inc(1);
        }
    }
    progress.finish_and_clear();
    ground.clear().await?;
    Ok(findings)
}
