//! The user the server runs as. Postgres refuses to run as root, so root runs it as somebody else.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use nix::unistd::{Uid, User, geteuid};

use crate::error::{Error, IoContext};

/// The user of the server: the caller, or for root another one.
#[derive(Debug, Clone)]
pub(crate) struct ServerUser {
    /// `None` when the caller runs the server as itself.
    drop_to: Option<User>,
}

impl ServerUser {
    /// Chooses the user for the data in `pgdata`, which need not exist yet.
    pub(crate) fn choose(pgdata: &Path) -> Result<ServerUser, Error> {
        if !geteuid().is_root() {
            return Ok(ServerUser { drop_to: None });
        }
        let user = owner_of(pgdata)
            .or_else(|| named("postgres"))
            .or_else(|| named("nobody"))
            .ok_or(Error::NoServerUser)?;
        Ok(ServerUser { drop_to: Some(user) })
    }

    /// The uid the server has.
    pub(crate) fn uid(&self) -> u32 {
        self.drop_to.as_ref().map_or(geteuid(), |user| user.uid).as_raw()
    }

    /// A command that runs as this user, away from the terminal and from the caller's process group,
    /// so that Ctrl-C reaches the caller only.
    pub(crate) fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.env("LC_ALL", "C").stdin(Stdio::null()).process_group(0);
        if let Some(user) = &self.drop_to {
            command.uid(user.uid.as_raw()).gid(user.gid.as_raw());
        }
        command
    }

    /// Gives `path` to this user, with exactly this mode.
    pub(crate) fn take(&self, path: &Path, mode: u32) -> Result<(), Error> {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).at("set the mode of", path)?;
        if let Some(user) = &self.drop_to {
            chown(path, Some(user.uid.as_raw()), Some(user.gid.as_raw())).at("change the owner of", path)?;
        }
        Ok(())
    }

    /// Refuses a path that lies behind a directory closed to this user. Only root needs to ask: others
    /// run the server with the same rights they looked at the path with.
    pub(crate) fn require_reach(&self, path: &Path) -> Result<(), Error> {
        let Some(user) = &self.drop_to else { return Ok(()) };
        for dir in path.ancestors().skip(1).filter(|dir| !dir.as_os_str().is_empty()) {
            let meta = fs::metadata(dir).at("look at", dir)?;
            let shift = if meta.uid() == user.uid.as_raw() {
                6
            } else if meta.gid() == user.gid.as_raw() {
                3
            } else {
                0
            };
            if meta.mode() >> shift & 0o1 == 0 {
                return Err(Error::Unreachable {
                    path: path.to_owned(),
                    closed: dir.to_owned(),
                    user: user.name.clone(),
                });
            }
        }
        Ok(())
    }
}

/// Whoever made the data must go on with it, e.g. `nobody` on a machine that got a user `postgres` later.
fn owner_of(pgdata: &Path) -> Option<User> {
    let uid = Uid::from_raw(fs::metadata(pgdata).ok()?.uid());
    if uid.is_root() { None } else { User::from_uid(uid).ok().flatten() }
}

fn named(name: &str) -> Option<User> {
    User::from_name(name).ok().flatten()
}
