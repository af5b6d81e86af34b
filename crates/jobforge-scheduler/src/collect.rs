//! Deletes objects of the artifact store that no job holds any more.

use std::time::{Duration, Instant};

use jobforge_core::rpc::{collect_artifacts, confirm_artifacts};
use jobforge_core::{ArtifactError, Artifacts, Doomed, Error};
use tokio::time::timeout;
use tokio_postgres::Client;

use crate::config::SchedulerConfig;
use crate::term::Term;

const BATCH: i32 = 100;

/// Between two batches.
const BREATH: Duration = Duration::from_millis(50);

/// No deletion begins later than this after its object was doomed, and none is waited for longer than `EACH`:
/// a minute after the doom the database lets the same content be written again.
const START_WITHIN: Duration = Duration::from_secs(20);
const EACH: Duration = Duration::from_secs(10);

/// What is not confirmed is handed out again by the database, minutes later.
pub(crate) async fn run(client: &Client, term: Term, config: &SchedulerConfig) -> Result<Duration, Error> {
    let Some(store) = &config.artifacts else { return Ok(config.collect_every) };
    // From before the call: the doom is later, and so is its minute.
    let began = Instant::now();
    let doomed = collect_artifacts(client, term.number, BATCH).await?;
    let mut deleted = Vec::with_capacity(doomed.len());
    for object in &doomed {
        if began.elapsed() > START_WITHIN {
            break;
        }
        match delete(&**store, object).await {
            Ok(()) => deleted.push(*object),
            Err(error) => {
                tracing::warn!(%error, cause = cause(&error), "an artifact could not be deleted; it gets another try");
                // A store that is away would make each of them wait.
                break;
            }
        }
    }
    let confirmed = confirm_artifacts(client, term.number, &deleted).await?;
    if confirmed > 0 {
        tracing::debug!(confirmed, "artifacts that no job holds are deleted");
    }
    let all_went = deleted.len() == doomed.len();
    Ok(if all_went && doomed.len() == usize::try_from(BATCH).unwrap_or(usize::MAX) {
        BREATH
    } else {
        config.collect_every
    })
}

async fn delete(store: &dyn Artifacts, object: &Doomed) -> Result<(), ArtifactError> {
    let Doomed { tenant_id, id, .. } = *object;
    let late = || ArtifactError::Unavailable {
        operation: "delete",
        id,
        source: format!("no answer within {EACH:?}").into(),
    };
    timeout(EACH, store.delete(tenant_id, id)).await.unwrap_or_else(|_| Err(late()))
}

fn cause(error: &ArtifactError) -> String {
    std::error::Error::source(error).map(ToString::to_string).unwrap_or_default()
}
