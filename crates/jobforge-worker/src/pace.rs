//! How many jobs to claim ahead, from how long jobs take.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How much work may wait in the buffer. More would lie here while other workers idle; less would let
/// slots wait for a claim.
const AHEAD: Duration = Duration::from_millis(100);

/// Work so slow that waiting behind it is worse than waiting for a claim.
const SLOW: Duration = Duration::from_secs(1);

/// A moving average of the time jobs take.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    average_nanos: AtomicU64,
}

impl Pace {
    /// Takes in one job's time. Two slots at once may lose one of theirs: it is an average.
    pub(crate) fn note(&self, took: Duration) {
        let took = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX).max(1);
        let old = self.average_nanos.load(Ordering::Relaxed);
        let new = if old == 0 { took } else { old - old / 8 + took / 8 };
        self.average_nanos.store(new.max(1), Ordering::Relaxed);
    }

    /// Whether jobs are so quick that reporting them one by one would hold them up; `was` is what it said before, and
    /// holds for paces in between.
    pub(crate) fn is_quick(&self, was: bool) -> bool {
        match Duration::from_nanos(self.average_nanos.load(Ordering::Relaxed)) {
            Duration::ZERO => false,
            average if was => average < SLOW / 10,
            average => average < SLOW / 50,
        }
    }

    /// How many jobs to hold beside those that run: about 100 ms of work, at least one per slot.
    pub(crate) fn ahead(&self, slots: usize, most: usize) -> usize {
        let average = Duration::from_nanos(self.average_nanos.load(Ordering::Relaxed));
        if average >= SLOW {
            return 0;
        }
        if average.is_zero() {
            return slots.min(most);
        }
        let jobs = AHEAD.as_nanos().saturating_mul(slots as u128) / average.as_nanos();
        usize::try_from(jobs).unwrap_or(usize::MAX).max(slots).min(most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ahead_after(took: Duration) -> usize {
        let pace = Pace::default();
        for _ in 0..100 {
            pace.note(took);
        }
        pace.ahead(16, 2000)
    }

    #[test]
    fn quick_work_fills_the_buffer_and_slow_work_empties_it() {
        assert_eq!(Pace::default().ahead(16, 2000), 16);
        assert_eq!(ahead_after(Duration::from_micros(1)), 2000);
        assert_eq!(ahead_after(Duration::from_millis(20)), 80);
        assert_eq!(ahead_after(Duration::from_millis(500)), 16);
        assert_eq!(ahead_after(Duration::from_secs(5)), 0);
    }
}
