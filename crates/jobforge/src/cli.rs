//! The command line.

mod connectors;
mod operate;
mod server;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use jiff::{SignedDuration, Timestamp};
use uuid::Uuid;

use crate::config::LogFormat;
pub(crate) use connectors::{ConnectorsAction, ConnectorsArgs, ConnectorsSetArgs};

pub(crate) use operate::{
    DefinitionsAction, DefinitionsArgs, DefinitionsSetArgs, DoctorArgs, Held, PauseArgs, PausesArgs,
    ResumeArgs, TenantsAction, TenantsArgs, TenantsSetArgs,
};
pub(crate) use server::{KeysAction, KeysArgs, KeysCreateArgs, ServeArgs};

/// Durable background work for many tenants on the Postgres you already have.
#[derive(Debug, Parser)]
#[command(name = "jobforge", version, about, max_term_width = 100)]
#[command(after_help = "Exit codes: 0 done, 1 failed, 2 wrong usage, 3 no Postgres found.\n\
    Settings: flag, then JOBFORGE_* in the environment, then ./jobforge.toml, then the default.")]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What every command takes.
#[derive(Debug, Args)]
pub(crate) struct Global {
    /// The database [env: JOBFORGE_DATABASE_URL, and but for `dev` DATABASE_URL]
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) database_url: Option<String>,
    /// A way around a pooler, on which notifications are heard [env: JOBFORGE_DIRECT_URL]
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) direct_url: Option<String>,
    /// Whose jobs [env: JOBFORGE_TENANT]
    #[arg(long, global = true, value_name = "UUID")]
    pub(crate) tenant: Option<Uuid>,
    /// How log lines on stderr look [default: text on a terminal, json elsewhere] [env: JOBFORGE_LOG__FORMAT]
    #[arg(long, global = true, value_name = "FORMAT")]
    pub(crate) log_format: Option<LogFormat>,
    /// Answer in JSON on stdout; everything else goes to stderr
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run everything on a private Postgres, with demo jobs
    Dev(DevArgs),
    /// Bring the database's schema up to date, or look at it
    Migrate(MigrateArgs),
    /// Run a worker
    Work(WorkArgs),
    /// Run a scheduler: of many, one leads
    Schedule,
    /// Run the HTTP API
    Serve(ServeArgs),
    /// Run at most N due jobs in this process, then end
    Tick(TickArgs),
    /// Enqueue a job
    Enqueue(EnqueueArgs),
    /// Look at jobs, cancel them, run them again
    Jobs(JobsArgs),
    /// How deep each queue is, what comes and goes, who serves it
    Queues(QueuesArgs),
    /// Look at dead letters, put them back to work, undo that
    Dead(DeadArgs),
    /// List the workers
    Workers(WorkersArgs),
    /// Hold a queue, a tenant or a definition back
    Pause(PauseArgs),
    /// End a pause
    Resume(ResumeArgs),
    /// List what is paused
    Pauses(PausesArgs),
    /// Look at tenants, change their weights and limits
    Tenants(TenantsArgs),
    /// Look at definitions (job types), change them and their limits
    Definitions(DefinitionsArgs),
    /// Set up connectors: their settings and secrets
    Connectors(ConnectorsArgs),
    /// Make, list and revoke the keys of the HTTP API
    Keys(KeysArgs),
    /// Print the description of the HTTP API (OpenAPI)
    Openapi,
    /// Measure this database: enqueue jobs in bulk, then drain them
    Bench(BenchArgs),
    /// Check the health of the database and of what runs on it
    Doctor(DoctorArgs),
    /// Check the file of commands: the programs this worker runs as jobs
    Commands(CommandsArgs),
    /// Look at the settings
    Config(ConfigArgs),
}

