//! What is to be told about the jobs of one lease, kept until the database has answered.
//!
//! Repeating a report is safe: the database answers `already` to one it knows. So after a doubtful answer the
//! same bundle is sent again, as long as its lease may live.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use jobforge_core::{AttemptEnd, Class, Code, Completion, Error, Failed, Failure, JobRef, Verdict, rpc};
use tokio::time::Instant;
use tokio_postgres::Client;

use crate::apart::{AGAIN, LOCKED, Report, SEARCH, Told, apart, is_locked, spoils};
use crate::engine::{Engine, Finished};
use crate::executor::Ending;
use crate::job::{Job, Lease};
use crate::journal::End;
use crate::lanes::Lane;
use crate::link::{told, within};
use crate::stats::Counters;

/// The most a result may have; a smaller one that is called invalid met a race.
const MAX_RESULT: usize = 1024 * 1024;

/// How many snoozes are under way at once: each may wait for somebody else's lock, and the last one for all of them.
const SNOOZES: usize = 16;

/// The unanswered reports of one lease.
#[derive(Debug)]
pub(crate) struct Bundle {
    pub(crate) lease: Arc<Lease>,
    completions: Batch<Completion>,
    failures: Batch<Failure>,
    releases: Batch<JobRef>,
    snoozes: Batch<Duration>,
    /// Jobs the database has answered for, and how many of them had started.
    pub(crate) settled: Settled,
    /// When to try again, if it was tried: what is left is what somebody else holds locked.
    again_at: Option<Instant>,
}

/// Rows of one call, beside the jobs they speak of.
#[derive(Debug)]
struct Batch<R> {
    jobs: Vec<Entry>,
    rows: Vec<R>,
}

#[derive(Debug, Clone)]
struct Entry {
    job: Arc<Job>,
    started: bool,
}

/// How many started jobs were settled since the last look.
#[derive(Debug, Default)]
pub(crate) struct Settled {
    pub(crate) started: usize,
}

/// How a call is made.
#[derive(Clone, Copy)]
pub(crate) struct Call<'a> {
    pub(crate) client: &'a Client,
    pub(crate) patience: Duration,
    pub(crate) engine: &'a Engine,
}

impl Bundle {
    pub(crate) fn new(lease: Arc<Lease>) -> Bundle {
        Bundle {
            lease,
            completions: Batch::new(),
            failures: Batch::new(),
            releases: Batch::new(),
            snoozes: Batch::new(),
            settled: Settled::default(),
            again_at: None,
        }
    }

