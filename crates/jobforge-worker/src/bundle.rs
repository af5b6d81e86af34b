//! What is to be told about the jobs of one lease, kept until the database has answered.
//!
//! Repeating a report is safe: the database answers `already` to one it knows. So after a doubtful answer the
//! same bundle is sent again, as long as its lease may live.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use jobforge_core::{AttemptEnd, Class, Code, Completion, Error, Failed, Failure, JobRef, Verdict, rpc};
use tokio_postgres::Client;

use crate::engine::{Engine, Finished};
use crate::executor::Ending;
use crate::job::{Job, Lease};
use crate::journal::End;
use crate::lanes::Lane;
use crate::link::{told, within};
use crate::stats::Counters;

/// The most a result may have; a smaller one that is called invalid met a race.
const MAX_RESULT: usize = 1024 * 1024;

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
    /// How long to wait for somebody else's lock, if not as long as for the answer.
    pub(crate) locked: Option<Duration>,
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
        self.send_releases(call).await
    }

    /// Where the first of its completions was claimed, if it has so many of them.
    pub(crate) fn lane(&self, at_least: usize) -> Option<Lane> {
        let jobs = &self.completions.jobs;
        jobs.first().filter(|_| jobs.len() >= at_least).map(|entry| entry.job.lane)
    }

    pub(crate) async fn send_completions(&mut self, call: Call<'_>) -> Result<(), Error> {
        let Batch { jobs, rows } = &mut self.completions;
        let answer = match call.complete(&self.lease, rows).await {
            // One row may have spoiled the group: each is sent alone.
            Err(error) if spoils(&error) && rows.len() > 1 => call.complete_each(&self.lease, rows).await?,
            Err(error) if spoils(&error) => vec![Err(error)],
            answer => answer?.into_iter().map(Ok).collect(),
        };
        let (jobs, rows) = (std::mem::take(jobs), std::mem::take(rows));
        for ((entry, row), answer) in jobs.into_iter().zip(rows).zip(answer) {
            match answer {
                Ok(Verdict::Done | Verdict::Already) => {
                    Counters::add(&call.engine.counters.completed, 1);
                    self.settled.settle(&entry, &End::Completed, call.engine);
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
                Ok(verdict) => self.settled.stale(&entry, verdict, call.engine),
                Err(error) => {
                    let failure = refused(&row, &format!("the completion was refused: {}", told(&error)));
                    self.failures.push(entry, failure);
                }
            }
        }
        Ok(())
    }

    async fn send_snoozes(&mut self, call: Call<'_>) -> Result<(), Error> {
        let Batch { jobs, rows } = &self.snoozes;
        let calls = jobs.iter().zip(rows).map(|(entry, after)| {
            let snooze = rpc::snooze_job(call.client, self.lease.id, entry.job.job_ref(), *after);
            within(call.patience, "snooze_job", snooze)
        });
        let answers = join_all(calls).await;
        let jobs = std::mem::take(&mut self.snoozes.jobs);
        let rows = std::mem::take(&mut self.snoozes.rows);
        let mut failed = Ok(());
        for ((entry, after), answer) in jobs.into_iter().zip(rows).zip(answers) {
            match answer {
                Ok(_) => {
                    Counters::add(&call.engine.counters.snoozed, 1);
                    self.settled.settle(&entry, &End::Snoozed, call.engine);
                }
                Err(error) if !spoils(&error) => {
                    self.snoozes.push(entry, after);
                    failed = Err(error);
                }
                Err(error) => match error.code() {
                    Some(Code::LeaseLost | Code::NotFound) => {
                        self.settled.stale(&entry, Verdict::Stale, call.engine);
                    }
                    code => {
                        let failure = unsnoozable(entry.job.job_ref(), code, &error);
                        self.failures.push(entry, failure);
                    }
                },
            }
        }
        failed
    }

    async fn send_failures(&mut self, call: Call<'_>) -> Result<(), Error> {
        let Batch { jobs, rows } = &mut self.failures;
        let answer = match call.fail(&self.lease, rows).await {
            Err(error) if spoils(&error) && rows.len() > 1 => call.fail_each(&self.lease, rows).await?,
            Err(error) if spoils(&error) => vec![Err(error)],
            answer => answer?.into_iter().map(Ok).collect(),
        };
        let (jobs, rows) = (std::mem::take(jobs), std::mem::take(rows));
        for ((entry, row), answer) in jobs.into_iter().zip(rows).zip(answer) {
            match answer {
                Ok(Failed { verdict: Verdict::Done | Verdict::Already, status, .. }) => {
                    Counters::add(&call.engine.counters.failed, 1);
                    let end = End::of_failure(status.as_deref(), row.error);
                    self.settled.settle(&entry, &end, call.engine);
                }
                Ok(failed) => self.settled.stale(&entry, failed.verdict, call.engine),
                Err(error) => self.leave_behind(&entry, &error, call.engine),
            }
        }
        Ok(())
    }

    async fn send_releases(&mut self, call: Call<'_>) -> Result<(), Error> {
        let Batch { jobs, rows } = &mut self.releases;
        let release = rpc::release_jobs(call.client, self.lease.id, rows);
        let answer = within(call.patience, "release_jobs", release).await;
        if let Err(error) = answer {
            if !spoils(&error) {
                return Err(error);
            }
            rows.clear();
            for entry in std::mem::take(jobs) {
                self.leave_behind(&entry, &error, call.engine);
            }
            return Ok(());
        }
        Counters::add(&call.engine.counters.released, jobs.len());
        rows.clear();
        for entry in std::mem::take(jobs) {
            self.settled.settle(&entry, &End::Released, call.engine);
        }
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

impl Call<'_> {
    async fn complete(&self, lease: &Lease, rows: &[Completion]) -> Result<Vec<Verdict>, Error> {
        if rows.is_empty() {
            return Ok(Vec::new());
        }
        match self.locked {
            None => {
                within(self.patience, "complete_jobs", rpc::complete_jobs(self.client, lease.id, rows)).await
            }
            Some(wait) => {
                let call = rpc::complete_unlocked(self.client, lease.id, rows, wait);
                within(self.patience, "complete_jobs", call).await
            }
        }
    }

    async fn complete_each(
        &self,
        lease: &Lease,
        rows: &[Completion],
    ) -> Result<Vec<Result<Verdict, Error>>, Error> {
        let mut verdicts = Vec::new();
        for row in rows.chunks(1) {
            verdicts.push(alone(self.complete(lease, row).await, Verdict::Unknown)?);
        }
        Ok(verdicts)
    }

    async fn fail(&self, lease: &Lease, rows: &[Failure]) -> Result<Vec<Failed>, Error> {
        if rows.is_empty() {
            return Ok(Vec::new());
        }
        within(self.patience, "fail_jobs", rpc::fail_jobs(self.client, lease.id, rows)).await
    }

    async fn fail_each(&self, lease: &Lease, rows: &[Failure]) -> Result<Vec<Result<Failed, Error>>, Error> {
        let mut verdicts = Vec::new();
        for row in rows.chunks(1) {
            let unknown = Failed { verdict: Verdict::Unknown, status: None, run_at: None };
            verdicts.push(alone(self.fail(lease, row).await, unknown)?);
        }
        Ok(verdicts)
    }
}

/// The answer to one row, or what stands for a missing one; only what is worth another try is an error of the
/// whole.
fn alone<T>(answer: Result<Vec<T>, Error>, missing: T) -> Result<Result<T, Error>, Error> {
    match answer {
        Ok(answers) => Ok(Ok(answers.into_iter().next().unwrap_or(missing))),
        Err(error) if !spoils(&error) => Err(error),
        Err(error) => Ok(Err(error)),
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

/// Whether what was sent is at fault: data (22), a constraint (23), a limit (54), or a refusal. Everything
/// else, be it a full disk, is worth another try.
fn spoils(error: &Error) -> bool {
    match error {
        Error::Database { source, .. } => {
            let class = source.code().map(|code| &code.code()[..2]);
            matches!(class, Some("22" | "23" | "54"))
        }
        other => !other.is_transient(),
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
