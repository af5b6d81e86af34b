//! The supervisor: a process of its own for each command, between the worker and the program.
//!
//! It is the same executable, started anew. It starts the program, hears from the worker whether to end it,
//! and sees to it that nothing the program started outlives it. The worker's death closes the socket, and so
//! ends the program too.
//!
//! In a process namespace the supervisor is its first process, and the kernel itself ends everything else. Its
//! parent, which only waits, keeps the place outside. Without a namespace the supervisor is the *subreaper*:
//! whoever loses his parent becomes its child, so it finds everybody by walking down from itself.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl;
use nix::sys::signal::{SigSet, Signal, kill, killpg};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, dup2_stderr, dup2_stdin, dup2_stdout, fork, setsid};

use super::directory::Room;
use super::launch::{Launch, Launched, Refusal, Streams};
use super::namespace;
use super::order::{Event, KILL, Namespaces, Order, Status, TERMINATE, receive, send};
use super::tree::descendants;

/// The name under which the executable is started to be a supervisor.
pub(super) const NAME: &str = "jobforge: command";

/// Becomes the supervisor of a command if this process was started as one, and then does not return. An
/// executable whose worker runs commands calls this first in `main`, before it starts any thread.
pub fn supervise_if_asked() {
    if std::env::args_os().next().as_deref() == Some(OsStr::new(NAME)) {
        let ended = supervise();
        std::process::exit(i32::from(ended.is_err()));
    }
}

fn supervise() -> io::Result<()> {
    close_inherited()?;
    // The terminal's signals are for the worker.
    let _ = setsid();
    let mut control = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let streams = Streams {
        stdout: io::stdout().as_fd().try_clone_to_owned()?,
        stderr: io::stderr().as_fd().try_clone_to_owned()?,
    };
    // Whatever goes wrong here is told over the socket and is no output of the program.
    let nothing: OwnedFd = fs::OpenOptions::new().read(true).write(true).open("/dev/null")?.into();
    dup2_stdin(&nothing)?;
    dup2_stdout(&nothing)?;
    dup2_stderr(&nothing)?;
    drop(nothing);
    let order: Order = receive(&mut control)?;
    // Before there is a namespace in which other users cannot be told apart.
    let room = match Room::make(&order) {
        Ok(room) => room,
        Err((path, error)) => {
            let step = format!("cannot make the directory {}", path.display());
            return refuse(&mut control, &Refusal::new(&step, &error));
        }
    };
    let ended = match contain(order.namespaces) {
        Err(error) => refuse_and_remove(
            &mut control,
            room.as_ref(),
            &Refusal::new("cannot have a process namespace", &error),
        ),
        Ok(true) => within_namespace(&order, room.as_ref(), control, streams),
        Ok(false) => {
            prctl::set_child_subreaper(true)?;
            run(&order, room.as_ref(), control, streams, Reach::Descendants)
        }
    };
    // Also that of a supervisor in a namespace that was killed; most often there is nothing left.
    remove(room.as_ref());
    ended
}

/// How everything that the program started is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reach {
    /// It is all that is in this namespace.
    Namespace,
    Descendants,
}

/// Whether there is a namespace now for what is forked next.
fn contain(wish: Namespaces) -> io::Result<bool> {
    match wish {
        Namespaces::Off => Ok(false),
        Namespaces::Auto => Ok(namespace::enter().is_ok()),
        Namespaces::Require => namespace::enter().map(|()| true),
    }
}

/// The namespace's first process supervises; this one only waits for it.
fn within_namespace(
    order: &Order,
    room: Option<&Room>,
    control: UnixStream,
    streams: Streams,
) -> io::Result<()> {
    // SAFETY: this process has one thread, so the child may do whatever its parent might.
    #[allow(unsafe_code)]
    match unsafe { fork() }? {
        ForkResult::Child => run(order, room, control, streams, Reach::Namespace),
        ForkResult::Parent { child } => {
            drop((control, streams));
            waitpid(child, None)?;
            Ok(())
        }
    }
}

