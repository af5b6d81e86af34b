//! Derived dedupe keys for callers who have none: `type::tenant::canonical JSON`, the same text that the
//! database's `dedupe_key` makes.
//!
//! Canonical means: keys sorted by their bytes, the last of equal keys kept, no spaces, numbers written out
//! without exponent and trailing zeros. It works on the text, because a number of any length must stay
//! exact. Shared vectors: `conformance/dedupe_keys.json`.

use std::collections::BTreeMap;

use serde_json::value::RawValue;
use uuid::Uuid;

/// Functions refuse deeper payloads; below it the text stays as it is, so that recursion has an end.
const MAX_DEPTH: usize = 129;
/// The database has no numbers beyond this exponent.
const MAX_EXPONENT: i64 = 200_000;

/// The derived key of a job.
pub fn dedupe_key(tenant: Uuid, job_type: &str, payload: &RawValue) -> String {
    let tenant = if tenant.is_nil() { "global".to_owned() } else { tenant.to_string() };
    let mut key = format!("{job_type}::{tenant}::");
    write_canonical(&mut key, payload.get(), 0);
    key
}

fn write_canonical(out: &mut String, json: &str, depth: usize) {
    let json = json.trim();
    let written = match json.as_bytes().first() {
        _ if depth > MAX_DEPTH => None,
        Some(b'{') => write_object(out, json, depth),
        Some(b'[') => write_array(out, json, depth),
        Some(b'"') => write_string(out, json),
        Some(b'-' | b'0'..=b'9') => plain_number(json).map(|number| out.push_str(&number)),
        _ => None,
    };
    if written.is_none() {
        out.push_str(json);
    }
}

fn write_object(out: &mut String, json: &str, depth: usize) -> Option<()> {
    // A map keeps the last of equal keys and sorts by bytes, as the database does.
    let entries: BTreeMap<String, &RawValue> = serde_json::from_str(json).ok()?;
    out.push('{');
    for (at, (key, value)) in entries.iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        out.push_str(&serde_json::Value::from(key.as_str()).to_string());
        out.push(':');
        write_canonical(out, value.get(), depth + 1);
    }
    out.push('}');
    Some(())
}

fn write_array(out: &mut String, json: &str, depth: usize) -> Option<()> {
    let items: Vec<&RawValue> = serde_json::from_str(json).ok()?;
    out.push('[');
    for (at, item) in items.iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        write_canonical(out, item.get(), depth + 1);
    }
    out.push(']');
    Some(())
}

fn write_string(out: &mut String, json: &str) -> Option<()> {
    let text: String = serde_json::from_str(json).ok()?;
    out.push_str(&serde_json::Value::from(text).to_string());
    Some(())
}

/// A number written out: `1.50e2` is `150`, `-0` is `0`.
fn plain_number(json: &str) -> Option<String> {
    let (sign, unsigned) = json.strip_prefix('-').map_or(("", json), |rest| ("-", rest));
    let (mantissa, exponent) = unsigned.split_once(['e', 'E']).unwrap_or((unsigned, "0"));
    let exponent: i64 = exponent.parse().ok().filter(|exponent: &i64| exponent.abs() <= MAX_EXPONENT)?;
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    // The point stands before the digit of this index.
    let point = i64::try_from(whole.len()).ok()? + exponent;
    let digit = |at: i64| {
        usize::try_from(at).ok().and_then(|at| digits.as_bytes().get(at)).map_or('0', |b| char::from(*b))
    };
    let length = i64::try_from(digits.len()).ok()?;
    let whole: String = (point.min(0)..point).map(digit).collect();
    let fraction: String = (point..length.max(point)).map(digit).collect();
    let (whole, fraction) = (whole.trim_start_matches('0'), fraction.trim_end_matches('0'));
    Some(match (whole, fraction) {
        ("", "") => "0".to_owned(),
        (whole, "") => format!("{sign}{whole}"),
        ("", fraction) => format!("{sign}0.{fraction}"),
        (whole, fraction) => format!("{sign}{whole}.{fraction}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn canonical(json: &str) -> String {
        let value: Box<RawValue> = serde_json::from_str(json).unwrap();
        let mut out = String::new();
        write_canonical(&mut out, value.get(), 0);
        out
    }

    #[test]
    fn numbers_are_written_out() {
        for (json, plain) in [
            ("0", "0"),
            ("-0", "0"),
            ("-0.0e5", "0"),
            ("1.10", "1.1"),
            ("100", "100"),
            ("1e2", "100"),
            ("1.5E+2", "150"),
            ("-12.50e-3", "-0.0125"),
            ("1e-7", "0.0000001"),
            ("123.456e1", "1234.56"),
            ("0.001e2", "0.1"),
            ("9007199254740993", "9007199254740993"),
            ("123456789012345678901234567890.5", "123456789012345678901234567890.5"),
        ] {
            assert_eq!(canonical(json), plain, "{json}");
        }
    }

    #[test]
    fn what_cannot_be_a_payload_does_not_panic() {
        assert_eq!(canonical("1e999999999999999999999"), "1e999999999999999999999");
        let deep = "[".repeat(5000) + &"]".repeat(5000);
        assert_eq!(canonical(&deep), deep);
        assert_eq!(canonical(r#""\ud800""#), r#""\ud800""#);
    }
}
