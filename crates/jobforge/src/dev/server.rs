//! The Postgres of a development server: a private one, or the one that was named.

use std::env;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result};
use jobforge_postgres::{Address, Cluster, Error, Settings};
use tokio::task::spawn_blocking;

use crate::config::Config;
use crate::dev::binaries::search;
use crate::dev::home::{DevHome, DevLock, ROOT_DIR};

/// A Postgres that was started or found.
pub(crate) struct Server {
    /// How to reach it as somebody who may make roles and databases.
    pub(crate) access: Access,
    /// One line for people.
    pub(crate) description: String,
    cluster: Option<Cluster>,
    data_dir: Option<PathBuf>,
}

/// Who is let in to prepare the database.
pub(crate) enum Access {
    /// The superuser of a private Postgres.
    Superuser(Address),
    /// Whoever the user named; migrates and makes roles in that very database.
    Given(String),
}

/// A development server's directory, taken, with its Postgres running.
pub(crate) struct Ground {
    pub(crate) home: DevHome,
    pub(crate) server: Server,
    _lock: DevLock,
}

impl Ground {
    /// Takes the directory and has a Postgres running. Root falls back to a directory under /var when the
    /// usual one lies where the user that Postgres runs as cannot go.
    pub(crate) async fn prepare(config: &Config, data_dir: Option<PathBuf>) -> Result<Ground> {
        let asked = data_dir.or_else(|| config.data_dir.clone());
        let home = DevHome::new(asked.as_deref());
        let lock = home.take()?;
        // Left behind by one that was killed: this one is not ready yet.
        home.withdraw();
        if let Some(url) = &config.database_url {
            return Ok(Ground { home, server: Server::given(url), _lock: lock });
        }
        match Server::start(&home, config.pg_bin.as_deref()).await {
            Err(error) if asked.is_none() && is_unreachable(&error) => {
                home.abandon();
                let home = DevHome::new(Some(Path::new(ROOT_DIR)));
                let lock = home.take()?;
                home.withdraw();
                let server = Server::start(&home, config.pg_bin.as_deref()).await?;
                Ok(Ground { home, server, _lock: lock })
            }
            started => Ok(Ground { home, server: started?, _lock: lock }),
        }
    }
}

impl Server {
    fn given(url: &str) -> Server {
        Server {
            access: Access::Given(url.to_owned()),
            description: format!("the given database {}", crate::config::redact(url)),
            cluster: None,
            data_dir: None,
        }
    }

    async fn start(home: &DevHome, pg_bin: Option<&Path>) -> Result<Server> {
        let (dir, pg_bin) = (home.postgres_dir(), pg_bin.map(Path::to_owned));
        spawn_blocking(move || Server::start_blocking(dir, pg_bin))
            .await
            .context("Postgres was not started")?
    }

    /// A server that outlived its `jobforge dev` is used as it is.
    fn start_blocking(dir: PathBuf, pg_bin: Option<PathBuf>) -> Result<Server> {
        if let Some(address) = Cluster::running(&dir)? {
            let description = format!("found running in {}, port {}", dir.display(), address.port());
            let access = Access::Superuser(address);
            return Ok(Server { access, description, cluster: None, data_dir: Some(dir) });
        }
        let binaries = search(pg_bin).find()?;
        let (version, began) = (binaries.version, Instant::now());
        let runtime_dir = env::var_os("XDG_RUNTIME_DIR").map_or_else(|| PathBuf::from("/tmp"), PathBuf::from);
        let cluster = Cluster::start(Settings { runtime_dir, ..Settings::new(&dir, binaries) })?;
        let took = began.elapsed().as_secs_f64();
        let description =
            format!("{version} in {}, port {} (started in {took:.1} s)", dir.display(), cluster.port());
        let access = Access::Superuser(cluster.address().clone());
        Ok(Server { access, description, cluster: Some(cluster), data_dir: Some(dir) })
    }

    /// Stops a private Postgres; a given one is left alone.
    pub(crate) async fn stop(self) -> Result<()> {
        let stop = move || match (self.cluster, self.data_dir) {
            (Some(mut cluster), _) => cluster.stop(),
            (None, Some(dir)) => Cluster::stop_data_dir(&dir).map(drop),
            (None, None) => Ok(()),
        };
        spawn_blocking(stop).await.context("Postgres was not stopped")??;
        Ok(())
    }
}

fn is_unreachable(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(Error::Unreachable { .. }))
}
