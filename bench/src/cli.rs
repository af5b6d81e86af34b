//! The command line, and the plan it comes down to.

use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use serde::Serialize;

use crate::metric::Workload;
use crate::payload::Size;

/// Measures JobForge, the raw-SQL limit and graphile_worker, interleaved on one Postgres.
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
}

impl Cli {
    pub fn plan(&self) -> Plan {
        let size = if self.quick { QUICK } else { FULL };
        let all = [Workload::W1, Workload::W2, Workload::W3, Workload::W4, Workload::W5];
        Plan {
            runs: self.runs.unwrap_or(size.runs),
            jobs: self.jobs.unwrap_or(size.jobs) as usize,
            single_time: size.single_time,
            pickup_rate_per_s: 50,
            pickup_seconds: size.pickup_seconds,
            workloads: if self.only.is_empty() { all.to_vec() } else { self.only.clone() },
            payloads: self.payload.clone(),
        }
    }
}

struct Sizes {
    runs: u32,
    jobs: u32,
    single_time: Duration,
    pickup_seconds: u32,
}

const FULL: Sizes = Sizes { runs: 3, jobs: 100_000, single_time: Duration::from_secs(3), pickup_seconds: 20 };

const QUICK: Sizes =
    Sizes { runs: 1, jobs: 2_000, single_time: Duration::from_millis(300), pickup_seconds: 2 };

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
}
