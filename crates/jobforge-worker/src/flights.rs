//! Large groups of outcomes on their way to the database, several at a time: while one waits for its commit to be durable,
//! another is written, and slots fill the next. Where claims lend their connections (`lanes.rs`), groups go the way that their
//! jobs came.

use std::panic::resume_unwind;
use std::sync::Arc;

use jobforge_core::Error;
use tokio::task::JoinSet;
use tokio_postgres::Client;

use crate::bundle::{Bundle, Call};
use crate::engine::Engine;
use crate::lanes::Lane;
use crate::link::{Link, told};

/// How many groups may be under way on connections of the reporter's own.
const MOST: usize = 2;

/// How many may be where they wait in line on the claims' connections.
const MOST_LENT: usize = 4;

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
    pub(crate) fn new(engine: Arc<Engine>, link: Link) -> Flights {
        Flights { engine, links: vec![link], under_way: JoinSet::new() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.under_way.is_empty()
    }

    /// Whether one more group can go.
    pub(crate) fn has_room(&self) -> bool {
        self.under_way.len() < if self.engine.lanes.are_lent() { MOST_LENT } else { MOST }
    }

    /// A connection for what is told and waited for.
    pub(crate) fn link(&mut self) -> &mut Link {
        if self.links.is_empty() {
            self.links.push(Link::new(&self.engine.config));
        }
        &mut self.links[0]
    }

    /// Sends a group off. One that needs nothing but a lent connection leaves those that are open to the others.
    pub(crate) fn launch(&mut self, bundle: Bundle) {
        let is_lent = bundle.is_all_completions() && lent_to(&self.engine, &bundle).is_some();
        let own = if is_lent { None } else { self.links.pop() };
        let link = own.unwrap_or_else(|| Link::new(&self.engine.config));
        self.under_way.spawn(fly(self.engine.clone(), link, bundle));
    }

    /// The next group that is back, if any is under way.
    pub(crate) async fn land(&mut self) -> Option<Landed> {
        match self.under_way.join_next().await? {
            Ok((link, landed)) => {
                // A group that was refused on a lent connection may have opened one more.
                if link.is_open() && self.links.len() < MOST_LENT {
                    self.links.push(link);
                }
                Some(landed)
            }
            // Nobody aborts them.
            Err(error) => resume_unwind(error.into_panic()),
        }
    }
}

async fn fly(engine: Arc<Engine>, mut link: Link, mut bundle: Bundle) -> (Link, Landed) {
    engine.config.faults.hit("report").await;
    send_lent(&engine, &mut bundle).await;
    if bundle.is_empty() {
        return (link, Landed { bundle, answer: Ok(()) });
    }
    let answer = match link.client().await {
        Ok(client) => {
            let patience = engine.config.call_timeout;
            bundle.send(Call { client: &client, patience, engine: &engine }).await
        }
        Err(error) => Err(error),
    };
    link.heed(&answer);
    (link, Landed { bundle, answer })
}

/// The connection on which a large group's jobs were claimed, if that is lent.
fn lent_to(engine: &Engine, bundle: &Bundle) -> Option<(Lane, Arc<Client>)> {
    let lane = bundle.lane(engine.config.report_group.div_ceil(2))?;
    Some((lane, engine.lanes.of(lane)?))
}

/// Sends the completions of a group on the connection that is lent to it, if there is one. What is not told then is told on one
/// of the reporter's own: a repeated report does no harm.
async fn send_lent(engine: &Engine, bundle: &mut Bundle) {
    let Some((lane, client)) = lent_to(engine, bundle) else { return };
    let call = Call { client: &client, patience: engine.config.call_timeout, engine };
    if let Err(error) = bundle.send_lent(call).await {
        tracing::debug!(
            worker_id = engine.worker_id(),
            error = told(&error),
            "a lent connection is given back"
        );
        engine.lanes.lend(lane, None);
    }
}
