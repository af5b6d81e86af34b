//! The producer's side: says that a job was committed, and does not look back.

use std::time::{Duration, Instant};

use jobforge_core::connect::Backoff;
use lapin::options::BasicPublishOptions;
use lapin::{BasicProperties, Channel, Connection};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use uuid::Uuid;

use super::{Away, Broker, Hint, answered};

/// How many hints may wait for the broker. What comes then is dropped: those that wait wake the same workers.
const MOST_WAITING: usize = 1024;
/// How long an orderly end waits for the broker.
const CLOSE_PATIENCE: Duration = Duration::from_secs(6);

/// Publishes hints from a task of its own: a broker that is slow, away or wrong holds up nobody.
#[derive(Debug)]
pub struct Publisher {
    hints: mpsc::Sender<Uuid>,
    task: JoinHandle<()>,
}

impl Publisher {
    /// Starts the task, on the runtime of the caller. It connects when the first hint comes.
    pub fn start(broker: Broker) -> Publisher {
        let (hints, inbox) = mpsc::channel(MOST_WAITING);
        Publisher { hints, task: tokio::spawn(publish(broker, inbox)) }
    }

    /// Says that there is work: after the commit, or workers look before there is anything to see. Never
    /// waits and never fails; a hint that cannot be sent is a warning and a little time.
    pub fn hint(&self, job_id: Uuid) {
        // Full: see `MOST_WAITING`. Closed: only together with this.
        let _ = self.hints.try_send(job_id);
    }

    /// Returns once what was said has reached the broker, or will not.
    pub async fn close(self) {
        let Publisher { hints, task } = self;
        drop(hints);
        let _ = timeout(CLOSE_PATIENCE, task).await;
    }
}

async fn publish(broker: Broker, mut inbox: mpsc::Receiver<Uuid>) {
    let (mut backoff, mut warned, mut not_before) = (Backoff::new(), false, None::<Instant>);
    let mut open: Option<(Connection, Channel)> = None;
    while let Some(job_id) = inbox.recv().await {
        if open.is_none() && not_before.is_some_and(|at| Instant::now() < at) {
            continue;
        }
        match send(&broker, &mut open, job_id).await {
            Ok(()) => {
                backoff.reset();
                (warned, not_before) = (false, None);
            }
            Err(away) => {
                open = None;
                not_before = Some(Instant::now() + backoff.next_delay());
                if !warned {
                    tracing::warn!(%broker, error = %away, "the broker is away: jobs are found without its hints");
                }
                warned = true;
            }
        }
    }
    if let Some((connection, _)) = open {
        // The broker answers to this after it has taken what came before.
        let _ = answered(async { Ok(connection.close(200, "done".into()).await?) }).await;
    }
}

async fn send(broker: &Broker, open: &mut Option<(Connection, Channel)>, job_id: Uuid) -> Result<(), Away> {
    let (_, channel) = match open {
        Some(open) => open,
        None => open.insert(broker.open("jobforge publisher").await?),
    };
    // A struct of one UUID has no way to fail.
    let body = serde_json::to_vec(&Hint { job_id }).unwrap_or_default();
    let properties = BasicProperties::default().with_content_type("application/json".into());
    let (exchange, key) = (broker.exchange.clone(), broker.routing_key.clone());
    answered(async {
        let options = BasicPublishOptions::default();
        // Without confirms there is nothing more to wait for.
        channel.basic_publish(exchange, key, options, &body, properties).await?;
        Ok(())
    })
    .await
}