fn run(
    order: &Order,
    room: Option<&Room>,
    mut control: UnixStream,
    streams: Streams,
    reach: Reach,
) -> io::Result<()> {
    let mut children = SigSet::empty();
    children.add(Signal::SIGCHLD);
    children.thread_block()?;
    let signals = SignalFd::with_flags(&children, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
    let launched = Launch::prepare(order, streams, reach == Reach::Namespace)
        .map_err(|error| Refusal::new("cannot prepare the program", &error))
        .and_then(Launch::start);
    // Others of this user must not read the secrets in this memory.
    let _ = prctl::set_dumpable(false);
    match launched {
        Err(refusal) => refuse_and_remove(&mut control, room, &refusal),
        Ok(launched) => {
            let Launched { pid, shown } = launched;
            // A worker that is gone hears nothing; that it is gone the loop notices.
            let _ = send(&mut control, &Event::Started { pid: shown });
            let mut program = Program { pid, status: None, reach, signals };
            program.attend(&mut control)?;
            program.end_all()?;
            remove(room);
            let ended = program.status.unwrap_or(Status::Signal(Signal::SIGKILL as i32));
            let _ = send(&mut control, &Event::Ended(ended));
            Ok(())
        }
    }
}

/// The worker hears of it when nothing is left.
fn refuse_and_remove(control: &mut UnixStream, room: Option<&Room>, refusal: &Refusal) -> io::Result<()> {
    remove(room);
    refuse(control, refusal)
}

fn refuse(control: &mut UnixStream, refusal: &Refusal) -> io::Result<()> {
    send(control, &Event::Refused { why: refusal.why.clone(), permanent: refusal.permanent })
}

/// The program and all it started.
struct Program {
    pid: Pid,
    status: Option<Status>,
    reach: Reach,
    signals: SignalFd,
}

impl Program {
    /// Returns when the program has ended, or must.
    fn attend(&mut self, control: &mut UnixStream) -> io::Result<()> {
        while self.status.is_none() {
            let mut waits = [
                PollFd::new(control.as_fd(), PollFlags::POLLIN),
                PollFd::new(self.signals.as_fd(), PollFlags::POLLIN),
            ];
            match poll(&mut waits, PollTimeout::NONE) {
                Ok(_) | Err(Errno::EINTR) => {}
                Err(error) => return Err(error.into()),
            }
            let spoken = waits[0].any().unwrap_or(false);
            self.reap()?;
            if spoken {
                let mut word = [0];
                match control.read(&mut word) {
                    Ok(1) if word[0] == TERMINATE => {
                        let _ = killpg(self.pid, Signal::SIGTERM);
                    }
                    Ok(1) if word[0] != KILL => {}
                    // Asked to, or nobody is there any more.
                    _ => return Ok(()),
                }
            }
        }
        Ok(())
    }

    /// Kills everything the program started, until nothing is left.
    fn end_all(&mut self) -> io::Result<()> {
        loop {
            // The group dies at once, also when it forks as fast as it can; then whoever left it.
            if self.status.is_none() {
                let _ = killpg(self.pid, Signal::SIGKILL);
            }
            match self.reach {
                Reach::Namespace => {
                    let _ = kill(Pid::from_raw(-1), Signal::SIGKILL);
                }
                Reach::Descendants => {
                    for pid in descendants(Pid::this()) {
                        let _ = kill(pid, Signal::SIGKILL);
                    }
                }
            }
            if !self.reap()? {
                return Ok(());
            }
            let mut wait = [PollFd::new(self.signals.as_fd(), PollFlags::POLLIN)];
            let _ = poll(&mut wait, 10_u8);
        }
    }

    /// Takes note of who ended; tells whether there are children left.
    fn reap(&mut self) -> io::Result<bool> {
        while let Ok(Some(_)) = self.signals.read_signal() {}
        loop {
            match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::Exited(pid, code)) if pid == self.pid => {
                    self.status = Some(Status::Code(code));
                }
                Ok(WaitStatus::Signaled(pid, signal, _)) if pid == self.pid => {
                    self.status = Some(Status::Signal(signal as i32));
                }
                Ok(WaitStatus::StillAlive) => return Ok(true),
                Ok(_) | Err(Errno::EINTR) => {}
                Err(Errno::ECHILD) => return Ok(false),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

fn remove(room: Option<&Room>) {
    room.into_iter().for_each(Room::remove);
}

/// The worker may have been started with descriptors that it knows nothing of: none reaches the program.
fn close_inherited() -> io::Result<()> {
    // SAFETY: nothing in this process has opened a descriptor yet, so none of them belongs to anybody.
    #[allow(unsafe_code)]
    let closed = unsafe { nix::libc::syscall(nix::libc::SYS_close_range, 3, nix::libc::c_uint::MAX, 0) };
    if closed == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
