//! One database for one test.

use std::thread;

use jobforge_postgres::Address;
use tokio_postgres::{Client, NoTls};
use uuid::Uuid;

use crate::or_fail::OrFail;

/// A database of the shared test Postgres, deleted when this is dropped.
#[derive(Debug)]
pub struct TestDb {
    name: String,
    address: Address,
}

impl TestDb {
    /// The database's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The superuser's URL.
    pub fn super_url(&self) -> String {
        self.address.superuser_url(&self.name)
    }

    /// The URL of a role: over TCP with its password, or without one over the unix socket.
    pub fn url_as(&self, role: &str, password: Option<&str>) -> String {
        self.address.url_as(role, password, &self.name)
    }

    /// The TCP port of the server on 127.0.0.1, e.g. as the target of a proxy.
    pub fn cluster_port(&self) -> u16 {
        self.address.port()
    }

    /// A connection to any URL; its background task ends with the client.
    pub async fn connect(&self, url: &str) -> Client {
        connect(url).await
    }

    /// A connection as superuser.
    pub async fn connect_super(&self) -> Client {
        connect(&self.socket_url()).await
    }

    /// The superuser's URL over the unix socket, which needs no password: checking one costs an
    /// unoptimised build some fifty milliseconds.
    pub(crate) fn socket_url(&self) -> String {
        self.url_as("postgres", None)
    }

    pub(crate) async fn clone_of(admin: &Client, address: &Address, template: &str) -> TestDb {
        let name = format!("test_{}", Uuid::new_v4().simple());
        // Without fsync copying files is quicker than logging every page of the template.
        let sql = format!("create database {name} template {template} strategy file_copy");
        admin.batch_execute(&sql).await.or_fail("create the test's database");
        TestDb { name, address: address.clone() }
    }
}

impl Drop for TestDb {
    /// From a thread of its own, because the test's runtime may be ending. Best effort: what is left
    /// goes away with the shared Postgres.
    fn drop(&mut self) {
        let url = admin_url(&self.address);
        let sql = format!("drop database if exists {} with (force)", self.name);
        let dropped = thread::spawn(move || -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(async {
                let (client, connection) = tokio_postgres::connect(&url, NoTls).await?;
                tokio::spawn(connection);
                Ok(client.batch_execute(&sql).await?)
            })
        });
        if !matches!(dropped.join(), Ok(Ok(()))) {
            eprintln!("the database {} was not deleted", self.name);
        }
    }
}

/// The URL from which databases are made and deleted.
pub(crate) fn admin_url(address: &Address) -> String {
    address.url_as("postgres", None, "postgres")
}

/// A connection to any URL; its background task ends with the client.
pub async fn connect(url: &str) -> Client {
    let (client, connection) =
        tokio_postgres::connect(url, NoTls).await.or_fail("connect to the test Postgres");
    tokio::spawn(connection);
    client
}
