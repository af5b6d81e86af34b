//! Asks for the leadership, again and again, and publishes the answer. Followers ask just as often: that is
//! how a lost leader is noticed, and how the database knows an outage from a dead worker.

use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::SignedDuration;
use jobforge_core::Error;
use jobforge_core::rpc::{lead, resign};
use tokio::sync::watch;
use tokio_postgres::Client;
use tokio_util::sync::CancellationToken;

use crate::config::SchedulerConfig;
use crate::connection::{open_patiently, within};
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
    /// Until told to stop; then a leader resigns, so that the next one need not wait.
    pub(crate) async fn run(self) {
        while let Some(client) = open_patiently(&self.config, &self.stop).await {
            match self.ask_repeatedly(&client).await {
                Ok(()) => {
                    self.resign(&client).await;
                    break;
                }
                Err(error) => {
                    tracing::warn!(%error, "the leadership could not be asked for");
                    // Whether the term lives is not known here; the database knows. Following is safe.
                    self.term.send_replace(None);
                    tokio::time::sleep(self.config.lead_every.min(Duration::from_millis(250))).await;
                }
            }
        }
        self.term.send_replace(None);
    }

    /// Ends when told to stop, or with the error that made the connection useless.
    async fn ask_repeatedly(&self, client: &Client) -> Result<(), Error> {
        loop {
            self.ask(client).await?;
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
