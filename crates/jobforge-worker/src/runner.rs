//! The claim loop: claims ahead into the buffer as long as there is room and work, and sleeps when there is
//! none (`sleep.rs`). No error of the database ends it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join;
use jiff::Timestamp;
use jobforge_core::connect::Backoff;
use jobforge_core::{ClaimRequest, Claimed, ClaimedJob, Code, Cursor, Error, rpc};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_postgres::Client;

use crate::beside::Beside;
use crate::claiming::Claiming;
use crate::engine::{Engine, Phase};
use crate::job::{Job, Lease};
use crate::lanes::{Lane, SHORT};
use crate::link::{Link, told, within};
use crate::positions::Positions;
use crate::readiness::Readiness;
use crate::sleep::Sleep;
use crate::stats::Counters;

/// How long nothing may start, with all slots busy, before the buffer goes back to where others can have it.
const STUCK: Duration = Duration::from_secs(1);
/// How long a full worker keeps its mark as a sleeper.
const FULL: Duration = Duration::from_millis(100);
/// Full claims in a row after which the mark is taken back.
const BUSY_CLAIMS: u32 = 3;

/// A claim of this many jobs a slot opens the connection for claims beside it.
const BESIDE_FROM: usize = 4;

/// After this many jobs a beat tells which are settled: whoever reaps a lease looks for all that is not.
const SETTLE_EVERY: usize = 50_000;

/// The one who claims.
pub(crate) struct Claimer {
    pub(crate) engine: Arc<Engine>,
    pub(crate) link: Link,
    /// Claims beside the first while claims come back full: one server process alone cannot keep up with the slots.
    pub(crate) beside: Beside,
    pub(crate) sleep: Sleep,
    positions: Positions,
    /// Where new jobs go.
    pub(crate) lease: Option<Arc<Lease>>,
    /// The id of the lease that a claim under way may make.
    new_lease: Option<uuid::Uuid>,
    /// How many jobs of the next lease may have started without having been reported.
    pub(crate) window: usize,
    /// Whether all jobs are so quick that claims need not take them out of the order.
    pub(crate) quick: bool,
    /// Looks after a lease with a wide window.
    pub(crate) watching: JoinSet<()>,
    /// The connection on which the worker registered.
    registered_on: u64,
    pub(crate) readiness: Readiness,
    /// How many jobs may still be claimed, where that is limited.
    pub(crate) budget: Option<usize>,
    full_claims: u32,
    stuck: bool,
    /// Jobs claimed since the last beat that was asked for here.
    unbeaten: usize,
    backoff: Backoff,
}

/// A claim's answer, as far as the loop goes by it.
struct Round {
    jobs: usize,
    /// As many as were asked for.
    full: bool,
    more: bool,
    /// Limits hold work back, some perhaps only for a while.
    limited: bool,
    retry_at: Option<Timestamp>,
}

impl Claimer {
    pub(crate) fn new(engine: Arc<Engine>, link: Link, budget: Option<usize>) -> Claimer {
        let window = engine.config.tight_window();
        let positions = Positions::new(engine.config.dear_look);
        Claimer {
            engine,
            link,
            beside: Beside::default(),
            sleep: Sleep::default(),
            positions,
            lease: None,
            new_lease: None,
            window,
            quick: false,
            watching: JoinSet::new(),
            registered_on: 0,
            readiness: Readiness::default(),
            budget,
            full_claims: 0,
            stuck: false,
            unbeaten: 0,
            backoff: Backoff::new(),
        }
    }

    /// Claims until the worker stops, or until the budget is used up or nothing is left.
    pub(crate) async fn run(mut self) -> Claimer {
        while self.engine.phase() == Phase::Running && self.budget != Some(0) {
            self.engine.note_round();
            self.engine.ear.note_round();
            self.fit_window();
            let limit = self.room();
            if limit == 0 {
                self.wait_for_room().await;
                continue;
            }
            // A job that ends while the claim is under way may have held others back from it.
            let alone = self.engine.holdings.is_empty();
            let step = match self.claim(limit).await {
                Ok(round) if round.jobs == 0 && self.budget.is_some() => {
                    if alone {
                        break;
                    }
                    self.wait_for_reports().await;
                    Ok(())
                }
                Ok(round) => self.after(&round).await,
                Err(error) => Err(error),
            };
            match step {
                Ok(()) => self.backoff.reset(),
                Err(error) => self.recover(&error).await,
            }
        }
        self
    }

    /// Makes the worker known, once per connection.
    pub(crate) async fn register(&mut self) -> Result<(), Error> {
        let client = self.link.client().await?;
        if self.registered_on != self.link.made() {
            let call = rpc::register_worker(&*client, &self.engine.registration);
            let answer = within(self.engine.config.call_timeout, "register_worker", call).await;
            self.link.heed(&answer);
            answer?;
            self.registered_on = self.link.made();
        }
        Ok(())
    }

