//! A claimed job and the lease it is on, as all parts of the worker share them.
//!
//! The runner makes them, a slot runs them, the reporter settles them, and the heartbeat's thread may stop
//! them at any time. So everything that changes is an atomic or sits behind its own small lock.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use jobforge_core::{ClaimedJob, JobRef, Payload};
use tokio::time::sleep_until;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::lanes::Lane;
use crate::redact::{Redactor, Secrets, redact_result, redact_text};

/// A claimed job on its way through the worker.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) claimed: ClaimedJob,
    pub(crate) lease: Arc<Lease>,
    /// Where it was claimed.
    pub(crate) lane: Lane,
    /// The payload, if the row only says where it is.
    content: OnceLock<Payload>,
    settled: AtomicBool,
    /// Whether a report that lost a race was repeated.
    repeated: AtomicBool,
    stop: AtomicU8,
    /// When its handler was called, and how long that took.
    began: OnceLock<Instant>,
    took: OnceLock<Duration>,
    /// What the handler sees. Made only when somebody looks at it: most jobs end without.
    token: OnceLock<CancellationToken>,
    /// What the executor sees: the handler must end, not only if it likes to.
    halt: OnceLock<CancellationToken>,
    /// What this attempt must not say; most have no secrets of their own.
    redactor: OnceLock<Box<Redactor>>,
}

/// Why a handler was told to stop; a later reason overrides those before it in this list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Stop {
    /// Nobody told it to.
    None,
    /// Somebody asked for the job to be canceled.
    Canceled,
    /// Its time is up.
    TimedOut,
    /// The worker stops, or cannot tell whether its lease lives: the job is to be given back.
    Interrupted,
    /// The job is no longer this worker's.
    Lost,
}

impl Job {
    pub(crate) fn new(claimed: ClaimedJob, lease: Arc<Lease>, lane: Lane) -> Job {
        Job {
            claimed,
            lease,
            lane,
            content: OnceLock::new(),
            settled: AtomicBool::new(false),
            repeated: AtomicBool::new(false),
            stop: AtomicU8::new(Stop::None as u8),
            began: OnceLock::new(),
            took: OnceLock::new(),
            token: OnceLock::new(),
            halt: OnceLock::new(),
            redactor: OnceLock::new(),
        }
    }

    pub(crate) fn job_ref(&self) -> JobRef {
        self.claimed.job
    }

    /// What the job was given, wherever it was stored.
    pub(crate) fn payload(&self) -> &Payload {
        self.content.get().unwrap_or(&self.claimed.payload)
    }

    pub(crate) fn keep_content(&self, payload: Payload) {
        // An attempt runs once, and fetches once.
        let _ = self.content.set(payload);
    }

    pub(crate) fn begin(&self, at: Instant) {
        let _ = self.began.set(at);
    }

    pub(crate) fn end(&self, took: Duration) {
        let _ = self.took.set(took);
    }

    /// How long its handler ran; nothing if it never did, or still does.
    pub(crate) fn took(&self) -> Duration {
        self.took.get().copied().unwrap_or_default()
    }

    /// How long its handler has been running, if it does.
    pub(crate) fn runs_for(&self) -> Option<Duration> {
        self.began.get().filter(|_| self.took.get().is_none()).map(Instant::elapsed)
    }

    /// The trace it belongs to.
    pub(crate) fn trace_id(&self) -> Option<&str> {
        trace_id(self.claimed.traceparent.as_deref()?)
    }

    pub(crate) fn token(&self) -> &CancellationToken {
        self.token.get_or_init(CancellationToken::new)
    }

    /// Cancelled when the handler must end; a mere request to cancel leaves that to the handler.
    pub(crate) fn halt(&self) -> &CancellationToken {
        self.halt.get_or_init(CancellationToken::new)
    }

    /// Takes note of what its definition redacts, before its handler starts.
    pub(crate) fn hide(&self, redactor: Redactor) {
        // Whoever runs it does so once.
        let _ = self.redactor.set(Box::new(redactor));
    }

    /// Whether its definition redacts anything, or its handler told a secret.
    pub(crate) fn hides(&self) -> bool {
        self.redactor.get().is_some()
    }

    pub(crate) fn add_secret(&self, secret: &str) {
        self.redactor.get_or_init(Box::default).add(secret);
    }

    /// A text as it may leave the process.
    pub(crate) fn redact(&self, worker: &Secrets, text: String) -> String {
        match self.redactor.get() {
            Some(redactor) => redactor.text(worker, text),
            None => redact_text(worker, text),
        }
    }

    /// A result as it may leave the process.
    pub(crate) fn redact_result(&self, worker: &Secrets, result: Payload) -> Payload {
        match self.redactor.get() {
            Some(redactor) => redactor.result(worker, result),
            None => redact_result(worker, result),
        }
    }

    /// Tells the handler to stop.
    pub(crate) fn stop(&self, why: Stop) {
        self.stop.fetch_max(why as u8, Ordering::AcqRel);
        self.token().cancel();
        if why > Stop::Canceled {
            self.halt().cancel();
        }
    }

    /// Why the handler was told to stop.
    pub(crate) fn stopped(&self) -> Stop {
        match self.stop.load(Ordering::Acquire) {
            0 => Stop::None,
            1 => Stop::Canceled,
            2 => Stop::TimedOut,
            3 => Stop::Interrupted,
            _ => Stop::Lost,
        }
    }

    /// Marks that the database knows the job's end, or that nobody here may tell it any more.
    pub(crate) fn settle(&self) {
        self.settled.store(true, Ordering::Release);
    }

