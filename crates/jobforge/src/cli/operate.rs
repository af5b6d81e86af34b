//! The command line of operating: pauses, tenants, definitions, the doctor.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use jiff::{SignedDuration, Timestamp};
use jobforge_core::{Clear, PauseKind};
use uuid::Uuid;

/// What is paused or resumed.
#[derive(Debug, Args)]
pub(crate) struct Held {
    /// What to hold back or let go on
    #[arg(value_enum)]
    pub(crate) kind: Kind,
    /// Which one: the queue's name, the tenant's id, the definition's key
    name: String,
    /// Who does it [default: the system's user@host]
    #[arg(long = "as", value_name = "NAME")]
    pub(crate) author: Option<String>,
}

impl Held {
    /// The name as the database writes it: an id in small letters and with its dashes.
    pub(crate) fn name(&self) -> String {
        let id = (self.kind == Kind::Tenant).then(|| self.name.parse::<Uuid>().ok()).flatten();
        id.map_or_else(|| self.name.clone(), |id| id.to_string())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// All jobs of a queue
    Queue,
    /// All jobs of a tenant
    Tenant,
    /// All jobs of a type
    Definition,
}

impl From<Kind> for PauseKind {
    fn from(kind: Kind) -> PauseKind {
        match kind {
            Kind::Queue => PauseKind::Queue,
            Kind::Tenant => PauseKind::Tenant,
            Kind::Definition => PauseKind::Definition,
        }
    }
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    jobforge pause queue mail --reason 'the mail server moves' --for 30m\n  \
    jobforge pause tenant 11111111-1111-1111-1111-111111111111 --until 2030-01-31T08:00:00Z\n  \
    jobforge pause definition report.build --as ann\n\n\
    A pause that is given again changes its reason and its end and keeps its beginning.")]
pub(crate) struct PauseArgs {
    #[command(flatten)]
    pub(crate) held: Held,
    /// Why
    #[arg(long, default_value = "", hide_default_value = true)]
    pub(crate) reason: String,
    /// It ends by itself this long from now by this machine's clock, e.g. 30m or 1h30m
    #[arg(long = "for", value_name = "DURATION", conflicts_with = "until")]
    pub(crate) length: Option<SignedDuration>,
    /// It ends by itself at this time, e.g. 2030-01-31T08:00:00Z
    #[arg(long, value_name = "TIME")]
    pub(crate) until: Option<Timestamp>,
}

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  jobforge resume queue mail")]
pub(crate) struct ResumeArgs {
    #[command(flatten)]
    pub(crate) held: Held,
}

#[derive(Debug, Args)]
pub(crate) struct PausesArgs {
    /// The most pauses
    #[arg(long, default_value_t = 100, value_name = "N")]
    pub(crate) limit: i32,
}

#[derive(Debug, Args)]
pub(crate) struct TenantsArgs {
    #[command(subcommand)]
    pub(crate) action: TenantsAction,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TenantsAction {
    /// List tenants in the order of their ids
    List {
        /// The most tenants
        #[arg(long, default_value_t = 100, value_name = "N")]
        limit: i32,
        /// Those after this one
        #[arg(long, value_name = "UUID")]
        after: Option<Uuid>,
    },
    /// Show a tenant
    Show {
        /// The tenant
        id: Uuid,
    },
    /// Make a tenant known, or change it; what is not given stays
    Set(TenantsSetArgs),
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    jobforge tenants set 11111111-1111-1111-1111-111111111111 --name acme --weight 3\n  \
    jobforge tenants set 11111111-1111-1111-1111-111111111111 --max-in-flight 20 --rate 5 --burst 50\n  \
    jobforge tenants set 11111111-1111-1111-1111-111111111111 --clear max_in_flight,rate")]
pub(crate) struct TenantsSetArgs {
    /// The tenant
    pub(crate) id: Uuid,
    /// What people call it
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// Its share of each turn beside the others', 1 to 100
    #[arg(long, value_name = "N")]
    pub(crate) weight: Option<i32>,
    /// How many of its jobs may wait; a further enqueue is refused
    #[arg(long, value_name = "N")]
    pub(crate) max_pending: Option<i32>,
    /// How long history is kept, whatever the definitions say: day, week, month, year
    #[arg(long, value_name = "CLASS")]
    pub(crate) retention: Option<String>,
    /// Where its days begin and end, e.g. Europe/Berlin
    #[arg(long, value_name = "ZONE")]
    pub(crate) time_zone: Option<String>,
    #[command(flatten)]
    pub(crate) limits: Limits,
}

/// What tenants and definitions have in common.
#[derive(Debug, Args)]
pub(crate) struct Limits {
    /// How many jobs may run at a time
    #[arg(long, value_name = "N")]
    pub(crate) max_in_flight: Option<i32>,
    /// How many jobs may start in a second; 0.1 is one in ten seconds
    #[arg(long, value_name = "PER_SECOND")]
    pub(crate) rate: Option<f64>,
    /// How many of them at once, after a time with none
    #[arg(long, value_name = "N")]
    pub(crate) burst: Option<i32>,
    /// What to take away, separated by commas
    #[arg(long, value_enum, value_delimiter = ',', value_name = "LIMITS")]
    pub(crate) clear: Vec<ClearArg>,
}

impl Limits {
    pub(crate) fn cleared(&self) -> Vec<Clear> {
        self.clear.iter().map(|clear| Clear::from(*clear)).collect()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum ClearArg {
    /// How many jobs may wait (tenants)
    MaxPending,
    /// How many jobs may run at a time
    MaxInFlight,
    /// Rate and burst
    Rate,
    /// How long history is kept (tenants)
    Retention,
    /// What payloads must fit (definitions)
    ArgSchema,
    /// What of payloads is never shown (definitions)
    Redact,
}

impl From<ClearArg> for Clear {
    fn from(clear: ClearArg) -> Clear {
        match clear {
            ClearArg::MaxPending => Clear::MaxPending,
            ClearArg::MaxInFlight => Clear::MaxInFlight,
            ClearArg::Rate => Clear::Rate,
            ClearArg::Retention => Clear::Retention,
            ClearArg::ArgSchema => Clear::ArgSchema,
            ClearArg::Redact => Clear::Redact,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct DefinitionsArgs {
    #[command(subcommand)]
    pub(crate) action: DefinitionsAction,
}

#[derive(Debug, Subcommand)]
pub(crate) enum DefinitionsAction {
    /// List definitions in the order of their keys
    List {
        /// The most definitions
        #[arg(long, default_value_t = 100, value_name = "N")]
        limit: i32,
        /// Those after this one
        #[arg(long, value_name = "KEY")]
        after: Option<String>,
    },
    /// Show a definition
    Show {
        /// The job type
        key: String,
    },
    /// Make the connectors' job types known; their queues and limits stay as they are
    InstallConnectors,
    /// Make a job type known, or change it; what is not given stays
    Set(Box<DefinitionsSetArgs>),
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    jobforge definitions set mail.send --queue mail --retry-preset patient\n  \
    jobforge definitions set mail.send --max-in-flight 10 --rate 50 --burst 100\n  \
    jobforge definitions set mail.send --active false --clear rate\n  \
    jobforge definitions set mail.send --schema mail.schema.json --redact /smtp/password,/to/*/token")]
pub(crate) struct DefinitionsSetArgs {
    /// The job type
    pub(crate) key: String,
    /// What its jobs do
    #[arg(long)]
    pub(crate) description: Option<String>,
    /// The queue they wait in
    #[arg(long)]
    pub(crate) queue: Option<String>,
    /// Smaller is sooner
    #[arg(long, value_name = "N")]
    pub(crate) priority: Option<i32>,
    /// How long one attempt may take
    #[arg(long, value_name = "SECONDS")]
    pub(crate) timeout_seconds: Option<i32>,
    /// How often they may fail
    #[arg(long, value_name = "N")]
    pub(crate) max_attempts: Option<i32>,
    /// How many workers they may kill
    #[arg(long, value_name = "N")]
    pub(crate) max_deaths: Option<i32>,
    /// How failures are retried: standard, quick, patient
    #[arg(long, value_name = "PRESET")]
    pub(crate) retry_preset: Option<String>,
    /// The pause after the first failure
    #[arg(long, value_name = "MS")]
    pub(crate) retry_base_ms: Option<i64>,
    /// By what it grows with each further failure
    #[arg(long, value_name = "FACTOR")]
    pub(crate) retry_factor: Option<f32>,
    /// The longest pause
    #[arg(long, value_name = "MS")]
    pub(crate) retry_cap_ms: Option<i64>,
    /// By what share it is spread, 0 to 1
    #[arg(long, value_name = "SHARE")]
    pub(crate) retry_jitter: Option<f32>,
    /// How long history is kept: day, week, month, year
    #[arg(long, value_name = "CLASS")]
    pub(crate) retention: Option<String>,
    /// How long dead letters are kept: day, week, month, year
    #[arg(long, value_name = "CLASS")]
    pub(crate) dead_retention: Option<String>,
    /// Whether jobs of this type may be made
    #[arg(long, value_name = "true|false")]
    pub(crate) active: Option<bool>,
    /// How many jobs of one concurrency key may run at a time
    #[arg(long, value_name = "N")]
    pub(crate) max_in_flight_per_key: Option<i32>,
    /// What payloads must fit: the file of a JSON Schema, of draft 7 or 2020-12
    #[arg(long, value_name = "FILE")]
    pub(crate) schema: Option<PathBuf>,
    /// What of payloads and results is never shown, e.g. /card/number or /items/*/secret; replaces those before
    #[arg(long, value_name = "PATH", value_delimiter = ',')]
    pub(crate) redact: Option<Vec<String>>,
    #[command(flatten)]
    pub(crate) limits: Limits,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Looking changes nothing. A check that fails makes the exit code 1; a warning does not.\n\
    A login without pg_read_all_stats sees other logins' sessions without their statements and ages."
)]
pub(crate) struct DoctorArgs {
    /// From which age on a transaction that keeps vacuum back is warned about, e.g. 15m
    #[arg(long, value_name = "DURATION", default_value = "15m")]
    pub(crate) snapshot_age: SignedDuration,
}
