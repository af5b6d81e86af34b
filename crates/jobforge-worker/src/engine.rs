//! What all parts of one running worker share.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use jobforge_core::{Payload, Registration};
use tokio::sync::{Notify, mpsc, watch};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::buffer::Buffer;
use crate::config::WorkerConfig;
use crate::desk::Desk;
use crate::executor::Ending;
use crate::handler::Registry;
use crate::holdings::Holdings;
use crate::job::{Job, Life};
use crate::journal::Journal;
use crate::lanes::Lanes;
use crate::notes::{NoteInbox, Notes};
use crate::pace::Pace;
use crate::redact::Secrets;
use crate::rules::Rules;
use crate::stats::{Counters, Stats};

/// A worker from its start to its end.
#[derive(Debug)]
pub(crate) struct Engine {
    pub(crate) config: WorkerConfig,
    pub(crate) registry: Registry,
    pub(crate) registration: Registration,
    pub(crate) holdings: Holdings,
    pub(crate) lanes: Lanes,
    pub(crate) buffer: Buffer,
    pub(crate) pace: Pace,
    pub(crate) counters: Counters,
    pub(crate) journal: Journal,
    pub(crate) notes: Notes,
    pub(crate) desk: Desk,
    pub(crate) rules: Rules,
    /// What nothing that leaves the process may hold.
    pub(crate) secrets: Secrets,
    endings: mpsc::UnboundedSender<Finished>,
    /// There may be work: claim now.
    pub(crate) wake: Notify,
    /// Reports arrived: what limits held back for them may be had.
    pub(crate) told: Notify,
    /// Somebody canceled one of our jobs: beat now.
    pub(crate) beat_now: Notify,
    /// The reporter should look at the leases.
    pub(crate) report_now: Notify,
    pub(crate) ear: Ear,
    pub(crate) phase: watch::Sender<Phase>,
    /// Everything has ended: the reporter may close the leases and end.
    pub(crate) last_call: CancellationToken,
    /// A part ended that should not have, or something was left untold.
    pub(crate) fallen: AtomicBool,
    last_round: Mutex<Instant>,
}

/// How far a worker is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    Running,
    /// No new work; what runs may end.
    Draining,
    /// What runs is interrupted.
    Now,
}

/// A job that is over as far as this process goes.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) job: Arc<Job>,
    pub(crate) ending: Ending,
    /// Whether it counts in the window.
    pub(crate) started: bool,
}

/// The reporter's ends of the channels.
#[derive(Debug)]
pub(crate) struct Inboxes {
    pub(crate) endings: mpsc::UnboundedReceiver<Finished>,
    pub(crate) notes: NoteInbox,
}

impl Engine {
    pub(crate) fn new(config: WorkerConfig, registry: Registry) -> (Engine, Inboxes) {
        let (sender, endings) = mpsc::unbounded_channel();
        let (notes, note_inbox) = Notes::channel();
        let registration = registration(&config, &registry);
        let engine = Engine {
            journal: Journal::new(registration.worker_id.clone()),
            registration,
            holdings: Holdings::default(),
            lanes: Lanes::default(),
            buffer: Buffer::new(),
            pace: Pace::new(config.slots),
            counters: Counters::default(),
            notes,
            desk: Desk::new(&config),
            rules: Rules::new(),
            secrets: config.all_secrets(),
            endings: sender,
            wake: Notify::new(),
            told: Notify::new(),
            beat_now: Notify::new(),
            report_now: Notify::new(),
            ear: Ear::default(),
            phase: watch::Sender::new(Phase::Running),
            last_call: CancellationToken::new(),
            fallen: AtomicBool::new(false),
            last_round: Mutex::new(Instant::now()),
            config,
            registry,
        };
        (engine, Inboxes { endings, notes: note_inbox })
    }

    pub(crate) fn worker_id(&self) -> &str {
        &self.registration.worker_id
    }

    pub(crate) fn finish(&self, finished: Finished) {
        // Fails only after the reporter's end, when there is nobody left to tell.
        let _ = self.endings.send(finished);
    }

    /// Gives back jobs that never started.
    pub(crate) fn give_back(&self, jobs: Vec<Arc<Job>>) {
        for job in jobs {
            self.finish(Finished { job, ending: Ending::Release, started: false });
        }
    }

