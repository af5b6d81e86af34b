//! What somebody waits for, so that others who come for it wait at the same place.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::MutexGuard;

/// Things for which somebody waits, by their hash: two that collide only wait together.
#[derive(Default)]
pub(crate) struct Held(Mutex<HashMap<u64, Waiting>>);

/// Who waits for one thing.
#[derive(Default)]
struct Waiting {
    count: usize,
    /// Whose turn it is.
    turn: Arc<Turn>,
}

type Turn = tokio::sync::Mutex<()>;

/// Things are held as long as this is.
pub(crate) struct Mark<'a> {
    held: &'a Held,
    hashes: Vec<u64>,
    turns: Vec<Arc<Turn>>,
}

/// The hash of a thing.
pub(crate) fn hash(thing: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    thing.hash(&mut hasher);
    hasher.finish()
}

impl Held {
    /// Whether somebody waits for one of these.
    pub(crate) fn holds(&self, hashes: &[u64]) -> bool {
        let held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        !held.is_empty() && hashes.iter().any(|hash| held.contains_key(hash))
    }

    /// Somebody waits for these.
    pub(crate) fn mark(&self, mut hashes: Vec<u64>) -> Mark<'_> {
        // In one order for all, so that no two wait for each other.
        hashes.sort_unstable();
        hashes.dedup();
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let turns = hashes.iter().map(|hash| {
            let waiting = held.entry(*hash).or_default();
            waiting.count += 1;
            waiting.turn.clone()
        });
        let turns = turns.collect();
        Mark { held: self, hashes, turns }
    }
}

impl Mark<'_> {
    /// Waits until nobody who came before waits for any of these; the turn lasts as long as what is returned.
    pub(crate) async fn turn(&self) -> Vec<MutexGuard<'_, ()>> {
        let mut turns = Vec::with_capacity(self.turns.len());
        for turn in &self.turns {
            turns.push(turn.lock().await);
        }
        turns
    }
}

impl Drop for Mark<'_> {
    fn drop(&mut self) {
        let mut held = self.held.0.lock().unwrap_or_else(PoisonError::into_inner);
        for hash in &self.hashes {
            if let Some(waiting) = held.get_mut(hash) {
                waiting.count -= 1;
                if waiting.count == 0 {
                    held.remove(hash);
                }
            }
        }
    }
}
