//! Payloads and results too large for a row: what stands for them in the row, and what a store of them is.
//!
//! The row holds `{"$artifact": {"ref": "sha256:…", "bytes": 5000000}}`. The key is reserved: at the top of a
//! payload or result it means this and nothing else. Stores themselves are elsewhere, because this crate talks
//! to Postgres alone.

use std::error::Error as StdError;
use std::fmt;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::rpc::Payload;

/// The key that no payload of another meaning may have.
pub const RESERVED_KEY: &str = "$artifact";

/// What a reference in a row begins with, as Postgres writes it.
const START: &str = "{\"$artifact\":";

/// The name of a content: its SHA-256, shown as `sha256:` and 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ArtifactId([u8; 32]);

/// What stands for a content: its name and its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ArtifactRef {
    id: ArtifactId,
    bytes: u64,
}

/// A content with what stands for it.
#[derive(Clone)]
pub struct Artifact {
    reference: ArtifactRef,
    content: Bytes,
}

/// A place for large contents, each tenant's apart from the others'.
pub trait Artifacts: fmt::Debug + Send + Sync {
    /// Contents of more bytes than this belong into the store.
    fn threshold(&self) -> usize;

    /// Writes a content; the same one again is the same object.
    fn put(&self, tenant: Uuid, artifact: Artifact) -> BoxFuture<'_, Result<(), ArtifactError>>;

    /// Reads a content; it is what was written, or an error.
    fn get(&self, tenant: Uuid, artifact: ArtifactRef) -> BoxFuture<'_, Result<Bytes, ArtifactError>>;

    /// Deletes an object; one that is not there is no error.
    fn delete(&self, tenant: Uuid, id: ArtifactId) -> BoxFuture<'_, Result<(), ArtifactError>>;
}

/// Why the store did not do what it was asked for.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ArtifactError {
    /// The object is not there: it was deleted by hand, or the reference is another tenant's.
    #[error("{id} is not in the artifact store")]
    Missing {
        /// Which.
        id: ArtifactId,
    },
    /// The object is not what was written.
    #[error("{id} in the artifact store is not what was written: {detail}")]
    Altered {
        /// Which.
        id: ArtifactId,
        /// In what it differs.
        detail: String,
    },
    /// The store cannot be reached, or does not do its work; it may, later.
    #[error("the artifact store could not {operation} {id}")]
    Unavailable {
        /// What it was asked for: `put`, `get` or `delete`.
        operation: &'static str,
        /// Of which object.
        id: ArtifactId,
        /// What went wrong.
        #[source]
        source: Box<dyn StdError + Send + Sync>,
    },
    /// The content is larger than the store's settings allow.
    #[error("{bytes} bytes are more than the artifact store takes ({max})")]
    TooLarge {
        /// How many there are.
        bytes: u64,
        /// How many may be.
        max: u64,
    },
}

/// A payload whose reserved key does not hold a reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the key $artifact is reserved, and holds no reference such as {{\"ref\": \"sha256:…\", \"bytes\": 1}} alone"
)]
pub struct Malformed;

impl Artifact {
    /// Names a content.
    pub fn of(content: impl Into<Bytes>) -> Artifact {
        let content = content.into();
        let id = ArtifactId(Sha256::digest(&content).into());
        let reference = ArtifactRef { id, bytes: u64::try_from(content.len()).unwrap_or(u64::MAX) };
        Artifact { reference, content }
    }

    /// What stands for it.
    pub fn reference(&self) -> ArtifactRef {
        self.reference
    }

    /// The content.
    pub fn content(&self) -> &Bytes {
        &self.content
    }
}

impl fmt::Debug for Artifact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Artifact").field(&self.reference).finish()
    }
}

impl ArtifactRef {
    /// The content's name.
    pub fn id(&self) -> ArtifactId {
        self.id
    }

    /// The content's length.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// What is stored in the place of the content.
    pub fn to_payload(self) -> Result<Payload, serde_json::Error> {
        let artifact = Named { reference: self.id.to_string(), bytes: self.bytes };
        to_raw_value(&Stored { artifact })
    }

    /// The reference that stands in a row in the place of its content, if one does. Cheap for everything else.
    pub fn in_row(json: &RawValue) -> Result<Option<ArtifactRef>, Malformed> {
        if json.get().starts_with(START) { ArtifactRef::parse(json.get()).map(Some) } else { Ok(None) }
    }

    /// The reference in a payload that somebody wrote, wherever its reserved key stands.
    pub fn in_payload(json: &RawValue) -> Result<Option<ArtifactRef>, Malformed> {
        let text = json.get().trim_start();
        // What is no object has no keys; and a key may be written with escapes.
        if !text.starts_with('{') || !(text.contains(RESERVED_KEY) || text.contains("\\u")) {
            return Ok(None);
        }
        #[derive(Deserialize)]
        struct Reserved {
            #[serde(rename = "$artifact", default, deserialize_with = "any")]
            found: bool,
        }
        match serde_json::from_str(text) {
            Ok(Reserved { found: false }) => Ok(None),
            Ok(Reserved { found: true }) => ArtifactRef::parse(text).map(Some),
            // The key twice.
            Err(_) => Err(Malformed),
        }
    }

