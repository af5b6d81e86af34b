//! Jobs that must not run: their payloads do not fit their types' schemas.
//!
//! An enqueue through the API is checked; a job that came in by SQL, or before its schema was changed, is not. It fails here,
//! before a worker sees it, as it would in a worker that knows the schemas.

use std::collections::BTreeMap;

use jobforge_core::schema::Problem as Fault;
use jobforge_core::{ArtifactRef, AttemptEnd, Claimed, ClaimedJob, Class, Failure, rpc};
use tokio_postgres::Client;
use uuid::Uuid;

use super::poll::Ask;
use crate::app::App;
use crate::problem::Problem;

/// Fails those of the claimed jobs that must not run, and takes them out of the claim.
pub(super) async fn sift(app: &App, ask: &Ask, claimed: &mut Claimed) -> Result<(), Problem> {
    let checkable = claimed.jobs.iter().filter(|job| is_checkable(job));
    let payloads = checkable.clone().map(|job| (job.job_type.as_str(), &*job.payload));
    let misfits = app.rules.misfits(&app.db, payloads).await?;
    let mut leases: BTreeMap<Uuid, Vec<Failure>> = BTreeMap::new();
    for (job, faults) in checkable.zip(misfits).filter_map(|(job, faults)| Some((job, faults?))) {
        leases.entry(job.lease_id).or_default().push(failure(job, &faults));
    }
    for (lease, failures) in leases {
        let client = app.db.worker().await?;
        let fail = async |c: &Client| rpc::bound_to(c, ask.bound, rpc::fail_jobs(c, lease, &failures)).await;
        client.call(fail).await?;
        claimed.jobs.retain(|job| failures.iter().all(|failure| failure.job != job.job));
        // A lease of this claim's with nothing on it: its caller is not told of it, and may choose its id again.
        if ask.lease_id != Some(lease) && claimed.jobs.iter().all(|job| job.lease_id != lease) {
            let client = app.db.worker().await?;
            let close = async |c: &Client| rpc::bound_to(c, ask.bound, rpc::close_lease(c, lease)).await;
            client.call(close).await?;
        }
    }
    Ok(())
}

/// What lies in the artifact store is checked by whoever fetches it.
fn is_checkable(job: &ClaimedJob) -> bool {
    !matches!(ArtifactRef::in_row(&job.payload), Ok(Some(_)))
}

fn failure(job: &ClaimedJob, faults: &[Fault]) -> Failure {
    let told: Vec<String> = faults.iter().map(ToString::to_string).collect();
    Failure {
        job: job.job,
        class: Class::Permanent,
        error: format!("JF003 the payload does not fit its schema: {}", told.join("; ")),
        retry_after: None,
        end: AttemptEnd::Failed,
        exit_code: None,
        stdout_tail: None,
        stderr_tail: None,
    }
}
