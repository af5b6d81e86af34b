//! Rows of both tenants in every table that holds tenants' data, stored past the functions: the probes that look for
//! them must not depend on what they probe.

use super::Site;
use super::verdict::{Verdict, works};
use crate::schema::{TENANT_A, TENANT_B};

/// Every table with tenants' data, partitioned ones by their parent.
pub(crate) const TENANT_TABLES: [&str; 18] = [
    "jobs",
    "job_history",
    "attempts",
    "job_logs",
    "job_progress",
    "attempt_history",
    "log_history",
    "attempt_exits",
    "exit_history",
    "idempotency_keys",
    "audit_log",
    "bulk_operations",
    "bulk_results",
    "tenant_stats",
    "connector_configs",
    "connector_secrets",
    "artifacts",
    "job_artifacts",
];

/// Those of them that a tenant's login may read without a function.
pub(crate) const READABLE: [&str; 14] = [
    "jobs",
    "job_history",
    "attempts",
    "job_logs",
    "job_progress",
    "attempt_history",
    "log_history",
    "attempt_exits",
    "exit_history",
    "bulk_operations",
    "bulk_results",
    "tenant_stats",
    "artifacts",
    "job_artifacts",
];

/// The id of each tenant's row: the same in both, so that only the tenant tells them apart.
pub(crate) const STORED: &str = "01900000-0000-7000-8000-000000000001";

/// An object of each tenant, of the same name.
const OBJECT: &str = "sha256:00000000000000000000000000000000000000000000000000000000000000aa";

/// One row of each tenant in each of them; twice is as good as once. The job is blocked, so that no claim takes it.
pub(crate) async fn store_rows(site: &Site) -> Verdict {
    let mut sql = String::new();
    for tenant in [TENANT_A, TENANT_B] {
        sql.push_str(&format!(
            "insert into jobforge.jobs (tenant_id, id, run_at, created_at, max_attempts, priority, ready, status, retention,
               queue, type, payload, source)
             values ('{tenant}', '{STORED}', now(), now(), 5, 100, false, 'blocked', 'week', 'stored', 'test.noop',
               '{{\"secret\": 1}}', 'manual') on conflict do nothing;
             insert into jobforge.job_history (tenant_id, id, run_at, created_at, finished_at, fence, failures, deaths,
               max_attempts, priority, status, retention, queue, type, payload, result, source)
             select '{tenant}', '{STORED}', now(), now(), now(), 1, 0, 0, 5, 100, 'succeeded', 'week', 'stored', 'test.noop',
               '{{\"secret\": 1}}', '{{\"secret\": 2}}', 'manual'
             where not exists (select from jobforge.job_history h where h.tenant_id = '{tenant}' and h.id = '{STORED}');
             insert into jobforge.attempts (tenant_id, job_id, number, status, started_at, finished_at)
             values ('{tenant}', '{STORED}', 1, 'failed', now(), now()) on conflict do nothing;
             insert into jobforge.job_logs (tenant_id, job_id, number, line_no, at, level, message)
             values ('{tenant}', '{STORED}', 1, 1, now(), 'info', 'stored') on conflict do nothing;
             insert into jobforge.job_progress (tenant_id, job_id, number, percent, at)
             values ('{tenant}', '{STORED}', 1, 50, now()) on conflict do nothing;
             insert into jobforge.attempt_history (tenant_id, job_id, number, status, started_at, finished_at, retention,
               job_finished_at)
             values ('{tenant}', '{STORED}', 1, 'failed', now(), now(), 'week', date_trunc('day', now())) on conflict do nothing;
             insert into jobforge.log_history (tenant_id, job_id, number, line_no, at, level, message, retention,
               job_finished_at)
             values ('{tenant}', '{STORED}', 1, 1, now(), 'info', 'stored', 'week', date_trunc('day', now()))
             on conflict do nothing;
             insert into jobforge.attempt_exits (tenant_id, job_id, number, pid, at)
             values ('{tenant}', '{STORED}', 1, 1, now()) on conflict do nothing;
             insert into jobforge.exit_history (tenant_id, job_id, number, pid, at, retention, job_finished_at)
             values ('{tenant}', '{STORED}', 1, 1, now(), 'week', date_trunc('day', now())) on conflict do nothing;
             insert into jobforge.idempotency_keys (tenant_id, type, key, job_id, payload_hash, created_at)
             values ('{tenant}', 'test.noop', 'stored', '{STORED}', '', now()) on conflict do nothing;
             insert into jobforge.audit_log (tenant_id, id, at, actor, action)
             values ('{tenant}', '{STORED}', now(), 'nobody', 'stored') on conflict do nothing;
             insert into jobforge.bulk_operations (tenant_id, id, kind, actor, filter, patch, started_at)
             values ('{tenant}', '{STORED}', 'redrive', 'nobody', '{{\"type\": \"no.such\"}}', '[{{\"secret\": 3}}]', now())
             on conflict do nothing;
             insert into jobforge.bulk_results (tenant_id, operation_id, job_id, at, verdict, before)
             values ('{tenant}', '{STORED}', '{STORED}', now(), 'skipped', '{{\"secret\": 4}}') on conflict do nothing;
             insert into jobforge.tenant_stats (tenant_id, at, queued, ready, running, dead, enqueued, completed, failed,
               canceled, seconds, estimated)
             values ('{tenant}', date_trunc('hour', now()) - interval '6 hours', 1, 1, 1, 1, 1, 1, 1, 1, 1, false) on conflict do nothing;
             insert into jobforge.connector_configs (tenant_id, name, created_at, updated_at, updated_by)
             values ('{tenant}', 'stored', now(), now(), 'nobody') on conflict do nothing;
             insert into jobforge.connector_secrets (tenant_id, config, name, env, updated_at)
             values ('{tenant}', 'stored', 'token', 'JOBFORGE_SECRET_STORED', now()) on conflict do nothing;
             insert into jobforge.artifacts (tenant_id, ref, announced_at) values ('{tenant}', '{OBJECT}', now()) on conflict do nothing;
             insert into jobforge.job_artifacts (tenant_id, job_id, kind, ref, bytes, created_at)
             values ('{tenant}', '{STORED}', 'payload', '{OBJECT}', 1, now()) on conflict do nothing;"
        ));
    }
    works("store rows of both tenants", site.admin.batch_execute(&sql).await)
}
