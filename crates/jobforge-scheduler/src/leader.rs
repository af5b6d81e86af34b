//! Asks for the leadership, again and again, and publishes the answer. Followers ask just as often: that is
//! how a lost leader is noticed, and how the database knows an outage from a dead worker.

use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::SignedDuration;
use jobforge_core::Error;
use jobforge_core::connect::Backoff;
use jobforge_core::rpc::{lead, resign};
use tokio::sync::watch;
use tokio_postgres::Client;
use tokio_util::sync::CancellationToken;

use crate::config::SchedulerConfig;
use crate::connection::{causes, millis, open_until, within};
use crate::term::{DatabaseClock, Term};

/// How long a leader that stops waits for its resignation to be taken.
const FAREWELL: Duration = Duration::from_secs(2);

/// The task that leads or follows.
pub(crate) struct Leader {
    pub(crate) config: Arc<SchedulerConfig>,
    pub(crate) term: watch::Sender<Option<Term>>,
    pub(crate) stop: CancellationToken,
}

impl Leader {
    /// Until told to stop; then a leader resigns, so that the next one need not wait. An error is a refusal before it was
    /// ever let ask.
    pub(crate) async fn run(self) -> Result<(), Error> {
        let ended = self.lead_or_follow().await;
        self.term.send_replace(None);
        ended
    }

    async fn lead_or_follow(&self) -> Result<(), Error> {
        let mut past = Past { was_answered: false, backoff: Backoff::new() };
        loop {
            let is_final = |error: &Error| past.is_final(error);
            let Some(client) = open_until(&self.config, &self.stop, is_final).await? else { return Ok(()) };
            let error = match self.ask_repeatedly(&client, &mut past).await {
                Ok(()) => {
                    self.resign(&client).await;
                    return Ok(());
                }
                Err(error) => error,
            };
            // Whether the term lives is not known here; the database knows. Following is safe.
            self.term.send_replace(None);
            if past.is_final(&error) {
                return Err(error);
            }
            let pause = past.backoff.next_delay();
            let cause = causes(&error);
            tracing::warn!(%error, cause, retry_in_ms = millis(pause), "the leadership could not be asked for");
            tokio::select! {
                () = self.stop.cancelled() => return Ok(()),
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// Ends when told to stop, or with the error that made the connection useless.
    async fn ask_repeatedly(&self, client: &Client, past: &mut Past) -> Result<(), Error> {
        loop {
            self.ask(client).await?;
            past.was_answered = true;
            past.backoff.reset();
            tokio::select! {
                () = self.stop.cancelled() => return Ok(()),
                () = tokio::time::sleep(self.config.lead_every) => {}
            }
        }
    }

    async fn ask(&self, client: &Client) -> Result<(), Error> {
        self.config.faults.hit("lead");
        let seconds = self.config.lead_seconds;
        let call = lead(client, &self.config.holder, i32::from(seconds));
        let answer = within(self.config.call_timeout, "lead", call).await?;
        let told = answer.expires_at - SignedDuration::from_secs(i64::from(seconds));
        let term = answer
            .leads
            .then(|| Term { number: answer.term, clock: DatabaseClock::new(told, Instant::now()) });
        let before = self.term.send_replace(term).map(|term| term.number);
        match (before, term.map(|term| term.number)) {
            (None, Some(term)) => tracing::info!(term, holder = self.config.holder, "leads"),
            (Some(was), Some(term)) if was != term => tracing::info!(term, was, "leads again"),
            (Some(was), None) => tracing::info!(was, term = answer.term, "follows"),
            _ => {}
        }
        Ok(())
    }

    async fn resign(&self, client: &Client) {
        if self.term.send_replace(None).is_none() {
            return;
        }
        match within(FAREWELL, "resign", resign(client, &self.config.holder)).await {
            Ok(_) => tracing::info!("resigned"),
            Err(error) => tracing::warn!(%error, "did not resign: the next leader waits for the lease's end"),
        }
    }
}

/// How asking went so far.
struct Past {
    /// From the first answer on everything is waited out: a migration under way may refuse what it allows a moment later.
    was_answered: bool,
    backoff: Backoff,
}

impl Past {
    /// Whether waiting mends it in no case: whoever was never let ask has the wrong login, or no schema.
    fn is_final(&self, error: &Error) -> bool {
        !self.was_answered && !error.is_transient()
    }
}
