//! Reading a table field by field, so that every problem is found and told with its path, not only the first.

use std::fmt;
use std::ops::RangeInclusive;

use serde::Serialize;
use toml::{Table, Value};

/// Something wrong in a file of commands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// Where, e.g. `commands."report.pdf".args[2]`.
    pub path: String,
    /// What.
    pub problem: String,
}

impl Problem {
    pub(super) fn new(path: impl Into<String>, problem: impl Into<String>) -> Problem {
        Problem { path: path.into(), problem: problem.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.problem)
    }
}

/// A table whose fields are taken one after another; what nobody took is unknown.
pub(super) struct Fields<'p> {
    path: String,
    table: Table,
    problems: &'p mut Vec<Problem>,
}

impl<'p> Fields<'p> {
    pub(super) fn new(path: impl Into<String>, table: Table, problems: &'p mut Vec<Problem>) -> Fields<'p> {
        Fields { path: path.into(), table, problems }
    }

    /// The path of a field.
    pub(super) fn at(&self, name: &str) -> String {
        let bare = !name.is_empty()
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-');
        let name = if bare { name.to_owned() } else { format!("{name:?}") };
        if self.path.is_empty() { name } else { format!("{}.{name}", self.path) }
    }

    pub(super) fn problem(&mut self, name: &str, problem: impl Into<String>) {
        self.problems.push(Problem::new(self.at(name), problem));
    }

    pub(super) fn text(&mut self, name: &str) -> Option<String> {
        match self.table.remove(name)? {
            Value::String(text) => Some(text),
            _ => self.wrong(name, "must be a text"),
        }
    }

    pub(super) fn flag(&mut self, name: &str) -> Option<bool> {
        match self.table.remove(name)? {
            Value::Boolean(flag) => Some(flag),
            _ => self.wrong(name, "must be true or false"),
        }
    }

    pub(super) fn whole(&mut self, name: &str, range: RangeInclusive<u64>) -> Option<u64> {
        let number = self.table.remove(name)?.as_integer().and_then(|number| u64::try_from(number).ok());
        match number.filter(|number| range.contains(number)) {
            Some(number) => Some(number),
            None => {
                self.wrong(name, format!("must be a whole number from {} to {}", range.start(), range.end()))
            }
        }
    }

    pub(super) fn choice<T: Copy>(&mut self, name: &str, choices: &[(&str, T)]) -> Option<T> {
        let text = self.text(name)?;
        let found = choices.iter().find(|(choice, _)| *choice == text);
        match found {
            Some((_, value)) => Some(*value),
            None => {
                let known: Vec<String> = choices.iter().map(|(choice, _)| format!("{choice:?}")).collect();
                self.wrong(name, format!("must be one of {}", known.join(", ")))
            }
        }
    }

    pub(super) fn list(&mut self, name: &str) -> Option<Vec<Value>> {
        match self.table.remove(name)? {
            Value::Array(list) => Some(list),
            _ => self.wrong(name, "must be a list"),
        }
    }

    pub(super) fn table(&mut self, name: &str) -> Option<Table> {
        match self.table.remove(name)? {
            Value::Table(table) => Some(table),
            _ => self.wrong(name, "must be a table"),
        }
    }

    /// A table within this one, read in the same way; what it does not know is told too.
    pub(super) fn within<T>(&mut self, name: &str, read: impl FnOnce(&mut Fields<'_>) -> T) -> Option<T> {
        let table = self.table(name)?;
        let mut fields = Fields::new(self.at(name), table, self.problems);
        let value = read(&mut fields);
        fields.end();
        Some(value)
    }

    /// Every name in the table, in its order, with a text.
    pub(super) fn texts(&mut self) -> Vec<(String, String)> {
        let names: Vec<String> = self.table.keys().cloned().collect();
        names.into_iter().filter_map(|name| self.text(&name).map(|text| (name, text))).collect()
    }

    pub(super) fn problems(&mut self) -> &mut Vec<Problem> {
        self.problems
    }

    /// Refuses whatever was not taken.
    pub(super) fn end(self) {
        for name in self.table.keys() {
            self.problems.push(Problem::new(self.at(name), "is not known"));
        }
    }

    fn wrong<T>(&mut self, name: &str, problem: impl Into<String>) -> Option<T> {
        self.problem(name, problem);
        None
    }
}
