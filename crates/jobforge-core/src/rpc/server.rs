//! What kind of server and login a connection has.

use tokio_postgres::{Client, GenericClient};

use super::wire::Columns;
use crate::error::Error;

/// A connection's server and login.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// E.g. 150004.
    pub version: i32,
    /// A standby, or a primary that takes no writes.
    pub read_only: bool,
    /// Who logged in.
    pub login: String,
    /// The login is subject to no rule.
    pub superuser: bool,
    /// The login is not subject to row-level security.
    pub bypasses_rls: bool,
    /// The login may act as an owner of tables or functions.
    pub owner: bool,
}

/// Asks what kind of server and login this is.
pub async fn inspect_server<C: GenericClient>(c: &C) -> Result<Server, Error> {
    const OPERATION: &str = "inspect_server";
    let row = c
        .query_typed_one(
            "select current_setting('server_version_num')::integer,
               pg_is_in_recovery() or current_setting('transaction_read_only')::boolean,
               r.rolname::text, r.rolsuper, r.rolbypassrls,
               exists (select from pg_catalog.pg_roles o where o.rolname in ('jf_owner', 'jf_fn', 'jf_sys')
                 and pg_catalog.pg_has_role(session_user, o.oid, 'member'))
             from pg_catalog.pg_roles r where r.rolname = session_user",
            &[],
        )
        .await
        .map_err(|error| Error::call(OPERATION, error))?;
    let mut columns = Columns::of(OPERATION, &row);
    Ok(Server {
        version: columns.take()?,
        read_only: columns.take()?,
        login: columns.take()?,
        superuser: columns.take()?,
        bypasses_rls: columns.take()?,
        owner: columns.take()?,
    })
}

/// The process of the session that answers.
pub(crate) async fn backend_pid(client: &Client) -> Result<i32, tokio_postgres::Error> {
    client.query_typed_one("select pg_catalog.pg_backend_pid()", &[]).await?.try_get(0)
}
