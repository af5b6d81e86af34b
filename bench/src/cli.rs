//! The command line, and the plan it comes down to.

use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use serde::Serialize;

use crate::growth::{GrowthPlan, GrowthSizes, Scenario};
use crate::metric::Workload;
use crate::payload::Size;

/// Measures JobForge, the raw-SQL limit and graphile_worker, interleaved on one Postgres; and with
/// --only W6,W7,W8,W9 JobForge against itself: growth, fairness, idling, looking.
///
/// Tables go to stdout, progress to stderr, all samples to a JSON file.
#[derive(Debug, Parser)]
#[command(name = "jobforge-bench", version)]
pub struct Cli {
    /// A superuser's url of the Postgres to measure on, where databases named jobforge_bench_* are dropped and
    /// created [default: a private Postgres, started for this run]
    #[arg(long, env = "JOBFORGE_BENCH_DATABASE_URL")]
    pub database_url: Option<String>,

    /// The directory of the server binaries for the private Postgres [default: the newest found]
    #[arg(long, env = "JOBFORGE_PG_BIN", conflicts_with = "database_url")]
    pub pg_bin: Option<PathBuf>,

    /// How often each figure is measured [default: 3, with --quick: 1]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    runs: Option<u32>,

    /// Jobs in the bulk enqueue and the drain [default: 100000, with --quick: 2000]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    jobs: Option<u32>,

    /// Only these workloads, e.g. --only W3 or --only W1,W4
    #[arg(long, value_delimiter = ',', ignore_case = true)]
    only: Vec<Workload>,

    /// Payloads to run with, e.g. --payload small,1k
    #[arg(long, value_delimiter = ',', default_value = "small")]
    payload: Vec<Size>,

    /// Only these contenders, e.g. --contenders jobforge,raw
    #[arg(long, value_delimiter = ',')]
    pub contenders: Vec<String>,

    /// Small sizes, one run: shows that everything works, measures nothing
    #[arg(long)]
    quick: bool,

    /// Of W6 to W9 only these
    #[arg(long, value_delimiter = ',')]
    scenarios: Vec<Scenario>,

    /// What W6 and W7 multiply the rows and tenants that stand around with [default: 1, with --quick: 0.002]
    #[arg(long, value_parser = positive)]
    scale: Option<f64>,

    /// How long W6 holds a snapshot [default: 300, with --quick: 1]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    held_seconds: Option<u32>,

    /// How long W8 looks on [default: 60, with --quick: 1]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    idle_seconds: Option<u32>,

    /// Draw W6 and W7 into this directory
    #[arg(long)]
    pub plots: Option<PathBuf>,

    /// Exit with 1 where a bound is SHORT or could not be judged; at full sizes only
    #[arg(long, conflicts_with = "quick")]
    pub judge: bool,

    /// Where the samples go [default: a file named after the time, in bench/results]
    #[arg(long)]
    pub json: Option<PathBuf>,
}

/// What is to be measured, and how much of it.
#[derive(Debug, Clone, Serialize)]
pub struct Plan {
    pub runs: u32,
    /// Jobs of one bulk enqueue, and of one drain.
    pub jobs: usize,
    /// How long jobs are enqueued one by one.
    pub single_time: Duration,
    pub pickup_rate_per_s: u32,
    pub pickup_seconds: u32,
    pub workloads: Vec<Workload>,
    pub payloads: Vec<Size>,
    pub growth: GrowthPlan,
}

impl Cli {
    pub fn plan(&self) -> Plan {
        let size = if self.quick { QUICK } else { FULL };
        let growth = size.growth;
        Plan {
            runs: self.runs.unwrap_or(size.runs),
            jobs: self.jobs.unwrap_or(size.jobs) as usize,
            single_time: size.single_time,
            pickup_rate_per_s: 50,
            pickup_seconds: size.pickup_seconds,
            workloads: if self.only.is_empty() { Workload::COMPARED.to_vec() } else { self.only.clone() },
            payloads: self.payload.clone(),
            growth: GrowthPlan {
                scale: self.scale.unwrap_or(growth.scale),
                held_seconds: self.held_seconds.unwrap_or(growth.held_seconds),
                held_rate_per_s: growth.held_rate_per_s,
                idle_seconds: self.idle_seconds.unwrap_or(growth.idle_seconds),
                scenarios: self.scenarios.clone(),
            },
        }
    }
}

