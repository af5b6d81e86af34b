//! The rooms of attempts: a directory for each, which holds what is made for it, and is removed after it.
//!
//! All rooms of a worker's user lie in one directory, so that hiding this one hides them all. Whoever keeps a
//! room holds a lock on it, which the kernel lets go with him: a room that nobody locks is left over.

use std::fs::{self, DirBuilder, File, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use nix::libc;
use nix::unistd::{Gid, Uid, chown, geteuid};

use super::order::{Order, WorkDirectory, private_directory};

/// What programs take for the directories of temporary files, and what they are called in a room.
pub(super) const TEMPORARY: [(&str, &str); 2] = [("/tmp", "tmp"), ("/var/tmp", "var-tmp")];

/// The directory of all rooms below the directory that the file names.
pub(super) fn rooms(directory_root: &Path) -> PathBuf {
    directory_root.join(format!("jobforge-{}", geteuid()))
}

/// Where in its room an attempt's own directory for temporary files is. What surrounds it is closed to others, since it is
/// open to everybody itself.
pub(super) fn own_tmp(room: &Path, name: &str) -> PathBuf {
    room.join("closed").join(name)
}

/// A room, as long as somebody keeps it.
#[derive(Debug)]
pub(super) struct Room {
    path: PathBuf,
    _lock: File,
}

impl Room {
    /// Makes what the order needs, or says of which path it could not.
    pub(super) fn make(order: &Order) -> Result<Option<Room>, (PathBuf, io::Error)> {
        let private = order.directory == WorkDirectory::Private;
        if !private && order.apart.is_none() {
            return Ok(None);
        }
        let path = order.room.clone();
        let rooms = path.parent().unwrap_or(&path).to_owned();
        // Nobody sweeps while this is held, so nobody sweeps a room before it is locked.
        let gate = open_rooms(&rooms)
            .and_then(|gate| gate.lock_shared().map(|()| gate))
            .map_err(|error| (rooms, error))?;
        if !private && !order.has_own_tmp() {
            return Ok(None);
        }
        let made = make(&path, 0o711)
            .and_then(|()| open_directory(&path))
            .and_then(|lock| lock.lock_shared().map(|()| Room { path: path.clone(), _lock: lock }));
        drop(gate);
        let room = made.map_err(|error| (path.clone(), error))?;
        match room.furnish(order) {
            Ok(()) => Ok(Some(room)),
            Err(error) => {
                room.remove();
                Err((path, error))
            }
        }
    }

    fn furnish(&self, order: &Order) -> io::Result<()> {
        if order.directory == WorkDirectory::Private {
            let work = private_directory(&self.path);
            make(&work, 0o700)?;
            if let Some(user) = order.user {
                chown(&work, Some(Uid::from_raw(user.uid)), Some(Gid::from_raw(user.gid)))?;
            }
        }
        if order.has_own_tmp() {
            for (_, name) in TEMPORARY {
                let tmp = own_tmp(&self.path, name);
                if let Some(closed) = tmp.parent().filter(|closed| !closed.exists()) {
                    make(closed, 0o700)?;
                }
                make(&tmp, 0o1777)?;
            }
        }
        Ok(())
    }

    pub(super) fn remove(&self) {
        remove(&self.path);
    }
}

/// Removes a room and what is in it, also what its user closed to himself.
pub(super) fn remove(path: &Path) {
    // Root needs no opening up, and must not follow where another's directory leads.
    if fs::remove_dir_all(path).is_err() && !geteuid().is_root() {
        open_up(path);
        let _ = fs::remove_dir_all(path);
    }
}

/// Removes the rooms that nobody keeps any more, and tells how many.
pub(super) fn sweep(rooms: &Path) -> usize {
    // Without rooms, or with somebody else's, there is nothing to do; while one is being made, the next worker does it.
    let Ok(gate) = open_own(rooms) else { return 0 };
    if gate.try_lock().is_err() {
        return 0;
    }
    let entries = fs::read_dir(rooms).into_iter().flatten().flatten().map(|entry| entry.path());
    let left = entries.filter(|path| open_directory(path).is_ok_and(|room| room.try_lock().is_ok()));
    left.map(|path| remove(&path)).count()
}

fn open_up(path: &Path) {
    let Ok(found) = fs::symlink_metadata(path) else { return };
    if found.is_dir() {
        let _ = fs::set_permissions(path, Permissions::from_mode(0o700));
        fs::read_dir(path).into_iter().flatten().flatten().for_each(|entry| open_up(&entry.path()));
    }
}

/// Makes a directory with exactly these rights, whatever the worker's mask takes away.
fn make(path: &Path, mode: u32) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(path)?;
    fs::set_permissions(path, Permissions::from_mode(mode))
}

/// The directory of all rooms, made if it is not there. Who drops to another user passes through it.
fn open_rooms(path: &Path) -> io::Result<File> {
    match make(path, 0o711) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => open_own(path),
    }
}

/// Everybody can make a directory of this name in `/tmp`: only one of this user's is used.
fn open_own(path: &Path) -> io::Result<File> {
    let opened = open_directory(path)?;
    let found = opened.metadata()?;
    if found.uid() != geteuid().as_raw() || found.mode() & 0o022 != 0 {
        return Err(io::Error::other("it belongs to somebody else, or others may write to it"));
    }
    Ok(opened)
}

fn open_directory(path: &Path) -> io::Result<File> {
    fs::OpenOptions::new().read(true).custom_flags(libc::O_DIRECTORY | libc::O_NOFOLLOW).open(path)
}
