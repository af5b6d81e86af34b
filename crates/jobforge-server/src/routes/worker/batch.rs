//! A report on many jobs: what can be carried out of it, and a verdict for each row, in their order.

use jobforge_core::{Failed, JobRef, Verdict};
use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

use super::{HeldJob, taken};
use crate::auth::{System, Work};
use crate::problem::{Problem, ProblemBody};
use crate::rows::{Misread, Rows};

/// What became of one row of a report.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ReportedJob {
    /// Whose job it is; null where an invalid row does not tell.
    pub(super) tenant_id: Option<Uuid>,
    /// The job; null where an invalid row does not tell.
    pub(super) id: Option<Uuid>,
    /// `done`; `already`: the same report came before; `stale`: the job is no longer on this lease; `unknown`; `invalid`: the
    /// row cannot be carried out, and `error` tells why.
    pub(super) verdict: Verdict,
    /// What is wrong with an invalid row, and where in the body.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    pub(super) error: Option<ProblemBody>,
}

/// What became of each row, in their order.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ReportedJobs {
    /// The rows.
    pub(super) jobs: Vec<ReportedJob>,
}

impl ReportedJobs {
    pub(super) fn of(told: Vec<(ReportedJob, Failed)>) -> ReportedJobs {
        ReportedJobs { jobs: told.into_iter().map(|(job, _)| job).collect() }
    }
}

/// A row of a list that was left out, because it cannot be read.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct InvalidRow {
    /// Its place in the list, from 0.
    row: usize,
    /// What is wrong with it, and where in the body.
    error: ProblemBody,
}

/// A row that names its job.
pub(super) trait Named {
    fn job(&self) -> HeldJob;
}

impl Named for HeldJob {
    fn job(&self) -> HeldJob {
        *self
    }
}

/// The rows of a report on many jobs.
pub(super) struct Report<T> {
    /// What goes to the database, in the order of the rows.
    pub(super) sound: Vec<T>,
    rows: Vec<Row>,
}

enum Row {
    Sound(JobRef),
    Invalid(Box<Misread>),
}

impl Report<JobRef> {
    /// Rows that name jobs and say nothing else.
    pub(super) fn of_jobs(caller: &System<Work>, rows: Rows<HeldJob>) -> Result<Report<JobRef>, Problem> {
        Report::new(caller, rows, |job, _| Ok(job))
    }
}

impl<T> Report<T> {
    /// Tells the rows that can be carried out from those that cannot.
    pub(super) fn new<R: Named>(
        caller: &System<Work>,
        rows: Rows<R>,
        read: impl Fn(JobRef, R) -> Result<T, Problem>,
    ) -> Result<Report<T>, Problem> {
        let rows = rows.read()?;
        let mut report =
            Report { sound: Vec::with_capacity(rows.len()), rows: Vec::with_capacity(rows.len()) };
        for row in rows {
            let judged = row.and_then(|row| {
                let named = row.job();
                let job = caller.held(named).map_err(|problem| problem.at("/tenant_id"));
                let sound = job.and_then(|job| Ok((job, read(job, row)?)));
                let tenant_id = named.tenant_id.or(caller.bound());
                sound.map_err(|problem| Box::new(Misread { tenant_id, id: Some(named.id), problem }))
            });
            report.rows.push(match judged {
                Ok((job, sound)) => {
                    report.sound.push(sound);
                    Row::Sound(job)
                }
                Err(misread) => Row::Invalid(misread),
            });
        }
        Ok(report)
    }

    /// Every row with its verdict, where those of the sound ones are known.
    pub(super) fn tell(self, answers: Vec<Failed>) -> Result<Vec<(ReportedJob, Failed)>, Problem> {
        let mut answers = answers.into_iter();
        let told = self.rows.into_iter().enumerate().map(|(at, row)| match row {
            Row::Sound(JobRef { tenant_id, id, .. }) => {
                let answer = answers.next().ok_or_else(|| Problem::unavailable("a report got no answer"))?;
                let unstorable =
                    (answer.verdict == Verdict::Invalid).then(|| taken(answer.verdict, id).err());
                let error = unstorable.flatten().map(|problem| at_row(problem.at("/result"), at));
                let job =
                    ReportedJob { tenant_id: Some(tenant_id), id: Some(id), verdict: answer.verdict, error };
                Ok((job, answer))
            }
            Row::Invalid(misread) => {
                let Misread { tenant_id, id, problem } = *misread;
                let (verdict, error) = (Verdict::Invalid, Some(at_row(problem, at)));
                let job = ReportedJob { tenant_id, id, verdict, error };
                Ok((job, Failed { verdict, status: None, run_at: None }))
            }
        });
        told.collect()
    }

    /// The rows that were left out.
    pub(super) fn invalid(self) -> Vec<InvalidRow> {
        let invalid = self.rows.into_iter().enumerate().filter_map(|(row, judged)| match judged {
            Row::Sound(_) => None,
            Row::Invalid(misread) => Some(InvalidRow { row, error: at_row(misread.problem, row) }),
        });
        invalid.collect()
    }
}

impl InvalidRow {
    /// A line of a log.
    pub(super) fn line(row: usize, problem: Problem) -> InvalidRow {
        InvalidRow { row, error: problem.at("").under(&format!("/lines/{row}")).body() }
    }
}

/// The refusal with its place in the whole body.
fn at_row(problem: Problem, row: usize) -> ProblemBody {
    problem.at("").under(&format!("/jobs/{row}")).body()
}
