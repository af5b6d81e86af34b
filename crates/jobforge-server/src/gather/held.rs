//! What somebody waits for, so that others who come for it wait at the same place.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, PoisonError};

/// Things for which somebody waits, by their hash: two that collide only wait together.
#[derive(Default)]
pub(crate) struct Held(Mutex<HashMap<u64, usize>>);

/// Things are held as long as this is.
pub(crate) struct Mark<'a> {
    held: &'a Held,
    hashes: Vec<u64>,
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
    pub(crate) fn mark(&self, hashes: Vec<u64>) -> Mark<'_> {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for hash in &hashes {
            *held.entry(*hash).or_default() += 1;
        }
        Mark { held: self, hashes }
    }
}

impl Drop for Mark<'_> {
    fn drop(&mut self) {
        let mut held = self.held.0.lock().unwrap_or_else(PoisonError::into_inner);
        for hash in &self.hashes {
            if let Some(count) = held.get_mut(hash) {
                *count -= 1;
                if *count == 0 {
                    held.remove(hash);
                }
            }
        }
    }
}
