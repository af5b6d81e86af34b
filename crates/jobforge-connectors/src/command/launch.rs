//! From the supervisor's fork to the program: everything that must be so when it begins.

use std::ffi::CString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::prctl;
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::signal::{SigHandler, SigSet, Signal, signal};
use nix::unistd::{
    ForkResult, Gid, Pid, Uid, chdir, dup2_stderr, dup2_stdin, dup2_stdout, execve, fork, getppid, pipe2,
    setgroups, setresgid, setresuid, setsid,
};

use super::order::{Limits, Order};
use super::view::{self, View};

/// What the program is started with, made ready before the fork.
pub(super) struct Launch {
    program: CString,
    argv: Vec<CString>,
    variables: Vec<CString>,
    directory: PathBuf,
    stdin: OwnedFd,
    stdout: OwnedFd,
    stderr: OwnedFd,
    user: Option<(Uid, Gid)>,
    limits: Limits,
    /// Whether the namespace sees to it that the program dies with its supervisor.
    contained: bool,
    view: Option<View>,
    rehearsal: bool,
}

/// The standard streams that the worker reads.
pub(super) struct Streams {
    pub(super) stdout: OwnedFd,
    pub(super) stderr: OwnedFd,
}

/// A program that runs.
pub(super) struct Launched {
    /// As the supervisor sees it.
    pub(super) pid: Pid,
    /// As the worker sees it.
    pub(super) shown: i32,
}

/// Why a program did not start.
pub(super) struct Refusal {
    pub(super) why: String,
    /// Whether another try could end otherwise.
    pub(super) permanent: bool,
}

impl Refusal {
    pub(super) fn new(step: &str, error: &io::Error) -> Refusal {
        let hopeless =
            [Errno::ENOENT, Errno::EACCES, Errno::ENOEXEC, Errno::ENOTDIR, Errno::E2BIG, Errno::EISDIR];
        let errno = error.raw_os_error().map(Errno::from_raw);
        let permanent = step.starts_with(PROGRAM) && errno.is_some_and(|errno| hopeless.contains(&errno));
        Refusal { why: format!("{step}: {error}"), permanent }
    }
}

/// How the step is called in which the program itself is at fault.
const PROGRAM: &str = "cannot run ";

impl Launch {
    pub(super) fn prepare(order: &Order, streams: Streams, contained: bool) -> io::Result<Launch> {
        let text = |text: &str| CString::new(text).map_err(io::Error::other);
        let argv = std::iter::once(&order.program).chain(&order.args).map(|arg| text(arg));
        let variables = order.variables.iter().map(|(name, value)| text(&format!("{name}={value}")));
        Ok(Launch {
            program: text(&order.program)?,
            argv: argv.collect::<Result<_, _>>()?,
            variables: variables.collect::<Result<_, _>>()?,
            directory: order.place(),
            stdin: stdin(order.stdin.as_deref())?,
            stdout: streams.stdout,
            stderr: streams.stderr,
            user: order.user.map(|user| (Uid::from_raw(user.uid), Gid::from_raw(user.gid))),
            limits: order.limits,
            contained,
            view: View::of(order),
            rehearsal: order.rehearsal,
        })
    }

    /// Forks and becomes the program in the child. What failed there comes back through a pipe that the
    /// program's start closes.
    pub(super) fn start(self) -> Result<Launched, Refusal> {
        let (told, tell) =
            pipe2(OFlag::O_CLOEXEC).map_err(|error| Refusal::new("cannot make a pipe", &error.into()))?;
        let supervisor = Pid::this();
        // SAFETY: the supervisor has one thread, so the child may do whatever its parent might.
        #[allow(unsafe_code)]
        let forked = unsafe { fork() };
        match forked {
            Err(error) => Err(Refusal::new("cannot start a process", &error.into())),
            Ok(ForkResult::Child) => {
                drop(told);
                self.become_program(supervisor, File::from(tell))
            }
            Ok(ForkResult::Parent { child }) => {
                drop((tell, self));
                let mut answer = Vec::new();
                let read = File::from(told).read_to_end(&mut answer);
                read.map_err(|error| Refusal::new("cannot hear from the new process", &error))?;
                let (number, failure) = answer.split_at_checked(4).unwrap_or((&[], &answer));
                if let Some((errno, step)) = failure.split_at_checked(4) {
                    let _ = nix::sys::wait::waitpid(child, None);
                    let errno = i32::from_le_bytes(errno.try_into().unwrap_or_default());
                    let step = String::from_utf8_lossy(step);
                    return Err(Refusal::new(&step, &io::Error::from_raw_os_error(errno)));
                }
                let shown = number.try_into().map_or(child.as_raw(), i32::from_le_bytes);
                Ok(Launched { pid: child, shown })
            }
        }
    }

