//! Payloads that are fetched before the handler sees them, and results that are moved away after it: to a
//! handler a large one is like any other.

use std::sync::Arc;
use std::time::Duration;

use jobforge_core::{Artifact, ArtifactError, ArtifactRef, Artifacts, Code, Error, Payload};
use serde_json::value::RawValue;
use tokio::sync::oneshot;
use tokio::time::sleep;

use crate::engine::Engine;
use crate::job::Job;
use crate::link::told;
use crate::notes::Note;
use crate::outcome::{HandlerError, HandlerResult, Outcome};

/// How often the hold on an object is asked for again, and how long between: a deletion of the same content
/// may be under way, or the connection broken.
const TRIES: u32 = 20;
const PAUSE: Duration = Duration::from_millis(250);

/// Fetches the payload if it is in the store.
pub(crate) async fn fetch(engine: &Engine, job: &Job) -> Result<(), HandlerError> {
    let artifact = match ArtifactRef::in_row(&job.claimed.payload) {
        Ok(None) => return Ok(()),
        Ok(Some(artifact)) => artifact,
        Err(malformed) => return Err(refused("payload", "artifact_malformed", &malformed).permanent()),
    };
    let Some(store) = &engine.config.artifacts else {
        return Err(HandlerError::new(format!(
            "the payload ({}) is in an artifact store, and this worker has none",
            artifact.id()
        )));
    };
    let content =
        store.get(job.job_ref().tenant_id, artifact).await.map_err(|error| failed("payload", &error))?;
    let payload = String::from_utf8(content.into()).ok().and_then(|text| RawValue::from_string(text).ok());
    let no_json = || HandlerError::new(format!("the payload ({}) is no JSON", artifact.id())).permanent();
    job.keep_content(payload.ok_or_else(no_json)?);
    Ok(())
}

/// Moves a large result into the store: the hold on the object first, then the object, then, with the outcome,
/// what stands for it.
pub(crate) async fn stow(engine: &Engine, job: &Arc<Job>, outcome: Outcome) -> HandlerResult {
    let Outcome::Complete(Some(result)) = outcome else { return Ok(outcome) };
    if !matches!(ArtifactRef::in_row(&result), Ok(None)) {
        let text = "the result has the key $artifact, which is reserved for results in the artifact store";
        return Err(HandlerError::new(text).permanent());
    }
    match &engine.config.artifacts {
        Some(store) if result.get().len() > store.threshold() => {
            let stored = move_away(engine, job, &**store, result).await?;
            Ok(Outcome::Complete(Some(stored)))
        }
        _ => Ok(Outcome::Complete(Some(result))),
    }
}

async fn move_away(
    engine: &Engine,
    job: &Arc<Job>,
    store: &dyn Artifacts,
    result: Payload,
) -> Result<Payload, HandlerError> {
    // What leaves the process has no secrets, wherever it goes.
    let content: Box<str> = job.redact_result(&engine.secrets, result).into();
    let artifact = Artifact::of(String::from(content));
    let reference = artifact.reference();
    hold(engine, job, reference).await?;
    store.put(job.job_ref().tenant_id, artifact).await.map_err(|error| failed("result", &error))?;
    Ok(reference.to_payload()?)
}

/// Has the reporter, which has the connection, write down that the job holds the object.
async fn hold(engine: &Engine, job: &Arc<Job>, artifact: ArtifactRef) -> Result<(), HandlerError> {
    let mut last = None;
    for _ in 0..TRIES {
        let (answer, answered) = oneshot::channel();
        engine.notes.send(job.clone(), Note::Hold { artifact, answer }).await;
        match answered.await {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(error)) if error.is_transient() || error.code() == Some(Code::WrongState) => {
                last = Some(error);
            }
            Ok(Err(error)) => return Err(HandlerError::from(error)),
            // After the worker's end nobody listens.
            Err(_) => return Err(HandlerError::new("the worker ended before the result was stored")),
        }
        sleep(PAUSE).await;
    }
    let told = last.map(|error: Error| told(&error)).unwrap_or_default();
    Err(HandlerError::new(format!("the result could not be stored: {told}")))
}

/// Missing and altered contents, and those too large, stay so; a store that is away comes back.
fn failed(what: &str, error: &ArtifactError) -> HandlerError {
    let failure = refused(what, error.reason(), error);
    if error.is_transient() { failure } else { failure.permanent() }
}

fn refused(what: &str, reason: &str, error: &dyn std::error::Error) -> HandlerError {
    HandlerError::new(format!(
        "the {what} is not to be had ({} {reason}): {}",
        Code::PayloadInvalid,
        told(error)
    ))
}
