//! Workers' reports of many callers in one transaction.
//!
//! Rows of one lease become one call, and the calls of many leases share a commit, each bound to its caller's tenant.
//! What a row says of itself (stale, unknown) is a verdict and harms no other. Should a call fail all the same, each
//! request is written alone, so that the fault meets only its own.

use std::sync::Arc;
use std::time::Duration;

use jobforge_core::{Completion, Error, Failed, Failure, Verdict, rpc};
use tokio_postgres::Client;
use uuid::Uuid;

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

/// Where requests report how attempts ended.
pub(crate) struct Reports {
    lanes: Lanes<Ends>,
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
        Reports { lanes: Lanes::start(Ends(db), LANES, MOST, patience) }
    }

    /// Reports; returns when it is durable, with what became of each row, in their order.
    pub(crate) async fn put(&self, report: Report) -> Result<Vec<Failed>, Problem> {
        if report.ends.rows() == 0 {
            return Ok(Vec::new());
        }
        self.lanes.put(report).await
    }
}

impl End {
    fn rows(&self) -> usize {
        match self {
            End::Well(rows) => rows.len(),
            End::Badly(rows) => rows.len(),
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

impl Write for Ends {
    type Item = Report;
    type Answer = Vec<Failed>;

    async fn write(&self, reports: Vec<Report>) -> Vec<Result<Vec<Failed>, Problem>> {
        let (calls, places) = group(&reports);
        match write(&self.0, &calls).await {
            Ok(answers) => places.iter().map(|place| Ok(place.of(&answers))).collect(),
            Err(unwritten) if reports.len() == 1 || unwritten.by_all => {
                reports.iter().map(|_| Err(unwritten.problem.clone())).collect()
            }
            Err(_) => {
                let mut answers = Vec::with_capacity(reports.len());
                for report in &reports {
                    let answer = write(&self.0, std::slice::from_ref(report)).await;
                    let rows = answer.map(|rows| rows.into_iter().flatten().collect());
                    answers.push(rows.map_err(|unwritten| unwritten.problem));
                }
                answers
            }
        }
    }
}

/// Why nothing was written.
struct Unwritten {
    problem: Problem,
    /// Nobody could have written now; else one call may have failed the others.
    by_all: bool,
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
    let client = db.worker().await.map_err(|problem| Unwritten { problem, by_all: true })?;
    let made = async |c: &Client| match calls {
        [only] => rpc::bound_to(c, only.bound, call(c, only)).await.map(|rows| vec![rows]),
        many => {
            let made = many.iter().map(|one| (one.bound, Box::pin(call(c, one)) as rpc::Call<'_, _>));
            rpc::together(c, made.collect()).await
        }
    };
    client.attempt(made).await.map_err(|error| {
        let by_all = error.is_connection() || is_late(&error);
        Unwritten { problem: Problem::from(error), by_all }
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
