//! When an answer wants to be asked again.

use std::time::Duration;

use jiff::Timestamp;
use jiff::fmt::rfc2822;
use reqwest::header::{DATE, HeaderMap, RETRY_AFTER};

/// No answer may put a job off for longer.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// What `Retry-After` says, in seconds or as a date, at most a day; nothing if it says nothing usable. A date
/// is measured from the answer's own clock if it tells one, since the two need only agree with one another.
pub(crate) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        // Digits that are too many for a number are more than a day as well.
        return Some(text.parse().map_or(LONGEST, Duration::from_secs).min(LONGEST));
    }
    let sent = headers.get(DATE).and_then(|date| http_date(date.to_str().ok()?));
    let wait = http_date(text)?.duration_since(sent.unwrap_or_else(Timestamp::now));
    Some(Duration::try_from(wait).unwrap_or(Duration::ZERO).min(LONGEST))
}

/// `Sun, 06 Nov 1994 08:49:37 GMT`; a wrong weekday is of no consequence.
fn http_date(text: &str) -> Option<Timestamp> {
    rfc2822::DateTimeParser::new().relaxed_weekday(true).parse_timestamp(text).ok()
}

#[cfg(test)]
mod tests {
    use reqwest::header::HeaderValue;

    use super::*;

    fn told(after: &str, date: Option<&str>) -> Option<u64> {
        let mut headers = HeaderMap::new();
        headers.insert(RETRY_AFTER, HeaderValue::from_str(after).unwrap());
        if let Some(date) = date {
            headers.insert(DATE, HeaderValue::from_str(date).unwrap());
        }
        retry_after(&headers).map(|wait| wait.as_secs())
    }

    #[test]
    fn seconds_and_dates_are_understood_and_capped() {
        let date = Some("Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(told("120", None), Some(120));
        assert_eq!(told("0", None), Some(0));
        assert_eq!(told("Sun, 06 Nov 1994 08:50:07 GMT", date), Some(30));
        assert_eq!(told("Sun, 06 Nov 1994 08:00:00 GMT", date), Some(0), "a time that is past");
        assert_eq!(told("Sun, 06 Nov 2094 08:00:00 GMT", date), Some(86_400));
        assert_eq!(told("99999999999999999999999999", None), Some(86_400));
        for nonsense in ["", "-5", "soon", "1.5", "Sun, 99 Nov 1994 08:49:37 GMT"] {
            assert_eq!(told(nonsense, None), None, "{nonsense}");
        }
        assert_eq!(retry_after(&HeaderMap::new()), None);
    }
}
