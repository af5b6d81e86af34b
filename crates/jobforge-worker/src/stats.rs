//! Counters that anybody may read while the worker runs.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// What a worker did so far and does now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stats {
    /// Jobs claimed.
    pub claimed: u64,
    /// Jobs whose completion the database confirmed.
    pub completed: u64,
    /// Attempts whose failure the database confirmed, canceled ones among them.
    pub failed: u64,
    /// Jobs put off by their handlers.
    pub snoozed: u64,
    /// Jobs given back without a count against them.
    pub released: u64,
    /// Jobs that another worker had got meanwhile: their outcome was dropped.
    pub lost: u64,
    /// Jobs that run now.
    pub running: usize,
    /// Jobs that are claimed and wait for a slot.
    pub buffered: usize,
    /// The most jobs that were ever started without having been reported.
    pub unreported_most: usize,
    /// Whether hints of a broker arrive now.
    pub broker_connected: bool,
    /// Hints that came from the broker.
    pub broker_hints: u64,
    /// Messages of the broker that were no hints.
    pub broker_malformed: u64,
    /// How often the broker was lost and found again.
    pub broker_reconnects: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) claimed: AtomicU64,
    pub(crate) completed: AtomicU64,
    pub(crate) failed: AtomicU64,
    pub(crate) snoozed: AtomicU64,
    pub(crate) released: AtomicU64,
    pub(crate) lost: AtomicU64,
    pub(crate) running: AtomicUsize,
    pub(crate) broker_connected: AtomicBool,
    pub(crate) broker_hints: AtomicU64,
    pub(crate) broker_malformed: AtomicU64,
    pub(crate) broker_reconnects: AtomicU64,
}

impl Counters {
    pub(crate) fn add(counter: &AtomicU64, jobs: usize) {
        counter.fetch_add(jobs as u64, Ordering::Relaxed);
    }

    pub(crate) fn read(&self, buffered: usize, unreported_most: usize) -> Stats {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Stats {
            claimed: get(&self.claimed),
            completed: get(&self.completed),
            failed: get(&self.failed),
            snoozed: get(&self.snoozed),
            released: get(&self.released),
            lost: get(&self.lost),
            running: self.running.load(Ordering::Relaxed),
            buffered,
            unreported_most,
            broker_connected: self.broker_connected.load(Ordering::Acquire),
            broker_hints: get(&self.broker_hints),
            broker_malformed: get(&self.broker_malformed),
            broker_reconnects: get(&self.broker_reconnects),
        }
    }
}
