//! The log lines of jobs: one when a job starts, one when the database has taken how it ended.
//!
//! All of them have the target `jobforge_worker::jobs`, so that a filter can ask for them alone. What went well
//! is said at debug, since a busy worker ends tens of thousands of jobs a second; failures are always worth a
//! line.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tracing::Level;
use uuid::Uuid;

use crate::job::Job;

const TARGET: &str = "jobforge_worker::jobs";

/// What became of one attempt, as far as this worker knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// It is done.
    Completed,
    /// The handler reported by itself, inside its own transaction.
    Reported,
    /// It failed and will be tried again.
    Retrying {
        /// What went wrong.
        error: String,
    },
    /// It failed in a way that no retry mends.
    Failed {
        /// What went wrong.
        error: String,
    },
    /// It failed as often as it may.
    Dead {
        /// What went wrong.
        error: String,
    },
    /// It was canceled.
    Canceled {
        /// What its handler said.
        error: String,
    },
    /// It was put off by its handler.
    Snoozed,
    /// It was given back without a count against it.
    Released,
    /// It was no longer this worker's: the outcome was dropped.
    Lost,
}

/// One attempt that is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// The job.
    pub job_id: Uuid,
    /// Whose job it is.
    pub tenant_id: Uuid,
    /// Its type.
    pub job_type: String,
    /// The number of the attempt.
    pub attempt: i32,
    /// What became of it.
    pub end: End,
    /// How long its handler ran.
    pub duration: Duration,
}

/// Where a worker's jobs are told of.
#[derive(Debug)]
pub(crate) struct Journal {
    worker_id: String,
    /// What ended, where somebody wants to know.
    kept: Option<Mutex<Vec<Ended>>>,
}

/// The line of a job at a level; the level is asked first, so that a line nobody wants costs a comparison.
macro_rules! line {
    ($level:expr, $journal:expr, $job:expr, $message:literal $(, $field:ident)*) => {
        if tracing::enabled!(target: TARGET, $level) {
            let claimed = &$job.claimed;
            tracing::event!(
                target: TARGET, $level, worker_id = $journal.worker_id, trace_id = $job.trace_id(),
                job_id = %claimed.job.id, job_type = claimed.job_type, tenant_id = %claimed.job.tenant_id,
                attempt_no = claimed.job.fence, $($field,)* $message
            );
        }
    };
}

impl Journal {
    pub(crate) fn new(worker_id: String) -> Journal {
        Journal { worker_id, kept: None }
    }

    /// Keeps what ends, to be read at the end.
    pub(crate) fn keep(&mut self) {
        self.kept = Some(Mutex::default());
    }

    /// What ended, in the order in which the database took it.
    pub(crate) fn take(&self) -> Vec<Ended> {
        let kept = self.kept.as_ref();
        kept.map(|kept| std::mem::take(&mut *kept.lock().unwrap_or_else(PoisonError::into_inner)))
            .unwrap_or_default()
    }

    pub(crate) fn started(&self, job: &Job) {
        line!(Level::DEBUG, self, job, "the job starts");
    }

    /// Tells of the end of a job that had started.
    pub(crate) fn ended(&self, job: &Job, end: &End) {
        let duration_ms = u64::try_from(job.took().as_millis()).unwrap_or(u64::MAX);
        match end {
            End::Completed => line!(Level::DEBUG, self, job, "the job is done", duration_ms),
            End::Reported => line!(Level::DEBUG, self, job, "the job reported by itself", duration_ms),
            End::Snoozed => line!(Level::DEBUG, self, job, "the job is put off", duration_ms),
            End::Released => line!(Level::DEBUG, self, job, "the job is given back", duration_ms),
            End::Canceled { error } => {
                line!(Level::INFO, self, job, "the job is canceled", duration_ms, error);
            }
            End::Retrying { error } => {
                line!(Level::WARN, self, job, "the job failed and will be tried again", duration_ms, error);
            }
            End::Failed { error } => {
                line!(Level::ERROR, self, job, "the job failed for good", duration_ms, error);
            }
            End::Dead { error } => {
                line!(
                    Level::ERROR,
                    self,
                    job,
                    "the job is dead: it failed as often as it may",
                    duration_ms,
                    error
                );
            }
            End::Lost => {
                line!(
                    Level::WARN,
                    self,
                    job,
                    "the job is no longer this worker's: its outcome is dropped",
                    duration_ms
                );
            }
        }
        if let Some(kept) = &self.kept {
            let claimed = &job.claimed;
            let ended = Ended {
                job_id: claimed.job.id,
                tenant_id: claimed.job.tenant_id,
                job_type: claimed.job_type.clone(),
                attempt: claimed.job.fence,
                end: end.clone(),
                duration: job.took(),
            };
            kept.lock().unwrap_or_else(PoisonError::into_inner).push(ended);
        }
    }
}

impl End {
    /// What the database made of a failure.
    pub(crate) fn of_failure(status: Option<&str>, error: String) -> End {
        match status {
            Some("dead") => End::Dead { error },
            Some("failed") => End::Failed { error },
            Some("canceled") => End::Canceled { error },
            // A repeated report is answered without a status.
            _ => End::Retrying { error },
        }
    }
}
