//! What `postmaster.pid` says about a server, checked against the processes that really exist.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::error::Error;

/// A server as described by the `postmaster.pid` in its data directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Postmaster {
    pub(crate) pid: i32,
    pub(crate) port: u16,
    pub(crate) socket_dir: PathBuf,
    ready: bool,
}

impl Postmaster {
    /// Reads `postmaster.pid`; `None` when it is absent or not yet complete.
    pub(crate) fn read(pgdata: &Path) -> Option<Postmaster> {
        parse(&fs::read_to_string(pid_file(pgdata)).ok()?)
    }

    /// The server of `pgdata` if its process exists, ready or not.
    pub(crate) fn alive(pgdata: &Path) -> Option<Postmaster> {
        Postmaster::read(pgdata).filter(|postmaster| is_postmaster(postmaster.pid, pgdata))
    }

    /// Whether it says it is ready and answers on its socket.
    pub(crate) fn accepts_connections(&self) -> bool {
        self.ready && answers(&self.socket_dir.join(format!(".s.PGSQL.{}", self.port))).is_ok()
    }

    /// Sends a signal; a process that is gone already is no error.
    pub(crate) fn signal(&self, signal: Signal) -> Result<(), Error> {
        match kill(Pid::from_raw(self.pid), signal) {
            Ok(()) | Err(Errno::ESRCH) => Ok(()),
            Err(source) => Err(Error::Signal { pid: self.pid, source }),
        }
    }
}

/// Where Postgres describes its running server.
pub(crate) fn pid_file(pgdata: &Path) -> PathBuf {
    pgdata.join("postmaster.pid")
}

/// The process in `postmaster.pid` even while the rest of the file is not written yet.
pub(crate) fn recorded_pid(pgdata: &Path) -> Option<i32> {
    fs::read_to_string(pid_file(pgdata)).ok()?.lines().next()?.trim().parse().ok()
}

/// Whether a process is the postmaster of a data directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Identity {
    Ours,
    /// Gone, or some other process that got the number after a crash.
    NotOurs,
    /// A Postgres of which the system does not tell where it works.
    Unclear,
}

/// Whether `pid` is certainly the postmaster of `pgdata`.
pub(crate) fn is_postmaster(pid: i32, pgdata: &Path) -> bool {
    identify(pid, pgdata) == Identity::Ours
}

/// Compares a process with the postmaster of `pgdata`. An ended child that nobody waited for is gone.
pub(crate) fn identify(pid: i32, pgdata: &Path) -> Identity {
    if !Path::new("/proc/self/cwd").exists() {
        return identify_by_command_line(&ps(pid), pgdata);
    }
    // A postmaster works in its data directory; an ended process works nowhere.
    match fs::read_link(format!("/proc/{pid}/cwd")) {
        Ok(cwd) if cwd == pgdata => Identity::Ours,
        // In a container without CAP_SYS_PTRACE root may not look at the processes of other users.
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            identify_by_command_line(&String::from_utf8_lossy(&line), pgdata)
        }
        Ok(_) | Err(_) => Identity::NotOurs,
    }
}

fn identify_by_command_line(line: &str, pgdata: &Path) -> Identity {
    if !line.contains("postgres") {
        Identity::NotOurs
    } else if line.contains(&*pgdata.to_string_lossy()) {
        Identity::Ours
    } else {
        Identity::Unclear
    }
}

fn ps(pid: i32) -> String {
    let output = Command::new("ps").args(["-ww", "-o", "command=", "-p", &pid.to_string()]).output();
    output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default()
}

/// Lines: pid, data directory, start time, port, socket directory, listen address, shared memory, status.
fn parse(text: &str) -> Option<Postmaster> {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    Some(Postmaster {
        pid: lines.first()?.parse().ok()?,
        port: lines.get(3)?.parse().ok()?,
        socket_dir: PathBuf::from(lines.get(4)?),
        ready: lines.get(7).is_some_and(|status| *status == "ready"),
    })
}

/// Asks for encryption, the one question a Postgres answers before a login: one byte, yes or no.
fn answers(socket: &Path) -> std::io::Result<()> {
    const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f];
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    stream.write_all(&SSL_REQUEST)?;
    let mut answer = [0];
    stream.read_exact(&mut answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_half_written_file_is_not_ready() {
        let full = "12\n/data\n1700000000\n5433\n/data/socket\n127.0.0.1\n  1 2\nready   \n";
        assert!(parse(full).unwrap().ready);
        assert!(!parse(&full.replace("ready   ", "starting")).unwrap().ready);
        assert_eq!(parse("12\n/data\n"), None);
        assert_eq!(parse(""), None);
    }
}
