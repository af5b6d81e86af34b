//! Sealing: AES-256-GCM under a random nonce. The place of a secret is sealed with it, so that bytes copied to
//! another tenant, config or name do not open there.
//!
//! The first of the keys seals, each of them opens: with two of them live, one takes the other's place.

use std::fmt;

use aws_lc_rs::aead::{AES_256_GCM, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use secrecy::zeroize::Zeroizing;
use secrecy::{ExposeSecret, SecretString};
use uuid::Uuid;

/// The longest secret, in bytes.
pub const MAX_SECRET: usize = 8192;
const KEY_LEN: usize = 32;
const TAG_LEN: usize = 16;
/// What the form of the associated data is told from others by.
const FORM: &[u8] = b"jobforge.secret.1";

/// The keys of a process.
#[derive(Default)]
pub struct SealKeys(Vec<SealKey>);

struct SealKey {
    id: String,
    key: RandomizedNonceKey,
}

/// Where a secret stands. It opens nowhere else.
#[derive(Clone, Copy, Debug)]
pub struct SecretPlace<'a> {
    /// Whose it is.
    pub tenant: Uuid,
    /// The config it belongs to.
    pub config: &'a str,
    /// Its name.
    pub secret: &'a str,
}

/// A sealed secret: nonce, ciphertext and tag.
#[derive(Clone, PartialEq, Eq)]
pub struct Sealed {
    /// The key it opens with.
    pub key_id: String,
    /// The bytes.
    pub bytes: Vec<u8>,
}

/// Why something cannot be sealed or opened. No message has a key or a secret.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum SealError {
    /// There is no key to seal with.
    #[error(
        "there is no key to seal secrets with: set JOBFORGE_SEAL_KEYS (`jobforge connectors new-key` makes one), \
         or refer to the environment (env:NAME)"
    )]
    NoKey,
    /// The keys of this process do not include it.
    #[error("the key {key_id} is not among this process's seal keys (JOBFORGE_SEAL_KEYS)")]
    KeyMissing {
        /// The key that is needed.
        key_id: String,
    },
    /// The bytes are not what this key sealed for this place.
    #[error(
        "it does not open with the key {key_id}: it was sealed with another key of that id, or elsewhere"
    )]
    NotOpened {
        /// The key it names.
        key_id: String,
    },
    /// Over 8 KiB, or empty.
    #[error("a secret has 1 to {MAX_SECRET} bytes, not {length}")]
    Length {
        /// How long it is.
        length: usize,
    },
    /// The text is not `ID:BASE64,…`.
    #[error("seal key {at} is malformed: {what} (keys are ID:BASE64 of 32 bytes, separated by commas)")]
    Keys {
        /// Which of them, from one.
        at: usize,
        /// What is wrong with it.
        what: &'static str,
    },
    /// The cipher failed, which has no cause that a caller could mend.
    #[error("the cipher failed")]
    Cipher,
}

impl SealError {
    /// Whether another worker, or this one after a restart, may be able to.
    pub fn is_transient(&self) -> bool {
        matches!(self, SealError::KeyMissing { .. } | SealError::NoKey)
    }
}

impl SealKeys {
    /// Reads `ID:BASE64,ID:BASE64`; the first one seals. Nothing but blanks means no keys.
    pub fn parse(text: &SecretString) -> Result<SealKeys, SealError> {
        let text = text.expose_secret().trim();
        let mut keys: Vec<SealKey> = Vec::new();
        let parts = text.split(',').map(str::trim).filter(|_| !text.is_empty());
        for (at, part) in parts.enumerate() {
            let wrong = |what| SealError::Keys { at: at + 1, what };
            let (id, key) = part.split_once(':').ok_or(wrong("it has no colon"))?;
            if !is_key_id(id) {
                return Err(wrong("its id has not 1 to 32 letters, digits, dashes and underscores"));
            } else if keys.iter().any(|known| known.id == id) {
                return Err(wrong("its id is there twice"));
            }
            let bytes = Zeroizing::new(STANDARD.decode(key).map_err(|_| wrong("its key is not base64"))?);
            if bytes.len() != KEY_LEN {
                return Err(wrong("its key has not 32 bytes"));
            }
            let key = RandomizedNonceKey::new(&AES_256_GCM, &bytes).map_err(|_| SealError::Cipher)?;
            keys.push(SealKey { id: id.to_owned(), key });
        }
        Ok(SealKeys(keys))
    }

