//! The program that a running attempt started: its process, and how it ended.

use tokio_postgres::GenericClient;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::job::JobRef;
use super::wire::clean;
use crate::error::Error;

/// What is known of a program that an attempt runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProgramExit {
    /// Its process.
    pub pid: Option<i32>,
    /// Its exit code, if it ended by itself.
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// The end of its standard output.
    pub stdout_tail: Option<String>,
    /// The end of its standard error.
    pub stderr_tail: Option<String>,
}

/// Notes the program of a running attempt: once when it starts, again when it ended. The later report counts.
pub async fn report_exit<C: GenericClient>(
    c: &C,
    lease: Uuid,
    job: JobRef,
    exit: &ProgramExit,
) -> Result<(), Error> {
    const OPERATION: &str = "report_exit";
    let stdout = exit.stdout_tail.as_deref().map(clean);
    let stderr = exit.stderr_tail.as_deref().map(clean);
    c.query_typed_one(
        "select jobforge.report_exit(p_lease_id => $1, p_tenant_id => $2, p_job_id => $3, p_fence => $4,
           p_pid => $5, p_exit_code => $6, p_signal => $7, p_stdout_tail => $8, p_stderr_tail => $9)",
        &[
            (&lease, Type::UUID),
            (&job.tenant_id, Type::UUID),
            (&job.id, Type::UUID),
            (&job.fence, Type::INT4),
            (&exit.pid, Type::INT4),
            (&exit.exit_code, Type::INT4),
            (&exit.signal, Type::INT4),
            (&stdout, Type::TEXT),
            (&stderr, Type::TEXT),
        ],
    )
    .await
    .map_err(|error| Error::call(OPERATION, error))?;
    Ok(())
}
