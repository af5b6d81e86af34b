//! The connections on which jobs are claimed, lent to the reports of those jobs: the server's process that claimed them has
//! their rows at hand, and two processes get more of two cores than four do.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio_postgres::Client;

/// A claim that takes longer keeps its connection: reports would wait behind the next one. A disk that stops for a moment is no
/// reason.
pub(crate) const SHORT: Duration = Duration::from_millis(250);

/// Which of the claims' connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lane {
    First,
    Beside,
}

/// What is lent.
#[derive(Debug, Default)]
pub(crate) struct Lanes(Mutex<[Option<Arc<Client>>; 2]>);

impl Lanes {
    /// Lends a connection, or takes it back.
    pub(crate) fn lend(&self, lane: Lane, client: Option<&Arc<Client>>) {
        self.lock()[lane as usize] = client.cloned();
    }

    /// The lane's connection, if it is lent and open.
    pub(crate) fn of(&self, lane: Lane) -> Option<Arc<Client>> {
        self.lock()[lane as usize].clone().filter(|client| !client.is_closed())
    }

    /// Whether any is lent.
    pub(crate) fn are_lent(&self) -> bool {
        self.lock().iter().flatten().any(|client| !client.is_closed())
    }

    fn lock(&self) -> MutexGuard<'_, [Option<Arc<Client>>; 2]> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
