//! How a worker runs. A typed struct, checked before anything starts; nothing here reads the environment.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use jobforge_core::Artifacts;

use crate::redact::Secrets;

#[cfg(feature = "amqp")]
use crate::broker::Broker;

/// The most that a pause may be: clocks end, and what is added to them must not.
const LONGEST: Duration = Duration::from_secs(86_400);

/// Settings of one worker. The defaults are the fast and safe ones: nobody should need to tune.
#[derive(Clone)]
pub struct WorkerConfig {
    /// Where claims, reports and beats go; may lead through a pooler in transaction mode.
    pub database_url: String,
    /// Where notifications are heard: a way around the pooler. Without it `database_url` is tried, and a
    /// listener that does not hear its own test makes the worker look for work each second.
    pub direct_url: Option<String>,
    /// The queues to serve, one at least.
    pub queues: Vec<String>,
    /// How many jobs run at a time.
    pub slots: usize,
    /// The most jobs claimed ahead. How many really are depends on how long jobs take: about 100 ms of work.
    pub buffer_max: usize,
    /// The most jobs one claim asks for.
    pub claim_max: usize,
    /// How long a lease lives without a beat, in seconds.
    pub lease_seconds: u16,
    /// How often leases are renewed; a third of their life unless told otherwise.
    pub heartbeat: Option<Duration>,
    /// How long a graceful shutdown waits for running handlers, in seconds.
    pub grace_seconds: u64,
    /// How long a handler that was told to stop may take to end before its future is dropped; never past the end of its lease.
    pub stop_grace: Duration,
    /// The most outcomes reported in one statement.
    pub report_group: usize,
    /// How long an outcome may wait for others while more work is at hand.
    pub report_delay: Duration,
    /// When an unanswered statement counts as a dead connection.
    pub call_timeout: Duration,
    /// Shown with the worker in the registry: a JSON object.
    pub metadata: serde_json::Value,
    /// What must not stand in anything a job says; the URLs' passwords are added to it.
    pub secrets: Secrets,
    /// Where payloads and results are that are too large for a row. Without it such payloads cannot be had, and
    /// results are at most 1 MiB.
    pub artifacts: Option<Arc<dyn Artifacts>>,
    /// Where hints come from beside those of Postgres. They only shorten the way to a job.
    #[cfg(feature = "amqp")]
    pub broker: Option<Broker>,
    /// How often a worker that hears no notifications looks for work; for tests, which must tell a look from a hint: with
    /// more than a second, nothing that it looks up as the sentinel counts either.
    #[doc(hidden)]
    pub look: Duration,
    /// What a look everywhere must take for positions to be kept over an answer without jobs; another one in tests alone.
    #[doc(hidden)]
    pub dear_look: Duration,
    /// How long a worker that does without keeps its second connection for claims; another time in tests alone.
    #[doc(hidden)]
    pub spared: Duration,
    /// Where tests hold the worker; off in production.
    #[doc(hidden)]
    pub faults: Faults,
}

impl Default for WorkerConfig {
    fn default() -> WorkerConfig {
        WorkerConfig {
            database_url: String::new(),
            direct_url: None,
            queues: vec!["default".to_owned()],
            slots: 16,
            buffer_max: 6000,
            claim_max: 2000,
            lease_seconds: 30,
            heartbeat: None,
            grace_seconds: 30,
            stop_grace: Duration::from_secs(1),
            report_group: 1000,
            report_delay: Duration::from_millis(5),
            call_timeout: Duration::from_secs(5),
            metadata: serde_json::Value::Object(serde_json::Map::new()),
            secrets: Secrets::default(),
            artifacts: None,
            #[cfg(feature = "amqp")]
            broker: None,
            look: Duration::from_secs(1),
            dear_look: Duration::from_millis(50),
            spared: Duration::from_secs(10),
            faults: Faults::default(),
        }
    }
}

