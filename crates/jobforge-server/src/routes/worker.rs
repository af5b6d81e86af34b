//! What workers call that have no connection to the database: claim, keep alive, report.
//!
//! A credential bound to one tenant is narrowed in the database, call by call (`rpc::bound_to`). What protects what:
//! the lease's id, which nobody can guess, the jobs on it; the fence, a job from those who held it before; the
//! credential, which is part of a worker's id, the worker's entry in the registry.

mod batch;
pub(crate) mod claim;
pub(crate) mod complete;
pub(crate) mod exit;
pub(crate) mod fail;
pub(crate) mod heartbeat;
pub(crate) mod log;
pub(crate) mod poll;
pub(crate) mod progress;
pub(crate) mod register;
pub(crate) mod release;
mod sift;
pub(crate) mod snooze;
pub(crate) mod stop;

use std::time::Duration;

use jobforge_core::{Code, JobRef, Verdict};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::auth::{System, Work};
use crate::problem::{ErrorCode, Problem};

/// The longest id a worker may give itself; with its credential's it has to fit the database's 200 characters.
const MOST_NAME: usize = 100;

/// One attempt of a job that the worker holds.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct HeldJob {
    /// Whose job it is; a worker bound to one tenant may leave it out.
    tenant_id: Option<Uuid>,
    /// The job.
    id: Uuid,
    /// The fence it was claimed with.
    fence: i32,
}

/// What became of the report.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Reported {
    /// `done`, or `already` when the same report came before.
    verdict: Verdict,
}

impl System<Work> {
    /// The only tenant this caller works for.
    fn bound(&self) -> Option<Uuid> {
        self.identity.tenant()
    }

    /// The job, with the tenant that a bound caller need not name. One that names another asks for a job that it does
    /// not know, and is told so by the database.
    fn held(&self, job: HeldJob) -> Result<JobRef, Problem> {
        let HeldJob { tenant_id, id, fence } = job;
        match tenant_id.or(self.bound()) {
            Some(tenant_id) => Ok(JobRef { tenant_id, id, fence }),
            None => {
                let detail = "a worker of all tenants says whose job it is: tenant_id";
                Err(Problem::malformed("tenant_missing", detail))
            }
        }
    }

    /// The worker as the database knows it: two credentials never mean the same one.
    fn worker_id(&self, given: &str) -> Result<String, Problem> {
        let sound = |c: char| !c.is_control() && c != '/';
        if given.is_empty() || given.chars().count() > MOST_NAME || !given.chars().all(sound) {
            let detail = format!("worker_id has 1 to {MOST_NAME} characters, no / and no control characters");
            return Err(Problem::malformed("worker_id_malformed", detail));
        }
        Ok(format!("{}/{given}", self.identity.credential))
    }
}

/// A single report's verdict, or the refusal that it is.
fn taken(verdict: Verdict, job: Uuid) -> Result<Reported, Problem> {
    let (code, reason, detail) = match verdict {
        Verdict::Done | Verdict::Already => return Ok(Reported { verdict }),
        Verdict::Stale => {
            let detail = format!("the report on job {job} carries a stale lease or fence");
            (Code::LeaseLost, "fence_stale", detail)
        }
        Verdict::Unknown => (Code::NotFound, "job_unknown", format!("job {job} is not known")),
        Verdict::Invalid => {
            let detail = format!("the result of job {job} cannot be stored: at most 1 MiB, no NUL character");
            (Code::PayloadInvalid, "result_invalid", detail)
        }
    };
    Err(Problem::new(ErrorCode::Refused(code), reason, detail))
}

/// Names as Postgres can take them.
fn require_names<'a>(names: impl IntoIterator<Item = &'a String>) -> Result<(), Problem> {
    if names.into_iter().any(|name| name.contains('\0')) {
        return Err(Problem::malformed("name_malformed", "a name holds no NUL character"));
    }
    Ok(())
}

/// A time of up to a year.
fn seconds(what: &'static str, seconds: f64) -> Result<Duration, Problem> {
    const YEAR: Duration = Duration::from_secs(31_536_000);
    let time = Duration::try_from_secs_f64(seconds).ok().filter(|time| *time <= YEAR);
    time.ok_or_else(|| {
        Problem::malformed(format!("{what}_out_of_range"), format!("{what} must be 0 to a year in seconds"))
    })
}
