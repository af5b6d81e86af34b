//! The directory a development server lives in: one server at a time, its files readable by its owner only.
//!
//! `postgres/` is the private Postgres, `artifacts/` has large payloads and results, `logins.json` the passwords,
//! `keys.json` the keys, `dev.json` how to reach it while it runs.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use nix::unistd::geteuid;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::config::has_plain_url;
use crate::dev::keys::Keys;
use crate::dev::logins::{Logins, url_as};

/// Where it lives unless told otherwise.
const DEFAULT_DIR: &str = ".jobforge";
/// Where it lives when root is in a directory that is closed to the user Postgres runs as.
pub(crate) const ROOT_DIR: &str = "/var/lib/jobforge/dev";

/// The directory of a development server.
#[derive(Debug, Clone)]
pub(crate) struct DevHome {
    dir: PathBuf,
}

/// How to reach a development server, for programs.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct DevFile {
    /// The HTTP server.
    pub(crate) url: Option<String>,
    /// The login of an application, with its password.
    pub(crate) database_url: String,
    /// The demo tenant.
    pub(crate) tenant_id: Uuid,
    /// API keys by name.
    pub(crate) keys: Keys,
}

/// Held while a development server runs; released with the process.
#[derive(Debug)]
pub(crate) struct DevLock {
    _lock: Flock<File>,
}

impl DevHome {
    /// The directory that was asked for, or the usual one.
    pub(crate) fn new(dir: Option<&Path>) -> DevHome {
        DevHome { dir: dir.map_or_else(|| PathBuf::from(DEFAULT_DIR), Path::to_owned) }
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Where the private Postgres lives.
    pub(crate) fn postgres_dir(&self) -> PathBuf {
        self.dir.join("postgres")
    }

    /// Where large payloads and results are.
    pub(crate) fn artifacts_dir(&self) -> PathBuf {
        self.dir.join("artifacts")
    }

    pub(crate) fn dev_file(&self) -> PathBuf {
        self.dir.join("dev.json")
    }

    /// A command for people in the same directory, which finds this server.
    pub(crate) fn command(&self, command: &str) -> String {
        // Other commands prefer a plain DATABASE_URL, unless it is empty.
        let url = if has_plain_url() { "DATABASE_URL= " } else { "" };
        if [DEFAULT_DIR, ROOT_DIR].map(Path::new).contains(&&*self.dir) {
            return format!("{url}{command}");
        }
        format!("{url}JOBFORGE_DATA_DIR={} {command}", quoted(&self.dir))
    }

    /// Makes the directory and takes it for this process alone.
    pub(crate) fn take(&self) -> Result<DevLock> {
        // The user that root's Postgres runs as must be able to pass through it.
        let mode = if geteuid().is_root() { 0o711 } else { 0o700 };
        let fresh = !self.dir.exists();
        DirBuilder::new()
            .recursive(true)
            .create(&self.dir)
            .with_context(|| format!("cannot create {}", self.dir.display()))?;
        if fresh {
            fs::set_permissions(&self.dir, fs::Permissions::from_mode(mode))?;
        }
        self.ignore_in_git(fresh)?;
        // The lock is on the directory itself, so there is no lock file to be left behind.
        let file = File::open(&self.dir).with_context(|| format!("cannot open {}", self.dir.display()))?;
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => Ok(DevLock { _lock: lock }),
            Err((_, Errno::EWOULDBLOCK)) => bail!(
                "a development server runs in {} already; use it (`{}`), or pass another --data-dir",
                self.dir.display(),
                self.command("jobforge jobs list")
            ),
            Err((_, errno)) => Err(errno).with_context(|| format!("cannot lock {}", self.dir.display())),
        }
    }

    /// The directory holds passwords and a database: nobody wants them in a repository.
    fn ignore_in_git(&self, fresh: bool) -> Result<()> {
        if fresh {
            fs::write(self.dir.join(".gitignore"), "*\n").context("cannot write .gitignore")?;
        }
        Ok(())
    }

