//! What handlers say while they run (log lines, progress, which object a result goes to) on its way to the
//! database, buffered lightly.

use std::sync::Arc;
use std::time::Duration;

use jobforge_core::{ArtifactRef, Code, Error, LogLine, ProgramExit, rpc};
use tokio::sync::{mpsc, oneshot};
use tokio_postgres::Client;

use crate::job::{Job, Stop};
use crate::link::{told, within};

/// How many notes may wait; a handler that says more waits with them.
const MOST_WAITING: usize = 1024;

/// How many lines go in one call, of which the database takes ten times as many at most.
const MOST_LINES: usize = 1000;

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

/// Everything one job said since the last time.
#[derive(Debug)]
pub(crate) struct Said {
    job: Arc<Job>,
    lines: Vec<LogLine>,
    progress: Option<(f32, String)>,
    exit: Option<ProgramExit>,
    hold: Option<(ArtifactRef, oneshot::Sender<Result<(), Error>>)>,
}

/// Gathers notes by job, in the order in which jobs spoke first.
pub(crate) fn gather(said: &mut Vec<Said>, (job, note): (Arc<Job>, Note)) {
    let at = said.iter().position(|said| Arc::ptr_eq(&said.job, &job)).unwrap_or_else(|| {
        said.push(Said { job, lines: Vec::new(), progress: None, exit: None, hold: None });
        said.len() - 1
    });
    match note {
        Note::Log(line) => said[at].lines.push(line),
        Note::Progress { percent, message } => said[at].progress = Some((percent, message)),
        Note::Exit(exit) => said[at].exit = Some(exit),
        Note::Hold { artifact, answer } => said[at].hold = Some((artifact, answer)),
    }
}

impl Said {
    /// Sends it. A job that is no longer ours is stopped; a note that is refused is gone, and so is a line that meets a
    /// broken connection, since repeating it could double it.
    pub(crate) async fn send(&mut self, client: &Client, patience: Duration) -> Result<(), Error> {
        let (lease, job) = (self.job.lease.id, self.job.job_ref());
        let mut answer = Ok(());
        for lines in self.lines.chunks(MOST_LINES) {
            if answer.is_ok() {
                let call = rpc::append_log(client, lease, job, lines);
                answer = within(patience, "append_log", call).await.map(drop);
            }
        }
        if let (Ok(()), Some((percent, message))) = (&answer, &self.progress) {
            let call = rpc::report_progress(client, lease, job, *percent, message);
            answer = within(patience, "report_progress", call).await;
        }
        if let (Ok(()), Some(exit)) = (&answer, &self.exit) {
            let call = rpc::report_exit(client, lease, job, exit);
            answer = within(patience, "report_exit", call).await;
        }
        if let Err(error) = &answer {
            tracing::warn!(job_id = %job.id, error = told(error), "notes of a job are lost");
            if error.code() == Some(Code::LeaseLost) {
                self.job.stop(Stop::Lost);
            }
        }
        if let Some((artifact, waiting)) = self.hold.take() {
            let held = within(patience, "hold_result", rpc::hold_result(client, lease, job, artifact)).await;
            if let Err(error) = &held {
                if error.code() == Some(Code::LeaseLost) {
                    self.job.stop(Stop::Lost);
                }
                if error.is_connection() {
                    answer = Err(Error::Closed { operation: "hold_result" });
                }
            }
            // Whoever waited may have been stopped.
            let _ = waiting.send(held);
        }
        answer
    }

    /// What is worth telling again after a broken connection: what twice is as good as once.
    pub(crate) fn repeatable(self) -> Option<Said> {
        let Said { job, progress, exit, .. } = self;
        let worth_it = progress.is_some() || exit.is_some();
        worth_it.then(|| Said { job, lines: Vec::new(), progress, exit, hold: None })
    }
}
