//! What was looked up a moment ago.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The most that is remembered.
const MOST: usize = 10_000;

/// Look-ups that are believed for a moment.
#[derive(Debug)]
pub(crate) struct Memory<K, V> {
    fresh: Duration,
    inner: Mutex<Inner<K, V>>,
}

#[derive(Debug)]
struct Inner<K, V> {
    known: HashMap<K, (V, Instant)>,
    /// How often something was forgotten: an answer that was under way meanwhile may be what shall be forgotten.
    forgotten: u64,
}

/// When a look-up began.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    at: Instant,
    forgotten: u64,
}

impl<K: Hash + Eq, V: Clone> Memory<K, V> {
    pub(crate) fn new(fresh: Duration) -> Memory<K, V> {
        Memory { fresh, inner: Mutex::new(Inner { known: HashMap::new(), forgotten: 0 }) }
    }

    /// What is known and still believed.
    pub(crate) fn get(&self, key: &K) -> Option<V> {
        let inner = self.lock();
        inner.known.get(key).filter(|(_, at)| at.elapsed() < self.fresh).map(|(value, _)| value.clone())
    }

    /// A look-up begins.
    pub(crate) fn ask(&self) -> Asked {
        Asked { at: Instant::now(), forgotten: self.lock().forgotten }
    }

    /// Keeps its answer, unless something was forgotten since.
    pub(crate) fn keep(&self, asked: Asked, key: K, value: V) {
        let mut inner = self.lock();
        if inner.forgotten != asked.forgotten {
            return;
        }
        if inner.known.len() >= MOST {
            inner.known.retain(|_, (_, at)| at.elapsed() < self.fresh);
        }
        if inner.known.len() < MOST {
            inner.known.insert(key, (value, asked.at));
        }
    }

    /// Forgets what this is true of.
    pub(crate) fn forget(&self, which: impl Fn(&K, &V) -> bool) {
        let mut inner = self.lock();
        inner.forgotten += 1;
        inner.known.retain(|key, (value, _)| !which(key, value));
    }

    fn lock(&self) -> MutexGuard<'_, Inner<K, V>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_from_before_a_forgetting_is_not_kept() {
        let memory: Memory<&str, u8> = Memory::new(Duration::from_secs(3600));
        memory.keep(memory.ask(), "a", 1);
        assert_eq!(memory.get(&"a"), Some(1));
        let asked = memory.ask();
        memory.forget(|key, _| *key == "a");
        memory.keep(asked, "a", 1);
        assert_eq!(memory.get(&"a"), None);
    }

    #[test]
    fn nothing_is_believed_for_longer_than_it_is_fresh() {
        let memory: Memory<&str, u8> = Memory::new(Duration::ZERO);
        memory.keep(memory.ask(), "a", 1);
        assert_eq!(memory.get(&"a"), None);
    }
}