    fn parse(text: &str) -> Result<ArtifactRef, Malformed> {
        let Stored { artifact: Named { reference, bytes } } =
            serde_json::from_str(text).map_err(|_| Malformed)?;
        let id = ArtifactId::parse(&reference).ok_or(Malformed)?;
        if bytes == 0 { Err(Malformed) } else { Ok(ArtifactRef { id, bytes }) }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    #[serde(rename = "$artifact")]
    artifact: Named,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Named {
    #[serde(rename = "ref")]
    reference: String,
    bytes: u64,
}

/// Whatever it is, it is there.
fn any<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    serde::de::IgnoredAny::deserialize(deserializer).map(|_| true)
}

impl ArtifactId {
    /// Reads `sha256:` and 64 lower-case hexadecimal digits.
    pub fn parse(text: &str) -> Option<ArtifactId> {
        let digits = text.strip_prefix("sha256:")?.as_bytes();
        let digit = |byte: u8| match byte {
            b'0'..=b'9' => Some(byte - b'0'),
            b'a'..=b'f' => Some(byte - b'a' + 10),
            _ => None,
        };
        let mut hash = [0; 32];
        if digits.len() != 64 {
            return None;
        }
        for (byte, pair) in hash.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = digit(pair[0])? << 4 | digit(pair[1])?;
        }
        Some(ArtifactId(hash))
    }

    /// The 64 digits alone.
    pub fn hex(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl fmt::Display for ArtifactId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", self.hex())
    }
}

impl fmt::Debug for ArtifactId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl ArtifactError {
    /// The stable reason, e.g. `artifact_missing`.
    pub fn reason(&self) -> &'static str {
        match self {
            ArtifactError::Missing { .. } => "artifact_missing",
            ArtifactError::Altered { .. } => "artifact_altered",
            ArtifactError::Unavailable { .. } => "artifact_unavailable",
            ArtifactError::TooLarge { .. } => "artifact_too_large",
        }
    }

    /// Whether the same may succeed later.
    pub fn is_transient(&self) -> bool {
        matches!(self, ArtifactError::Unavailable { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> Box<RawValue> {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn a_reference_is_read_as_it_was_written() {
        let reference = Artifact::of("abc").reference();
        assert_eq!(
            reference.id().to_string(),
            "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
        let stored = reference.to_payload().unwrap();
        assert_eq!(ArtifactRef::in_payload(&stored), Ok(Some(reference)));
        assert_eq!(ArtifactRef::in_row(&stored), Ok(Some(reference)));
        // As Postgres writes it.
        let spaced = stored.get().replace("\":", "\": ").replace(",\"", ", \"");
        assert_eq!(ArtifactRef::in_row(&raw(&spaced)), Ok(Some(reference)));
        assert_eq!(ArtifactId::parse(&reference.id().to_string()), Some(reference.id()));
    }

    #[test]
    fn the_reserved_key_with_anything_else_is_refused() {
        let good = Artifact::of("abc").reference().id();
        for text in [
            r#"{"$artifact": 1}"#.to_owned(),
            r#"{"$artifact": {"ref": "sha256:abc", "bytes": 3}}"#.to_owned(),
            r#"{"\u0024artifact": null}"#.to_owned(),
            format!(r#"{{"$artifact": {{"ref": "{good}", "bytes": 0}}}}"#),
            format!(r#"{{"$artifact": {{"ref": "{good}", "bytes": -1}}}}"#),
            format!(r#"{{"$artifact": {{"ref": "{good}"}}}}"#),
            format!(r#"{{"$artifact": {{"ref": "{good}", "bytes": 3, "more": 1}}}}"#),
            format!(r#"{{"a": 1, "$artifact": {{"ref": "{good}", "bytes": 3}}}}"#),
            format!(r#"{{"$artifact": {{"ref": "{}", "bytes": 3}}}}"#, good.to_string().to_uppercase()),
            format!(r#"{{"$artifact": {{"ref": "sha256:../{}", "bytes": 3}}}}"#, &good.hex()[3..]),
        ] {
            assert_eq!(ArtifactRef::in_payload(&raw(&text)), Err(Malformed), "{text}");
        }
    }

    #[test]
    fn elsewhere_the_word_means_nothing() {
        for text in
            [r#"{"a": {"$artifact": 1}}"#, r#""$artifact""#, r#"["$artifact"]"#, "{}", "1", r#""\u0041""#]
        {
            assert_eq!(ArtifactRef::in_payload(&raw(text)), Ok(None), "{text}");
            assert_eq!(ArtifactRef::in_row(&raw(text)), Ok(None), "{text}");
        }
    }
}
