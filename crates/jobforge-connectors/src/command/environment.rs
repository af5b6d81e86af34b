//! The program's environment: what the file names, and nothing else of the worker's.

use std::fmt;

use secrecy::{ExposeSecret, SecretString};

use super::fields::Fields;

/// What a program finds without the file's doing.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Where secrets come from. The worker's own environment is one source; others may follow.
pub trait SecretSource {
    /// The secret behind a reference such as `env:API_TOKEN`, or why there is none. The answer names the
    /// reference and never the secret.
    fn find(&self, reference: &str) -> Result<SecretString, String>;
}

/// The environment the worker was started with: references of the form `env:NAME`.
#[derive(Debug, Clone, Copy, Default)]
pub struct WorkerEnvironment;

impl SecretSource for WorkerEnvironment {
    fn find(&self, reference: &str) -> Result<SecretString, String> {
        let Some(name) = reference.strip_prefix("env:") else {
            return Err(format!("{reference:?} is no reference to a secret: write \"env:NAME\""));
        };
        match std::env::var(name) {
            Ok(value) => Ok(SecretString::from(value)),
            Err(_) => Err(format!("the worker's environment has no {name}")),
        }
    }
}

/// The variables of one command, read when the worker starts.
#[derive(Clone, Default)]
pub(super) struct Variables {
    plain: Vec<(String, String)>,
    secret: Vec<(String, SecretString)>,
}

impl Variables {
    pub(super) fn read(fields: &mut Fields<'_>, secrets: &dyn SecretSource) -> Variables {
        let mut variables = Variables::default();
        for (at, value) in fields.list("pass").unwrap_or_default().iter().enumerate() {
            match value.as_str() {
                Some(name) if is_name(name) => {
                    // What the worker does not have it cannot pass on; that is no fault of the file.
                    variables.plain.extend(std::env::var(name).ok().map(|value| (name.to_owned(), value)));
                }
                _ => fields.problem("pass", format!("element {at} is no name of a variable")),
            }
        }
        fields.within("set", |set| {
            for (name, value) in set.texts() {
                match fault(&name, &value) {
                    Some(fault) => set.problem(&name, fault),
                    None => variables.plain.push((name, value)),
                }
            }
        });
        fields.within("secret", |given| {
            for (name, reference) in given.texts() {
                let found = secrets.find(&reference);
                match (fault(&name, ""), found) {
                    (Some(fault), _) => given.problem(&name, fault),
                    (_, Err(why)) => given.problem(&name, why),
                    (None, Ok(secret)) => variables.secret.push((name, secret)),
                }
            }
        });
        variables
    }

    /// All variables, with what every program finds. Later ones override earlier ones.
    pub(super) fn fill(&self, own: &[(&str, String)]) -> Vec<(String, String)> {
        let mut all = vec![("PATH".to_owned(), PATH.to_owned())];
        let secret = self.secret.iter().map(|(name, value)| (name.clone(), value.expose_secret().to_owned()));
        let own = own.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
        for (name, value) in self.plain.iter().cloned().chain(secret).chain(own) {
            all.retain(|(known, _)| *known != name);
            all.push((name, value));
        }
        all
    }

    /// What must not be seen in what the program prints.
    pub(super) fn secrets(&self) -> Vec<SecretString> {
        self.secret.iter().map(|(_, value)| value.clone()).collect()
    }
}

impl fmt::Debug for Variables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.plain.iter().map(|(name, _)| name).chain(self.secret.iter().map(|(name, _)| name));
        f.debug_list().entries(names).finish()
    }
}

fn is_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    name.bytes().all(plain) && name.bytes().next().is_some_and(|first| !first.is_ascii_digit())
}

fn fault(name: &str, value: &str) -> Option<&'static str> {
    if !is_name(name) {
        Some("is no name of a variable")
    } else if name.starts_with("JOBFORGE_") {
        Some("is JobForge's own: names that begin with JOBFORGE_ are taken")
    } else if value.contains('\0') {
        Some("holds a NUL character, which no variable can")
    } else {
        None
    }
}
