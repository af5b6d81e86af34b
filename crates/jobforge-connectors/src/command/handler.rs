//! One attempt of a command: from the payload to the program, and from its end to the outcome.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use jobforge_worker::{Context, HandlerError, HandlerResult, Outcome, ProgramExit, WorkerBuilder};
use secrecy::ExposeSecret;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, sleep_until, timeout};
use uuid::Uuid;

use super::argv::Facts;
use super::directory;
use super::fields::Problem;
use super::file::{Command, CommandFile, Isolation, ResultFrom, Stdin};
use super::order::{
    Apart, Event, KILL, Namespaces, Order, Status, TERMINATE, WorkDirectory, private_directory,
};
use super::output::{Output, Stream};
use super::rehearsal::rehearse;
use super::run::{Printed, Run};
use super::tails::{Tail, TooLong};
use super::tree;
use super::verdict::Meaning;

/// How long a supervisor may take to kill what it was told to kill. A process in an uninterruptible wait of
/// the kernel takes longer than that, and does not keep the slot.
const KILLING: Duration = Duration::from_secs(10);
/// How long the last output may take once nobody is there any more to write it.
const DRAINING: Duration = Duration::from_secs(2);
/// How long the last lines may take to be handed on.
const LOGGING: Duration = Duration::from_secs(5);

/// The commands of a worker, ready to become its handlers.
#[derive(Debug, Clone)]
pub struct Commands {
    file: CommandFile,
    supervisor: PathBuf,
    /// Why commands cannot be kept apart here, once that was tried.
    obstacle: OnceLock<Option<String>>,
}

impl Commands {
    /// The commands of a file, supervised by this very executable: its `main` must begin with
    /// [`supervise_if_asked`](super::supervise_if_asked).
    pub fn new(file: CommandFile) -> Commands {
        Commands { file, supervisor: PathBuf::from("/proc/self/exe"), obstacle: OnceLock::new() }
    }

    /// Supervised by another executable that begins with `supervise_if_asked`, such as `jobforge-supervise`.
    #[must_use]
    pub fn supervised_by(self, executable: impl Into<PathBuf>) -> Commands {
        Commands { supervisor: executable.into(), obstacle: OnceLock::new(), ..self }
    }

    /// What these commands are.
    pub fn file(&self) -> &CommandFile {
        &self.file
    }

    /// Why this worker cannot have these commands: those that must be kept apart, where that is not possible.
    pub fn problems(&self) -> Vec<Problem> {
        let Some(obstacle) = self.obstacle() else { return Vec::new() };
        let required = self.file.commands().filter(|(_, command)| command.isolation == Isolation::Required);
        let problem = format!("is required, and not possible here: {obstacle}");
        required
            .map(|(key, _)| Problem::new(format!("commands.{key:?}.isolation"), problem.clone()))
            .collect()
    }

    /// What is allowed and still deserves a second look.
    pub fn warnings(&self) -> Vec<Problem> {
        let mut warnings = self.file.warnings();
        if self.file.namespaces != Namespaces::Off {
            warnings.extend(self.obstacle().map(|obstacle| {
                let problem = "commands are not kept apart here, they share /tmp, and those of one user can reach \
                               each other's directories";
                Problem::new("namespaces", format!("{problem}: {obstacle}"))
            }));
        }
        warnings
    }

    /// Removes what is left of commands whose worker and supervisor were killed together; for the start of a
    /// worker. Tells of how many.
    pub fn remove_leftovers(&self) -> usize {
        directory::sweep(&directory::rooms(&self.file.directory_root))
    }

    /// Why commands cannot be kept apart here; found out by doing everything but starting a program.
    fn obstacle(&self) -> Option<&str> {
        let found = self.obstacle.get_or_init(|| match self.file.namespaces {
            Namespaces::Off => Some("namespaces are off".to_owned()),
            Namespaces::Auto | Namespaces::Require => {
                rehearse(&self.supervisor, new_room(&self.file.directory_root, &new_run())).err()
            }
        });
        found.as_deref()
    }

    /// Makes a handler of each command: its key is the job type.
    pub fn handle(&self, worker: WorkerBuilder) -> WorkerBuilder {
        let obstacle: Option<Arc<str>> = self.obstacle().map(Into::into);
        self.file.commands().fold(worker, |worker, (key, command)| {
            let attempt = Attempt {
                key: key.as_str().into(),
                command: command.clone(),
                supervisor: self.supervisor.as_path().into(),
                directory_root: self.file.directory_root.as_path().into(),
                namespaces: self.file.namespaces,
                obstacle: obstacle.clone(),
            };
            worker.handle(key, move |context: Context, payload: Box<RawValue>| {
                attempt.clone().run(context, payload)
            })
        })
    }
}

/// What every attempt of a command shares.
#[derive(Clone)]
struct Attempt {
    key: Arc<str>,
    command: Arc<Command>,
    supervisor: Arc<Path>,
    directory_root: Arc<Path>,
    namespaces: Namespaces,
    obstacle: Option<Arc<str>>,
}

