//! Jobs that were claimed and have not started. Slots take from its front, so jobs start in claim order,
//! and never more of them than the lease's window allows.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::job::{Job, Lease};

/// The buffer between the claims and the slots.
#[derive(Debug)]
pub(crate) struct Buffer {
    state: Mutex<State>,
    /// Wakes slots: there is something to start.
    ready: Notify,
    /// Wakes the claimer: there is room.
    pub(crate) room: Notify,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Arc<Job>>,
    /// Started and not settled.
    unsettled: usize,
    /// The most that `unsettled` ever was.
    unsettled_most: usize,
    /// Slots that wait.
    idle: usize,
    /// Starts so far: that it stands still shows that all slots are stuck.
    starts: u64,
    /// Below this many waiting jobs the claimer is woken.
    low_water: usize,
    closed: bool,
}

/// What the claimer goes by.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Level {
    pub(crate) waiting: usize,
    /// Whether slots go on to start jobs: then more outcomes are about to come.
    pub(crate) flows: bool,
    pub(crate) starts: u64,
}

enum Next {
    Start(Arc<Job>),
    Wait,
    Over,
}

impl State {
    /// Whether nothing waits and nothing more comes.
    fn is_over(&self) -> bool {
        self.closed && self.waiting.is_empty()
    }
}

impl Buffer {
    pub(crate) fn new() -> Buffer {
        Buffer { state: Mutex::default(), ready: Notify::new(), room: Notify::new() }
    }

    /// Puts claimed jobs behind those that wait. A closed buffer hands them back.
    #[must_use]
    pub(crate) fn push(&self, jobs: Vec<Arc<Job>>) -> Vec<Arc<Job>> {
        let mut state = self.lock();
        if state.closed {
            return jobs;
        }
        state.waiting.extend(jobs);
        self.wake_slots(state);
        Vec::new()
    }

    /// The next job to start, as soon as there is one and the window allows; `None` when it is over.
    pub(crate) async fn take(&self) -> Option<Arc<Job>> {
        loop {
            match self.next(None) {
                Next::Start(job) => return Some(job),
                Next::Over => return None,
                Next::Wait => {}
            }
            // Registered before the second look, so that nothing put in between is missed.
            let mut woken = pin!(self.ready.notified());
            woken.as_mut().enable();
            match self.next(Some(1)) {
                Next::Start(job) => return Some(job),
                Next::Over => return None,
                Next::Wait => {}
            }
            woken.await;
            self.lock().idle -= 1;
        }
    }

    /// Lets this many more jobs of a lease start: the same number of started ones was settled.
    pub(crate) fn settle(&self, lease: &Lease, jobs: usize) {
        let mut state = self.lock();
        lease.settle(jobs);
        state.unsettled = state.unsettled.saturating_sub(jobs);
        self.wake_slots(state);
    }

    pub(crate) fn level(&self) -> Level {
        let state = self.lock();
        let flows = state.waiting.front().is_some_and(|job| job.lease.room() > 0);
        Level { waiting: state.waiting.len(), flows, starts: state.starts }
    }

    /// The most jobs that were ever started and not settled at a time.
    pub(crate) fn unsettled_most(&self) -> usize {
        self.lock().unsettled_most
    }

    /// Wakes the claimer when this many jobs or fewer wait.
    pub(crate) fn set_low_water(&self, jobs: usize) {
        self.lock().low_water = jobs;
    }

    /// Takes out the jobs that do not wait any more for a good reason: all that `goes` says yes to.
    pub(crate) fn take_out(&self, goes: impl Fn(&Job) -> bool) -> Vec<Arc<Job>> {
        let mut state = self.lock();
        let (out, stay) = state.waiting.drain(..).partition(|job| goes(job));
        state.waiting = stay;
        // A closed buffer may be empty now, and what waited behind a full window is at the front.
        self.wake_slots(state);
        self.room.notify_one();
        Vec::from(out)
    }

    /// Takes nothing more; slots end when it is empty.
    pub(crate) fn seal(&self) {
        let mut state = self.lock();
        state.closed = true;
        self.wake_slots(state);
    }

    fn next(&self, idle: Option<usize>) -> Next {
        let mut state = self.lock();
        if let Some(job) = state.waiting.pop_front_if(|job| job.lease.room() > 0) {
            job.lease.start_one();
            state.unsettled += 1;
            state.unsettled_most = state.unsettled_most.max(state.unsettled);
            state.starts += 1;
            let low = state.waiting.len() <= state.low_water;
            let last = state.is_over();
            drop(state);
            if last {
                self.ready.notify_waiters();
            }
            if low {
                self.room.notify_one();
            }
            return Next::Start(job);
        }
        if state.is_over() {
            return Next::Over;
        }
        if let Some(idle) = idle {
            state.idle += idle;
            drop(state);
            self.room.notify_one();
        }
        Next::Wait
    }

    /// Wakes those that have something to start, and all of them when it is over.
    fn wake_slots(&self, state: MutexGuard<'_, State>) {
        let (woken, over) = (startable(&state.waiting, state.idle), state.is_over());
        drop(state);
        if over {
            self.ready.notify_waiters();
        }
        for _ in 0..woken {
            self.ready.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How many of the first `most` jobs may start, in their order: a lease without room holds up those behind it.
fn startable(waiting: &VecDeque<Arc<Job>>, most: usize) -> usize {
    let mut of: Option<(&Arc<Lease>, usize)> = None;
    for (at, job) in waiting.iter().take(most).enumerate() {
        let room = match of {
            Some((lease, room)) if Arc::ptr_eq(lease, &job.lease) => room,
            _ => job.lease.room(),
        };
        if room == 0 {
            return at;
        }
        of = Some((&job.lease, room - 1));
    }
    most.min(waiting.len())
}
