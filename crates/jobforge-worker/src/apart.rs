//! Rows of a report that stand in the way of the others: one that somebody else holds locked, perhaps for hours, or one that
//! the database cannot store. The others are told without them.

use std::time::Duration;

use jobforge_core::Error;
use tokio::time::Instant;
use tokio_postgres::error::SqlState;

/// How long a report waits for somebody else's lock.
pub(crate) const LOCKED: Duration = Duration::from_millis(100);
/// The same for parts of a report that waited already.
const BRIEF: Duration = Duration::from_millis(10);
/// How long to look for what is locked; the rest is tried again with it.
pub(crate) const SEARCH: Duration = Duration::from_secs(1);
/// How long what somebody else holds locked is left alone.
pub(crate) const AGAIN: Duration = Duration::from_millis(500);

/// The answer to a row.
#[derive(Debug)]
pub(crate) enum Told<T> {
    Answer(Result<T, Error>),
    /// Somebody else holds it.
    Locked,
    /// It was not come to: something near it is locked.
    Unreached,
}

/// A call that reports rows.
pub(crate) trait Report {
    type Row;
    type Answer;

    /// An answer for each row, or one error; `wait` is for somebody else's locks.
    fn send(
        &self,
        rows: &[Self::Row],
        wait: Duration,
    ) -> impl Future<Output = Result<Vec<Self::Answer>, Error>> + Send;
}

/// Sends rows at once, and where that fails for some of them in ever smaller parts. An error of the whole is one that has
/// nothing to do with the rows.
pub(crate) async fn apart<P: Report>(report: P, rows: &[P::Row]) -> Result<Vec<Told<P::Answer>>, Error> {
    if rows.is_empty() {
        return Ok(Vec::new());
    }
    let mut told: Vec<Told<P::Answer>> = rows.iter().map(|_| Told::Unreached).collect();
    let until = Instant::now() + SEARCH;
    let (mut parts, mut wait) = (vec![(0, rows.len())], LOCKED);
    while let Some((from, to)) = parts.pop() {
        match report.send(&rows[from..to], wait).await {
            Ok(answers) => {
                (from..to).zip(answers).for_each(|(at, answer)| told[at] = Told::Answer(Ok(answer)));
            }
            Err(error) if spoils(&error) && to - from == 1 => told[from] = Told::Answer(Err(error)),
            Err(error) if is_locked(&error) && to - from == 1 => told[from] = Told::Locked,
            Err(error) if spoils(&error) || (is_locked(&error) && Instant::now() < until) => {
                let middle = usize::midpoint(from, to);
                parts.extend([(middle, to), (from, middle)]);
            }
            Err(error) if is_locked(&error) => {}
            Err(error) => return Err(error),
        }
        wait = BRIEF;
    }
    Ok(told)
}

/// Whether what was sent is at fault: data (22), a constraint (23), a limit (54), or a refusal. Everything
/// else, be it a full disk, is worth another try.
pub(crate) fn spoils(error: &Error) -> bool {
    match error {
        Error::Database { source, .. } => {
            let class = source.code().map(|code| &code.code()[..2]);
            matches!(class, Some("22" | "23" | "54"))
        }
        other => !other.is_transient(),
    }
}

/// Whether somebody else's lock was in the way.
pub(crate) fn is_locked(error: &Error) -> bool {
    matches!(error, Error::Database { source, .. } if source.code() == Some(&SqlState::LOCK_NOT_AVAILABLE))
}
