//! Handlers under test: alone, without a database ([`Trial`]), or with one, all that is due at once ([`drain`]).

use std::time::Duration;

use std::sync::Arc;

use jiff::Timestamp;
use jobforge_core::{ClaimedJob, Class, JobRef, Locator, LogLine, ProgramExit};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::sleep;
use uuid::Uuid;

use crate::config::WorkerConfig;
use crate::engine::{Engine, Inboxes};
use crate::executor::{Ending, execute};
use crate::handler::{Handler, Registry};
use crate::job::{Job, Lease, Stop};
use crate::journal::Ended;
use crate::lanes::Lane;
use crate::notes::{Note, NoteInbox};
use crate::outcome::Outcome;
use crate::stats::Stats;
use crate::worker::{Worker, WorkerError};

/// The type of a job on trial; no handler has to care.
const TYPE: &str = "trial";

/// One attempt of a job that no database knows, to be run by a handler.
///
/// ```
/// use jobforge_worker::testing::Trial;
/// use jobforge_worker::{Context, HandlerResult, Level, Outcome};
///
/// async fn double(context: Context, number: i64) -> HandlerResult {
///     context.log(Level::Info, "doubling").await;
///     Ok(Outcome::complete(&(number * 2))?)
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), serde_json::Error> {
/// let tried = Trial::new(&21)?.run(double).await;
/// assert!(matches!(tried.outcome, Outcome::Complete(Some(result)) if result.get() == "42"));
/// assert_eq!(tried.log[0].message, "doubling");
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Trial {
    claimed: ClaimedJob,
    cancel_after: Option<Duration>,
}

/// What a handler made of its trial.
#[derive(Debug)]
pub struct Tried {
    /// How it ended, as the database would be told: a panic, an error or a timeout is a
    /// [`Retry`](Outcome::Retry), a payload that does not fit a [`Fail`](Outcome::Fail).
    pub outcome: Outcome,
    /// What it logged.
    pub log: Vec<LogLine>,
    /// How far it said it was, in percent and words.
    pub progress: Vec<(f32, String)>,
    /// What it said last of a program it ran.
    pub exit: Option<ProgramExit>,
}

/// What was drained.
#[derive(Debug)]
pub struct Drained {
    /// The numbers of it.
    pub stats: Stats,
    /// Every attempt, in the order in which the database took its end.
    pub ended: Vec<Ended>,
}

impl Trial {
    /// The first attempt of a job with this payload, of some tenant and without a time limit.
    pub fn new<T: Serialize + ?Sized>(payload: &T) -> Result<Trial, serde_json::Error> {
        let claimed = ClaimedJob {
            lease_id: Uuid::nil(),
            lease_expires_at: Timestamp::MAX,
            solo: false,
            claim_no: 1,
            job: JobRef { tenant_id: Uuid::new_v4(), id: Uuid::now_v7(), fence: 1 },
            job_type: TYPE.to_owned(),
            queue: "default".to_owned(),
            priority: 100,
            run_at: Timestamp::now(),
            failures: 0,
            deaths: 0,
            max_attempts: 3,
            timeout_seconds: 0,
            correlation_id: None,
            traceparent: None,
            payload: serde_json::value::to_raw_value(payload)?,
            locator: Locator { block: 0, offset: 0 },
            limited: false,
        };
        Ok(Trial { claimed, cancel_after: None })
    }

    /// After this many failures.
    #[must_use]
    pub fn failures(mut self, failures: i32) -> Trial {
        self.claimed.failures = failures;
        self.claimed.job.fence = failures + 1;
        self
    }

    /// A job of this tenant.
    #[must_use]
    pub fn tenant(mut self, tenant_id: Uuid) -> Trial {
        self.claimed.job.tenant_id = tenant_id;
        self
    }

    /// A job of this trace, in the W3C's form.
    #[must_use]
    pub fn traceparent(mut self, traceparent: impl Into<String>) -> Trial {
        self.claimed.traceparent = Some(traceparent.into());
        self
    }

    /// A job with this much time, in seconds.
    #[must_use]
    pub fn timeout_seconds(mut self, seconds: i32) -> Trial {
        self.claimed.timeout_seconds = seconds;
        self
    }

    /// Somebody asks for it to be canceled after this time.
    #[must_use]
    pub fn cancel_after(mut self, after: Duration) -> Trial {
        self.cancel_after = Some(after);
        self
    }

    /// Runs the handler as a worker would.
    pub async fn run<A>(self, handler: impl Handler<A>) -> Tried
    where
        A: DeserializeOwned + Send + 'static,
    {
        let mut registry = Registry::default();
        registry.add(TYPE.to_owned(), handler);
        let (engine, Inboxes { mut notes, .. }) = Engine::new(WorkerConfig::default(), registry);
        let engine = Arc::new(engine);
        // No beat renews it: it ends when no handler runs any more.
        let good_until = std::time::Instant::now() + Duration::from_secs(86_400);
        let lease = Arc::new(Lease::new(self.claimed.lease_id, 1, good_until));
        let job = Arc::new(Job::new(self.claimed, lease, Lane::First));
        let mut said = Said::default();
        let ending = {
            let work = execute(&engine, &job, std::time::Instant::now());
            let cancel = async {
                match self.cancel_after {
                    Some(after) => sleep(after).await,
                    None => std::future::pending().await,
                }
                job.stop(Stop::Canceled);
                std::future::pending::<()>().await;
            };
            tokio::pin!(work, cancel);
            loop {
                tokio::select! {
                    biased;
                    ending = &mut work => break ending,
                    Some((_, note)) = notes.recv() => said.add(note),
                    () = &mut cancel => {}
                }
            }
        };
        said.add_waiting(&mut notes);
        Tried { outcome: outcome(ending), log: said.log, progress: said.progress, exit: said.exit }
    }
}

/// Runs everything that is due for this worker here and now, and what its jobs leave behind that is due then;
/// returns once nothing is.
///
/// What a limit holds back for others' jobs, and what another worker has, is left.
pub async fn drain(worker: &Worker) -> Result<Drained, WorkerError> {
    let (stats, ended) = worker.run_kept().await?;
    Ok(Drained { stats, ended })
}

#[derive(Default)]
struct Said {
    log: Vec<LogLine>,
    progress: Vec<(f32, String)>,
    exit: Option<ProgramExit>,
}

impl Said {
    fn add(&mut self, note: Note) {
        match note {
            Note::Log(line) => self.log.push(line),
            Note::Progress { percent, message } => self.progress.push((percent, message)),
            Note::Exit(exit) => self.exit = Some(exit),
            // There is no store, so no result is moved there.
            Note::Hold { .. } => {}
        }
    }

    /// What was said last, just before the end.
    fn add_waiting(&mut self, notes: &mut NoteInbox) {
        while let Ok((_, note)) = notes.try_recv() {
            self.add(note);
        }
    }
}

/// An ending in the handler's words.
fn outcome(ending: Ending) -> Outcome {
    match ending {
        Ending::Complete(result) => Outcome::Complete(result),
        Ending::Snooze(after) => Outcome::Snooze(after),
        Ending::Reported => Outcome::AlreadyReported,
        Ending::Fail(failure) => {
            let error = failure.error;
            match (failure.class, failure.retry_after) {
                (Class::Permanent, _) => Outcome::Fail { error },
                (Class::Canceled, _) => Outcome::Cancel { reason: error },
                (Class::Retryable, Some(after)) => Outcome::RetryAfter { error, after },
                (Class::Retryable, None) => Outcome::Retry { error },
            }
        }
        // Nobody stops a trial's worker or takes its job away.
        Ending::Release | Ending::Dropped => Outcome::Retry { error: "the trial was interrupted".to_owned() },
    }
}
