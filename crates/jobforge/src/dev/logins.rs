//! The logins of a development server: one for each thing that talks to the database, none of them able to
//! do more than it must. Their passwords are made once and kept.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use tokio_postgres::Config;
use tokio_postgres::config::Host;
use uuid::Uuid;

/// Owns the database, migrates it and makes roles; no superuser, as on a managed Postgres.
pub(crate) const ADMIN: &str = "jobforge_admin";
/// An application's backend.
pub(crate) const APP: &str = "jobforge_app";
/// The worker.
pub(crate) const WORKER: &str = "jobforge_worker";
/// The scheduler, and whoever operates.
pub(crate) const OPERATOR: &str = "jobforge_scheduler";

/// Passwords by login.
#[derive(Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Logins {
    passwords: BTreeMap<String, String>,
}

impl Logins {
    /// New passwords for all.
    pub(crate) fn generate() -> Logins {
        // 244 random bits, in characters that need no quoting anywhere.
        let password = || format!("{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple());
        let names = [ADMIN, APP, WORKER, OPERATOR];
        Logins { passwords: names.into_iter().map(|name| (name.to_owned(), password())).collect() }
    }

    pub(crate) fn password(&self, login: &str) -> Result<&str> {
        let password = self.passwords.get(login).map(String::as_str);
        password.with_context(|| format!("there is no password of {login}"))
    }
}

/// The same database as another login. Only host, port and name of the database are taken over.
pub(crate) fn url_as(url: &str, login: &str, password: &str) -> Result<String> {
    // The driver's message may repeat the URL, and so its password.
    let config: Config = url.parse().ok().context("the database URL cannot be read")?;
    let host = match config.get_hosts().first() {
        Some(Host::Tcp(host)) if host.contains(':') => format!("[{host}]"),
        Some(Host::Tcp(host)) => host.clone(),
        Some(Host::Unix(path)) => path.to_string_lossy().replace('%', "%25").replace('/', "%2F"),
        None => "localhost".to_owned(),
    };
    let port = config.get_ports().first().copied().unwrap_or(5432);
    let database = config.get_dbname().or(config.get_user()).unwrap_or("postgres");
    Ok(format!("postgres://{login}:{password}@{host}:{port}/{database}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_login_of_the_same_database() {
        let other = |url| url_as(url, "app", "pw").unwrap();
        assert_eq!(
            other("postgres://a:b@db.example:7000/jobs?connect_timeout=3"),
            "postgres://app:pw@db.example:7000/jobs"
        );
        assert_eq!(other("postgres://a@db.example"), "postgres://app:pw@db.example:5432/a");
        let socket = other("postgres://a@%2Ftmp%2Fpg:7000/jobs");
        assert_eq!(socket, "postgres://app:pw@%2Ftmp%2Fpg:7000/jobs");
        assert!(socket.parse::<Config>().is_ok());
    }
}
