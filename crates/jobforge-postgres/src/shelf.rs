//! Where fetched binaries are kept: one directory a version, put there whole, open to the user that root's server runs as.

use std::fs::{self, DirBuilder, File, Permissions};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use nix::fcntl::{Flock, FlockArg};
use nix::unistd::geteuid;
use uuid::Uuid;

use crate::binaries::Binaries;
use crate::error::{Error, IoContext};

/// After this time whoever worked in a directory is gone: a fetch takes minutes at most.
const ABANDONED: Duration = Duration::from_secs(24 * 60 * 60);

/// The place of one version in the cache.
pub(crate) struct Shelf<'a> {
    cache: &'a Path,
    place: PathBuf,
}

impl Shelf<'_> {
    pub(crate) fn new<'a>(cache: &'a Path, version: &str) -> Shelf<'a> {
        Shelf { cache, place: cache.join(version) }
    }

    /// What is there, if it can be used.
    pub(crate) fn binaries(&self) -> Result<Binaries, Error> {
        Binaries::at(&self.place.join("bin"))
    }

    /// A directory to work in, beside the place, so that what is made in it can be put there in one step.
    pub(crate) fn begin(&self) -> Result<Work, Error> {
        make_cache(self.cache)?;
        remove_abandoned(self.cache)?;
        let dir = self.cache.join(format!(".{}", Uuid::new_v4().simple()));
        // Nobody else changes what comes into it.
        DirBuilder::new().mode(0o700).create(&dir).at("create", &dir)?;
        Ok(Work { dir })
    }

    /// In one step, so that nobody finds half of them. Usable ones that somebody else has put there first stay; others
    /// go away with the work.
    pub(crate) fn put(&self, unpacked: &Path, work: &Work) -> Result<(), Error> {
        open_to_all(unpacked)?;
        let cache = File::open(self.cache).at("open", self.cache)?;
        let _alone =
            Flock::lock(cache, FlockArg::LockExclusive).map_err(|(_, errno)| errno).at("lock", self.cache)?;
        if self.binaries().is_ok() {
            return Ok(());
        }
        if self.place.symlink_metadata().is_ok() {
            fs::rename(&self.place, work.dir.join("replaced")).at("move away", &self.place)?;
        }
        fs::rename(unpacked, &self.place).at("put in place", &self.place)
    }
}

/// A directory to work in; gone with the work, however it ends.
pub(crate) struct Work {
    dir: PathBuf,
}

impl Work {
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.dir) {
            tracing::warn!(dir = %self.dir.display(), %error, "cannot remove what was unpacked");
        }
    }
}

/// Root's is open to the user that its server runs as, whatever root's umask is.
fn make_cache(cache: &Path) -> Result<(), Error> {
    let made: Vec<&Path> =
        cache.ancestors().take_while(|dir| !dir.as_os_str().is_empty() && !dir.exists()).collect();
    fs::create_dir_all(cache).at("create the cache", cache)?;
    for dir in made.into_iter().filter(|_| geteuid().is_root()) {
        fs::set_permissions(dir, Permissions::from_mode(0o755)).at("set the mode of", dir)?;
    }
    Ok(())
}

/// What the umask took away: others may read everything, and run and enter what the owner may.
fn open_to_all(path: &Path) -> Result<(), Error> {
    let meta = fs::symlink_metadata(path).at("look at", path)?;
    let mode = match meta.permissions().mode() & 0o777 {
        // A link has the mode of what it leads to.
        _ if meta.is_symlink() => return Ok(()),
        _ if meta.is_dir() => 0o755,
        mode if mode & 0o100 != 0 => mode | 0o555,
        mode => mode | 0o444,
    };
    fs::set_permissions(path, Permissions::from_mode(mode)).at("set the mode of", path)?;
    if meta.is_dir() {
        for entry in fs::read_dir(path).at("list", path)? {
            open_to_all(&entry.at("list", path)?.path())?;
        }
    }
    Ok(())
}

/// Removes the working directories of fetches that were killed.
fn remove_abandoned(cache: &Path) -> Result<(), Error> {
    for entry in fs::read_dir(cache).at("list", cache)?.flatten() {
        let name = entry.file_name();
        let is_work = name
            .to_str()
            .and_then(|name| name.strip_prefix('.'))
            .is_some_and(|name| Uuid::try_parse(name).is_ok_and(|id| id.simple().to_string() == name));
        let age =
            entry.metadata().and_then(|meta| meta.modified()).map(|at| SystemTime::now().duration_since(at));
        if is_work && matches!(age, Ok(Ok(age)) if age > ABANDONED) {
            // Best effort: a fetch does not fail for it.
            if let Err(error) = fs::remove_dir_all(entry.path()) {
                tracing::warn!(dir = %entry.path().display(), %error, "cannot remove what an earlier fetch left");
            }
        }
    }
    Ok(())
}
