//! The one Postgres all contenders share, and the fresh database each pass gets on it.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde::Serialize;
use tokio::time::{Instant, sleep};
use tokio_postgres::Client;
use tokio_postgres::types::Type;
use url::Url;

use crate::connection::connect;

/// What the figures depend on, shown with them. The first five must be as production has them.
const SHOWN_SETTINGS: [&str; 11] = [
    "fsync",
    "synchronous_commit",
    "full_page_writes",
    "shared_buffers",
    "max_wal_size",
    "checkpoint_timeout",
    "wal_level",
    "wal_compression",
    "autovacuum",
    "jit",
    "max_connections",
];

/// How long backends may take to end after their clients have gone.
const BACKEND_EXIT_TIMEOUT: Duration = Duration::from_secs(10);

/// A server the bench may create and drop databases on.
pub struct Server {
    url: Url,
    admin: Client,
}

/// A database on the server, made for one pass.
pub struct Database {
    pub name: String,
    pub url: String,
}

/// One line of `show all`.
#[derive(Debug, Clone, Serialize)]
pub struct Setting {
    pub name: String,
    pub value: String,
}

impl Server {
    /// `url` must be a superuser's: the bench checkpoints, and creates databases and roles.
    pub async fn connect(url: &str) -> Result<Self> {
        let url = Url::parse(url).context("the database url is not a url")?;
        let admin = connect(url.as_str()).await?;
        Ok(Self { url, admin })
    }

    pub fn admin(&self) -> &Client {
        &self.admin
    }

    /// The version and the settings the figures depend on.
    pub async fn settings(&self) -> Result<Vec<Setting>> {
        let mut settings = Vec::new();
        for name in ["server_version"].iter().chain(&SHOWN_SETTINGS) {
            let row = self
                .admin
                .query_typed_one("select current_setting($1)", &[(name, Type::TEXT)])
                .await
                .with_context(|| format!("reading the setting {name}"))?;
            settings.push(Setting { name: (*name).to_owned(), value: row.get(0) });
        }
        Ok(settings)
    }

    /// An empty database of that name; what was there before is gone.
    pub async fn fresh_database(&self, name: String) -> Result<Database> {
        let mut url = self.url.clone();
        url.set_path(&name);
        let database = Database { name, url: url.into() };
        self.drop_database(&database).await?;
        self.admin
            .batch_execute(&format!("create database {}", database.name))
            .await
            .with_context(|| format!("creating the database {}", database.name))?;
        Ok(database)
    }

    /// A copy of a database that nobody is connected to; what had its name before is gone.
    pub async fn copy_database(&self, original: &Database, name: &str) -> Result<Database> {
        let mut url = self.url.clone();
        url.set_path(name);
        let database = Database { name: name.to_owned(), url: url.into() };
        self.drop_database(&database).await?;
        self.wait_until_unused(original).await?;
        self.admin
            .batch_execute(&format!("create database {name} template {}", original.name))
            .await
            .with_context(|| format!("copying the database {}", original.name))?;
        Ok(database)
    }

    pub async fn drop_database(&self, database: &Database) -> Result<()> {
        self.admin
            .batch_execute(&format!("drop database if exists {} with (force)", database.name))
            .await
            .with_context(|| format!("dropping the database {}", database.name))
    }

    /// Settles a database before a measurement, so that each starts from the same place: statistics fresh, pages
    /// clean, and the first touch of each page paying for its full image.
    ///
    /// To be called while nobody is connected; nobody is when it returns, so that its own transactions are
    /// reported before anyone counts.
    pub async fn settle(&self, database: &Database) -> Result<()> {
        self.refresh(database).await?;
        self.wait_until_unused(database).await
    }

    /// As [`Self::settle`], while somebody stays connected.
    pub async fn refresh(&self, database: &Database) -> Result<()> {
        let client = connect(&database.url).await?;
        client.batch_execute("vacuum analyze").await.context("vacuuming before a measurement")?;
        self.admin.batch_execute("checkpoint").await.context("checkpointing before a measurement")
    }

    /// Bytes of all tables of a schema, with their indexes and out-of-line values.
    pub async fn schema_bytes(&self, database: &Database, schema: &str) -> Result<i64> {
        let client = connect(&database.url).await?;
        let row = client
            .query_typed_one(
                "select coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint
                 from pg_class c
                 where c.relnamespace = $1::regnamespace and c.relkind in ('r', 'm')",
                &[(&schema, Type::TEXT)],
            )
            .await
            .context("sizing the contender's tables")?;
        Ok(row.get(0))
    }

    /// Waits until no client is connected to the database: a backend reports its last transactions when it ends.
    pub async fn wait_until_unused(&self, database: &Database) -> Result<()> {
        let deadline = Instant::now() + BACKEND_EXIT_TIMEOUT;
        loop {
            let row = self
                .admin
                .query_typed_one(
                    "select count(*) from pg_stat_activity
                     where datname = $1 and backend_type = 'client backend'",
                    &[(&database.name, Type::TEXT)],
                )
                .await
                .context("counting backends")?;
            let backends: i64 = row.get(0);
            if backends == 0 {
                return Ok(());
            }
            ensure!(
                Instant::now() < deadline,
                "{backends} backends stay on {} after its clients left",
                database.name
            );
            sleep(Duration::from_millis(5)).await;
        }
    }
}
