//! How a worker without work waits: it says that it sleeps, looks once more, and sleeps until it is woken.
//!
//! The mark makes enqueues notify. One sleeper of all, the sentinel, looks each second for what no
//! notification told; the others hear it tick. A worker that hears nothing looks for itself.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use jobforge_core::{Error, rpc};
use tokio::time::{sleep, sleep_until};

use crate::engine::Phase;
use crate::link::within;
use crate::readiness::LISTENS;
use crate::runner::Claimer;

/// How long a mark lasts, in seconds, and how old it may get before it is renewed.
const MARK_SECONDS: i32 = 120;
const MARK_AGE: Duration = Duration::from_secs(60);
/// How often somebody looks.
const LOOK: Duration = Duration::from_secs(1);
/// How long a sentinel may be silent before another takes its place.
const SILENCE: Duration = Duration::from_secs(2);
/// Looks are never closer together than this, whatever falls due.
const LOOK_LEAST: Duration = Duration::from_millis(20);
/// The first pause when others hold the work, and the longest.
const LOCKED_FIRST: Duration = Duration::from_millis(20);
const LOCKED_LONGEST: Duration = Duration::from_secs(1);
/// The shortest pause before a rate's next token.
const RETRY_LEAST: Duration = Duration::from_millis(1);

/// What a worker remembers of its sleep.
#[derive(Debug, Default)]
pub(crate) struct Sleep {
    marked_at: Option<Instant>,
    /// The database's clock minus ours, in seconds, as of the last mark.
    clock_ahead: f64,
    looked_at: Option<Instant>,
    sentinel: bool,
    /// Until something falls due, as of the last look.
    due_in: Option<Duration>,
    /// Looks in a row that showed that a sentinel ticks and is not heard.
    unheard: u32,
    /// Claims in a row that found work which others hold locked, or limits hold back.
    locked: u32,
}

impl Sleep {
    /// Whether the mark is up for sure: a worker that is woken all the time renews it in time, too.
    pub(crate) fn is_marked(&self) -> bool {
        self.marked_at.is_some_and(|at| at.elapsed() < MARK_AGE + MARK_AGE / 2)
    }

    pub(crate) fn unmark(&mut self) {
        self.marked_at = None;
    }

    pub(crate) fn calm(&mut self) {
        self.locked = 0;
    }
}

impl Claimer {
    /// Says that this worker sleeps: from now on an enqueue for it notifies. The caller looks once more.
    pub(crate) async fn mark(&mut self) -> Result<(), Error> {
        let client = self.link.client().await?;
        let engine = &self.engine;
        let (queues, types) = (&engine.config.queues, &engine.registration.types);
        let call = rpc::sleep_worker(&*client, engine.worker_id(), queues, types, MARK_SECONDS);
        let answer = within(engine.config.call_timeout, "sleep_worker", call).await;
        self.link.heed(&answer);
        let until = answer?;
        self.sleep.clock_ahead = seconds_until(until) - f64::from(MARK_SECONDS);
        self.sleep.marked_at = Some(Instant::now());
        Ok(())
    }

    /// Takes the mark back.
    pub(crate) async fn unmark(&mut self) -> Result<(), Error> {
        if self.sleep.marked_at.take().is_some() {
            let client = self.link.client().await?;
            let call = rpc::wake_worker(&*client, self.engine.worker_id());
            let answer = within(self.engine.config.call_timeout, "wake_worker", call).await;
            self.link.heed(&answer);
            answer?;
        }
        Ok(())
    }

