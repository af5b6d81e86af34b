//! A directory as a store: its own and its owner's alone.

use std::fs::{self, DirBuilder, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use object_store::local::LocalFileSystem;

use crate::place::PlaceError;

/// The directory, made if it is not there; one that others may enter is refused.
pub(crate) fn open(path: &Path) -> Result<LocalFileSystem, PlaceError> {
    let refuse = |detail: String| PlaceError::Directory { path: path.display().to_string(), detail };
    DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(|error| refuse(error.to_string()))?;
    let mode = fs::metadata(path).map_err(|error| refuse(error.to_string()))?.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(refuse(format!("others may enter it (mode {mode:o}; chmod 700 helps)")));
    }
    let store = LocalFileSystem::new_with_prefix(path).map_err(|error| refuse(error.to_string()))?;
    Ok(store.with_fsync(true))
}

/// Closes a file that was just written to all but its owner.
pub(crate) fn close(file: &Path) -> io::Result<()> {
    fs::set_permissions(file, Permissions::from_mode(0o600))
}

/// Removes what writes that were cut off left beside an object: `<hash>#1` and so on.
pub(crate) fn sweep(file: &Path) -> io::Result<()> {
    let (Some(dir), Some(name)) = (file.parent(), file.file_name().and_then(|name| name.to_str())) else {
        return Ok(());
    };
    let staged = format!("{name}#");
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    let left: Vec<PathBuf> = entries
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&staged)))
        .collect();
    left.iter().try_for_each(fs::remove_file)
}
