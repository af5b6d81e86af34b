//! Runs the duties while there is a term to run them under: of each group the one that is due next, one at a time, on one
//! connection. Followers have no such connection.
//!
//! What waits for something other than the database is a group of its own: lost work does not come back later because an
//! artifact store is slow.

use std::sync::Arc;
use std::time::Duration;

use jobforge_core::connect::Backoff;
use jobforge_core::{Code, Error};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_postgres::Client;
use tokio_util::sync::CancellationToken;

use crate::config::SchedulerConfig;
use crate::connection::{causes, millis, open_patiently, within};
use crate::term::Term;
use crate::{collect, partitions, promote, prune, reap, stats};

/// What a leader has to do. In this order when all of a group are due: a completion before its partition exists would
/// go to the default one, and lost work comes back first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Duty {
    Partitions,
    Reap,
    Promote,
    Prune,
    Stats,
    Collect,
}

const OF_THE_DATABASE: &[Duty] = &[Duty::Partitions, Duty::Reap, Duty::Promote, Duty::Prune, Duty::Stats];
const OF_THE_STORE: &[Duty] = &[Duty::Collect];

/// The duties that are done one after the other, each group beside the others.
pub(crate) fn groups(config: &SchedulerConfig) -> impl Iterator<Item = &'static [Duty]> + use<> {
    // Without a store there is nothing to connect for.
    [Some(OF_THE_DATABASE), config.artifacts.as_ref().map(|_| OF_THE_STORE)].into_iter().flatten()
}

/// A duty and when it is due.
struct Entry {
    duty: Duty,
    due: Instant,
    backoff: Backoff,
}

/// Why a leader's work ended.
enum End {
    Stopped,
    TermOver(i64),
    Broken(Error),
}

/// The task that does a group of duties while this scheduler leads.
pub(crate) struct Duties {
    pub(crate) group: &'static [Duty],
    pub(crate) config: Arc<SchedulerConfig>,
    pub(crate) term: watch::Sender<Option<Term>>,
    /// The last term in which each of them was done once.
    pub(crate) settled: watch::Sender<Option<i64>>,
    pub(crate) stop: CancellationToken,
}

impl Duties {
    /// Until told to stop.
    pub(crate) async fn run(self) {
        let mut terms = self.term.subscribe();
        loop {
            tokio::select! {
                () = self.stop.cancelled() => return,
                led = terms.wait_for(Option::is_some) => if led.is_err() { return },
            }
            let Some(client) = open_patiently(&self.config, &self.stop).await else { return };
            match self.work(&client, &mut terms).await {
                End::Stopped => return,
                End::TermOver(number) => self.follow(number),
                End::Broken(error) => {
                    tracing::warn!(%error, cause = causes(&error), "the duties lost their connection");
                    // A server that ends the connection at each duty is not asked in a tight loop.
                    tokio::time::sleep(Duration::from_millis(500)).await;
                }
            }
        }
    }

    /// Does what is due until the leadership or the connection is gone.
    async fn work(&self, client: &Client, terms: &mut watch::Receiver<Option<Term>>) -> End {
        let now = Instant::now();
        let entry = |duty: &Duty| Entry { duty: *duty, due: now, backoff: Backoff::new() };
        let mut entries: Vec<Entry> = self.group.iter().map(entry).collect();
        let mut undone = self.group.to_vec();
        let mut pruning = prune::Progress::default();
        loop {
            let Some(term) = *terms.borrow_and_update() else { return End::TermOver(0) };
            let Some(entry) = entries.iter_mut().min_by_key(|entry| entry.due) else { return End::Stopped };
            if entry.due > Instant::now() {
                tokio::select! {
                    () = self.stop.cancelled() => return End::Stopped,
                    changed = terms.changed() => if changed.is_err() { return End::Stopped },
                    () = tokio::time::sleep_until(entry.due) => {}
                }
                continue;
            }
            if self.stop.is_cancelled() {
                return End::Stopped;
            }
            let pause = match self.perform(entry.duty, client, term, &mut pruning).await {
                Ok(pause) => {
                    entry.backoff.reset();
                    undone.retain(|duty| *duty != entry.duty);
                    pause
                }
                Err(error) if error.code() == Some(Code::LeaseLost) => return End::TermOver(term.number),
                Err(error) if error.is_connection() => return End::Broken(error),
                Err(error) => {
                    let pause = entry.backoff.next_delay();
                    let duty = entry.duty;
                    let cause = causes(&error);
                    tracing::warn!(?duty, %error, cause, retry_in_ms = millis(pause), "a duty failed");
                    pause
                }
            };
            entry.due = Instant::now() + pause;
            if undone.is_empty() {
                self.settled.send_if_modified(|settled| settled.replace(term.number) != Some(term.number));
            }
        }
    }

    /// Does one duty; answers how long it can wait until it is due again.
    async fn perform(
        &self,
        duty: Duty,
        client: &Client,
        term: Term,
        pruning: &mut prune::Progress,
    ) -> Result<Duration, Error> {
        let config = &*self.config;
        let after = config.duty_timeout;
        config.faults.hit("duty");
        match duty {
            Duty::Partitions => {
                within(after, "upkeep_partitions", partitions::run(client, term, config)).await
            }
            Duty::Reap => within(after, "reap", reap::run(client, term, config)).await,
            Duty::Promote => within(after, "promote_due", promote::run(client, term, config)).await,
            Duty::Prune => within(after, "prune", prune::run(client, term, config, pruning)).await,
            Duty::Stats => within(after, "sample_stats", stats::run(client, term, config)).await,
            Duty::Collect => within(after, "collect_artifacts", collect::run(client, term, config)).await,
        }
    }

    /// The database said that this term is over: nothing is done until the leader's task has a new one.
    fn follow(&self, number: i64) {
        let stepped_down = self.term.send_if_modified(|term| match term {
            Some(held) if held.number == number => {
                *term = None;
                true
            }
            _ => false,
        });
        if stepped_down {
            tracing::info!(was = number, "the term is over; follows");
        }
    }
}
