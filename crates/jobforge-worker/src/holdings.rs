//! What the worker holds: its leases, and on each the jobs in claim order. The beats are made from it.
//!
//! Locked once per claim, per group of reports and per beat, never per job.

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use jobforge_core::JobRef;
use tokio::sync::Notify;
use uuid::Uuid;

use crate::job::{Job, Lease, Life, Stop};

/// The leases and jobs of a worker.
#[derive(Debug, Default)]
pub(crate) struct Holdings {
    leases: Mutex<Vec<Held>>,
    /// Something was adopted where nothing was: a deadline begins.
    pub(crate) adopted: Notify,
}

#[derive(Debug)]
struct Held {
    lease: Arc<Lease>,
    /// In claim order; settled ones are swept out now and then.
    jobs: VecDeque<Arc<Job>>,
    /// The highest claim whose answer arrived.
    through: Option<i64>,
    /// When to give back again what nobody here knows of, if that was done.
    free_at: Option<Instant>,
}

/// What one beat says.
#[derive(Debug)]
pub(crate) struct BeatList {
    pub(crate) lease: Arc<Lease>,
    /// Every job of the lease that is not settled, in claim order.
    pub(crate) jobs: Vec<JobRef>,
    /// Of the claims up to this one the worker holds nothing else: nothing where an answer was lost on its way
    /// ([`Lease::keep_claims`]), because its claim may be an earlier one.
    pub(crate) through: Option<i64>,
}

impl Holdings {
    /// Takes in a claim's jobs, in claim order.
    pub(crate) fn adopt(&self, lease: &Arc<Lease>, jobs: impl IntoIterator<Item = Arc<Job>>) {
        let mut leases = self.lock();
        let at = leases.iter().position(|held| held.lease.id == lease.id).unwrap_or_else(|| {
            leases.push(Held { lease: lease.clone(), jobs: VecDeque::new(), through: None, free_at: None });
            leases.len() - 1
        });
        let held = &mut leases[at];
        for job in jobs {
            held.through = held.through.max(Some(job.claimed.claim_no));
            held.jobs.push_back(job);
        }
        drop(leases);
        self.adopted.notify_one();
    }

    /// Forgets jobs that are marked settled, when it is worth the walk.
    pub(crate) fn sweep(&self) {
        for held in self.lock().iter_mut() {
            while held.jobs.front().is_some_and(|job| job.is_settled()) {
                held.jobs.pop_front();
            }
            // Behind a long job short ones come and go.
            if held.jobs.len() > 64
                && held.jobs.iter().filter(|job| job.is_settled()).count() > held.jobs.len() / 2
            {
                held.jobs.retain(|job| !job.is_settled());
            }
        }
    }

    /// What to beat: every lease that holds jobs or may hold some unknown ones.
    pub(crate) fn beats(&self) -> Vec<BeatList> {
        let mut leases = self.lock();
        let beaten = leases.iter_mut().filter_map(|held| {
            let due = held.holds_jobs() || (held.lease.is_retiring() && !held.lease.is_unheard());
            (due && held.lease.life() != Life::Lost).then(|| held.beat())
        });
        beaten.collect()
    }

    /// What a beat for this lease says.
    pub(crate) fn beat_of(&self, lease: &Lease) -> Option<BeatList> {
        self.lock().iter_mut().find(|held| held.lease.id == lease.id).map(Held::beat)
    }

    /// The first time at which a living lease with jobs runs too close to its end.
    pub(crate) fn next_deadline(&self, margin: Duration) -> Option<Instant> {
        let leases = self.lock();
        let due = leases.iter().filter(|held| held.lease.life() == Life::Live && held.holds_jobs());
        due.map(|held| held.lease.good_until() - margin).min()
    }

    /// Stops what runs on leases that no beat confirmed in time; tells which leases those are.
    pub(crate) fn stop_overdue(&self, now: Instant, margin: Duration) -> Vec<Arc<Lease>> {
        let leases = self.lock();
        let late = leases.iter().filter(|held| {
            held.lease.life() == Life::Live && held.holds_jobs() && held.lease.good_until() <= now + margin
        });
        let late = late.map(|held| {
            held.lease.set_life(Life::Overdue);
            held.lease.retire();
            held.stop(Stop::Interrupted);
            held.lease.clone()
        });
        late.collect()
    }

    /// Gives up a lease that the database does not know any more, with all its jobs.
    pub(crate) fn lose(&self, lease: &Lease) {
        lease.set_life(Life::Lost);
        lease.retire();
        for held in self.lock().iter().filter(|held| held.lease.id == lease.id) {
            held.stop(Stop::Lost);
        }
    }