impl Plan {
    /// The sizes below those that the bounds are meant for.
    pub fn shrunk(&self) -> Vec<&'static str> {
        let (growth, full) = (&self.growth, FULL.growth);
        let sizes = [
            (self.jobs < FULL.jobs as usize, "--jobs"),
            (growth.scale < full.scale, "--scale"),
            (growth.held_seconds < full.held_seconds, "--held-seconds"),
            (growth.idle_seconds < full.idle_seconds, "--idle-seconds"),
        ];
        sizes.into_iter().filter(|(smaller, _)| *smaller).map(|(_, name)| name).collect()
    }
}

fn positive(text: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| format!("{text} is not a number"))?;
    if number > 0.0 && number.is_finite() { Ok(number) } else { Err("must be more than 0".to_owned()) }
}

struct Sizes {
    runs: u32,
    jobs: u32,
    single_time: Duration,
    pickup_seconds: u32,
    growth: GrowthSizes,
}

const FULL: Sizes = Sizes {
    runs: 3,
    jobs: 100_000,
    single_time: Duration::from_secs(3),
    pickup_seconds: 20,
    growth: GrowthSizes::FULL,
};

const QUICK: Sizes = Sizes {
    runs: 1,
    jobs: 2_000,
    single_time: Duration::from_millis(300),
    pickup_seconds: 2,
    growth: GrowthSizes::QUICK,
};

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(arguments: &str) -> Plan {
        let words = ["jobforge-bench"].into_iter();
        Cli::try_parse_from(words.chain(arguments.split_whitespace())).unwrap().plan()
    }

    #[test]
    fn full_size_is_the_default() {
        let plan = plan("");
        assert_eq!((plan.runs, plan.jobs, plan.pickup_seconds), (3, 100_000, 20));
        assert_eq!(plan.workloads.len(), 5);
        assert_eq!(plan.payloads, vec![Size::Small]);
    }

    #[test]
    fn quick_is_small_and_can_be_overridden() {
        let plan = plan("--quick --runs 2 --only w3,W4 --payload small,1k");
        assert_eq!((plan.runs, plan.jobs), (2, 2_000));
        assert_eq!(plan.workloads, vec![Workload::W3, Workload::W4]);
        assert_eq!(plan.payloads, vec![Size::Small, Size::OneKib]);
    }

    #[test]
    fn growth_is_full_unless_asked_to_shrink() {
        let full = plan("--only W6,w8").growth;
        assert_eq!((full.scale, full.held_seconds, full.idle_seconds), (1.0, 300, 60));
        let small =
            plan("--only W6 --quick --scale 0.5 --held-seconds 7 --scenarios backlog,at-limit").growth;
        assert_eq!((small.scale, small.held_seconds, small.idle_seconds), (0.5, 7, 1));
        assert_eq!(small.scenarios, vec![Scenario::Backlog, Scenario::AtLimit]);
    }

    #[test]
    fn scenarios_are_those_of_the_workloads_asked_for() {
        assert_eq!(Scenario::wanted(&plan("")), vec![], "they take long: never by default");
        assert_eq!(Scenario::wanted(&plan("--only W8")), vec![Scenario::Idle]);
        assert_eq!(Scenario::wanted(&plan("--only W6,W7,W8")).len(), 12);
        let chosen = plan("--only W6,W7 --scenarios weights,idle");
        assert_eq!(Scenario::wanted(&chosen), vec![Scenario::Weights]);
    }

    #[test]
    fn sizes_below_the_full_ones_are_told() {
        assert_eq!(plan("--judge --runs 1 --only W3").shrunk(), Vec::<&str>::new());
        assert_eq!(plan("--jobs 200000 --scale 2").shrunk(), Vec::<&str>::new());
        let small = plan("--jobs 99999 --scale 0.5 --held-seconds 60 --idle-seconds 59").shrunk();
        assert_eq!(small, ["--jobs", "--scale", "--held-seconds", "--idle-seconds"]);
        assert!(Cli::try_parse_from(["jobforge-bench", "--judge", "--quick"]).is_err());
    }

    #[test]
    fn scale_of_nothing_is_refused() {
        for scale in ["0", "-1", "inf", "much"] {
            let arguments = ["jobforge-bench".to_owned(), format!("--scale={scale}")];
            assert!(Cli::try_parse_from(arguments).is_err(), "{scale}");
        }
    }
}
