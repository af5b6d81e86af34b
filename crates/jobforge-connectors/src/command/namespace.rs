//! A process namespace for a command. When its first process ends, the kernel ends all others in it, whatever
//! they did to get away.

use std::fs;
use std::io;

use nix::sched::{CloneFlags, unshare};
use nix::unistd::{getegid, geteuid};

/// Puts what is forked from now on into a process namespace of its own. An error says that the kernel, or who
/// runs this worker, does not allow it.
pub(super) fn enter() -> io::Result<()> {
    if geteuid().is_root() {
        return Ok(unshare(CloneFlags::CLONE_NEWPID)?);
    }
    // Who is not root may have one together with a user namespace, in which everybody keeps his own number.
    let (uid, gid) = (geteuid(), getegid());
    unshare(CloneFlags::CLONE_NEWPID | CloneFlags::CLONE_NEWUSER)?;
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("{uid} {uid} 1"))?;
    fs::write("/proc/self/gid_map", format!("{gid} {gid} 1"))
}