    /// Whether a report that may have lost a race is worth repeating: once.
    pub(crate) fn retry_report(&self) -> bool {
        !self.repeated.swap(true, Ordering::AcqRel)
    }

    pub(crate) fn is_settled(&self) -> bool {
        self.settled.load(Ordering::Acquire)
    }
}

/// The second part of `version-trace-parent-flags`.
fn trace_id(traceparent: &str) -> Option<&str> {
    let trace = traceparent.split('-').nth(1)?;
    (trace.len() == 32 && trace.bytes().all(|byte| byte.is_ascii_hexdigit())).then_some(trace)
}

/// A lease as far as this worker knows.
#[derive(Debug)]
pub(crate) struct Lease {
    pub(crate) id: Uuid,
    life: AtomicU8,
    lost: CancellationToken,
    /// No new claims; to be closed once its known jobs are settled.
    retiring: AtomicBool,
    /// Something is on it in the database that no list here names.
    keeps_claims: AtomicBool,
    /// A claim onto it is under way: what is on it then, this worker may be about to hear of.
    claiming: AtomicBool,
    /// No answer told that it is there.
    unheard: bool,
    good_until: Mutex<Instant>,
    /// The most of its jobs that may have started without having been reported: what the database was told.
    window: AtomicUsize,
    /// Started and not settled.
    unsettled: AtomicUsize,
}

/// What is known of a lease's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Life {
    /// Confirmed, and its end is not near.
    Live,
    /// No beat was confirmed in time: it may live or not.
    Overdue,
    /// The database said that it is gone.
    Lost,
}

impl Lease {
    pub(crate) fn new(id: Uuid, window: usize, good_until: Instant) -> Lease {
        Lease {
            id,
            life: AtomicU8::new(Life::Live as u8),
            lost: CancellationToken::new(),
            retiring: AtomicBool::new(false),
            keeps_claims: AtomicBool::new(false),
            claiming: AtomicBool::new(false),
            unheard: false,
            good_until: Mutex::new(good_until),
            window: AtomicUsize::new(window),
            unsettled: AtomicUsize::new(0),
        }
    }

    /// One made for a suspect takes no other job, and is closed after it.
    pub(crate) fn solo(id: Uuid, good_until: Instant) -> Lease {
        let lease = Lease::new(id, 1, good_until);
        lease.retire();
        lease
    }

    /// One that a claim without an answer may have made. What may be on it goes back when it is closed.
    pub(crate) fn unheard(id: Uuid, window: usize, good_until: Instant) -> Lease {
        Lease { unheard: true, ..Lease::new(id, window, good_until) }
    }

    pub(crate) fn is_unheard(&self) -> bool {
        self.unheard
    }

    pub(crate) fn window(&self) -> usize {
        self.window.load(Ordering::Acquire)
    }

    /// Lets more jobs start unreported, now that the database knows.
    pub(crate) fn widen(&self, window: usize) {
        self.window.fetch_max(window, Ordering::AcqRel);
    }

    /// How many more of its jobs may start now.
    pub(crate) fn room(&self) -> usize {
        self.window().saturating_sub(self.unsettled.load(Ordering::Acquire))
    }

    pub(crate) fn start_one(&self) {
        self.unsettled.fetch_add(1, Ordering::AcqRel);
    }

    pub(crate) fn settle(&self, started: usize) {
        self.unsettled.fetch_sub(started, Ordering::AcqRel);
    }

    pub(crate) fn life(&self) -> Life {
        match self.life.load(Ordering::Acquire) {
            0 => Life::Live,
            1 => Life::Overdue,
            _ => Life::Lost,
        }
    }

    pub(crate) fn set_life(&self, life: Life) {
        self.life.store(life as u8, Ordering::Release);
        if life == Life::Lost {
            self.lost.cancel();
        }
    }

    /// Returns once it is lost, or its end has come and no beat moved it on.
    pub(crate) async fn over(&self) {
        let ends = async {
            let mut until = self.good_until();
            while until > Instant::now() {
                sleep_until(until.into()).await;
                until = self.good_until();
            }
        };
        tokio::select! {
            () = self.lost.cancelled() => {}
            () = ends => {}
        }
    }

    /// Until when it lives for sure, counted from before the request that made or renewed it.
    pub(crate) fn good_until(&self) -> Instant {
        *self.good_until.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn renew(&self, good_until: Instant) {
        *self.good_until.lock().unwrap_or_else(PoisonError::into_inner) = good_until;
    }

    /// From now on its claims' rows stay as they are.
    pub(crate) fn keep_claims(&self) {
        self.keeps_claims.store(true, Ordering::Release);
    }

    pub(crate) fn keeps_claims(&self) -> bool {
        self.keeps_claims.load(Ordering::Acquire)
    }

    // In one order for all: who lets it retire sees the claim, or who claims sees that it retires.
    pub(crate) fn retire(&self) {
        self.retiring.store(true, Ordering::SeqCst);
    }

    pub(crate) fn is_retiring(&self) -> bool {
        self.retiring.load(Ordering::SeqCst)
    }

    pub(crate) fn set_claiming(&self, claiming: bool) {
        self.claiming.store(claiming, Ordering::SeqCst);
    }

    pub(crate) fn is_claiming(&self) -> bool {
        self.claiming.load(Ordering::SeqCst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_is_taken_from_a_well_formed_parent_alone() {
        let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        assert_eq!(trace_id(parent), Some("0af7651916cd43dd8448eb211c80319c"));
        assert_eq!(trace_id("garbage"), None);
        assert_eq!(trace_id("00-0af7-b7ad6b7169203331-01"), None);
    }
}
