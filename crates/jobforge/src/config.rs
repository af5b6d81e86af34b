//! The settings: one typed tree, read once. Flag over environment over `./jobforge.toml` over default.

mod artifacts;
pub(crate) mod egress;
mod redact;
mod refusal;
mod server;
mod tokens;

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use clap::ValueEnum;
use config::{Environment, File, FileFormat, Source};
use jobforge_worker::{Broker, WorkerConfig};
use serde::{Deserialize, Serialize};
use tokio_postgres::config::Host;
use uuid::Uuid;

use crate::cli::{Command, Global};
use crate::failure::Usage;
use crate::secrets::{SEAL_KEYS, SECRET_PREFIX, TOKEN_SECRET, secret_env};

pub(crate) use artifacts::ArtifactSettings;
pub(crate) use redact::redact;
pub(crate) use server::{ServerLogins, ServerSettings};
pub(crate) use tokens::{KeySettings, SecretReference, TokenSettings};

const DEFAULTS: &str = include_str!("config.default.toml");
const FILE: &str = "jobforge.toml";

/// Every setting, checked. `config.default.toml` tells what each means.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {
    pub(crate) database_url: Option<String>,
    pub(crate) direct_url: Option<String>,
    pub(crate) tenant: Option<Uuid>,
    pub(crate) data_dir: Option<PathBuf>,
    pub(crate) pg_bin: Option<PathBuf>,
    pub(crate) pg_download: bool,
    pub(crate) worker: WorkerSettings,
    pub(crate) scheduler: SchedulerSettings,
    pub(crate) egress: egress::EgressSection,
    pub(crate) artifacts: ArtifactSettings,
    pub(crate) broker: BrokerSettings,
    pub(crate) server: ServerSettings,
    pub(crate) log: LogSettings,
}

#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct WorkerSettings {
    pub(crate) queues: Vec<String>,
    pub(crate) slots: usize,
    pub(crate) lease_seconds: u16,
    pub(crate) grace_seconds: u64,
    pub(crate) commands_file: Option<PathBuf>,
    pub(crate) secret_env: Vec<String>,
}

#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SchedulerSettings {
    pub(crate) lead_every_ms: u64,
    pub(crate) lead_lease_seconds: u16,
}

#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BrokerSettings {
    pub(crate) url: Option<String>,
    pub(crate) exchange: String,
    pub(crate) routing_key: String,
    pub(crate) publish: bool,
}

#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LogSettings {
    pub(crate) format: LogFormat,
    pub(crate) filter: String,
}

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LogFormat {
    /// Text on a terminal, json elsewhere
    Auto,
    /// For people
    #[serde(alias = "human")]
    #[value(alias = "human")]
    Text,
    /// A JSON object per line
    Json,
}

/// The settings with the place each comes from.
pub(crate) struct Settings {
    pub(crate) config: Config,
    layers: Vec<(&'static str, config::Config)>,
}

impl Settings {
    /// Reads all places and checks the result. A plain `DATABASE_URL` is not for `dev`: it names an application's
    /// database, where nobody asked for demo jobs, roles and a schema.
    pub(crate) fn load(flags: &Global, command: &Command) -> Result<Settings> {
        let plain_url = match command {
            Command::Dev(_) => Variables::new(),
            _ => database_url_alone(env()),
        };
        let layers = vec![
            ("default", layer(File::from_str(DEFAULTS, FileFormat::Toml))?),
            (FILE, layer(File::new(FILE, FileFormat::Toml).required(is_there(Path::new(FILE))?))?),
            ("DATABASE_URL", layer(Environment::default().source(Some(plain_url)))?),
            ("environment", layer(own_environment(env()))?),
            ("flag", flag_layer(flags)?),
        ];
        Settings::merge(layers).map_err(|error| Usage::new(format!("{error:#}")).into())
    }

