//! The two payloads of the workloads, in the forms the contenders' interfaces take: text that is ready to be
//! sent, and a JSON value for interfaces that insist on one.

use clap::ValueEnum;
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

/// Which payload a pass carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ValueEnum)]
pub enum Size {
    /// `{"a":1}`
    #[value(name = "small")]
    #[serde(rename = "small")]
    Small,
    /// `{"a":1,"pad":"…"}`, 1 KiB as text
    #[value(name = "1k")]
    #[serde(rename = "1k")]
    OneKib,
}

impl Size {
    pub fn label(self) -> &'static str {
        match self {
            Size::Small => r#"{"a":1}"#,
            Size::OneKib => "1 KiB",
        }
    }
}

/// A job's payload.
#[derive(Debug, Clone)]
pub struct Payload {
    pub text: Box<RawValue>,
    pub value: Value,
}

impl Payload {
    pub fn new(size: Size) -> Self {
        match size {
            Size::Small => Self::from(json!({"a": 1})),
            Size::OneKib => {
                let frame = json!({"a": 1, "pad": ""}).to_string().len();
                let pad: String = ('a'..='z').cycle().take(1024 - frame).collect();
                Self::from(json!({"a": 1, "pad": pad}))
            }
        }
    }

    /// The same payload with a moment in it, for measuring how long a job takes to reach its handler.
    pub fn stamped(&self, stamp_ns: u64) -> Self {
        let mut value = self.value.clone();
        value["stamp_ns"] = json!(stamp_ns);
        Self::from(value)
    }
}

impl From<Value> for Payload {
    fn from(value: Value) -> Self {
        let text = to_raw_value(&value).expect("a JSON value always has a text");
        Self { text, value }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payloads_have_the_sizes_they_are_named_after() {
        assert_eq!(Payload::new(Size::Small).text.get(), r#"{"a":1}"#);
        assert_eq!(Payload::new(Size::OneKib).text.get().len(), 1024);
    }

    #[test]
    fn stamp_is_added_and_nothing_lost() {
        assert_eq!(Payload::new(Size::Small).stamped(7).value, json!({"a": 1, "stamp_ns": 7}));
    }
}
