//! Jobs with large payloads: announced, written, and only then enqueued, together with the hold on the object.
//!
//! So no job ever points to nothing. An object whose job was never enqueued is collected after a day.

use std::time::Duration;

use jobforge_core::rpc::{self, announce_artifact, attach_artifact};
use jobforge_core::{
    Artifact, ArtifactError, ArtifactRef, Artifacts, Code, Enqueued, Error, NewJob, Payload,
};
use serde_json::value::RawValue;
use tokio_postgres::GenericClient;
use uuid::Uuid;

/// How often content that is being deleted is asked for again, and how long between.
const TRIES: u32 = 20;
const PAUSE: Duration = Duration::from_millis(250);

/// Why a job with a large payload was not enqueued, or its content not fetched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EnqueueError {
    /// The database refused it or failed.
    #[error(transparent)]
    Core(#[from] Error),
    /// The store did.
    #[error("a payload or result could not be moved to or from the artifact store")]
    Store(#[from] ArtifactError),
    /// What is in the store is no JSON.
    #[error("{0:?} in the artifact store is no JSON")]
    Content(ArtifactRef),
    /// The transaction could not be begun or ended.
    #[error("the transaction around enqueue_job failed")]
    Transaction(#[source] tokio_postgres::Error),
}

/// A job whose payload is small enough for a row, or was moved into the store.
#[derive(Debug, Clone)]
pub struct Stowed {
    job: NewJob,
    artifact: Option<ArtifactRef>,
}

/// Enqueues a job; a payload above the store's threshold is moved into the store first.
pub async fn enqueue_job<C: GenericClient>(
    client: &mut C,
    store: &dyn Artifacts,
    tenant: Uuid,
    job: NewJob,
) -> Result<Enqueued, EnqueueError> {
    let stowed = stow(&*client, store, tenant, job).await?;
    let transaction = client.transaction().await.map_err(EnqueueError::Transaction)?;
    let enqueued = enqueue_stowed(&transaction, tenant, &stowed).await?;
    transaction.commit().await.map_err(EnqueueError::Transaction)?;
    Ok(enqueued)
}

/// The first half: moves a large payload into the store. Outside of the transaction that enqueues, on a
/// connection that is in none: what is announced must be known though that transaction fails.
pub async fn stow<C: GenericClient>(
    client: &C,
    store: &dyn Artifacts,
    tenant: Uuid,
    job: NewJob,
) -> Result<Stowed, EnqueueError> {
    if job.payload.get().len() <= store.threshold() {
        return Ok(Stowed { job, artifact: None });
    }
    let content: Box<str> = job.payload.into();
    let artifact = Artifact::of(String::from(content));
    let reference = artifact.reference();
    announce(client, tenant, reference).await?;
    store.put(tenant, artifact).await?;
    let payload =
        reference.to_payload().map_err(|source| Error::Payload { job_type: job.job_type.clone(), source })?;
    Ok(Stowed { job: NewJob { payload, ..job }, artifact: Some(reference) })
}

/// The second half: enqueues the job and lets it hold its object, in the caller's transaction.
pub async fn enqueue_stowed(
    transaction: &tokio_postgres::Transaction<'_>,
    tenant: Uuid,
    stowed: &Stowed,
) -> Result<Enqueued, EnqueueError> {
    let enqueued = rpc::enqueue_job(transaction, tenant, &stowed.job).await?;
    // An existing job holds what its own payload names; that may be another content.
    if let Some(artifact) = stowed.artifact.filter(|_| !enqueued.existing) {
        attach_artifact(transaction, tenant, enqueued.id, artifact).await?;
    }
    Ok(enqueued)
}

/// The content that a payload or result stands for, or itself.
pub async fn fetch(store: &dyn Artifacts, tenant: Uuid, json: Payload) -> Result<Payload, EnqueueError> {
    match ArtifactRef::in_row(&json) {
        Ok(Some(artifact)) => {
            let content = store.get(tenant, artifact).await?;
            let text = String::from_utf8(content.into()).map_err(|_| EnqueueError::Content(artifact))?;
            RawValue::from_string(text).map_err(|_| EnqueueError::Content(artifact))
        }
        _ => Ok(json),
    }
}

/// Waits for a deletion under way to end.
async fn announce<C: GenericClient>(client: &C, tenant: Uuid, artifact: ArtifactRef) -> Result<(), Error> {
    for _ in 1..TRIES {
        match announce_artifact(client, tenant, artifact.id()).await {
            Err(error) if error.code() == Some(Code::WrongState) => tokio::time::sleep(PAUSE).await,
            answer => return answer,
        }
    }
    announce_artifact(client, tenant, artifact.id()).await
}
