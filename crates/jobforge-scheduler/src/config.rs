//! How a scheduler runs. A typed struct, checked before anything starts; nothing here reads the environment.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use jobforge_core::Artifacts;

/// The most that a pause may be: clocks end, and what is added to them must not.
const LONGEST: Duration = Duration::from_secs(86_400 * 365);

/// Settings of one scheduler. Only the first two have to be given.
#[derive(Debug, Clone)]
pub struct SchedulerConfig {
    /// A login that is a member of `jf_operator`.
    pub database_url: String,
    /// Who leads, if this one does: unique to the process, e.g. `host:pid:uuid`.
    pub holder: String,
    /// How often the leadership is asked for or kept.
    pub lead_every: Duration,
    /// How long a leadership lasts without being kept, in whole seconds.
    pub lead_seconds: u16,
    /// When an unanswered statement about the leadership counts as a dead connection.
    pub call_timeout: Duration,
    /// When an unanswered duty does: duties are bounded, but may wait for the disk.
    pub duty_timeout: Duration,
    /// The shortest pause between two looks for lost leases.
    pub reap_at_most_every: Duration,
    /// The longest pause: a lease made meanwhile may be shorter than any known before.
    pub reap_at_least_every: Duration,
    /// How often due work is made ready. Claims and sleeping workers do it too; this is for when there are none.
    pub promote_every: Duration,
    /// How often partitions are looked after.
    pub partitions_every: Duration,
    /// How often what is past its time is deleted.
    pub prune_every: Duration,
    /// How often the queues' depths are sampled.
    pub stats_every: Duration,
    /// The store whose objects are deleted once no job holds them; without it they stay.
    pub artifacts: Option<Arc<dyn Artifacts>>,
    /// How often objects are looked for that no job holds.
    pub collect_every: Duration,
    /// For tests: points of the scheduler's own loops.
    pub faults: Faults,
}

impl Default for SchedulerConfig {
    fn default() -> SchedulerConfig {
        SchedulerConfig {
            database_url: String::new(),
            holder: String::new(),
            lead_every: Duration::from_secs(3),
            lead_seconds: 10,
            call_timeout: Duration::from_secs(5),
            duty_timeout: Duration::from_secs(60),
            reap_at_most_every: Duration::from_millis(250),
            reap_at_least_every: Duration::from_secs(5),
            promote_every: Duration::from_secs(15),
            partitions_every: Duration::from_secs(60 * 60),
            prune_every: Duration::from_secs(60),
            stats_every: Duration::from_secs(10),
            artifacts: None,
            collect_every: Duration::from_secs(60),
            faults: Faults::default(),
        }
    }
}

impl SchedulerConfig {
    /// Refuses settings that cannot work, naming the rule they break.
    pub fn check(&self) -> Result<(), String> {
        let lease = Duration::from_secs(u64::from(self.lead_seconds));
        let pauses = [self.lead_every, self.call_timeout, self.duty_timeout, self.reap_at_most_every];
        let periods = [
            self.reap_at_least_every,
            self.promote_every,
            self.partitions_every,
            self.prune_every,
            self.stats_every,
            self.collect_every,
        ];
        let rules = [
            (!self.database_url.is_empty(), "database_url is empty"),
            ((1..=200).contains(&self.holder.chars().count()), "holder must have 1 to 200 characters"),
            ((1..=600).contains(&self.lead_seconds), "lead_seconds must be 1 to 600"),
            (self.lead_every <= lease / 2, "lead_every must be at most half of lead_seconds"),
            (!pauses.iter().chain(&periods).any(Duration::is_zero), "a pause or period is zero"),
            (
                pauses.iter().chain(&periods).all(|pause| *pause <= LONGEST),
                "a pause or period must be at most a year",
            ),
            (
                self.reap_at_most_every <= self.reap_at_least_every,
                "reap_at_most_every must not be longer than reap_at_least_every",
            ),
        ];
        rules.iter().find(|(kept, _)| !kept).map_or(Ok(()), |(_, broken)| Err((*broken).to_owned()))
    }
}

/// Called at a named point.
pub type FaultHook = Arc<dyn Fn(&'static str) + Send + Sync>;

/// A hook at named points of the scheduler's own loops, for tests that must make one of them end there.
#[derive(Clone, Default)]
pub struct Faults(Option<FaultHook>);

impl Faults {
    /// Points that call this hook.
    pub fn at_points(hook: FaultHook) -> Faults {
        Faults(Some(hook))
    }

    pub(crate) fn hit(&self, point: &'static str) {
        if let Some(hook) = &self.0 {
            hook(point);
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

    fn config() -> SchedulerConfig {
        SchedulerConfig {
            database_url: "postgres://localhost".to_owned(),
            holder: "here".to_owned(),
            ..SchedulerConfig::default()
        }
    }

    #[test]
    fn the_defaults_need_only_a_database_and_a_name() {
        assert_eq!(config().check(), Ok(()));
        assert_eq!(SchedulerConfig::default().check(), Err("database_url is empty".to_owned()));
    }

    #[test]
    fn pauses_without_end_are_refused() {
        let far = Duration::MAX;
        let endless = [
            SchedulerConfig { lead_every: far, ..config() },
            SchedulerConfig { call_timeout: far, ..config() },
            SchedulerConfig { duty_timeout: far, ..config() },
            SchedulerConfig { reap_at_most_every: far, reap_at_least_every: far, ..config() },
            SchedulerConfig { reap_at_least_every: far, ..config() },
            SchedulerConfig { promote_every: far, ..config() },
            SchedulerConfig { partitions_every: far, ..config() },
            SchedulerConfig { prune_every: far, ..config() },
            SchedulerConfig { stats_every: far, ..config() },
            SchedulerConfig { collect_every: far, ..config() },
        ];
        for config in endless {
            let told = config.check().unwrap_err();
            assert!(told.contains("must be at most"), "{told}: {config:?}");
        }
    }

    #[test]
    fn a_leadership_that_one_missed_call_would_lose_is_refused() {
        let tight = SchedulerConfig { lead_seconds: 3, ..config() };
        assert!(tight.check().is_err());
    }
}