/// A name for what belongs to one attempt.
fn new_run() -> String {
    Uuid::now_v7().simple().to_string()
}

fn new_room(directory_root: &Path, run: &str) -> PathBuf {
    directory::rooms(directory_root).join(run)
}

/// Why a program was stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stopped {
    /// The job was canceled, its definition's time is up, the worker stops, or the lease is lost.
    Told,
    TimedOut,
    Flooded,
}

/// How far a program came.
enum Ran {
    Refused {
        why: String,
        permanent: bool,
    },
    Ended(Status),
    /// The supervisor died.
    Vanished,
    /// It was told to kill and did not end.
    Unkillable,
}

impl Attempt {
    async fn run(self, context: Context, payload: Box<RawValue>) -> HandlerResult {
        self.command.variables.secrets().iter().for_each(|secret| context.add_secret(secret.expose_secret()));
        if let Some(obstacle) =
            self.obstacle.as_ref().filter(|_| self.command.isolation == Isolation::Required)
        {
            return Err(self.error(&format!("its isolation is required, and not possible here: {obstacle}")));
        }
        let run = new_run();
        let order = self.order(&context, &payload, &run).map_err(|why| self.error(&why).permanent())?;
        let started = Run::start(&self.supervisor, &self.key, &order).await;
        let (mut supervised, printed) =
            started.map_err(|error| self.error(&format!("cannot start its supervisor: {error}")))?;
        let mut reading = Reading::begin(printed, &self.command, &context);
        let mut pid = None;
        let (ran, stopped) = self.attend(&mut supervised, &context, &reading.output, &mut pid).await;
        match ran {
            Ran::Vanished | Ran::Unkillable => drop(supervised),
            Ran::Refused { .. } | Ran::Ended(_) => supervised.end().await,
        }
        if matches!(ran, Ran::Vanished) {
            let killed = tree::sweep(&tree::mark(&run));
            tracing::warn!(command = &*self.key, killed, "the supervisor of a command died");
            let _ = tokio::task::spawn_blocking(move || directory::remove(&order.room)).await;
        }
        let (stdout, stderr) = reading.end().await;
        let last_words = stderr.last_line().map(<[u8]>::to_vec).unwrap_or_default();
        let result = self.result(&ran, &stdout);
        let (exit_code, signal) = match ran {
            Ran::Ended(Status::Code(code)) => (Some(code), None),
            Ran::Ended(Status::Signal(signal)) => (None, Some(signal)),
            _ => (None, None),
        };
        let (stdout_tail, stderr_tail) = (stdout.text(), stderr.text());
        if pid.is_some() {
            context.report_exit(ProgramExit { pid, exit_code, signal, stdout_tail, stderr_tail }).await;
        }
        self.judge(&ran, stopped, result, &super::tails::visible(&last_words))
    }

    /// What the program gets of the job, or why it gets nothing.
    fn order(&self, context: &Context, payload: &RawValue, run: &str) -> Result<Order, String> {
        let value: Value = serde_json::from_str(payload.get()).map_err(|error| error.to_string())?;
        let command = &self.command;
        let room = new_room(&self.directory_root, run);
        let mut variables = command.variables.fill(&[
            ("JOBFORGE_JOB_ID", context.job_id().to_string()),
            ("JOBFORGE_TENANT_ID", context.tenant_id().to_string()),
            ("JOBFORGE_ATTEMPT", context.attempt().to_string()),
        ]);
        variables.push((tree::MARK.to_owned(), tree::mark(run)));
        if command.directory.is_none() {
            let own = private_directory(&room).to_string_lossy().into_owned();
            variables.push(("TMPDIR".to_owned(), own));
        }
        let apart = self.obstacle.is_none().then_some(Apart { private_tmp: command.private_tmp });
        Ok(Order {
            program: command.program.to_string_lossy().into_owned(),
            args: command.args.fill(Facts::of(context, &value))?,
            variables,
            directory: command.directory.clone().map_or(WorkDirectory::Private, WorkDirectory::Fixed),
            room,
            stdin: (command.stdin == Stdin::Payload).then(|| payload.get().to_owned()),
            user: command.user,
            limits: command.limits,
            // What was possible at the start is not done without later.
            namespaces: if apart.is_some() { Namespaces::Require } else { self.namespaces },
            apart,
            rehearsal: false,
        })
    }

