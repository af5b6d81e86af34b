//! What the leader's task tells the duties: the term they act under, and the database's time.

use std::time::{Duration, Instant};

use jiff::Timestamp;

/// A leadership that was confirmed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Term {
    pub(crate) number: i64,
    pub(crate) clock: DatabaseClock,
}

/// The database's clock as seen from here. Due times come from the database, and this host's clock may be
/// wrong by minutes: pauses are counted from the time the database last told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DatabaseClock {
    told: Timestamp,
    heard: Instant,
}

impl DatabaseClock {
    /// `told` was the database's time at `heard`.
    pub(crate) fn new(told: Timestamp, heard: Instant) -> DatabaseClock {
        DatabaseClock { told, heard }
    }

    /// How long from now until the database's clock shows `at`; nothing if it does already.
    pub(crate) fn until(&self, at: Timestamp) -> Duration {
        let from_told = Duration::try_from(at.duration_since(self.told)).unwrap_or_default();
        from_told.saturating_sub(self.heard.elapsed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_count_from_the_databases_time() {
        let told: Timestamp = "2030-01-01T00:00:00Z".parse().unwrap();
        let clock = DatabaseClock::new(told, Instant::now());
        let pause = clock.until("2030-01-01T00:00:10Z".parse().unwrap());
        assert!(pause <= Duration::from_secs(10) && pause > Duration::from_secs(9), "{pause:?}");
        assert_eq!(clock.until("2029-12-31T23:59:59Z".parse().unwrap()), Duration::ZERO);
    }
}
