//! How a change is read: what is left out stays, null takes away what can be taken away and is refused elsewhere.

use jobforge_core::Clear;
use serde::{Deserialize, Deserializer};

use crate::problem::Problem;

/// A member that can be taken away.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) enum Change<T> {
    /// It was left out.
    #[default]
    Keep,
    /// It is null.
    Clear,
    /// It is this.
    Set(T),
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Change<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Change<T>, D::Error> {
        Ok(Option::deserialize(deserializer)?.map_or(Change::Clear, Change::Set))
    }
}

impl<T> Change<T> {
    /// The value that is set; notes what is taken away.
    pub(super) fn value(self, what: Clear, cleared: &mut Vec<Clear>) -> Option<T> {
        if matches!(self, Change::Clear) {
            cleared.push(what);
        }
        self.set()
    }

    fn set(self) -> Option<T> {
        match self {
            Change::Keep | Change::Clear => None,
            Change::Set(value) => Some(value),
        }
    }
}

/// A member that cannot be taken away: null is none of its values.
pub(super) fn given<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

/// A rate and its burst, which can be taken away together, or the burst beside a rate that is given.
pub(super) fn rate(
    rate_per_second: Change<f64>,
    rate_burst: Change<i32>,
    cleared: &mut Vec<Clear>,
) -> Result<(Option<f64>, Option<i32>), Problem> {
    if rate_burst == Change::Clear && rate_per_second == Change::Keep {
        let detail =
            "rate_burst is taken away with rate_per_second, or beside a rate_per_second that is given";
        return Err(Problem::malformed("burst_without_rate", detail));
    }
    if Change::Clear == rate_burst || Change::Clear == rate_per_second {
        cleared.push(Clear::Rate);
    }
    Ok((rate_per_second.set(), rate_burst.set()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Input {
        #[serde(default)]
        limit: Change<i32>,
        #[serde(default, deserialize_with = "given")]
        name: Option<String>,
    }

    #[test]
    fn left_out_null_and_a_value_are_three_things() {
        let read = |text: &str| serde_json::from_str::<Input>(text).map(|input| input.limit);
        assert_eq!(read("{}").unwrap(), Change::Keep);
        assert_eq!(read(r#"{"limit": null}"#).unwrap(), Change::Clear);
        assert_eq!(read(r#"{"limit": 3}"#).unwrap(), Change::Set(3));
        assert!(read(r#"{"limit": "3"}"#).is_err());
        assert!(read(r#"{"name": null}"#).is_err(), "what cannot be taken away is not null");
        assert_eq!(serde_json::from_str::<Input>(r#"{"name": "a"}"#).unwrap().name.as_deref(), Some("a"));
    }

    #[test]
    fn a_burst_goes_with_its_rate() {
        let told = |rate_per_second, rate_burst| {
            let mut cleared = Vec::new();
            rate(rate_per_second, rate_burst, &mut cleared).map(|set| (set, cleared)).ok()
        };
        assert_eq!(told(Change::Keep, Change::Set(2)), Some(((None, Some(2)), vec![])));
        assert_eq!(told(Change::Clear, Change::Clear), Some(((None, None), vec![Clear::Rate])));
        assert_eq!(told(Change::Set(1.5), Change::Clear), Some(((Some(1.5), None), vec![Clear::Rate])));
        assert_eq!(told(Change::Keep, Change::Clear), None);
    }
}