    /// Takes what waits on leases that may be gone out of the buffer.
    pub(crate) fn clear_doubtful(&self) {
        let doubtful = self.buffer.take_out(|job| job.lease.life() != Life::Live);
        self.give_back(doubtful);
        self.report_now.notify_one();
    }

    pub(crate) fn phase(&self) -> Phase {
        *self.phase.borrow()
    }

    /// Returns once the phase is this one or a later one.
    pub(crate) async fn reached(&self, phase: Phase) {
        // The sender lives in this very engine, so the wait cannot fail.
        let _ = self.phase.subscribe().wait_for(|now| *now >= phase).await;
    }

    /// Notes that the claim loop goes round.
    pub(crate) fn note_round(&self) {
        *self.last_round.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    pub(crate) fn last_round(&self) -> Instant {
        *self.last_round.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn stats(&self) -> Stats {
        self.counters.read(self.buffer.level().waiting, self.buffer.unsettled_most())
    }
}

/// What is known of the listener.
#[derive(Debug, Default)]
pub(crate) struct Ear {
    hears: AtomicBool,
    /// The sleeping claimer hears for itself that there is work, and once did so.
    claimer_hears: AtomicBool,
    claimer_heard: AtomicBool,
    /// The claimer hears no more.
    pub(crate) alone: Notify,
    /// Claims begun.
    rounds: AtomicU64,
    last_tick: Mutex<Option<Instant>>,
    /// The listener should prove itself again.
    pub(crate) doubted: Notify,
}

impl Ear {
    /// Whether notifications arrive.
    pub(crate) fn hears(&self) -> bool {
        self.hears.load(Ordering::Acquire)
    }

    /// Tells what was known before.
    pub(crate) fn set_hears(&self, hears: bool) -> bool {
        self.hears.swap(hears, Ordering::AcqRel)
    }

    /// Whether the claimer should have heard of work by itself.
    pub(crate) fn claimer_hears(&self) -> bool {
        self.claimer_hears.load(Ordering::Acquire)
    }

    pub(crate) fn set_claimer_hears(&self, hears: bool) {
        let heard_so_far = self.claimer_hears.swap(hears, Ordering::AcqRel);
        if hears {
            return;
        }
        // What a session heard before it stopped, or in its last moment, tells nothing of the next one.
        self.claimer_heard.store(false, Ordering::Release);
        if heard_so_far {
            self.alone.notify_one();
        }
    }

    /// Whether nobody else need listen: the claimer does, and what was said reached it before.
    pub(crate) fn claimer_suffices(&self) -> bool {
        self.claimer_hears() && self.claimer_heard.load(Ordering::Acquire)
    }

    pub(crate) fn note_claimer_heard(&self) {
        self.claimer_heard.store(true, Ordering::Release);
    }

    pub(crate) fn rounds(&self) -> u64 {
        self.rounds.load(Ordering::Acquire)
    }

    pub(crate) fn note_round(&self) {
        self.rounds.fetch_add(1, Ordering::AcqRel);
    }

    /// When a sentinel was last heard.
    pub(crate) fn last_tick(&self) -> Option<Instant> {
        *self.last_tick.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn note_tick(&self) {
        *self.last_tick.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }
}

fn registration(config: &WorkerConfig, registry: &Registry) -> Registration {
    let host = nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok());
    let host = host.unwrap_or_else(|| "unknown".to_owned());
    let pid = std::process::id();
    let metadata: Option<Payload> = serde_json::value::to_raw_value(&config.metadata).ok();
    Registration {
        worker_id: format!("{host}:{pid}:{}", Uuid::new_v4()),
        host,
        pid: i32::try_from(pid).ok(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        queues: config.queues.clone(),
        types: registry.types(),
        slots: i32::try_from(config.slots).unwrap_or(i32::MAX),
        metadata,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_one_session_heard_tells_nothing_of_the_next() {
        let ear = Ear::default();
        ear.note_claimer_heard();
        ear.set_claimer_hears(true);
        assert!(ear.claimer_suffices());
        ear.set_claimer_hears(false);
        ear.alone.notified().await;
        // Said while the session was told to stop.
        ear.note_claimer_heard();
        ear.set_claimer_hears(false);
        ear.set_claimer_hears(true);
        assert!(!ear.claimer_suffices(), "the new session has not shown that it hears");
        ear.note_claimer_heard();
        assert!(ear.claimer_suffices());
    }
}