    /// Begins where others with the same queues and types came to. Who counts on an empty answer goes by no positions.
    pub(crate) async fn recall(&mut self) -> Result<(), Error> {
        if self.budget.is_none() {
            let (queues, types) = (&self.engine.config.queues, &self.engine.registration.types);
            let client = self.link.client().await?;
            let call = rpc::recall_marks(&*client, queues, types);
            let answer = within(self.engine.config.call_timeout, "recall_marks", call).await;
            self.link.heed(&answer);
            self.positions.set(answer?);
        }
        Ok(())
    }

    /// Opens the second connection for claims, for which a start waits so long at most; who has a budget may be over before it is
    /// of use.
    pub(crate) async fn begin_beside(&mut self) {
        if self.budget.is_none() {
            let _ = timeout(self.engine.config.call_timeout, self.beside.begin(&self.engine)).await;
        }
    }

    /// How many jobs to ask for: what slots and buffer can take, but no small claims beside a buffer that is
    /// half full. More than one claim's worth only where the last claim came back full.
    fn room(&mut self) -> usize {
        let config = &self.engine.config;
        let level = self.engine.buffer.level();
        let ahead = if self.stuck { 0 } else { self.engine.pace.ahead(config.slots, config.buffer_max) };
        let running = self.engine.stats().running;
        self.engine.buffer.set_low_water(ahead / 2);
        if level.waiting > ahead / 2 {
            return 0;
        }
        let free = (config.slots + ahead).saturating_sub(level.waiting + running);
        let most = if self.full_claims == 0 { config.claim_max } else { config.claim_max * 2 };
        free.min(most).min(self.budget.unwrap_or(usize::MAX))
    }

    async fn claim(&mut self, limit: usize) -> Result<Round, Error> {
        self.register().await?;
        let client = self.link.client().await?;
        let engine = self.engine.clone();
        let patience = engine.config.call_timeout;
        let claiming = self.usable_lease();
        let lease_id = claiming.as_ref().map(Claiming::lease_id);
        self.new_lease = lease_id.is_none().then(uuid::Uuid::new_v4);
        engine.config.faults.hit("claim").await;
        let first = limit.min(engine.config.claim_max);
        // Both on one lease: without one each would make its own.
        let beside_too = limit > first && lease_id.is_some();
        // So much claimed ahead after a full claim means that jobs are quick: more than one claim's worth comes next.
        let beside_soon = beside_too || (self.full_claims > 0 && limit >= BESIDE_FROM * engine.config.slots);
        let other = self.beside.client(&engine).filter(|_| beside_too);
        if beside_soon {
            self.beside.open(&engine);
        }
        let sent = Instant::now();
        let free = self.free();
        let request = ClaimRequest { free, ..self.request(first, lease_id) };
        let prepared = self.readiness.claim(self.link.made());
        let call = within(patience, "claim_jobs", rpc::claim_prepared(&*client, prepared, &request));
        let faults = &engine.config.faults;
        let Some(other) = other else {
            let answer = call.await;
            faults.hit("claimed").await;
            self.learn(&answer, sent);
            self.lend(Lane::First, &client, sent);
            return self.heed(answer, first, (sent, Lane::First));
        };
        let rest = limit - first;
        let cursor = self.positions.cursor().beside();
        // One of them widens the lease: the other would wait for it.
        let request = ClaimRequest { cursor: &cursor, window: None, ..self.request(rest, lease_id) };
        let call_beside = within(patience, "claim_jobs", rpc::claim_prepared(&*other, None, &request));
        let (answer, answer_beside) = join(
            async {
                faults.hit("first of two claims").await;
                call.await
            },
            async {
                faults.hit("second of two claims").await;
                call_beside.await
            },
        )
        .await;
        self.learn(&answer, sent);
        self.beside.heed(&answer_beside);
        self.lend(Lane::First, &client, sent);
        self.lend(Lane::Beside, &other, sent);
        answer_beside.iter().for_each(|claimed| self.positions.advance_beside(claimed));
        // What got no answer may lie before what did: no beat may speak for both any more.
        if let Some(lease) =
            self.lease.as_ref().filter(|_| is_doubtful(&answer) || is_doubtful(&answer_beside))
        {
            lease.keep_claims();
        }
        // In the order in which the database noted them: it is the order in which they must start. Jobs are taken in before
        // an error takes their lease away.
        let mut answers = [(answer, first, Lane::First), (answer_beside, rest, Lane::Beside)];
        answers.sort_by_key(|(answer, _, _)| number(answer));
        let [earlier, later] = answers.map(|(answer, asked, lane)| self.heed(answer, asked, (sent, lane)));
        let (earlier, later) = (earlier?, later?);
        Ok(Round {
            jobs: earlier.jobs + later.jobs,
            full: earlier.full && later.full,
            more: earlier.more || later.more,
            limited: earlier.limited || later.limited,
            retry_at: [earlier.retry_at, later.retry_at].into_iter().flatten().min(),
        })
    }

