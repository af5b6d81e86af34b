//! The scenarios: their names, their titles, their bounds, and what measures each.

use anyhow::Result;
use clap::ValueEnum;
use serde::Serialize;

use super::ground::Ground;
use super::standing::Standing;
use super::{Found, fairness, idle, looks, snapshot, standing};
use crate::cli::Plan;
use crate::metric::Workload;

/// One thing that grows, is shared, or idles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Scenario {
    /// W6a: a million more jobs wait
    Backlog,
    /// W6b: ten million jobs are over
    History,
    /// W6c: a million jobs of ten thousand tenants are due later
    Future,
    /// W6d: a million jobs wait whose type nobody here runs
    OtherType,
    /// W6e: ten thousand jobs run elsewhere
    Running,
    /// W6f: somebody holds a snapshot
    Snapshot,
    /// W6g: all tenants but one are paused
    Paused,
    /// W6g: all tenants but one are at their limit
    AtLimit,
    /// W7: a drain over a thousand and over ten thousand tenants
    Tenants,
    /// W7: many small tenants beside a large one
    SmallTenants,
    /// W7: weights 1, 2 and 4
    Weights,
    /// W8: ten workers and a scheduler with nothing to do
    Idle,
    /// W9: somebody looks at a million live jobs and ten million that are over
    Looks,
}

impl Scenario {
    /// Those that the plan's workloads and its choice ask for.
    pub fn wanted(plan: &Plan) -> Vec<Self> {
        let chosen = &plan.growth.scenarios;
        let wanted = |scenario: &Self| {
            plan.workloads.contains(&scenario.workload()) && (chosen.is_empty() || chosen.contains(scenario))
        };
        Self::value_variants().iter().copied().filter(wanted).collect()
    }

    pub fn workload(self) -> Workload {
        match self {
            Self::Tenants | Self::SmallTenants | Self::Weights => Workload::W7,
            Self::Idle => Workload::W8,
            Self::Looks => Workload::W9,
            _ => Workload::W6,
        }
    }

    /// The word for it on the command line and in the evidence.
    pub fn name(self) -> &'static str {
        match self {
            Self::Backlog => "backlog",
            Self::History => "history",
            Self::Future => "future",
            Self::OtherType => "other-type",
            Self::Running => "running",
            Self::Snapshot => "snapshot",
            Self::Paused => "paused",
            Self::AtLimit => "at-limit",
            Self::Tenants => "tenants",
            Self::SmallTenants => "small-tenants",
            Self::Weights => "weights",
            Self::Idle => "idle",
            Self::Looks => "looks",
        }
    }

    /// What a reader sees, with the sizes of this run.
    pub fn title(self, plan: &Plan) -> String {
        let growth = &plan.growth;
        let count = |full| count(growth.scaled(full));
        match self {
            Self::Backlog => format!("(a) {} more waiting", count(1_000_000)),
            Self::History => format!("(b) {} in history", count(10_000_000)),
            Self::Future => {
                format!("(c) {} due later, {} tenants", count(1_000_000), count(10_000))
            }
            Self::OtherType => format!("(d) {} of another type", count(1_000_000)),
            Self::Running => format!("(e) {} running elsewhere", count(10_000)),
            Self::Snapshot => {
                format!("(f) snapshot held {} s at {}/s", growth.held_seconds, growth.held_rate_per_s)
            }
            Self::Paused => format!("(g) all but one of {} tenants paused", count(10_000)),
            Self::AtLimit => format!("(g) all but one of {} tenants at their limit", count(10_000)),
            Self::Tenants => "drain over many tenants".to_owned(),
            Self::SmallTenants => "small tenants beside a large one".to_owned(),
            Self::Weights => "weights 1:2:4".to_owned(),
            Self::Idle => "10 idle workers, 1 scheduler".to_owned(),
            Self::Looks => {
                format!("looks at {} live, {} in history", count(1_000_000), count(10_000_000))
            }
        }
    }

    pub async fn measure(self, ground: &Ground<'_>) -> Result<Found> {
        match self {
            Self::Snapshot => snapshot::measure(ground).await,
            Self::Tenants => fairness::tenants(ground).await,
            Self::SmallTenants => fairness::small_tenants(ground).await,
            Self::Weights => fairness::weights(ground).await,
            Self::Idle => idle::measure(ground).await,
            Self::Looks => looks::measure(ground).await,
            standing => {
                let standing = Standing::of(standing, ground.plan);
                standing::measure(ground, &standing).await
            }
        }
    }
}

/// As people say it: 1M, 10k, 7.
pub fn count(number: usize) -> String {
    match number {
        n if n >= 1_000_000 && n.is_multiple_of(100_000) => format!("{}M", n as f64 / 1e6),
        n if n >= 1_000 && n.is_multiple_of(100) => format!("{}k", n as f64 / 1e3),
        n => n.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_short() {
        assert_eq!(count(10_000_000), "10M");
        assert_eq!(count(1_100_000), "1.1M");
        assert_eq!(count(10_000), "10k");
        assert_eq!(count(2_001), "2001");
        assert_eq!(count(20), "20");
    }

    #[test]
    fn every_name_is_the_word_the_command_line_takes() {
        for scenario in Scenario::value_variants() {
            assert_eq!(Scenario::from_str(scenario.name(), false), Ok(*scenario));
        }
    }
}
