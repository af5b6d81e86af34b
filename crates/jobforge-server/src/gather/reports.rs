//! Workers' reports of many callers in one transaction.
//!
//! Rows of one lease become one call, and the calls of many leases share a commit, each bound to its caller's tenant.
//! What a row says of itself (stale, unknown) is a verdict and harms no other. Should a call fail all the same, or wait for
//! somebody else's transaction, the batch is halved until the one at fault is alone, so that the fault meets only its own;
//! one that has to wait does so on a connection which nobody else needs, and those who come for the same job join it there.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use jobforge_core::{Completion, Error, Failed, Failure, JobRef, Verdict, rpc};
use tokio_postgres::Client;
use uuid::Uuid;

use super::held::{Held, hash};
use super::lanes::{Lanes, Write};
use crate::db::Db;
use crate::lent::is_late;
use crate::problem::Problem;

/// Writers: one commits while the other gathers.
const LANES: usize = 2;
/// The most requests of a batch.
const MOST: usize = 500;
/// The most rows of one call; the database takes 10,000.
const MOST_ROWS: usize = 5_000;
/// How long a batch waits for a row that somebody else holds.
const MOMENT: Duration = Duration::from_millis(100);

/// Where requests report how attempts ended.
pub(crate) struct Reports {
    db: Arc<Db>,
    lanes: Lanes<Ends>,
    held: Held,
}

/// One request's report.
#[derive(Clone, Debug)]
pub(crate) struct Report {
    /// The only tenant its caller works for.
    pub(crate) bound: Option<Uuid>,
    pub(crate) lease: Uuid,
    pub(crate) ends: End,
}

/// How attempts ended.
#[derive(Clone, Debug)]
pub(crate) enum End {
    Well(Vec<Completion>),
    Badly(Vec<Failure>),
}

impl Reports {
    pub(crate) fn start(db: Arc<Db>, patience: Duration) -> Reports {
        Reports { lanes: Lanes::start(Ends(db.clone()), LANES, MOST, patience), held: Held::default(), db }
    }

    /// Reports; returns when it is durable, with what became of each row, in their order.
    pub(crate) async fn put(&self, report: Report) -> Result<Vec<Failed>, Problem> {
        if report.ends.rows() == 0 {
            return Ok(Vec::new());
        }
        if self.held.holds(&report.ends.jobs()) {
            return self.wait(report).await;
        }
        match self.lanes.put(report).await? {
            Ending::Told(rows) => Ok(rows),
            Ending::HeldUp(report) => self.wait(*report).await,
        }
    }

    /// Waits for whoever holds one of the jobs, as long as a call may take.
    async fn wait(&self, report: Report) -> Result<Vec<Failed>, Problem> {
        let _mark = self.held.mark(report.ends.jobs());
        let client = self.db.patient_worker().await?;
        client.call(async |c| rpc::bound_to(c, report.bound, call(c, &report)).await).await
    }
}

impl End {
    fn rows(&self) -> usize {
        match self {
            End::Well(rows) => rows.len(),
            End::Badly(rows) => rows.len(),
        }
    }

    /// The hashes of their jobs.
    fn jobs(&self) -> Vec<u64> {
        let told = |job: &JobRef| hash((job.tenant_id, job.id));
        match self {
            End::Well(rows) => rows.iter().map(|row| told(&row.job)).collect(),
            End::Badly(rows) => rows.iter().map(|row| told(&row.job)).collect(),
        }
    }

    fn append(&mut self, more: &End) {
        match (self, more) {
            (End::Well(rows), End::Well(more)) => rows.extend_from_slice(more),
            (End::Badly(rows), End::Badly(more)) => rows.extend_from_slice(more),
            (End::Well(_), End::Badly(_)) | (End::Badly(_), End::Well(_)) => {}
        }
    }
}

struct Ends(Arc<Db>);

/// What became of a report.
enum Ending {
    Told(Vec<Failed>),
    HeldUp(Box<Report>),
}

impl Write for Ends {
    type Item = Report;
    type Answer = Ending;