    /// What the first of the claims of a round tells beside its jobs.
    fn learn(&mut self, answer: &Result<Claimed, Error>, sent: Instant) {
        self.link.heed(answer);
        if let Ok(claimed) = answer {
            self.positions.advance(claimed, sent.elapsed());
            self.widen(claimed);
        }
    }

    /// Lends a claim's connection to the reports of quick jobs, unless they would wait behind long claims.
    fn lend(&self, lane: Lane, client: &Arc<Client>, sent: Instant) {
        let lent = self.quick && sent.elapsed() < SHORT;
        self.engine.lanes.lend(lane, lent.then_some(client));
    }

    /// How many jobs could start at once.
    fn free(&self) -> i32 {
        let engine = &self.engine;
        let taken = engine.stats().running + engine.buffer.level().waiting;
        i32::try_from(engine.config.slots.saturating_sub(taken)).unwrap_or(i32::MAX)
    }

    fn request(&self, limit: usize, lease_id: Option<uuid::Uuid>) -> ClaimRequest<'_> {
        let config = &self.engine.config;
        ClaimRequest {
            worker_id: self.engine.worker_id(),
            queues: &config.queues,
            types: &self.engine.registration.types,
            limit: i32::try_from(limit).unwrap_or(i32::MAX),
            free: 0,
            lease_id,
            new_lease_id: self.new_lease,
            lease_seconds: i32::from(config.lease_seconds),
            window: self.wider().map(|window| i32::try_from(window).unwrap_or(i32::MAX)),
            quick: self.quick,
            cursor: self.positions.cursor(),
        }
    }

    /// Takes a claim's answer in, given when and where the claim was sent.
    fn heed(
        &mut self,
        answer: Result<Claimed, Error>,
        asked: usize,
        sent: (Instant, Lane),
    ) -> Result<Round, Error> {
        match answer {
            Ok(claimed) => Ok(self.adopt(claimed, asked, sent)),
            Err(error) => {
                self.doubt(&error, sent.0);
                Err(error)
            }
        }
    }

    /// Takes a claim's jobs in: first to where the beats find them, then to where the slots do.
    fn adopt(&mut self, claimed: Claimed, asked: usize, (sent, lane): (Instant, Lane)) -> Round {
        let jobs = claimed.jobs.len();
        let round = Round {
            jobs,
            full: jobs == asked,
            more: claimed.more,
            limited: claimed.limited,
            retry_at: claimed.retry_at,
        };
        if round.jobs == 0 {
            return round;
        }
        let good_until = sent + self.engine.config.lease();
        // With nothing but a suspect the database made no lease beside the suspect's own.
        if self.lease.is_none() && claimed.jobs.iter().any(|job| job.lease_id == claimed.lease_id) {
            self.lease = Some(Arc::new(Lease::new(claimed.lease_id, self.window, good_until)));
        }
        let on = |job: &ClaimedJob| match &self.lease {
            Some(lease) if lease.id == job.lease_id => lease.clone(),
            _ => Arc::new(Lease::solo(job.lease_id, good_until)),
        };
        let jobs: Vec<Arc<Job>> = claimed
            .jobs
            .into_iter()
            .map(|job| (on(&job), job))
            .map(|(lease, job)| Arc::new(Job::new(job, lease, lane)))
            .collect();
        let holdings = &self.engine.holdings;
        let is_new = self.lease.as_ref().is_some_and(|lease| !holdings.knows(lease.id));
        let shared = |job: &Job| self.lease.as_ref().is_some_and(|lease| Arc::ptr_eq(&job.lease, lease));
        if let Some(lease) = &self.lease {
            holdings.adopt(lease, jobs.iter().filter(|job| shared(job)).cloned());
        }
        for job in jobs.iter().filter(|job| !shared(job)) {
            holdings.adopt(&job.lease, [job.clone()]);
        }
        if is_new {
            self.watch_window();
        }
        Counters::add(&self.engine.counters.claimed, jobs.len());
        self.budget = self.budget.map(|budget| budget.saturating_sub(jobs.len()));
        self.unbeaten += jobs.len();
        if self.unbeaten >= SETTLE_EVERY {
            self.unbeaten = 0;
            self.engine.beat_now.notify_one();
        }
        let refused = self.engine.buffer.push(jobs);
        self.engine.give_back(refused);
        round
    }

    /// What a claim's error means for the lease. Without an answer there may be jobs on it that this worker
    /// never heard of: it takes no more, and gives them back by closing it.
    fn doubt(&mut self, error: &Error, sent: Instant) {
        // What a failed claim had locked may lie behind the remembered positions.
        self.positions.set(Cursor::default());
        // It may have failed for that: a statement outlives no change of what it answers with.
        self.readiness.forget_claim();
        if error.code() == Some(Code::LeaseLost) {
            if let Some(lease) = self.lease.take() {
                self.engine.holdings.lose(&lease);
                self.engine.clear_doubtful();
            }
        } else if error.code() == Some(Code::NotFound) {
            self.registered_on = 0;
        } else if leaves_doubt(error) {
            let lease = self.lease.take().or_else(|| {
                let good_until = sent + self.engine.config.lease();
                let lease = Arc::new(Lease::unheard(self.new_lease?, self.window, good_until));
                self.engine.holdings.adopt(&lease, []);
                Some(lease)
            });
            if let Some(lease) = lease {
                lease.keep_claims();
                lease.retire();
                self.engine.report_now.notify_one();
            }
        }
    }

    /// Goes on claiming while claims come back full; else marks itself asleep, looks once more, and sleeps.
    async fn after(&mut self, round: &Round) -> Result<(), Error> {
        if round.full {
            self.full_claims += 1;
            self.sleep.calm();
            if self.full_claims >= BUSY_CLAIMS {
                self.unmark().await?;
            }
            return Ok(());
        }
        self.full_claims = 0;
        if self.budget.is_some() {
            return Ok(());
        }
        if self.engine.ear.hears() && !(self.sleep.is_marked() && self.is_ready()) {
            if !self.sleep.is_marked() {
                self.mark().await?;
            }
            self.make_ready().await;
            return Ok(());
        }
        if round.more || round.limited { self.back_off(round.retry_at).await } else { self.sleep().await }
    }

    /// Waits until slots took enough out of the buffer. What all slots are stuck before goes back.
    async fn wait_for_room(&mut self) {
        let engine = self.engine.clone();
        let before = engine.buffer.level();
        let patience = if self.sleep.is_marked() { FULL } else { STUCK };
        tokio::select! {
            () = engine.reached(Phase::Draining) => return,
            waited = timeout(patience, engine.buffer.room.notified()) => {
                if waited.is_ok() {
                    self.stuck &= engine.buffer.level().starts == before.starts;
                    return;
                }
            }
        }
        if self.sleep.is_marked() {
            // Whoever has no room needs no wake-ups. If it fails, the mark runs out by itself.
            let _ = self.unmark().await;
            return;
        }
        let level = engine.buffer.level();
        let all_busy = engine.stats().running >= engine.config.slots;
        if all_busy && level.starts == before.starts && self.budget.is_none() {
            self.stuck = true;
            let waiting = engine.buffer.take_out(|_| true);
            engine.give_back(waiting);
        }
    }

    /// Waits until one of the jobs that run here has ended: limits may have held others back for it, and it may have
    /// left some itself.
    async fn wait_for_reports(&mut self) {
        self.engine.note_round();
        if self.engine.holdings.is_empty() {
            return;
        }
        tokio::select! {
            () = self.engine.told.notified() => {}
            () = self.engine.reached(Phase::Draining) => {}
            () = sleep(STUCK) => {}
        }
    }

    async fn recover(&mut self, error: &Error) {
        if error.code() == Some(Code::LeaseLost) {
            tracing::warn!(worker_id = self.engine.worker_id(), "the lease is lost: claiming on a new one");
            return;
        }
        tracing::warn!(worker_id = self.engine.worker_id(), error = told(error), "a claim failed");
        self.sleep.unmark();
        if error.is_connection() {
            // What broke this connection may have silenced the listener's.
            self.engine.ear.doubted.notify_one();
        }
        tokio::select! {
            () = sleep(self.backoff.next_delay()) => {}
            () = self.engine.reached(Phase::Draining) => {}
        }
    }
}

/// The number of a claim, by which claims are ordered; one without jobs comes first, one without an answer last.
fn number(answer: &Result<Claimed, Error>) -> i64 {
    answer.as_ref().map_or(i64::MAX, |claimed| claimed.jobs.first().map_or(0, |job| job.claim_no))
}

fn is_doubtful(answer: &Result<Claimed, Error>) -> bool {
    answer.as_ref().is_err_and(leaves_doubt)
}

/// Whether the database may have done what no answer tells of.
fn leaves_doubt(error: &Error) -> bool {
    error.is_connection() || matches!(error, Error::Shape { .. })
}