    /// Removes what was made in a directory that turned out to be of no use; data is never removed.
    pub(crate) fn abandon(&self) {
        // Best effort: a directory with anything else in it stays.
        let _ = fs::remove_dir(self.postgres_dir());
        if fs::read_dir(&self.dir).is_ok_and(|entries| entries.count() == 1) {
            let _ = fs::remove_file(self.dir.join(".gitignore"));
            let _ = fs::remove_dir(&self.dir);
        }
    }

    /// Says that the server is ready, and how to reach it.
    pub(crate) fn announce(&self, file: &DevFile) -> Result<()> {
        write_private(&self.dev_file(), &serde_json::to_string_pretty(file)?)
    }

    /// Takes the announcement back.
    pub(crate) fn withdraw(&self) {
        if let Err(error) = fs::remove_file(self.dev_file())
            && error.kind() != ErrorKind::NotFound
        {
            tracing::warn!(%error, file = %self.dev_file().display(), "cannot be removed");
        }
    }

    /// How to reach the server that runs here.
    pub(crate) fn read(&self) -> Result<DevFile> {
        let path = self.dev_file();
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        serde_json::from_str(&text).with_context(|| format!("{} is damaged", path.display()))
    }

    /// The URL of one of its logins.
    pub(crate) fn url_as(&self, login: &str) -> Result<String> {
        let base = self.read()?.database_url;
        let logins =
            self.logins()?.with_context(|| format!("{} is missing", self.logins_file().display()))?;
        url_as(&base, login, logins.password(login)?)
    }

    /// The passwords of an earlier start.
    pub(crate) fn logins(&self) -> Result<Option<Logins>> {
        read_kept(&self.logins_file())
    }

    pub(crate) fn keep_logins(&self, logins: &Logins) -> Result<()> {
        write_private(&self.logins_file(), &serde_json::to_string_pretty(logins)?)
    }

    /// The keys of an earlier start.
    pub(crate) fn keys(&self) -> Result<Option<Keys>> {
        read_kept(&self.keys_file())
    }

    pub(crate) fn keep_keys(&self, keys: &Keys) -> Result<()> {
        write_private(&self.keys_file(), &serde_json::to_string_pretty(keys)?)
    }

    fn logins_file(&self) -> PathBuf {
        self.dir.join("logins.json")
    }

    fn keys_file(&self) -> PathBuf {
        self.dir.join("keys.json")
    }
}

/// The development server that runs here, if one does.
pub(crate) fn find_dev_file(data_dir: Option<&Path>) -> Option<DevHome> {
    let usual = DevHome::new(data_dir);
    let of_root = DevHome::new(Some(Path::new(ROOT_DIR)));
    [Some(usual), data_dir.is_none().then_some(of_root)]
        .into_iter()
        .flatten()
        .find(|home| home.dev_file().exists())
}

/// A path as a shell reads it.
pub(crate) fn quoted(path: &Path) -> String {
    let path = path.display().to_string();
    let plain = path.chars().all(|c| c.is_alphanumeric() || "/._-+".contains(c));
    if plain { path } else { format!("'{}'", path.replace('\'', r"'\''")) }
}

/// What an earlier start wrote, if one did.
fn read_kept<T: DeserializeOwned>(path: &Path) -> Result<Option<T>> {
    match fs::read_to_string(path) {
        Ok(text) => {
            Ok(Some(serde_json::from_str(&text).with_context(|| format!("{} is damaged", path.display()))?))
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
}

/// Written beside and renamed, so that whoever sees the file sees all of it.
fn write_private(path: &Path, text: &str) -> Result<()> {
    let fresh = path.with_extension("new");
    let write = || -> std::io::Result<()> {
        match fs::remove_file(&fresh) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&fresh)?;
        file.write_all(text.as_bytes())?;
        file.write_all(b"\n")?;
        fs::rename(&fresh, path)
    };
    write().with_context(|| format!("cannot write {}", path.display()))
}
