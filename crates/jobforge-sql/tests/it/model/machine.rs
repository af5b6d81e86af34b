//! The job machine in memory: what is committed, what each open transaction adds to it, and who locks what.
//!
//! It is written from the rules, not from the SQL: it knows what must become of a job, not how.

use std::collections::{BTreeMap, BTreeSet};

use uuid::Uuid;

pub(crate) type Micros = i64;
/// A connection of the run, by its number.
pub(crate) type Track = usize;

/// What the definitions of the run's types say.
pub(crate) const MAX_ATTEMPTS: i32 = 3;
pub(crate) const MAX_DEATHS: i32 = 3;
pub(crate) const SECOND: Micros = 1_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    Queued,
    Running,
    Failed,
    Dead,
    Succeeded,
    Canceled,
}

impl Status {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Status::Queued => "queued",
            Status::Running => "running",
            Status::Failed => "failed",
            Status::Dead => "dead",
            Status::Succeeded => "succeeded",
            Status::Canceled => "canceled",
        }
    }

    pub(crate) fn is_over(self) -> bool {
        matches!(self, Status::Succeeded | Status::Canceled)
    }

    /// Covered by its dedupe key.
    pub(crate) fn lives(self) -> bool {
        matches!(self, Status::Queued | Status::Running)
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub(crate) tenant: Uuid,
    pub(crate) kind: usize,
    pub(crate) priority: i32,
    pub(crate) status: Status,
    pub(crate) fence: i32,
    pub(crate) failures: i32,
    pub(crate) deaths: i32,
    pub(crate) lease: Option<Uuid>,
    pub(crate) run_at: Micros,
    /// How much later than `run_at` it may be, where chance decides; the first look at the table settles it.
    pub(crate) spread: Micros,
    pub(crate) ready: bool,
    pub(crate) cancel: bool,
    pub(crate) dedupe: Option<usize>,
    /// The concurrency key.
    pub(crate) key: Option<usize>,
    /// The attempts that are written down, by number: whether each was reported (not lost).
    pub(crate) attempts: BTreeMap<i32, bool>,
}

impl Job {
    /// Whether a report on this attempt was taken before.
    pub(crate) fn was_reported(&self, fence: i32) -> bool {
        match self.status {
            Status::Succeeded => fence == self.fence,
            Status::Canceled => fence == self.fence && self.attempts.get(&fence) == Some(&true),
            _ => self.attempts.get(&fence) == Some(&true),
        }
    }

    pub(crate) fn is_due(&self, now: Micros) -> bool {
        self.status == Status::Queued && (self.ready || self.run_at <= now)
    }

    fn leaves_its_lease(&mut self, status: Status) {
        self.status = status;
        self.lease = None;
        self.ready = false;
    }

    /// An attempt ended badly: the one decision, for reports and for the reaper.
    pub(crate) fn settle(&mut self, end: End, now: Micros) {
        self.attempts.entry(self.fence).or_insert(end != End::Lost);
        if self.cancel || end == End::Canceled {
            return self.leaves_its_lease(Status::Canceled);
        }
        match end {
            End::Lost => self.deaths += 1,
            _ => self.failures += 1,
        }
        let status = match end {
            End::Permanent => Status::Failed,
            End::Lost if self.deaths >= MAX_DEATHS => Status::Dead,
            End::Retryable if self.failures >= MAX_ATTEMPTS => Status::Dead,
            _ => Status::Queued,
        };
        self.leaves_its_lease(status);
        if status == Status::Queued {
            (self.run_at, self.spread) = match end {
                End::Lost => (now, 2 * SECOND),
                _ => {
                    let wait = SECOND << (self.failures - 1);
                    (now + wait / 10 * 9, wait / 5 + 1)
                }
            };
        }
    }

    /// Given back free: it keeps its place, or ends if it was asked to.
    pub(crate) fn requeue(&mut self) {
        if self.cancel {
            return self.leaves_its_lease(Status::Canceled);
        }
        self.leaves_its_lease(Status::Queued);
        self.ready = true;
    }