    async fn write(&self, reports: Vec<Report>) -> Vec<Result<Ending, Problem>> {
        let mut answers: Vec<Option<Result<Ending, Problem>>> = reports.iter().map(|_| None).collect();
        let mut held: HashSet<u64> = HashSet::new();
        let mut batches: Vec<Vec<usize>> = vec![(0..reports.len()).collect()];
        while let Some(mut batch) = batches.pop() {
            let is_held = |at: &usize| reports[*at].ends.jobs().iter().any(|job| held.contains(job));
            for at in batch.extract_if(.., |at| !held.is_empty() && is_held(at)) {
                answers[at] = Some(Ok(Ending::HeldUp(Box::new(reports[at].clone()))));
            }
            match self.write_batch(&reports, &batch).await {
                Ok(rows) => {
                    for (at, rows) in batch.into_iter().zip(rows) {
                        answers[at] = Some(Ok(Ending::Told(rows)));
                    }
                }
                Err(unwritten) if batch.len() > 1 && unwritten.why != Why::Nobody => {
                    let rest = batch.split_off(batch.len() / 2);
                    batches.extend([rest, batch]);
                }
                // Who waits for the same job needs not be tried.
                Err(unwritten) if unwritten.why == Why::Held => {
                    held.extend(batch.iter().flat_map(|at| reports[*at].ends.jobs()));
                    batches.push(batch);
                }
                Err(unwritten) => {
                    batch.into_iter().for_each(|at| answers[at] = Some(Err(unwritten.problem.clone())));
                }
            }
        }
        let unanswered = || Err(Problem::unavailable("the report got no answer"));
        answers.into_iter().map(|answer| answer.unwrap_or_else(unanswered)).collect()
    }
}

impl Ends {
    /// All of a batch in one transaction.
    async fn write_batch(&self, reports: &[Report], batch: &[usize]) -> Result<Vec<Vec<Failed>>, Unwritten> {
        if batch.is_empty() {
            return Ok(Vec::new());
        }
        let reports: Vec<Report> = batch.iter().map(|at| reports[*at].clone()).collect();
        let (calls, places) = group(&reports);
        let answers = write(&self.0, &calls).await?;
        Ok(places.iter().map(|place| place.of(&answers)).collect())
    }
}

/// What kept a batch from being written.
struct Unwritten {
    problem: Problem,
    why: Why,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Why {
    /// Nobody could have written now.
    Nobody,
    /// Somebody else holds a row.
    Held,
    /// One call may have failed the others.
    Fault,
}

/// Where a request's rows are in the calls.
struct Place {
    call: usize,
    from: usize,
    rows: usize,
}

impl Place {
    fn of(&self, answers: &[Vec<Failed>]) -> Vec<Failed> {
        let rows = answers.get(self.call).map(Vec::as_slice).unwrap_or_default();
        rows.iter().skip(self.from).take(self.rows).cloned().collect()
    }
}

/// One call for the rows of one lease, in one order: whoever reports the same jobs at the same time takes them in it, too.
fn group(reports: &[Report]) -> (Vec<Report>, Vec<Place>) {
    let key = |report: &Report| (report.bound, report.lease, matches!(report.ends, End::Badly(_)));
    let mut order: Vec<usize> = (0..reports.len()).collect();
    order.sort_by_key(|at| key(&reports[*at]));
    let mut calls: Vec<Report> = Vec::new();
    let mut places: Vec<Option<Place>> = reports.iter().map(|_| None).collect();
    for at in order {
        let report = &reports[at];
        let rows = report.ends.rows();
        let joins =
            calls.last().is_some_and(|call| key(call) == key(report) && call.ends.rows() + rows <= MOST_ROWS);
        let from = match calls.last_mut() {
            Some(call) if joins => {
                let from = call.ends.rows();
                call.ends.append(&report.ends);
                from
            }
            _ => {
                calls.push(report.clone());
                0
            }
        };
        places[at] = Some(Place { call: calls.len() - 1, from, rows });
    }
    (calls, places.into_iter().flatten().collect())
}

/// All calls in one transaction.
async fn write(db: &Db, calls: &[Report]) -> Result<Vec<Vec<Failed>>, Unwritten> {
    let client = db.worker().await.map_err(|problem| Unwritten { problem, why: Why::Nobody })?;
    let made = async |c: &Client| {
        let made = calls.iter().map(|one| (one.bound, Box::pin(call(c, one)) as rpc::Call<'_, _>));
        rpc::together(c, Some(MOMENT), made.collect()).await
    };
    client.attempt(made).await.map_err(|error| {
        let why = match &error {
            error if error.is_connection() || is_late(error) => Why::Nobody,
            error if error.is_transient() => Why::Held,
            _ => Why::Fault,
        };
        Unwritten { problem: Problem::from(error), why }
    })
}

async fn call(client: &Client, report: &Report) -> Result<Vec<Failed>, Error> {
    match &report.ends {
        End::Well(rows) => {
            let verdicts = rpc::complete_jobs(client, report.lease, rows).await?;
            let told = |verdict: Verdict| Failed { verdict, status: None, run_at: None };
            Ok(verdicts.into_iter().map(told).collect())
        }
        End::Badly(rows) => rpc::fail_jobs(client, report.lease, rows).await,
    }
}
