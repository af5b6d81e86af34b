//! The worker's end of a running command: its supervisor, the socket to it, the program's streams.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::Path;
use std::process::Stdio;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::process::{Child, ChildStderr, ChildStdout, Command};

use super::order::{Event, MOST, Order, encode};

/// The name under which the executable is started to be a supervisor.
#[cfg(target_os = "linux")]
pub(super) use super::supervise::NAME;
#[cfg(not(target_os = "linux"))]
pub(super) const NAME: &str = "jobforge: command";

/// A supervisor at work. Dropped, the socket closes, and the supervisor ends the program and itself.
pub(super) struct Run {
    /// Waited for at the end only; it ends by itself.
    supervisor: Child,
    control: UnixStream,
    /// What came of an event that is not there in full: a read may be given up halfway.
    heard: Vec<u8>,
}

/// What the program prints.
pub(super) struct Printed {
    pub(super) stdout: ChildStdout,
    pub(super) stderr: ChildStderr,
}

impl Run {
    /// Starts a supervisor and gives it its order. Its name tells the command in a list of processes.
    pub(super) async fn start(executable: &Path, key: &str, order: &Order) -> io::Result<(Run, Printed)> {
        let (ours, theirs) = StdUnixStream::pair()?;
        ours.set_nonblocking(true)?;
        let mut supervisor = Command::new(executable)
            .arg0(NAME)
            .arg(key)
            .env_clear()
            .current_dir("/")
            .process_group(0)
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let streams = supervisor.stdout.take().zip(supervisor.stderr.take());
        let (stdout, stderr) = streams.ok_or_else(|| io::Error::other("the supervisor has no streams"))?;
        let mut run = Run { supervisor, control: UnixStream::from_std(ours)?, heard: Vec::new() };
        run.control.write_all(&encode(order)?).await?;
        Ok((run, Printed { stdout, stderr }))
    }

    /// The next event; nothing once the supervisor is gone.
    pub(super) async fn event(&mut self) -> Option<Event> {
        loop {
            if let Some((length, rest)) = self.heard.split_at_checked(4) {
                let length = u32::from_le_bytes(length.try_into().unwrap_or_default());
                let length = usize::try_from(length).unwrap_or(usize::MAX);
                if length > MOST {
                    return None;
                }
                if let Some((body, _)) = rest.split_at_checked(length) {
                    let event = serde_json::from_slice(body).ok();
                    self.heard.drain(..4 + length);
                    return event;
                }
            }
            let read = self.control.read_buf(&mut self.heard).await.unwrap_or(0);
            if read == 0 {
                return None;
            }
        }
    }

    /// Says a word; a supervisor that is gone has nothing to hear.
    pub(super) async fn say(&mut self, word: u8) {
        let _ = self.control.write_all(&[word]).await;
    }

    /// Waits until the supervisor has left the list of processes.
    pub(super) async fn end(mut self) {
        drop(self.control);
        let _ = self.supervisor.wait().await;
    }
}
