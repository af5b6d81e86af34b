//! Dead letters: what makes two of them one group, what a patch does to a payload, and what becomes of those that go
//! back to work, alone and in a race.

#![allow(clippy::unwrap_used, reason = "a failed step fails the story, wherever it is")]

mod bulk;
mod bulk_races;
mod cast;
mod fingerprints;
mod listing;
mod patches;
mod redrive;
mod redrive_races;
mod terms;
