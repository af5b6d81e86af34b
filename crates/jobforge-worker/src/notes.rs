//! What handlers say while they run (log lines, progress, which object a result goes to) on its way to the
//! database, buffered lightly.

use std::sync::Arc;
use std::time::Duration;

use jobforge_core::{ArtifactRef, Code, Error, LogLine, ProgramExit, rpc};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use tokio_postgres::Client;

use crate::apart::{AGAIN, is_locked};
use crate::job::{Job, Life, Stop};
use crate::link::{told, within};

/// How many notes may wait; a handler that says more waits with them.
pub(crate) const MOST_WAITING: usize = 1024;

/// How many lines go in one call.
const MOST_LINES: usize = 1000;

/// How long a round of notes may wait for locks: the outcomes of all jobs wait with it.
const SEARCH: Duration = Duration::from_millis(200);

/// How many lines of an attempt the database keeps.
const MOST_KEPT: usize = 10_000;

/// What a handler says while it runs.
#[derive(Debug)]
pub(crate) enum Note {
    Log(LogLine),
    Progress {
        percent: f32,
        message: String,
    },
    Exit(ProgramExit),
    /// The job is to hold this object; whoever says so waits for the answer.
    Hold {
        artifact: ArtifactRef,
        answer: oneshot::Sender<Result<(), Error>>,
    },
}

/// The handlers' end of the way.
#[derive(Debug)]
pub(crate) struct Notes(mpsc::Sender<(Arc<Job>, Note)>);

/// The reporter's end.
pub(crate) type NoteInbox = mpsc::Receiver<(Arc<Job>, Note)>;

impl Notes {
    pub(crate) fn channel() -> (Notes, NoteInbox) {
        let (sender, inbox) = mpsc::channel(MOST_WAITING);
        (Notes(sender), inbox)
    }

    /// Waits while too many are on their way. After the worker's end nobody listens, and nothing is said.
    pub(crate) async fn send(&self, job: Arc<Job>, note: Note) {
        let _ = self.0.send((job, note)).await;
    }
}

/// What jobs said and the database was not told yet.
#[derive(Debug, Default)]
pub(crate) struct Speech {
    said: Vec<Said>,
}

/// Everything one job said since the last time.
#[derive(Debug)]
struct Said {
    job: Arc<Job>,
    lines: Vec<LogLine>,
    progress: Option<(f32, String)>,
    exit: Option<ProgramExit>,
    hold: Option<(ArtifactRef, oneshot::Sender<Result<(), Error>>)>,
    /// When to try again, where somebody holds the job locked.
    again_at: Option<Instant>,
}

impl Speech {
    /// Takes a note in, by job, in the order in which jobs spoke first.
    pub(crate) fn gather(&mut self, (job, note): (Arc<Job>, Note)) {
        let at = self.said.iter().position(|said| Arc::ptr_eq(&said.job, &job)).unwrap_or_else(|| {
            self.said.push(Said::of(job));
            self.said.len() - 1
        });
        self.said[at].add(note);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.said.is_empty()
    }

    /// When the next of it is to be told; never where there is nothing.
    pub(crate) fn due(&self) -> Option<Instant> {
        let now = Instant::now();
        self.said.iter().map(|said| said.again_at.unwrap_or(now)).min()
    }

    /// Whether something of this job is not told yet: then its end must wait.
    pub(crate) fn holds(&self, job: &Arc<Job>) -> bool {
        self.said.iter().any(|said| Arc::ptr_eq(&said.job, job))
    }

    /// Tells what is due, on this connection. What of it somebody else holds locked stays; an error means that the rest does,
    /// too.
    pub(crate) async fn tell(&mut self, client: &Client, patience: Duration) -> Result<(), Error> {
        let now = Instant::now();
        let (mut rest, due) = std::mem::take(&mut self.said)
            .into_iter()
            .partition::<Vec<_>, _>(|said| said.again_at.is_some_and(|again_at| again_at > now));
        let mut answer = Ok(());
        let mut locked = Vec::new();
        for mut said in due {
            // One after the other they wait for locks: the outcomes of all others wait with them.
            if answer.is_err() || now.elapsed() > SEARCH {
                rest.push(said);
                continue;
            }
            match said.send(client, patience).await {
                Ok(()) => {}
                Err(error) if !error.is_connection() => {
                    said.again_at = Some(Instant::now() + AGAIN);
                    locked.push(said);
                }
                Err(error) => {
                    answer = Err(error);
                    rest.extend((!said.is_empty()).then_some(said));
                }
            }
        }
        // What was not come to is first the next time.
        rest.append(&mut locked);
        self.said = rest;
        answer
    }