    /// Sleeps until there may be work.
    pub(crate) async fn sleep(&mut self) -> Result<(), Error> {
        self.sleep.calm();
        let began = Instant::now();
        loop {
            self.engine.note_round();
            if self.hears() && began.elapsed() >= LISTENS {
                self.stop_listening().await;
            }
            self.beside.spare(self.engine.config.spared);
            self.engine.ear.set_claimer_hears(self.hears());
            let hears = self.engine.ear.hears();
            let engine = self.engine.clone();
            let now = Instant::now();
            let until = if hears { self.next_look(now).min(now + LOOK) } else { now + engine.config.look };
            tokio::select! {
                biased;
                () = engine.wake.notified() => return Ok(()),
                () = engine.reached(Phase::Draining) => return Ok(()),
                () = sleep_until(until.into()) => {}
            }
            if !self.engine.ear.hears() || !self.sleep.is_marked() {
                return Ok(());
            }
            if self.sleep.marked_at.is_some_and(|at| at.elapsed() >= MARK_AGE) {
                self.mark().await?;
            }
            let now = Instant::now();
            if self.next_look(now) <= now && self.look().await? {
                return Ok(());
            }
        }
    }

    /// Waits a little: there is work, but others hold it locked, or a limit holds it back until a job ends or a rate
    /// lets more start.
    pub(crate) async fn back_off(&mut self, retry_at: Option<Timestamp>) -> Result<(), Error> {
        self.beside.spare(self.engine.config.spared);
        let full = LOCKED_FIRST.saturating_mul(1 << self.sleep.locked.min(10)).min(LOCKED_LONGEST);
        self.sleep.locked += 1;
        let patience = match retry_at {
            Some(at) => self.until(at).clamp(RETRY_LEAST, LOCKED_LONGEST),
            None => full.mul_f64(rand::random_range(0.5..=1.0)),
        };
        tokio::select! {
            () = sleep(patience) => {}
            () = self.engine.wake.notified() => {}
            () = self.engine.told.notified() => self.sleep.calm(),
            () = self.engine.reached(Phase::Draining) => {}
        }
        Ok(())
    }

    /// How long until then, by the database's clock as of the last mark.
    fn until(&self, time: Timestamp) -> Duration {
        Duration::try_from_secs_f64(seconds_until(time) - self.sleep.clock_ahead).unwrap_or(Duration::ZERO)
    }

    /// When this worker should look: as the sentinel each second or when something falls due, else when no
    /// sentinel was heard for too long.
    fn next_look(&self, now: Instant) -> Instant {
        let Some(looked_at) = self.sleep.looked_at else { return now };
        if self.sleep.sentinel {
            return looked_at + self.sleep.due_in.unwrap_or(LOOK).clamp(LOOK_LEAST, LOOK);
        }
        let heard_at = self.engine.ear.last_tick().map_or(looked_at, |tick| tick.max(looked_at));
        // A share of its own for each worker, so that not all take over at once.
        let spread = Duration::from_millis(u64::from(
            self.engine.worker_id().bytes().map(u32::from).sum::<u32>() % 500,
        ));
        heard_at + SILENCE + spread
    }

    /// Looks for all sleepers; tells whether there is work.
    async fn look(&mut self) -> Result<bool, Error> {
        let silent = self.engine.ear.last_tick().is_none_or(|tick| tick.elapsed() >= SILENCE);
        let client = self.link.client().await?;
        let call = rpc::look(&*client, self.engine.worker_id());
        let answer = within(self.engine.config.call_timeout, "look", call).await;
        self.link.heed(&answer);
        let look = answer?;
        let was_first = self.sleep.looked_at.is_none();
        self.sleep.looked_at = Some(Instant::now());
        self.sleep.sentinel = look.sentinel;
        self.sleep.due_in = look.next_due.map(|due| self.until(due));
        // Somebody ticks each second, be it this worker: whoever hears none of it has a deaf listener, and
        // polls until it has proved itself again.
        self.sleep.unheard = if silent && !was_first { self.sleep.unheard + 1 } else { 0 };
        if self.sleep.unheard > u32::from(look.sentinel) {
            self.sleep.unheard = 0;
            self.engine.ear.set_hears(false);
            self.engine.ear.doubted.notify_one();
        }
        // Who looks less often by itself is a test that tells a look from a hint.
        Ok(look.found_work == Some(true) && self.engine.config.look <= LOOK)
    }
}

fn seconds_until(time: Timestamp) -> f64 {
    time.duration_since(Timestamp::now()).as_secs_f64()
}
