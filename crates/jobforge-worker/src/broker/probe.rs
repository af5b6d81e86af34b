//! The onlooker's side: tells whether the broker answers, for those who must not go on without it.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lapin::{Channel, Connection};
use tokio::sync::Mutex;

use super::{Away, Broker, within};

/// How long a look may take, a new connection included.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long an answer is believed: however many ask, the broker is looked at no more often.
const BELIEVED: Duration = Duration::from_secs(1);

/// Looks whether a broker answers, over one connection that it keeps while it is good.
#[derive(Clone)]
pub struct Probe {
    broker: Broker,
    believed: Duration,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    open: Option<(Connection, Channel)>,
    last: Option<(Instant, bool)>,
}

impl Probe {
    /// A probe of this broker. It connects when it is asked for the first time.
    pub fn new(broker: Broker) -> Probe {
        Probe { broker, believed: BELIEVED, state: Arc::default() }
    }

    /// With another time for which an answer is believed, a second otherwise.
    #[must_use]
    pub fn believing_for(self, believed: Duration) -> Probe {
        Probe { believed, ..self }
    }

    /// Whether the broker answers now: over the connection there is, or else over a new one. Takes two seconds at
    /// most; those who ask meanwhile get the same answer.
    pub async fn answers(&self) -> bool {
        let Probe { broker, believed, state } = self.clone();
        // In a task of its own: a caller that hangs up takes no connection with it.
        let look = tokio::spawn(async move { state.lock().await.look(&broker, believed).await });
        look.await.unwrap_or(false)
    }
}

/// Says where the broker is, never with which password.
impl fmt::Debug for Probe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Probe({})", self.broker)
    }
}

impl State {
    async fn look(&mut self, broker: &Broker, believed: Duration) -> bool {
        if let Some((at, answer)) = self.last
            && at.elapsed() < believed
        {
            return answer;
        }
        let before = self.last.map(|(_, answer)| answer);
        let found = within(PATIENCE, self.ask(broker)).await;
        match &found {
            Ok(()) if before == Some(false) => tracing::info!(%broker, "the broker is back"),
            Err(away) if before != Some(false) => {
                tracing::warn!(%broker, error = %away, "the broker is away, and is required");
            }
            _ => {}
        }
        if found.is_err() {
            self.open = None;
        }
        self.last = Some((Instant::now(), found.is_ok()));
        found.is_ok()
    }

    async fn ask(&mut self, broker: &Broker) -> Result<(), Away> {
        if let Some((_, channel)) = &self.open
            && broker.declare_exchange(channel).await.is_ok()
        {
            return Ok(());
        }
        // Gone, perhaps long ago: what counts is whether there is a broker now.
        self.open = None;
        self.open = Some(broker.open("jobforge probe").await?);
        Ok(())
    }
}