    /// Stops those of a lease's jobs that are not settled. In one walk: of thousands that a beat names most were reported
    /// while it was under way.
    pub(crate) fn stop(&self, lease: &Lease, jobs: &[JobRef], why: Stop) {
        let named: HashSet<&JobRef> = jobs.iter().collect();
        if named.is_empty() {
            return;
        }
        for held in self.lock().iter().filter(|held| held.lease.id == lease.id) {
            let live = held.jobs.iter().filter(|job| !job.is_settled());
            live.filter(|job| named.contains(&job.claimed.job)).for_each(|job| job.stop(why));
        }
    }

    /// Whether this is one of our leases.
    pub(crate) fn knows(&self, lease: Uuid) -> bool {
        self.lock().iter().any(|held| held.lease.id == lease)
    }

    /// Whether a lease holds jobs that are not settled.
    pub(crate) fn holds_jobs(&self, lease: &Lease) -> bool {
        self.lock().iter().any(|held| held.lease.id == lease.id && held.holds_jobs())
    }

    /// Leases to close: no new claims go to them and all that is known of them is settled. Lost ones need
    /// no closing and are forgotten here.
    pub(crate) fn closable(&self) -> Vec<Arc<Lease>> {
        let mut leases = self.lock();
        leases.retain(|held| held.lease.life() != Life::Lost || held.holds_jobs());
        let over = leases.iter().filter(|held| held.is_left_alone() && !held.holds_jobs());
        over.map(|held| held.lease.clone()).collect()
    }

    /// When a lease is to be freed of what nobody here knows of: of claims whose answers were lost.
    pub(crate) fn next_freeing(&self) -> Option<Instant> {
        let leases = self.lock();
        leases
            .iter()
            .filter(|held| held.hides_jobs())
            .map(|held| held.free_at.unwrap_or_else(Instant::now))
            .min()
    }

    /// The leases of which that is due, with all that is known to be on them.
    pub(crate) fn to_free(&self) -> Vec<BeatList> {
        let now = Instant::now();
        let mut leases = self.lock();
        let due =
            leases.iter_mut().filter(|held| held.hides_jobs() && held.free_at.is_none_or(|at| at <= now));
        due.map(Held::beat).collect()
    }

    /// Sets when it is done again.
    pub(crate) fn free_again(&self, lease: &Lease, at: Instant) {
        if let Some(held) = self.lock().iter_mut().find(|held| held.lease.id == lease.id) {
            held.free_at = Some(at);
        }
    }

    /// All leases.
    pub(crate) fn leases(&self) -> Vec<Arc<Lease>> {
        self.lock().iter().map(|held| held.lease.clone()).collect()
    }

    /// Whether everything is settled.
    pub(crate) fn is_empty(&self) -> bool {
        !self.lock().iter().any(Held::holds_jobs)
    }

    /// Everything that is not settled.
    pub(crate) fn jobs(&self) -> Vec<Arc<Job>> {
        let leases = self.lock();
        let jobs = leases.iter().flat_map(|held| held.jobs.iter());
        jobs.filter(|job| !job.is_settled()).cloned().collect()
    }

    /// Forgets a lease.
    pub(crate) fn forget(&self, lease: &Lease) {
        self.lock().retain(|held| held.lease.id != lease.id);
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Held>> {
        self.leases.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Held {
    fn beat(&mut self) -> BeatList {
        self.jobs.retain(|job| !job.is_settled());
        BeatList {
            lease: self.lease.clone(),
            jobs: self.jobs.iter().map(|job| job.job_ref()).collect(),
            through: self.through.filter(|_| !self.lease.keeps_claims()),
        }
    }

    /// Whether it may hold jobs that nobody here knows of, beside some that are known: without those it is closed.
    fn hides_jobs(&self) -> bool {
        self.lease.keeps_claims() && self.is_left_alone() && self.holds_jobs()
    }

    /// Whether no claim goes to it any more, nor is one under way, of whose jobs nobody here would know yet.
    fn is_left_alone(&self) -> bool {
        let lease = &self.lease;
        lease.is_retiring() && !lease.is_claiming() && lease.life() == Life::Live
    }

    fn holds_jobs(&self) -> bool {
        self.jobs.iter().any(|job| !job.is_settled())
    }

    fn stop(&self, why: Stop) {
        self.jobs.iter().filter(|job| !job.is_settled()).for_each(|job| job.stop(why));
    }
}
