//! How many jobs to claim ahead, from how long jobs take.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How much work may wait in the buffer. More would lie here while other workers idle; less would let
/// slots wait for a claim.
const AHEAD: Duration = Duration::from_millis(100);

/// Work so slow that waiting behind it is worse than waiting for a claim.
const SLOW: Duration = Duration::from_secs(1);

/// How many jobs it takes to forget two thirds of a slow one. Many, since a kind that is slow and rare comes
/// again; few against the thousands that quick ones are claimed by.
const MEMORY: u64 = 256;

/// How many jobs must have ended for each slot, or for each that still runs where those are fewer, before anything is known of
/// how quick all of them are: the quick ones of a mixture end first.
const EVIDENCE: usize = 8;

/// How long jobs take: a moving average, and the slowest of the last ones and of those that run, which an average of
/// mostly quick jobs would not show.
#[derive(Debug)]
pub(crate) struct Pace {
    average_nanos: AtomicU64,
    /// The same over many more jobs: of a mixture, the quick ones that came last say nothing of those that come next.
    mean_nanos: AtomicU64,
    slowest_nanos: AtomicU64,
    ended: AtomicU64,
    epoch: Instant,
    /// When each slot's job began, in nanoseconds since the epoch; zero where none runs.
    began_nanos: Box<[AtomicU64]>,
}