    fn merge(layers: Vec<(&'static str, config::Config)>) -> Result<Settings> {
        let mut builder = config::Config::builder();
        for (_, layer) in &layers {
            builder = builder.add_source(layer.clone());
        }
        let read = builder.build().and_then(config::Config::try_deserialize);
        let config: Config =
            read.map_err(|error| anyhow!("the settings are not understood: {}", refusal::told(&error)))?;
        config.validate()?;
        Ok(Settings { config, layers })
    }

    /// Where a setting such as `worker.slots` comes from.
    pub(crate) fn origin(&self, key: &str) -> &'static str {
        let set = |layer: &&(&str, config::Config)| layer.1.get::<config::Value>(key).is_ok();
        self.layers.iter().rev().find(set).map_or("not set", |(name, _)| name)
    }
}

impl Config {
    /// Refuses values that cannot work, before anything starts.
    fn validate(&self) -> Result<()> {
        for (name, url) in [("database_url", &self.database_url), ("direct_url", &self.direct_url)] {
            if let Some(url) = url {
                // The driver's message may repeat the URL, and so its password.
                url.parse::<tokio_postgres::Config>()
                    .ok()
                    .with_context(|| format!("{name} is no Postgres URL"))?;
            }
        }
        self.refuse_sockets_to_poolers()?;
        self.broker.named()?;
        self.required_broker()?;
        let rules = [
            ((1..=10_000).contains(&self.worker.slots), "worker.slots must be 1 to 10000"),
            ((1..=3600).contains(&self.worker.lease_seconds), "worker.lease_seconds must be 1 to 3600"),
            (
                (1..=600).contains(&self.scheduler.lead_lease_seconds),
                "scheduler.lead_lease_seconds must be 1 to 600",
            ),
            (self.scheduler.lead_every_ms > 0, "scheduler.lead_every_ms must be more than 0"),
            (
                self.scheduler.lead_every_ms.saturating_mul(2)
                    <= u64::from(self.scheduler.lead_lease_seconds) * 1000,
                "scheduler.lead_lease_seconds must be at least twice scheduler.lead_every_ms",
            ),
        ];
        if let Some((_, broken)) = rules.iter().find(|(kept, _)| !kept) {
            bail!("{broken}");
        }
        WorkerConfig::check_queues(&self.worker.queues).map_err(|told| anyhow!("worker.queues: {told}"))?;
        let readable = secret_env(&self.worker.secret_env).context("worker.secret_env is not usable")?;
        if let Some(secret) = self.server.tokens.secret.as_ref().map(SecretReference::variable)
            && readable.allows(secret)
        {
            bail!("server.tokens.secret names {secret}, which tenants can read by worker.secret_env");
        }
        self.egress.validate()?;
        self.server.validate()?;
        self.artifacts.validate()
    }

    /// Where there is a way around a pooler, the other ways lead to the pooler: over a socket nothing could keep its
    /// clients from reading each other's answers (see `jobforge_core::connect`).
    fn refuse_sockets_to_poolers(&self) -> Result<()> {
        let urls = [
            ("database_url", &self.database_url),
            ("server.operator_url", &self.server.operator_url),
            ("server.worker_url", &self.server.worker_url),
        ];
        let on_socket = |url: &String| {
            let parsed: Option<tokio_postgres::Config> = url.parse().ok();
            parsed.is_some_and(|parsed| parsed.get_hosts().iter().any(|host| matches!(host, Host::Unix(_))))
        };
        for (name, url) in urls {
            if self.direct_url.is_some() && url.as_ref().is_some_and(on_socket) {
                bail!(
                    "{name} is a Unix socket: with direct_url set it leads to a pooler, which must be reached by TCP"
                );
            }
        }
        Ok(())
    }

    /// The broker without which a server is not ready, if the settings say so.
    pub(crate) fn required_broker(&self) -> Result<Option<Broker>> {
        if !self.server.ready_requires_broker {
            return Ok(None);
        }
        let needs = "server.ready_requires_broker needs a broker: set broker.url (JOBFORGE_BROKER__URL)";
        self.broker.named()?.context(needs).map(Some)
    }
}

impl BrokerSettings {
    /// The broker, if there is one.
    pub(crate) fn named(&self) -> Result<Option<Broker>> {
        let Some(url) = &self.url else { return Ok(None) };
        Ok(Some(Broker::new(url)?.exchange(&self.exchange)?.routing_key(&self.routing_key)?))
    }
}

/// Whether there is such a file; one that cannot be read is refused, since what it says would count for nothing.
fn is_there(file: &Path) -> Result<bool> {
    match fs::read_to_string(file) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        // In a directory that may not be entered nobody can tell: there may be none, and no other use is refused for it.
        Err(error) if error.kind() == ErrorKind::PermissionDenied && fs::symlink_metadata(file).is_err() => {
            Ok(false)
        }
        Err(error) => Err(Usage::new(format!("cannot read {}: {error}", file.display())).into()),
    }
}

