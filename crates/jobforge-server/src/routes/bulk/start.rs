//! Start an operation on all jobs that match.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use jiff::Timestamp;
use jobforge_core::{BulkFilter, BulkKind, Code, Payload, Redrive, rpc};
use serde::{Deserialize, Deserializer};
use utoipa::ToSchema;

use super::{DrivenBulk, answer};
use crate::app::App;
use crate::auth::{Operate, Tenant};
use crate::bulks::drive;
use crate::change::change;
use crate::extract::Body;
use crate::problem::{ErrorCode, Problem};

/// An operation on many jobs.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct BulkInput {
    /// What is done to every job that matches.
    kind: Kind,
    /// Which jobs; one condition at least.
    filter: FilterInput,
    /// Why, for the record; a canceled job's error says it.
    #[schema(min_length = 1, max_length = 500)]
    reason: String,
    /// A JSON Patch (RFC 6902) of the payloads; for a redrive.
    #[schema(value_type = Option<Vec<serde_json::Value>>)]
    patch: Option<Payload>,
    /// How often the jobs may fail from now on; for a redrive.
    #[schema(minimum = 1, maximum = 1000)]
    max_attempts: Option<i32>,
    /// Only count what matches.
    #[serde(default)]
    dry_run: bool,
}

/// What is done to every job that matches.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = BulkKind)]
pub(crate) enum Kind {
    /// Dead letters go back to work.
    Redrive,
    /// Waiting jobs and dead letters end; running ones are asked to.
    Cancel,
}

/// Which jobs an operation is about: those that meet all conditions.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = BulkFilter)]
pub(crate) struct FilterInput {
    /// Any of these: for a redrive failed and dead, for a cancel blocked, queued and running as well.
    #[serde(default, deserialize_with = "said")]
    statuses: Option<Vec<String>>,
    /// Of this type; `definition_key` is taken too.
    #[serde(default, rename = "type", alias = "definition_key", deserialize_with = "said")]
    job_type: Option<String>,
    /// In this queue.
    #[serde(default, deserialize_with = "said")]
    queue: Option<String>,
    /// Dead letters of this cause.
    #[serde(default, deserialize_with = "said")]
    fingerprint: Option<String>,
    /// With this tag.
    #[serde(default, deserialize_with = "said")]
    tag: Option<String>,
    /// Enqueued at or after this time.
    #[serde(default, deserialize_with = "said")]
    created_after: Option<Timestamp>,
    /// Enqueued before this time.
    #[serde(default, deserialize_with = "said")]
    created_before: Option<Timestamp>,
    /// That died at or after this time.
    #[serde(default, deserialize_with = "said")]
    finished_after: Option<Timestamp>,
    /// That died before this time.
    #[serde(default, deserialize_with = "said")]
    finished_before: Option<Timestamp>,
}

/// Redrive or cancel all jobs that match. The server does it in steps: 202, and `GET /bulk/{id}` tells how far it is. A
/// dry run is over at once.
#[utoipa::path(
    post, path = "/bulk", tag = "bulk operations", request_body = BulkInput,
    responses(
        (status = 202, body = DrivenBulk, description = "Under way", headers(("Location" = String, description = "The operation"))),
        (status = 200, body = DrivenBulk, description = "A dry run: what matched was counted"),
    )
)]
pub(crate) async fn start(
    State(app): State<Arc<App>>,
    tenant: Tenant<Operate>,
    Body(input): Body<BulkInput>,
) -> Result<Response, Problem> {
    let filter = input.filter.filter();
    let kind = kind(input.kind, input.patch, input.max_attempts, (input.reason, input.dry_run))?;
    let call = async |c: &_| rpc::start_bulk(c, tenant.id, &kind, &filter).await;
    let bulk = change(&app, &tenant, call).await?;
    drive(&app, tenant.id, &tenant.actor, &bulk);
    Ok(answer(DrivenBulk::new(&app, tenant.id, bulk)))
}

fn kind(
    kind: Kind,
    patch: Option<Payload>,
    max_attempts: Option<i32>,
    (reason, dry_run): (String, bool),
) -> Result<BulkKind, Problem> {
    let refused =
        |reason, detail| Err(Problem::new(ErrorCode::Refused(Code::InvalidArgument), reason, detail));
    if reason.trim().is_empty() {
        return refused("reason_length", "a reason has 1 to 500 characters");
    }
    match kind {
        Kind::Redrive => {
            Ok(BulkKind::Redrive(Redrive { patch, max_attempts, reason: Some(reason), dry_run }))
        }
        Kind::Cancel if patch.is_some() || max_attempts.is_some() => {
            refused("redrive_only", "patch and max_attempts are for redrives")
        }
        Kind::Cancel => Ok(BulkKind::Cancel { reason: Some(reason), dry_run }),
    }
}

impl FilterInput {
    fn filter(self) -> BulkFilter {
        BulkFilter {
            statuses: self.statuses,
            job_type: self.job_type,
            queue: self.queue,
            fingerprint: self.fingerprint,
            tag: self.tag,
            created_after: self.created_after,
            created_before: self.created_before,
            finished_after: self.finished_after,
            finished_before: self.finished_before,
        }
    }
}

/// A condition that is given has a value: a null would ask for nothing, and so match more than was meant.
fn said<'de, T: Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}
