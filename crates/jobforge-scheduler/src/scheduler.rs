//! Starting, watching and stopping a scheduler.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};
use tokio_util::sync::CancellationToken;

use crate::config::SchedulerConfig;
use crate::connection;
use crate::duties::{Duties, groups};
use crate::error::Error;
use crate::leader::Leader;
use crate::supervise::Parts;
use crate::term::Term;

/// A scheduler, to be started.
#[derive(Debug)]
pub struct Scheduler;

/// What a scheduler is at the moment, as far as it knows: the database is asked again with every duty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// It does the duties, under this term.
    Leader {
        /// The term.
        term: i64,
    },
    /// Another one leads, or nobody could be asked.
    Follower,
}

/// A running scheduler. Dropping it stops the work without resigning, as a crash would.
#[derive(Debug)]
pub struct SchedulerHandle {
    term: watch::Receiver<Option<Term>>,
    /// Of each group of duties.
    settled: Vec<watch::Receiver<Option<i64>>>,
    stop: CancellationToken,
    ended: watch::Receiver<bool>,
    refusal: Arc<Mutex<Option<Error>>>,
    supervisor: AbortHandle,
}

impl Scheduler {
    /// Starts a scheduler. A database that cannot be reached is waited for; what waiting does not mend is refused at once,
    /// or as soon as the database is there: settings that cannot work, a login that may do too much or too little, a schema
    /// that is missing. A scheduler that was once let ask for the leadership waits for everything.
    pub async fn start(config: SchedulerConfig) -> Result<SchedulerHandle, Error> {
        config.check().map_err(Error::Config)?;
        match connection::look(&config).await {
            Ok(()) => {}
            Err(error) if error.is_transient() => {
                tracing::warn!(%error, cause = connection::causes(&error), "the database is away; waiting for it");
            }
            Err(error) => return Err(Error::Unfit(error)),
        }
        let config = Arc::new(config);
        let (term, seen_term) = watch::channel(None);
        let (stop_duties, stop_leading) = (CancellationToken::new(), CancellationToken::new());
        let mut leader = JoinSet::new();
        leader.spawn(Leader { config: config.clone(), term: term.clone(), stop: stop_leading.clone() }.run());
        let (mut duties, mut settled) = (JoinSet::new(), Vec::new());
        for group in groups(&config) {
            let (done, seen_done) = watch::channel(None);
            settled.push(seen_done);
            let (config, term, stop) = (config.clone(), term.clone(), stop_duties.clone());
            duties.spawn(Duties { group, config, term, settled: done, stop }.run());
        }
        let parts = Parts { term, duties, leader, stop_duties, stop_leading };
        let (stop, (ending, ended)) = (CancellationToken::new(), watch::channel(false));
        let (is_told, refusal) = (stop.clone(), Arc::new(Mutex::new(None)));
        let refused = refusal.clone();
        let supervisor = tokio::spawn(async move {
            let error = parts.supervise(is_told).await.map(Error::Unfit);
            *refused.lock().unwrap_or_else(PoisonError::into_inner) = error;
            ending.send_replace(true);
        });
        let supervisor = supervisor.abort_handle();
        Ok(SchedulerHandle { term: seen_term, settled, stop, ended, refusal, supervisor })
    }
}

impl SchedulerHandle {
    /// Whether it leads.
    pub fn role(&self) -> Role {
        match *self.term.borrow() {
            Some(term) => Role::Leader { term: term.number },
            None => Role::Follower,
        }
    }

    /// Returns once this scheduler leads and has done every duty under its term: from then on partitions
    /// exist. Waits for ever while another one leads.
    pub async fn settled(&self) {
        // An error means that the scheduler has stopped: there is nothing to wait for.
        for group in &self.settled {
            let _ = group.clone().wait_for(Option::is_some).await;
        }
    }

    /// Ends the duty at hand, resigns, and stops.
    pub async fn shutdown(self) {
        self.stop.cancel();
        self.ended().await;
    }

    /// Returns once the scheduler has ended: nobody does so but whoever shuts it down, unless a part of it is broken
    /// or the database refuses it before it could begin.
    pub async fn ended(&self) {
        // An error means that it ended without saying so.
        let _ = self.ended.clone().wait_for(|ended| *ended).await;
    }

    /// Why the database, when it came, did not let it begin, if that is why it ended. Told once.
    pub fn take_refusal(&self) -> Option<Error> {
        self.refusal.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Drop for SchedulerHandle {
    fn drop(&mut self) {
        self.supervisor.abort();
    }
}
