//! Keeps the tasks of a scheduler together: when one is gone, none goes on.

use std::time::Duration;

use jobforge_core::Error;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::term::Term;

/// How long the duty at hand may take to end before a shutdown goes on without it.
const DUTY_GRACE: Duration = Duration::from_secs(5);

/// The tasks of a scheduler. Dropping them ends them all at once, as a crash would.
pub(crate) struct Parts {
    pub(crate) term: watch::Sender<Option<Term>>,
    pub(crate) duties: JoinSet<()>,
    pub(crate) leader: JoinSet<Result<(), Error>>,
    pub(crate) stop_duties: CancellationToken,
    pub(crate) stop_leading: CancellationToken,
}

impl Parts {
    /// Until told to stop, or until one of them ends by itself: a leader without its duties would keep every other one from
    /// doing them, and duties without a leader are never begun again. Then the duties at hand end, and the term is given up.
    /// An error is why the leader was not let begin.
    pub(crate) async fn supervise(mut self, stop: CancellationToken) -> Option<Error> {
        let mut refusal = None;
        let (part, ended) = tokio::select! {
            () = stop.cancelled() => ("", None),
            ended = self.duties.join_next() => ("duties", ended),
            ended = self.leader.join_next() => match ended {
                Some(Ok(Err(error))) => {
                    refusal = Some(error);
                    ("", None)
                }
                ended => ("leader", ended.map(|ended| ended.map(drop))),
            },
        };
        if let Some(ended) = ended {
            let error = ended.err().map(|error| error.to_string()).unwrap_or_default();
            tracing::error!(part, error, "a part of the scheduler ended: so does the scheduler");
        }
        self.stop_duties.cancel();
        let all_ended = async { while self.duties.join_next().await.is_some() {} };
        if tokio::time::timeout(DUTY_GRACE, all_ended).await.is_err() {
            tracing::warn!("a duty did not end in time; the database will refuse or finish it");
        }
        self.stop_leading.cancel();
        // Bounded by the timeouts of the calls it makes. One that is gone resigns no more: its term runs out.
        while self.leader.join_next().await.is_some() {}
        self.term.send_replace(None);
        refusal
    }
}
