//! API keys: `jf_<id>_<secret>`. The database keeps the secret's SHA-256; the server keeps what it looked up for a
//! moment, so that a key revoked anywhere is refused everywhere within seconds.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use aws_lc_rs::constant_time::verify_slices_are_equal;
use jiff::Timestamp;
use jobforge_core::{FoundKey, rpc};
use secrecy::{ExposeSecret, SecretString};
use sha2::{Digest, Sha256};

use super::Identity;
use crate::app::App;
use crate::problem::Problem;

/// What every key begins with.
pub const PREFIX: &str = "jf_";

/// How long a look-up is believed; a revocation is to be felt within 5 s, even where no notification is heard.
const FRESH: Duration = Duration::from_secs(3);
/// The most keys remembered.
const MOST: usize = 10_000;
/// Characters of an id and of a secret, and which.
const ID: (usize, &[u8]) = (12, b"0123456789abcdefghijklmnopqrstuvwxyz");
const SECRET: (usize, &[u8]) = (43, b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz");

/// A key as it is made: the only moment its secret exists in clear.
#[derive(Debug)]
pub struct KeyText {
    /// The public part.
    pub id: String,
    /// The whole key, to be shown once.
    pub text: SecretString,
    /// What is stored.
    pub secret_sha256: [u8; 32],
}

impl KeyText {
    /// A key of random characters: 256 bits of secret.
    pub fn generate() -> KeyText {
        KeyText::of(&random_text(ID), &random_text(SECRET))
    }

    fn of(id: &str, secret: &str) -> KeyText {
        KeyText {
            id: id.to_owned(),
            text: SecretString::from(format!("{PREFIX}{id}_{secret}")),
            secret_sha256: Sha256::digest(secret.as_bytes()).into(),
        }
    }

    /// A key from its text, if it has a key's form.
    pub fn parse(text: &str) -> Option<KeyText> {
        let (id, secret) = text.strip_prefix(PREFIX)?.split_once('_')?;
        let sound = |part: &str, (length, letters): (usize, &[u8])| {
            part.len() == length && part.bytes().all(|c| letters.contains(&c))
        };
        (sound(id, ID) && sound(secret, SECRET)).then(|| KeyText::of(id, secret))
    }

    /// The whole key.
    pub fn expose(&self) -> &str {
        self.text.expose_secret()
    }
}

/// What is known of keys right now.
#[derive(Debug, Default)]
pub(crate) struct Keys {
    known: Mutex<HashMap<String, (FoundKey, Instant)>>,
    used: Mutex<HashMap<String, Timestamp>>,
}

impl Keys {
    /// Who bears this key. Wrong, unknown, revoked and expired keys are refused with the same words.
    pub(crate) async fn identify(&self, app: &App, text: &str) -> Result<Identity, Problem> {
        let given = KeyText::parse(text).ok_or_else(Problem::unauthenticated)?;
        let stored = match self.remembered(&given.id) {
            Some(stored) => stored,
            None => self.look_up(app, &given.id).await?.ok_or_else(Problem::unauthenticated)?,
        };
        let now = Timestamp::now();
        // By the database's clock when it was looked up, by ours since.
        let expired = stored.expired || stored.expires_at.is_some_and(|end| end <= now);
        let equal = verify_slices_are_equal(&stored.secret_sha256, &given.secret_sha256).is_ok();
        if !equal || expired || stored.revoked {
            return Err(Problem::unauthenticated());
        }
        lock(&self.used).insert(given.id.clone(), now);
        Ok(Identity { scope: stored.scope, credential: format!("key {PREFIX}{}", given.id) })
    }

    /// Forgets a key: it was revoked.
    pub(crate) fn forget(&self, id: &str) {
        lock(&self.known).remove(id);
    }

    /// Forgets all: revocations may have been missed.
    pub(crate) fn forget_all(&self) {
        lock(&self.known).clear();
    }

    /// The keys used since the last call, and when.
    pub(crate) fn take_used(&self) -> Vec<(String, Timestamp)> {
        std::mem::take(&mut *lock(&self.used)).into_iter().collect()
    }

    fn remembered(&self, id: &str) -> Option<FoundKey> {
        let known = lock(&self.known);
        known.get(id).filter(|(_, at)| at.elapsed() < FRESH).map(|(key, _)| key.clone())
    }

    async fn look_up(&self, app: &App, id: &str) -> Result<Option<FoundKey>, Problem> {
        let asked = Instant::now();
        let client = app.db.operator().await?;
        let answer = rpc::find_api_key(&*client, id).await;
        let found = client.done(answer)?;
        let mut known = lock(&self.known);
        if let Some(key) = &found {
            if known.len() >= MOST {
                known.retain(|_, (_, at)| at.elapsed() < FRESH);
            }
            if known.len() < MOST {
                known.insert(id.to_owned(), (key.clone(), asked));
            }
        }
        Ok(found)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn random_text((length, letters): (usize, &[u8])) -> String {
    (0..length).map(|_| char::from(letters[rand::random_range(0..letters.len())])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_read_as_it_was_written_and_nothing_else_is() {
        let key = KeyText::generate();
        let read = KeyText::parse(key.expose()).unwrap();
        assert_eq!((read.id, read.secret_sha256), (key.id.clone(), key.secret_sha256));
        let text = key.expose();
        for wrong in ["", "jf_", "jf_a_b", &text[1..], &text[..text.len() - 1], &format!("{text}x")] {
            assert!(KeyText::parse(wrong).is_none(), "{wrong}");
        }
        assert!(KeyText::parse(&text.replace('_', "-")).is_none());
        assert!(!format!("{key:?}").contains(&text[16..]), "a key tells its secret to nobody");
    }
}
