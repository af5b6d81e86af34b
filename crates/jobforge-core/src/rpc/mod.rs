//! Typed calls of the SQL functions, one file for each verb.
//!
//! Every call takes any client or transaction, sends one unnamed statement with typed parameters (so it
//! works behind a transaction pooler) and names its arguments. A tenant's call sets `app.tenant_id` in the
//! same statement, for the rest of the transaction.

mod actor;
mod artifact;
mod at_once;
mod audit;
mod bound;
mod bulk;
mod cancel;
mod claim;
mod clock;
mod collect;
mod complete;
mod connector_config;
mod count;
mod cursor;
mod dead_letters;
mod definition;
mod derive;
mod enqueue;
mod enqueue_gathered;
mod exit;
mod explain;
mod fail;
mod finished;
mod heartbeat;
mod inspect;
mod job;
mod key;
mod lead;
mod limit;
mod lock_limit;
mod log;
mod logs;
mod new_job;
mod partitions;
mod pause;
mod payload;
mod progress;
mod promote;
mod prune;
mod read;
mod reap;
mod recall_marks;
mod redrive;
mod release;
mod reschedule;
mod retry;
mod rules;
mod sealed_secret;
mod series;
mod server;
mod session;
mod sleep;
mod snooze;
mod stats;
mod summary;
mod system;
mod tenant;
mod wire;
mod worker;

pub use actor::{Actor, as_actor, set_actor};
pub use artifact::{announce_artifact, attach_artifact, hold_result};
pub use at_once::at_once;
pub use audit::{AuditEntry, AuditFilter, AuditPage, Subject, list_audit, list_system_audit, record_audit};
pub use bound::{Call, bound_to, together};
pub use bulk::{
    Bulk, BulkFilter, BulkKind, BulkResult, ResultsOf, get_bulk, list_bulk_results, list_bulks, start_bulk,
    step_bulk, undo_bulk,
};
pub use cancel::{Canceled, cancel_job};
pub use claim::{
    ClaimRequest, Claimed, ClaimedJob, PreparedClaim, claim_jobs, claim_prepared, prepare_claim,
    rehearse_claim,
};
pub use clock::clock;
pub use collect::{Doomed, collect_artifacts, confirm_artifacts};
pub use complete::{Completion, complete_job, complete_jobs, complete_unlocked, rehearse_complete};
pub use connector_config::{
    ConnectorChange, ConnectorConfig, ConnectorSecret, FoundConfig, SecretKind, StoredSecret,
    delete_connector_config, disable_connector_config, enable_connector_config, find_connector_config,
    get_connector_config, list_connector_configs, upsert_connector_config,
};
pub use count::{
    CountBounds, Counted, FlowCount, FlowStep, JobCount, JobGroup, Period, count_flow, count_jobs,
};
pub use cursor::Cursor;
pub use dead_letters::{
    DeadLetter, DeadLetterFilter, DeadLetterGroup, DeadLetterPage, group_dead_letters, list_dead_letters,
};
pub use definition::{
    Definition, Expected, ListedDefinition, get_definition, list_definitions, upsert_definition,
};
pub use derive::{canonical, derive_dedupe_key};
pub use enqueue::{
    PreparedEnqueue, enqueue_grouped, enqueue_grouped_within, enqueue_job, enqueue_jobs, enqueue_prepared,
    prepare_enqueue,
};
pub use enqueue_gathered::enqueue_gathered;
pub use exit::{ProgramExit, report_exit};
pub use explain::{Reason, explain_job};
pub use fail::{AttemptEnd, Class, Failed, Failure, fail_job, fail_jobs, fail_unlocked};
pub use finished::{FinishedJob, finished_jobs};
pub use heartbeat::{Beat, heartbeat};
pub use inspect::{
    ForgottenPause, Starved, Stranded, StrandedJob, StuckLease, list_forgotten_pauses, list_starved,
    list_stranded, list_stuck_leases,
};
pub use job::{JobRef, Locator, Payload, Verdict};
pub use key::{
    ApiKey, FoundKey, KEYS_CHANNEL, KeyScope, NewKey, Role, create_api_key, find_api_key, has_keys,
    list_api_keys, revoke_api_key, touch_api_keys,
};
pub use lead::{Leadership, lead, resign};
pub use limit::{Clear, Hold};
pub use log::{Level, LogLine, append_log};
pub use logs::{LogPosition, LoggedLine, LogsRequest, list_logs};
pub use new_job::{Enqueued, NewJob, Refusal};
pub use partitions::{Partitioned, upkeep_partitions};
pub use pause::{NewPause, Pause, PauseKind, list_pauses, pause, resume};
pub use progress::report_progress;
pub use promote::promote_due;
pub use prune::{PrunePosition, Pruned, prune};
pub use read::{Attempt, Job, JobFilter, JobSummary, Page, get_job, list_attempts, list_jobs};
pub use reap::{Reaped, reap};
pub use recall_marks::recall_marks;
pub use redrive::{Redrive, RedriveAnswer, RedriveRow, Redriven, redrive_jobs};
pub use release::{close_lease, release_jobs, release_others};
pub use reschedule::{Rescheduled, reschedule_job};
pub use retry::{Retried, retry_job};
pub use rules::{DefinitionRules, definition_rules, validate_job};
pub use sealed_secret::{SealedSecret, list_sealed_secrets, reseal_secret};
pub use series::{Point, SeriesRequest, read_series, read_system_series};
pub(crate) use server::backend_pid;
pub use server::{Server, inspect_server};
pub use session::{FoundSession, create_session, end_session, find_session};
pub use sleep::{Look, look, sleep_worker, wake_worker};
pub use snooze::snooze_job;
pub use stats::sample_stats;
pub use summary::{Flow, QueueSummary, Summary, job_summary, queue_summary};
pub use system::{SystemState, system_state};
pub use tenant::{ListedTenant, Tenant, bind_login, get_tenant, list_tenants, upsert_tenant};
pub use worker::{Registration, Worker, list_workers, register_worker, stop_worker};
