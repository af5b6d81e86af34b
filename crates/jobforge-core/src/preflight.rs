//! Refuses to run on a connection that could do more than it may, or on a server that is too old.
//!
//! Row-level security binds neither a superuser nor a table's owner: as one of them a forgotten filter
//! would show every tenant's data, and no test would notice.

use std::fmt;

use tokio_postgres::GenericClient;

use crate::error::Error;
use crate::rpc::{Server, inspect_server};

/// The oldest server: 15.0.
const OLDEST_VERSION: i32 = 150_000;

/// Why a connection is not fit for use.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unfit {
    /// The login is a superuser.
    Superuser(String),
    /// The login is not subject to row-level security.
    BypassesRls(String),
    /// The login is a member of an owner of tables or functions.
    Owner(String),
    /// The server is older than 15.
    TooOld(i32),
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unfit::Superuser(login) => write!(f, "{login} is a superuser"),
            Unfit::BypassesRls(login) => write!(f, "{login} bypasses row-level security"),
            Unfit::Owner(login) => write!(f, "{login} may act as an owner of JobForge's tables"),
            Unfit::TooOld(version) => write!(f, "Postgres {} is older than 15", version / 10_000),
        }
    }
}

/// Refuses a superuser, a login that bypasses row-level security, an owner, and a server older than 15.
pub async fn check<C: GenericClient>(c: &C) -> Result<(), Error> {
    match judge(inspect_server(c).await?) {
        Some(unfit) => Err(Error::Unfit(unfit)),
        None => Ok(()),
    }
}

fn judge(server: Server) -> Option<Unfit> {
    if server.version < OLDEST_VERSION {
        Some(Unfit::TooOld(server.version))
    } else if server.superuser {
        Some(Unfit::Superuser(server.login))
    } else if server.bypasses_rls {
        Some(Unfit::BypassesRls(server.login))
    } else if server.owner {
        Some(Unfit::Owner(server.login))
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_fault_is_named() {
        let fit = Server {
            version: 150_000,
            read_only: false,
            login: "app".to_owned(),
            superuser: false,
            bypasses_rls: false,
            owner: false,
        };
        assert_eq!(judge(fit.clone()), None);
        assert_eq!(judge(Server { version: 140_012, ..fit.clone() }), Some(Unfit::TooOld(140_012)));
        let login = || "app".to_owned();
        assert_eq!(judge(Server { superuser: true, ..fit.clone() }), Some(Unfit::Superuser(login())));
        assert_eq!(judge(Server { bypasses_rls: true, ..fit.clone() }), Some(Unfit::BypassesRls(login())));
        assert_eq!(judge(Server { owner: true, ..fit }), Some(Unfit::Owner(login())));
    }
}
