//! API keys: `jf_<id>_<secret>`. The database keeps the secret's SHA-256; the server keeps what it looked up for a
//! moment, so that a key revoked anywhere is refused everywhere within seconds.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use jiff::Timestamp;
use jobforge_core::{FoundKey, rpc};
use secrecy::{ExposeSecret, SecretString};
use sha2::{Digest, Sha256};

use super::Identity;
use super::memory::Memory;
use super::rate::Peer;
use crate::app::App;
use crate::problem::Problem;

/// What every key begins with.
pub const PREFIX: &str = "jf_";

/// Characters of an id and of a secret, and which: the digits, and the letters of one case or of both.
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
        (is_id(id) && is_secret(secret)).then(|| KeyText::of(id, secret))
    }

    /// The whole key.
    pub fn expose(&self) -> &str {
        self.text.expose_secret()
    }
}

/// What is known of keys right now.
#[derive(Debug)]
pub(crate) struct Keys {
    known: Memory<String, FoundKey>,
    used: Mutex<HashMap<String, Timestamp>>,
}

impl Keys {
    /// Keys whose look-ups are believed for this long.
    pub(crate) fn new(fresh: Duration) -> Keys {
        Keys { known: Memory::new(fresh), used: Mutex::default() }
    }

    /// Who bears this key. Wrong, unknown, revoked and expired keys are refused with the same words.
    pub(crate) async fn identify(&self, app: &App, peer: Peer, text: &str) -> Result<Identity, Problem> {
        let given = KeyText::parse(text).ok_or_else(Problem::unauthenticated)?;
        let stored = match self.known.get(&given.id) {
            Some(stored) => stored,
            // In a box: what most requests do not need shall not be carried along by each.
            None => {
                let found = Box::pin(self.look_up(app, peer, &given.id)).await?;
                found.ok_or_else(Problem::unauthenticated)?
            }
        };
        // By the database's clock when it was looked up, by ours since.
        let expired = stored.expired || stored.expires_at.is_some_and(|end| end <= Timestamp::now());
        let equal = verify_slices_are_equal(&stored.secret_sha256, &given.secret_sha256).is_ok();
        if !equal || expired || stored.revoked {
            return Err(Problem::unauthenticated());
        }
        self.note_use(&given.id);
        Ok(Identity { scope: stored.scope, credential: format!("key {PREFIX}{}", given.id) })
    }

    /// Forgets a key: it was revoked.
    pub(crate) fn forget(&self, id: &str) {
        self.known.forget(|known, _| known == id);
    }

    /// Forgets all: revocations may have been missed.
    pub(crate) fn forget_all(&self) {
        self.known.forget(|_, _| true);
    }

    /// Notes that a key is in use now.
    pub(crate) fn note_use(&self, id: &str) {
        self.used.lock().unwrap_or_else(PoisonError::into_inner).insert(id.to_owned(), Timestamp::now());
    }

    /// The keys used since the last call, and when.
    pub(crate) fn take_used(&self) -> Vec<(String, Timestamp)> {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *used).into_iter().collect()
    }

    async fn look_up(&self, app: &App, peer: Peer, id: &str) -> Result<Option<FoundKey>, Problem> {
        app.rates.admit(peer)?;
        let asked = self.known.ask();
        let client = app.db.operator().await?;
        let found = client.call(async |c| rpc::find_api_key(c, id).await).await?;
        if let Some(key) = &found {
            self.known.keep(asked, id.to_owned(), key.clone());
        }
        Ok(found)
    }
}

/// Random characters worth 256 bits: what nobody guesses.
pub(crate) fn random_secret() -> String {
    random_text(SECRET)
}

/// Whether a text could be such a secret.
pub(crate) fn is_secret(text: &str) -> bool {
    text.len() == SECRET.0 && text.bytes().all(|c| c.is_ascii_alphanumeric())
}

/// Whether a text could be the id of a key.
pub fn is_id(text: &str) -> bool {
    text.len() == ID.0 && text.bytes().all(|c| c.is_ascii_digit() || c.is_ascii_lowercase())
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
        let (id, secret) = text[PREFIX.len()..].split_once('_').unwrap();
        for wrong in ["-", "é", "_", " "] {
            assert!(KeyText::parse(&format!("{PREFIX}{id}_{wrong}{}", &secret[wrong.len()..])).is_none());
            assert!(KeyText::parse(&format!("{PREFIX}{wrong}{}_{secret}", &id[wrong.len()..])).is_none());
        }
        assert!(
            KeyText::parse(&format!("{PREFIX}A{}_{secret}", &id[1..])).is_none(),
            "an id has small letters"
        );
        assert!(!format!("{key:?}").contains(&text[16..]), "a key tells its secret to nobody");
    }
}
