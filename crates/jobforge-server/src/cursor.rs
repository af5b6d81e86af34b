//! Cursors as callers see them: text that means nothing, and that is refused when it was changed.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};

use crate::problem::Problem;

/// Bytes of the checksum. It guards against mistakes, not against intent: a cursor opens nothing that its bearer
/// could not list from the start.
const CHECK: usize = 4;

/// A place in a list, as text.
pub(crate) fn write<T: Serialize>(place: &T) -> String {
    let mut bytes = serde_json::to_vec(place).unwrap_or_default();
    let check = Sha256::digest(&bytes);
    bytes.extend_from_slice(&check[..CHECK]);
    URL_SAFE_NO_PAD.encode(bytes)
}

/// The place a cursor names.
pub(crate) fn read<T: DeserializeOwned>(cursor: &str) -> Result<T, Problem> {
    let place = || {
        let bytes = URL_SAFE_NO_PAD.decode(cursor).ok()?;
        let (place, check) = bytes.split_at_checked(bytes.len().checked_sub(CHECK)?)?;
        (Sha256::digest(place)[..CHECK] == *check).then(|| serde_json::from_slice(place).ok())?
    };
    place().ok_or_else(|| Problem::malformed("cursor_malformed", "cursor is not one that a page gave"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_read_as_it_was_written_and_no_other_way() {
        let place = ("a".to_owned(), 7);
        let cursor = write(&place);
        assert_eq!(read::<(String, i32)>(&cursor).unwrap(), place);
        for at in 0..cursor.len() {
            let mut other = cursor.clone().into_bytes();
            other[at] = if other[at] == b'A' { b'B' } else { b'A' };
            assert!(read::<(String, i32)>(&String::from_utf8(other).unwrap()).is_err(), "changed at {at}");
        }
        assert!(read::<(String, i32)>("").is_err() && read::<(String, i32)>("é").is_err());
        assert!(read::<(i32, i32)>(&cursor).is_err(), "of another list");
    }
}
