//! A Postgres of the bench's own, with production durability, gone when the bench ends.

use std::env;
use std::path::PathBuf;

use anyhow::{Context, Result};
use jobforge_postgres::{Cluster, Search, Settings, cache_dir};
use tempfile::TempDir;

const MAX_CONNECTIONS: u16 = 200;

/// fsync, synchronous_commit and full_page_writes are on by default, and stay on.
const SERVER_SETTINGS: [(&str, &str); 2] = [("shared_buffers", "2GB"), ("max_wal_size", "8GB")];

/// Stops the server, then removes its files, when dropped.
pub struct PrivatePostgres {
    cluster: Cluster,
    _data_dir: TempDir,
}

impl PrivatePostgres {
    /// Runs the server in `pg_bin`, or else the newest one found. Blocks for about two seconds.
    pub fn start(pg_bin: Option<PathBuf>) -> Result<Self> {
        let cache_dir = cache_dir(env::var_os("HOME").as_deref());
        let search = Search { explicit: pg_bin, path: env::var_os("PATH"), cache_dir, ..Search::default() };
        let binaries = search.find().context("looking for a Postgres to run")?;
        let data_dir = TempDir::with_prefix("jobforge-bench-").context("making a place for Postgres")?;
        let server_settings =
            SERVER_SETTINGS.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let settings = Settings {
            max_connections: MAX_CONNECTIONS,
            server_settings,
            ..Settings::new(data_dir.path(), binaries)
        };
        let cluster = Cluster::start(settings).context("starting a private Postgres")?;
        Ok(Self { cluster, _data_dir: data_dir })
    }

    /// The superuser's url over the socket, where the server asks nobody for a password: a contender that logs in
    /// as roles of its own needs only their names, and connecting costs next to nothing.
    pub fn superuser_url(&self) -> String {
        self.cluster.address().url_as("postgres", None, "postgres")
    }
}
