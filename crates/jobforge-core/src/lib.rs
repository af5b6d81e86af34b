//! What every process of JobForge stands on: typed calls of the SQL functions, their errors, connections,
//! the listener, migrations.
//!
//! The database decides, this crate calls: it keeps no state, spawns no tasks and reads no environment.

pub mod artifact;
pub mod connect;
pub mod dedupe;
pub mod error;
mod hosts;
mod job_type;
pub mod listen;
pub mod migrate;
mod plain;
pub mod preflight;
pub mod rpc;
pub mod schema;
mod turns;

pub use artifact::{Artifact, ArtifactError, ArtifactId, ArtifactRef, Artifacts};
pub use error::{Code, Error};
pub use job_type::JobType;
pub use rpc::{
    Actor, ApiKey, Attempt, AttemptEnd, AuditEntry, AuditFilter, AuditPage, Beat, Bulk, BulkFilter, BulkKind,
    BulkResult, Canceled, ClaimRequest, Claimed, ClaimedJob, Class, Clear, Completion, ConnectorChange,
    ConnectorConfig, ConnectorSecret, CountBounds, Counted, Cursor, DeadLetter, DeadLetterFilter,
    DeadLetterGroup, DeadLetterPage, Definition, DefinitionRules, Doomed, Enqueued, Expected, Failed,
    Failure, FinishedJob, Flow, FlowCount, FlowStep, FoundConfig, FoundKey, FoundSession, Hold, Job,
    JobCount, JobFilter, JobGroup, JobRef, JobSummary, KeyScope, Leadership, Level, ListedDefinition,
    ListedTenant, Locator, LogLine, LogPosition, LoggedLine, LogsRequest, Look, NewJob, NewKey, NewPause,
    Page, Partitioned, Pause, PauseKind, Payload, Period, Point, ProgramExit, Pruned, QueueSummary, Reaped,
    Reason, Redrive, RedriveAnswer, RedriveRow, Redriven, Refusal, Registration, Rescheduled, ResultsOf,
    Retried, Role, SealedSecret, SecretKind, SeriesRequest, Server, StoredSecret, Subject, Summary,
    SystemState, Tenant, Verdict, Worker,
};