type Variables = config::Map<String, String>;

fn env() -> Variables {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}

/// Whether the environment has a plain `DATABASE_URL`.
pub(crate) fn has_plain_url() -> bool {
    !database_url_alone(env()).is_empty()
}

/// What many a host sets for its programs.
fn database_url_alone(env: Variables) -> Variables {
    env.into_iter().filter(|(name, value)| name == "DATABASE_URL" && !value.is_empty()).collect()
}

/// Keys and secrets begin as settings do and are none: they are read where they are used, and shown nowhere.
fn own_environment(env: Variables) -> Environment {
    let is_setting =
        |name: &str| ![SEAL_KEYS, TOKEN_SECRET].contains(&name) && !name.starts_with(SECRET_PREFIX);
    let env: Variables = env.into_iter().filter(|(name, _)| is_setting(name)).collect();
    Environment::with_prefix("JOBFORGE")
        .prefix_separator("_")
        .separator("__")
        .try_parsing(true)
        .list_separator(",")
        .with_list_parse_key("worker.queues")
        .with_list_parse_key("egress.allow")
        .with_list_parse_key("egress.deny")
        .with_list_parse_key("egress.ports")
        .with_list_parse_key("worker.secret_env")
        .with_list_parse_key("server.hosts")
        .with_list_parse_key("server.tokens.jwks_algorithms")
        .ignore_empty(true)
        .source(Some(env))
}

fn layer(source: impl Source + Send + Sync + 'static) -> Result<config::Config> {
    let built = config::Config::builder().add_source(source).build();
    built.map_err(|error| Usage::new(refusal::told(&error)).into())
}

