//! How deep JSON may be and how long its numbers, seen before anybody reads it.
//!
//! A payload is passed on as it stands, so no parser of ours would stumble over it; the database's would: a few bytes
//! like 1e131071 become a hundred thousand digits there. What fits here is judged there, number by number.

use crate::problem::Problem;

/// Levels: of a payload 128, and what stands around it.
const DEEPEST: usize = 140;
/// Characters of a number, and how far an exponent moves its point.
const LONGEST: usize = 400;

/// Refuses what is too deep or has a number that is too long. Whether it is JSON at all is not judged.
pub(crate) fn check(bytes: &[u8]) -> Result<(), Problem> {
    let (mut depth, mut at) = (0_usize, 0);
    while at < bytes.len() {
        match bytes[at] {
            b'"' => at = string_end(bytes, at + 1),
            b'{' | b'[' => {
                depth += 1;
                if depth > DEEPEST {
                    return Err(Problem::malformed("body_too_deep", "the body is nested too deeply"));
                }
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            b'-' | b'0'..=b'9' => {
                let length = bytes[at..].iter().take_while(|c| is_of_number(**c)).count();
                if is_too_long(&bytes[at..at + length]) {
                    let detail = "a number of the body has more than 400 digits";
                    return Err(Problem::malformed("number_too_long", detail));
                }
                at += length - 1;
            }
            _ => {}
        }
        at += 1;
    }
    Ok(())
}

/// Where the string ends that begins here: at its quote, or at the end.
fn string_end(bytes: &[u8], mut at: usize) -> usize {
    while at < bytes.len() {
        match bytes[at] {
            b'"' => break,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    at
}

fn is_of_number(c: u8) -> bool {
    c.is_ascii_digit() || matches!(c, b'-' | b'+' | b'.' | b'e' | b'E')
}

fn is_too_long(number: &[u8]) -> bool {
    let exponent =
        number.iter().position(|c| matches!(c, b'e' | b'E')).map_or(&[][..], |at| &number[at + 1..]);
    let digits = exponent.iter().filter(|c| c.is_ascii_digit());
    let moved = digits.fold(0_usize, |sum, c| sum.saturating_mul(10).saturating_add(usize::from(c - b'0')));
    number.len() > LONGEST || moved > LONGEST
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_payload_may_be_passes() {
        let deep = format!("{}1{}", "[".repeat(140), "]".repeat(140));
        let long = "9".repeat(400);
        for text in [
            r#"{"a": "[[[[\"{{{{ 1e999999", "b": [1.10, -0.5e-300, 1E+400]}"#,
            &deep,
            &long,
            "",
            "\"",
            "\"\\",
            "not JSON",
        ] {
            assert!(check(text.as_bytes()).is_ok(), "{text}");
        }
    }

    #[test]
    fn bombs_do_not() {
        let deep = "[".repeat(141);
        let long = "9".repeat(401);
        for text in [
            deep.as_str(),
            &long,
            "1e401",
            "[1E-99999999999999999999999]",
            "{\"a\":1e+0131071}",
            "\"a\\\\\"1e999",
        ] {
            assert!(check(text.as_bytes()).is_err(), "{text}");
        }
    }
}
