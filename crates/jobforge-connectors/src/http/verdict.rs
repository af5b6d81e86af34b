//! What a status means for the job.

use reqwest::StatusCode;
use serde::{Deserialize, Deserializer};

use super::payload::HttpRequest;

/// What an answer makes of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is done.
    Success,
    /// It failed and is worth another attempt.
    Retryable,
    /// It failed for good.
    Permanent,
}

impl Verdict {
    /// The payload's lists first, in this order: expect, permanent, retryable; then what is usual.
    pub(super) fn of(status: StatusCode, request: &HttpRequest) -> Verdict {
        if request.expect.contains(status) {
            Verdict::Success
        } else if request.permanent.contains(status) {
            Verdict::Permanent
        } else if request.retryable.contains(status) || is_passing(status) {
            Verdict::Retryable
        } else {
            Verdict::Permanent
        }
    }
}

/// Whether the same request may be answered otherwise later.
fn is_passing(status: StatusCode) -> bool {
    status.is_server_error() || matches!(status, StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS)
}

/// A set of statuses: single ones and whole classes.
#[derive(Debug, Default)]
pub(super) struct StatusSet(Vec<Statuses>);

#[derive(Debug)]
enum Statuses {
    One(u16),
    /// `2xx` is class 2.
    Class(u16),
}

impl StatusSet {
    pub(super) fn of_class(class: u16) -> StatusSet {
        StatusSet(vec![Statuses::Class(class)])
    }

    fn contains(&self, status: StatusCode) -> bool {
        let status = status.as_u16();
        self.0.iter().any(|statuses| match statuses {
            Statuses::One(one) => *one == status,
            Statuses::Class(class) => *class == status / 100,
        })
    }
}

impl<'de> Deserialize<'de> for StatusSet {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<StatusSet, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            One(u16),
            Class(String),
        }
        let read = |written| match written {
            Written::One(status) => Ok(Statuses::One(status)),
            Written::Class(class) => {
                let digit = class.strip_suffix("xx").and_then(|digit| digit.parse().ok());
                digit.map(Statuses::Class).ok_or_else(|| serde::de::Error::custom("no class of statuses"))
            }
        };
        let written = Vec::<Written>::deserialize(from)?;
        written.into_iter().map(read).collect::<Result<_, _>>().map(StatusSet)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn verdict(request: &serde_json::Value, status: u16) -> Verdict {
        let request = serde_json::from_str(&request.to_string()).unwrap();
        Verdict::of(StatusCode::from_u16(status).unwrap(), &request)
    }

    #[test]
    fn the_usual_meaning_of_statuses() {
        let plain = json!({ "url": "https://a.example/" });
        for (expected, statuses) in [
            (Verdict::Success, vec![200, 204, 299]),
            (Verdict::Retryable, vec![408, 429, 500, 502, 503, 599]),
            (Verdict::Permanent, vec![301, 304, 400, 401, 403, 404, 409, 410, 422]),
        ] {
            for status in statuses {
                assert_eq!(verdict(&plain, status), expected, "{status}");
            }
        }
    }

    #[test]
    fn the_payload_may_say_otherwise() {
        let request = json!({ "url": "https://a.example/", "expect": [200, 404], "permanent": ["5xx"], "retryable": [503, 409, "3xx"] });
        for (status, expected) in [
            (200, Verdict::Success),
            (404, Verdict::Success),
            (201, Verdict::Permanent),
            (500, Verdict::Permanent),
            (503, Verdict::Permanent),
            (409, Verdict::Retryable),
            (302, Verdict::Retryable),
            (429, Verdict::Retryable),
        ] {
            assert_eq!(verdict(&request, status), expected, "{status}");
        }
    }
}