    /// The id of the key that seals.
    pub fn sealing_id(&self) -> Result<&str, SealError> {
        self.0.first().map(|key| key.id.as_str()).ok_or(SealError::NoKey)
    }

    /// Seals a secret for its place.
    pub fn seal(&self, place: SecretPlace<'_>, secret: &SecretString) -> Result<Sealed, SealError> {
        let SealKey { id, key } = self.0.first().ok_or(SealError::NoKey)?;
        let secret = secret.expose_secret().as_bytes();
        if secret.is_empty() || secret.len() > MAX_SECRET {
            return Err(SealError::Length { length: secret.len() });
        }
        let mut sealed = Vec::with_capacity(secret.len() + TAG_LEN);
        sealed.extend_from_slice(secret);
        let nonce = key
            .seal_in_place_append_tag(Aad::from(place.bytes()), &mut sealed)
            .map_err(|_| SealError::Cipher)?;
        let bytes = [&nonce.as_ref()[..], &sealed].concat();
        Ok(Sealed { key_id: id.clone(), bytes })
    }

    /// Opens what was sealed for this place, with the key that it names.
    pub fn open(&self, place: SecretPlace<'_>, sealed: &Sealed) -> Result<SecretString, SealError> {
        let key_id = &sealed.key_id;
        let key = self.0.iter().find(|key| key.id == *key_id);
        let SealKey { key, .. } = key.ok_or_else(|| SealError::KeyMissing { key_id: key_id.clone() })?;
        let not_opened = || SealError::NotOpened { key_id: key_id.clone() };
        let (nonce, bytes) = sealed.bytes.split_first_chunk::<NONCE_LEN>().ok_or_else(not_opened)?;
        let mut bytes = Zeroizing::new(bytes.to_vec());
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let opened =
            key.open_in_place(nonce, Aad::from(place.bytes()), &mut bytes).map_err(|_| not_opened())?;
        let text = str::from_utf8(opened).map_err(|_| not_opened())?;
        Ok(SecretString::from(text))
    }
}

/// A new random key with a random id, as `JOBFORGE_SEAL_KEYS` takes it.
pub fn new_key() -> Result<(String, SecretString), SealError> {
    let mut bytes = [0_u8; KEY_LEN];
    aws_lc_rs::rand::fill(&mut bytes).map_err(|_| SealError::Cipher)?;
    let id = format!("k{}", &Uuid::new_v4().simple().to_string()[..8]);
    let key = SecretString::from(format!("{id}:{}", STANDARD.encode(bytes)));
    Ok((id, key))
}

impl SecretPlace<'_> {
    /// Each part with its length, so that no two places have the same bytes.
    fn bytes(self) -> Vec<u8> {
        let mut bytes = FORM.to_vec();
        for part in [self.tenant.as_bytes().as_slice(), self.config.as_bytes(), self.secret.as_bytes()] {
            bytes.extend_from_slice(&(part.len() as u64).to_be_bytes());
            bytes.extend_from_slice(part);
        }
        bytes
    }
}

impl fmt::Debug for SealKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.0.iter().map(|key| (&key.id, "***"))).finish()
    }
}

impl fmt::Debug for Sealed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sealed({}: ***)", self.key_id)
    }
}

