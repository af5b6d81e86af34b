//! Starting, watching and stopping a scheduler.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio_util::sync::CancellationToken;

use crate::config::SchedulerConfig;
use crate::connection;
use crate::duties::{Duties, groups};
use crate::error::Error;
use crate::leader::Leader;
use crate::term::Term;

/// How long the duty at hand may take to end before a shutdown goes on without it.
const DUTY_GRACE: Duration = Duration::from_secs(5);

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
    stop_duties: CancellationToken,
    stop_leading: CancellationToken,
    duties: JoinSet<()>,
    leader: JoinHandle<()>,
}

impl Scheduler {
    /// Starts a scheduler. A database that cannot be reached is waited for; a login that may do too much,
    /// or settings that cannot work, are refused at once.
    pub async fn start(config: SchedulerConfig) -> Result<SchedulerHandle, Error> {
        config.check().map_err(Error::Config)?;
        match connection::open(&config).await {
            Ok(_) => {}
            Err(error) if error.is_transient() => {
                tracing::warn!(%error, "the database is away; waiting for it");
            }
            Err(error) => return Err(Error::Unfit(error)),
        }
        let config = Arc::new(config);
        let (term, seen_term) = watch::channel(None);
        let (stop_duties, stop_leading) = (CancellationToken::new(), CancellationToken::new());
        let leader = Leader { config: config.clone(), term: term.clone(), stop: stop_leading.clone() };
        let (mut duties, mut settled) = (JoinSet::new(), Vec::new());
        for group in groups(&config) {
            let (done, seen_done) = watch::channel(None);
            settled.push(seen_done);
            let (config, term, stop) = (config.clone(), term.clone(), stop_duties.clone());
            duties.spawn(Duties { group, config, term, settled: done, stop }.run());
        }
        Ok(SchedulerHandle {
            term: seen_term,
            settled,
            stop_duties,
            stop_leading,
            duties,
            leader: tokio::spawn(leader.run()),
        })
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
    pub async fn shutdown(mut self) {
        self.stop_duties.cancel();
        let all_ended = async { while self.duties.join_next().await.is_some() {} };
        if tokio::time::timeout(DUTY_GRACE, all_ended).await.is_err() {
            tracing::warn!("a duty did not end in time; the database will refuse or finish it");
        }
        self.stop_leading.cancel();
        // Bounded by the timeouts of the calls it makes.
        let _ = (&mut self.leader).await;
    }
}

impl Drop for SchedulerHandle {
    fn drop(&mut self) {
        self.duties.abort_all();
        self.leader.abort();
    }
}
