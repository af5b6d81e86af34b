//! One job as a pipeline: find its handler, fetch and decode the payload, run, judge how it ended.
//!
//! Whatever a handler does (panic, hang, ignore its cancellation), this ends with one [`Ending`].

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use jobforge_core::{AttemptEnd, Class, Failure, Payload};
use tokio::time::{sleep, timeout};

use crate::artifacts;
use crate::context::Context;
use crate::engine::Engine;
use crate::job::{Job, Stop};
use crate::outcome::{HandlerError, HandlerResult, Outcome};
use crate::panics::Handling;

/// What is to be told the database about an attempt.
#[derive(Debug)]
pub(crate) enum Ending {
    /// It ended well.
    Complete(Option<Payload>),
    /// It did not.
    Fail(Box<Failure>),
    /// It is put off.
    Snooze(Duration),
    /// It is given back, free.
    Release,
    /// The handler told it in its own transaction.
    Reported,
    /// Nothing: the job is no longer ours.
    Dropped,
}

/// Runs one job, which starts now, to its end. What it says of it holds no secrets.
pub(crate) async fn execute(engine: &Arc<Engine>, job: &Arc<Job>, now: Instant) -> Ending {
    redact(engine, job, attempt(engine, job, now).await)
}

async fn attempt(engine: &Arc<Engine>, job: &Arc<Job>, now: Instant) -> Ending {
    if job.stopped() != Stop::None {
        return judge(job, Ran::NotStarted);
    }
    // Only types with a handler are claimed; whoever gets another one has nothing to say about it.
    let Some(handler) = engine.registry.get(&job.claimed.job_type) else { return Ending::Release };
    let ask = || engine.report_now.notify_one();
    let patience = engine.config.call_timeout;
    let rule = engine.rules.of(&job.claimed.job_type, now, patience, ask).await;
    // It may have waited for them.
    if job.stopped() != Stop::None {
        return judge(job, Ran::NotStarted);
    }
    let work = async {
        artifacts::fetch(engine, job).await?;
        if let Some(rule) = rule {
            let payload = job.payload().get();
            rule.redactor(payload).into_iter().for_each(|redactor| job.hide(redactor));
            rule.check(payload)?;
        }
        let context = Context::new(job.clone(), engine.clone());
        let outcome = handler(context).map_err(|misfit| misfit_error(job, &misfit))?.await?;
        artifacts::stow(engine, job, outcome).await
    };
    judge(job, run(engine, job, work).await)
}

/// An ending without secrets.
fn redact(engine: &Engine, job: &Job, ending: Ending) -> Ending {
    if engine.secrets.is_empty() && !job.hides() {
        return ending;
    }
    let clean = |text: String| job.redact(&engine.secrets, text);
    match ending {
        Ending::Complete(result) => {
            Ending::Complete(result.map(|result| job.redact_result(&engine.secrets, result)))
        }
        Ending::Fail(failure) => Ending::Fail(Box::new(Failure {
            error: clean(failure.error),
            stdout_tail: failure.stdout_tail.map(clean),
            stderr_tail: failure.stderr_tail.map(clean),
            ..*failure
        })),
        other => other,
    }
}

/// How far the handler came.
enum Ran {
    NotStarted,
    Ended(HandlerResult),
    /// It did not end in the time it was given after it was told to stop.
    CutOff,
}

/// Runs the handler until it ends, or until it was stopped and its grace is over, or its lease: the job may run elsewhere then.
async fn run(engine: &Engine, job: &Job, work: impl Future<Output = HandlerResult>) -> Ran {
    let work = pin!(work);
    let mut work = AssertUnwindSafe(Handling(work)).catch_unwind();
    // Most handlers end at once: clock and tokens are touched only if this one waits.
    tokio::select! {
        biased;
        result = &mut work => return Ran::of(result),
        () = time_to_end(job) => {}
    }
    tokio::select! {
        biased;
        result = work => Ran::of(result),
        () = job.lease.over() => Ran::CutOff,
        () = sleep(engine.config.stop_grace) => Ran::CutOff,
    }
}

