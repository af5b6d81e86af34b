//! The tagged form: `PREFIX|name=value|…`, hashes as Base32 of SHA-256 without padding.

use std::collections::BTreeMap;

use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::QrError;

/// A prefix and fields, from which the text is put together.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tagged {
    /// What tells readers the kind of content.
    pub prefix: String,
    /// The fields.
    pub fields: Fields,
    /// Fields that follow, in the order of their names, each as the hash of its text.
    #[serde(default)]
    pub hash: BTreeMap<String, String>,
}

/// Fields in an order of their own, or in the order of their names: the database keeps no order in an object.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum Fields {
    /// In this order.
    Ordered(Vec<Field>),
    /// In the order of their names.
    ByName(BTreeMap<String, String>),
}

/// A field with its value, or with the hash of a text for a value.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Field {
    /// Its name.
    pub name: String,
    /// Its value as it is.
    pub value: Option<String>,
    /// The text whose hash is its value.
    pub hash: Option<String>,
}

impl Tagged {
    /// The content as readers take it apart.
    pub(super) fn text(&self) -> Result<String, QrError> {
        let mut text = part("the prefix", &self.prefix, &['|', '='])?.to_owned();
        let mut add = |name: &str, value: &str| {
            let name = part("a name", name, &['|', '='])?;
            text.push('|');
            text.push_str(name);
            text.push('=');
            text.push_str(value_of(name, value)?);
            Ok::<(), QrError>(())
        };
        match &self.fields {
            Fields::Ordered(fields) => {
                for field in fields {
                    match (&field.value, &field.hash) {
                        (Some(value), None) => add(&field.name, value)?,
                        (None, Some(hashed)) => add(&field.name, &hash(hashed))?,
                        _ => return Err(wrong(&field.name, "needs either a value or a hash")),
                    }
                }
            }
            Fields::ByName(fields) => fields.iter().try_for_each(|(name, value)| add(name, value))?,
        }
        self.hash.iter().try_for_each(|(name, hashed)| add(name, &hash(hashed)))?;
        Ok(text)
    }
}

fn value_of<'a>(name: &str, value: &'a str) -> Result<&'a str, QrError> {
    match value.contains(['|', '\n', '\r', '\0']) {
        true => Err(wrong(name, "has a bar or a line break in its value")),
        false => Ok(value),
    }
}

fn part<'a>(which: &str, text: &'a str, forbidden: &[char]) -> Result<&'a str, QrError> {
    let what = if text.is_empty() {
        "is empty"
    } else if text.contains(forbidden) || text.contains(char::is_control) {
        "has a bar, an equals sign or a control character"
    } else {
        return Ok(text);
    };
    Err(wrong(which, what))
}

fn wrong(part: &str, what: &'static str) -> QrError {
    QrError::Tagged { part: part.to_owned(), what }
}

fn hash(text: &str) -> String {
    base32(&Sha256::digest(text.as_bytes()))
}

/// RFC 4648, without padding.
fn base32(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
    let bit = |at: usize| bytes.get(at / 8).is_some_and(|byte| byte >> (7 - at % 8) & 1 == 1);
    let letter = |from: usize| {
        let value = (from..from + 5).fold(0, |value, at| value << 1 | usize::from(bit(at)));
        char::from(LETTERS[value])
    };
    (0..bytes.len() * 8).step_by(5).map(letter).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base32_is_that_of_the_rfc() {
        let known = ["", "MY", "MZXQ", "MZXW6", "MZXW6YQ", "MZXW6YTB", "MZXW6YTBOI"];
        for (length, wanted) in known.into_iter().enumerate() {
            assert_eq!(base32(&b"foobar"[..length]), wanted);
        }
    }

    #[test]
    fn a_hash_is_the_base32_of_sha_256() {
        assert_eq!(hash(""), "4OYMIQUY7QOBJGX36TEJS35ZEQT24QPEMSNZGTFESWMRW6CSXBKQ");
    }
}