    /// Waits for the program's end, and ends it where it must: first with a request, then without one.
    async fn attend(
        &self,
        run: &mut Run,
        context: &Context,
        output: &Output,
        pid: &mut Option<i32>,
    ) -> (Ran, Option<Stopped>) {
        let far = Duration::from_secs(86_400 * 365);
        let ends_at = Instant::now() + self.command.timeout.unwrap_or(far);
        let mut kill_at = Instant::now() + far;
        let mut give_up_at = kill_at;
        let mut stopped = None;
        loop {
            let stop = tokio::select! {
                biased;
                event = run.event() => match event {
                    Some(Event::Started { pid: started }) => {
                        *pid = Some(started);
                        context.report_exit(ProgramExit { pid: *pid, ..ProgramExit::default() }).await;
                        continue;
                    }
                    Some(Event::Refused { why, permanent }) => return (Ran::Refused { why, permanent }, stopped),
                    Some(Event::Ended(status)) => return (Ran::Ended(status), stopped),
                    None => return (Ran::Vanished, stopped),
                },
                () = output.flooded.notified(), if stopped != Some(Stopped::Flooded) => Stopped::Flooded,
                () = context.cancellation().cancelled(), if stopped.is_none() => Stopped::Told,
                () = sleep_until(ends_at), if stopped.is_none() => Stopped::TimedOut,
                () = sleep_until(kill_at) => {
                    run.say(KILL).await;
                    give_up_at = Instant::now() + KILLING;
                    kill_at = Instant::now() + far;
                    continue;
                }
                () = sleep_until(give_up_at) => return (Ran::Unkillable, stopped),
            };
            stopped = Some(stop);
            let grace = if stop == Stopped::Flooded { Duration::ZERO } else { self.command.grace };
            kill_at = Instant::now() + grace;
            run.say(TERMINATE).await;
        }
    }

    /// The job's result as the program printed it.
    fn result(&self, ran: &Ran, stdout: &Tail) -> Result<Option<Box<RawValue>>, String> {
        let good =
            matches!(ran, Ran::Ended(status) if self.command.exit_codes.judge(*status) == Meaning::Success);
        if !good || self.command.result == ResultFrom::Nothing {
            return Ok(None);
        }
        let line =
            stdout.last_line().map_err(|TooLong| "its last line is too long to be its result".to_owned())?;
        if line.is_empty() {
            return Err("it printed no line that could be its result".to_owned());
        }
        let result = serde_json::from_slice(line);
        result.map(Some).map_err(|error| format!("its last line is no JSON: {error}"))
    }

    fn judge(
        &self,
        ran: &Ran,
        stopped: Option<Stopped>,
        result: Result<Option<Box<RawValue>>, String>,
        last_words: &str,
    ) -> HandlerResult {
        let status = match ran {
            Ran::Refused { why, permanent } => {
                let error = self.error(why);
                return Err(if *permanent { error.permanent() } else { error });
            }
            Ran::Vanished => return Err(self.error("its supervisor died, and it was killed")),
            Ran::Unkillable => return Err(self.error("it could not be killed in time")),
            Ran::Ended(status) => *status,
        };
        let end = match status {
            Status::Code(code) => format!("exit code {code}"),
            Status::Signal(signal) => format!("killed by signal {signal}"),
        };
        match stopped {
            Some(Stopped::Flooded) => {
                let most = self.command.output_bytes / (1024 * 1024);
                return Err(self
                    .error(&format!("it printed more than {most} MB and was killed"))
                    .permanent());
            }
            Some(Stopped::TimedOut) => {
                let seconds = self.command.timeout.unwrap_or_default().as_secs();
                return Err(self.error(&format!("timed out after {seconds} s, {end}")).timed_out());
            }
            Some(Stopped::Told) => return Err(self.error(&format!("it was stopped, {end}"))),
            None => {}
        }
        let said: String = last_words.chars().take(300).collect();
        let failure = || self.error(&if said.is_empty() { end.clone() } else { format!("{end}: {said}") });
        match self.command.exit_codes.judge(status) {
            Meaning::Success => match result {
                Ok(result) => Ok(Outcome::Complete(result)),
                Err(why) => Err(self.error(&why).permanent()),
            },
            Meaning::Retryable => Err(failure()),
            Meaning::Permanent => Err(failure().permanent()),
        }
    }

    fn error(&self, what: &str) -> HandlerError {
        HandlerError::new(format!("command {}: {what}", self.key))
    }
}

/// The tasks that read what a program prints. Dropped, they end.
struct Reading {
    output: Arc<Output>,
    tasks: JoinSet<()>,
    log: Aborted,
}

struct Aborted(JoinHandle<()>);

impl Drop for Aborted {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Reading {
    fn begin(printed: Printed, command: &Command, context: &Context) -> Reading {
        let output = Output::new(command.output_bytes);
        let (log, lines) = Output::channel();
        let mut tasks = JoinSet::new();
        tasks.spawn(output.clone().read(Stream::Stdout, printed.stdout, log.clone()));
        tasks.spawn(output.clone().read(Stream::Stderr, printed.stderr, log));
        let log = Aborted(tokio::spawn(output.clone().forward(lines, context.clone())));
        Reading { output, tasks, log }
    }

    /// Both tails. Whoever still holds a stream open is not waited for, and neither is a log that cannot be
    /// stored.
    async fn end(&mut self) -> (Tail, Tail) {
        let all = async { while self.tasks.join_next().await.is_some() {} };
        if timeout(DRAINING, all).await.is_err() {
            self.tasks.abort_all();
        }
        let _ = timeout(LOGGING, &mut self.log.0).await;
        (self.output.take(Stream::Stdout), self.output.take(Stream::Stderr))
    }
}