/// Returns when the handler must end: it was stopped, or its time is up.
async fn time_to_end(job: &Job) {
    let limit = Duration::from_secs(u64::try_from(job.claimed.timeout_seconds).unwrap_or(0));
    let halted = job.halt().cancelled();
    if limit.is_zero() {
        halted.await;
    } else if timeout(limit, halted).await.is_err() {
        job.stop(Stop::TimedOut);
    }
}

/// What the handler's end means, given why it may have been told to stop. A good end stays good: whether it
/// still counts is for the database to say.
fn judge(job: &Job, ran: Ran) -> Ending {
    let stopped = job.stopped();
    let failure = match (stopped, ran) {
        (Stop::Lost, _) => return Ending::Dropped,
        (_, Ran::Ended(Ok(Outcome::Complete(result)))) => return Ending::Complete(result),
        (_, Ran::Ended(Ok(Outcome::AlreadyReported))) => return Ending::Reported,
        (Stop::Interrupted, _) | (_, Ran::NotStarted) => return Ending::Release,
        (Stop::None, Ran::Ended(Ok(Outcome::Snooze(after)))) => return Ending::Snooze(after),
        (_, Ran::Ended(result)) => failure(job, result),
        (_, Ran::CutOff) => failure(job, Err(HandlerError::new("the handler did not stop and was dropped"))),
    };
    Ending::Fail(Box::new(match stopped {
        Stop::Canceled => Failure { class: Class::Canceled, end: AttemptEnd::Canceled, ..failure },
        Stop::TimedOut => Failure {
            class: Class::Retryable,
            end: AttemptEnd::Timeout,
            error: format!("timed out after {} s: {}", job.claimed.timeout_seconds, failure.error),
            ..failure
        },
        _ => failure,
    }))
}

/// What a handler said that did not end well, of its own accord.
fn failure(job: &Job, result: HandlerResult) -> Failure {
    let error = match result {
        Ok(Outcome::Retry { error }) => HandlerError::new(error),
        Ok(Outcome::RetryAfter { error, after }) => HandlerError::new(error).retry_after(after),
        Ok(Outcome::Fail { error }) => HandlerError::new(error).permanent(),
        Ok(Outcome::Cancel { reason }) => return canceled(job, reason),
        Ok(Outcome::Snooze(_) | Outcome::Complete(_) | Outcome::AlreadyReported) => {
            HandlerError::new("the handler went on after it was told to stop")
        }
        Err(error) => error,
    };
    let exit = error.exit.map(|exit| *exit).unwrap_or_default();
    Failure {
        job: job.job_ref(),
        class: if error.permanent { Class::Permanent } else { Class::Retryable },
        error: error.message,
        retry_after: error.retry_after,
        end: if error.timed_out { AttemptEnd::Timeout } else { AttemptEnd::Failed },
        exit_code: exit.code,
        stdout_tail: exit.stdout_tail,
        stderr_tail: exit.stderr_tail,
    }
}

fn canceled(job: &Job, reason: String) -> Failure {
    let failed = failure(job, Err(HandlerError::new(reason)));
    Failure { class: Class::Canceled, end: AttemptEnd::Canceled, ..failed }
}

impl Ran {
    fn of(result: Result<HandlerResult, Box<dyn Any + Send>>) -> Ran {
        Ran::Ended(result.unwrap_or_else(|panic| Err(panic_error(&*panic))))
    }
}

fn misfit_error(job: &Job, misfit: &serde_json::Error) -> HandlerError {
    // The decoder repeats values, also those that are too short to be searched for.
    let said = match job.hides() {
        true => format!("at line {} column {}", misfit.line(), misfit.column()),
        false => misfit.to_string(),
    };
    HandlerError::new(format!("payload does not fit the handler: {said}")).permanent()
}

fn panic_error(panic: &(dyn Any + Send)) -> HandlerError {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    HandlerError::new(format!("the handler panicked: {}", text.unwrap_or("without a message")))
}