impl Pace {
    pub(crate) fn new(slots: usize) -> Pace {
        Pace {
            average_nanos: AtomicU64::new(0),
            mean_nanos: AtomicU64::new(0),
            slowest_nanos: AtomicU64::new(0),
            ended: AtomicU64::new(0),
            epoch: Instant::now(),
            began_nanos: (0..slots).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// A slot began a job.
    pub(crate) fn begin(&self, slot: usize, at: Instant) {
        self.began_nanos[slot].store(nanos(at.duration_since(self.epoch)), Ordering::Relaxed);
    }

    /// A slot's job is over.
    pub(crate) fn end(&self, slot: usize, took: Duration) {
        self.began_nanos[slot].store(0, Ordering::Relaxed);
        self.note(took);
    }

    /// Takes in one job's time. Two slots at once may lose one of theirs: it is an average.
    fn note(&self, took: Duration) {
        let took = nanos(took);
        for (average, jobs) in [(&self.average_nanos, 8), (&self.mean_nanos, MEMORY)] {
            let old = average.load(Ordering::Relaxed);
            let new = if old == 0 { took } else { old - old / jobs + took / jobs };
            average.store(new.max(1), Ordering::Relaxed);
        }
        let slowest = self.slowest_nanos.load(Ordering::Relaxed);
        let faded = slowest - slowest / MEMORY;
        if took > faded {
            self.slowest_nanos.fetch_max(took, Ordering::Relaxed);
        } else {
            // Another slot's slow job must not be lost to this one's fading.
            let order = Ordering::Relaxed;
            let _ = self.slowest_nanos.compare_exchange(slowest, faded, order, order);
        }
        self.ended.store(self.ended.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// Whether all jobs are so quick that reporting them one by one would hold them up; `was` is what it said before,
    /// and holds for paces in between. Jobs that wait behind a slow one must not be taken for started.
    pub(crate) fn is_quick(&self, was: bool, now: Instant) -> bool {
        if !self.is_known() {
            return false;
        }
        // A quick job that the machine held up for a moment is no slow one.
        let (on_average, each) = if was { (SLOW / 10, SLOW / 10) } else { (SLOW / 50, SLOW / 20) };
        let average = Duration::from_nanos(self.average_nanos.load(Ordering::Relaxed));
        let slowest = Duration::from_nanos(self.slowest_nanos.load(Ordering::Relaxed));
        average < on_average && slowest < each && self.oldest(now) < each
    }

    /// Whether enough jobs have ended; fewer are enough where so few still run that they are no slow rest.
    fn is_known(&self) -> bool {
        let (ended, slots) = (self.ended.load(Ordering::Relaxed), self.began_nanos.len());
        let running = self.began_nanos.iter().filter(|began| began.load(Ordering::Relaxed) > 0).count();
        let least = slots.max(EVIDENCE).max(EVIDENCE * running);
        ended >= least.min(EVIDENCE * slots) as u64
    }

    /// How long the job has run that began first.
    fn oldest(&self, now: Instant) -> Duration {
        let began = self.began_nanos.iter().map(|began| began.load(Ordering::Relaxed));
        let first = began.filter(|began| *began > 0).min();
        first.map_or(Duration::ZERO, |first| {
            now.duration_since(self.epoch).saturating_sub(Duration::from_nanos(first))
        })
    }

    /// How many jobs to hold beside those that run: about 100 ms of work, at least one per slot; no more than it takes to
    /// know the pace while it is not known, since what is claimed till then stays on a lease with a tight window.
    pub(crate) fn ahead(&self, slots: usize, most: usize) -> usize {
        let (average, mean) = (&self.average_nanos, &self.mean_nanos);
        let average = average.load(Ordering::Relaxed).max(mean.load(Ordering::Relaxed));
        let average = Duration::from_nanos(average);
        if average >= SLOW {
            return 0;
        }
        if average.is_zero() {
            return slots.min(most);
        }
        let most = if self.is_known() { most } else { most.min(slots * EVIDENCE) };
        let jobs = AHEAD.as_nanos().saturating_mul(slots as u128) / average.as_nanos();
        usize::try_from(jobs).unwrap_or(usize::MAX).max(slots).min(most)
    }
}

/// Never zero, which means that there is nothing.
fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ahead_after(took: Duration) -> usize {
        let pace = Pace::new(1);
        for _ in 0..100 {
            pace.note(took);
        }
        pace.ahead(16, 2000)
    }

    fn quick_after(times: &[(usize, Duration)], was: bool) -> bool {
        let pace = Pace::new(1);
        for (jobs, took) in times {
            (0..*jobs).for_each(|_| pace.note(*took));
        }
        pace.is_quick(was, Instant::now())
    }

    #[test]
    fn jobs_are_quick_when_all_of_the_last_ones_were() {
        let (quick, between, slow) =
            (Duration::from_micros(100), Duration::from_millis(60), Duration::from_millis(300));
        assert!(!quick_after(&[], true), "nothing is known");
        assert!(!quick_after(&[(7, quick)], false), "hardly anything is");
        assert!(quick_after(&[(8, quick)], false));
        assert!(!quick_after(&[(1000, quick), (1, slow)], true), "one slow job is enough");
        assert!(
            !quick_after(&[(1, slow), (200, quick)], true),
            "and is remembered, though the average forgot it"
        );
        assert!(quick_after(&[(1, slow), (1000, quick)], false), "not for ever");
        assert!(
            quick_after(&[(1000, quick), (1, between)], true)
                && !quick_after(&[(1000, quick), (1, between)], false)
        );
        let even = Duration::from_millis(30);
        assert!(quick_after(&[(100, even)], true) && !quick_after(&[(100, even)], false), "on average");
    }

    #[test]
    fn one_slow_kind_among_quick_ones_keeps_the_window_tight() {
        let pace = Pace::new(1);
        for job in 0..10_000 {
            let slow = job % 100 == 0;
            pace.note(if slow { Duration::from_millis(300) } else { Duration::from_micros(100) });
            assert!(!pace.is_quick(true, Instant::now()), "job {job}");
        }
    }

    #[test]
    fn a_job_that_runs_for_long_counts_before_it_ends() {
        let pace = Pace::new(2);
        let (began, quick) = (Instant::now(), Duration::from_micros(100));
        let later = |millis| began + Duration::from_millis(millis);
        pace.begin(0, began);
        for _ in 0..1000 {
            pace.begin(1, later(5));
            pace.end(1, quick);
        }
        assert!(pace.is_quick(false, later(10)) && pace.is_quick(true, later(70)));
        assert!(!pace.is_quick(false, later(70)) && !pace.is_quick(true, later(200)));
        pace.end(0, quick);
        assert!(pace.is_quick(true, later(200)), "nothing runs");
    }

    #[test]
    fn quick_work_fills_the_buffer_and_slow_work_empties_it() {
        assert_eq!(Pace::new(1).ahead(16, 2000), 16);
        let pace = Pace::new(1);
        pace.note(Duration::from_micros(1));
        assert_eq!(pace.ahead(16, 2000), 128, "no more than it takes to know");
        assert_eq!(ahead_after(Duration::from_micros(1)), 2000);
        assert_eq!(ahead_after(Duration::from_millis(20)), 80);
        assert_eq!(ahead_after(Duration::from_millis(500)), 16);
        assert_eq!(ahead_after(Duration::from_secs(5)), 0);
    }

    #[test]
    fn few_jobs_are_enough_where_hardly_any_is_left_running() {
        let known = |running: usize, ended: usize| {
            let (pace, now) = (Pace::new(16), Instant::now());
            (0..running).for_each(|slot| pace.begin(slot, now));
            (0..ended).for_each(|_| pace.note(Duration::from_micros(1)));
            assert_eq!(pace.is_known(), pace.is_quick(false, now));
            pace.is_known()
        };
        assert!(known(0, 16) && !known(0, 15), "each slot one");
        assert!(known(2, 16) && !known(3, 16) && known(3, 24), "what runs may be the slow half");
        assert!(known(16, 128) && !known(16, 127));
    }

    #[test]
    fn quick_jobs_of_a_mixture_fill_no_buffer() {
        let pace = Pace::new(1);
        for job in 0..1000 {
            let slow = job % 50 == 0;
            pace.note(if slow { Duration::from_millis(300) } else { Duration::from_micros(100) });
            assert!(job < 50 || pace.ahead(16, 2000) < 500, "{} after job {job}", pace.ahead(16, 2000));
        }
    }
}
