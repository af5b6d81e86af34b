//! A process namespace for a command. When its first process ends, the kernel ends all others in it, whatever
//! they did to get away.

use std::fs;
use std::io;

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::unistd::{getegid, geteuid};

/// Puts what is forked from now on into a process namespace of its own. An error says that the kernel, or who
/// runs this worker, does not allow it.
pub(super) fn enter() -> io::Result<()> {
    let spaces = CloneFlags::CLONE_NEWPID | CloneFlags::CLONE_NEWNS;
    if geteuid().is_root() {
        return Ok(unshare(spaces)?);
    }
    // Who is not root may have one together with a user namespace, in which everybody keeps his own number.
    let (uid, gid) = (geteuid(), getegid());
    unshare(spaces | CloneFlags::CLONE_NEWUSER)?;
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("{uid} {uid} 1"))?;
    fs::write("/proc/self/gid_map", format!("{gid} {gid} 1"))
}

/// Shows the namespace's own processes in `/proc`; in the namespace's first process. Where that is not allowed
/// the old `/proc` stays, and shows more than it should.
pub(super) fn show_own_processes() {
    const NOTHING: Option<&str> = None;
    let apart = mount(NOTHING, "/", NOTHING, MsFlags::MS_REC | MsFlags::MS_PRIVATE, NOTHING);
    if apart.is_ok() {
        let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
        let _ = mount(Some("proc"), "/proc", Some("proc"), flags, NOTHING);
    }
}
