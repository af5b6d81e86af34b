//! What every process of JobForge stands on: typed calls of the SQL functions, their errors, connections,
//! the listener, migrations.
//!
//! The database decides, this crate calls: it keeps no state, spawns no tasks and reads no environment.

pub mod connect;
pub mod dedupe;
pub mod error;
mod job_type;
pub mod listen;
pub mod migrate;
pub mod preflight;
pub mod rpc;

pub use error::{Code, Error};
pub use job_type::JobType;
pub use rpc::{
    Attempt, AttemptEnd, Beat, Bulk, BulkFilter, BulkKind, BulkResult, Canceled, ClaimRequest, Claimed,
    ClaimedJob, Class, Clear, Completion, Cursor, DeadLetter, DeadLetterFilter, DeadLetterGroup,
    DeadLetterPage, Definition, Enqueued, Failed, Failure, Flow, Hold, Job, JobFilter, JobRef, JobSummary,
    Leadership, Level, ListedDefinition, ListedTenant, Locator, LogLine, Look, NewJob, NewPause, Page,
    Partitioned, Pause, PauseKind, Payload, Point, Pruned, QueueSummary, Reaped, Reason, Redrive,
    RedriveAnswer, RedriveRow, Redriven, Refusal, Registration, Rescheduled, ResultsOf, Retried,
    SeriesRequest, Server, Summary, SystemState, Tenant, Verdict, Worker,
};
