//! Where claims go on: whose turn it is, and up to where lanes were emptied.
//!
//! An answer without jobs forgets the positions, and the next claim looks everywhere. That is dear where much lies that is
//! gone and cannot be vacuumed yet, because somebody holds an old snapshot; then they are kept for a while. Nothing is lost
//! by it: once a second the database moves a claimer's positions back to where late comers may be.

use std::time::{Duration, Instant};

use jobforge_core::{Claimed, Cursor};

/// For how long a look that was dear is believed to be.
const BELIEVED: Duration = Duration::from_secs(10);
/// What a job of the answer takes at most: a look is not dear for what it found.
const EACH: Duration = Duration::from_micros(50);

/// What the claims of one worker leave to the next ones.
pub(crate) struct Positions {
    cursor: Cursor,
    /// What a look everywhere must take to be dear.
    dear: Duration,
    dear_at: Option<Instant>,
}

impl Positions {
    pub(crate) fn new(dear: Duration) -> Positions {
        Positions { cursor: Cursor::default(), dear, dear_at: None }
    }

    pub(crate) fn cursor(&self) -> &Cursor {
        &self.cursor
    }

    /// Goes on from there.
    pub(crate) fn set(&mut self, cursor: Cursor) {
        self.cursor = cursor;
    }

    /// Takes in a claim's answer, and how long it took.
    pub(crate) fn advance(&mut self, claimed: &Claimed, took: Duration) {
        let now = Instant::now();
        let jobs = u32::try_from(claimed.jobs.len()).unwrap_or(u32::MAX);
        if !self.cursor.has_positions() {
            self.dear_at = (took.saturating_sub(EACH * jobs) >= self.dear).then_some(now);
        }
        let keeps = jobs == 0 && self.dear_at.is_some_and(|at| now.duration_since(at) < BELIEVED);
        let before = keeps.then(|| self.cursor.clone());
        self.cursor.advance(claimed);
        if let Some(before) = before {
            self.cursor.keep_positions_of(before);
        }
    }

    /// Takes in the answer of a claim beside the first.
    pub(crate) fn advance_beside(&mut self, claimed: &Claimed) {
        self.cursor.advance_beside(claimed);
    }
}