    pub(crate) fn add(&mut self, finished: Finished, engine: &Engine) {
        let Finished { job, ending, started } = finished;
        let entry = Entry { job, started };
        match ending {
            Ending::Complete(result) => {
                let locator = Some(entry.job.claimed.locator);
                let row = Completion { job: entry.job.job_ref(), result, locator };
                self.completions.push(entry, row);
            }
            Ending::Fail(failure) => self.failures.push(entry, *failure),
            Ending::Release => {
                let job = entry.job.job_ref();
                self.releases.push(entry, job);
            }
            Ending::Snooze(after) => self.snoozes.push(entry, after),
            Ending::Reported => {
                Counters::add(&engine.counters.completed, 1);
                self.settled.settle(&entry, &End::Reported, engine);
            }
            Ending::Dropped => self.settled.lose(&entry, engine),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// From when on it is to be sent.
    pub(crate) fn due(&self) -> Instant {
        self.again_at.unwrap_or_else(Instant::now)
    }

    /// Whether it was tried, and what is left is not to be tried with others.
    pub(crate) fn is_set_aside(&self) -> bool {
        self.again_at.is_some()
    }

    /// Whether the two may be told as one.
    pub(crate) fn goes_with(&self, lease: &Arc<Lease>, set_aside: bool) -> bool {
        Arc::ptr_eq(&self.lease, lease) && self.is_set_aside() == set_aside
    }

    /// Takes in what another one that goes with it has to tell.
    pub(crate) fn merge(&mut self, other: Bundle) {
        let Bundle { completions, failures, releases, snoozes, settled, again_at, .. } = other;
        // The earlier: what comes to it all the time must not put it off for ever.
        self.again_at = self.again_at.min(again_at);
        self.settled.started += settled.started;
        self.completions.append(completions);
        self.failures.append(failures);
        self.releases.append(releases);
        self.snoozes.append(snoozes);
    }

    /// How many jobs it speaks of.
    pub(crate) fn len(&self) -> usize {
        let Bundle { completions, failures, releases, snoozes, .. } = self;
        completions.jobs.len() + failures.jobs.len() + releases.jobs.len() + snoozes.jobs.len()
    }

    /// Gives everything up: the lease is gone.
    pub(crate) fn drop_all(&mut self, engine: &Engine) {
        let Bundle { completions, failures, releases, snoozes, .. } = self;
        let entries = [&mut completions.jobs, &mut failures.jobs, &mut releases.jobs, &mut snoozes.jobs];
        for entry in entries.into_iter().flat_map(|jobs| jobs.drain(..)) {
            self.settled.lose(&entry, engine);
        }
        *self = Bundle { settled: std::mem::take(&mut self.settled), ..Bundle::new(self.lease.clone()) };
    }

    /// Sends all of it; an error means that what is left is to be sent again.
    pub(crate) async fn send(&mut self, call: Call<'_>) -> Result<(), Error> {
        self.send_completions(call).await?;
        self.send_snoozes(call).await?;
        self.send_failures(call).await?;
        self.send_releases(call).await?;
        self.again_at = (!self.is_empty()).then(|| Instant::now() + AGAIN);
        Ok(())
    }

    /// Where the first of its completions was claimed, if it has so many of them.
    pub(crate) fn lane(&self, at_least: usize) -> Option<Lane> {
        let jobs = &self.completions.jobs;
        jobs.first().filter(|_| jobs.len() >= at_least).map(|entry| entry.job.lane)
    }

    /// Whether nothing else is in it.
    pub(crate) fn is_all_completions(&self) -> bool {
        self.completions.jobs.len() == self.len()
    }

    /// What somebody else holds locked stays.
    async fn send_completions(&mut self, call: Call<'_>) -> Result<(), Error> {
        let Batch { jobs, rows } = &mut self.completions;
        let answers = apart(Completing(call, &self.lease), rows).await?;
        let (jobs, rows) = (std::mem::take(jobs), std::mem::take(rows));
        let mut locked = Batch::new();
        for ((entry, row), answer) in jobs.into_iter().zip(rows).zip(answers) {
            match answer {
                Told::Answer(answer) => self.completed(entry, row, answer, call.engine),
                Told::Unreached => self.completions.push(entry, row),
                Told::Locked => locked.push(entry, row),
            }
        }
        self.completions.append(locked);
        Ok(())
    }

    /// Sends the completions on a connection on which others wait: all of them, or none.
    pub(crate) async fn send_lent(&mut self, call: Call<'_>) -> Result<(), Error> {
        let answers = Completing(call, &self.lease).send(&self.completions.rows, LOCKED).await?;
        let Batch { jobs, rows } = std::mem::replace(&mut self.completions, Batch::new());
        for ((entry, row), verdict) in jobs.into_iter().zip(rows).zip(answers) {
            self.completed(entry, row, Ok(verdict), call.engine);
        }
        Ok(())
    }

    fn completed(&mut self, entry: Entry, row: Completion, answer: Result<Verdict, Error>, engine: &Engine) {
        match answer {
            Ok(Verdict::Done | Verdict::Already) => {
                Counters::add(&engine.counters.completed, 1);
                self.settled.settle(&entry, &End::Completed, engine);
            }
            Ok(Verdict::Invalid) if fits(&row) && entry.job.retry_report() => {
                self.completions.push(entry, row);
            }
            Ok(Verdict::Invalid) => {
                let failure = refused(
                    &row,
                    "the result cannot be stored: it is too large or holds what JSON in Postgres cannot",
                );
                self.failures.push(entry, failure);
            }
            Ok(verdict) => self.settled.stale(&entry, verdict, engine),
            Err(error) => {
                let failure = refused(&row, &format!("the completion was refused: {}", told(&error)));
                self.failures.push(entry, failure);
            }
        }
    }

    async fn send_snoozes(&mut self, call: Call<'_>) -> Result<(), Error> {
        let began = Instant::now();
        let mut rest = std::mem::replace(&mut self.snoozes, Batch::new());
        let mut locked = Batch::new();
        let mut failed = Ok(());
        while !rest.jobs.is_empty() && failed.is_ok() && began.elapsed() < SEARCH {
            let some = rest.split_off_first(SNOOZES);
            let calls = some.jobs.iter().zip(&some.rows).map(|(entry, after)| {
                let snooze = rpc::snooze_job(call.client, self.lease.id, entry.job.job_ref(), *after);
                within(call.patience, "snooze_job", snooze)
            });
            let answers = join_all(calls).await;
            for ((entry, after), answer) in some.jobs.into_iter().zip(some.rows).zip(answers) {
                match answer {
                    Err(error) if is_locked(&error) => locked.push(entry, after),
                    Err(error) if !spoils(&error) => {
                        self.snoozes.push(entry, after);
                        failed = Err(error);
                    }
                    answer => self.snoozed(&entry, answer.map(drop), call.engine),
                }
            }
        }
        // What was not come to is first the next time.
        self.snoozes.append(rest);
        self.snoozes.append(locked);
        failed
    }

    fn snoozed(&mut self, entry: &Entry, answer: Result<(), Error>, engine: &Engine) {
        let Err(error) = answer else {
            Counters::add(&engine.counters.snoozed, 1);
            return self.settled.settle(entry, &End::Snoozed, engine);
        };
        match error.code() {
            Some(Code::LeaseLost | Code::NotFound) => self.settled.stale(entry, Verdict::Stale, engine),
            code => {
                let failure = unsnoozable(entry.job.job_ref(), code, &error);
                self.failures.push(entry.clone(), failure);
            }
        }
    }

    async fn send_failures(&mut self, call: Call<'_>) -> Result<(), Error> {
        let Batch { jobs, rows } = &mut self.failures;
        let answers = apart(Failing(call, &self.lease), rows).await?;
        let (jobs, rows) = (std::mem::take(jobs), std::mem::take(rows));
        let mut locked = Batch::new();
        for ((entry, row), answer) in jobs.into_iter().zip(rows).zip(answers) {
            match answer {
                Told::Answer(Ok(Failed { verdict: Verdict::Done | Verdict::Already, status, .. })) => {
                    Counters::add(&call.engine.counters.failed, 1);
                    let end = End::of_failure(status.as_deref(), row.error);
                    self.settled.settle(&entry, &end, call.engine);
                }
                Told::Answer(Ok(failed)) => self.settled.stale(&entry, failed.verdict, call.engine),
                Told::Answer(Err(error)) => self.leave_behind(&entry, &error, call.engine),
                Told::Unreached => self.failures.push(entry, row),
                Told::Locked => locked.push(entry, row),
            }
        }
        self.failures.append(locked);
        Ok(())
    }

    async fn send_releases(&mut self, call: Call<'_>) -> Result<(), Error> {
        let Batch { jobs, rows } = &mut self.releases;
        let answers = apart(Releasing(call, &self.lease), rows).await?;
        let (jobs, rows) = (std::mem::take(jobs), std::mem::take(rows));
        let mut locked = Batch::new();
        for ((entry, row), answer) in jobs.into_iter().zip(rows).zip(answers) {
            match answer {
                Told::Answer(Ok(_)) => {
                    Counters::add(&call.engine.counters.released, 1);
                    self.settled.settle(&entry, &End::Released, call.engine);
                }
                Told::Answer(Err(error)) => self.leave_behind(&entry, &error, call.engine),
                Told::Unreached => self.releases.push(entry, row),
                Told::Locked => locked.push(entry, row),
            }
        }
        self.releases.append(locked);
        Ok(())
    }

    /// A job about which nothing can be told stays on its lease in the database, and goes back when that is
    /// closed. Until then no beat may say that all of the lease's claims are accounted for.
    fn leave_behind(&mut self, entry: &Entry, error: &Error, engine: &Engine) {
        let job = entry.job.job_ref();
        tracing::error!(job_id = %job.id, tenant_id = %job.tenant_id, error = told(error), "a report was refused");
        self.lease.keep_claims();
        self.lease.retire();
        self.settled.settle(entry, &End::Released, engine);
    }
}

struct Completing<'a>(Call<'a>, &'a Lease);

impl Report for Completing<'_> {
    type Row = Completion;
    type Answer = Verdict;

    async fn send(&self, rows: &[Completion], wait: Duration) -> Result<Vec<Verdict>, Error> {
        let Completing(call, lease) = self;
        let complete = rpc::complete_unlocked(call.client, lease.id, rows, wait);
        within(call.patience, "complete_jobs", complete).await
    }
}

struct Failing<'a>(Call<'a>, &'a Lease);

impl Report for Failing<'_> {
    type Row = Failure;
    type Answer = Failed;

