//! The end of a private directory: the supervisor's last duty, or the worker's where the supervisor died.

use std::fs;
use std::path::Path;

use nix::unistd::geteuid;

/// Removes a directory and what is in it, also what its maker closed to himself.
pub(super) fn remove(path: &Path) {
    // Root needs no opening up, and must not follow where another's directory leads.
    if fs::remove_dir_all(path).is_err() && !geteuid().is_root() {
        open_up(path);
        let _ = fs::remove_dir_all(path);
    }
}

fn open_up(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    let Ok(found) = fs::symlink_metadata(path) else { return };
    if found.is_dir() {
        let _ = fs::set_permissions(path, fs::Permissions::from_mode(0o700));
        fs::read_dir(path).into_iter().flatten().flatten().for_each(|entry| open_up(&entry.path()));
    }
}
