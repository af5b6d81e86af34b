//! The figures' names, units and bounds. The bounds are the ones that must hold, not the ones aimed at.

use std::borrow::Cow;

use clap::ValueEnum;
use serde::Serialize;

/// A workload, by the name it has in the performance notes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, ValueEnum)]
#[value(rename_all = "verbatim")]
pub enum Workload {
    W1,
    W2,
    W3,
    W4,
    W5,
    W6,
    W7,
    W8,
    W9,
}

impl Workload {
    /// Those that compare contenders; the others measure JobForge against itself.
    pub const COMPARED: [Workload; 5] =
        [Workload::W1, Workload::W2, Workload::W3, Workload::W4, Workload::W5];
}

/// What one figure measures.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Metric {
    pub workload: Workload,
    pub name: Cow<'static, str>,
    pub unit: &'static str,
    #[serde(skip)]
    pub bounds: &'static [Bound],
}

/// What must hold for the subject.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bound {
    pub against: Against,
    pub limit: Limit,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Against {
    /// The ratio to this contender.
    Contender(&'static str),
    /// The ratio to the subject's own bulk enqueue by this method.
    OwnBulk(&'static str),
    /// The figure itself.
    Nothing,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Limit {
    AtLeast(f64),
    AtMost(f64),
}

impl Limit {
    pub fn holds(self, value: f64) -> bool {
        match self {
            Limit::AtLeast(bound) => value >= bound,
            Limit::AtMost(bound) => value <= bound,
        }
    }
}

/// What no user may do: rows copied into the jobs' own table past every function, the limit of what enqueuing in bulk
/// could be with these columns and indexes.
pub const BARE_COPY: &str = "bare COPY into the same table";

const RAW: Against = Against::Contender("raw");
const GRAPHILE: Against = Against::Contender("graphile");

pub const fn bound(against: Against, limit: Limit) -> Bound {
    Bound { against, limit }
}

const fn metric(
    workload: Workload,
    name: &'static str,
    unit: &'static str,
    bounds: &'static [Bound],
) -> Metric {
    Metric { workload, name: Cow::Borrowed(name), unit, bounds }
}

const SINGLE_BOUNDS: &[Bound] = &[bound(RAW, Limit::AtLeast(0.6))];

pub const SINGLE_1: Metric =
    metric(Workload::W1, "enqueue one by one, 1 connection", "jobs/s", SINGLE_BOUNDS);
pub const SINGLE_10: Metric =
    metric(Workload::W1, "enqueue one by one, 10 connections", "jobs/s", SINGLE_BOUNDS);
/// The others have no server: theirs is what they do in SQL at their most parallel.
pub const HTTP: Metric = metric(
    Workload::W1,
    "enqueue over HTTP, 64 clients (others: SQL, 10 connections)",
    "jobs/s",
    &[bound(GRAPHILE, Limit::AtLeast(2.0))],
);
pub const HTTP_ALONE: Metric = metric(Workload::W1, "the same, a transaction for each", "jobs/s", &[]);
pub const HTTP_GAIN: Metric =
    metric(Workload::W1, "what gathering gains", "×", &[bound(Against::Nothing, Limit::AtLeast(5.0))]);
pub const HTTP_P99: Metric = metric(Workload::W1, "enqueue over HTTP p99", "ms", &[]);
pub const HTTP_HELD_P99: Metric = metric(
    Workload::W1,
    "the same p99 while a transaction holds a key",
    "ms",
    &[bound(Against::Nothing, Limit::AtMost(50.0))],
);
pub const BULK: Metric = metric(
    Workload::W2,
    "bulk enqueue",
    "jobs/s",
    &[bound(GRAPHILE, Limit::AtLeast(2.0)), bound(Against::OwnBulk(BARE_COPY), Limit::AtLeast(0.4))],
);
pub const DRAIN: Metric = metric(
    Workload::W3,
    "drain",
    "jobs/s",
    &[bound(GRAPHILE, Limit::AtLeast(1.2)), bound(RAW, Limit::AtLeast(0.7))],
);
pub const PICKUP_P50: Metric =
    metric(Workload::W4, "pickup p50", "ms", &[bound(GRAPHILE, Limit::AtMost(1.0))]);
pub const PICKUP_P99: Metric = metric(Workload::W4, "pickup p99", "ms", &[]);
pub const PICKUP_MAX: Metric = metric(Workload::W4, "pickup max", "ms", &[]);

/// A bulk enqueue in one of the ways that are not the contender's best.
pub fn bulk_by(method: &str) -> Metric {
    Metric { name: Cow::Owned(format!("bulk enqueue by {method}")), bounds: &[], ..BULK }
}

/// A figure whose name tells the sizes it was measured with.
pub fn named(workload: Workload, name: String, unit: &'static str, bounds: &'static [Bound]) -> Metric {
    Metric { workload, name: Cow::Owned(name), unit, bounds }
}

/// The costs of one kind of phase, per job.
pub struct CostMetrics {
    pub wal: Metric,
    pub transactions: Metric,
    pub cpu: Metric,
}

pub const DRAIN_COST: CostMetrics = CostMetrics {
    wal: metric(Workload::W5, "drain: WAL", "B/job", &[bound(Against::Nothing, Limit::AtMost(1100.0))]),
    transactions: metric(
        Workload::W5,
        "drain: transactions",
        "per job",
        &[bound(Against::Nothing, Limit::AtMost(0.02))],
    ),
    cpu: metric(Workload::W5, "drain: Postgres CPU", "µs/job", &[]),
};
pub const BULK_COST: CostMetrics = CostMetrics {
    wal: metric(Workload::W5, "bulk enqueue: WAL", "B/job", &[]),
    transactions: metric(Workload::W5, "bulk enqueue: transactions", "per job", &[]),
    cpu: metric(Workload::W5, "bulk enqueue: Postgres CPU", "µs/job", &[]),
};
pub const LEFT: Metric = metric(Workload::W5, "after the drain: tables and indexes", "B/job", &[]);
pub const LEFT_VACUUMED: Metric = metric(Workload::W5, "the same after VACUUM", "B/job", &[]);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_include_their_bound() {
        assert!(Limit::AtLeast(0.7).holds(0.7));
        assert!(!Limit::AtLeast(0.7).holds(0.69));
        assert!(Limit::AtMost(1.0).holds(1.0));
        assert!(!Limit::AtMost(1.0).holds(1.01));
    }
}