fn flag_layer(flags: &Global) -> Result<config::Config> {
    let format = flags.log_format.and_then(|format| format.to_possible_value());
    let given = [
        ("database_url", flags.database_url.clone()),
        ("direct_url", flags.direct_url.clone()),
        ("tenant", flags.tenant.map(|tenant| tenant.to_string())),
        ("log.format", format.map(|format| format.get_name().to_owned())),
    ];
    let mut builder = config::Config::builder();
    for (name, value) in given {
        builder = builder.set_override_option(name, value)?;
    }
    Ok(builder.build()?)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use jobforge_server::{CallerLimits, ServerConfig};

    use super::*;

    fn defaults() -> (&'static str, config::Config) {
        ("default", layer(File::from_str(DEFAULTS, FileFormat::Toml)).unwrap())
    }

    fn file(text: &str) -> (&'static str, config::Config) {
        (FILE, layer(File::from_str(text, FileFormat::Toml)).unwrap())
    }

    fn environment(pairs: &[(&str, &str)]) -> (&'static str, config::Config) {
        let env = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        ("environment", layer(own_environment(env)).unwrap())
    }

    #[test]
    fn the_environment_wins_over_the_file_and_the_file_over_the_default() {
        let env = environment(&[("JOBFORGE_WORKER__SLOTS", "3"), ("JOBFORGE_WORKER__QUEUES", "a,b")]);
        let settings =
            Settings::merge(vec![defaults(), file("[worker]\nslots = 2\nlease_seconds = 9"), env]).unwrap();
        let worker = &settings.config.worker;
        assert_eq!((worker.slots, worker.lease_seconds, worker.grace_seconds), (3, 9, 30));
        assert_eq!(worker.queues, ["a", "b"]);
        assert_eq!(settings.origin("worker.slots"), "environment");
        assert_eq!(settings.origin("worker.lease_seconds"), FILE);
        assert_eq!(settings.origin("worker.grace_seconds"), "default");
        assert_eq!(settings.origin("tenant"), "not set");
    }

    #[test]
    fn unknown_names_and_impossible_values_are_refused() {
        for text in [
            "slots = 3",
            "[worker]\nslot = 3",
            "[worker]\nslots = 0",
            "[worker]\nqueues = []",
            "[worker]\nqueues = [\"a b\"]",
            "[worker]\nqueues = [\"a\", \"a\"]",
            "database_url = \"not a url\"",
            "[scheduler]\nlead_lease_seconds = 3",
            "[log]\nformat = \"xml\"",
            "[egress]\nallow = [\"ten\"]",
            "[egress]\ndeny = [\"10.0.0.0/33\"]",
            "[egress]\nports = [0]",
            "[egress]\nread_timeout_seconds = 0",
            "[egress]\nmax_body_bytes = 20000000",
            "[egress.tenants]\nacme = [\"10.0.0.0/8\"]",
            "[egress.tenants]\n11111111-1111-1111-1111-111111111111 = [\"ten\"]",
            "[worker]\nsecret_env = [\"*\"]",
            "[artifacts]\nurl = \"/var/lib/x\"",
            "[artifacts]\nregion = \"eu\"",
            "[artifacts]\nurl = \"file:///x\"\nregion = \"eu\"",
            "[artifacts]\nurl = \"s3://b\"\nendpoint = \"http://far\"",
            "[artifacts]\nurl = \"s3://b\"\naccess_key_id = \"id\"",
            "[artifacts]\nthreshold = 300000",
            "[artifacts]\nmax = 1000",
            "[broker]\nurl = \"http://broker\"",
            "[broker]\nurl = \"amqp://broker\"\nexchange = \"\"",
            "[server]\nlisten = \"8787\"",
            "[server]\nlisten = \"localhost:8787\"",
            "[server]\noperator_url = \"not a url\"",
            "[server]\nworker_url = \"http://far\"",
            "[server]\nconnections = 0",
            "[server]\nmax_body_bytes = 1000",
            "[server]\nheld_body_bytes = 8388607",
            "[server]\nmax_body_bytes = 200000000",
            "[server]\ncall_timeout_seconds = 0",
            "[server]\ncall_timeout_seconds = 61",
            "[server]\nwaiters = 0",
            "[server]\nwaiters = 10001",
            "[server.callers]\nhead_seconds = 0",
            "[server.callers]\nbody_seconds = 0",
            "[server.callers]\nanswer_seconds = 3601",
            "[server.callers]\nopen = 0",
            "[server]\nhosts = [\"https://jobs.example.org\"]",
            "[server]\nrate = 1",
            "[server]\nready_requires_broker = true",
            "[server]\nready_requires_broker = \"perhaps\"\n[broker]\nurl = \"amqp://broker\"",
            "[server.rates]\nper_credential = 0",
            "[server.rates]\nrefused_per_address = 0",
            "[server.tokens]\nissuer = \"https://i\"\naudience = \"a\"",
            "[server.tokens]\nleeway_seconds = 10",
        ] {
            assert!(Settings::merge(vec![defaults(), file(text)]).is_err(), "{text}");
        }
        assert!(Settings::merge(vec![defaults(), environment(&[("JOBFORGE_SLOTS", "3")])]).is_err());
    }

    #[test]
    fn a_pooler_is_reached_by_tcp() {
        let (tcp, socket) = ("postgres://db/x", "postgres:///x?host=/run/pg");
        for (direct, database, server, sound) in [
            (tcp, tcp, tcp, true),
            (tcp, socket, tcp, false),
            (tcp, tcp, socket, false),
            (socket, tcp, tcp, true),
        ] {
            let text = format!(
                "direct_url = '{direct}'\ndatabase_url = '{database}'\n[server]\nworker_url = '{server}'"
            );
            let merged = Settings::merge(vec![defaults(), file(&text)]);
            assert_eq!(merged.is_ok(), sound, "{text}");
            merged
                .err()
                .into_iter()
                .for_each(|error| assert!(error.to_string().contains("Unix socket"), "{error}"));
        }
        assert!(Settings::merge(vec![defaults(), file(&format!("database_url = '{socket}'"))]).is_ok());
    }

    #[test]
    fn ranges_of_the_worker_and_of_tenants_are_read() {
        let tenant = "11111111-1111-1111-1111-111111111111";
        let text =
            format!("[egress]\nallow = [\"10.1.0.0/16\"]\n[egress.tenants]\n{tenant} = [\"10.2.0.1\"]");
        let env = environment(&[("JOBFORGE_EGRESS__DENY", "1.1.1.1,::/0"), ("JOBFORGE_EGRESS__PORTS", "25")]);
        let settings = Settings::merge(vec![defaults(), file(&text), env]).unwrap();
        let egress = settings.config.egress.settings().unwrap();
        assert_eq!(egress.policy.allow, ["10.1.0.0/16".parse().unwrap()]);
        assert_eq!(egress.policy.deny, ["1.1.1.1/32".parse().unwrap(), "::/0".parse().unwrap()]);
        assert_eq!(egress.policy.ports, [25]);
        assert_eq!(egress.tenants[&tenant.parse().unwrap()], ["10.2.0.1/32".parse().unwrap()]);
    }

    #[test]
    fn the_servers_settings_become_a_servers() {
        let env = environment(&[
            ("JOBFORGE_SERVER__HOSTS", "jobs.example.org,jobs.local"),
            ("JOBFORGE_SERVER__RATES__PER_CREDENTIAL", "7"),
        ]);
        let text = "[server]\ngather = false\nconnections = 3\nmax_body_bytes = 2048\nheld_body_bytes = 4096";
        let settings = Settings::merge(vec![defaults(), file(text), env]).unwrap().config.server;
        assert_eq!(settings.listen, "127.0.0.1:8787".parse().unwrap());
        let logins = ServerLogins { tenant: "t".to_owned(), operator: "o".to_owned(), worker: None };
        let server = settings.config(logins);
        assert_eq!(
            (server.tenant_url.as_str(), server.operator_url.as_str(), server.worker_url),
            ("t", "o", None)
        );
        assert_eq!((server.gather, server.connections), (false, 3));
        assert_eq!((server.max_body_bytes, server.held_body_bytes), (2048, 4096));
        assert_eq!(server.hosts, ["jobs.example.org", "jobs.local"]);
        assert_eq!((server.rates.per_credential, server.rates.refused_per_address), (7, 20));
        let defaults = ServerConfig::new("t", "o");
        assert_eq!((server.waiters, server.call_timeout), (defaults.waiters, defaults.call_timeout));
        assert_eq!(server.callers, defaults.callers);
        assert!(!server.development, "no key but those that were made");
    }

    #[test]
    fn a_server_requires_a_broker_only_where_there_is_one() {
        let broker = "[broker]\nurl = \"amqp://broker\"";
        let required = |text: &str| {
            let settings = Settings::merge(vec![defaults(), file(text)])?;
            settings.config.required_broker()
        };
        assert!(required("").unwrap().is_none());
        assert!(required(broker).unwrap().is_none(), "only where it was asked for");
        let asked = "[server]\nready_requires_broker = true\n";
        let broker = required(&format!("{asked}{broker}")).unwrap().unwrap();
        assert_eq!(broker.to_string(), "amqp://broker:5672");
        let alone = required(asked).unwrap_err().to_string();
        assert!(alone.contains("server.ready_requires_broker") && alone.contains("broker.url"), "{alone}");
    }

    #[test]
    fn the_servers_limits_are_settings() {
        let text = "[server]\nwaiters = 7\ncall_timeout_seconds = 3\n[server.callers]\nhead_seconds = 4\n\
                    body_seconds = 5\nanswer_seconds = 6\nopen = 8";
        let settings = Settings::merge(vec![defaults(), file(text)]).unwrap().config.server;
        let logins = ServerLogins { tenant: "t".to_owned(), operator: "o".to_owned(), worker: None };
        let server = settings.config(logins);
        let seconds = Duration::from_secs;
        assert_eq!((server.waiters, server.call_timeout), (7, seconds(3)));
        let callers = CallerLimits { head: seconds(4), body: seconds(5), answer: seconds(6), open: 8 };
        assert_eq!(server.callers, callers);
    }

    #[test]
    fn keys_and_secrets_in_the_environment_are_no_settings() {
        let env = environment(&[
            ("JOBFORGE_SEAL_KEYS", "k1:x"),
            ("JOBFORGE_SECRET_TOKEN", "canary"),
            ("JOBFORGE_TOKEN_SECRET", "canary"),
            ("JOBFORGE_WORKER__SECRET_ENV", "JOBFORGE_SECRET_*,MAIL_TOKEN"),
        ]);
        let settings = Settings::merge(vec![defaults(), env]).unwrap();
        assert_eq!(settings.config.worker.secret_env, ["JOBFORGE_SECRET_*", "MAIL_TOKEN"]);
    }
}