    fn become_program(self, supervisor: Pid, mut tell: File) -> ! {
        // Until this process has a view of its own, `/proc` is the worker's and knows its number there.
        let outer = std::fs::read_link("/proc/self").ok();
        let shown =
            outer.and_then(|link| link.to_str()?.parse().ok()).unwrap_or_else(|| Pid::this().as_raw());
        let _ = tell.write_all(&shown.to_le_bytes());
        let (step, errno) = self.steps(supervisor);
        let _ = tell.write_all(&(errno as i32).to_le_bytes());
        let _ = tell.write_all(step.as_bytes());
        std::process::exit(127)
    }

    /// Returns only when a step failed.
    fn steps(&self, supervisor: Pid) -> (String, Errno) {
        let before = || -> Result<(), (&str, Errno)> {
            let step = |name| move |errno| (name, errno);
            setsid().map_err(step("cannot have a session of its own"))?;
            dup2_stdin(&self.stdin).map_err(step("cannot set standard input"))?;
            dup2_stdout(&self.stdout).map_err(step("cannot set standard output"))?;
            dup2_stderr(&self.stderr).map_err(step("cannot set standard error"))?;
            self.look()?;
            self.limit().map_err(step("cannot set the limits"))?;
            if let Some((uid, gid)) = self.user {
                setgroups(&[]).map_err(step("cannot drop the groups"))?;
                setresgid(gid, gid, gid).map_err(step("cannot drop to the user's group"))?;
                setresuid(uid, uid, uid).map_err(step("cannot drop to the user"))?;
            }
            prctl::set_no_new_privs().map_err(step("cannot give up new privileges"))?;
            if !self.contained {
                // After the change of user, which would undo it.
                prctl::set_pdeathsig(Signal::SIGKILL).map_err(step("cannot be tied to its supervisor"))?;
                if getppid() != supervisor {
                    return Err(("its supervisor is gone", Errno::ESRCH));
                }
            }
            chdir(&self.directory).map_err(step("cannot enter its directory"))?;
            defaults().map_err(step("cannot reset the signals"))
        };
        if let Err((step, errno)) = before() {
            return (step.to_owned(), errno);
        }
        if self.rehearsal {
            std::process::exit(0);
        }
        let error = self.limit_memory().and_then(|()| execve(&self.program, &self.argv, &self.variables));
        let Err(errno) = error;
        (format!("{PROGRAM}{}", self.program.to_string_lossy()), errno)
    }

    /// Changes what the program sees of processes and files.
    fn look(&self) -> Result<(), (&'static str, Errno)> {
        match &self.view {
            Some(view) => view.enter()?,
            None if self.contained => view::show_own_processes_if_allowed(),
            None => {}
        }
        Ok(())
    }

    fn limit(&self) -> nix::Result<()> {
        let Limits { cpu_seconds, open_files, processes, file_bytes, .. } = self.limits;
        setrlimit(Resource::RLIMIT_CORE, 0, 0)?;
        let wanted = [
            (Resource::RLIMIT_NOFILE, open_files),
            (Resource::RLIMIT_NPROC, processes),
            (Resource::RLIMIT_FSIZE, file_bytes),
        ];
        for (resource, limit) in wanted {
            limit.map_or(Ok(()), |limit| setrlimit(resource, limit, limit))?;
        }
        // One second between the warning and the end.
        cpu_seconds.map_or(Ok(()), |seconds| setrlimit(Resource::RLIMIT_CPU, seconds, seconds + 1))
    }

    /// The last step, since from then on even an error could lack memory.
    fn limit_memory(&self) -> nix::Result<()> {
        self.limits.memory_bytes.map_or(Ok(()), |bytes| setrlimit(Resource::RLIMIT_AS, bytes, bytes))
    }
}

/// A program expects every signal to do what it does by default, whatever the worker inherited or set.
fn defaults() -> nix::Result<()> {
    for each in Signal::iterator().filter(|each| !matches!(each, Signal::SIGKILL | Signal::SIGSTOP)) {
        // SAFETY: no handler is installed, only removed.
        #[allow(unsafe_code)]
        unsafe { signal(each, SigHandler::SigDfl) }?;
    }
    SigSet::all().thread_unblock()
}

/// A file in memory: whoever does not read it is not waited for.
fn stdin(text: Option<&str>) -> io::Result<OwnedFd> {
    let Some(text) = text else { return Ok(File::open("/dev/null")?.into()) };
    let mut file = File::from(memfd_create("stdin", MFdFlags::MFD_CLOEXEC)?);
    file.write_all(text.as_bytes())?;
    // Another opening of it: read only, and at its beginning.
    let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file));
    Ok(File::open(path)?.into())
}