/// Without the URLs, which hold passwords.
impl fmt::Debug for WorkerConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkerConfig")
            .field("queues", &self.queues)
            .field("slots", &self.slots)
            .field("lease_seconds", &self.lease_seconds)
            .field("secrets", &self.secrets)
            .finish_non_exhaustive()
    }
}

impl WorkerConfig {
    /// The most jobs that may have started without having been durably reported, while jobs are quick: those
    /// running, and four groups on their way to the database or gathering. The lease stores it, the buffer
    /// keeps to it.
    pub fn window(&self) -> usize {
        self.slots + 4 * self.report_group
    }

    /// The same while jobs are slow or not known yet: those running and as many on their way to the database.
    /// Should this process die, more of what had not started goes back without a death.
    pub fn tight_window(&self) -> usize {
        2 * self.slots
    }

    /// How often leases are renewed.
    pub fn heartbeat_interval(&self) -> Duration {
        self.heartbeat.unwrap_or(self.lease() / 3)
    }

    /// Everything that this worker must not say, whatever the job.
    pub(crate) fn all_secrets(&self) -> Secrets {
        let mut secrets = self.secrets.clone();
        for url in [Some(&self.database_url), self.direct_url.as_ref()].into_iter().flatten() {
            let parsed = url.parse::<tokio_postgres::Config>().ok();
            let password = parsed.as_ref().and_then(tokio_postgres::Config::get_password);
            if let Some(password) = password.and_then(|password| std::str::from_utf8(password).ok()) {
                secrets.add(password);
            }
        }
        secrets
    }

    pub(crate) fn lease(&self) -> Duration {
        Duration::from_secs(u64::from(self.lease_seconds))
    }

    /// How long before a lease's end its handlers are stopped: a second or a tenth of the lease, and of a
    /// very short lease never more than a third.
    pub(crate) fn margin(&self) -> Duration {
        Duration::from_secs(1).max(self.lease() / 10).min(self.lease() / 3)
    }

    pub(crate) fn check(&self) -> Result<(), String> {
        let rules = [
            (!self.database_url.is_empty(), "database_url is empty"),
            ((1..=10_000).contains(&self.slots), "slots must be 1 to 10000"),
            ((1..=5000).contains(&self.claim_max), "claim_max must be 1 to 5000"),
            ((1..=5000).contains(&self.report_group), "report_group must be 1 to 5000"),
            ((1..=3600).contains(&self.lease_seconds), "lease_seconds must be 1 to 3600"),
            (self.heartbeat_interval() <= self.lease() / 2, "heartbeat must be at most half of the lease"),
            (!self.heartbeat_interval().is_zero(), "heartbeat is zero"),
            (!self.call_timeout.is_zero(), "call_timeout is zero"),
            (self.call_timeout <= LONGEST, "call_timeout must be at most a day"),
            (self.report_delay <= LONGEST, "report_delay must be at most a day"),
            (self.stop_grace <= LONGEST, "stop_grace must be at most a day"),
            (self.metadata.is_object(), "metadata must be a JSON object"),
        ];
        rules.iter().find(|(kept, _)| !kept).map_or(Ok(()), |(_, broken)| Err((*broken).to_owned()))?;
        WorkerConfig::check_queues(&self.queues)
    }

    /// Refuses queues that a worker cannot serve: it would wait for ever at a name that no enqueue takes. Told is which one
    /// it is and not what stands there, which may be a URL with a password.
    pub fn check_queues(queues: &[String]) -> Result<(), String> {
        if !(1..=50).contains(&queues.len()) {
            return Err("queues must name 1 to 50 queues".to_owned());
        }
        if let Some(at) = queues.iter().position(|name| !is_queue(name)) {
            return Err(format!("no queue can have the name of queue {}: {QUEUE_FORM}", at + 1));
        }
        let twice =
            |at: usize| queues[..at].iter().position(|name| *name == queues[at]).map(|first| (first, at));
        let named = (1..queues.len()).find_map(twice);
        named.map_or(Ok(()), |(first, at)| {
            Err(format!("queue {} is named twice: queue {} is the same", at + 1, first + 1))
        })
    }
}

