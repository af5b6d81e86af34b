//! The roles and the database of a development server, made as an operator of a managed Postgres would make
//! them: the schema by a login that may make roles but is no superuser, everything else by logins that may do
//! even less.

use anyhow::{Context, Result};
use jobforge_connectors::connectors;
use jobforge_core::Tenant;
use jobforge_core::connect::connect;
use jobforge_core::migrate::{self, Report};
use jobforge_core::rpc::{bind_login, upsert_definition, upsert_tenant};
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

use crate::demo;
use crate::dev::logins::{ADMIN, APP, Logins, OPERATOR, WORKER, url_as};
use crate::dev::server::Access;

const DATABASE: &str = "jobforge";

/// A login, its role, and whether its forgotten transactions are ended. An application's are its own
/// business.
const LOGINS: [(&str, &str, bool); 3] =
    [(APP, "jf_tenant", false), (WORKER, "jf_worker", true), (OPERATOR, "jf_operator", true)];

/// The URLs of a prepared database.
pub(crate) struct Urls {
    pub(crate) app: String,
    pub(crate) worker: String,
    pub(crate) operator: String,
}

/// Makes roles, database, schema, demo tenant and demo types; what is there already stays.
pub(crate) async fn prepare(access: &Access, logins: &Logins) -> Result<(Urls, Report)> {
    let admin_url = match access {
        Access::Superuser(address) => {
            make_database(&address.superuser_url("postgres"), logins.password(ADMIN)?).await?;
            address.url_as(ADMIN, Some(logins.password(ADMIN)?), DATABASE)
        }
        Access::Given(url) => {
            make_or_know(url, logins).await?;
            url.clone()
        }
    };
    let report = migrate::up(&admin_url).await.context("cannot bring the schema up to date")?;
    if let Access::Superuser(_) = access {
        make_roles(&admin_url, logins).await?;
    }
    set_up_logins(&admin_url).await?;
    let url = |login| url_as(&admin_url, login, logins.password(login)?);
    let urls = Urls { app: url(APP)?, worker: url(WORKER)?, operator: url(OPERATOR)? };
    register(&urls.operator).await?;
    Ok((urls, report))
}

/// As superuser: the admin and its database. Nothing else is done as superuser.
async fn make_database(superuser_url: &str, password: &str) -> Result<()> {
    let client = open(superuser_url).await?;
    client.batch_execute(&role_sql(ADMIN, password)).await.context("cannot make the role of the admin")?;
    client
        .batch_execute(&format!("alter role {ADMIN} createrole"))
        .await
        .context("cannot set up the admin")?;
    match client.batch_execute(&format!("create database {DATABASE} owner {ADMIN}")).await {
        Err(error) if error.code() != Some(&SqlState::DUPLICATE_DATABASE) => {
            Err(error).context("cannot create the database")
        }
        _ => Ok(()),
    }
}

/// Logins are those of a whole server, which others may use: one that is there keeps its password, and has to be known.
async fn make_or_know(admin_url: &str, logins: &Logins) -> Result<()> {
    let mut client = open(admin_url).await?;
    for (login, _, _) in LOGINS {
        let password = logins.password(login)?;
        let make = client.transaction().await.context("cannot begin")?;
        // Apart from its password, since this may fail and would be written into the server's log.
        match make.batch_execute(&format!("create role {login} login")).await {
            Ok(()) => {
                let sql = format!("alter role {login} password '{password}'");
                make.batch_execute(&sql).await.with_context(|| format!("cannot make the login {login}"))?;
                make.commit().await.with_context(|| format!("cannot make the login {login}"))?;
            }
            Err(error) if error.code() == Some(&SqlState::DUPLICATE_OBJECT) => {
                make.rollback().await.context("cannot roll back")?;
                open(&url_as(admin_url, login, password)?).await.with_context(|| {
                    format!(
                        "the login {login} is in this server already, and the password that this data directory has \
                         does not fit: use the directory that made the login, or drop it"
                    )
                })?;
            }
            Err(error) => return Err(error).with_context(|| format!("cannot make the login {login}")),
        }
    }
    Ok(())
}

/// As admin of a private server: the logins of everything that runs.
async fn make_roles(admin_url: &str, logins: &Logins) -> Result<()> {
    let client = open(admin_url).await?;
    for (login, _, _) in LOGINS {
        let sql = role_sql(login, logins.password(login)?);
        client.batch_execute(&sql).await.with_context(|| format!("cannot make the login {login}"))?;
    }
    Ok(())
}

/// As admin: what the logins may do.
async fn set_up_logins(admin_url: &str) -> Result<()> {
    let client = open(admin_url).await?;
    for (login, role, bounded) in LOGINS {
        let mut sql = format!("grant {role} to {login};");
        if bounded {
            sql.push_str(&format!("alter role {login} set idle_in_transaction_session_timeout = '10s';"));
        }
        client.batch_execute(&sql).await.with_context(|| format!("cannot set up the login {login}"))?;
    }
    Ok(())
}

/// As operator: who acts for whom, the demo tenant, the demo types and those of the connectors.
async fn register(operator_url: &str) -> Result<()> {
    let client = open(operator_url).await?;
    for (login, _, _) in LOGINS {
        bind_login(&client, login, None).await?;
    }
    upsert_tenant(&client, &Tenant::named(demo::TENANT, "demo")).await?;
    let connectors = connectors().map(|connector| connector.definition());
    for definition in demo::definitions().into_iter().chain(connectors) {
        upsert_definition(&client, &definition).await?;
    }
    Ok(())
}

/// A role that may log in with this password, whether it was there or not. The password stands in a statement
/// that cannot fail on what exists: a failed one would be written into the server's log.
fn role_sql(login: &str, password: &str) -> String {
    format!(
        "do $$ begin create role {login} login; exception when duplicate_object then null; end $$;
         alter role {login} login password '{password}';"
    )
}

async fn open(url: &str) -> Result<Client> {
    let (client, connection) = connect(url).await?;
    tokio::spawn(connection);
    Ok(client)
}
