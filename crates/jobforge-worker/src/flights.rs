//! Large groups of outcomes on their way to the database, two at a time: while one waits for its commit to be durable, the
//! other is written, and slots fill the next.

use std::panic::resume_unwind;
use std::sync::Arc;

use jobforge_core::Error;
use tokio::task::JoinSet;

use crate::bundle::{Bundle, Call};
use crate::engine::Engine;
use crate::link::Link;

/// How many groups may be under way.
const MOST: usize = 2;

/// The reporter's connections, and the groups that are under way on them.
pub(crate) struct Flights {
    engine: Arc<Engine>,
    /// Connections on which nothing is under way.
    links: Vec<Link>,
    under_way: JoinSet<(Link, Landed)>,
}

/// A group that is back, with what of it was not told.
pub(crate) struct Landed {
    pub(crate) bundle: Bundle,
    pub(crate) answer: Result<(), Error>,
}

impl Flights {
    pub(crate) fn new(engine: Arc<Engine>) -> Flights {
        Flights { engine, links: Vec::new(), under_way: JoinSet::new() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.under_way.is_empty()
    }

    /// Whether one more group can go.
    pub(crate) fn has_room(&self) -> bool {
        self.under_way.len() < MOST
    }

    /// A connection for what is told and waited for.
    pub(crate) fn link(&mut self) -> &mut Link {
        if self.links.is_empty() {
            self.links.push(Link::new(&self.engine.config));
        }
        &mut self.links[0]
    }

    /// Sends a group off.
    pub(crate) fn launch(&mut self, bundle: Bundle) {
        let link = self.links.pop().unwrap_or_else(|| Link::new(&self.engine.config));
        self.under_way.spawn(fly(self.engine.clone(), link, bundle));
    }

    /// The next group that is back, if any is under way.
    pub(crate) async fn land(&mut self) -> Option<Landed> {
        match self.under_way.join_next().await? {
            Ok((link, landed)) => {
                self.links.push(link);
                Some(landed)
            }
            // Nobody aborts them.
            Err(error) => resume_unwind(error.into_panic()),
        }
    }
}

async fn fly(engine: Arc<Engine>, mut link: Link, mut bundle: Bundle) -> (Link, Landed) {
    engine.config.faults.hit("report").await;
    let answer = match link.client().await {
        Ok(client) => {
            let call = Call { client: &client, patience: engine.config.call_timeout, engine: &engine };
            bundle.send(call).await
        }
        Err(error) => Err(error),
    };
    link.heed(&answer);
    (link, Landed { bundle, answer })
}
