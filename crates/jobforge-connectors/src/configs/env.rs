//! Secrets by reference to the worker's environment. Whoever writes a config names the variable, so that a list
//! of the worker's own must allow it: a tenant must not read the database's URL by naming it.

use std::fmt;
use std::sync::Arc;

use secrecy::SecretString;

/// Never handed out, whatever the list says: they are the worker's own.
const RESERVED: [&str; 5] = [
    "DATABASE_URL",
    "JOBFORGE_DATABASE_URL",
    "JOBFORGE_DIRECT_URL",
    "JOBFORGE_SEAL_KEYS",
    "JOBFORGE_TOKEN_SECRET",
];

/// How a host reads a variable.
type Read = Arc<dyn Fn(&str) -> Option<SecretString> + Send + Sync>;

/// The variables that references may name, and how their values are read.
#[derive(Clone)]
pub struct SecretEnv {
    allowed: Vec<Pattern>,
    read: Read,
}

/// A name, or the beginning of names.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Pattern {
    Name(String),
    Prefix(String),
}

/// Why a variable's value cannot be had.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum SecretEnvError {
    /// The worker's list does not allow it.
    #[error("the worker allows no reference to the variable {name} (its setting worker.secret_env)")]
    NotAllowed {
        /// The variable.
        name: String,
    },
    /// It is not in the worker's environment.
    #[error("the variable {name} is not set in the worker's environment")]
    NotSet {
        /// The variable.
        name: String,
    },
    /// The list has an entry that is neither a name nor the beginning of names.
    #[error("entry {place} is neither a variable's name nor its beginning followed by *")]
    Pattern {
        /// Which entry, from 1 on. Its text may be a secret in place of a secret's name.
        place: usize,
    },
}

impl SecretEnvError {
    /// Whether another worker, or this one after a restart, may have the value.
    pub fn is_transient(&self) -> bool {
        matches!(self, SecretEnvError::NotSet { .. })
    }
}

impl SecretEnv {
    /// These variables, `NAME` or `BEGINNING*`, read this way.
    pub fn new(
        allowed: &[String],
        read: impl Fn(&str) -> Option<SecretString> + Send + Sync + 'static,
    ) -> Result<SecretEnv, SecretEnvError> {
        let parse = |(at, text): (usize, &String)| {
            Pattern::parse(text).ok_or(SecretEnvError::Pattern { place: at + 1 })
        };
        let allowed = allowed.iter().enumerate().map(parse).collect::<Result<_, _>>()?;
        Ok(SecretEnv { allowed, read: Arc::new(read) })
    }

    /// Whether a reference may name this variable.
    pub fn allows(&self, name: &str) -> bool {
        self.allowed.iter().any(|pattern| pattern.matches(name)) && !RESERVED.contains(&name)
    }

    /// The value of a variable that may be named.
    pub fn get(&self, name: &str) -> Result<SecretString, SecretEnvError> {
        if !self.allows(name) {
            return Err(SecretEnvError::NotAllowed { name: name.to_owned() });
        }
        (self.read)(name).ok_or_else(|| SecretEnvError::NotSet { name: name.to_owned() })
    }
}

/// Whether a variable can have this name.
pub fn is_variable(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
}

impl fmt::Debug for SecretEnv {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SecretEnv").field("allowed", &self.allowed).finish_non_exhaustive()
    }
}

impl Pattern {
    fn parse(text: &str) -> Option<Pattern> {
        match text.strip_suffix('*') {
            Some(prefix) => is_variable(prefix).then(|| Pattern::Prefix(prefix.to_owned())),
            None => is_variable(text).then(|| Pattern::Name(text.to_owned())),
        }
    }

    fn matches(&self, name: &str) -> bool {
        match self {
            Pattern::Name(known) => known == name,
            Pattern::Prefix(prefix) => name.starts_with(prefix),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env(allowed: &[&str]) -> SecretEnv {
        let allowed: Vec<String> = allowed.iter().map(|&text| text.to_owned()).collect();
        let read = |name: &str| (!name.ends_with("_UNSET")).then(|| SecretString::from("canary"));
        SecretEnv::new(&allowed, read).unwrap()
    }

    #[test]
    fn only_what_the_list_allows_is_read() {
        let env = env(&["JOBFORGE_SECRET_*", "STRIPE_KEY"]);
        for name in ["JOBFORGE_SECRET_A", "JOBFORGE_SECRET_", "STRIPE_KEY"] {
            assert!(env.get(name).is_ok(), "{name}");
        }
        for name in ["DATABASE_URL", "STRIPE_KEY2", "XJOBFORGE_SECRET_A", "JOBFORGE_SEAL_KEYS", "PATH", ""] {
            let error = env.get(name).unwrap_err();
            assert_eq!(error, SecretEnvError::NotAllowed { name: name.to_owned() });
            assert!(!error.is_transient());
        }
        assert!(env.get("JOBFORGE_SECRET_UNSET").unwrap_err().is_transient());
    }

    #[test]
    fn the_workers_own_are_never_read() {
        let env = env(&["JOBFORGE_*", "DATABASE_URL", "D*"]);
        assert!(env.get("DATA").is_ok());
        for name in RESERVED.into_iter().chain(["JOBFORGE_TOKEN_SECRET"]) {
            assert!(env.get(name).is_err() && !env.allows(name), "{name}");
        }
    }

    #[test]
    fn a_list_that_would_allow_everything_is_refused() {
        for text in ["*", "", "A*B", "A-B", "1A", "A **"] {
            let list = ["A_*".to_owned(), text.to_owned()];
            let error = SecretEnv::new(&list, |_| None).unwrap_err();
            assert_eq!(error, SecretEnvError::Pattern { place: 2 }, "{text}");
        }
    }
}
