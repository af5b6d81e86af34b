//! Claims beside the first ones go on a connection of their own. It is opened, and goes through a claim that takes nothing,
//! before a worker starts, and later while others claim: then nobody waits for it.

use std::sync::Arc;
use std::time::Duration;

use jobforge_core::Error;
use jobforge_core::connect::Backoff;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_postgres::Client;

use crate::engine::Engine;
use crate::link::{Link, told};
use crate::rehearsal::rehearse_claims;

/// The second connection for claims.
#[derive(Default)]
pub(crate) struct Beside {
    link: Option<Link>,
    /// With why it did not open.
    opening: JoinSet<(Link, Option<Error>)>,
    backoff: Backoff,
    /// After an attempt that failed: when to try again.
    not_before: Option<Instant>,
    /// When it was last asked for.
    asked_at: Option<Instant>,
}

impl Beside {
    /// The client, if the connection is there.
    pub(crate) fn client(&mut self, engine: &Engine) -> Option<Arc<Client>> {
        if let Some(Ok((link, error))) = self.opening.try_join_next() {
            self.note(engine, link.is_open(), error.as_ref());
            self.link = Some(link);
        }
        self.link.as_ref()?.opened()
    }

    /// Opens the connection before the first claim: where much is waiting when a worker starts, the claims that follow go side by
    /// side from the beginning. If that fails, they try again.
    pub(crate) async fn begin(&mut self, engine: &Arc<Engine>) {
        self.asked_at = Some(Instant::now());
        let (link, _) = open(engine.clone(), Link::new(&engine.config)).await;
        self.link = link.is_open().then_some(link);
    }

    /// Opens the connection for the claims after this one, unless that is under way, or failed a moment ago.
    pub(crate) fn open(&mut self, engine: &Arc<Engine>) {
        self.asked_at = Some(Instant::now());
        let missing = self.opening.is_empty() && self.client(engine).is_none();
        if missing && self.not_before.is_none_or(|moment| moment <= Instant::now()) {
            let link = self.link.take().unwrap_or_else(|| Link::new(&engine.config));
            self.opening.spawn(open(engine.clone(), link));
        }
    }

    /// Closes the connection, or gives up opening it, where it was not asked for since so long ago: an idle worker can do without.
    pub(crate) fn spare(&mut self, after: Duration) {
        if self.asked_at.is_some_and(|at| at.elapsed() >= after) {
            self.asked_at = None;
            self.link = None;
            self.opening = JoinSet::new();
        }
    }

    /// Throws the connection away if the answer shows that it broke.
    pub(crate) fn heed<T>(&mut self, answer: &Result<T, Error>) {
        if let Some(link) = &mut self.link {
            link.heed(answer);
        }
    }

    /// Claims go round many times a second, and a server may have no connection to spare for long: the next attempt is put
    /// off, and only the first one that fails is told.
    fn note(&mut self, engine: &Engine, is_open: bool, error: Option<&Error>) {
        if is_open {
            self.backoff.reset();
            self.not_before = None;
            return;
        }
        if self.not_before.is_none() {
            let error = error.map(|error| told(error));
            tracing::warn!(
                worker_id = engine.worker_id(),
                error,
                "the second connection for claims does not open: claiming on one alone"
            );
        }
        self.not_before = Some(Instant::now() + self.backoff.next_delay());
    }
}

async fn open(engine: Arc<Engine>, mut link: Link) -> (Link, Option<Error>) {
    match link.client().await {
        Ok(client) => {
            rehearse_claims(&engine, &client).await;
            (link, None)
        }
        Err(error) => (link, Some(error)),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::task::yield_now;
    use tokio::time::advance;

    use super::*;
    use crate::config::WorkerConfig;
    use crate::handler::Registry;

    fn engine() -> Arc<Engine> {
        // Nobody listens there.
        let database_url = "postgres://nobody@127.0.0.1:1/nothing".to_owned();
        let config = WorkerConfig { database_url, ..WorkerConfig::default() };
        Arc::new(Engine::new(config, Registry::default()).0)
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_not_asked_for_in_time_is_given_up_though_it_opens() {
        let after = Duration::from_secs(10);
        let (engine, mut beside) = (engine(), Beside::default());
        beside.open(&engine);
        advance(after / 2).await;
        beside.open(&engine);
        advance(after / 2).await;
        beside.spare(after);
        assert_eq!(beside.opening.len(), 1, "it was asked for in between");
        advance(after / 2).await;
        beside.spare(after);
        assert!(beside.opening.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn after_an_attempt_that_failed_comes_a_pause() {
        let engine = engine();
        let mut beside = Beside::default();
        for _ in 0..3 {
            beside.open(&engine);
            assert_eq!(beside.opening.len(), 1, "the pause is over");
            while !beside.opening.is_empty() {
                assert!(beside.client(&engine).is_none());
                yield_now().await;
            }
            beside.open(&engine);
            assert!(beside.opening.is_empty(), "it failed a moment ago");
            // As long as any pause is.
            advance(Duration::from_secs(5)).await;
        }
    }
}