    pub(crate) fn snooze(&mut self, until: Micros) {
        self.leaves_its_lease(Status::Queued);
        self.run_at = until;
        self.spread = 0;
    }

    pub(crate) fn complete(&mut self) {
        self.leaves_its_lease(Status::Succeeded);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Retryable,
    Permanent,
    Canceled,
    Lost,
}

#[derive(Clone, Debug)]
pub(crate) struct Lease {
    pub(crate) worker: usize,
    pub(crate) window: usize,
    pub(crate) ttl: Micros,
    pub(crate) solo: bool,
    pub(crate) expires: Micros,
}

/// What operators have set: limits of what runs at once, and pauses. It is committed at once.
#[derive(Default)]
pub(crate) struct Rules {
    pub(crate) tenants: BTreeMap<Uuid, usize>,
    pub(crate) kinds: BTreeMap<usize, usize>,
    pub(crate) paused: BTreeSet<Uuid>,
}

impl Rules {
    /// Whether anything may keep a claim of this kind from taking all that is there.
    pub(crate) fn hold(&self, kind: usize) -> bool {
        !self.tenants.is_empty() || self.kinds.contains_key(&kind) || !self.paused.is_empty()
    }
}

/// Whose a key is, and with which payload it came.
pub(crate) type Kept = (Uuid, usize);

/// A set of rows: all that is committed, or what one transaction changed.
#[derive(Default, Clone)]
pub(crate) struct Rows {
    pub(crate) jobs: BTreeMap<Uuid, Job>,
    /// None: deleted.
    pub(crate) leases: BTreeMap<Uuid, Option<Lease>>,
    /// The claims of a lease by their numbers, each with its jobs in starting order. None: a beat took its place.
    pub(crate) claims: BTreeMap<(Uuid, i64), Option<Vec<Uuid>>>,
    pub(crate) keys: BTreeMap<(Uuid, usize, usize), Kept>,
}

impl Rows {
    pub(crate) fn absorb(&mut self, change: Rows) {
        self.jobs.extend(change.jobs);
        for (id, lease) in change.leases {
            self.leases.insert(id, lease);
        }
        self.claims.extend(change.claims);
        self.keys.extend(change.keys);
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Lock {
    Job(Uuid),
    /// By claims and reports; keeps the reaper and the lease's end away, not the beat.
    LeaseShare(Uuid),
    LeaseBeat(Uuid),
    LeaseEnd(Uuid),
    Worker(usize),
    Key(Uuid, usize, usize),
    Dedupe(Uuid, usize),
}

/// Committed rows, the open transactions, and the locks they hold.
#[derive(Default)]
pub(crate) struct Machine {
    pub(crate) committed: Rows,
    pub(crate) open: BTreeMap<Track, Rows>,
    locks: BTreeSet<(Lock, Track)>,
    pub(crate) rules: Rules,
    pub(crate) now: Micros,
}

impl Machine {
    pub(crate) fn job(&self, track: Track, id: Uuid) -> Option<&Job> {
        let own = self.open.get(&track).and_then(|rows| rows.jobs.get(&id));
        own.or_else(|| self.committed.jobs.get(&id))
    }

    pub(crate) fn lease(&self, track: Track, id: Uuid) -> Option<&Lease> {
        let own = self.open.get(&track).and_then(|rows| rows.leases.get(&id));
        own.or_else(|| self.committed.leases.get(&id))?.as_ref()
    }

    /// The lease, if it is alive for this transaction.
    pub(crate) fn living(&self, track: Track, id: Uuid) -> Option<&Lease> {
        self.lease(track, id).filter(|lease| lease.expires > self.now)
    }

    pub(crate) fn key(&self, track: Track, key: (Uuid, usize, usize)) -> Option<Kept> {
        let own = self.open.get(&track).and_then(|rows| rows.keys.get(&key));
        own.or_else(|| self.committed.keys.get(&key)).copied()
    }

    /// All jobs as this transaction sees them.
    pub(crate) fn jobs(&self, track: Track) -> impl Iterator<Item = (Uuid, &Job)> {
        let own = self.open.get(&track);
        let changed = move |id: &Uuid| own.is_some_and(|rows| rows.jobs.contains_key(id));
        let committed = self.committed.jobs.iter().filter(move |(id, _)| !changed(id));
        committed.chain(own.into_iter().flat_map(|rows| rows.jobs.iter())).map(|(id, job)| (*id, job))
    }

    pub(crate) fn leases(&self, track: Track) -> Vec<(Uuid, Lease)> {
        let mut ids: BTreeSet<Uuid> = self.committed.leases.keys().copied().collect();
        ids.extend(self.open.get(&track).into_iter().flat_map(|rows| rows.leases.keys().copied()));
        ids.into_iter().filter_map(|id| Some((id, self.lease(track, id)?.clone()))).collect()
    }

    /// The claims of a lease that can be seen, in their order.
    pub(crate) fn claims(&self, track: Track, lease: Uuid) -> BTreeMap<i64, Vec<Uuid>> {
        let of_lease = (lease, i64::MIN)..=(lease, i64::MAX);
        let own = self.open.get(&track).into_iter().flat_map(|rows| rows.claims.range(of_lease.clone()));
        let seen: BTreeMap<i64, &Option<Vec<Uuid>>> = self
            .committed
            .claims
            .range(of_lease.clone())
            .chain(own)
            .map(|((_, n), jobs)| (*n, jobs))
            .collect();
        seen.into_iter().filter_map(|(n, jobs)| Some((n, jobs.clone()?))).collect()
    }

    /// The jobs that a lease still holds, in starting order: by the first claim that names them.
    pub(crate) fn held(&self, track: Track, lease: Uuid) -> Vec<Uuid> {
        let mut held = Vec::new();
        for id in self.claims(track, lease).into_values().flatten() {
            let is_held = self.job(track, id).is_some_and(|job| job.lease == Some(lease));
            if is_held && !held.contains(&id) {
                held.push(id);
            }
        }
        held
    }

    pub(crate) fn twin(&self, track: Track, tenant: Uuid, dedupe: usize) -> Option<Uuid> {
        let wanted = |job: &Job| job.tenant == tenant && job.dedupe == Some(dedupe) && job.status.lives();
        self.jobs(track).find(|(_, job)| wanted(job)).map(|(id, _)| id)
    }

    /// How many jobs run that this concerns, as this transaction sees them.
    pub(crate) fn running(&self, track: Track, concerns: impl Fn(&Job) -> bool) -> usize {
        self.jobs(track).filter(|(_, job)| job.status == Status::Running && concerns(job)).count()
    }

    pub(crate) fn lock(&mut self, track: Track, lock: Lock) {
        self.locks.insert((lock, track));
    }

    /// Whether another open transaction holds this lock.
    pub(crate) fn is_taken(&self, track: Track, lock: &Lock) -> bool {
        let from = (lock.clone(), 0);
        self.locks.range(from..).take_while(|(held, _)| held == lock).any(|(_, holder)| *holder != track)
    }

    pub(crate) fn change(&mut self, track: Track) -> &mut Rows {
        self.open.entry(track).or_default()
    }

    /// Changes a job in a transaction and locks what that locks.
    pub(crate) fn edit(&mut self, track: Track, id: Uuid, edit: impl FnOnce(&mut Job)) {
        let mut job = self.job(track, id).expect("only a job that is there is changed").clone();
        edit(&mut job);
        self.put(track, id, job);
    }

    pub(crate) fn put(&mut self, track: Track, id: Uuid, job: Job) {
        self.lock(track, Lock::Job(id));
        if let Some(dedupe) = job.dedupe {
            self.lock(track, Lock::Dedupe(job.tenant, dedupe));
        }
        self.change(track).jobs.insert(id, job);
    }

    /// Ends a transaction; the jobs that a commit changed.
    pub(crate) fn end(&mut self, track: Track, commit: bool) -> Vec<Uuid> {
        self.locks.retain(|(_, holder)| *holder != track);
        let change = self.open.remove(&track).unwrap_or_default();
        if !commit {
            return Vec::new();
        }
        let touched = change.jobs.keys().copied().collect();
        self.committed.absorb(change);
        touched
    }
}
