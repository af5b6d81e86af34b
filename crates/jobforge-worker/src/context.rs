//! What a handler gets to know and to say about its job.

use std::future::Future;
use std::sync::Arc;

use jiff::Timestamp;
use jobforge_core::{Code, Error, JobRef, Level, LogLine, Payload, ProgramExit};
use tokio_postgres::Client;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::engine::Engine;
use crate::job::{Job, Stop};
use crate::notes::Note;

/// One attempt of one job, from inside its handler. Clones are the same attempt.
#[derive(Clone)]
pub struct Context {
    job: Arc<Job>,
    engine: Arc<Engine>,
}

impl Context {
    pub(crate) fn new(job: Arc<Job>, engine: Arc<Engine>) -> Context {
        Context { job, engine }
    }

    /// The job.
    pub fn job_id(&self) -> Uuid {
        self.job.claimed.job.id
    }

    /// Whose job it is.
    pub fn tenant_id(&self) -> Uuid {
        self.job.claimed.job.tenant_id
    }

    /// The number of this attempt; it only ever grows.
    pub fn attempt(&self) -> i32 {
        self.job.claimed.job.fence
    }

    /// The job's type.
    pub fn job_type(&self) -> &str {
        &self.job.claimed.job_type
    }

    /// The job's queue.
    pub fn queue(&self) -> &str {
        &self.job.claimed.queue
    }

    /// The job's priority; lower runs first.
    pub fn priority(&self) -> i16 {
        self.job.claimed.priority
    }

    /// When it was due.
    pub fn run_at(&self) -> Timestamp {
        self.job.claimed.run_at
    }

    /// How often it failed before.
    pub fn failures(&self) -> i32 {
        self.job.claimed.failures
    }

    /// How often it may fail.
    pub fn max_attempts(&self) -> i16 {
        self.job.claimed.max_attempts
    }

    /// What the job was given, as it came; a large one was fetched from the artifact store.
    pub fn payload(&self) -> &Payload {
        self.job.payload()
    }

    /// What ties the job to other records.
    pub fn correlation_id(&self) -> Option<&str> {
        self.job.claimed.correlation_id.as_deref()
    }

    /// The trace the job belongs to, in the W3C's form.
    pub fn traceparent(&self) -> Option<&str> {
        self.job.claimed.traceparent.as_deref()
    }

    /// For what this handler calls or enqueues: the same trace, a new span.
    pub fn child_traceparent(&self) -> Option<String> {
        child_of(self.traceparent()?, rand::random())
    }

    /// Cancelled when the handler should stop: somebody canceled the job, its time is up, the worker stops,
    /// or the job is no longer this worker's.
    pub fn cancellation(&self) -> &CancellationToken {
        self.job.token()
    }

    /// Whether the handler should stop.
    pub fn is_cancelled(&self) -> bool {
        self.job.token().is_cancelled()
    }

    /// The lease to name in a report of the handler's own.
    pub fn lease(&self) -> Uuid {
        self.job.lease.id
    }

    /// The job to name in a report of the handler's own: `jobforge_core::rpc::complete_job` inside the
    /// handler's transaction, followed by [`Outcome::AlreadyReported`](crate::Outcome::AlreadyReported).
    pub fn job_ref(&self) -> JobRef {
        self.job.job_ref()
    }

    /// Adds a line to the attempt's log. Lines are sent together, before the outcome; a line that is on its
    /// way when the connection breaks is lost, never doubled.
    pub async fn log(&self, level: Level, message: impl Into<String>) {
        let message = self.job.redact(&self.engine.secrets, message.into());
        self.engine.notes.send(self.job.clone(), Note::Log(LogLine { level, message })).await;
    }

    /// Tells which program the attempt runs, or how it ended; only the latest counts. It is told before the
    /// outcome, and unlike a log line again when the connection breaks on the way.
    pub async fn report_exit(&self, exit: ProgramExit) {
        let clean = |tail: Option<String>| tail.map(|text| self.job.redact(&self.engine.secrets, text));
        let (stdout_tail, stderr_tail) = (clean(exit.stdout_tail), clean(exit.stderr_tail));
        let exit = ProgramExit { stdout_tail, stderr_tail, ..exit };
        self.engine.notes.send(self.job.clone(), Note::Exit(exit)).await;
    }

    /// Tells how far the job is, in percent; only the latest counts.
    pub async fn progress(&self, percent: f32, message: impl Into<String>) {
        let percent = if percent.is_nan() { 0.0 } else { percent.clamp(0.0, 100.0) };
        let message = self.job.redact(&self.engine.secrets, message.into());
        self.engine.notes.send(self.job.clone(), Note::Progress { percent, message }).await;
    }

    /// Keeps a value that the handler came by (a token, a key) from appearing in what this attempt says from now on:
    /// log lines, progress, error, tails, result. Values of fewer than [`LEAST`](crate::LEAST) characters are not
    /// searched for.
    pub fn add_secret(&self, secret: &str) {
        self.job.add_secret(secret);
    }

    /// Makes one call of the database, over a connection that the worker's handlers share: one statement that
    /// is soon answered, fenced by [`Context::lease`] and [`Context::job_ref`]. A call that is told that the
    /// job is no longer this worker's stops the handler.
    pub async fn call<T, F, W>(&self, operation: &'static str, call: F) -> Result<T, Error>
    where
        F: FnOnce(Arc<Client>) -> W,
        W: Future<Output = Result<T, Error>>,
    {
        let answer = self.engine.desk.call(operation, call).await;
        if answer.as_ref().is_err_and(|error| error.code() == Some(Code::LeaseLost)) {
            self.job.stop(Stop::Lost);
        }
        answer
    }
}

/// `version-trace-parent-flags` with another parent. What is not of this form belongs to no trace.
fn child_of(traceparent: &str, span: u64) -> Option<String> {
    let mut parts = traceparent.split('-');
    let (version, trace, parent, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let is_hex =
        |part: &str, length| part.len() == length && part.bytes().all(|byte| byte.is_ascii_hexdigit());
    let well_formed = is_hex(version, 2) && is_hex(trace, 32) && is_hex(parent, 16) && is_hex(flags, 2);
    // An all-zero span is no span.
    well_formed.then(|| format!("{version}-{trace}-{:016x}-{flags}", span.max(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_keeps_the_trace_and_gets_its_own_span() {
        let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let child = child_of(parent, 0xabc).unwrap();
        assert_eq!(child, "00-0af7651916cd43dd8448eb211c80319c-0000000000000abc-01");
        assert_eq!(child_of("garbage", 1), None);
        assert_eq!(child_of("00-xyz-1-01", 1), None);
    }
}
