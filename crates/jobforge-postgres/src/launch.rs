//! Starting the server process and waiting until it answers.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::error::{Error, IoContext};
use crate::home::Home;
use crate::postmaster::{Identity, Postmaster, identify, pid_file, recorded_pid};
use crate::server_user::ServerUser;
use crate::settings::Settings;

/// Recovery after a crash counts as starting, and may take a while.
const START_SECONDS: u64 = 60;

/// Starts the server of `home` (whose lock the caller holds) and waits until it is ready.
pub(crate) fn launch(
    home: &Home,
    user: &ServerUser,
    settings: &Settings,
) -> Result<(Child, Postmaster), Error> {
    let socket_dir = home.socket_dir(&settings.runtime_dir, user)?;
    let deadline = Instant::now() + Duration::from_secs(START_SECONDS);
    loop {
        remove_stale_files(home, &socket_dir)?;
        let port = settings.port.map_or_else(|| home.free_port(), Ok)?;
        let attempt = Attempt::spawn(home, user, settings, &socket_dir, port)?;
        let ended = match attempt.wait_until_ready(home, deadline)? {
            Outcome::Ready(child, postmaster) => {
                home.remember_port(port)?;
                return Ok((child, postmaster));
            }
            Outcome::Ended(log) => log,
        };
        if Instant::now() > deadline || !worth_another_try(&ended, settings) {
            return Err(Error::Ended { data_dir: home.root().to_owned(), log: ended });
        }
        thread::sleep(Duration::from_millis(100));
    }
}

struct Attempt {
    child: Child,
    log_start: u64,
}

enum Outcome {
    Ready(Child, Postmaster),
    Ended(String),
}

impl Attempt {
    fn spawn(
        home: &Home,
        user: &ServerUser,
        settings: &Settings,
        socket_dir: &Path,
        port: u16,
    ) -> Result<Attempt, Error> {
        let (log, log_start) = open_log(home, user)?;
        let stderr = log.try_clone().at("open", home.log_file())?;
        let program = settings.binaries.dir.join("postgres");
        let mut socket_setting = OsString::from("unix_socket_directories=");
        socket_setting.push(socket_dir);
        let child = user
            .command(&program)
            .arg("-D")
            .arg(home.pgdata())
            .arg("-c")
            .arg(socket_setting)
            .args(settings.server_arguments())
            .args(["-c", &format!("port={port}")])
            .current_dir(home.root())
            .stdout(Stdio::from(log))
            .stderr(Stdio::from(stderr))
            .spawn()
            .at("run", program)?;
        Ok(Attempt { child, log_start })
    }

    fn wait_until_ready(mut self, home: &Home, deadline: Instant) -> Result<Outcome, Error> {
        let pid = i32::try_from(self.child.id()).unwrap_or_default();
        loop {
            let postmaster = Postmaster::read(&home.pgdata()).filter(|found| found.pid == pid);
            if let Some(postmaster) = postmaster.filter(Postmaster::accepts_connections) {
                return Ok(Outcome::Ready(self.child, postmaster));
            }
            if self.child.try_wait().at("wait for the server of", home.root())?.is_some() {
                return Ok(Outcome::Ended(log_since(home, self.log_start)));
            }
            if Instant::now() > deadline {
                // Nobody would own it after the error.
                self.child.kill().and_then(|()| self.child.wait()).at("end the server of", home.root())?;
                return Err(Error::TimedOut {
                    data_dir: home.root().to_owned(),
                    state: "ready",
                    seconds: START_SECONDS,
                    log_file: home.log_file(),
                });
            }
            thread::sleep(Duration::from_millis(10));
        }
    }
}

/// The pid in a file left by a crash may have gone to another process of the same user, for which
/// Postgres would refuse to start. The caller has the lock, so no server of ours is starting now.
fn remove_stale_files(home: &Home, socket_dir: &Path) -> Result<(), Error> {
    let path = pid_file(&home.pgdata());
    let recorded = recorded_pid(&home.pgdata());
    // Only a certain answer counts: the file is what keeps two servers off the same data.
    if recorded.is_some_and(|pid| identify(pid, &home.pgdata()) != Identity::NotOurs) {
        return Ok(());
    }
    if path.exists() {
        tracing::debug!(file = %path.display(), "removing the pid file of a server that is gone");
        fs::remove_file(&path).at("remove the stale", &path)?;
    }
    for entry in fs::read_dir(socket_dir).at("list", socket_dir)?.flatten() {
        fs::remove_file(entry.path()).at("remove the stale", entry.path())?;
    }
    Ok(())
}

/// Two refusals pass by themselves: children of a killed server that have not ended yet, and a free
/// port that was taken between the choice and the start.
fn worth_another_try(log: &str, settings: &Settings) -> bool {
    log.contains("is still in use") || (settings.port.is_none() && log.contains("Address already in use"))
}

fn open_log(home: &Home, user: &ServerUser) -> Result<(File, u64), Error> {
    const LARGEST_LOG: u64 = 16 * 1024 * 1024;
    let path = home.log_file();
    let file = OpenOptions::new().append(true).create(true).open(&path).at("open", &path)?;
    user.take(&path, 0o600)?;
    let length = file.metadata().at("look at", &path)?.len();
    if length <= LARGEST_LOG {
        return Ok((file, length));
    }
    file.set_len(0).at("shorten", &path)?;
    Ok((file, 0))
}

fn log_since(home: &Home, start: u64) -> String {
    let mut text = Vec::new();
    let read = File::open(home.log_file()).and_then(|mut file| {
        file.seek(SeekFrom::Start(start))?;
        file.read_to_end(&mut text)
    });
    match read {
        Ok(_) => String::from_utf8_lossy(&text).trim().to_owned(),
        Err(error) => format!("(its log cannot be read: {error})"),
    }
}
