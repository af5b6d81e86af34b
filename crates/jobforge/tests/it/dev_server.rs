//! A development server under test: started in a directory of its own, stopped by a signal, never left behind.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use jobforge_postgres::Cluster;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tempfile::TempDir;

use crate::{Ran, jobforge, run, until};

/// A directory that the user Postgres runs as can reach, even when root made it.
pub(crate) fn open_dir() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    dir
}

/// How the welcome ends.
const LAST_WORDS: &str = "Ctrl-C stops everything";

/// A running `jobforge dev`.
pub(crate) struct DevServer {
    dir: PathBuf,
    /// Where it keeps its data, from there.
    data_dir: PathBuf,
    child: Child,
}

impl DevServer {
    /// Starts one and waits until it is ready, and has told people so: that comes after the file for programs.
    pub(crate) fn start(dir: &Path, args: &[&str]) -> DevServer {
        DevServer::spawn(dir, args).ready()
    }

    /// Starts one and waits for nothing.
    pub(crate) fn spawn(dir: &Path, args: &[&str]) -> DevServer {
        DevServer::spawn_by(dir, ".jobforge", jobforge(dir).arg("dev").args(args))
    }

    /// The same by a command of one's own, which keeps its data there.
    pub(crate) fn spawn_by(dir: &Path, data_dir: &str, command: &mut Command) -> DevServer {
        let stderr = File::create(dir.join("stderr")).unwrap();
        let child = command.stdout(Stdio::null()).stderr(stderr).spawn().unwrap();
        DevServer { dir: dir.to_owned(), data_dir: dir.join(data_dir), child }
    }

    /// Waits until it is ready.
    pub(crate) fn ready(mut self) -> DevServer {
        until("dev.json is there and the welcome told", || {
            self.assert_runs();
            (self.dev_file().exists() && self.stderr().contains(LAST_WORDS)).then_some(())
        });
        self
    }

    /// Fails the test if it has ended.
    pub(crate) fn assert_runs(&mut self) {
        let ended = self.child.try_wait().unwrap();
        assert!(ended.is_none(), "dev ended: {}", self.stderr());
    }

    pub(crate) fn dev_file(&self) -> PathBuf {
        self.data_dir.join("dev.json")
    }

    pub(crate) fn stderr(&self) -> String {
        fs::read_to_string(self.dir.join("stderr")).unwrap_or_default()
    }

    /// A command in the same directory, which finds the server by itself.
    pub(crate) fn run(&self, args: &[&str]) -> Ran {
        run(&self.dir, args)
    }

    /// The job's description once it has this status.
    pub(crate) fn job_that_is(&self, status: &str, id: &str) -> Value {
        until(&format!("the job is {status}"), || {
            let shown = self.run(&["jobs", "show", id, "--json"]).json();
            (shown["job"]["status"] == status).then_some(shown)
        })
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(i32::try_from(self.child.id()).unwrap()), signal).unwrap();
    }

    /// Waits for its end.
    pub(crate) fn ended(&mut self) -> ExitStatus {
        until("dev ends", || self.child.try_wait().unwrap())
    }

    /// Asks it to stop and waits for its end.
    pub(crate) fn stop(mut self, signal: Signal) -> ExitStatus {
        self.signal(signal);
        self.ended()
    }
}

pub(crate) fn postgres_runs(dir: &Path) -> bool {
    Cluster::running(&dir.join(".jobforge/postgres")).unwrap().is_some()
}

impl Drop for DevServer {
    /// A failed test leaves no server behind.
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = self.child.kill();
            let _ = self.child.wait();
            let _ = Cluster::stop_data_dir(&self.data_dir.join("postgres"));
        }
    }
}
