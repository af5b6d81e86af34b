//! The first key: while there is none, whoever reads the server's console may make it.

use std::sync::{Mutex, PoisonError};

use aws_lc_rs::constant_time::verify_slices_are_equal;
use secrecy::SecretString;
use sha2::{Digest, Sha256};

use super::key;

/// How many wrong tokens end the offer.
const TRIES: u32 = 10;

/// The offer to make the first key, as long as it stands.
#[derive(Debug, Default)]
pub(crate) struct Bootstrap(Mutex<Option<Offer>>);

struct Offer {
    token_sha256: [u8; 32],
    wrong: u32,
}

/// Without the hash.
impl std::fmt::Debug for Offer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Offer").field("wrong", &self.wrong).finish_non_exhaustive()
    }
}

/// What a token is good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It is the one.
    Right,
    /// It is not.
    Wrong,
    /// Nothing is offered, or not any more.
    Gone,
}

impl Bootstrap {
    /// Offers the first key for a new token, which is told here and never again.
    pub(crate) fn offer(&self) -> SecretString {
        let token = key::random_secret();
        *self.lock() = Some(Offer { token_sha256: Sha256::digest(token.as_bytes()).into(), wrong: 0 });
        token.into()
    }

    /// Whether anything is offered.
    pub(crate) fn stands(&self) -> bool {
        self.lock().is_some()
    }

    /// Judges a token; the tenth wrong one ends the offer.
    pub(crate) fn judge(&self, token: &str) -> Verdict {
        let mut offer = self.lock();
        let Some(standing) = offer.as_mut() else { return Verdict::Gone };
        let given: [u8; 32] = Sha256::digest(token.as_bytes()).into();
        if verify_slices_are_equal(&standing.token_sha256, &given).is_ok() {
            return Verdict::Right;
        }
        standing.wrong += 1;
        if standing.wrong >= TRIES {
            *offer = None;
        }
        Verdict::Wrong
    }

    /// There is a key now.
    pub(crate) fn end(&self) {
        *self.lock() = None;
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Offer>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use secrecy::ExposeSecret;

    #[test]
    fn ten_wrong_tokens_end_the_offer() {
        let bootstrap = Bootstrap::default();
        assert_eq!(bootstrap.judge("x"), Verdict::Gone);
        let token = bootstrap.offer();
        for _ in 0..9 {
            assert_eq!(bootstrap.judge("x"), Verdict::Wrong);
        }
        assert_eq!(bootstrap.judge(token.expose_secret()), Verdict::Right);
        assert_eq!(bootstrap.judge("x"), Verdict::Wrong);
        assert_eq!(bootstrap.judge(token.expose_secret()), Verdict::Gone);
    }
}