    /// Drops what belongs to leases that are gone.
    pub(crate) fn forget_lost(&mut self) {
        self.said.retain(|said| said.job.lease.life() != Life::Lost);
    }
}

impl Said {
    fn of(job: Arc<Job>) -> Said {
        Said { job, lines: Vec::new(), progress: None, exit: None, hold: None, again_at: None }
    }

    fn add(&mut self, note: Note) {
        match note {
            // Of more the database keeps none but a word that there were more.
            Note::Log(line) if self.lines.len() <= MOST_KEPT => self.lines.push(line),
            Note::Log(_) => {}
            Note::Progress { percent, message } => self.progress = Some((percent, message)),
            Note::Exit(exit) => self.exit = Some(exit),
            Note::Hold { artifact, answer } => self.hold = Some((artifact, answer)),
        }
    }

    fn is_empty(&self) -> bool {
        self.lines.is_empty() && self.progress.is_none() && self.exit.is_none() && self.hold.is_none()
    }

    /// Sends it; what was told is not in it any more. A job that is no longer ours is stopped; a note that is refused is
    /// gone, and so are lines whose answer is lost, since repeating them could double them.
    async fn send(&mut self, client: &Client, patience: Duration) -> Result<(), Error> {
        let answer = self.send_notes(client, patience).await;
        if let Err(error) = &answer {
            if error.is_transient() {
                return answer;
            }
            tracing::warn!(job_id = %self.job.job_ref().id, error = told(error), "notes of a job are lost");
            self.heed(error);
            (self.lines, self.progress, self.exit) = (Vec::new(), None, None);
        }
        self.send_hold(client, patience).await
    }

    async fn send_notes(&mut self, client: &Client, patience: Duration) -> Result<(), Error> {
        let (lease, job) = (self.job.lease.id, self.job.job_ref());
        while !self.lines.is_empty() {
            let lines = &self.lines[..self.lines.len().min(MOST_LINES)];
            let answer = within(patience, "append_log", rpc::append_log(client, lease, job, lines)).await;
            if let Err(error) = &answer
                && !error.is_connection()
            {
                return answer.map(drop);
            }
            if answer.is_err() {
                tracing::warn!(job_id = %job.id, lines = lines.len(), "log lines may be lost");
            }
            self.lines.drain(..lines.len());
            answer?;
        }
        if let Some((percent, message)) = &self.progress {
            let call = rpc::report_progress(client, lease, job, *percent, message);
            within(patience, "report_progress", call).await?;
            self.progress = None;
        }
        if let Some(exit) = &self.exit {
            within(patience, "report_exit", rpc::report_exit(client, lease, job, exit)).await?;
            self.exit = None;
        }
        Ok(())
    }

    async fn send_hold(&mut self, client: &Client, patience: Duration) -> Result<(), Error> {
        let Some((artifact, waiting)) = self.hold.take() else { return Ok(()) };
        let call = rpc::hold_result(client, self.job.lease.id, self.job.job_ref(), artifact);
        let held = within(patience, "hold_result", call).await;
        let answer = match &held {
            Err(error) if is_locked(error) => {
                self.hold = Some((artifact, waiting));
                return held;
            }
            // Whoever waits for it tries again.
            Err(error) if error.is_connection() => Err(Error::Closed { operation: "hold_result" }),
            Err(error) => {
                self.heed(error);
                Ok(())
            }
            Ok(()) => Ok(()),
        };
        // Whoever waited may have been stopped.
        let _ = waiting.send(held);
        answer
    }

    fn heed(&self, error: &Error) {
        if error.code() == Some(Code::LeaseLost) {
            self.job.stop(Stop::Lost);
        }
    }
}