    async fn send(&self, rows: &[Failure], wait: Duration) -> Result<Vec<Failed>, Error> {
        let Failing(call, lease) = self;
        let fail = rpc::fail_unlocked(call.client, lease.id, rows, wait);
        within(call.patience, "fail_jobs", fail).await
    }
}

/// The function bounds its waits for locks by itself.
struct Releasing<'a>(Call<'a>, &'a Lease);

impl Report for Releasing<'_> {
    type Row = JobRef;
    type Answer = Verdict;

    async fn send(&self, rows: &[JobRef], _: Duration) -> Result<Vec<Verdict>, Error> {
        let Releasing(call, lease) = self;
        let release = rpc::release_jobs(call.client, lease.id, rows);
        within(call.patience, "release_jobs", release).await
    }
}

impl<R> Batch<R> {
    fn new() -> Batch<R> {
        Batch { jobs: Vec::new(), rows: Vec::new() }
    }

    fn push(&mut self, entry: Entry, row: R) {
        self.jobs.push(entry);
        self.rows.push(row);
    }

    /// Its first ones, at most so many; the others stay.
    fn split_off_first(&mut self, most: usize) -> Batch<R> {
        let most = most.min(self.jobs.len());
        Batch { jobs: self.jobs.drain(..most).collect(), rows: self.rows.drain(..most).collect() }
    }