#[derive(Debug, Args)]
pub(crate) struct DevArgs {
    /// Where the private Postgres and its logins live [default: ./.jobforge]
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// Where the HTTP API listens [default: server.listen, or a free port when that one is taken]
    #[arg(long, value_name = "ADDR")]
    pub(crate) listen: Option<SocketAddr>,
    /// Enqueue no demo jobs
    #[arg(long)]
    pub(crate) no_demo: bool,
    /// The directory of the Postgres binaries [env: JOBFORGE_PG_BIN]
    #[arg(long, value_name = "DIR")]
    pub(crate) pg_bin: Option<PathBuf>,
    /// Where there is no Postgres, fetch one by npm without asking [env: JOBFORGE_PG_DOWNLOAD]
    #[arg(long)]
    pub(crate) yes: bool,
}

#[derive(Debug, Args)]
pub(crate) struct MigrateArgs {
    /// What to do
    #[arg(value_enum, default_value_t = MigrateAction::Up)]
    pub(crate) action: MigrateAction,
    /// Say what would be done, and do nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Print the SQL of everything, for review or to be run by hand; needs no database
    #[arg(long, conflicts_with = "dry_run")]
    pub(crate) print: bool,
    /// Apply every function again, to mend what was changed by hand
    #[arg(long, conflicts_with_all = ["dry_run", "print"])]
    pub(crate) functions: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum MigrateAction {
    /// Apply what is missing
    Up,
    /// Say what is applied and what is missing
    Status,
}

#[derive(Debug, Args)]
pub(crate) struct WorkArgs {
    /// The queues to serve, separated by commas
    #[arg(long, value_delimiter = ',', value_parser = trimmed, value_name = "NAMES")]
    pub(crate) queues: Option<Vec<String>>,
    /// The types to run, separated by commas [default: all that this program can run]
    #[arg(long, value_delimiter = ',', value_name = "TYPES")]
    pub(crate) types: Option<Vec<String>>,
    /// How many jobs run at a time
    #[arg(long, visible_alias = "slots", value_name = "N", value_parser = slots)]
    pub(crate) concurrency: Option<usize>,
    /// Run what is due, then end
    #[arg(long)]
    pub(crate) once: bool,
    /// The file of commands to run as jobs [default: worker.commands_file]
    #[arg(long, value_name = "FILE")]
    pub(crate) commands: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct CommandsArgs {
    #[command(subcommand)]
    pub(crate) action: CommandsAction,
}

#[derive(Debug, Subcommand)]
pub(crate) enum CommandsAction {
    /// List the commands of the file, or everything that is wrong with it
    Check {
        /// The file [default: worker.commands_file]
        #[arg(long, value_name = "FILE")]
        file: Option<PathBuf>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct TickArgs {
    /// The most jobs to run
    #[arg(long, default_value_t = 10, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=5000))]
    pub(crate) limit: u32,
    /// The queues to look in, separated by commas
    #[arg(long, value_delimiter = ',', value_parser = trimmed, value_name = "NAMES")]
    pub(crate) queues: Option<Vec<String>>,
}

#[derive(Debug, Args)]
pub(crate) struct EnqueueArgs {
    /// The job's type, e.g. demo.echo
    #[arg(value_name = "TYPE")]
    pub(crate) job_type: String,
    /// The payload: JSON, @file, or - for stdin
    #[arg(long, default_value = "{}", value_name = "JSON|@FILE|-")]
    pub(crate) payload: String,
    /// The queue it waits in [default: the type's]
    #[arg(long)]
    pub(crate) queue: Option<String>,
    /// Smaller is sooner [default: the type's]
    #[arg(long)]
    pub(crate) priority: Option<i32>,
    /// Not before this time, e.g. 2030-01-31T08:00:00Z
    #[arg(long, value_name = "TIME", conflicts_with = "delay")]
    pub(crate) run_at: Option<Timestamp>,
    /// Not before this long from now by this machine's clock, e.g. 10s or 1h30m
    #[arg(long, value_name = "DURATION")]
    pub(crate) delay: Option<SignedDuration>,
    /// The same key again is answered with the first job
    #[arg(long, value_name = "KEY")]
    pub(crate) idempotency_key: Option<String>,
    /// A living job of the same key is the answer instead of a new one
    #[arg(long, value_name = "KEY")]
    pub(crate) dedupe_key: Option<String>,
    /// Beside jobs of the same key it runs only as far as its definition allows: one at a time
    #[arg(long, value_name = "KEY")]
    pub(crate) concurrency_key: Option<String>,
    /// Tell the workers through the broker of the settings, as `broker.publish` does always
    #[arg(long)]
    pub(crate) hint: bool,
    /// How many such jobs
    #[arg(long, default_value_t = 1, value_name = "N", conflicts_with_all = ["idempotency_key", "dedupe_key"])]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub(crate) count: u32,
}

#[derive(Debug, Args)]
pub(crate) struct JobsArgs {
    #[command(subcommand)]
    pub(crate) action: JobsAction,
}

#[derive(Debug, Subcommand)]
pub(crate) enum JobsAction {
    /// List jobs, newest first
    List(JobsListArgs),
    /// Show a job with its attempts and log lines
    Show {
        /// The job
        id: Uuid,
    },
    /// Print a job's result, or write it to a file, wherever it is stored
    Result {
        /// The job
        id: Uuid,
        /// The file to write it to [default: stdout]
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
    /// Say why a job does not run, and when it will
    Explain {
        /// The job
        id: Uuid,
    },
    /// Count jobs by status, tell what comes and goes
    Summary,
    /// Cancel a waiting job, ask a running one to stop
    Cancel {
        /// The job
        id: Uuid,
        /// Why
        #[arg(long)]
        reason: Option<String>,
    },
    /// Run a waiting job or a dead letter now
    Retry {
        /// The job
        id: Uuid,
    },
}

#[derive(Debug, Args)]
pub(crate) struct JobsListArgs {
    /// Only these, separated by commas: blocked, queued, running, succeeded, failed, dead, canceled
    #[arg(long, value_delimiter = ',', value_name = "STATUS")]
    pub(crate) status: Option<Vec<String>>,
    /// Only this type
    #[arg(long = "type", value_name = "TYPE")]
    pub(crate) job_type: Option<String>,
    /// Only this queue
    #[arg(long)]
    pub(crate) queue: Option<String>,
    /// The most jobs
    #[arg(long, default_value_t = 20, value_name = "N")]
    pub(crate) limit: i32,
    /// Where the page before ended
    #[arg(long, value_name = "CURSOR")]
    pub(crate) cursor: Option<Uuid>,
}

#[derive(Debug, Args)]
pub(crate) struct QueuesArgs {
    /// About how many jobs to count; more than that are estimated from these
    #[arg(long, default_value_t = 20_000, value_name = "N")]
    pub(crate) counted: i32,
}

#[derive(Debug, Args)]
pub(crate) struct DeadArgs {
    #[command(subcommand)]
    pub(crate) action: DeadAction,
}

#[derive(Debug, Subcommand)]
pub(crate) enum DeadAction {
    /// List dead letters, the last to die first
    List(DeadListArgs),
    /// List the causes: how many dead letters each has, since when, and one of them
    Groups(DeadGroupsArgs),
    /// Show a dead letter, or an operation with what became of its jobs
    Show {
        /// The job or the operation
        id: Uuid,
    },
    /// Put dead letters back to work: by id, by filter, or all
    Redrive(DeadRedriveArgs),
    /// Go on with an operation that was interrupted
    Resume {
        /// The operation
        id: Uuid,
    },
    /// Undo a redrive for the jobs that have not started since
    Undo {
        /// The operation, as the redrive told it
        id: Uuid,
    },
    /// List the operations, the latest first
    Operations {
        /// The most operations
        #[arg(long, default_value_t = 20, value_name = "N")]
        limit: i32,
    },
}

/// Which dead letters.
#[derive(Debug, Args)]
pub(crate) struct DeadFilterArgs {
    /// Only this type
    #[arg(long = "type", value_name = "TYPE")]
    pub(crate) job_type: Option<String>,
    /// Only this queue
    #[arg(long)]
    pub(crate) queue: Option<String>,
    /// Only those that died at or after this time, e.g. 2030-01-31T08:00:00Z
    #[arg(long, value_name = "TIME")]
    pub(crate) failed_after: Option<Timestamp>,
    /// Only those that died before this time
    #[arg(long, value_name = "TIME")]
    pub(crate) failed_before: Option<Timestamp>,
}

#[derive(Debug, Args)]
pub(crate) struct DeadListArgs {
    #[command(flatten)]
    pub(crate) filter: DeadFilterArgs,
    /// Only this cause, as `dead groups` tells it
    #[arg(long, value_name = "HEX")]
    pub(crate) fingerprint: Option<String>,
    /// The most dead letters
    #[arg(long, default_value_t = 20, value_name = "N")]
    pub(crate) limit: i32,
    /// Where the page before ended
    #[arg(long, value_name = "CURSOR")]
    pub(crate) cursor: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct DeadGroupsArgs {
    #[command(flatten)]
    pub(crate) filter: DeadFilterArgs,
    /// The most groups
    #[arg(long, default_value_t = 20, value_name = "N")]
    pub(crate) limit: i32,
}

#[derive(Debug, Args)]
pub(crate) struct DeadRedriveArgs {
    /// These jobs
    #[arg(value_name = "ID", conflicts_with_all = ["job_type", "queue", "failed_after", "failed_before", "fingerprint", "tag", "all"])]
    pub(crate) ids: Vec<Uuid>,
    #[command(flatten)]
    pub(crate) filter: DeadFilterArgs,
    /// Only this cause, as `dead groups` tells it
    #[arg(long, value_name = "HEX")]
    pub(crate) fingerprint: Option<String>,
    /// Only those with this tag
    #[arg(long)]
    pub(crate) tag: Option<String>,
    /// All dead letters of the tenant
    #[arg(long, conflicts_with_all = ["job_type", "queue", "failed_after", "failed_before", "fingerprint", "tag"])]
    pub(crate) all: bool,
    /// Edit the payloads: a JSON Patch (RFC 6902), @file, or - for stdin
    #[arg(long, value_name = "JSON|@FILE|-")]
    pub(crate) patch: Option<String>,
    /// How often each may fail from now on [default: as before]
    #[arg(long, value_name = "N")]
    pub(crate) max_attempts: Option<i32>,
    /// Why, for the record
    #[arg(long)]
    pub(crate) reason: Option<String>,
    /// Say what would be done, and do nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, Args)]
pub(crate) struct WorkersArgs {
    /// The most workers
    #[arg(long, default_value_t = 100, value_name = "N")]
    pub(crate) limit: i32,
}

#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    /// How many jobs
    #[arg(long, default_value_t = 20_000, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub(crate) jobs: u32,
    /// How many run at a time
    #[arg(long, default_value_t = 16, value_name = "N", value_parser = slots)]
    pub(crate) slots: usize,
}

/// As many as the setting `worker.slots` takes.
fn slots(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| (1..=10_000).contains(number));
    number.ok_or_else(|| "give a number from 1 to 10000".to_owned())
}

#[derive(Debug, Args)]
pub(crate) struct ConfigArgs {
    #[command(subcommand)]
    pub(crate) action: ConfigAction,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigAction {
    /// Show every setting and where it comes from; secrets are hidden
    Show,
}

/// A name of a list, without the blanks around its comma.
#[expect(clippy::unnecessary_wraps, reason = "this is what clap's parsers look like")]
fn trimmed(name: &str) -> Result<String, Infallible> {
    Ok(name.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }
}