fn is_key_id(id: &str) -> bool {
    (1..=32).contains(&id.len())
        && id.starts_with(|first: char| first.is_ascii_alphanumeric())
        && id.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '-' || letter == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    const TENANT: Uuid = Uuid::from_u128(1);
    const PLACE: SecretPlace<'static> = SecretPlace { tenant: TENANT, config: "mail", secret: "token" };

    fn keys(text: &str) -> SealKeys {
        SealKeys::parse(&SecretString::from(text)).unwrap()
    }

    fn key(id: &str, byte: u8) -> String {
        format!("{id}:{}", STANDARD.encode([byte; KEY_LEN]))
    }

    fn canary() -> SecretString {
        SecretString::from("canary")
    }

    #[test]
    fn what_is_sealed_opens_in_its_place_and_nowhere_else() {
        let keys = keys(&key("k1", 1));
        let sealed = keys.seal(PLACE, &canary()).unwrap();
        assert_eq!(keys.open(PLACE, &sealed).unwrap().expose_secret(), "canary");
        let elsewhere = [
            SecretPlace { tenant: Uuid::from_u128(2), ..PLACE },
            SecretPlace { config: "mai", secret: "ltoken", ..PLACE },
            SecretPlace { config: "other", ..PLACE },
            SecretPlace { secret: "other", ..PLACE },
        ];
        for place in elsewhere {
            let error = keys.open(place, &sealed).unwrap_err();
            assert_eq!(error, SealError::NotOpened { key_id: "k1".to_owned() });
            assert!(!error.is_transient());
        }
    }

    #[test]
    fn a_changed_byte_or_a_cut_does_not_open() {
        let keys = keys(&key("k1", 1));
        let sealed = keys.seal(PLACE, &canary()).unwrap();
        for at in 0..sealed.bytes.len() {
            let mut changed = sealed.clone();
            changed.bytes[at] ^= 1;
            assert!(keys.open(PLACE, &changed).is_err(), "byte {at}");
            let cut = Sealed { bytes: sealed.bytes[..at].to_vec(), ..sealed.clone() };
            assert!(keys.open(PLACE, &cut).is_err(), "cut at {at}");
        }
    }

    #[test]
    fn the_same_secret_is_sealed_to_other_bytes_each_time() {
        let keys = keys(&key("k1", 1));
        let [one, two] = [(), ()].map(|()| keys.seal(PLACE, &canary()).unwrap().bytes);
        assert_ne!(one[..NONCE_LEN], two[..NONCE_LEN]);
        assert_ne!(one, two);
        assert!(!one.windows(6).any(|window| window == b"canary"));
    }

    #[test]
    fn the_first_key_seals_and_every_key_opens() {
        let old = keys(&key("k1", 1));
        let both = keys(&format!("{}, {}", key("k2", 2), key("k1", 1)));
        let new = keys(&key("k2", 2));
        let (by_old, by_both) = (old.seal(PLACE, &canary()).unwrap(), both.seal(PLACE, &canary()).unwrap());
        assert_eq!((by_old.key_id.as_str(), by_both.key_id.as_str()), ("k1", "k2"));
        assert!(both.open(PLACE, &by_old).is_ok() && both.open(PLACE, &by_both).is_ok());
        assert!(new.open(PLACE, &by_both).is_ok());
        let error = new.open(PLACE, &by_old).unwrap_err();
        assert!(error.is_transient() && error.to_string().contains("k1"), "{error}");
    }

    #[test]
    fn another_key_of_the_same_id_is_told_by_its_id() {
        let sealed = keys(&key("k1", 1)).seal(PLACE, &canary()).unwrap();
        let error = keys(&key("k1", 9)).open(PLACE, &sealed).unwrap_err();
        assert_eq!(error, SealError::NotOpened { key_id: "k1".to_owned() });
    }

    #[test]
    fn without_keys_nothing_is_sealed() {
        let error = SealKeys::default().seal(PLACE, &canary()).unwrap_err();
        assert!(error.to_string().contains("new-key") && error.to_string().contains("env:"), "{error}");
        assert!(keys(" ").sealing_id().is_err());
    }

    #[test]
    fn a_secret_has_1_byte_to_8_kib() {
        let keys = keys(&key("k1", 1));
        for length in [0, MAX_SECRET + 1] {
            let secret = SecretString::from("x".repeat(length));
            assert_eq!(keys.seal(PLACE, &secret), Err(SealError::Length { length }));
        }
        assert_eq!(keys.seal(PLACE, &SecretString::from("x".repeat(MAX_SECRET))).unwrap().bytes.len(), 8220);
    }

    #[test]
    fn malformed_keys_are_refused_without_being_repeated() {
        let short = format!("k1:{}", STANDARD.encode([7; 16]));
        let twice = format!("{0},{0}", key("k1", 1));
        for text in ["canary", "k1:canary!", &short, &twice, ":canary", "k1:", ",", "k 1:canary"] {
            let error = SealKeys::parse(&SecretString::from(text)).unwrap_err();
            assert!(!format!("{error} {error:?}").contains("canary"), "{error}");
        }
    }

    #[test]
    fn keys_and_sealed_bytes_are_not_printed() {
        let keys = keys(&key("k1", 1));
        assert_eq!(format!("{keys:?}"), r#"{"k1": "***"}"#);
        assert_eq!(format!("{:?}", keys.seal(PLACE, &canary()).unwrap()), "Sealed(k1: ***)");
    }

    #[test]
    fn a_new_key_is_taken() {
        let (id, key) = new_key().unwrap();
        assert_eq!(SealKeys::parse(&key).unwrap().sealing_id(), Ok(id.as_str()));
        assert_ne!(new_key().unwrap().1.expose_secret(), key.expose_secret());
    }
}