    fn append(&mut self, Batch { jobs, rows }: Batch<R>) {
        self.jobs.extend(jobs);
        self.rows.extend(rows);
    }
}

impl Settled {
    fn settle(&mut self, entry: &Entry, end: &End, engine: &Engine) {
        if entry.started {
            engine.journal.ended(&entry.job, end);
        }
        entry.job.settle();
        self.started += usize::from(entry.started);
    }

    fn lose(&mut self, entry: &Entry, engine: &Engine) {
        Counters::add(&engine.counters.lost, 1);
        self.settle(entry, &End::Lost, engine);
    }

    fn stale(&mut self, entry: &Entry, verdict: Verdict, engine: &Engine) {
        tracing::debug!(job_id = %entry.job.job_ref().id, ?verdict, "an outcome came too late");
        self.lose(entry, engine);
    }
}

fn fits(row: &Completion) -> bool {
    row.result.as_ref().is_none_or(|result| result.get().len() <= MAX_RESULT)
}

fn refused(row: &Completion, error: &str) -> Failure {
    Failure { class: Class::Permanent, ..failure(row.job, error.to_owned()) }
}

/// A snooze is refused when the job is asked to stop, or when the time is out of range.
fn unsnoozable(job: JobRef, code: Option<Code>, error: &Error) -> Failure {
    let failure = failure(job, format!("the snooze was refused: {}", told(error)));
    match code {
        Some(Code::WrongState) => Failure { class: Class::Canceled, end: AttemptEnd::Canceled, ..failure },
        _ => failure,
    }
}

fn failure(job: JobRef, error: String) -> Failure {
    Failure {
        job,
        class: Class::Retryable,
        error,
        retry_after: None,
        end: AttemptEnd::Failed,
        exit_code: None,
        stdout_tail: None,
        stderr_tail: None,
    }
}
