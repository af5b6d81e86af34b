//! What is wrong with a JSON text before it is sent. A value that jsonb cannot take fails the whole
//! statement before any function runs, so one bad row would spoil its batch.

use super::job::Payload;
use super::new_job::Refusal;
use crate::error::{Code, Error};

/// The most bytes of a payload.
pub(crate) const MAX_PAYLOAD: usize = 256 * 1024;
/// The most bytes of a result.
pub(crate) const MAX_RESULT: usize = 1024 * 1024;

/// One level more than functions accept: whether the innermost is empty is theirs to judge.
const MAX_DEPTH: usize = 129;
const MAX_NUMBER: i64 = 400;

/// The reason to refuse this JSON text, if there is one.
pub(crate) fn problem(json: &str, max_bytes: usize) -> Option<&'static str> {
    if json.len() > max_bytes {
        return Some("payload_too_large");
    }
    let bytes = json.as_bytes();
    let (mut at, mut depth) = (0, 0_usize);
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'"' => match string_end(bytes, at + 1) {
                Ok(end) => at = end,
                Err(reason) => return Some(reason),
            },
            b'[' | b'{' => {
                depth += 1;
                if depth > MAX_DEPTH {
                    return Some("payload_too_deep");
                }
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            b'-' | b'0'..=b'9' => {
                let end = at + bytes[at..].iter().take_while(|byte| is_of_number(**byte)).count();
                if number_length(&json[at..end]) > MAX_NUMBER {
                    return Some("number_too_long");
                }
                at = end;
                continue;
            }
            _ => {}
        }
        at += 1;
    }
    None
}

/// Refuses JSON of a caller that jsonb cannot take: it would fail the statement with words of the database's own.
pub(crate) fn check(
    operation: &'static str,
    json: Option<&Payload>,
    reason: &str,
    subject: &str,
) -> Result<(), Error> {
    match json.and_then(|json| problem(json.get(), MAX_PAYLOAD)) {
        Some(problem) => {
            let refusal = Refusal { code: Code::InvalidArgument, reason: reason.to_owned() };
            Err(refusal.into_error(operation, &problem.replace("payload", subject).replace('_', " ")))
        }
        None => Ok(()),
    }
}

/// The place of the closing quote; the text is known to be JSON, so escapes are complete.
fn string_end(bytes: &[u8], mut at: usize) -> Result<usize, &'static str> {
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'"' => return Ok(at),
            b'\\' if bytes.get(at + 1) == Some(&b'u') => match unit(bytes, at) {
                0 => return Err("payload_nul"),
                0xD800..=0xDBFF if matches!(unit(bytes, at + 6), 0xDC00..=0xDFFF) => at += 12,
                0xD800..=0xDFFF => return Err("payload_half_surrogate"),
                _ => at += 6,
            },
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    Ok(at)
}

/// The UTF-16 unit of the escape at this place; one that is none counts as a space.
fn unit(bytes: &[u8], at: usize) -> u32 {
    let escape = bytes.get(at..at + 6).filter(|escape| escape.starts_with(b"\\u"));
    let digits = escape.and_then(|escape| std::str::from_utf8(&escape[2..]).ok());
    digits.and_then(|digits| u32::from_str_radix(digits, 16).ok()).unwrap_or(0x20)
}

fn is_of_number(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E')
}

/// How long a number is once its exponent is written out, as jsonb does.
fn number_length(text: &str) -> i64 {
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let exponent: i64 = exponent.parse().unwrap_or(i64::MAX / 4);
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let length = |part: &str| i64::try_from(part.len()).unwrap_or(i64::MAX / 4);
    let scale = (length(fraction) - exponent).max(0);
    (length(whole) + exponent).max(1) + scale + i64::from(scale > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(json: &str) -> Option<&'static str> {
        let _: Box<serde_json::value::RawValue> = serde_json::from_str(json).unwrap();
        problem(json, MAX_PAYLOAD)
    }

    #[test]
    fn nul_is_seen_and_an_escaped_backslash_is_not_nul() {
        assert_eq!(found(r#"{"a":"x\u0000"}"#), Some("payload_nul"));
        assert_eq!(found(r#"{"\u0000":1}"#), Some("payload_nul"));
        assert_eq!(found(r#""\\\u0000""#), Some("payload_nul"));
        assert_eq!(found(r#""\\u0000""#), None);
        assert_eq!(found(r#""\"\\u0000\u0001""#), None);
    }

    #[test]
    fn half_a_surrogate_pair_is_seen() {
        assert_eq!(found(r#""\ud83d\ude00""#), None);
        for half in [r#""\ud83d""#, r#""\ude00""#, r#""\ud83dx""#, r#""\ud83d\n""#] {
            assert_eq!(found(half), Some("payload_half_surrogate"), "{half}");
        }
    }

    #[test]
    fn size_depth_and_numbers_are_bounded() {
        assert_eq!(found(&format!("\"{}\"", "a".repeat(MAX_PAYLOAD))), Some("payload_too_large"));
        let nested = |levels: usize| "[".repeat(levels) + &"]".repeat(levels);
        assert_eq!(found(&nested(129)), None);
        assert_eq!(found(&nested(130)), Some("payload_too_deep"));
        assert_eq!(found(&format!("\"{}\"", "[".repeat(200))), None);
        for long in ["1e401", "-1E+99999999999999999999", "1e-500", "1e200000"] {
            assert_eq!(found(long), Some("number_too_long"), "{long}");
        }
        assert_eq!(found(&"9".repeat(401)), Some("number_too_long"));
        assert_eq!(found("[9007199254740993, 1.10, -1e300, 1e-300]"), None);
    }
}