const QUEUE_FORM: &str =
    "it has 1 to 63 letters, digits, dots, colons, dashes and underscores, and begins with a letter or digit";

fn is_queue(name: &str) -> bool {
    (1..=63).contains(&name.len())
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || "._:-".contains(c))
}

/// Called at a named point; whoever comes by waits for the returned future.
pub type FaultHook = Arc<dyn Fn(&'static str) -> BoxFuture<'static, ()> + Send + Sync>;

/// A hook at named points of the worker's own loops, for tests that must hold it there.
#[derive(Clone, Default)]
pub struct Faults(Option<FaultHook>);

impl Faults {
    /// Points that call this hook.
    pub fn at_points(hook: FaultHook) -> Faults {
        Faults(Some(hook))
    }

    pub(crate) async fn hit(&self, point: &'static str) {
        if let Some(hook) = &self.0 {
            hook(point).await;
        }
    }
}

impl fmt::Debug for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Faults(on)" } else { "Faults(off)" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> WorkerConfig {
        WorkerConfig { database_url: "postgres://localhost".to_owned(), ..WorkerConfig::default() }
    }

    #[test]
    fn the_defaults_need_only_a_database() {
        assert_eq!(config().check(), Ok(()));
        assert_eq!(WorkerConfig::default().check(), Err("database_url is empty".to_owned()));
    }

    #[test]
    fn passwords_are_secrets_and_not_shown() {
        let with_password = WorkerConfig {
            database_url: "postgres://app:se%40cret-canary@db/x".to_owned(),
            direct_url: Some("host=db password=other-canary".to_owned()),
            ..config()
        };
        let secrets = with_password.all_secrets();
        assert_eq!(secrets.redact("se@cret-canary, other-canary"), "[redacted], [redacted]");
        assert!(!format!("{with_password:?}").contains("canary"));
    }

    #[test]
    fn queues_that_cannot_be_are_told_by_their_place() {
        let check = |queues: &[&str]| {
            WorkerConfig::check_queues(&queues.iter().map(|&name| name.to_owned()).collect::<Vec<_>>())
        };
        assert_eq!(check(&["default", "a.b:c-d_e", "0"]), Ok(()));
        assert_eq!(check(&[]), Err("queues must name 1 to 50 queues".to_owned()));
        let long = "x".repeat(64);
        for name in ["", " mail", "a b", "-a", "ü", "amqp://u:canary@h", &long] {
            let told = check(&["default", name]).unwrap_err();
            assert!(told.starts_with("no queue can have the name of queue 2: it has 1 to 63"), "{told}");
        }
        let twice = check(&["a", "canary", "b", "canary"]).unwrap_err();
        assert_eq!(twice, "queue 4 is named twice: queue 2 is the same");
    }

    #[test]
    fn a_beat_slower_than_half_a_lease_is_refused() {
        let slow = WorkerConfig { heartbeat: Some(Duration::from_secs(16)), ..config() };
        assert!(slow.check().is_err());
    }

    #[test]
    fn pauses_without_end_are_refused() {
        let far = Duration::MAX;
        let endless = [
            WorkerConfig { heartbeat: Some(far), ..config() },
            WorkerConfig { call_timeout: far, ..config() },
            WorkerConfig { report_delay: far, ..config() },
            WorkerConfig { stop_grace: far, ..config() },
        ];
        let told = endless.map(|config| config.check().unwrap_err());
        for (told, name) in told.iter().zip(["heartbeat", "call_timeout", "report_delay", "stop_grace"]) {
            assert!(told.starts_with(&format!("{name} must be at most")), "{told}");
        }
    }

    #[test]
    fn a_short_lease_leaves_handlers_most_of_its_time() {
        let short = WorkerConfig { lease_seconds: 1, ..config() };
        assert!(short.margin() < short.lease() / 2);
        assert_eq!(config().margin(), Duration::from_secs(3));
    }
}
