//! A claim that waits for work, and gives back what its caller is no longer there to take.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use jobforge_core::{ClaimRequest, Claimed, Cursor, JobRef, rpc};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until};
use uuid::Uuid;

use super::sift::sift;
use crate::app::App;
use crate::problem::Problem;

/// How much longer than the wait a mark of sleep lasts, in seconds.
const MARK_SPARE: u64 = 5;
/// The first pause when others hold the work locked or a limit holds it back, and the longest.
const HELD_FIRST: Duration = Duration::from_millis(20);
const HELD_LONGEST: Duration = Duration::from_secs(1);
/// How often a worker of one tenant believes that others hold its work: in all, about the longest pause.
const HELD_TRIES: u32 = 6;

/// What a claim asks for.
#[derive(Debug)]
pub(crate) struct Ask {
    /// The only tenant its caller works for.
    pub(crate) bound: Option<Uuid>,
    pub(crate) worker_id: String,
    pub(crate) queues: Vec<String>,
    pub(crate) types: Vec<String>,
    pub(crate) limit: i32,
    pub(crate) free: i32,
    pub(crate) lease_id: Option<Uuid>,
    pub(crate) new_lease_id: Option<Uuid>,
    pub(crate) lease_seconds: i32,
    pub(crate) window: Option<i32>,
    pub(crate) cursor: Cursor,
    /// How long to wait for work.
    pub(crate) wait: Duration,
}

type Taken = Result<(Claimed, Cursor), Problem>;

/// Claims, on a task of its own: a caller that goes away in the middle would leave jobs on a lease that nobody knows.
pub(crate) async fn claim(app: Arc<App>, mut ask: Ask) -> Taken {
    let (mut answer, answered) = oneshot::channel::<Taken>();
    tokio::spawn(async move {
        let taken = ask.wait(&app, &mut answer).await;
        if let Err(Ok((claimed, _))) = answer.send(taken) {
            ask.give_back(&app, &claimed).await;
        }
    });
    answered.await.unwrap_or_else(|_| Err(Problem::unavailable("the claim was broken off")))
}

impl Ask {
    /// Claims until there are jobs, the time is over, the caller is gone or the server ends. A claim that is under way is
    /// heard out.
    async fn wait(&mut self, app: &App, answer: &mut oneshot::Sender<Taken>) -> Taken {
        let until = Instant::now() + self.wait;
        let mut claimed = self.claim(app).await?;
        if !claimed.jobs.is_empty() || self.wait.is_zero() {
            return Ok((claimed, self.cursor.clone()));
        }
        let mut waiting = app.wakes.wait();
        self.mark(app).await?;
        let mut held = 0;
        loop {
            claimed = waiting.in_turn(self.claim(app)).await?;
            if !claimed.jobs.is_empty() {
                self.unmark(app, &claimed).await;
                break;
            }
            let retry = self.retry(&claimed, &mut held);
            tokio::select! {
                biased;
                () = app.ending.cancelled() => break,
                () = answer.closed() => break,
                () = sleep_until(until) => break,
                () = waiting.woken() => {}
                () = sleep_until(Instant::now() + retry.unwrap_or(self.wait)) => {}
            }
        }
        Ok((claimed, self.cursor.clone()))
    }

    async fn claim(&mut self, app: &App) -> Result<Claimed, Problem> {
        let client = app.db.worker().await?;
        let request = ClaimRequest {
            worker_id: &self.worker_id,
            queues: &self.queues,
            types: &self.types,
            limit: self.limit,
            free: self.free,
            lease_id: self.lease_id,
            new_lease_id: self.new_lease_id,
            lease_seconds: self.lease_seconds,
            window: self.window,
            quick: false,
            cursor: &self.cursor,
        };
        let mut claimed = client
            .attempt(async |c| rpc::bound_to(c, self.bound, rpc::claim_jobs(c, &request)).await)
            .await?;
        self.cursor.advance(&claimed);
        match sift(app, self, &mut claimed).await {
            Ok(()) => Ok(claimed),
            Err(problem) => {
                self.give_back(app, &claimed).await;
                Err(problem)
            }
        }
    }

    /// Says that this worker sleeps: from now on an enqueue for it notifies.
    async fn mark(&self, app: &App) -> Result<(), Problem> {
        let seconds = i32::try_from(self.wait.as_secs() + MARK_SPARE).unwrap_or(i32::MAX);
        let client = app.db.worker().await?;
        client
            .call(async |c| {
                rpc::bound_to(
                    c,
                    self.bound,
                    rpc::sleep_worker(c, &self.worker_id, &self.queues, &self.types, seconds),
                )
                .await
            })
            .await
            .map(drop)
    }

    /// Takes the mark back from a worker that has all it can run. Without it the mark would end by itself.
    async fn unmark(&self, app: &App, claimed: &Claimed) {
        if i32::try_from(claimed.jobs.len()).is_ok_and(|jobs| jobs < self.limit) {
            return;
        }
        if let Ok(client) = app.db.worker().await {
            let _ = client
                .attempt(async |c| rpc::bound_to(c, self.bound, rpc::wake_worker(c, &self.worker_id)).await)
                .await;
        }
    }

    /// How soon to claim again where there is work that others hold or a limit holds back.
    fn retry(&self, claimed: &Claimed, held: &mut u32) -> Option<Duration> {
        // To a worker of one tenant a claim without jobs always says that there may be more.
        let more = claimed.more && (self.bound.is_none() || *held < HELD_TRIES);
        if !claimed.more && !claimed.limited {
            *held = 0;
        }
        if !more && !claimed.limited {
            return None;
        }
        let pause = HELD_FIRST.saturating_mul(1 << (*held).min(10)).min(HELD_LONGEST);
        *held += 1;
        let until =
            |at: Timestamp| Duration::try_from(at.duration_since(Timestamp::now())).unwrap_or_default();
        Some(claimed.retry_at.map_or(pause, |at| until(at).clamp(HELD_FIRST, HELD_LONGEST)))
    }

    /// Gives back what nobody took: with the leases that were made for it, or job by job.
    async fn give_back(&self, app: &App, claimed: &Claimed) {
        let mut leases: BTreeMap<Uuid, Vec<JobRef>> = BTreeMap::new();
        for job in &claimed.jobs {
            leases.entry(job.lease_id).or_default().push(job.job);
        }
        for (lease, jobs) in leases {
            let Ok(client) = app.db.worker().await else { return };
            let release = async |c: &_| {
                if self.lease_id == Some(lease) {
                    rpc::bound_to(c, self.bound, rpc::release_jobs(c, lease, &jobs)).await.map(drop)
                } else {
                    rpc::bound_to(c, self.bound, rpc::close_lease(c, lease)).await
                }
            };
            if let Err(error) = client.attempt(release).await {
                let jobs = jobs.len();
                tracing::warn!(
                    jobs,
                    error = &error as &dyn std::error::Error,
                    "jobs of a caller that went away stay until their lease ends"
                );
            }
        }
    }
}
