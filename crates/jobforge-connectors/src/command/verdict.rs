//! What a program's end means for its job.

use super::fields::Fields;
use super::order::Status;

/// What a way to end stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meaning {
    Success,
    Retryable,
    Permanent,
}

/// Which exit codes mean what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ExitCodes {
    named: Vec<(i32, Meaning)>,
}

/// A program that cannot be run, or is not found, as shells and wrappers tell it: trying again mends nothing.
const HOPELESS: [i32; 2] = [126, 127];

impl Default for ExitCodes {
    fn default() -> ExitCodes {
        ExitCodes { named: vec![(0, Meaning::Success)] }
    }
}

impl ExitCodes {
    pub(super) fn read(fields: &mut Fields<'_>) -> ExitCodes {
        let meanings = [
            ("success", Meaning::Success),
            ("retryable", Meaning::Retryable),
            ("permanent", Meaning::Permanent),
        ];
        let mut named: Vec<(i32, Meaning)> = Vec::new();
        for (name, meaning) in meanings {
            for value in fields.list(name).unwrap_or_default() {
                let code = value.as_integer().and_then(|code| i32::try_from(code).ok());
                match code.filter(|code| (0..=255).contains(code)) {
                    None => fields.problem(name, "must be a list of exit codes from 0 to 255"),
                    Some(code) if named.iter().any(|(known, _)| *known == code) => {
                        fields.problem(name, format!("names {code}, which has a meaning already"));
                    }
                    Some(code) => named.push((code, meaning)),
                }
            }
        }
        if named.iter().all(|(_, meaning)| *meaning != Meaning::Success) {
            named.push((0, Meaning::Success));
        }
        ExitCodes { named }
    }

    /// Killed by a signal is worth another try; so is a code that nobody named.
    pub(super) fn judge(&self, status: Status) -> Meaning {
        let Status::Code(code) = status else { return Meaning::Retryable };
        let named = self.named.iter().find(|(known, _)| *known == code).map(|(_, meaning)| *meaning);
        let other = if HOPELESS.contains(&code) { Meaning::Permanent } else { Meaning::Retryable };
        named.unwrap_or(other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_without_a_meaning_of_their_own_are_retryable_but_for_the_hopeless() {
        let codes = ExitCodes::default();
        let judged = [0, 1, 75, 126, 127, 255].map(|code| codes.judge(Status::Code(code)));
        use Meaning::{Permanent, Retryable, Success};
        assert_eq!(judged, [Success, Retryable, Retryable, Permanent, Permanent, Retryable]);
        assert_eq!(codes.judge(Status::Signal(9)), Retryable);
    }

    #[test]
    fn a_file_may_give_codes_another_meaning_and_each_code_one() {
        let read = |text: &str| {
            let mut problems = Vec::new();
            let mut fields = Fields::new("exit_codes", text.parse().unwrap(), &mut problems);
            let codes = ExitCodes::read(&mut fields);
            fields.end();
            (codes, problems.iter().map(ToString::to_string).collect::<Vec<_>>())
        };
        let (codes, problems) = read("success = [0, 3]\nretryable = [127]\npermanent = [2]");
        assert_eq!(problems, Vec::<String>::new());
        let judged = [0, 3, 127, 2, 1].map(|code| codes.judge(Status::Code(code)));
        use Meaning::{Permanent, Retryable, Success};
        assert_eq!(judged, [Success, Success, Retryable, Permanent, Retryable]);
        // 0 can be taken away only by naming another success.
        assert_eq!(read("success = [1]").0.judge(Status::Code(0)), Retryable);
        assert_eq!(read("permanent = [1]").0.judge(Status::Code(0)), Success);
        for (text, problem) in [
            ("success = [256]", "exit_codes.success: must be a list of exit codes from 0 to 255"),
            ("success = [1]\npermanent = [1]", "exit_codes.permanent: names 1, which has a meaning already"),
            ("fatal = [1]", "exit_codes.fatal: is not known"),
        ] {
            assert_eq!(read(text).1, [problem]);
        }
    }
}
