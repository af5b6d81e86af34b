-- The schema as the catalogs tell it, one fact a line. Written by `cargo xtask snapshot`.

create schema jobforge authorization jf_owner;
grant usage on schema jobforge to jf_fn;
grant usage on schema jobforge to jf_operator;
grant usage on schema jobforge to jf_sys;
grant usage on schema jobforge to jf_tenant;
grant usage on schema jobforge to jf_worker;

create sequence jobforge.claim_numbers;
alter sequence jobforge.claim_numbers owner to jf_owner;
grant usage on sequence jobforge.claim_numbers to jf_sys;

create sequence jobforge.workers_no_seq;
alter sequence jobforge.workers_no_seq owner to jf_owner;

create type jobforge.bulk_operation;
alter type jobforge.bulk_operation owner to jf_owner;
alter type jobforge.bulk_operation add attribute id uuid;
alter type jobforge.bulk_operation add attribute kind text;
alter type jobforge.bulk_operation add attribute status text;
alter type jobforge.bulk_operation add attribute actor text;
alter type jobforge.bulk_operation add attribute reason text;
alter type jobforge.bulk_operation add attribute filter jsonb;
alter type jobforge.bulk_operation add attribute patch jsonb;
alter type jobforge.bulk_operation add attribute max_attempts integer;
alter type jobforge.bulk_operation add attribute dry_run boolean;
alter type jobforge.bulk_operation add attribute matched bigint;
alter type jobforge.bulk_operation add attribute matched_capped boolean;
alter type jobforge.bulk_operation add attribute done bigint;
alter type jobforge.bulk_operation add attribute skipped bigint;
alter type jobforge.bulk_operation add attribute undone bigint;
alter type jobforge.bulk_operation add attribute kept bigint;
alter type jobforge.bulk_operation add attribute started_at timestamp with time zone;
alter type jobforge.bulk_operation add attribute finished_at timestamp with time zone;
alter type jobforge.bulk_operation add attribute undone_at timestamp with time zone;
grant usage on type jobforge.bulk_operation to jf_fn;
grant usage on type jobforge.bulk_operation to jf_operator;
grant usage on type jobforge.bulk_operation to jf_tenant;
grant usage on type jobforge.bulk_operation to public;

create type jobforge.claim_gate;
alter type jobforge.claim_gate owner to jf_owner;
alter type jobforge.claim_gate add attribute queues text[];
alter type jobforge.claim_gate add attribute types text[];
alter type jobforge.claim_gate add attribute limited_types text[];
alter type jobforge.claim_gate add attribute keyed boolean;
alter type jobforge.claim_gate add attribute held boolean;
alter type jobforge.claim_gate add attribute weighted boolean;
alter type jobforge.claim_gate add attribute rooms jsonb;
grant usage on type jobforge.claim_gate to jf_sys;
grant usage on type jobforge.claim_gate to public;

create type jobforge.claim_mark;
alter type jobforge.claim_mark owner to jf_owner;
alter type jobforge.claim_mark add attribute queue text;
alter type jobforge.claim_mark add attribute type text;
alter type jobforge.claim_mark add attribute tenant_id uuid;
alter type jobforge.claim_mark add attribute priority smallint;
alter type jobforge.claim_mark add attribute run_at timestamp with time zone;
alter type jobforge.claim_mark add attribute id uuid;
grant usage on type jobforge.claim_mark to jf_sys;
grant usage on type jobforge.claim_mark to public;

create type jobforge.claim_turn;
alter type jobforge.claim_turn owner to jf_owner;
alter type jobforge.claim_turn add attribute at uuid;
alter type jobforge.claim_turn add attribute owed integer;
alter type jobforge.claim_turn add attribute tenants uuid[];
alter type jobforge.claim_turn add attribute quanta integer[];
alter type jobforge.claim_turn add attribute hungry uuid[];
alter type jobforge.claim_turn add attribute everybody boolean;
alter type jobforge.claim_turn add attribute listed boolean;
alter type jobforge.claim_turn add attribute seen boolean;
alter type jobforge.claim_turn add attribute rooms jsonb;
grant usage on type jobforge.claim_turn to jf_sys;
grant usage on type jobforge.claim_turn to public;

create type jobforge.claimed;
alter type jobforge.claimed owner to jf_owner;
alter type jobforge.claimed add attribute lease_id uuid;
alter type jobforge.claimed add attribute expires_at timestamp with time zone;
alter type jobforge.claimed add attribute solo boolean;
alter type jobforge.claimed add attribute claim_no bigint;
alter type jobforge.claimed add attribute tenant_id uuid;
alter type jobforge.claimed add attribute id uuid;
alter type jobforge.claimed add attribute type text;
alter type jobforge.claimed add attribute queue text;
alter type jobforge.claimed add attribute priority smallint;
alter type jobforge.claimed add attribute run_at timestamp with time zone;
alter type jobforge.claimed add attribute fence integer;
alter type jobforge.claimed add attribute failures integer;
alter type jobforge.claimed add attribute deaths smallint;
alter type jobforge.claimed add attribute max_attempts smallint;
alter type jobforge.claimed add attribute timeout_seconds integer;
alter type jobforge.claimed add attribute correlation_id text;
alter type jobforge.claimed add attribute traceparent text;
alter type jobforge.claimed add attribute payload jsonb;
alter type jobforge.claimed add attribute locator tid;
alter type jobforge.claimed add attribute turn uuid;
alter type jobforge.claimed add attribute more boolean;
alter type jobforge.claimed add attribute limited boolean;
alter type jobforge.claimed add attribute owed integer;
alter type jobforge.claimed add attribute retry_at timestamp with time zone;
grant usage on type jobforge.claimed to jf_sys;
grant usage on type jobforge.claimed to jf_worker;
grant usage on type jobforge.claimed to public;

create type jobforge.job_count;
alter type jobforge.job_count owner to jf_owner;
alter type jobforge.job_count add attribute key text;
alter type jobforge.job_count add attribute jobs bigint;
alter type jobforge.job_count add attribute waiting bigint;
alter type jobforge.job_count add attribute running bigint;
alter type jobforge.job_count add attribute succeeded bigint;
alter type jobforge.job_count add attribute failed bigint;
alter type jobforge.job_count add attribute dead bigint;
alter type jobforge.job_count add attribute canceled bigint;
alter type jobforge.job_count add attribute seconds double precision;
grant usage on type jobforge.job_count to jf_sys;
grant usage on type jobforge.job_count to public;

create type jobforge.job_filter;
alter type jobforge.job_filter owner to jf_owner;
alter type jobforge.job_filter add attribute statuses text[];
alter type jobforge.job_filter add attribute type text;
alter type jobforge.job_filter add attribute queue text;
alter type jobforge.job_filter add attribute fingerprint text;
alter type jobforge.job_filter add attribute tag text;
alter type jobforge.job_filter add attribute created_after timestamp with time zone;
alter type jobforge.job_filter add attribute created_before timestamp with time zone;
alter type jobforge.job_filter add attribute finished_after timestamp with time zone;
alter type jobforge.job_filter add attribute finished_before timestamp with time zone;
grant usage on type jobforge.job_filter to jf_fn;
grant usage on type jobforge.job_filter to public;

create table jobforge.api_keys with (fillfactor=70);
alter table jobforge.api_keys owner to jf_owner;
alter table jobforge.api_keys add column id text collate "C" not null;
alter table jobforge.api_keys add column secret_sha256 bytea not null;
alter table jobforge.api_keys add column role text not null;
alter table jobforge.api_keys add column tenant_id uuid;
alter table jobforge.api_keys add column name text default ''::text not null;
alter table jobforge.api_keys add column created_at timestamp with time zone not null;
alter table jobforge.api_keys add column created_by text not null;
alter table jobforge.api_keys add column expires_at timestamp with time zone;
alter table jobforge.api_keys add column last_used_at timestamp with time zone;
alter table jobforge.api_keys add column revoked_at timestamp with time zone;
alter table jobforge.api_keys add column revoked_by text;
alter table jobforge.api_keys add constraint api_keys_author_length CHECK ((((length(created_by) >= 1) AND (length(created_by) <= 255)) AND ((length(revoked_by) >= 1) AND (length(revoked_by) <= 255))));
alter table jobforge.api_keys add constraint api_keys_expiry_later CHECK ((expires_at > created_at));
alter table jobforge.api_keys add constraint api_keys_hash_size CHECK ((octet_length(secret_sha256) = 32));
alter table jobforge.api_keys add constraint api_keys_id_form CHECK ((id ~ '^[a-z0-9]{12}$'::text));
alter table jobforge.api_keys add constraint api_keys_name_length CHECK ((length(name) <= 200));
alter table jobforge.api_keys add constraint api_keys_pk PRIMARY KEY (id);
alter table jobforge.api_keys add constraint api_keys_revoked_by_somebody CHECK (((revoked_at IS NULL) = (revoked_by IS NULL)));
alter table jobforge.api_keys add constraint api_keys_role_fits_tenant CHECK ( CASE role WHEN 'super_admin'::text THEN (tenant_id IS NULL) WHEN 'worker'::text THEN true ELSE (tenant_id IS NOT NULL) END);
alter table jobforge.api_keys add constraint api_keys_role_known CHECK ((role = ANY (ARRAY['super_admin'::text, 'tenant_admin'::text, 'tenant_viewer'::text, 'producer'::text, 'worker'::text])));
create index api_keys_tenant ON jobforge.api_keys USING btree (tenant_id, id);
alter table jobforge.api_keys enable, force row level security;
create policy sys_all on jobforge.api_keys for all to jf_sys using (true) with check (true);
grant delete, insert, select, update on table jobforge.api_keys to jf_sys;

create table jobforge.artifacts with (fillfactor=70);
alter table jobforge.artifacts owner to jf_owner;
alter table jobforge.artifacts add column tenant_id uuid not null;
alter table jobforge.artifacts add column ref text not null;
alter table jobforge.artifacts add column announced_at timestamp with time zone not null;
alter table jobforge.artifacts add column collect_at timestamp with time zone;
alter table jobforge.artifacts add column doomed_at timestamp with time zone;
alter table jobforge.artifacts add constraint artifacts_doomed_is_looked_at CHECK (((doomed_at IS NULL) OR (collect_at IS NOT NULL)));
alter table jobforge.artifacts add constraint artifacts_pk PRIMARY KEY (tenant_id, ref);
alter table jobforge.artifacts add constraint artifacts_ref_form CHECK ((ref ~ '^sha256:[0-9a-f]{64}$'::text));
create index artifacts_due ON jobforge.artifacts USING btree (collect_at) WHERE (collect_at IS NOT NULL);
alter table jobforge.artifacts enable, force row level security;
create policy login_bound on jobforge.artifacts as restrictive for all to jf_fn, jf_operator, jf_tenant using (( SELECT (EXISTS ( SELECT FROM jobforge.logins l WHERE ((l.role_name = (SESSION_USER)::text) AND ((l.tenant_id IS NULL) OR (l.tenant_id = (NULLIF(current_setting('app.tenant_id'::text, true), ''::text))::uuid))))) AS "exists"));
create policy sys_all on jobforge.artifacts for all to jf_sys using (true) with check (true);
create policy tenant_reads on jobforge.artifacts for select to jf_operator, jf_tenant using ((tenant_id = ( SELECT (NULLIF(current_setting('app.tenant_id'::text, true), ''::text))::uuid AS "nullif")));
create policy tenant_rows on jobforge.artifacts for all to jf_fn using ((tenant_id = ( SELECT (NULLIF(current_setting('app.tenant_id'::text, true), ''::text))::uuid AS "nullif"))) with check ((tenant_id = ( SELECT (NULLIF(current_setting('app.tenant_id'::text, true), ''::text))::uuid AS "nullif")));
grant delete, insert, select, update on table jobforge.artifacts to jf_fn;
grant delete, insert, select, update on table jobforge.artifacts to jf_sys;
grant select on table jobforge.artifacts to jf_operator;
grant select on table jobforge.artifacts to jf_tenant;

create table jobforge.attempt_exits;
alter table jobforge.attempt_exits owner to jf_owner;
alter table jobforge.attempt_exits add column tenant_id uuid not null;
alter table jobforge.attempt_exits add column job_id uuid not null;
alter table jobforge.attempt_exits add column number integer not null;
alter table jobforge.attempt_exits add column pid integer;
alter table jobforge.attempt_exits add column exit_code integer;
alter table jobforge.attempt_exits add column signal integer;
alter table jobforge.attempt_exits add column at timestamp with time zone not null;
alter table jobforge.attempt_exits add column stdout_tail text;
alter table jobforge.attempt_exits add column stderr_tail text;
alter table jobforge.attempt_exits add constraint attempt_exits_code_or_signal CHECK (((exit_code IS NULL) OR (signal IS NULL)));
alter table jobforge.attempt_exits add constraint attempt_exits_code_range CHECK (((exit_code >= 0) AND (exit_code <= 255)));
alter table jobforge.attempt_exits add constraint attempt_exits_pid_range CHECK ((pid > 0));
alter table jobforge.attempt_exits add constraint attempt_exits_pk PRIMARY KEY (tenant_id, job_id, number);
alter table jobforge.attempt_exits add constraint attempt_exits_signal_range CHECK (((signal >= 1) AND (signal <= 64)));
alter table jobforge.attempt_exits enable, force row level security;
create policy login_bound on jobforge.attempt_exits as restrictive for all to jf_fn, jf_operator, jf_tenant using (( SELECT (EXISTS ( SELECT FROM jobforge.logins l WHERE ((l.role_name = (SESSION_USER)::text) AND ((l.tenant_id IS NULL) OR (l.tenant_id = (NULLIF(current_setting('app.tenant_id'::text, true), ''::text))::uuid))))) AS "exists"));
create policy sys_all on jobforge.attempt_exits for all to jf_sys using (true) with check (true);
create policy tenant_reads on jobforge.attempt_exits for select to jf_operator, jf_tenant using ((tenant_id = ( SELECT (NULLIF(current_setting('app.tenant_id'::text, true), ''::text))::uuid AS "nullif")));
create policy tenant_rows on jobforge.attempt_exits for all to jf_fn using ((tenant_id = ( SELECT (NULLIF(current_setting('app.tenant_id'::text, true), ''::text))::uuid AS "nullif"))) with check ((tenant_id = ( SELECT (NULLIF(current_setting('app.tenant_id'::text, true), ''::text))::uuid AS "nullif")));
grant delete, insert, select, update on table jobforge.attempt_exits to jf_fn;
grant delete, insert, select, update on table jobforge.attempt_exits to jf_sys;
grant select on table jobforge.attempt_exits to jf_operator;
grant select on table jobforge.attempt_exits to jf_tenant;

create table jobforge.attempt_history partition by LIST (retention);
alter table jobforge.attempt_history owner to jf_owner;
alter table jobforge.attempt_history add column tenant_id uuid not null;
alter table jobforge.attempt_history add column job_id uuid not null;
alter table jobforge.attempt_history add column number integer not null;
alter table jobforge.attempt_history add column status text not null;
alter table jobforge.attempt_history add column worker_no integer;
alter table jobforge.attempt_history add column exit_code integer;
alter table jobforge.attempt_history add column started_at timestamp with time zone not null;
alter table jobforge.attempt_history add column finished_at timestamp with time zone not null;
alter table jobforge.attempt_history add column error_class text;
alter table jobforge.attempt_history add column error text;
alter table jobforge.attempt_history add column stdout_tail text;
alter table jobforge.attempt_history add column stderr_tail text;
alter table jobforge.attempt_history add column retention text not null;
alter table jobforge.attempt_history add column job_finished_at timestamp with time zone not null;
alter table jobforge.attempt_history add constraint attempt_history_pk PRIMARY KEY (tenant_id, job_id, number, job_finished_at, retention);
alter table jobforge.attempt_history add constraint attempts_class_known CHECK ((error_class = ANY (ARRAY['retryable'::text, 'permanent'::text])));
alter table jobforge.attempt_history add constraint attempts_status_known CHECK ((status = ANY (ARRAY['succeeded'::text, 'failed'::text, 'timeout'::text, 'canceled'::text, 'lost'::text])));
alter table jobforge.attempt_history enable, force row level security;
create policy login_bound on jobforge.attempt_history as restrictive for all to jf_fn, jf_operator, jf_tenant using (( SELECT (EXISTS ( SELECT FROM jobforge.logins l WHERE ((l.role_name = (SESSION_USER)::text) AND ((l.tenant_id IS NULL) OR (l.tenant_id = (NULLIF(current_setting('app.tenant_id'::text, true), ''::text))::uuid))))) AS "exists"));
create policy sys_all on jobforge.attempt_history for all to jf_sys using (true) with check (true);
create policy tenant_reads on jobforge.attempt_history for select to jf_operator, jf_tenant using ((tenant_id = ( SELECT (NULLIF(current_setting('app.tenant_id'::text, true), ''::text))::uuid AS "nullif")));
create policy tenant_rows on jobforge.attempt_history for all to jf_fn using ((tenant_id = ( SELECT (NULLIF(current_setting('app.tenant_id'::text, true), ''::text))::uuid AS "nullif"))) with check ((tenant_id = ( SELECT (NULLIF(current_setting('app.tenant_id'::text, true), ''::text))::uuid AS "nullif")));
grant delete, insert, select, update on table jobforge.attempt_history to jf_fn;
grant delete, insert, select, update on table jobforge.attempt_history to jf_sys;
grant select on table jobforge.attempt_history to jf_operator;
grant select on table jobforge.attempt_history to jf_tenant;

create table jobforge.attempt_history_day partition of jobforge.attempt_history FOR VALUES IN ('day') partition by RANGE (job_finished_at);
alter table jobforge.attempt_history_day owner to jf_owner;
alter table jobforge.attempt_history_day enable, force row level security;

create table jobforge.attempt_history_day_default partition of jobforge.attempt_history_day DEFAULT;
alter table jobforge.attempt_history_day_default owner to jf_owner;
alter table jobforge.attempt_history_day_default enable, force row level security;

create table jobforge.attempt_history_month partition of jobforge.attempt_history FOR VALUES IN ('month') partition by RANGE (job_finished_at);
alter table jobforge.attempt_history_month owner to jf_owner;
alter table jobforge.attempt_history_month enable, force row level security;

create table jobforge.attempt_history_month_default partition of jobforge.attempt_history_month DEFAULT;
alter table jobforge.attempt_history_month_default owner to jf_owner;
alter table jobforge.attempt_history_month_default enable, force row level security;

create table jobforge.attempt_history_week partition of jobforge.attempt_history FOR VALUES IN ('week') partition by RANGE (job_finished_at);
alter table jobforge.attempt_history_week owner to jf_owner;
alter table jobforge.attempt_history_week enable, force row level security;

create table jobforge.attempt_history_week_default partition of jobforge.attempt_history_week DEFAULT;
alter table jobforge.attempt_history_week_default owner to jf_owner;
alter table jobforge.attempt_history_week_default enable, force row level security;

create table jobforge.attempt_history_year partition of jobforge.attempt_history FOR VALUES IN ('year') partition by RANGE (job_finished_at);
alter table jobforge.attempt_history_year owner to jf_owner;
alter table jobforge.attempt_history_year enable, force row level security;

create table jobforge.attempt_history_year_default partition of jobforge.attempt_history_year DEFAULT;
alter table jobforge.attempt_history_year_default owner to jf_owner;
alter table jobforge.attempt_history_year_default enable, force row level security;

create table jobforge.attempts;
alter table jobforge.attempts owner to jf_owner;
alter table jobforge.attempts add column tenant_id uuid not null;
alter table jobforge.attempts add column job_id uuid not null;
alter table jobforge.attempts add column number integer not null;
alter table jobforge.attempts add column status text not null;
alter table jobforge.attempts add column worker_no integer;
alter table jobforge.attempts add column exit_code integer;
alter table jobforge.attempts add column started_at timestamp with time zone not null;
alter table jobforge.attempts add column finished_at timestamp with time zone not null;
alter table jobforge.attempts add column error_class text;
alter table jobforge.attempts add column error text;
alter table jobforge.attempts add column stdout_tail text;
alter table jobforge.attempts add column stderr_tail text;
alter table jobforge.attempts add constraint attempts_class_known CHECK ((error_class = ANY (ARRAY['retryable'::text, 'permanent'::text])));
alter table jobforge.attempts add constraint attempts_pk PRIMARY KEY (tenant_id, job_id, number);
alter table jobforge.attempts add constraint attempts_status_known CHECK ((status = ANY (ARRAY['succeeded'::text, 'failed'::text, 'timeout'::text, 'canceled'::text, 'lost'::text])));
alter table jobforge.attempts enable, force row level security;
create policy login_bound on jobforge.attempts as restrictive for all to jf_fn, jf_operator, jf_tenant using (( SELECT (EXISTS ( SELECT FROM jobforge.logins l WHERE ((l.role_name = (SESSION_USER)::text) AND ((l.tenant_id IS NULL) OR (l.tenant_id = (NULLIF(current_setting('app.tenant_id'::text, true), ''::text))::uuid))))) AS "exists"));
create policy sys_all on jobforge.attempts for all to jf_sys using (true) with check (true);
create policy tenant_reads on jobforge.attempts for select to jf_operator, jf_tenant using ((tenant_id = ( SELECT (NULLIF(current_setting('app.tenant_id'::text, true), ''::text))::uuid AS "nullif")));
create policy tenant_rows on jobforge.attempts for all to jf_fn using ((tenant_id = ( SELECT (NULLIF(current_setting('app.tenant_id'::text, true), ''::text))::uuid AS "nullif"))) with check ((tenant_id = ( SELECT (NULLIF(current_setting('app.tenant_id'::text, true), ''::text))::uuid AS "nullif")));
grant delete, insert, select, update on table jobforge.attempts to jf_fn;
grant delete, insert, select, update on table jobforge.attempts to jf_sys;
grant select on table jobforge.attempts to jf_operator;
grant select on table jobforge.attempts to jf_tenant;

create table jobforge.audit_log;
alter table jobforge.audit_log owner to jf_owner;
alter table jobforge.audit_log add column tenant_id uuid not null;
alter table jobforge.audit_log add column id uuid default gen_random_uuid() not null;
alter table jobforge.audit_log add column at timestamp with time zone not null;
alter table jobforge.audit_log add column actor text not null;
alter table jobforge.audit_log add column action text not null;
alter table jobforge.audit_log add column job_id uuid;
alter table jobforge.audit_log add column detail jsonb default '{}'::jsonb not null;
alter table jobforge.audit_log add column credential text;
alter table jobforge.audit_log add column request_id text;
alter table jobforge.audit_log add column subject_kind text;
alter table jobforge.audit_log add column subject_id text;
alter table jobforge.audit_log add constraint audit_log_credential_length CHECK ((length(credential) <= 255));
alter table jobforge.audit_log add constraint audit_log_pk PRIMARY KEY (tenant_id, id);
alter table jobforge.audit_log add constraint audit_log_request_length CHECK ((length(request_id) <= 128));
alter table jobforge.audit_log add constraint audit_log_subject_form CHECK ((((subject_kind IS NULL) = (subject_id IS NULL)) AND (subject_kind ~ '^[a-z][a-z_]{0,31}$'::text) AND (length(subject_id) <= 255)));
create index audit_log_age ON jobforge.audit_log USING btree ((at AT TIME ZONE 'UTC'::text), id);
create index audit_log_subject ON jobforge.audit_log USING btree (tenant_id, subject_kind, subject_id, at, id) WHERE (subject_id IS NOT NULL);
create index audit_log_tenant ON jobforge.audit_log USING btree (tenant_id, at, id);
alter table jobforge.audit_log enable, force row level security;
create policy login_bound on jobforge.audit_log as restrictive for all to jf_fn, jf_operator, jf_tenant using (( SELECT (EXISTS ( SELECT FROM jobforge.logins l WHERE ((l.role_name = (SESSION_USER)::text) AND ((l.tenant_id IS NULL) OR (l.tenant_id = (NULLIF(current_setting('app.tenant_id'::text, true), ''::text))::uuid))))) AS "exists"));
create policy sys_all on jobforge.audit_log for all to jf_sys using (true) with check (true);
create policy tenant_reads on jobforge.audit_log for select to jf_operator, jf_tenant using ((tenant_id = ( SELECT (NULLIF(current_setting('app.tenant_id'::text, true), ''::text))::uuid AS "nullif")));
create policy tenant_rows on jobforge.audit_log for all to jf_fn using ((tenant_id = ( SELECT (NULLIF(current_setting('app.tenant_id'::text, true), ''::text))::uuid AS "nullif"))) with check ((tenant_id = ( SELECT (NULLIF(current_setting('app.tenant_id'::text, true), ''::text))::uuid AS "nullif")));
grant delete, insert, select, update on table jobforge.audit_log to jf_fn;
grant delete, insert, select, update on table jobforge.audit_log to jf_sys;
grant select on table jobforge.audit_log to jf_operator;

create table jobforge.bulk_operations;
alter table jobforge.bulk_operations owner to jf_owner;
alter table jobforge.bulk_operations add column tenant_id uuid not null;
alter table jobforge.bulk_operations add column id uuid not null;
alter table jobforge.bulk_operations add column kind text not null;
alter table jobforge.bulk_operations add column status text default 'running'::text not null;
alter table jobforge.bulk_operations add column actor text not null;
alter table jobforge.bulk_operations add column reason text default ''::text not null;
alter table jobforge.bulk_operations add column filter jsonb not null;
alter table jobforge.bulk_operations add column patch jsonb;
alter table jobforge.bulk_operations add column max_attempts smallint;
alter table jobforge.bulk_operations add column dry_run boolean default false not null;
alter table jobforge.bulk_operations add column matched bigint default 0 not null;
alter table jobforge.bulk_operations add column matched_capped boolean default false not null;
alter table jobforge.bulk_operations add column done bigint default 0 not null;
alter table jobforge.bulk_operations add column skipped bigint default 0 not null;
alter table jobforge.bulk_operations add column undone bigint default 0 not null;
alter table jobforge.bulk_operations add column kept bigint default 0 not null;
alter table jobforge.bulk_operations add column position_at timestamp with time zone default '-infinity'::timestamp with time zone not null;
alter table jobforge.bulk_operations add column position_id uuid default '00000000-0000-0000-0000-000000000000'::uuid not null;
alter table jobforge.bulk_operations add column started_at timestamp with time zone not null;
alter table jobforge.bulk_operations add column finished_at timestamp with time zone;
alter table jobforge.bulk_operations add column undone_at timestamp with time zone;
alter table jobforge.bulk_operations add constraint bulk_operations_ended CHECK ((((status = 'running'::text) = (finished_at IS NULL)) AND ((status = 'undone'::text) = (undone_at IS NOT NULL))));
alter table jobforge.bulk_operations add constraint bulk_operations_kind_known CHECK ((kind = ANY (ARRAY['redrive'::text, 'cancel'::text])));
alter table jobforge.bulk_operations add constraint bulk_operations_pk PRIMARY KEY (tenant_id, id);
alter table jobforge.bulk_operations add constraint bulk_operations_reason_length CHECK ((length(reason) <= 500));
alter table jobforge.bulk_operations add constraint bulk_operations_redrive_only CHECK (((kind = 'redrive'::text) OR ((patch IS NULL) AND (max_attempts IS NULL))));
alter table jobforge.bulk_operations add constraint bulk_operations_status_known CHECK ((status = ANY (ARRAY['running'::text, 'finished'::text, 'undoing'::text, 'undone'::text])));
create index bulk_operations_age ON jobforge.bulk_operations USING btree (started_at);
alter table jobforge.bulk_operations enable, force row level security;
create policy login_bound on jobforge.bulk_operations as restrictive for all to jf_fn, jf_operator, jf_tenant using (( SELECT (EXISTS ( SELECT FROM jobforge.logins l WHERE ((l.role_name = (SESSION_USER)::text) AND ((l.tenant_id IS NULL) OR (l.tenant_id = (NULLIF(current_setting('app.tenant_id'::text, true), ''::text))::uuid))))) AS "exists"));
create policy sys_all on jobforge.bulk_operations for all to jf_sys using (true) with check (true);
create policy tenant_reads on jobforge.bulk_operations for select to jf_operator, jf_tenant using ((tenant_id = ( SELECT (NULLIF(current_setting('app.tenant_id'::text, true), ''::text))::uuid AS "nullif")));
create policy tenant_rows on jobforge.bulk_operations for all to jf_fn using ((tenant_id = ( SELECT (NULLIF(current_setting('app.tenant_id'::text, true), ''::text))::uuid AS "nullif"))) with check ((tenant_id = ( SELECT (NULLIF(current_setting('app.tenant_id'::text, true), ''::text))::uuid AS "nullif")));
grant delete, insert, select, update on table jobforge.bulk_operations to jf_fn;
grant delete, insert, select, update on table jobforge.bulk_operations to jf_sys;
grant select (actor, done, dry_run, filter, finished_at, id, kept, kind, matched, matched_capped, max_attempts, reason, skipped, started_at, status, tenant_id, undone, undone_at) on table jobforge.bulk_operations to jf_operator;
grant select (actor, done, dry_run, filter, finished_at, id, kept, kind, matched, matched_capped, max_attempts, reason, skipped, started_at, status, tenant_id, undone, undone_at) on table jobforge.bulk_operations to jf_tenant;

create table jobforge.bulk_results;
alter table jobforge.bulk_results owner to jf_owner;
alter table jobforge.bulk_results add column tenant_id uuid not null;
alter table jobforge.bulk_results add column operation_id uuid not null;
alter table jobforge.bulk_results add column job_id uuid not null;
alter table jobforge.bulk_results add column at timestamp with time zone not null;
alter table jobforge.bulk_results add column verdict text not null;
alter table jobforge.bulk_results add column error_code text;
alter table jobforge.bulk_results add column error_reason text;
alter table jobforge.bulk_results add column before jsonb;
alter table jobforge.bulk_results add constraint bulk_results_pk PRIMARY KEY (tenant_id, operation_id, job_id);
alter table jobforge.bulk_results add constraint bulk_results_verdict_known CHECK ((verdict = ANY (ARRAY['redriven'::text, 'canceled'::text, 'cancel_requested'::text, 'skipped'::text, 'undone'::text, 'kept'::text])));
create index bulk_results_job ON jobforge.bulk_results USING btree (tenant_id, job_id, operation_id);
create index bulk_results_undoable ON jobforge.bulk_results USING btree (tenant_id, operation_id, job_id) WHERE (verdict = 'redriven'::text);
alter table jobforge.bulk_results enable, force row level security;
create policy login_bound on jobforge.bulk_results as restrictive for all to jf_fn, jf_operator, jf_tenant using (( SELECT (EXISTS ( SELECT FROM jobforge.logins l WHERE ((l.role_name = (SESSION_USER)::text) AND ((l.tenant_id IS NULL) OR (l.tenant_id = (NULLIF(current_setting('app.tenant_id'::text, true), ''::text))::uuid))))) AS "exists"));
create policy sys_all on jobforge.bulk_results for all to jf_sys using (true) with check (true);
create policy tenant_reads on jobforge.bulk_results for select to jf_operator, jf_tenant using ((tenant_id = ( SELECT (NULLIF(current_setting('app.tenant_id'::text, true), ''::text))::uuid AS "nullif")));
create policy tenant_rows on jobforge.bulk_results for all to jf_fn using ((tenant_id = ( SELECT (NULLIF(current_setting('app.tenant_id'::text, true), ''::text))::uuid AS "nullif"))) with check ((tenant_id = ( SELECT (NULLIF(current_setting('app.tenant_id'::text, true), ''::text))::uuid AS "nullif")));
grant delete, insert, select, update on table jobforge.bulk_results to jf_fn;
grant delete, insert, select, update on table jobforge.bulk_results to jf_sys;
grant select (at, error_code, error_reason, job_id, operation_id, tenant_id, verdict) on table jobforge.bulk_results to jf_operator;
grant select (at, error_code, error_reason, job_id, operation_id, tenant_id, verdict) on table jobforge.bulk_results to jf_tenant;

create table jobforge.connector_configs;
alter table jobforge.connector_configs owner to jf_owner;
alter table jobforge.connector_configs add column tenant_id uuid not null;
alter table jobforge.connector_configs add column name text not null;
alter table jobforge.connector_configs add column settings jsonb default '{}'::jsonb not null;
alter table jobforge.connector_configs add column disabled_at timestamp with time zone;
alter table jobforge.connector_configs add column disabled_reason text;
alter table jobforge.connector_configs add column created_at timestamp with time zone not null;
alter table jobforge.connector_configs add column updated_at timestamp with time zone not null;
alter table jobforge.connector_configs add column updated_by text not null;
alter table jobforge.connector_configs add constraint connector_configs_author_length CHECK (((length(updated_by) >= 1) AND (length(updated_by) <= 255)));
alter table jobforge.connector_configs add constraint connector_configs_disabled_with_reason CHECK (((disabled_at IS NULL) = (disabled_reason IS NULL)));
alter table jobforge.connector_configs add constraint connector_configs_name_form CHECK ((name ~ '^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$'::text));
alter table jobforge.connector_configs add constraint connector_configs_pk PRIMARY KEY (tenant_id, name);
alter table jobforge.connector_configs add constraint connector_configs_reason_length CHECK ((length(disabled_reason) <= 500));
alter table jobforge.connector_configs add constraint connector_configs_settings_object CHECK ((jsonb_typeof(settings) = 'object'::text));
alter table jobforge.connector_configs add constraint connector_configs_settings_size CHECK ((octet_length((settings)::text) <= 65536));
alter table jobforge.connector_configs enable, force row level security;
create policy login_bound on jobforge.connector_configs as restrictive for all to jf_fn, jf_operator, jf_tenant using (( SELECT (EXISTS ( SELECT FROM jobforge.logins l WHERE ((l.role_name = (SESSION_USER)::text) AND ((l.tenant_id IS NULL) OR (l.tenant_id = (NULLIF(current_setting('app.tenant_id'::text, true), ''::text))::uuid))))) AS "exists"));
create policy sys_all on jobforge.connector_configs for all to jf_sys using (true) with check (true);
create policy tenant_rows on jobforge.connector_configs for all to jf_fn using ((tenant_id = ( SELECT (NULLIF(current_setting('app.tenant_id'::text, true), ''::text))::uuid AS "nullif"))) with check ((tenant_id = ( SELECT (NULLIF(current_setting('app.tenant_id'::text, true), ''::text))::uuid AS "nullif")));
grant delete, insert, select, update on table jobforge.connector_configs to jf_fn;
grant delete, insert, select, update on table jobforge.connector_configs to jf_sys;

create table jobforge.connector_secrets;
alter table jobforge.connector_secrets owner to jf_owner;
alter table jobforge.connector_secrets add column tenant_id uuid not null;
alter table jobforge.connector_secrets add column config text not null;
alter table jobforge.connector_secrets add column name text not null;
alter table jobforge.connector_secrets add column env text;
alter table jobforge.connector_secrets add column key_id text;
alter table jobforge.connector_secrets add column sealed bytea;
alter table jobforge.connector_secrets add column updated_at timestamp with time zone not null;
alter table jobforge.connector_secrets add constraint connector_secrets_env_form CHECK ((env ~ '^[A-Za-z_][A-Za-z0-9_]{0,127}$'::text));
alter table jobforge.connector_secrets add constraint connector_secrets_key_form CHECK ((key_id ~ '^[A-Za-z0-9][A-Za-z0-9_-]{0,31}$'::text));
alter table jobforge.connector_secrets add constraint connector_secrets_name_form CHECK ((name ~ '^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$'::text));
alter table jobforge.connector_secrets add constraint connector_secrets_one_kind CHECK (((num_nonnulls(env, sealed) = 1) AND ((sealed IS NULL) = (key_id IS NULL))));
alter table jobforge.connector_secrets add constraint connector_secrets_pk PRIMARY KEY (tenant_id, config, name);
alter table jobforge.connector_secrets add constraint connector_secrets_sealed_size CHECK (((octet_length(sealed) >= 29) AND (octet_length(sealed) <= 8220)));
alter table jobforge.connector_secrets enable, force row level security;
create policy login_bound on jobforge.connector_secrets as restrictive for all to jf_fn, jf_operator, jf_tenant using (( SELECT (EXISTS ( SELECT FROM jobforge.logins l WHERE ((l.role_name = (SESSION_USER)::text) AND ((l.tenant_id IS NULL) OR (l.tenant_id = (NULLIF(current_setting('app.tenant_id'::text, true), ''::text))::uuid))))) AS "exists"));
create policy sys_all on jobforge.connector_secrets for all to jf_sys using (true) with check (true);
create policy tenant_rows on jobforge.connector_secrets for all to jf_fn using ((tenant_id = ( SELECT (NULLIF(current_setting('app.tenant_id'::text, true), ''::text))::uuid AS "nullif"))) with check ((tenant_id = ( SELECT (NULLIF(current_setting('app.tenant_id'::text, true), ''::text))::uuid AS "nullif")));
grant delete, insert, select, update on table jobforge.connector_secrets to jf_fn;
grant delete, insert, select, update on table jobforge.connector_secrets to jf_sys;

create table jobforge.definitions;
alter table jobforge.definitions owner to jf_owner;
alter table jobforge.definitions add column key text not null;
alter table jobforge.definitions add column description text default ''::text not null;
alter table jobforge.definitions add column queue text default 'default'::text not null;
alter table jobforge.definitions add column priority smallint default 100 not null;
alter table jobforge.definitions add column timeout_seconds integer default 300 not null;
alter table jobforge.definitions add column max_attempts smallint default 5 not null;
alter table jobforge.definitions add column max_deaths smallint default 5 not null;
alter table jobforge.definitions add column retry_base_ms bigint default 1000 not null;
alter table jobforge.definitions add column retry_factor real default 2 not null;
alter table jobforge.definitions add column retry_cap_ms bigint default 3600000 not null;
alter table jobforge.definitions add column retry_jitter real default 0.1 not null;
alter table jobforge.definitions add column retention text default 'week'::text not null;
alter table jobforge.definitions add column is_active boolean default true not null;
alter table jobforge.definitions add column created_at timestamp with time zone default clock_timestamp() not null;
alter table jobforge.definitions add column updated_at timestamp with time zone default clock_timestamp() not null;
alter table jobforge.definitions add column max_in_flight integer;
alter table jobforge.definitions add column max_in_flight_per_key integer default 1 not null;
alter table jobforge.definitions add column rate_per_second double precision;
alter table jobforge.definitions add column rate_burst integer;
alter table jobforge.definitions add column limited_since xid8;
alter table jobforge.definitions add column dead_retention text default 'year'::text not null;
alter table jobforge.definitions add column arg_schema jsonb;
alter table jobforge.definitions add column redact text[] default '{}'::text[] not null;
alter table jobforge.definitions add column write_only text[] default '{}'::text[] not null;
alter table jobforge.definitions add constraint definitions_attempts_range CHECK (((max_attempts >= 1) AND (max_attempts <= 1000)));
alter table jobforge.definitions add constraint definitions_burst_range CHECK (((rate_burst IS NULL) OR (((rate_burst >= 1) AND (rate_burst <= 1000000)) AND (rate_per_second IS NOT NULL))));
alter table jobforge.definitions add constraint definitions_dead_retention_known CHECK ((dead_retention = ANY (ARRAY['day'::text, 'week'::text, 'month'::text, 'year'::text])));
alter table jobforge.definitions add constraint definitions_deaths_range CHECK (((max_deaths >= 1) AND (max_deaths <= 100)));
alter table jobforge.definitions add constraint definitions_in_flight_range CHECK (((max_in_flight >= 1) AND (max_in_flight <= 1000000)));
alter table jobforge.definitions add constraint definitions_key_form CHECK ((key ~ '^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$'::text));
alter table jobforge.definitions add constraint definitions_per_key_range CHECK (((max_in_flight_per_key >= 1) AND (max_in_flight_per_key <= 100000)));
alter table jobforge.definitions add constraint definitions_pk PRIMARY KEY (key);
alter table jobforge.definitions add constraint definitions_priority_range CHECK (((priority >= 0) AND (priority <= 1000)));
alter table jobforge.definitions add constraint definitions_queue_form CHECK ((queue ~ '^[A-Za-z0-9][A-Za-z0-9._:-]{0,62}$'::text));
alter table jobforge.definitions add constraint definitions_rate_range CHECK (((rate_per_second >= (0.0001)::double precision) AND (rate_per_second <= (1000000)::double precision)));
alter table jobforge.definitions add constraint definitions_redact_count CHECK (((cardinality(redact) <= 100) AND (array_position(redact, NULL::text) IS NULL)));
alter table jobforge.definitions add constraint definitions_retention_known CHECK ((retention = ANY (ARRAY['day'::text, 'week'::text, 'month'::text, 'year'::text])));
alter table jobforge.definitions add constraint definitions_retry_base_range CHECK (((retry_base_ms >= 1) AND (retry_base_ms <= 86400000)));
alter table jobforge.definitions add constraint definitions_retry_cap_range CHECK (((retry_cap_ms >= retry_base_ms) AND (retry_cap_ms <= '2592000000'::bigint)));
alter table jobforge.definitions add constraint definitions_retry_factor_range CHECK (((retry_factor >= (1)::double precision) AND (retry_factor <= (100)::double precision)));
alter table jobforge.definitions add constraint definitions_retry_jitter_range CHECK (((retry_jitter >= (0)::double precision) AND (retry_jitter <= (1)::double precision)));
alter table jobforge.definitions add constraint definitions_schema_kind CHECK ((jsonb_typeof(arg_schema) = ANY (ARRAY['object'::text, 'boolean'::text])));
alter table jobforge.definitions add constraint definitions_schema_size CHECK ((octet_length((arg_schema)::text) <= 65536));
alter table jobforge.definitions add constraint definitions_timeout_range CHECK (((timeout_seconds >= 1) AND (timeout_seconds <= 604800)));
alter table jobforge.definitions add constraint definitions_write_only_count CHECK ((cardinality(write_only) <= 1000));
alter table jobforge.definitions enable, force row level security;
create policy fn_read on jobforge.definitions for select to jf_fn using (true);
create policy sys_all on jobforge.definitions for all to jf_sys using (true) with check (true);
grant delete, insert, select, update on table jobforge.definitions to jf_sys;
grant select on table jobforge.definitions to jf_fn;

create table jobforge.exit_history partition by LIST (retention);
alter table jobforge.exit_history owner to jf_owner;
alter table jobforge.exit_history add column tenant_id uuid not null;
alter table jobforge.exit_history add column job_id uuid not null;
alter table jobforge.exit_history add column number integer not null;
alter table jobforge.exit_history add column pid integer;
alter table jobforge.exit_history add column exit_code integer;
alter table jobforge.exit_history add column signal integer;
alter table jobforge.exit_history add column at timestamp with time zone not null;
alter table jobforge.exit_history add column stdout_tail text;
alter table jobforge.exit_history add column stderr_tail text;
alter table jobforge.exit_history add column retention text not null;
alter table jobforge.exit_history add column job_finished_at timestamp with time zone not null;
alter table jobforge.exit_history add constraint attempt_exits_code_or_signal CHECK (((exit_code IS NULL) OR (signal IS NULL)));
alter table jobforge.exit_history add constraint attempt_exits_code_range CHECK (((exit_code >= 0) AND (exit_code <= 255)));
alter table jobforge.exit_history add constraint attempt_exits_pid_range CHECK ((pid > 0));
alter table jobforge.exit_history add constraint attempt_exits_signal_range CHECK (((signal >= 1) AND (signal <= 64)));
alter table jobforge.exit_history add constraint exit_history_pk PRIMARY KEY (tenant_id, job_id, number, job_finished_at, retention);
alter table jobforge.exit_history enable, force row level security;
create policy login_bound on jobforge.exit_history as restrictive for all to jf_fn, jf_operator, jf_tenant using (( SELECT (EXISTS ( SELECT FROM jobforge.logins l WHERE ((l.role_name = (SESSION_USER)::text) AND ((l.tenant_id IS NULL) OR (l.tenant_id = (NULLIF(current_setting('app.tenant_id'::text, true), ''::text))::uuid))))) AS "exists"));
create policy sys_all on jobforge.exit_history for all to jf_sys using (true) with check (true);
create policy tenant_reads on jobforge.exit_history for select to jf_operator, jf_tenant using ((tenant_id = ( SELECT (NULLIF(current_setting('app.tenant_id'::text, true), ''::text))::uuid AS "nullif")));
create policy tenant_rows on jobforge.exit_history for all to jf_fn using ((tenant_id = ( SELECT (NULLIF(current_setting('app.tenant_id'::text, true), ''::text))::uuid AS "nullif"))) with check ((tenant_id = ( SELECT (NULLIF(current_setting('app.tenant_id'::text, true), ''::text))::uuid AS "nullif")));
grant delete, insert, select, update on table jobforge.exit_history to jf_fn;
grant delete, insert, select, update on table jobforge.exit_history to jf_sys;
grant select on table jobforge.exit_history to jf_operator;
grant select on table jobforge.exit_history to jf_tenant;

create table jobforge.exit_history_day partition of jobforge.exit_history FOR VALUES IN ('day') partition by RANGE (job_finished_at);
alter table jobforge.exit_history_day owner to jf_owner;
alter table jobforge.exit_history_day enable, force row level security;

create table jobforge.exit_history_day_default partition of jobforge.exit_history_day DEFAULT;
alter table jobforge.exit_history_day_default owner to jf_owner;
alter table jobforge.exit_history_day_default enable, force row level security;

create table jobforge.exit_history_month partition of jobforge.exit_history FOR VALUES IN ('month') partition by RANGE (job_finished_at);
alter table jobforge.exit_history_month owner to jf_owner;
alter table jobforge.exit_history_month enable, force row level security;

create table jobforge.exit_history_month_default partition of jobforge.exit_history_month DEFAULT;
alter table jobforge.exit_history_month_default owner to jf_owner;
alter table jobforge.exit_history_month_default enable, force row level security;

create table jobforge.exit_history_week partition of jobforge.exit_history FOR VALUES IN ('week') partition by RANGE (job_finished_at);
alter table jobforge.exit_history_week owner to jf_owner;
alter table jobforge.exit_history_week enable, force row level security;

create table jobforge.exit_history_week_default partition of jobforge.exit_history_week DEFAULT;
alter table jobforge.exit_history_week_default owner to jf_owner;
alter table jobforge.exit_history_week_default enable, force row level security;

create table jobforge.exit_history_year partition of jobforge.exit_history FOR VALUES IN ('year') partition by RANGE (job_finished_at);
alter table jobforge.exit_history_year owner to jf_owner;
alter table jobforge.exit_history_year enable, force row level security;

create table jobforge.exit_history_year_default partition of jobforge.exit_history_year DEFAULT;
alter table jobforge.exit_history_year_default owner to jf_owner;
alter table jobforge.exit_history_year_default enable, force row level security;

create table jobforge.history_tails with (fillfactor=50);
alter table jobforge.history_tails owner to jf_owner;
alter table jobforge.history_tails add column leaf oid not null;
alter table jobforge.history_tails add column block bigint not null;
alter table jobforge.history_tails add constraint history_tails_pk PRIMARY KEY (leaf);
alter table jobforge.history_tails enable, force row level security;
create policy sys_all on jobforge.history_tails for all to jf_sys using (true) with check (true);
grant delete, insert, select, update on table jobforge.history_tails to jf_sys;

create table jobforge.idempotency_keys;
alter table jobforge.idempotency_keys owner to jf_owner;
alter table jobforge.idempotency_keys add column tenant_id uuid not null;
alter table jobforge.idempotency_keys add column type text not null;
alter table jobforge.idempotency_keys add column key text not null;
alter table jobforge.idempotency_keys add column job_id uuid not null;
alter table jobforge.idempotency_keys add column payload_hash bytea not null;
alter table jobforge.idempotency_keys add column created_at timestamp with time zone not null;
alter table jobforge.idempotency_keys add constraint idempotency_keys_key_length CHECK (((length(key) >= 1) AND (length(key) <= 255)));
alter table jobforge.idempotency_keys add constraint idempotency_keys_pk PRIMARY KEY (tenant_id, type, key);
create index idempotency_keys_age ON jobforge.idempotency_keys USING btree (created_at);
alter table jobforge.idempotency_keys enable, force row level security;
create policy login_bound on jobforge.idempotency_keys as restrictive for all to jf_fn, jf_operator, jf_tenant using (( SELECT (EXISTS ( SELECT FROM jobforge.logins l WHERE ((l.role_name = (SESSION_USER)::text) AND ((l.tenant_id IS NULL) OR (l.tenant_id = (NULLIF(current_setting('app.tenant_id'::text, true), ''::text))::uuid))))) AS "exists"));
create policy sys_all on jobforge.idempotency_keys for all to jf_sys using (true) with check (true);
create policy tenant_rows on jobforge.idempotency_keys for all to jf_fn using ((tenant_id = ( SELECT (NULLIF(current_setting('app.tenant_id'::text, true), ''::text))::uuid AS "nullif"))) with check ((tenant_id = ( SELECT (NULLIF(current_setting('app.tenant_id'::text, true), ''::text))::uuid AS "nullif")));
grant delete, insert, select, update on table jobforge.idempotency_keys to jf_fn;
grant delete, insert, select, update on table jobforge.idempotency_keys to jf_sys;

create table jobforge.job_artifacts;
alter table jobforge.job_artifacts owner to jf_owner;
alter table jobforge.job_artifacts add column tenant_id uuid not null;
alter table jobforge.job_artifacts add column job_id uuid not null;
alter table jobforge.job_artifacts add column kind text not null;
alter table jobforge.job_artifacts add column ref text not null;
alter table jobforge.job_artifacts add column bytes bigint not null;
alter table jobforge.job_artifacts add column created_at timestamp with time zone not null;
alter table jobforge.job_artifacts add column retention text;
alter table jobforge.job_artifacts add column job_finished_at timestamp with time zone;
alter table jobforge.job_artifacts add constraint job_artifacts_bytes_range CHECK (((bytes >= 1) AND (bytes <= 1073741824)));
alter table jobforge.job_artifacts add constraint job_artifacts_end_whole CHECK (((retention IS NULL) = (job_finished_at IS NULL)));
alter table jobforge.job_artifacts add constraint job_artifacts_kind_known CHECK ((kind = ANY (ARRAY['payload'::text, 'result'::text])));
alter table jobforge.job_artifacts add constraint job_artifacts_pk PRIMARY KEY (tenant_id, job_id, kind);
alter table jobforge.job_artifacts add constraint job_artifacts_ref_form CHECK ((ref ~ '^sha256:[0-9a-f]{64}$'::text));
create index job_artifacts_holders ON jobforge.job_artifacts USING btree (tenant_id, ref);
create index job_artifacts_live ON jobforge.job_artifacts USING btree (tenant_id, job_id) WHERE (job_finished_at IS NULL);
create index job_artifacts_over ON jobforge.job_artifacts USING btree (retention, job_finished_at) WHERE (job_finished_at IS NOT NULL);
alter table jobforge.job_artifacts enable, force row level security;
create policy login_bound on jobforge.job_artifacts as restrictive for all to jf_fn, jf_operator, jf_tenant using (( SELECT (EXISTS ( SELECT FROM jobforge.logins l WHERE ((l.role_name = (SESSION_USER)::text) AND ((l.tenant_id IS NULL) OR (l.tenant_id = (NULLIF(current_setting('app.tenant_id'::text, true), ''::text))::uuid))))) AS "exists"));
create policy sys_all on jobforge.job_artifacts for all to jf_sys using (true) with check (true);
create policy tenant_reads on jobforge.job_artifacts for select to jf_operator, jf_tenant using ((tenant_id = ( SELECT (NULLIF(current_setting('app.tenant_id'::text, true), ''::text))::uuid AS "nullif")));
create policy tenant_rows on jobforge.job_artifacts for all to jf_fn using ((tenant_id = ( SELECT (NULLIF(current_setting('app.tenant_id'::text, true), ''::text))::uuid AS "nullif"))) with check ((tenant_id = ( SELECT (NULLIF(current_setting('app.tenant_id'::text, true), ''::text))::uuid AS "nullif")));
grant delete, insert, select, update on table jobforge.job_artifacts to jf_fn;
grant delete, insert, select, update on table jobforge.job_artifacts to jf_sys;
grant select on table jobforge.job_artifacts to jf_operator;
grant select on table jobforge.job_artifacts to jf_tenant;

create table jobforge.job_history partition by LIST (retention);
alter table jobforge.job_history owner to jf_owner;
alter table jobforge.job_history add column tenant_id uuid not null;
alter table jobforge.job_history add column id uuid not null;
alter table jobforge.job_history add column run_at timestamp with time zone not null;
alter table jobforge.job_history add column created_at timestamp with time zone not null;
alter table jobforge.job_history add column started_at timestamp with time zone;
alter table jobforge.job_history add column finished_at timestamp with time zone not null;
alter table jobforge.job_history add column fence integer not null;
alter table jobforge.job_history add column failures integer not null;
alter table jobforge.job_history add column worker_no integer;
alter table jobforge.job_history add column deaths smallint not null;
alter table jobforge.job_history add column max_attempts smallint not null;
alter table jobforge.job_history add column priority smallint not null;
alter table jobforge.job_history add column status text not null;
alter table jobforge.job_history add column retention text not null;
alter table jobforge.job_history add column queue text not null;
alter table jobforge.job_history add column type text not null;
alter table jobforge.job_history add column payload jsonb not null;
alter table jobforge.job_history add column result jsonb;
alter table jobforge.job_history add column dedupe_key text;
alter table jobforge.job_history add column concurrency_key text;
alter table jobforge.job_history add column correlation_id text;
alter table jobforge.job_history add column traceparent text;
alter table jobforge.job_history add column tags jsonb;
alter table jobforge.job_history add column source text not null;
alter table jobforge.job_history add column source_ref text;
alter table jobforge.job_history add column created_by text;
alter table jobforge.job_history add column parent_id uuid;
alter table jobforge.job_history add column error text;
create index job_history_id ON ONLY jobforge.job_history USING btree (tenant_id, id);
alter table jobforge.job_history enable, force row level security;
create policy login_bound on jobforge.job_history as restrictive for all to jf_fn, jf_operator, jf_tenant using (( SELECT (EXISTS ( SELECT FROM jobforge.logins l WHERE ((l.role_name = (SESSION_USER)::text) AND ((l.tenant_id IS NULL) OR (l.tenant_id = (NULLIF(current_setting('app.tenant_id'::text, true), ''::text))::uuid))))) AS "exists"));
create policy sound on jobforge.job_history as restrictive for all to public with check ((status = ANY (ARRAY['succeeded'::text, 'canceled'::text])));
create policy sys_all on jobforge.job_history for all to jf_sys using (true) with check (true);
create policy tenant_reads on jobforge.job_history for select to jf_operator, jf_tenant using ((tenant_id = ( SELECT (NULLIF(current_setting('app.tenant_id'::text, true), ''::text))::uuid AS "nullif")));
create policy tenant_rows on jobforge.job_history for all to jf_fn using ((tenant_id = ( SELECT (NULLIF(current_setting('app.tenant_id'::text, true), ''::text))::uuid AS "nullif"))) with check ((tenant_id = ( SELECT (NULLIF(current_setting('app.tenant_id'::text, true), ''::text))::uuid AS "nullif")));
grant delete, insert, select, update on table jobforge.job_history to jf_fn;
grant delete, insert, select, update on table jobforge.job_history to jf_sys;
grant select (concurrency_key, correlation_id, created_at, created_by, deaths, error, failures, fence, finished_at, id, max_attempts, parent_id, priority, queue, retention, run_at, source, source_ref, started_at, status, tags, tenant_id, traceparent, type, worker_no) on table jobforge.job_history to jf_operator;
grant select (concurrency_key, correlation_id, created_at, created_by, deaths, error, failures, fence, finished_at, id, max_attempts, parent_id, priority, queue, retention, run_at, source, source_ref, started_at, status, tags, tenant_id, traceparent, type, worker_no) on table jobforge.job_history to jf_tenant;

create table jobforge.job_history_day partition of jobforge.job_history FOR VALUES IN ('day') partition by RANGE (finished_at);
alter table jobforge.job_history_day owner to jf_owner;
alter table jobforge.job_history_day enable, force row level security;

create table jobforge.job_history_day_default partition of jobforge.job_history_day DEFAULT;
alter table jobforge.job_history_day_default owner to jf_owner;
alter table jobforge.job_history_day_default enable, force row level security;

create table jobforge.job_history_month partition of jobforge.job_history FOR VALUES IN ('month') partition by RANGE (finished_at);
alter table jobforge.job_history_month owner to jf_owner;
alter table jobforge.job_history_month enable, force row level security;

create table jobforge.job_history_month_default partition of jobforge.job_history_month DEFAULT;
alter table jobforge.job_history_month_default owner to jf_owner;
alter table jobforge.job_history_month_default enable, force row level security;

create table jobforge.job_history_week partition of jobforge.job_history FOR VALUES IN ('week') partition by RANGE (finished_at);
alter table jobforge.job_history_week owner to jf_owner;
alter table jobforge.job_history_week enable, force row level security;

create table jobforge.job_history_week_default partition of jobforge.job_history_week DEFAULT;
alter table jobforge.job_history_week_default owner to jf_owner;
alter table jobforge.job_history_week_default enable, force row level security;

create table jobforge.job_history_year partition of jobforge.job_history FOR VALUES IN ('year') partition by RANGE (finished_at);
alter table jobforge.job_history_year owner to jf_owner;
alter table jobforge.job_history_year enable, force row level security;

create table jobforge.job_history_year_default partition of jobforge.job_history_year DEFAULT;
alter table jobforge.job_history_year_default owner to jf_owner;
alter table jobforge.job_history_year_default enable, force row level security;

create table jobforge.job_logs;
alter table jobforge.job_logs owner to jf_owner;
alter table jobforge.job_logs add column tenant_id uuid not null;
alter table jobforge.job_logs add column job_id uuid not null;
alter table jobforge.job_logs add column number integer not null;
alter table jobforge.job_logs add column line_no integer not null;
alter table jobforge.job_logs add column at timestamp with time zone not null;
alter table jobforge.job_logs add column level text not null;
alter table jobforge.job_logs add column message text not null;
alter table jobforge.job_logs add constraint job_logs_level_known CHECK ((level = ANY (ARRAY['debug'::text, 'info'::text, 'warn'::text, 'error'::text])));
alter table jobforge.job_logs add constraint job_logs_pk PRIMARY KEY (tenant_id, job_id, number, line_no);
alter table jobforge.job_logs enable, force row level security;
create policy login_bound on jobforge.job_logs as restrictive for all to jf_fn, jf_operator, jf_tenant using (( SELECT (EXISTS ( SELECT FROM jobforge.logins l WHERE ((l.role_name = (SESSION_USER)::text) AND ((l.tenant_id IS NULL) OR (l.tenant_id = (NULLIF(current_setting('app.tenant_id'::text, true), ''::text))::uuid))))) AS "exists"));
create policy sys_all on jobforge.job_logs for all to jf_sys using (true) with check (true);
create policy tenant_reads on jobforge.job_logs for select to jf_operator, jf_tenant using ((tenant_id = ( SELECT (NULLIF(current_setting('app.tenant_id'::text, true), ''::text))::uuid AS "nullif")));
create policy tenant_rows on jobforge.job_logs for all to jf_fn using ((tenant_id = ( SELECT (NULLIF(current_setting('app.tenant_id'::text, true), ''::text))::uuid AS "nullif"))) with check ((tenant_id = ( SELECT (NULLIF(current_setting('app.tenant_id'::text, true), ''::text))::uuid AS "nullif")));
grant delete, insert, select, update on table jobforge.job_logs to jf_fn;
grant delete, insert, select, update on table jobforge.job_logs to jf_sys;
grant select on table jobforge.job_logs to jf_operator;
grant select on table jobforge.job_logs to jf_tenant;

create table jobforge.job_progress with (fillfactor=70);
alter table jobforge.job_progress owner to jf_owner;
alter table jobforge.job_progress add column tenant_id uuid not null;
alter table jobforge.job_progress add column job_id uuid not null;
alter table jobforge.job_progress add column number integer not null;
alter table jobforge.job_progress add column percent real not null;
alter table jobforge.job_progress add column message text default ''::text not null;
alter table jobforge.job_progress add column at timestamp with time zone not null;
alter table jobforge.job_progress add constraint job_progress_percent_range CHECK (((percent >= (0)::double precision) AND (percent <= (100)::double precision)));
alter table jobforge.job_progress add constraint job_progress_pk PRIMARY KEY (tenant_id, job_id);
alter table jobforge.job_progress enable, force row level security;
create policy login_bound on jobforge.job_progress as restrictive for all to jf_fn, jf_operator, jf_tenant using (( SELECT (EXISTS ( SELECT FROM jobforge.logins l WHERE ((l.role_name = (SESSION_USER)::text) AND ((l.tenant_id IS NULL) OR (l.tenant_id = (NULLIF(current_setting('app.tenant_id'::text, true), ''::text))::uuid))))) AS "exists"));
create policy sys_all on jobforge.job_progress for all to jf_sys using (true) with check (true);
create policy tenant_reads on jobforge.job_progress for select to jf_operator, jf_tenant using ((tenant_id = ( SELECT (NULLIF(current_setting('app.tenant_id'::text, true), ''::text))::uuid AS "nullif")));
create policy tenant_rows on jobforge.job_progress for all to jf_fn using ((tenant_id = ( SELECT (NULLIF(current_setting('app.tenant_id'::text, true), ''::text))::uuid AS "nullif"))) with check ((tenant_id = ( SELECT (NULLIF(current_setting('app.tenant_id'::text, true), ''::text))::uuid AS "nullif")));
grant delete, insert, select, update on table jobforge.job_progress to jf_fn;
grant delete, insert, select, update on table jobforge.job_progress to jf_sys;
grant select on table jobforge.job_progress to jf_operator;
grant select on table jobforge.job_progress to jf_tenant;

create table jobforge.jobs with (autovacuum_analyze_scale_factor=0.05, autovacuum_vacuum_cost_delay=1, autovacuum_vacuum_scale_factor=0.02, fillfactor=45);
alter table jobforge.jobs owner to jf_owner;
alter table jobforge.jobs add column tenant_id uuid not null;
alter table jobforge.jobs add column id uuid not null;
alter table jobforge.jobs add column run_at timestamp with time zone not null;
alter table jobforge.jobs add column created_at timestamp with time zone not null;
alter table jobforge.jobs add column fence integer default 0 not null;
alter table jobforge.jobs add column failures integer default 0 not null;
alter table jobforge.jobs add column deaths smallint default 0 not null;
alter table jobforge.jobs add column max_attempts smallint not null;
alter table jobforge.jobs add column priority smallint not null;
alter table jobforge.jobs add column ready boolean not null;
alter table jobforge.jobs add column keyed boolean default false not null;
alter table jobforge.jobs add column queue text not null;
alter table jobforge.jobs add column type text not null;
alter table jobforge.jobs add column status text not null;
alter table jobforge.jobs add column noted boolean default false not null;
alter table jobforge.jobs add column lease_id uuid;
alter table jobforge.jobs add column started_at timestamp with time zone;
alter table jobforge.jobs add column finished_at timestamp with time zone;
alter table jobforge.jobs add column cancel_at timestamp with time zone;
alter table jobforge.jobs add column worker_no integer;
alter table jobforge.jobs add column retention text not null;
alter table jobforge.jobs add column source text not null;
alter table jobforge.jobs add column payload jsonb not null;
alter table jobforge.jobs add column dedupe_key text;
alter table jobforge.jobs add column concurrency_key text;
alter table jobforge.jobs add column correlation_id text;
alter table jobforge.jobs add column traceparent text;
alter table jobforge.jobs add column tags jsonb;
alter table jobforge.jobs add column source_ref text;
alter table jobforge.jobs add column created_by text;
alter table jobforge.jobs add column parent_id uuid;
alter table jobforge.jobs add column error text;
alter table jobforge.jobs add column taken boolean default false not null;
alter table jobforge.jobs add constraint jobs_pk PRIMARY KEY (tenant_id, id) with (fillfactor=50);
create index jobs_apart ON jobforge.jobs USING btree (queue, type, ( CASE WHEN (deaths >= 2) THEN 1 ELSE 0 END), priority, run_at, id) WITH (deduplicate_items=off) WHERE (ready AND ((deaths >= 2) OR ((priority < 10) AND (NOT keyed))));
create index jobs_dead_letters ON jobforge.jobs USING btree (tenant_id, finished_at, id) WHERE (finished_at IS NOT NULL);
create index jobs_future ON jobforge.jobs USING btree (run_at, tenant_id, id) WITH (deduplicate_items=off) WHERE ((NOT ready) AND (NOT taken) AND (finished_at IS NULL));
create index jobs_keyed ON jobforge.jobs USING btree (queue, type, tenant_id, concurrency_key, priority, run_at, id) WITH (deduplicate_items=off) WHERE (ready AND (deaths < 2) AND keyed);
create index jobs_turn ON jobforge.jobs USING btree (queue, type, tenant_id, priority, run_at, id) WITH (deduplicate_items=off) WHERE (ready AND (deaths < 2) AND (priority >= 10) AND (NOT keyed));
create unique index jobs_dedupe ON jobforge.jobs USING btree (tenant_id, dedupe_key) WHERE ((dedupe_key IS NOT NULL) AND (finished_at IS NULL));
alter table jobforge.jobs enable, force row level security;
create policy login_bound on jobforge.jobs as restrictive for all to jf_fn, jf_operator, jf_tenant using (( SELECT (EXISTS ( SELECT FROM jobforge.logins l WHERE ((l.role_name = (SESSION_USER)::text) AND ((l.tenant_id IS NULL) OR (l.tenant_id = (NULLIF(current_setting('app.tenant_id'::text, true), ''::text))::uuid))))) AS "exists")) with check ((EXISTS ( SELECT FROM jobforge.logins l WHERE ((l.role_name = (SESSION_USER)::text) AND ((l.tenant_id IS NULL) OR (l.tenant_id = (NULLIF(current_setting('app.tenant_id'::text, true), ''::text))::uuid))))));
create policy sound on jobforge.jobs as restrictive for update to public with check (((failures >= 0) AND (deaths >= 0) AND ((failures + deaths) <= fence) AND CASE WHEN keyed THEN (concurrency_key IS NOT NULL) ELSE (concurrency_key IS NULL) END AND ((NOT taken) OR ((lease_id IS NOT NULL) AND (NOT ready))) AND CASE WHEN (lease_id IS NOT NULL) THEN ((status = 'running'::text) AND (started_at IS NOT NULL) AND (fence > 0) AND (finished_at IS NULL)) WHEN (finished_at IS NOT NULL) THEN ((status = ANY (ARRAY['failed'::text, 'dead'::text])) AND (NOT ready)) ELSE ((status = 'queued'::text) OR ((status = 'blocked'::text) AND (NOT ready))) END));
create policy sound_new on jobforge.jobs as restrictive for insert to public with check (((lease_id IS NULL) AND (finished_at IS NULL) AND (NOT taken) AND (fence = 0) AND (failures = 0) AND (deaths = 0) AND CASE WHEN keyed THEN (concurrency_key IS NOT NULL) ELSE (concurrency_key IS NULL) END AND ((status = 'queued'::text) OR ((status = 'blocked'::text) AND (NOT ready)))));
create policy sys_all on jobforge.jobs for all to jf_sys using (true) with check (true);
create policy tenant_reads on jobforge.jobs for select to jf_operator, jf_tenant using ((tenant_id = ( SELECT (NULLIF(current_setting('app.tenant_id'::text, true), ''::text))::uuid AS "nullif")));
create policy tenant_rows on jobforge.jobs for all to jf_fn using ((tenant_id = ( SELECT (NULLIF(current_setting('app.tenant_id'::text, true), ''::text))::uuid AS "nullif"))) with check ((tenant_id = ( SELECT (NULLIF(current_setting('app.tenant_id'::text, true), ''::text))::uuid AS "nullif")));
grant delete, insert, select, update on table jobforge.jobs to jf_fn;
grant delete, insert, select, update on table jobforge.jobs to jf_sys;
grant select (cancel_at, concurrency_key, correlation_id, created_at, created_by, deaths, error, failures, fence, finished_at, id, max_attempts, parent_id, priority, queue, retention, run_at, source, source_ref, started_at, status, tags, tenant_id, traceparent, type, worker_no) on table jobforge.jobs to jf_operator;
grant select (cancel_at, concurrency_key, correlation_id, created_at, created_by, deaths, error, failures, fence, finished_at, id, max_attempts, parent_id, priority, queue, retention, run_at, source, source_ref, started_at, status, tags, tenant_id, traceparent, type, worker_no) on table jobforge.jobs to jf_tenant;

create unlogged table jobforge.key_turns with (fillfactor=50);
alter table jobforge.key_turns owner to jf_owner;
alter table jobforge.key_turns add column queue text not null;
alter table jobforge.key_turns add column type text not null;
alter table jobforge.key_turns add column tenant_id uuid not null;
alter table jobforge.key_turns add column after_key text not null;
alter table jobforge.key_turns add constraint key_turns_pk PRIMARY KEY (queue, type, tenant_id);
alter table jobforge.key_turns enable, force row level security;
create policy sys_all on jobforge.key_turns for all to jf_sys using (true) with check (true);
grant delete, insert, select, update on table jobforge.key_turns to jf_sys;

create table jobforge.leader with (fillfactor=10);
alter table jobforge.leader owner to jf_owner;
alter table jobforge.leader add column one boolean default true not null;
alter table jobforge.leader add column holder text default ''::text not null;
alter table jobforge.leader add column term bigint default 0 not null;
alter table jobforge.leader add column expires_at timestamp with time zone default '-infinity'::timestamp with time zone not null;
alter table jobforge.leader add column alive_at timestamp with time zone default clock_timestamp() not null;
alter table jobforge.leader add column server_started_at timestamp with time zone default pg_postmaster_start_time() not null;
alter table jobforge.leader add constraint leader_one CHECK (one);
alter table jobforge.leader add constraint leader_pk PRIMARY KEY (one);
alter table jobforge.leader enable, force row level security;
create policy sys_all on jobforge.leader for all to jf_sys using (true) with check (true);
grant delete, insert, select, update on table jobforge.leader to jf_sys;

create table jobforge.lease_claims with (autovacuum_vacuum_scale_factor=0.05);
alter table jobforge.lease_claims owner to jf_owner;
alter table jobforge.lease_claims add column lease_id uuid not null;
alter table jobforge.lease_claims add column claim_no bigint default nextval('jobforge.claim_numbers'::regclass) not null;
alter table jobforge.lease_claims add column tenant_ids uuid[] storage e not null;
alter table jobforge.lease_claims add column job_ids uuid[] storage e not null;
alter table jobforge.lease_claims add constraint lease_claims_pk PRIMARY KEY (lease_id, claim_no);
alter table jobforge.lease_claims enable, force row level security;
create policy sound on jobforge.lease_claims as restrictive for all to public with check ((cardinality(tenant_ids) = cardinality(job_ids)));
create policy sys_all on jobforge.lease_claims for all to jf_sys using (true) with check (true);
grant delete, insert, select, update on table jobforge.lease_claims to jf_sys;

create table jobforge.leases with (autovacuum_vacuum_scale_factor=0.05, fillfactor=50);
alter table jobforge.leases owner to jf_owner;
alter table jobforge.leases add column id uuid not null;
alter table jobforge.leases add column worker_no integer not null;
alter table jobforge.leases add column tenant_id uuid;
alter table jobforge.leases add column window_size integer not null;
alter table jobforge.leases add column ttl_seconds integer not null;
alter table jobforge.leases add column solo boolean default false not null;
alter table jobforge.leases add column created_at timestamp with time zone not null;
alter table jobforge.leases add column beat_at timestamp with time zone not null;
alter table jobforge.leases add column expires_at timestamp with time zone not null;
alter table jobforge.leases add constraint leases_pk PRIMARY KEY (id);
create index leases_expiry ON jobforge.leases USING btree (expires_at);
alter table jobforge.leases enable, force row level security;
create policy fn_read on jobforge.leases for select to jf_fn using (true);
create policy sound on jobforge.leases as restrictive for all to public with check ((((window_size >= 1) AND (window_size <= 100000)) AND ((ttl_seconds >= 1) AND (ttl_seconds <= 3600)) AND ((NOT solo) OR (window_size = 1))));
create policy sys_all on jobforge.leases for all to jf_sys using (true) with check (true);
grant delete, insert, select, update on table jobforge.leases to jf_sys;
grant select on table jobforge.leases to jf_fn;

create table jobforge.limit_buckets with (fillfactor=50);
alter table jobforge.limit_buckets owner to jf_owner;
alter table jobforge.limit_buckets add column kind text not null;
alter table jobforge.limit_buckets add column name text not null;
alter table jobforge.limit_buckets add column tokens double precision not null;
alter table jobforge.limit_buckets add column filled_at timestamp with time zone not null;
alter table jobforge.limit_buckets add constraint limit_buckets_kind_known CHECK ((kind = ANY (ARRAY['tenant'::text, 'definition'::text])));
alter table jobforge.limit_buckets add constraint limit_buckets_pk PRIMARY KEY (kind, name);
alter table jobforge.limit_buckets enable, force row level security;
create policy sys_all on jobforge.limit_buckets for all to jf_sys using (true) with check (true);
grant delete, insert, select, update on table jobforge.limit_buckets to jf_sys;

create table jobforge.limited_runs with (autovacuum_vacuum_scale_factor=0.05, fillfactor=50);
alter table jobforge.limited_runs owner to jf_owner;
alter table jobforge.limited_runs add column kind text not null;
alter table jobforge.limited_runs add column name text not null;
alter table jobforge.limited_runs add column tenant_id uuid not null;
alter table jobforge.limited_runs add column job_id uuid not null;
alter table jobforge.limited_runs add column lease_id uuid not null;
alter table jobforge.limited_runs add column fence integer not null;
alter table jobforge.limited_runs add constraint limited_runs_kind_known CHECK ((kind = ANY (ARRAY['tenant'::text, 'definition'::text, 'key'::text])));
alter table jobforge.limited_runs add constraint limited_runs_pk PRIMARY KEY (kind, name, tenant_id, job_id);
alter table jobforge.limited_runs enable, force row level security;
create policy sys_all on jobforge.limited_runs for all to jf_sys using (true) with check (true);
grant delete, insert, select, update on table jobforge.limited_runs to jf_sys;

create table jobforge.log_history partition by LIST (retention);
alter table jobforge.log_history owner to jf_owner;
alter table jobforge.log_history add column tenant_id uuid not null;
alter table jobforge.log_history add column job_id uuid not null;
alter table jobforge.log_history add column number integer not null;
alter table jobforge.log_history add column line_no integer not null;
alter table jobforge.log_history add column at timestamp with time zone not null;
alter table jobforge.log_history add column level text not null;
alter table jobforge.log_history add column message text not null;
alter table jobforge.log_history add column retention text not null;
alter table jobforge.log_history add column job_finished_at timestamp with time zone not null;
alter table jobforge.log_history add constraint job_logs_level_known CHECK ((level = ANY (ARRAY['debug'::text, 'info'::text, 'warn'::text, 'error'::text])));
alter table jobforge.log_history add constraint log_history_pk PRIMARY KEY (tenant_id, job_id, number, line_no, job_finished_at, retention);
alter table jobforge.log_history enable, force row level security;
create policy login_bound on jobforge.log_history as restrictive for all to jf_fn, jf_operator, jf_tenant using (( SELECT (EXISTS ( SELECT FROM jobforge.logins l WHERE ((l.role_name = (SESSION_USER)::text) AND ((l.tenant_id IS NULL) OR (l.tenant_id = (NULLIF(current_setting('app.tenant_id'::text, true), ''::text))::uuid))))) AS "exists"));
create policy sys_all on jobforge.log_history for all to jf_sys using (true) with check (true);
create policy tenant_reads on jobforge.log_history for select to jf_operator, jf_tenant using ((tenant_id = ( SELECT (NULLIF(current_setting('app.tenant_id'::text, true), ''::text))::uuid AS "nullif")));
create policy tenant_rows on jobforge.log_history for all to jf_fn using ((tenant_id = ( SELECT (NULLIF(current_setting('app.tenant_id'::text, true), ''::text))::uuid AS "nullif"))) with check ((tenant_id = ( SELECT (NULLIF(current_setting('app.tenant_id'::text, true), ''::text))::uuid AS "nullif")));
grant delete, insert, select, update on table jobforge.log_history to jf_fn;
grant delete, insert, select, update on table jobforge.log_history to jf_sys;
grant select on table jobforge.log_history to jf_operator;
grant select on table jobforge.log_history to jf_tenant;

create table jobforge.log_history_day partition of jobforge.log_history FOR VALUES IN ('day') partition by RANGE (job_finished_at);
alter table jobforge.log_history_day owner to jf_owner;
alter table jobforge.log_history_day enable, force row level security;

create table jobforge.log_history_day_default partition of jobforge.log_history_day DEFAULT;
alter table jobforge.log_history_day_default owner to jf_owner;
alter table jobforge.log_history_day_default enable, force row level security;

create table jobforge.log_history_month partition of jobforge.log_history FOR VALUES IN ('month') partition by RANGE (job_finished_at);
alter table jobforge.log_history_month owner to jf_owner;
alter table jobforge.log_history_month enable, force row level security;

create table jobforge.log_history_month_default partition of jobforge.log_history_month DEFAULT;
alter table jobforge.log_history_month_default owner to jf_owner;
alter table jobforge.log_history_month_default enable, force row level security;

create table jobforge.log_history_week partition of jobforge.log_history FOR VALUES IN ('week') partition by RANGE (job_finished_at);
alter table jobforge.log_history_week owner to jf_owner;
alter table jobforge.log_history_week enable, force row level security;

create table jobforge.log_history_week_default partition of jobforge.log_history_week DEFAULT;
alter table jobforge.log_history_week_default owner to jf_owner;
alter table jobforge.log_history_week_default enable, force row level security;

create table jobforge.log_history_year partition of jobforge.log_history FOR VALUES IN ('year') partition by RANGE (job_finished_at);
alter table jobforge.log_history_year owner to jf_owner;
alter table jobforge.log_history_year enable, force row level security;

create table jobforge.log_history_year_default partition of jobforge.log_history_year DEFAULT;
alter table jobforge.log_history_year_default owner to jf_owner;
alter table jobforge.log_history_year_default enable, force row level security;

create table jobforge.logins;
alter table jobforge.logins owner to jf_owner;
alter table jobforge.logins add column role_name text collate "C" not null;
alter table jobforge.logins add column tenant_id uuid;
alter table jobforge.logins add column created_at timestamp with time zone default clock_timestamp() not null;
alter table jobforge.logins add constraint logins_pk PRIMARY KEY (role_name);
alter table jobforge.logins enable, force row level security;
create policy fn_read on jobforge.logins for select to jf_fn using (true);
create policy own_login on jobforge.logins for select to jf_operator, jf_tenant using ((role_name = (SESSION_USER)::text));
create policy sys_all on jobforge.logins for all to jf_sys using (true) with check (true);
grant delete, insert, select, update on table jobforge.logins to jf_sys;
grant select on table jobforge.logins to jf_fn;
grant select on table jobforge.logins to jf_operator;
grant select on table jobforge.logins to jf_tenant;

create table jobforge.pauses;
alter table jobforge.pauses owner to jf_owner;
alter table jobforge.pauses add column kind text not null;
alter table jobforge.pauses add column name text not null;
alter table jobforge.pauses add column reason text not null;
alter table jobforge.pauses add column author text not null;
alter table jobforge.pauses add column paused_at timestamp with time zone not null;
alter table jobforge.pauses add column until timestamp with time zone;
alter table jobforge.pauses add constraint pauses_author_length CHECK (((length(author) >= 1) AND (length(author) <= 255)));
alter table jobforge.pauses add constraint pauses_end_later CHECK ((until > paused_at));
alter table jobforge.pauses add constraint pauses_kind_known CHECK ((kind = ANY (ARRAY['queue'::text, 'tenant'::text, 'definition'::text])));
alter table jobforge.pauses add constraint pauses_pk PRIMARY KEY (kind, name);
alter table jobforge.pauses add constraint pauses_reason_length CHECK ((length(reason) <= 500));
alter table jobforge.pauses enable, force row level security;
create policy sys_all on jobforge.pauses for all to jf_sys using (true) with check (true);
grant delete, insert, select, update on table jobforge.pauses to jf_sys;

create table jobforge.pending_counts with (fillfactor=50);
alter table jobforge.pending_counts owner to jf_owner;
alter table jobforge.pending_counts add column tenant_id uuid not null;
alter table jobforge.pending_counts add column pending bigint not null;
alter table jobforge.pending_counts add column counted_at timestamp with time zone not null;
alter table jobforge.pending_counts add constraint pending_counts_pk PRIMARY KEY (tenant_id);
alter table jobforge.pending_counts enable, force row level security;
create policy sys_all on jobforge.pending_counts for all to jf_sys using (true) with check (true);
grant delete, insert, select, update on table jobforge.pending_counts to jf_sys;

create table jobforge.queue_stats;
alter table jobforge.queue_stats owner to jf_owner;
alter table jobforge.queue_stats add column at timestamp with time zone not null;
alter table jobforge.queue_stats add column queue text not null;
alter table jobforge.queue_stats add column queued bigint not null;
alter table jobforge.queue_stats add column ready bigint not null;
alter table jobforge.queue_stats add column running bigint not null;
alter table jobforge.queue_stats add column dead bigint not null;
alter table jobforge.queue_stats add column estimated boolean not null;
alter table jobforge.queue_stats add column enqueued bigint default 0 not null;
alter table jobforge.queue_stats add column completed bigint default 0 not null;
alter table jobforge.queue_stats add column failed bigint default 0 not null;
alter table jobforge.queue_stats add column canceled bigint default 0 not null;
alter table jobforge.queue_stats add column seconds double precision default 0 not null;
alter table jobforge.queue_stats add column oldest_seconds double precision;
alter table jobforge.queue_stats add constraint queue_stats_pk PRIMARY KEY (queue, at);
create index queue_stats_age ON jobforge.queue_stats USING btree (at);
alter table jobforge.queue_stats enable, force row level security;
create policy sys_all on jobforge.queue_stats for all to jf_sys using (true) with check (true);
grant delete, insert, select, update on table jobforge.queue_stats to jf_sys;

create table jobforge.sampler with (fillfactor=10);
alter table jobforge.sampler owner to jf_owner;
alter table jobforge.sampler add column one boolean default true not null;
alter table jobforge.sampler add column began_at timestamp with time zone;
alter table jobforge.sampler add column until timestamp with time zone;
alter table jobforge.sampler add column sampled_at timestamp with time zone;
alter table jobforge.sampler add constraint sampler_one CHECK (one);
alter table jobforge.sampler add constraint sampler_pk PRIMARY KEY (one);
alter table jobforge.sampler enable, force row level security;
create policy sys_all on jobforge.sampler for all to jf_sys using (true) with check (true);
grant delete, insert, select, update on table jobforge.sampler to jf_sys;

create table jobforge.schema_functions;
alter table jobforge.schema_functions owner to jf_owner;
alter table jobforge.schema_functions add column name text not null;
alter table jobforge.schema_functions add column sha256 text not null;
alter table jobforge.schema_functions add column applied_at timestamp with time zone default clock_timestamp() not null;
alter table jobforge.schema_functions add constraint schema_functions_pk PRIMARY KEY (name);
alter table jobforge.schema_functions enable, force row level security;
create policy all_read on jobforge.schema_functions for select to jf_operator, jf_sys using (true);
create policy owner_all on jobforge.schema_functions for all to jf_owner using (true) with check (true);
grant select on table jobforge.schema_functions to jf_operator;
grant select on table jobforge.schema_functions to jf_sys;

create table jobforge.schema_migrations;
alter table jobforge.schema_migrations owner to jf_owner;
alter table jobforge.schema_migrations add column version integer not null;
alter table jobforge.schema_migrations add column name text not null;
alter table jobforge.schema_migrations add column sha256 text not null;
alter table jobforge.schema_migrations add column applied_at timestamp with time zone default clock_timestamp() not null;
alter table jobforge.schema_migrations add column took_ms integer not null;
alter table jobforge.schema_migrations add constraint schema_migrations_pk PRIMARY KEY (version);
alter table jobforge.schema_migrations enable, force row level security;
create policy all_read on jobforge.schema_migrations for select to jf_operator, jf_sys using (true);
create policy owner_all on jobforge.schema_migrations for all to jf_owner using (true) with check (true);
grant select on table jobforge.schema_migrations to jf_operator;
grant select on table jobforge.schema_migrations to jf_sys;

create table jobforge.sentinel with (fillfactor=10);
alter table jobforge.sentinel owner to jf_owner;
alter table jobforge.sentinel add column one boolean default true not null;
alter table jobforge.sentinel add column holder text not null;
alter table jobforge.sentinel add column expires_at timestamp with time zone not null;
alter table jobforge.sentinel add constraint sentinel_one CHECK (one);
alter table jobforge.sentinel add constraint sentinel_pk PRIMARY KEY (one);
alter table jobforge.sentinel enable, force row level security;
create policy sys_all on jobforge.sentinel for all to jf_sys using (true) with check (true);
grant delete, insert, select, update on table jobforge.sentinel to jf_sys;

create table jobforge.sessions;
alter table jobforge.sessions owner to jf_owner;
alter table jobforge.sessions add column id_sha256 bytea not null;
alter table jobforge.sessions add column key_id text collate "C" not null;
alter table jobforge.sessions add column created_at timestamp with time zone not null;
alter table jobforge.sessions add column expires_at timestamp with time zone not null;
alter table jobforge.sessions add constraint sessions_expiry_later CHECK ((expires_at > created_at));
alter table jobforge.sessions add constraint sessions_hash_size CHECK ((octet_length(id_sha256) = 32));
alter table jobforge.sessions add constraint sessions_key_form CHECK ((key_id ~ '^[a-z0-9]{12}$'::text));
alter table jobforge.sessions add constraint sessions_pk PRIMARY KEY (id_sha256);
create index sessions_end ON jobforge.sessions USING btree (expires_at);
create index sessions_key ON jobforge.sessions USING btree (key_id, created_at);
alter table jobforge.sessions enable, force row level security;
create policy sys_all on jobforge.sessions for all to jf_sys using (true) with check (true);
grant delete, insert, select, update on table jobforge.sessions to jf_sys;

create table jobforge.sleepers with (fillfactor=50);
alter table jobforge.sleepers owner to jf_owner;
alter table jobforge.sleepers add column worker_id text not null;
alter table jobforge.sleepers add column queues text[] not null;
alter table jobforge.sleepers add column types text[] not null;
alter table jobforge.sleepers add column expires_at timestamp with time zone not null;
alter table jobforge.sleepers add constraint sleepers_pk PRIMARY KEY (worker_id);
alter table jobforge.sleepers enable, force row level security;
create policy fn_read on jobforge.sleepers for select to jf_fn using (true);
create policy sys_all on jobforge.sleepers for all to jf_sys using (true) with check (true);
grant delete, insert, select, update on table jobforge.sleepers to jf_sys;
grant select on table jobforge.sleepers to jf_fn;

create table jobforge.sweeps with (fillfactor=50);
alter table jobforge.sweeps owner to jf_owner;
alter table jobforge.sweeps add column queue text not null;
alter table jobforge.sweeps add column lanes text not null;
alter table jobforge.sweeps add column swept_at timestamp with time zone not null;
alter table jobforge.sweeps add column full_at timestamp with time zone not null;
alter table jobforge.sweeps add column low timestamp with time zone not null;
alter table jobforge.sweeps add column mark_at timestamp with time zone not null;
alter table jobforge.sweeps add column mark_xid xid8 not null;
alter table jobforge.sweeps add column marks jsonb;
alter table jobforge.sweeps add column low_before timestamp with time zone;
alter table jobforge.sweeps add column late boolean default false not null;
alter table jobforge.sweeps add column late_since timestamp with time zone;
alter table jobforge.sweeps add constraint sweeps_marks_are_an_array CHECK ((jsonb_typeof(marks) = 'array'::text));
alter table jobforge.sweeps add constraint sweeps_pk PRIMARY KEY (queue, lanes);
alter table jobforge.sweeps enable, force row level security;
create policy sys_all on jobforge.sweeps for all to jf_sys using (true) with check (true);
grant delete, insert, select, update on table jobforge.sweeps to jf_sys;

create table jobforge.tenant_stats with (fillfactor=70);
alter table jobforge.tenant_stats owner to jf_owner;
alter table jobforge.tenant_stats add column tenant_id uuid not null;
alter table jobforge.tenant_stats add column at timestamp with time zone not null;
alter table jobforge.tenant_stats add column queued bigint not null;
alter table jobforge.tenant_stats add column ready bigint not null;
alter table jobforge.tenant_stats add column running bigint not null;
alter table jobforge.tenant_stats add column dead bigint not null;
alter table jobforge.tenant_stats add column enqueued bigint not null;
alter table jobforge.tenant_stats add column completed bigint not null;
alter table jobforge.tenant_stats add column failed bigint not null;
alter table jobforge.tenant_stats add column canceled bigint not null;
alter table jobforge.tenant_stats add column seconds double precision not null;
alter table jobforge.tenant_stats add column oldest_seconds double precision;
alter table jobforge.tenant_stats add column estimated boolean not null;
alter table jobforge.tenant_stats add constraint tenant_stats_pk PRIMARY KEY (tenant_id, at);
create index tenant_stats_age ON jobforge.tenant_stats USING btree (at);
alter table jobforge.tenant_stats enable, force row level security;
create policy login_bound on jobforge.tenant_stats as restrictive for all to jf_fn, jf_operator, jf_tenant using (( SELECT (EXISTS ( SELECT FROM jobforge.logins l WHERE ((l.role_name = (SESSION_USER)::text) AND ((l.tenant_id IS NULL) OR (l.tenant_id = (NULLIF(current_setting('app.tenant_id'::text, true), ''::text))::uuid))))) AS "exists"));
create policy sys_all on jobforge.tenant_stats for all to jf_sys using (true) with check (true);
create policy tenant_reads on jobforge.tenant_stats for select to jf_operator, jf_tenant using ((tenant_id = ( SELECT (NULLIF(current_setting('app.tenant_id'::text, true), ''::text))::uuid AS "nullif")));
create policy tenant_rows on jobforge.tenant_stats for all to jf_fn using ((tenant_id = ( SELECT (NULLIF(current_setting('app.tenant_id'::text, true), ''::text))::uuid AS "nullif"))) with check ((tenant_id = ( SELECT (NULLIF(current_setting('app.tenant_id'::text, true), ''::text))::uuid AS "nullif")));
grant delete, insert, select, update on table jobforge.tenant_stats to jf_fn;
grant delete, insert, select, update on table jobforge.tenant_stats to jf_sys;
grant select on table jobforge.tenant_stats to jf_operator;
grant select on table jobforge.tenant_stats to jf_tenant;

create table jobforge.tenants;
alter table jobforge.tenants owner to jf_owner;
alter table jobforge.tenants add column id uuid not null;
alter table jobforge.tenants add column name text not null;
alter table jobforge.tenants add column created_at timestamp with time zone default clock_timestamp() not null;
alter table jobforge.tenants add column weight smallint default 1 not null;
alter table jobforge.tenants add column max_pending integer;
alter table jobforge.tenants add column max_in_flight integer;
alter table jobforge.tenants add column rate_per_second double precision;
alter table jobforge.tenants add column rate_burst integer;
alter table jobforge.tenants add column limited_since xid8;
alter table jobforge.tenants add column retention text;
alter table jobforge.tenants add column time_zone text default 'UTC'::text not null;
alter table jobforge.tenants add constraint tenants_burst_range CHECK (((rate_burst IS NULL) OR (((rate_burst >= 1) AND (rate_burst <= 1000000)) AND (rate_per_second IS NOT NULL))));
alter table jobforge.tenants add constraint tenants_in_flight_range CHECK (((max_in_flight >= 1) AND (max_in_flight <= 1000000)));
alter table jobforge.tenants add constraint tenants_name_length CHECK (((length(name) >= 1) AND (length(name) <= 200)));
alter table jobforge.tenants add constraint tenants_pending_range CHECK (((max_pending >= 1) AND (max_pending <= 100000000)));
alter table jobforge.tenants add constraint tenants_pk PRIMARY KEY (id);
alter table jobforge.tenants add constraint tenants_rate_range CHECK (((rate_per_second >= (0.0001)::double precision) AND (rate_per_second <= (1000000)::double precision)));
alter table jobforge.tenants add constraint tenants_retention_known CHECK ((retention = ANY (ARRAY['day'::text, 'week'::text, 'month'::text, 'year'::text])));
alter table jobforge.tenants add constraint tenants_time_zone_form CHECK (((time_zone ~ '^[A-Z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+)*$'::text) AND (length(time_zone) <= 64)));
alter table jobforge.tenants add constraint tenants_weight_range CHECK (((weight >= 1) AND (weight <= 100)));
create index tenants_limited ON jobforge.tenants USING btree (id) WHERE ((max_in_flight IS NOT NULL) OR (rate_per_second IS NOT NULL));
create index tenants_weighted ON jobforge.tenants USING btree (id) WHERE (weight <> 1);
alter table jobforge.tenants enable, force row level security;
create policy fn_read on jobforge.tenants for select to jf_fn using (true);
create policy sys_all on jobforge.tenants for all to jf_sys using (true) with check (true);
grant delete, insert, select, update on table jobforge.tenants to jf_sys;
grant select on table jobforge.tenants to jf_fn;

create unlogged table jobforge.turn_candidates;
alter table jobforge.turn_candidates owner to jf_owner;
alter table jobforge.turn_candidates add column queue text not null;
alter table jobforge.turn_candidates add column type text not null;
alter table jobforge.turn_candidates add column tenant_id uuid not null;
alter table jobforge.turn_candidates add constraint turn_candidates_pk PRIMARY KEY (queue, type, tenant_id);
alter table jobforge.turn_candidates enable, force row level security;
create policy sys_all on jobforge.turn_candidates for all to jf_sys using (true) with check (true);
grant delete, insert, select, update on table jobforge.turn_candidates to jf_sys;

create unlogged table jobforge.turn_refreshes with (fillfactor=50);
alter table jobforge.turn_refreshes owner to jf_owner;
alter table jobforge.turn_refreshes add column queue text not null;
alter table jobforge.turn_refreshes add column type text not null;
alter table jobforge.turn_refreshes add column refreshed_at timestamp with time zone not null;
alter table jobforge.turn_refreshes add constraint turn_refreshes_pk PRIMARY KEY (queue, type);
alter table jobforge.turn_refreshes enable, force row level security;
create policy sys_all on jobforge.turn_refreshes for all to jf_sys using (true) with check (true);
grant delete, insert, select, update on table jobforge.turn_refreshes to jf_sys;

create table jobforge.workers;
alter table jobforge.workers owner to jf_owner;
alter table jobforge.workers add column no integer generated always as identity not null;
alter table jobforge.workers add column worker_id text not null;
alter table jobforge.workers add column host text default ''::text not null;
alter table jobforge.workers add column pid integer;
alter table jobforge.workers add column version text default ''::text not null;
alter table jobforge.workers add column queues text[] default '{}'::text[] not null;
alter table jobforge.workers add column types text[] default '{}'::text[] not null;
alter table jobforge.workers add column slots integer default 1 not null;
alter table jobforge.workers add column running integer default 0 not null;
alter table jobforge.workers add column metadata jsonb default '{}'::jsonb not null;
alter table jobforge.workers add column started_at timestamp with time zone not null;
alter table jobforge.workers add column last_seen timestamp with time zone not null;
alter table jobforge.workers add column stopped_at timestamp with time zone;
alter table jobforge.workers add constraint workers_pk PRIMARY KEY (no);
alter table jobforge.workers add constraint workers_slots_range CHECK (((slots >= 1) AND (slots <= 100000)));
alter table jobforge.workers add constraint workers_worker_id_length CHECK (((length(worker_id) >= 1) AND (length(worker_id) <= 200)));
alter table jobforge.workers add constraint workers_worker_id_unique UNIQUE (worker_id);
alter table jobforge.workers enable, force row level security;
create policy fn_read on jobforge.workers for select to jf_fn using (true);
create policy sys_all on jobforge.workers for all to jf_sys using (true) with check (true);
grant delete, insert, select, update on table jobforge.workers to jf_sys;
grant select on table jobforge.workers to jf_fn;

create function jobforge.admit(INOUT p_rooms jsonb, p_tenant_id uuid, p_type text, p_key text, p_now timestamp with time zone, OUT hindrance text) returns record language plpgsql volatile;
alter function jobforge.admit(jsonb, uuid, text, text, timestamp with time zone) owner to jf_sys;

create function jobforge.announce_artifact(p_tenant_id uuid, p_ref text) returns void language plpgsql volatile security definer set enable_seqscan=off set jit=off set search_path=pg_catalog, pg_temp;
alter function jobforge.announce_artifact(uuid, text) owner to jf_fn;
grant execute on function jobforge.announce_artifact(uuid, text) to jf_operator;
grant execute on function jobforge.announce_artifact(uuid, text) to jf_tenant;

create function jobforge.apart_ahead(p_tenant_id uuid, p_job_id uuid, p_most integer) returns bigint language plpgsql stable security definer set enable_bitmapscan=off set enable_seqscan=off set jit=off set search_path=pg_catalog, pg_temp;
alter function jobforge.apart_ahead(uuid, uuid, integer) owner to jf_sys;
grant execute on function jobforge.apart_ahead(uuid, uuid, integer) to jf_fn;

create function jobforge.append_log(p_lease_id uuid, p_tenant_id uuid, p_job_id uuid, p_fence integer, p_levels text[], p_messages text[]) returns integer language plpgsql volatile security definer set enable_seqscan=off set jit=off set lock_timeout=100ms set search_path=pg_catalog, pg_temp;
alter function jobforge.append_log(uuid, uuid, uuid, integer, text[], text[]) owner to jf_sys;
grant execute on function jobforge.append_log(uuid, uuid, uuid, integer, text[], text[]) to jf_worker;

create function jobforge.apply_end(p_tenant_id uuid, p_job_id uuid, p_outcome text, p_error text, p_retry_after_ms bigint, p_now timestamp with time zone, OUT status text, OUT run_at timestamp with time zone) returns record language plpgsql volatile;
alter function jobforge.apply_end(uuid, uuid, text, text, bigint, timestamp with time zone) owner to jf_sys;

create function jobforge.apply_patch(p_document jsonb, p_patch jsonb, p_hidden text[] DEFAULT NULL::text[], OUT document jsonb, OUT problem text) returns record language plpgsql immutable;
alter function jobforge.apply_patch(jsonb, jsonb, text[]) owner to jf_fn;

create function jobforge.artifact_payload(p_ref text, p_bytes bigint) returns jsonb language sql immutable;
alter function jobforge.artifact_payload(text, bigint) owner to jf_sys;
grant execute on function jobforge.artifact_payload(text, bigint) to jf_fn;

create function jobforge.as_claimed(p_job jobforge.jobs, p_place tid, p_lease_id uuid, p_expires_at timestamp with time zone, p_solo boolean, p_claim_no bigint, p_limited boolean, p_timeout integer) returns jobforge.claimed language sql immutable;
alter function jobforge.as_claimed(jobforge.jobs, tid, uuid, timestamp with time zone, boolean, bigint, boolean, integer) owner to jf_sys;

create function jobforge.attach_artifact(p_tenant_id uuid, p_job_id uuid, p_ref text, p_bytes bigint) returns void language plpgsql volatile security definer set enable_seqscan=off set jit=off set search_path=pg_catalog, pg_temp;
alter function jobforge.attach_artifact(uuid, uuid, text, bigint) owner to jf_fn;
grant execute on function jobforge.attach_artifact(uuid, uuid, text, bigint) to jf_operator;
grant execute on function jobforge.attach_artifact(uuid, uuid, text, bigint) to jf_tenant;

create function jobforge.audit(p_tenant_id uuid, p_action text, p_subject_kind text, p_subject_id text, p_detail jsonb, p_now timestamp with time zone, p_job_id uuid DEFAULT NULL::uuid) returns void language sql volatile;
alter function jobforge.audit(uuid, text, text, text, jsonb, timestamp with time zone, uuid) owner to jf_fn;
grant execute on function jobforge.audit(uuid, text, text, text, jsonb, timestamp with time zone, uuid) to jf_sys;

create function jobforge.audit_bulk(p_operation jobforge.bulk_operations, p_action text, p_now timestamp with time zone) returns void language sql volatile;
alter function jobforge.audit_bulk(jobforge.bulk_operations, text, timestamp with time zone) owner to jf_fn;

create function jobforge.audit_key(p_action text, p_id text, p_tenant_id uuid, p_author text, p_detail jsonb, p_now timestamp with time zone) returns void language sql volatile;
alter function jobforge.audit_key(text, text, uuid, text, jsonb, timestamp with time zone) owner to jf_sys;

create function jobforge.audit_page(p_tenant_id uuid, p_subject_kind text, p_subject_id text, p_actor text, p_after timestamp with time zone, p_before timestamp with time zone, p_limit integer, p_cursor text) returns TABLE(tenant_id uuid, id uuid, at timestamp with time zone, actor text, credential text, request_id text, action text, subject_kind text, subject_id text, job_id uuid, detail jsonb, next_cursor text, complete boolean) language plpgsql stable;
alter function jobforge.audit_page(uuid, text, text, text, timestamp with time zone, timestamp with time zone, integer, text) owner to jf_fn;
grant execute on function jobforge.audit_page(uuid, text, text, text, timestamp with time zone, timestamp with time zone, integer, text) to jf_sys;

create function jobforge.bind_login(p_role text, p_tenant_id uuid DEFAULT NULL::uuid) returns text language plpgsql volatile security definer set search_path=pg_catalog, pg_temp;
alter function jobforge.bind_login(text, uuid) owner to jf_sys;
grant execute on function jobforge.bind_login(text, uuid) to jf_operator;

create function jobforge.burst(p_rate double precision, p_burst integer) returns double precision language sql immutable;
alter function jobforge.burst(double precision, integer) owner to jf_sys;
grant execute on function jobforge.burst(double precision, integer) to jf_fn;

create function jobforge.bury(p_lease jobforge.leases, p_tenant_ids uuid[], p_job_ids uuid[], p_now timestamp with time zone) returns void language plpgsql volatile;
alter function jobforge.bury(jobforge.leases, uuid[], uuid[], timestamp with time zone) owner to jf_sys;

create function jobforge.cancel_held(p_job jobforge.jobs, p_reason text, p_now timestamp with time zone) returns text language plpgsql volatile;
alter function jobforge.cancel_held(jobforge.jobs, text, timestamp with time zone) owner to jf_fn;

create function jobforge.cancel_job(p_tenant_id uuid, p_job_id uuid, p_reason text DEFAULT NULL::text) returns TABLE(id uuid, status text, cancel_requested boolean) language plpgsql volatile security definer set enable_seqscan=off set jit=off set search_path=pg_catalog, pg_temp;
alter function jobforge.cancel_job(uuid, uuid, text) owner to jf_fn;
grant execute on function jobforge.cancel_job(uuid, uuid, text) to jf_operator;
grant execute on function jobforge.cancel_job(uuid, uuid, text) to jf_tenant;

create function jobforge.cancel_rows(p_operation jobforge.bulk_operations, p_statuses text[], p_job_ids uuid[], p_now timestamp with time zone) returns TABLE(id uuid, verdict text) language plpgsql volatile;
alter function jobforge.cancel_rows(jobforge.bulk_operations, text[], uuid[], timestamp with time zone) owner to jf_fn;

create function jobforge.canonical(p_value jsonb) returns text language plpgsql immutable;
alter function jobforge.canonical(jsonb) owner to jf_fn;
grant execute on function jobforge.canonical(jsonb) to jf_operator;
grant execute on function jobforge.canonical(jsonb) to jf_tenant;

create function jobforge.charge(p_lease_id uuid, p_tenant_ids uuid[], p_job_ids uuid[], p_now timestamp with time zone, OUT retry_at timestamp with time zone) returns timestamp with time zone language plpgsql volatile;
alter function jobforge.charge(uuid, uuid[], uuid[], timestamp with time zone) owner to jf_sys;

create function jobforge.check_jobs(p_now timestamp with time zone, p_operator boolean, p_types text[], p_payloads jsonb[], p_queues text[], p_priorities integer[], p_run_ats timestamp with time zone[], p_idempotency_keys text[], p_dedupe_keys text[], p_ids uuid[], p_max_attempts integer[], p_correlation_ids text[], p_traceparents text[], p_tags jsonb[], p_sources text[], p_source_refs text[], p_concurrency_keys text[], p_room integer, p_retention text) returns TABLE(at integer, type text, payload jsonb, queue text, priority integer, run_at timestamp with time zone, idempotency_key text, dedupe_key text, given_id uuid, max_attempts integer, correlation_id text, traceparent text, tags jsonb, source text, source_ref text, concurrency_key text, retention text, problem text) language sql stable;
alter function jobforge.check_jobs(timestamp with time zone, boolean, text[], jsonb[], text[], integer[], timestamp with time zone[], text[], text[], uuid[], integer[], text[], text[], jsonb[], text[], text[], text[], integer, text) owner to jf_fn;
grant execute on function jobforge.check_jobs(timestamp with time zone, boolean, text[], jsonb[], text[], integer[], timestamp with time zone[], text[], text[], uuid[], integer[], text[], text[], jsonb[], text[], text[], text[], integer, text) to jf_sys;

create function jobforge.claim_jobs(p_worker_id text, p_queues text[], p_types text[], p_limit integer DEFAULT 1, p_lease_id uuid DEFAULT NULL::uuid, p_lease_seconds integer DEFAULT 30, p_window integer DEFAULT NULL::integer, p_cursor jsonb DEFAULT NULL::jsonb, p_new_lease_id uuid DEFAULT NULL::uuid, p_free integer DEFAULT NULL::integer, p_quick boolean DEFAULT false) returns SETOF jobforge.claimed language plpgsql volatile security definer set enable_bitmapscan=off set enable_hashjoin=off set enable_mergejoin=off set enable_seqscan=off set jit=off set plan_cache_mode=force_generic_plan set search_path=pg_catalog, pg_temp;
alter function jobforge.claim_jobs(text, text[], text[], integer, uuid, integer, integer, jsonb, uuid, integer, boolean) owner to jf_sys;
grant execute on function jobforge.claim_jobs(text, text[], text[], integer, uuid, integer, integer, jsonb, uuid, integer, boolean) to jf_worker;

create function jobforge.claimed_tenant(p_claims text) returns uuid language plpgsql immutable;
alter function jobforge.claimed_tenant(text) owner to jf_fn;

create function jobforge.clock() returns timestamp with time zone language sql volatile;
alter function jobforge.clock() owner to jf_sys;
grant execute on function jobforge.clock() to jf_fn;
grant execute on function jobforge.clock() to jf_operator;
grant execute on function jobforge.clock() to jf_owner;
grant execute on function jobforge.clock() to jf_tenant;
grant execute on function jobforge.clock() to jf_worker;

create function jobforge.close_redrive(p_tenant_id uuid, p_operation_id uuid, p_now timestamp with time zone) returns void language plpgsql volatile;
alter function jobforge.close_redrive(uuid, uuid, timestamp with time zone) owner to jf_fn;

create function jobforge.collect_artifacts(p_term bigint, p_limit integer DEFAULT 100) returns TABLE(tenant_id uuid, ref text, doomed_at timestamp with time zone) language plpgsql volatile security definer set enable_bitmapscan=off set enable_seqscan=off set enable_sort=off set jit=off set search_path=pg_catalog, pg_temp;
alter function jobforge.collect_artifacts(bigint, integer) owner to jf_sys;
grant execute on function jobforge.collect_artifacts(bigint, integer) to jf_operator;

create function jobforge.complete_job(p_lease_id uuid, p_tenant_id uuid, p_job_id uuid, p_fence integer, p_result jsonb DEFAULT NULL::jsonb) returns text language plpgsql volatile security definer set search_path=pg_catalog, pg_temp;
alter function jobforge.complete_job(uuid, uuid, uuid, integer, jsonb) owner to jf_sys;
grant execute on function jobforge.complete_job(uuid, uuid, uuid, integer, jsonb) to jf_worker;

create function jobforge.complete_jobs(p_lease_id uuid, p_tenant_ids uuid[], p_job_ids uuid[], p_fences integer[], p_results jsonb[] DEFAULT NULL::jsonb[], p_locators tid[] DEFAULT NULL::tid[]) returns TABLE(at integer, verdict text) language plpgsql volatile security definer set enable_bitmapscan=off set enable_hashjoin=off set enable_mergejoin=off set enable_seqscan=off set jit=off set plan_cache_mode=force_generic_plan set search_path=pg_catalog, pg_temp;
alter function jobforge.complete_jobs(uuid, uuid[], uuid[], integer[], jsonb[], tid[]) owner to jf_sys;
grant execute on function jobforge.complete_jobs(uuid, uuid[], uuid[], integer[], jsonb[], tid[]) to jf_worker;

create function jobforge.concerned(p_gate jobforge.claim_gate, p_tenants uuid[]) returns TABLE(tenant_id uuid, limited boolean, at integer) language sql volatile;
alter function jobforge.concerned(jobforge.claim_gate, uuid[]) owner to jf_sys;

create function jobforge.confirm_artifacts(p_term bigint, p_tenant_ids uuid[], p_refs text[], p_doomed_at timestamp with time zone) returns integer language plpgsql volatile security definer set enable_hashjoin=off set enable_mergejoin=off set enable_seqscan=off set jit=off set search_path=pg_catalog, pg_temp;
alter function jobforge.confirm_artifacts(bigint, uuid[], text[], timestamp with time zone) owner to jf_sys;
grant execute on function jobforge.confirm_artifacts(bigint, uuid[], text[], timestamp with time zone) to jf_operator;

create function jobforge.count_finished(p_limit integer, p_since timestamp with time zone, p_until timestamp with time zone, p_now timestamp with time zone) returns TABLE(queue text, tenant_id uuid, enqueued bigint, completed bigint, canceled bigint, estimated boolean, leaf oid, block bigint) language plpgsql stable set enable_seqscan=off set jit=off set plan_cache_mode=force_custom_plan;
alter function jobforge.count_finished(integer, timestamp with time zone, timestamp with time zone, timestamp with time zone) owner to jf_sys;

create function jobforge.count_flow(p_lease_id uuid, p_tenant_id uuid, p_job_id uuid, p_fence integer, p_group_by text, p_from timestamp with time zone DEFAULT NULL::timestamp with time zone, p_to timestamp with time zone DEFAULT NULL::timestamp with time zone) returns TABLE(key text, enqueued bigint, succeeded bigint, failed bigint, canceled bigint, estimated boolean, at timestamp with time zone, from_at timestamp with time zone, to_at timestamp with time zone, complete boolean) language plpgsql volatile security definer set enable_seqscan=off set jit=off set search_path=pg_catalog, pg_temp;
alter function jobforge.count_flow(uuid, uuid, uuid, integer, text, timestamp with time zone, timestamp with time zone) owner to jf_sys;
grant execute on function jobforge.count_flow(uuid, uuid, uuid, integer, text, timestamp with time zone, timestamp with time zone) to jf_worker;

create function jobforge.count_jobs(p_lease_id uuid, p_tenant_id uuid, p_job_id uuid, p_fence integer, p_group_by text, p_from timestamp with time zone DEFAULT NULL::timestamp with time zone, p_to timestamp with time zone DEFAULT NULL::timestamp with time zone, p_limit integer DEFAULT 100000, p_budget_ms integer DEFAULT 2000) returns TABLE(key text, jobs bigint, waiting bigint, running bigint, succeeded bigint, failed bigint, dead bigint, canceled bigint, mean_seconds double precision, at timestamp with time zone, from_at timestamp with time zone, to_at timestamp with time zone, complete boolean) language plpgsql volatile security definer set enable_bitmapscan=off set enable_seqscan=off set enable_sort=off set jit=off set search_path=pg_catalog, pg_temp;
alter function jobforge.count_jobs(uuid, uuid, uuid, integer, text, timestamp with time zone, timestamp with time zone, integer, integer) owner to jf_sys;
grant execute on function jobforge.count_jobs(uuid, uuid, uuid, integer, text, timestamp with time zone, timestamp with time zone, integer, integer) to jf_worker;

create function jobforge.count_live(p_limit integer, p_since timestamp with time zone, p_until timestamp with time zone) returns TABLE(queue text, tenant_id uuid, queued bigint, ready bigint, running bigint, dead bigint, enqueued bigint, failed bigint, oldest_ready timestamp with time zone, estimated boolean) language plpgsql stable;
alter function jobforge.count_live(integer, timestamp with time zone, timestamp with time zone) owner to jf_sys;

create function jobforge.count_next_jobs(p_tenant_id uuid, p_before uuid, p_first uuid, p_group_by text, p_groups jobforge.job_count[], OUT groups jobforge.job_count[], OUT seen integer, OUT last uuid) returns record language sql stable;
alter function jobforge.count_next_jobs(uuid, uuid, uuid, text, jobforge.job_count[]) owner to jf_sys;

create function jobforge.count_runs(p_kind text, p_name text, p_since xid8) returns void language plpgsql volatile;
alter function jobforge.count_runs(text, text, xid8) owner to jf_sys;

create function jobforge.create_api_key(p_id text, p_secret_sha256 bytea, p_role text, p_tenant_id uuid DEFAULT NULL::uuid, p_name text DEFAULT ''::text, p_expires_at timestamp with time zone DEFAULT NULL::timestamp with time zone, p_author text DEFAULT NULL::text, p_only_first boolean DEFAULT false) returns TABLE(id text, role text, tenant_id uuid, name text, created_at timestamp with time zone, created_by text, expires_at timestamp with time zone, last_used_at timestamp with time zone, revoked_at timestamp with time zone, revoked_by text) language plpgsql volatile security definer set search_path=pg_catalog, pg_temp;
alter function jobforge.create_api_key(text, bytea, text, uuid, text, timestamp with time zone, text, boolean) owner to jf_sys;
grant execute on function jobforge.create_api_key(text, bytea, text, uuid, text, timestamp with time zone, text, boolean) to jf_operator;

create function jobforge.create_session(p_id_sha256 bytea, p_key_id text, p_lifetime interval DEFAULT '12:00:00'::interval) returns timestamp with time zone language plpgsql volatile security definer set enable_seqscan=off set jit=off set search_path=pg_catalog, pg_temp;
alter function jobforge.create_session(bytea, text, interval) owner to jf_sys;
grant execute on function jobforge.create_session(bytea, text, interval) to jf_operator;

create function jobforge.dedupe_key(p_tenant_id uuid, p_type text, p_payload jsonb) returns text language sql immutable;
alter function jobforge.dedupe_key(uuid, text, jsonb) owner to jf_fn;
grant execute on function jobforge.dedupe_key(uuid, text, jsonb) to jf_operator;
grant execute on function jobforge.dedupe_key(uuid, text, jsonb) to jf_tenant;

create function jobforge.definition_rules(p_types text[]) returns TABLE(key text, updated_at timestamp with time zone, arg_schema jsonb, redact text[]) language plpgsql stable security definer set search_path=pg_catalog, pg_temp;
alter function jobforge.definition_rules(text[]) owner to jf_sys;
grant execute on function jobforge.definition_rules(text[]) to jf_operator;
grant execute on function jobforge.definition_rules(text[]) to jf_tenant;
grant execute on function jobforge.definition_rules(text[]) to jf_worker;

create function jobforge.delete_connector_config(p_tenant_id uuid, p_name text) returns boolean language plpgsql volatile security definer set enable_seqscan=off set jit=off set search_path=pg_catalog, pg_temp;
alter function jobforge.delete_connector_config(uuid, text) owner to jf_fn;
grant execute on function jobforge.delete_connector_config(uuid, text) to jf_operator;
grant execute on function jobforge.delete_connector_config(uuid, text) to jf_tenant;

create function jobforge.disable_connector_config(p_lease_id uuid, p_tenant_id uuid, p_job_id uuid, p_fence integer, p_name text, p_reason text) returns boolean language plpgsql volatile security definer set enable_seqscan=off set jit=off set search_path=pg_catalog, pg_temp;
alter function jobforge.disable_connector_config(uuid, uuid, uuid, integer, text, text) owner to jf_sys;
grant execute on function jobforge.disable_connector_config(uuid, uuid, uuid, integer, text, text) to jf_worker;

create function jobforge.drop_artifacts(p_tenant_id uuid, p_job_id uuid) returns integer language plpgsql volatile;
alter function jobforge.drop_artifacts(uuid, uuid) owner to jf_sys;

create function jobforge.drop_notes(p_tenant_id uuid, p_job_id uuid) returns integer language plpgsql volatile;
alter function jobforge.drop_notes(uuid, uuid) owner to jf_sys;

create function jobforge.enable_connector_config(p_tenant_id uuid, p_name text) returns boolean language plpgsql volatile security definer set enable_seqscan=off set jit=off set search_path=pg_catalog, pg_temp;
alter function jobforge.enable_connector_config(uuid, text) owner to jf_fn;
grant execute on function jobforge.enable_connector_config(uuid, text) to jf_operator;
grant execute on function jobforge.enable_connector_config(uuid, text) to jf_tenant;

create function jobforge.end_session(p_id_sha256 bytea) returns boolean language plpgsql volatile security definer set enable_hashjoin=off set enable_mergejoin=off set enable_seqscan=off set jit=off set search_path=pg_catalog, pg_temp;
alter function jobforge.end_session(bytea) owner to jf_sys;
grant execute on function jobforge.end_session(bytea) to jf_operator;

create function jobforge.enqueue_gathered(p_tenant_ids uuid[], p_types text[], p_payloads jsonb[], p_queues text[] DEFAULT NULL::text[], p_priorities integer[] DEFAULT NULL::integer[], p_run_ats timestamp with time zone[] DEFAULT NULL::timestamp with time zone[], p_max_attempts integer[] DEFAULT NULL::integer[], p_correlation_ids text[] DEFAULT NULL::text[], p_traceparents text[] DEFAULT NULL::text[], p_tags jsonb[] DEFAULT NULL::jsonb[], p_sources text[] DEFAULT NULL::text[], p_source_refs text[] DEFAULT NULL::text[], p_concurrency_keys text[] DEFAULT NULL::text[], p_created_bys text[] DEFAULT NULL::text[]) returns TABLE(at integer, id uuid, run_at timestamp with time zone, error_code text, error_reason text) language plpgsql volatile security definer set plan_cache_mode=force_generic_plan set search_path=pg_catalog, pg_temp;
alter function jobforge.enqueue_gathered(uuid[], text[], jsonb[], text[], integer[], timestamp with time zone[], integer[], text[], text[], jsonb[], text[], text[], text[], text[]) owner to jf_sys;
grant execute on function jobforge.enqueue_gathered(uuid[], text[], jsonb[], text[], integer[], timestamp with time zone[], integer[], text[], text[], jsonb[], text[], text[], text[], text[]) to jf_operator;
grant execute on function jobforge.enqueue_gathered(uuid[], text[], jsonb[], text[], integer[], timestamp with time zone[], integer[], text[], text[], jsonb[], text[], text[], text[], text[]) to jf_tenant;

create function jobforge.enqueue_job(p_tenant_id uuid, p_type text, p_payload jsonb DEFAULT '{}'::jsonb, p_queue text DEFAULT NULL::text, p_priority integer DEFAULT NULL::integer, p_run_at timestamp with time zone DEFAULT NULL::timestamp with time zone, p_idempotency_key text DEFAULT NULL::text, p_dedupe_key text DEFAULT NULL::text, p_id uuid DEFAULT NULL::uuid, p_max_attempts integer DEFAULT NULL::integer, p_correlation_id text DEFAULT NULL::text, p_traceparent text DEFAULT NULL::text, p_tags jsonb DEFAULT NULL::jsonb, p_source text DEFAULT NULL::text, p_source_ref text DEFAULT NULL::text, p_created_by text DEFAULT NULL::text, p_concurrency_key text DEFAULT NULL::text, OUT id uuid, OUT status text, OUT existing boolean, OUT run_at timestamp with time zone) returns record language plpgsql volatile security definer set enable_seqscan=off set jit=off set plan_cache_mode=force_generic_plan set search_path=pg_catalog, pg_temp;
alter function jobforge.enqueue_job(uuid, text, jsonb, text, integer, timestamp with time zone, text, text, uuid, integer, text, text, jsonb, text, text, text, text) owner to jf_fn;
grant execute on function jobforge.enqueue_job(uuid, text, jsonb, text, integer, timestamp with time zone, text, text, uuid, integer, text, text, jsonb, text, text, text, text) to jf_operator;
grant execute on function jobforge.enqueue_job(uuid, text, jsonb, text, integer, timestamp with time zone, text, text, uuid, integer, text, text, jsonb, text, text, text, text) to jf_tenant;

create function jobforge.enqueue_jobs(p_tenant_id uuid, p_types text[], p_payloads jsonb[], p_queues text[] DEFAULT NULL::text[], p_priorities integer[] DEFAULT NULL::integer[], p_run_ats timestamp with time zone[] DEFAULT NULL::timestamp with time zone[], p_idempotency_keys text[] DEFAULT NULL::text[], p_dedupe_keys text[] DEFAULT NULL::text[], p_ids uuid[] DEFAULT NULL::uuid[], p_max_attempts integer[] DEFAULT NULL::integer[], p_correlation_ids text[] DEFAULT NULL::text[], p_traceparents text[] DEFAULT NULL::text[], p_tags jsonb[] DEFAULT NULL::jsonb[], p_sources text[] DEFAULT NULL::text[], p_source_refs text[] DEFAULT NULL::text[], p_created_by text DEFAULT NULL::text, p_concurrency_keys text[] DEFAULT NULL::text[]) returns TABLE(at integer, id uuid, status text, existing boolean, run_at timestamp with time zone, error_code text, error_reason text) language plpgsql volatile security definer set enable_mergejoin=off set enable_nestloop=off set enable_seqscan=off set jit=off set plan_cache_mode=force_generic_plan set search_path=pg_catalog, pg_temp;
alter function jobforge.enqueue_jobs(uuid, text[], jsonb[], text[], integer[], timestamp with time zone[], text[], text[], uuid[], integer[], text[], text[], jsonb[], text[], text[], text, text[]) owner to jf_fn;
grant execute on function jobforge.enqueue_jobs(uuid, text[], jsonb[], text[], integer[], timestamp with time zone[], text[], text[], uuid[], integer[], text[], text[], jsonb[], text[], text[], text, text[]) to jf_operator;
grant execute on function jobforge.enqueue_jobs(uuid, text[], jsonb[], text[], integer[], timestamp with time zone[], text[], text[], uuid[], integer[], text[], text[], jsonb[], text[], text[], text, text[]) to jf_tenant;

create function jobforge.enqueue_keyed(p_tenant_id uuid, p_types text[], p_payloads jsonb[], p_queues text[], p_priorities integer[], p_run_ats timestamp with time zone[], p_idempotency_keys text[], p_dedupe_keys text[], p_ids uuid[], p_max_attempts integer[], p_correlation_ids text[], p_traceparents text[], p_tags jsonb[], p_sources text[], p_source_refs text[], p_created_by text, p_concurrency_keys text[], p_room integer, p_retention text) returns TABLE(at integer, id uuid, status text, existing boolean, run_at timestamp with time zone, error_code text, error_reason text) language plpgsql volatile;
alter function jobforge.enqueue_keyed(uuid, text[], jsonb[], text[], integer[], timestamp with time zone[], text[], text[], uuid[], integer[], text[], text[], jsonb[], text[], text[], text, text[], integer, text) owner to jf_fn;

create function jobforge.enqueue_plain(p_tenant_id uuid, p_type text, p_payload jsonb, p_created_by text DEFAULT NULL::text) returns uuid language plpgsql volatile security definer set plan_cache_mode=force_generic_plan set search_path=pg_catalog, pg_temp;
alter function jobforge.enqueue_plain(uuid, text, jsonb, text) owner to jf_fn;
grant execute on function jobforge.enqueue_plain(uuid, text, jsonb, text) to jf_operator;
grant execute on function jobforge.enqueue_plain(uuid, text, jsonb, text) to jf_tenant;

create function jobforge.enqueue_rest(p_now timestamp with time zone, p_base bigint, p_tail text, p_done uuid[], p_tenant_ids uuid[], p_types text[], p_payloads jsonb[], p_queues text[], p_priorities integer[], p_run_ats timestamp with time zone[], p_max_attempts integer[], p_correlation_ids text[], p_traceparents text[], p_tags jsonb[], p_sources text[], p_source_refs text[], p_concurrency_keys text[], p_created_bys text[]) returns TABLE(at integer, id uuid, run_at timestamp with time zone, error_code text, error_reason text) language plpgsql volatile set enable_mergejoin=off set enable_nestloop=off set enable_seqscan=off set jit=off;
alter function jobforge.enqueue_rest(timestamp with time zone, bigint, text, uuid[], uuid[], text[], jsonb[], text[], integer[], timestamp with time zone[], integer[], text[], text[], jsonb[], text[], text[], text[], text[]) owner to jf_sys;

create function jobforge.error_class(p_tenant_id uuid, p_job_id uuid, p_fence integer, p_status text) returns text language sql stable;
alter function jobforge.error_class(uuid, uuid, integer, text) owner to jf_fn;

create function jobforge.error_fingerprint(p_type text, p_class text, p_error text) returns text language sql immutable;
alter function jobforge.error_fingerprint(text, text, text) owner to jf_fn;

create function jobforge.expired_partitions(p_now timestamp with time zone) returns TABLE(parent text, leaf text) language sql stable;
alter function jobforge.expired_partitions(timestamp with time zone) owner to jf_owner;

create function jobforge.explain_end(p_tenant_id uuid, p_job_id uuid) returns TABLE(reason text, detail jsonb, until timestamp with time zone, says text) language sql stable;
alter function jobforge.explain_end(uuid, uuid) owner to jf_fn;

create function jobforge.explain_job(p_tenant_id uuid, p_job_id uuid) returns TABLE(reason text, detail jsonb, until timestamp with time zone, says text) language plpgsql stable security definer set enable_bitmapscan=off set enable_seqscan=off set enable_sort=off set jit=off set search_path=pg_catalog, pg_temp;
alter function jobforge.explain_job(uuid, uuid) owner to jf_fn;
grant execute on function jobforge.explain_job(uuid, uuid) to jf_operator;
grant execute on function jobforge.explain_job(uuid, uuid) to jf_tenant;

create function jobforge.explain_limits(p_job jobforge.jobs, p_now timestamp with time zone) returns TABLE(reason text, detail jsonb, until timestamp with time zone, says text) language plpgsql stable;
alter function jobforge.explain_limits(jobforge.jobs, timestamp with time zone) owner to jf_fn;

create function jobforge.explain_run(p_job jobforge.jobs, p_now timestamp with time zone) returns TABLE(reason text, detail jsonb, until timestamp with time zone, says text) language sql stable;
alter function jobforge.explain_run(jobforge.jobs, timestamp with time zone) owner to jf_fn;

create function jobforge.explain_turn(p_job jobforge.jobs, p_held boolean, p_now timestamp with time zone) returns TABLE(reason text, detail jsonb, until timestamp with time zone, says text) language plpgsql stable;
alter function jobforge.explain_turn(jobforge.jobs, boolean, timestamp with time zone) owner to jf_fn;

create function jobforge.explain_wait(p_job jobforge.jobs, p_now timestamp with time zone) returns TABLE(reason text, detail jsonb, until timestamp with time zone, says text) language plpgsql stable;
alter function jobforge.explain_wait(jobforge.jobs, timestamp with time zone) owner to jf_fn;

create function jobforge.explain_workers(p_queue text, p_type text, p_now timestamp with time zone) returns TABLE(reason text, detail jsonb, until timestamp with time zone, says text) language sql stable;
alter function jobforge.explain_workers(text, text, timestamp with time zone) owner to jf_fn;

create function jobforge.fail_job(p_lease_id uuid, p_tenant_id uuid, p_job_id uuid, p_fence integer, p_class text DEFAULT 'retryable'::text, p_error text DEFAULT ''::text, p_retry_after_ms bigint DEFAULT NULL::bigint, p_status text DEFAULT NULL::text, p_exit_code integer DEFAULT NULL::integer, p_stdout_tail text DEFAULT NULL::text, p_stderr_tail text DEFAULT NULL::text) returns TABLE(verdict text, status text, run_at timestamp with time zone) language plpgsql volatile security definer set search_path=pg_catalog, pg_temp;
alter function jobforge.fail_job(uuid, uuid, uuid, integer, text, text, bigint, text, integer, text, text) owner to jf_sys;
grant execute on function jobforge.fail_job(uuid, uuid, uuid, integer, text, text, bigint, text, integer, text, text) to jf_worker;

create function jobforge.fail_jobs(p_lease_id uuid, p_tenant_ids uuid[], p_job_ids uuid[], p_fences integer[], p_classes text[], p_errors text[], p_retry_after_ms bigint[] DEFAULT NULL::bigint[], p_statuses text[] DEFAULT NULL::text[], p_exit_codes integer[] DEFAULT NULL::integer[], p_stdout_tails text[] DEFAULT NULL::text[], p_stderr_tails text[] DEFAULT NULL::text[]) returns TABLE(at integer, verdict text, status text, run_at timestamp with time zone) language plpgsql volatile security definer set enable_hashjoin=off set enable_mergejoin=off set enable_seqscan=off set jit=off set plan_cache_mode=force_generic_plan set search_path=pg_catalog, pg_temp;
alter function jobforge.fail_jobs(uuid, uuid[], uuid[], integer[], text[], text[], bigint[], text[], integer[], text[], text[]) owner to jf_sys;
grant execute on function jobforge.fail_jobs(uuid, uuid[], uuid[], integer[], text[], text[], bigint[], text[], integer[], text[], text[]) to jf_worker;

create function jobforge.find_api_key(p_id text) returns TABLE(id text, secret_sha256 bytea, role text, tenant_id uuid, expires_at timestamp with time zone, expired boolean, revoked boolean) language plpgsql stable security definer set enable_seqscan=off set jit=off set search_path=pg_catalog, pg_temp;
alter function jobforge.find_api_key(text) owner to jf_sys;
grant execute on function jobforge.find_api_key(text) to jf_operator;

create function jobforge.find_connector_config(p_lease_id uuid, p_tenant_id uuid, p_job_id uuid, p_fence integer, p_name text) returns TABLE(settings jsonb, disabled_reason text, secret_names text[], envs text[], key_ids text[], sealed bytea[]) language plpgsql volatile security definer set enable_seqscan=off set jit=off set search_path=pg_catalog, pg_temp;
alter function jobforge.find_connector_config(uuid, uuid, uuid, integer, text) owner to jf_sys;
grant execute on function jobforge.find_connector_config(uuid, uuid, uuid, integer, text) to jf_worker;

create function jobforge.find_dead_letters(p_tenant_id uuid, p_filter jobforge.job_filter, p_cursor text, p_now timestamp with time zone, p_limit integer, p_budget_ms integer, OUT ids uuid[], OUT next_cursor text, OUT complete boolean) returns record language plpgsql stable;
alter function jobforge.find_dead_letters(uuid, jobforge.job_filter, text, timestamp with time zone, integer, integer) owner to jf_fn;

create function jobforge.find_job(p_tenant_id uuid, p_job_id uuid) returns TABLE(id uuid, type text, queue text, priority integer, status text, run_at timestamp with time zone, created_at timestamp with time zone, started_at timestamp with time zone, finished_at timestamp with time zone, attempt integer, failures integer, deaths integer, max_attempts integer, retention text, dedupe_key text, concurrency_key text, correlation_id text, traceparent text, tags jsonb, source text, source_ref text, created_by text, parent_id uuid, worker_no integer, cancel_requested boolean, error text, payload jsonb, result jsonb) language sql stable;
alter function jobforge.find_job(uuid, uuid) owner to jf_fn;

create function jobforge.find_session(p_id_sha256 bytea) returns TABLE(key_id text, role text, tenant_id uuid, expires_at timestamp with time zone) language plpgsql stable security definer set enable_hashjoin=off set enable_mergejoin=off set enable_seqscan=off set jit=off set search_path=pg_catalog, pg_temp;
alter function jobforge.find_session(bytea) owner to jf_sys;
grant execute on function jobforge.find_session(bytea) to jf_operator;

create function jobforge.find_stranded(p_limit integer, p_budget_ms integer) returns TABLE(tenant_id uuid, id uuid, type text, lease_id uuid, started_at timestamp with time zone, complete boolean) language plpgsql stable set enable_mergejoin=off set enable_seqscan=off set jit=off;
alter function jobforge.find_stranded(integer, integer) owner to jf_sys;

create function jobforge.finished_jobs(p_tenant_ids uuid[], p_job_ids uuid[]) returns TABLE(tenant_id uuid, id uuid, status text, finished_at timestamp with time zone) language plpgsql stable security definer set enable_bitmapscan=off set enable_hashjoin=off set enable_mergejoin=off set enable_seqscan=off set jit=off set search_path=pg_catalog, pg_temp;
alter function jobforge.finished_jobs(uuid[], uuid[]) owner to jf_sys;
grant execute on function jobforge.finished_jobs(uuid[], uuid[]) to jf_operator;

create function jobforge.free_tenants(p_gate jobforge.claim_gate, p_after uuid, p_but uuid[], p_most integer, p_now timestamp with time zone) returns uuid[] language plpgsql volatile;
alter function jobforge.free_tenants(jobforge.claim_gate, uuid, uuid[], integer, timestamp with time zone) owner to jf_sys;

create function jobforge.gate(p_queues text[], p_types text[], p_now timestamp with time zone) returns jobforge.claim_gate language plpgsql volatile;
alter function jobforge.gate(text[], text[], timestamp with time zone) owner to jf_sys;

create function jobforge.get_bulk(p_tenant_id uuid, p_operation_id uuid) returns jobforge.bulk_operation language plpgsql stable security definer set search_path=pg_catalog, pg_temp;
alter function jobforge.get_bulk(uuid, uuid) owner to jf_fn;
grant execute on function jobforge.get_bulk(uuid, uuid) to jf_operator;
grant execute on function jobforge.get_bulk(uuid, uuid) to jf_tenant;

create function jobforge.get_connector_config(p_tenant_id uuid, p_name text) returns TABLE(name text, settings jsonb, secrets jsonb, disabled_at timestamp with time zone, disabled_reason text, created_at timestamp with time zone, updated_at timestamp with time zone, updated_by text) language plpgsql stable security definer set enable_seqscan=off set jit=off set search_path=pg_catalog, pg_temp;
alter function jobforge.get_connector_config(uuid, text) owner to jf_fn;
grant execute on function jobforge.get_connector_config(uuid, text) to jf_operator;
grant execute on function jobforge.get_connector_config(uuid, text) to jf_tenant;

create function jobforge.get_job(p_tenant_id uuid, p_job_id uuid) returns TABLE(id uuid, type text, queue text, priority integer, status text, run_at timestamp with time zone, created_at timestamp with time zone, started_at timestamp with time zone, finished_at timestamp with time zone, attempt integer, failures integer, deaths integer, max_attempts integer, retention text, dedupe_key text, concurrency_key text, correlation_id text, traceparent text, tags jsonb, source text, source_ref text, created_by text, parent_id uuid, worker_id text, cancel_requested boolean, error text, payload jsonb, result jsonb, progress_percent real, progress_message text) language plpgsql stable security definer set enable_seqscan=off set jit=off set search_path=pg_catalog, pg_temp;
alter function jobforge.get_job(uuid, uuid) owner to jf_fn;
grant execute on function jobforge.get_job(uuid, uuid) to jf_operator;
grant execute on function jobforge.get_job(uuid, uuid) to jf_tenant;

create function jobforge.give_back_stranded(p_now timestamp with time zone, p_limit integer) returns integer language plpgsql volatile set enable_hashjoin=off set enable_mergejoin=off set enable_seqscan=off set jit=off;
alter function jobforge.give_back_stranded(timestamp with time zone, integer) owner to jf_sys;

create function jobforge.give_room_back(p_rooms jsonb, p_tenant_id uuid, p_type text, p_key text) returns jsonb language sql stable;
alter function jobforge.give_room_back(jsonb, uuid, text, text) owner to jf_sys;

create function jobforge.group_dead_letters(p_tenant_id uuid, p_type text DEFAULT NULL::text, p_queue text DEFAULT NULL::text, p_failed_after timestamp with time zone DEFAULT NULL::timestamp with time zone, p_failed_before timestamp with time zone DEFAULT NULL::timestamp with time zone, p_limit integer DEFAULT 100, p_scan integer DEFAULT 10000) returns TABLE(fingerprint text, type text, class text, message text, jobs bigint, first_at timestamp with time zone, last_at timestamp with time zone, sample_id uuid, sample_error text, capped boolean) language plpgsql stable security definer set enable_bitmapscan=off set enable_seqscan=off set jit=off set search_path=pg_catalog, pg_temp;
alter function jobforge.group_dead_letters(uuid, text, text, timestamp with time zone, timestamp with time zone, integer, integer) owner to jf_fn;
grant execute on function jobforge.group_dead_letters(uuid, text, text, timestamp with time zone, timestamp with time zone, integer, integer) to jf_operator;
grant execute on function jobforge.group_dead_letters(uuid, text, text, timestamp with time zone, timestamp with time zone, integer, integer) to jf_tenant;

create function jobforge.hand_back(p_lease_id uuid, p_tenant_ids uuid[], p_job_ids uuid[], p_now timestamp with time zone, OUT requeued integer, OUT queues text[], OUT run_ats timestamp with time zone[]) returns record language plpgsql volatile;
alter function jobforge.hand_back(uuid, uuid[], uuid[], timestamp with time zone) owner to jf_sys;

create function jobforge.hand_back_at(p_lease_id uuid, p_places tid[], p_now timestamp with time zone, OUT requeued integer, OUT queues text[], OUT run_ats timestamp with time zone[]) returns record language plpgsql volatile;
alter function jobforge.hand_back_at(uuid, tid[], timestamp with time zone) owner to jf_sys;

create function jobforge.has_keys() returns boolean language sql stable security definer set search_path=pg_catalog, pg_temp;
alter function jobforge.has_keys() owner to jf_sys;
grant execute on function jobforge.has_keys() to jf_operator;

create function jobforge.heartbeat(p_lease_id uuid, p_tenant_ids uuid[] DEFAULT NULL::uuid[], p_job_ids uuid[] DEFAULT NULL::uuid[], p_fences integer[] DEFAULT NULL::integer[], p_through bigint DEFAULT NULL::bigint) returns TABLE(expires_at timestamp with time zone, tenant_id uuid, id uuid, problem text) language plpgsql volatile security definer set enable_hashjoin=off set enable_mergejoin=off set enable_seqscan=off set jit=off set plan_cache_mode=force_generic_plan set search_path=pg_catalog, pg_temp;
alter function jobforge.heartbeat(uuid, uuid[], uuid[], integer[], bigint) owner to jf_sys;
grant execute on function jobforge.heartbeat(uuid, uuid[], uuid[], integer[], bigint) to jf_worker;

create function jobforge.held_apart(p_gate jobforge.claim_gate, p_suspect integer, p_now timestamp with time zone) returns jsonb language sql volatile;
alter function jobforge.held_apart(jobforge.claim_gate, integer, timestamp with time zone) owner to jf_sys;

create function jobforge.held_jobs(p_lease_id uuid, OUT tenant_ids uuid[], OUT job_ids uuid[]) returns record language sql volatile;
alter function jobforge.held_jobs(uuid) owner to jf_sys;

create function jobforge.hold_artifact(p_tenant_id uuid, p_job_id uuid, p_kind text, p_ref text, p_bytes bigint, p_now timestamp with time zone) returns void language plpgsql volatile;
alter function jobforge.hold_artifact(uuid, uuid, text, text, bigint, timestamp with time zone) owner to jf_sys;
grant execute on function jobforge.hold_artifact(uuid, uuid, text, text, bigint, timestamp with time zone) to jf_fn;

create function jobforge.hold_bulk(p_tenant_id uuid, p_operation_id uuid) returns jobforge.bulk_operations language plpgsql volatile;
alter function jobforge.hold_bulk(uuid, uuid) owner to jf_fn;

create function jobforge.hold_dead_letter(p_tenant_id uuid, p_job_id uuid, p_finished_at timestamp with time zone) returns boolean language plpgsql volatile;
alter function jobforge.hold_dead_letter(uuid, uuid, timestamp with time zone) owner to jf_sys;

create function jobforge.hold_job(p_lease_id uuid, p_tenant_id uuid, p_job_id uuid, p_fence integer, p_now timestamp with time zone) returns void language plpgsql volatile;
alter function jobforge.hold_job(uuid, uuid, uuid, integer, timestamp with time zone) owner to jf_sys;

create function jobforge.hold_lease(p_lease_id uuid, p_new_lease_id uuid, p_worker_id text, p_window integer, p_seconds integer, p_now timestamp with time zone) returns jobforge.leases language plpgsql volatile;
alter function jobforge.hold_lease(uuid, uuid, text, integer, integer, timestamp with time zone) owner to jf_sys;

create function jobforge.hold_own_job(p_tenant_id uuid, p_job_id uuid, p_operation text) returns jobforge.jobs language plpgsql volatile;
alter function jobforge.hold_own_job(uuid, uuid, text) owner to jf_fn;

create function jobforge.hold_result(p_lease_id uuid, p_tenant_id uuid, p_job_id uuid, p_fence integer, p_ref text, p_bytes bigint) returns void language plpgsql volatile security definer set enable_seqscan=off set jit=off set lock_timeout=100ms set search_path=pg_catalog, pg_temp;
alter function jobforge.hold_result(uuid, uuid, uuid, integer, text, bigint) owner to jf_sys;
grant execute on function jobforge.hold_result(uuid, uuid, uuid, integer, text, bigint) to jf_worker;

create function jobforge.hold_unlocked(p_lease_id uuid, p_tenant_ids uuid[], p_job_ids uuid[], OUT ats integer[], OUT tenant_ids uuid[], OUT job_ids uuid[], OUT places tid[]) returns record language sql volatile;
alter function jobforge.hold_unlocked(uuid, uuid[], uuid[]) owner to jf_sys;

create function jobforge.holding_pauses(p_tenant_id uuid, p_queue text, p_type text, p_now timestamp with time zone) returns TABLE(kind text, name text, author text, reason text, paused_at timestamp with time zone, until timestamp with time zone) language plpgsql stable security definer set search_path=pg_catalog, pg_temp;
alter function jobforge.holding_pauses(uuid, text, text, timestamp with time zone) owner to jf_sys;
grant execute on function jobforge.holding_pauses(uuid, text, text, timestamp with time zone) to jf_fn;

create function jobforge.id_base(p_now timestamp with time zone) returns bigint language sql stable;
alter function jobforge.id_base(timestamp with time zone) owner to jf_sys;
grant execute on function jobforge.id_base(timestamp with time zone) to jf_fn;

create function jobforge.id_tail() returns text language sql volatile;
alter function jobforge.id_tail() owner to jf_sys;
grant execute on function jobforge.id_tail() to jf_fn;

create function jobforge.id_time(p_id uuid) returns timestamp with time zone language sql immutable;
alter function jobforge.id_time(uuid) owner to jf_sys;
grant execute on function jobforge.id_time(uuid) to jf_fn;

create function jobforge.is_connector_secret(p_secret jsonb) returns boolean language sql immutable;
alter function jobforge.is_connector_secret(jsonb) owner to jf_fn;

create function jobforge.is_known(p_tenant_id uuid, p_type text, p_key text, p_given_id uuid, p_dedupe_key text) returns boolean language sql stable;
alter function jobforge.is_known(uuid, text, text, uuid, text) owner to jf_fn;

create function jobforge.is_left(p_expires_at timestamp with time zone) returns boolean language sql immutable;
alter function jobforge.is_left(timestamp with time zone) owner to jf_sys;
grant execute on function jobforge.is_left(timestamp with time zone) to jf_fn;

create function jobforge.is_paused(p_kind text, p_name text, p_now timestamp with time zone) returns boolean language sql stable;
alter function jobforge.is_paused(text, text, timestamp with time zone) owner to jf_sys;

create function jobforge.is_plain(p_cursor jsonb) returns boolean language sql immutable;
alter function jobforge.is_plain(jsonb) owner to jf_sys;

create function jobforge.is_pointer(p_value jsonb) returns boolean language sql immutable;
alter function jobforge.is_pointer(jsonb) owner to jf_fn;

create function jobforge.job_secrets(p_tenant_id uuid, p_job_id uuid) returns text[] language plpgsql stable;
alter function jobforge.job_secrets(uuid, uuid) owner to jf_sys;

create function jobforge.job_summary(p_tenant_id uuid, p_limit integer DEFAULT 10000) returns TABLE(blocked bigint, scheduled bigint, ready bigint, running bigint, failed bigint, dead bigint, capped boolean, oldest_ready timestamp with time zone, enqueued_hour bigint, completed_hour bigint, failed_hour bigint, canceled_hour bigint, enqueued_day bigint, completed_day bigint, failed_day bigint, canceled_day bigint, enqueued_rate double precision, completed_rate double precision, failed_rate double precision, drain_seconds double precision, sampled_at timestamp with time zone) language plpgsql stable security definer set enable_bitmapscan=off set enable_seqscan=off set enable_sort=off set jit=off set search_path=pg_catalog, pg_temp;
alter function jobforge.job_summary(uuid, integer) owner to jf_fn;
grant execute on function jobforge.job_summary(uuid, integer) to jf_operator;
grant execute on function jobforge.job_summary(uuid, integer) to jf_tenant;

create function jobforge.json_at(p_document jsonb, p_path text[]) returns jsonb language plpgsql immutable;
alter function jobforge.json_at(jsonb, text[]) owner to jf_fn;
grant execute on function jobforge.json_at(jsonb, text[]) to jf_sys;

create function jobforge.json_with(p_document jsonb, p_path text[], p_value jsonb) returns jsonb language plpgsql immutable;
alter function jobforge.json_with(jsonb, text[], jsonb) owner to jf_fn;

create function jobforge.json_without(p_document jsonb, p_path text[]) returns jsonb language sql immutable;
alter function jobforge.json_without(jsonb, text[]) owner to jf_fn;

create function jobforge.keep_artifact(p_tenant_id uuid, p_ref text, p_now timestamp with time zone) returns void language plpgsql volatile;
alter function jobforge.keep_artifact(uuid, text, timestamp with time zone) owner to jf_sys;
grant execute on function jobforge.keep_artifact(uuid, text, timestamp with time zone) to jf_fn;

create function jobforge.keep_key(p_tenant_id uuid, p_type text, p_key text, p_given_id uuid, p_job_id uuid, p_payload_hash bytea, p_now timestamp with time zone, OUT kept boolean, OUT job_id uuid, OUT same boolean) returns record language plpgsql volatile;
alter function jobforge.keep_key(uuid, text, text, uuid, uuid, bytea, timestamp with time zone) owner to jf_fn;

create function jobforge.keep_lease(p_lease jobforge.leases) returns void language plpgsql volatile;
alter function jobforge.keep_lease(jobforge.leases) owner to jf_sys;

create function jobforge.keyed_jobs(p_queue text, p_type text, p_tenant_id uuid) returns TABLE(place tid, id uuid, key text, priority smallint, run_at timestamp with time zone) language plpgsql volatile;
alter function jobforge.keyed_jobs(text, text, uuid) owner to jf_sys;

create function jobforge.lane_ahead(p_job jobforge.jobs, p_most integer) returns bigint language sql stable;
alter function jobforge.lane_ahead(jobforge.jobs, integer) owner to jf_fn;

create function jobforge.lane_crowd(p_tenant_id uuid, p_queue text, p_type text, p_most integer) returns integer language plpgsql stable security definer set enable_bitmapscan=off set enable_seqscan=off set jit=off set search_path=pg_catalog, pg_temp;
alter function jobforge.lane_crowd(uuid, text, text, integer) owner to jf_sys;
grant execute on function jobforge.lane_crowd(uuid, text, text, integer) to jf_fn;

create function jobforge.lane_rates(p_tenant_id uuid, p_queue text, p_now timestamp with time zone, OUT tenant_rate double precision, OUT queue_rate double precision) returns record language plpgsql stable security definer set search_path=pg_catalog, pg_temp;
alter function jobforge.lane_rates(uuid, text, timestamp with time zone) owner to jf_sys;
grant execute on function jobforge.lane_rates(uuid, text, timestamp with time zone) to jf_fn;

create function jobforge.lane_tenants(p_queue text, p_type text) returns SETOF uuid language sql stable;
alter function jobforge.lane_tenants(text, text) owner to jf_sys;

create function jobforge.lanes(p_types text[]) returns text language sql immutable;
alter function jobforge.lanes(text[]) owner to jf_sys;

create function jobforge.large_payload_problem(p_payload jsonb) returns text language plpgsql immutable;
alter function jobforge.large_payload_problem(jsonb) owner to jf_fn;
grant execute on function jobforge.large_payload_problem(jsonb) to jf_sys;

create function jobforge.lead(p_holder text, p_seconds integer DEFAULT 10) returns TABLE(term bigint, leads boolean, expires_at timestamp with time zone) language plpgsql volatile security definer set search_path=pg_catalog, pg_temp;
alter function jobforge.lead(text, integer) owner to jf_sys;
grant execute on function jobforge.lead(text, integer) to jf_operator;

create function jobforge.lease_lives(p_lease_id uuid, p_now timestamp with time zone) returns boolean language plpgsql volatile;
alter function jobforge.lease_lives(uuid, timestamp with time zone) owner to jf_sys;

create function jobforge.leave(p_lease_id uuid, p_tenant_ids uuid[], p_job_ids uuid[], p_taken integer[], p_started integer, p_now timestamp with time zone) returns void language plpgsql volatile;
alter function jobforge.leave(uuid, uuid[], uuid[], integer[], integer, timestamp with time zone) owner to jf_sys;

create function jobforge.left_started(p_lease_id uuid) returns integer language sql stable;
alter function jobforge.left_started(uuid) owner to jf_sys;

create function jobforge.limit_room(p_kind text, p_name text, p_most integer, p_rate double precision, p_burst integer, p_now timestamp with time zone, OUT room integer, OUT retry_at timestamp with time zone) returns record language plpgsql volatile;
alter function jobforge.limit_room(text, text, integer, double precision, integer, timestamp with time zone) owner to jf_sys;

create function jobforge.limited_jobs(p_gate jobforge.claim_gate, p_tenant_id uuid, p_limited boolean, p_most integer) returns TABLE(place tid, id uuid, type text, key text) language sql volatile;
alter function jobforge.limited_jobs(jobforge.claim_gate, uuid, boolean, integer) owner to jf_sys;

create function jobforge.limited_now(p_tenant_id uuid, p_kind text, p_name text, p_most integer, OUT running bigint, OUT job_ids uuid[]) returns record language plpgsql stable security definer set enable_hashjoin=off set enable_mergejoin=off set enable_seqscan=off set jit=off set search_path=pg_catalog, pg_temp;
alter function jobforge.limited_now(uuid, text, text, integer) owner to jf_sys;
grant execute on function jobforge.limited_now(uuid, text, text, integer) to jf_fn;

create function jobforge.limits_of(p_tenant_id uuid, p_type text, p_key text) returns TABLE(kind text, name text, slot text, most integer, rate double precision, burst integer, since xid8) language sql stable;
alter function jobforge.limits_of(uuid, text, text) owner to jf_sys;

create function jobforge.list_api_keys(p_tenant_id uuid DEFAULT NULL::uuid, p_limit integer DEFAULT 100, p_after text DEFAULT NULL::text) returns TABLE(id text, role text, tenant_id uuid, name text, created_at timestamp with time zone, created_by text, expires_at timestamp with time zone, last_used_at timestamp with time zone, revoked_at timestamp with time zone, revoked_by text) language plpgsql stable security definer set enable_seqscan=off set enable_sort=off set jit=off set search_path=pg_catalog, pg_temp;
alter function jobforge.list_api_keys(uuid, integer, text) owner to jf_sys;
grant execute on function jobforge.list_api_keys(uuid, integer, text) to jf_operator;

create function jobforge.list_attempts(p_tenant_id uuid, p_job_id uuid) returns TABLE(number integer, status text, worker_id text, pid integer, started_at timestamp with time zone, finished_at timestamp with time zone, error_class text, error text, exit_code integer, signal integer, stdout_tail text, stderr_tail text, log jsonb) language plpgsql stable security definer set enable_seqscan=off set jit=off set search_path=pg_catalog, pg_temp;
alter function jobforge.list_attempts(uuid, uuid) owner to jf_fn;
grant execute on function jobforge.list_attempts(uuid, uuid) to jf_operator;
grant execute on function jobforge.list_attempts(uuid, uuid) to jf_tenant;

create function jobforge.list_audit(p_tenant_id uuid, p_subject_kind text DEFAULT NULL::text, p_subject_id text DEFAULT NULL::text, p_actor text DEFAULT NULL::text, p_after timestamp with time zone DEFAULT NULL::timestamp with time zone, p_before timestamp with time zone DEFAULT NULL::timestamp with time zone, p_limit integer DEFAULT 50, p_cursor text DEFAULT NULL::text) returns TABLE(id uuid, at timestamp with time zone, actor text, credential text, request_id text, action text, subject_kind text, subject_id text, job_id uuid, detail jsonb, next_cursor text, complete boolean) language plpgsql stable security definer set enable_bitmapscan=off set enable_seqscan=off set jit=off set search_path=pg_catalog, pg_temp;
alter function jobforge.list_audit(uuid, text, text, text, timestamp with time zone, timestamp with time zone, integer, text) owner to jf_fn;
grant execute on function jobforge.list_audit(uuid, text, text, text, timestamp with time zone, timestamp with time zone, integer, text) to jf_operator;
grant execute on function jobforge.list_audit(uuid, text, text, text, timestamp with time zone, timestamp with time zone, integer, text) to jf_tenant;

create function jobforge.list_bulk_results(p_tenant_id uuid, p_operation_id uuid DEFAULT NULL::uuid, p_job_id uuid DEFAULT NULL::uuid, p_verdict text DEFAULT NULL::text, p_limit integer DEFAULT 100, p_after uuid DEFAULT NULL::uuid) returns TABLE(operation_id uuid, job_id uuid, at timestamp with time zone, verdict text, error_code text, error_reason text, before jsonb) language plpgsql stable security definer set enable_seqscan=off set jit=off set search_path=pg_catalog, pg_temp;
alter function jobforge.list_bulk_results(uuid, uuid, uuid, text, integer, uuid) owner to jf_fn;
grant execute on function jobforge.list_bulk_results(uuid, uuid, uuid, text, integer, uuid) to jf_operator;
grant execute on function jobforge.list_bulk_results(uuid, uuid, uuid, text, integer, uuid) to jf_tenant;

create function jobforge.list_bulks(p_tenant_id uuid, p_limit integer DEFAULT 50, p_before uuid DEFAULT NULL::uuid) returns SETOF jobforge.bulk_operation language plpgsql stable security definer set search_path=pg_catalog, pg_temp;
alter function jobforge.list_bulks(uuid, integer, uuid) owner to jf_fn;
grant execute on function jobforge.list_bulks(uuid, integer, uuid) to jf_operator;
grant execute on function jobforge.list_bulks(uuid, integer, uuid) to jf_tenant;

create function jobforge.list_connector_configs(p_tenant_id uuid, p_limit integer DEFAULT 100, p_after text DEFAULT ''::text) returns TABLE(name text, settings jsonb, secrets jsonb, disabled_at timestamp with time zone, disabled_reason text, created_at timestamp with time zone, updated_at timestamp with time zone, updated_by text) language plpgsql stable security definer set enable_seqscan=off set jit=off set search_path=pg_catalog, pg_temp;
alter function jobforge.list_connector_configs(uuid, integer, text) owner to jf_fn;
grant execute on function jobforge.list_connector_configs(uuid, integer, text) to jf_operator;
grant execute on function jobforge.list_connector_configs(uuid, integer, text) to jf_tenant;

create function jobforge.list_dead_letters(p_tenant_id uuid, p_fingerprint text DEFAULT NULL::text, p_type text DEFAULT NULL::text, p_queue text DEFAULT NULL::text, p_failed_after timestamp with time zone DEFAULT NULL::timestamp with time zone, p_failed_before timestamp with time zone DEFAULT NULL::timestamp with time zone, p_limit integer DEFAULT 50, p_cursor text DEFAULT NULL::text, p_budget_ms integer DEFAULT 500) returns TABLE(id uuid, type text, queue text, status text, class text, fingerprint text, error text, created_at timestamp with time zone, finished_at timestamp with time zone, attempt integer, failures integer, deaths integer, max_attempts integer, source text, correlation_id text, tags jsonb, next_cursor text, complete boolean) language plpgsql stable security definer set enable_bitmapscan=off set enable_seqscan=off set jit=off set search_path=pg_catalog, pg_temp;
alter function jobforge.list_dead_letters(uuid, text, text, text, timestamp with time zone, timestamp with time zone, integer, text, integer) owner to jf_fn;
grant execute on function jobforge.list_dead_letters(uuid, text, text, text, timestamp with time zone, timestamp with time zone, integer, text, integer) to jf_operator;
grant execute on function jobforge.list_dead_letters(uuid, text, text, text, timestamp with time zone, timestamp with time zone, integer, text, integer) to jf_tenant;

create function jobforge.list_definitions(p_limit integer DEFAULT 100, p_after text DEFAULT NULL::text, p_key text DEFAULT NULL::text) returns TABLE(key text, description text, queue text, priority integer, timeout_seconds integer, max_attempts integer, max_deaths integer, retry_base_ms bigint, retry_factor real, retry_cap_ms bigint, retry_jitter real, retention text, dead_retention text, is_active boolean, max_in_flight integer, max_in_flight_per_key integer, rate_per_second double precision, rate_burst integer, arg_schema jsonb, redact text[], write_only text[], created_at timestamp with time zone, updated_at timestamp with time zone, paused_at timestamp with time zone, paused_until timestamp with time zone, pause_reason text, paused_by text) language plpgsql stable security definer set search_path=pg_catalog, pg_temp;
alter function jobforge.list_definitions(integer, text, text) owner to jf_sys;
grant execute on function jobforge.list_definitions(integer, text, text) to jf_operator;

create function jobforge.list_forgotten_pauses(p_age interval DEFAULT '1 day'::interval, p_limit integer DEFAULT 100) returns TABLE(kind text, name text, reason text, author text, paused_at timestamp with time zone, until timestamp with time zone, waits_since timestamp with time zone) language plpgsql stable security definer set search_path=pg_catalog, pg_temp;
alter function jobforge.list_forgotten_pauses(interval, integer) owner to jf_sys;
grant execute on function jobforge.list_forgotten_pauses(interval, integer) to jf_operator;

create function jobforge.list_is_fresh(p_gate jobforge.claim_gate, p_now timestamp with time zone) returns boolean language sql stable;
alter function jobforge.list_is_fresh(jobforge.claim_gate, timestamp with time zone) owner to jf_sys;

create function jobforge.list_jobs(p_tenant_id uuid, p_statuses text[] DEFAULT NULL::text[], p_type text DEFAULT NULL::text, p_queue text DEFAULT NULL::text, p_source text DEFAULT NULL::text, p_created_after timestamp with time zone DEFAULT NULL::timestamp with time zone, p_created_before timestamp with time zone DEFAULT NULL::timestamp with time zone, p_limit integer DEFAULT 50, p_cursor uuid DEFAULT NULL::uuid, p_budget_ms integer DEFAULT 500, p_tag text DEFAULT NULL::text, p_payload jsonb DEFAULT NULL::jsonb) returns TABLE(id uuid, type text, queue text, priority integer, status text, run_at timestamp with time zone, created_at timestamp with time zone, started_at timestamp with time zone, finished_at timestamp with time zone, attempt integer, failures integer, max_attempts integer, source text, correlation_id text, tags jsonb, error text, next_cursor uuid, complete boolean) language plpgsql stable security definer set enable_bitmapscan=off set enable_seqscan=off set enable_sort=off set jit=off set search_path=pg_catalog, pg_temp;
alter function jobforge.list_jobs(uuid, text[], text, text, text, timestamp with time zone, timestamp with time zone, integer, uuid, integer, text, jsonb) owner to jf_fn;
grant execute on function jobforge.list_jobs(uuid, text[], text, text, text, timestamp with time zone, timestamp with time zone, integer, uuid, integer, text, jsonb) to jf_operator;
grant execute on function jobforge.list_jobs(uuid, text[], text, text, text, timestamp with time zone, timestamp with time zone, integer, uuid, integer, text, jsonb) to jf_tenant;

create function jobforge.list_logs(p_tenant_id uuid, p_job_id uuid, p_number integer DEFAULT NULL::integer, p_after_number integer DEFAULT NULL::integer, p_after_line integer DEFAULT NULL::integer, p_limit integer DEFAULT 1000) returns TABLE(number integer, line integer, at timestamp with time zone, level text, message text) language plpgsql stable security definer set enable_bitmapscan=off set enable_seqscan=off set jit=off set search_path=pg_catalog, pg_temp;
alter function jobforge.list_logs(uuid, uuid, integer, integer, integer, integer) owner to jf_fn;
grant execute on function jobforge.list_logs(uuid, uuid, integer, integer, integer, integer) to jf_operator;
grant execute on function jobforge.list_logs(uuid, uuid, integer, integer, integer, integer) to jf_tenant;

create function jobforge.list_pauses(p_limit integer DEFAULT 100) returns TABLE(kind text, name text, reason text, author text, paused_at timestamp with time zone, until timestamp with time zone) language plpgsql stable security definer set search_path=pg_catalog, pg_temp;
alter function jobforge.list_pauses(integer) owner to jf_sys;
grant execute on function jobforge.list_pauses(integer) to jf_operator;

create function jobforge.list_sealed_secrets(p_unless_key_id text, p_limit integer DEFAULT 100, p_after_tenant_id uuid DEFAULT '00000000-0000-0000-0000-000000000000'::uuid, p_after_config text DEFAULT ''::text, p_after_name text DEFAULT ''::text) returns TABLE(tenant_id uuid, config text, name text, key_id text, sealed bytea) language plpgsql stable security definer set enable_seqscan=off set jit=off set search_path=pg_catalog, pg_temp;
alter function jobforge.list_sealed_secrets(text, integer, uuid, text, text) owner to jf_sys;
grant execute on function jobforge.list_sealed_secrets(text, integer, uuid, text, text) to jf_operator;

create function jobforge.list_starved(p_waiting interval DEFAULT '00:15:00'::interval, p_limit integer DEFAULT 100) returns TABLE(kind text, name text, limit_name text, allowed double precision, waits_since timestamp with time zone) language plpgsql stable security definer set enable_hashjoin=off set enable_mergejoin=off set enable_seqscan=off set jit=off set search_path=pg_catalog, pg_temp;
alter function jobforge.list_starved(interval, integer) owner to jf_sys;
grant execute on function jobforge.list_starved(interval, integer) to jf_operator;

create function jobforge.list_stranded(p_limit integer DEFAULT 100, p_budget_ms integer DEFAULT 500) returns TABLE(tenant_id uuid, id uuid, type text, lease_id uuid, started_at timestamp with time zone, complete boolean) language plpgsql stable security definer set search_path=pg_catalog, pg_temp;
alter function jobforge.list_stranded(integer, integer) owner to jf_sys;
grant execute on function jobforge.list_stranded(integer, integer) to jf_operator;

create function jobforge.list_stuck_leases(p_overdue interval DEFAULT '00:00:30'::interval, p_limit integer DEFAULT 100) returns TABLE(lease_id uuid, worker_id text, host text, expires_at timestamp with time zone, jobs integer) language plpgsql stable security definer set search_path=pg_catalog, pg_temp;
alter function jobforge.list_stuck_leases(interval, integer) owner to jf_sys;
grant execute on function jobforge.list_stuck_leases(interval, integer) to jf_operator;

create function jobforge.list_system_audit(p_tenant_id uuid DEFAULT NULL::uuid, p_subject_kind text DEFAULT NULL::text, p_subject_id text DEFAULT NULL::text, p_actor text DEFAULT NULL::text, p_after timestamp with time zone DEFAULT NULL::timestamp with time zone, p_before timestamp with time zone DEFAULT NULL::timestamp with time zone, p_limit integer DEFAULT 50, p_cursor text DEFAULT NULL::text) returns TABLE(tenant_id uuid, id uuid, at timestamp with time zone, actor text, credential text, request_id text, action text, subject_kind text, subject_id text, job_id uuid, detail jsonb, next_cursor text, complete boolean) language plpgsql stable security definer set enable_bitmapscan=off set enable_seqscan=off set jit=off set search_path=pg_catalog, pg_temp;
alter function jobforge.list_system_audit(uuid, text, text, text, timestamp with time zone, timestamp with time zone, integer, text) owner to jf_sys;
grant execute on function jobforge.list_system_audit(uuid, text, text, text, timestamp with time zone, timestamp with time zone, integer, text) to jf_operator;

create function jobforge.list_tenants(p_limit integer DEFAULT 100, p_after uuid DEFAULT NULL::uuid, p_id uuid DEFAULT NULL::uuid) returns TABLE(id uuid, name text, weight integer, max_pending integer, max_in_flight integer, rate_per_second double precision, rate_burst integer, retention text, time_zone text, created_at timestamp with time zone, paused_at timestamp with time zone, paused_until timestamp with time zone, pause_reason text, paused_by text) language plpgsql stable security definer set search_path=pg_catalog, pg_temp;
alter function jobforge.list_tenants(integer, uuid, uuid) owner to jf_sys;
grant execute on function jobforge.list_tenants(integer, uuid, uuid) to jf_operator;

create function jobforge.list_workers(p_limit integer DEFAULT 100) returns TABLE(worker_id text, host text, pid integer, version text, queues text[], types text[], slots integer, running integer, metadata jsonb, started_at timestamp with time zone, last_seen timestamp with time zone, stopped_at timestamp with time zone, stale boolean) language plpgsql stable security definer set search_path=pg_catalog, pg_temp;
alter function jobforge.list_workers(integer) owner to jf_sys;
grant execute on function jobforge.list_workers(integer) to jf_operator;

create function jobforge.locate(p_lease_id uuid, p_tenant_ids uuid[], p_job_ids uuid[], p_fences integer[], OUT places tid[], OUT ats integer[]) returns record language sql volatile;
alter function jobforge.locate(uuid, uuid[], uuid[], integer[]) owner to jf_sys;
grant execute on function jobforge.locate(uuid, uuid[], uuid[], integer[]) to jf_fn;

create function jobforge.login_tenant() returns uuid language plpgsql stable;
alter function jobforge.login_tenant() owner to jf_sys;

create function jobforge.look(p_worker_id text) returns TABLE(sentinel boolean, found_work boolean, next_due timestamp with time zone) language plpgsql volatile security definer set enable_bitmapscan=off set enable_hashjoin=off set enable_mergejoin=off set enable_seqscan=off set jit=off set plan_cache_mode=force_generic_plan set search_path=pg_catalog, pg_temp;
alter function jobforge.look(text) owner to jf_sys;
grant execute on function jobforge.look(text) to jf_worker;

create function jobforge.look_around(p_lease_id uuid, p_window integer, p_queues text[], p_types text[], p_few integer, p_now timestamp with time zone) returns record language plpgsql volatile;
alter function jobforge.look_around(uuid, integer, text[], text[], integer, timestamp with time zone) owner to jf_sys;

create function jobforge.look_at_connector_config(p_tenant_id uuid, p_name text) returns TABLE(name text, settings jsonb, secrets jsonb, disabled_at timestamp with time zone, disabled_reason text, created_at timestamp with time zone, updated_at timestamp with time zone, updated_by text) language sql stable;
alter function jobforge.look_at_connector_config(uuid, text) owner to jf_fn;

create function jobforge.look_behind(p_queues text[], p_run_ats timestamp with time zone[]) returns void language sql volatile;
alter function jobforge.look_behind(text[], timestamp with time zone[]) owner to jf_sys;

create function jobforge.make_id(p_base bigint, p_tail text, p_position integer) returns uuid language sql immutable;
alter function jobforge.make_id(bigint, text, integer) owner to jf_sys;
grant execute on function jobforge.make_id(bigint, text, integer) to jf_fn;

create function jobforge.make_partitions(p_limit integer, OUT made integer, OUT refused integer) returns record language plpgsql volatile security definer set lock_timeout=50ms set search_path=pg_catalog, pg_temp;
alter function jobforge.make_partitions(integer) owner to jf_owner;

create function jobforge.marks_write_only(p_root jsonb, p_node jsonb) returns boolean language sql stable;
alter function jobforge.marks_write_only(jsonb, jsonb) owner to jf_sys;

create function jobforge.merge_rooms(p_rooms jsonb, p_more jsonb) returns jsonb language sql immutable;
alter function jobforge.merge_rooms(jsonb, jsonb) owner to jf_sys;

create function jobforge.move_limited_since(p_kind text, p_name text, p_from xid8, p_to xid8) returns bigint language plpgsql volatile;
alter function jobforge.move_limited_since(text, text, xid8, xid8) owner to jf_sys;

create function jobforge.narrowed_tenant(p_login_tenant_id uuid, p_narrowed text) returns uuid language plpgsql immutable;
alter function jobforge.narrowed_tenant(uuid, text) owner to jf_sys;

create function jobforge.new_id(p_now timestamp with time zone) returns uuid language sql volatile;
alter function jobforge.new_id(timestamp with time zone) owner to jf_sys;
grant execute on function jobforge.new_id(timestamp with time zone) to jf_fn;

create function jobforge.next_jobs(p_tenant_id uuid, p_before uuid, p_live boolean, p_over boolean) returns TABLE(id uuid, type text, queue text, priority smallint, status text, run_at timestamp with time zone, created_at timestamp with time zone, started_at timestamp with time zone, finished_at timestamp with time zone, fence integer, failures integer, max_attempts smallint, source text, correlation_id text, tags jsonb, error text, payload jsonb) language sql stable;
alter function jobforge.next_jobs(uuid, uuid, boolean, boolean) owner to jf_fn;
grant execute on function jobforge.next_jobs(uuid, uuid, boolean, boolean) to jf_sys;

create function jobforge.next_keys(p_queue text, p_type text, p_tenant_id uuid, p_after text, p_most integer) returns SETOF text language sql stable;
alter function jobforge.next_keys(text, text, uuid, text, integer) owner to jf_sys;

create function jobforge.next_tenants(p_gate jobforge.claim_gate, p_after uuid, p_inclusive boolean, p_most integer, p_marks jobforge.claim_mark[]) returns SETOF uuid language sql stable;
alter function jobforge.next_tenants(jobforge.claim_gate, uuid, boolean, integer, jobforge.claim_mark[]) owner to jf_sys;

create function jobforge.normal_error(p_error text) returns text language plpgsql immutable;
alter function jobforge.normal_error(text) owner to jf_fn;

create function jobforge.note_attempt(p_tenant_id uuid, p_job_id uuid, p_number integer, p_status text, p_worker_no integer, p_started_at timestamp with time zone, p_now timestamp with time zone, p_class text, p_error text, p_exit_code integer, p_stdout_tail text, p_stderr_tail text) returns void language sql volatile;
alter function jobforge.note_attempt(uuid, uuid, integer, text, integer, timestamp with time zone, timestamp with time zone, text, text, integer, text, text) owner to jf_sys;

create function jobforge.note_first_look(p_kind text, p_name text) returns void language plpgsql volatile;
alter function jobforge.note_first_look(text, text) owner to jf_sys;

create function jobforge.note_pause(p_action text, p_kind text, p_name text, p_detail jsonb, p_now timestamp with time zone) returns void language sql volatile;
alter function jobforge.note_pause(text, text, text, jsonb, timestamp with time zone) owner to jf_sys;

create function jobforge.notice_outage(p_now timestamp with time zone) returns boolean language plpgsql volatile;
alter function jobforge.notice_outage(timestamp with time zone) owner to jf_sys;

create function jobforge.once_each(p_names text[]) returns text[] language plpgsql immutable;
alter function jobforge.once_each(text[]) owner to jf_sys;

create function jobforge.open_leaves(p_since timestamp with time zone, p_now timestamp with time zone) returns TABLE(leaf oid, retention text, first timestamp with time zone, past timestamp with time zone) language sql stable;
alter function jobforge.open_leaves(timestamp with time zone, timestamp with time zone) owner to jf_sys;

create function jobforge.path_steps(p_path text) returns text[] language sql immutable;
alter function jobforge.path_steps(text) owner to jf_fn;
grant execute on function jobforge.path_steps(text) to jf_sys;

create function jobforge.pause(p_kind text, p_name text, p_reason text DEFAULT ''::text, p_until timestamp with time zone DEFAULT NULL::timestamp with time zone, p_author text DEFAULT NULL::text) returns timestamp with time zone language plpgsql volatile security definer set search_path=pg_catalog, pg_temp;
alter function jobforge.pause(text, text, text, timestamp with time zone, text) owner to jf_sys;
grant execute on function jobforge.pause(text, text, text, timestamp with time zone, text) to jf_operator;

create function jobforge.payload_problem(p_payload jsonb) returns text language sql immutable;
alter function jobforge.payload_problem(jsonb) owner to jf_fn;
grant execute on function jobforge.payload_problem(jsonb) to jf_sys;

create function jobforge.pending_room(p_tenant_id uuid, p_max_pending integer, p_now timestamp with time zone) returns integer language plpgsql volatile security definer set enable_seqscan=off set jit=off set search_path=pg_catalog, pg_temp;
alter function jobforge.pending_room(uuid, integer, timestamp with time zone) owner to jf_sys;
grant execute on function jobforge.pending_room(uuid, integer, timestamp with time zone) to jf_fn;

create function jobforge.pick_few(p_queues text[], p_types text[], p_after uuid, p_limit integer, OUT places tid[], OUT tenant_ids uuid[], OUT job_ids uuid[]) returns record language plpgsql volatile;
alter function jobforge.pick_few(text[], text[], uuid, integer) owner to jf_sys;

create function jobforge.pick_lanes(p_queues text[], p_types text[], p_turn jobforge.claim_turn, p_limit integer, p_marks jobforge.claim_mark[]) returns TABLE(ctid tid, tenant_id uuid, id uuid) language sql volatile;
alter function jobforge.pick_lanes(text[], text[], jobforge.claim_turn, integer, jobforge.claim_mark[]) owner to jf_sys;

create function jobforge.pick_limited(p_gate jobforge.claim_gate, p_turn jobforge.claim_turn, p_limit integer, p_now timestamp with time zone, OUT places tid[], OUT tenant_ids uuid[], OUT job_ids uuid[], OUT quanta integer[], OUT hungry uuid[], OUT rooms jsonb) returns record language plpgsql volatile;
alter function jobforge.pick_limited(jobforge.claim_gate, jobforge.claim_turn, integer, timestamp with time zone) owner to jf_sys;

create function jobforge.pick_reserved(p_lease jobforge.leases, p_gate jobforge.claim_gate, p_limit integer, OUT places tid[], OUT tenant_ids uuid[], OUT job_ids uuid[]) returns record language plpgsql volatile;
alter function jobforge.pick_reserved(jobforge.leases, jobforge.claim_gate, integer) owner to jf_sys;

create function jobforge.pick_reserved_limited(p_lease jobforge.leases, p_gate jobforge.claim_gate, p_limit integer, p_free integer, p_now timestamp with time zone, OUT places tid[], OUT tenant_ids uuid[], OUT job_ids uuid[], OUT limited integer, OUT rooms jsonb) returns record language plpgsql volatile;
alter function jobforge.pick_reserved_limited(jobforge.leases, jobforge.claim_gate, integer, integer, timestamp with time zone) owner to jf_sys;

create function jobforge.pick_suspect(p_lease jobforge.leases, p_gate jobforge.claim_gate, p_free integer, p_now timestamp with time zone, OUT places tid[], OUT tenant_ids uuid[], OUT job_ids uuid[], OUT limited integer, OUT rooms jsonb) returns record language plpgsql volatile;
alter function jobforge.pick_suspect(jobforge.leases, jobforge.claim_gate, integer, timestamp with time zone) owner to jf_sys;

create function jobforge.pick_turn(p_gate jobforge.claim_gate, p_turn jobforge.claim_turn, p_limit integer, p_marks jobforge.claim_mark[], OUT places tid[], OUT tenant_ids uuid[], OUT job_ids uuid[], OUT hungry uuid[]) returns record language plpgsql volatile;
alter function jobforge.pick_turn(jobforge.claim_gate, jobforge.claim_turn, integer, jobforge.claim_mark[]) owner to jf_sys;

create function jobforge.pointer_path(p_pointer text) returns text[] language sql immutable;
alter function jobforge.pointer_path(text) owner to jf_fn;
grant execute on function jobforge.pointer_path(text) to jf_sys;

create function jobforge.pre_request() returns void language plpgsql volatile security definer set search_path=pg_catalog, pg_temp;
alter function jobforge.pre_request() owner to jf_fn;
grant execute on function jobforge.pre_request() to jf_tenant;

create function jobforge.previous_audits(p_tenant_id uuid, p_subject_kind text, p_subject_id text, p_after timestamp with time zone, p_at timestamp with time zone, p_id uuid) returns SETOF jobforge.audit_log language sql stable;
alter function jobforge.previous_audits(uuid, text, text, timestamp with time zone, timestamp with time zone, uuid) owner to jf_fn;
grant execute on function jobforge.previous_audits(uuid, text, text, timestamp with time zone, timestamp with time zone, uuid) to jf_sys;

create function jobforge.previous_dead_letters(p_tenant_id uuid, p_at timestamp with time zone, p_id uuid, p_after timestamp with time zone, p_before timestamp with time zone, p_limit integer) returns TABLE(id uuid, type text, queue text, status text, class text, error text, created_at timestamp with time zone, finished_at timestamp with time zone, fence integer, failures integer, deaths smallint, max_attempts smallint, source text, correlation_id text, tags jsonb) language sql stable;
alter function jobforge.previous_dead_letters(uuid, timestamp with time zone, uuid, timestamp with time zone, timestamp with time zone, integer) owner to jf_fn;

create function jobforge.promote(p_now timestamp with time zone, p_limit integer) returns integer language plpgsql volatile;
alter function jobforge.promote(timestamp with time zone, integer) owner to jf_sys;

create function jobforge.promote_due(p_term bigint, p_limit integer DEFAULT 1000) returns integer language plpgsql volatile security definer set enable_bitmapscan=off set enable_seqscan=off set jit=off set search_path=pg_catalog, pg_temp;
alter function jobforge.promote_due(bigint, integer) owner to jf_sys;
grant execute on function jobforge.promote_due(bigint, integer) to jf_operator;

create function jobforge.prune(p_term bigint, p_limit integer DEFAULT 1000, p_after jsonb DEFAULT NULL::jsonb) returns TABLE(keys integer, workers integer, sleepers integer, stats integer, history integer, dead_letters integer, orphans integer, more boolean, after jsonb) language plpgsql volatile security definer set search_path=pg_catalog, pg_temp;
alter function jobforge.prune(bigint, integer, jsonb) owner to jf_sys;
grant execute on function jobforge.prune(bigint, integer, jsonb) to jf_operator;

create function jobforge.prune_artifacts(p_now timestamp with time zone, p_limit integer) returns integer language plpgsql volatile set enable_bitmapscan=off set enable_hashjoin=off set enable_mergejoin=off set enable_seqscan=off set jit=off;
alter function jobforge.prune_artifacts(timestamp with time zone, integer) owner to jf_sys;

create function jobforge.prune_audit(p_now timestamp with time zone, p_limit integer) returns integer language plpgsql volatile set enable_seqscan=off set jit=off;
alter function jobforge.prune_audit(timestamp with time zone, integer) owner to jf_sys;

create function jobforge.prune_bulks(p_now timestamp with time zone, p_limit integer) returns integer language plpgsql volatile;
alter function jobforge.prune_bulks(timestamp with time zone, integer) owner to jf_sys;

create function jobforge.prune_dead_letters(p_now timestamp with time zone, p_limit integer, p_tenant_id uuid, p_at timestamp with time zone, p_id uuid, OUT removed integer, OUT next_tenant uuid, OUT next_at timestamp with time zone, OUT next_id uuid) returns record language plpgsql volatile set enable_bitmapscan=off set enable_seqscan=off set enable_sort=off set jit=off;
alter function jobforge.prune_dead_letters(timestamp with time zone, integer, uuid, timestamp with time zone, uuid) owner to jf_sys;

create function jobforge.prune_defaults(p_now timestamp with time zone, p_limit integer, OUT removed integer, OUT is_full boolean) returns record language plpgsql volatile;
alter function jobforge.prune_defaults(timestamp with time zone, integer) owner to jf_sys;

create function jobforge.prune_keys(p_now timestamp with time zone, p_limit integer, p_after timestamp with time zone, OUT removed integer, OUT next_at timestamp with time zone) returns record language plpgsql volatile set enable_seqscan=off set enable_sort=off set jit=off;
alter function jobforge.prune_keys(timestamp with time zone, integer, timestamp with time zone) owner to jf_sys;

create function jobforge.prune_orphans(p_limit integer, p_tenant_id uuid, p_job_id uuid, OUT removed integer, OUT next_tenant uuid, OUT next_job uuid) returns record language plpgsql volatile set enable_bitmapscan=off set enable_seqscan=off set jit=off;
alter function jobforge.prune_orphans(integer, uuid, uuid) owner to jf_sys;

create function jobforge.prune_position(p_after jsonb, OUT key_at timestamp with time zone, OUT dead_tenant uuid, OUT dead_at timestamp with time zone, OUT dead_id uuid, OUT note_tenant uuid, OUT note_job uuid) returns record language plpgsql stable;
alter function jobforge.prune_position(jsonb) owner to jf_sys;

create function jobforge.prune_runs(p_limit integer) returns void language sql volatile set enable_hashjoin=off set enable_mergejoin=off set enable_seqscan=off set jit=off;
alter function jobforge.prune_runs(integer) owner to jf_sys;

create function jobforge.put_back(p_job jobforge.jobs, p_payload jsonb, p_max_attempts integer, p_now timestamp with time zone) returns void language plpgsql volatile;
alter function jobforge.put_back(jobforge.jobs, jsonb, integer, timestamp with time zone) owner to jf_fn;

create function jobforge.queue_summary(p_limit integer DEFAULT 20000) returns TABLE(queue text, queued bigint, ready bigint, running bigint, dead bigint, estimated boolean, oldest_ready timestamp with time zone, enqueued_rate double precision, completed_rate double precision, failed_rate double precision, workers bigint, slots bigint, sleepers bigint, paused_by text, pause_reason text, paused_until timestamp with time zone) language plpgsql stable security definer set jit=off set search_path=pg_catalog, pg_temp;
alter function jobforge.queue_summary(integer) owner to jf_sys;
grant execute on function jobforge.queue_summary(integer) to jf_operator;

create function jobforge.ran_out_at(p_expires_at timestamp with time zone, p_beat_at timestamp with time zone, p_ttl_seconds integer) returns timestamp with time zone language sql immutable;
alter function jobforge.ran_out_at(timestamp with time zone, timestamp with time zone, integer) owner to jf_sys;
grant execute on function jobforge.ran_out_at(timestamp with time zone, timestamp with time zone, integer) to jf_fn;

create function jobforge.rate_window(p_now timestamp with time zone, OUT first timestamp with time zone, OUT seconds double precision, OUT sampled_at timestamp with time zone) returns record language plpgsql stable security definer set search_path=pg_catalog, pg_temp;
alter function jobforge.rate_window(timestamp with time zone) owner to jf_sys;
grant execute on function jobforge.rate_window(timestamp with time zone) to jf_fn;

create function jobforge.read_cursor(p_cursor text, OUT at timestamp with time zone, OUT id uuid) returns record language plpgsql immutable;
alter function jobforge.read_cursor(text) owner to jf_fn;
grant execute on function jobforge.read_cursor(text) to jf_sys;

create function jobforge.read_filter(p_kind text, p_filter jsonb) returns jobforge.job_filter language plpgsql stable;
alter function jobforge.read_filter(text, jsonb) owner to jf_fn;

create function jobforge.read_marks(p_marks jsonb) returns jobforge.claim_mark[] language plpgsql stable;
alter function jobforge.read_marks(jsonb) owner to jf_sys;

create function jobforge.read_series(p_tenant_id uuid, p_metric text DEFAULT NULL::text, p_from timestamp with time zone DEFAULT NULL::timestamp with time zone, p_to timestamp with time zone DEFAULT NULL::timestamp with time zone, p_points integer DEFAULT 120) returns TABLE(metric text, at timestamp with time zone, value double precision) language plpgsql stable security definer set enable_seqscan=off set jit=off set search_path=pg_catalog, pg_temp;
alter function jobforge.read_series(uuid, text, timestamp with time zone, timestamp with time zone, integer) owner to jf_fn;
grant execute on function jobforge.read_series(uuid, text, timestamp with time zone, timestamp with time zone, integer) to jf_operator;
grant execute on function jobforge.read_series(uuid, text, timestamp with time zone, timestamp with time zone, integer) to jf_tenant;

create function jobforge.read_system_series(p_metric text DEFAULT NULL::text, p_queue text DEFAULT NULL::text, p_from timestamp with time zone DEFAULT NULL::timestamp with time zone, p_to timestamp with time zone DEFAULT NULL::timestamp with time zone, p_points integer DEFAULT 120) returns TABLE(queue text, metric text, at timestamp with time zone, value double precision) language plpgsql stable security definer set jit=off set search_path=pg_catalog, pg_temp;
alter function jobforge.read_system_series(text, text, timestamp with time zone, timestamp with time zone, integer) owner to jf_sys;
grant execute on function jobforge.read_system_series(text, text, timestamp with time zone, timestamp with time zone, integer) to jf_operator;

create function jobforge.reap(p_term bigint, p_limit integer DEFAULT 100) returns TABLE(leases integer, free integer, deaths integer, next_expiry timestamp with time zone) language plpgsql volatile security definer set enable_hashjoin=off set enable_mergejoin=off set enable_seqscan=off set jit=off set plan_cache_mode=force_generic_plan set search_path=pg_catalog, pg_temp;
alter function jobforge.reap(bigint, integer) owner to jf_sys;
grant execute on function jobforge.reap(bigint, integer) to jf_operator;

create function jobforge.reap_lease(p_lease jobforge.leases, p_now timestamp with time zone, OUT leases integer, OUT free integer, OUT deaths integer, OUT queues text[], OUT run_ats timestamp with time zone[]) returns record language plpgsql volatile;
alter function jobforge.reap_lease(jobforge.leases, timestamp with time zone) owner to jf_sys;

create function jobforge.recall_marks(p_queues text[], p_types text[]) returns jsonb language plpgsql volatile security definer set search_path=pg_catalog, pg_temp;
alter function jobforge.recall_marks(text[], text[]) owner to jf_sys;
grant execute on function jobforge.recall_marks(text[], text[]) to jf_worker;

create function jobforge.record_audit(p_tenant_id uuid, p_action text, p_subject_kind text DEFAULT NULL::text, p_subject_id text DEFAULT NULL::text, p_detail jsonb DEFAULT '{}'::jsonb) returns void language plpgsql volatile security definer set search_path=pg_catalog, pg_temp;
alter function jobforge.record_audit(uuid, text, text, text, jsonb) owner to jf_sys;
grant execute on function jobforge.record_audit(uuid, text, text, text, jsonb) to jf_operator;

create function jobforge.redact(p_value jsonb, p_paths text[]) returns jsonb language plpgsql immutable;
alter function jobforge.redact(jsonb, text[]) owner to jf_fn;

create function jobforge.redact_at(p_value jsonb, p_steps text[]) returns jsonb language plpgsql immutable;
alter function jobforge.redact_at(jsonb, text[]) owner to jf_fn;

create function jobforge.redact_before(p_before jsonb) returns jsonb language sql stable;
alter function jobforge.redact_before(jsonb) owner to jf_fn;

create function jobforge.redact_patch(p_patch jsonb, p_filter jsonb) returns jsonb language sql stable;
alter function jobforge.redact_patch(jsonb, jsonb) owner to jf_fn;

create function jobforge.redact_paths(p_type text) returns text[] language plpgsql stable;
alter function jobforge.redact_paths(text) owner to jf_fn;

create function jobforge.redact_payload(p_payload jsonb, p_paths text[]) returns jsonb language sql immutable;
alter function jobforge.redact_payload(jsonb, text[]) owner to jf_fn;

create function jobforge.redact_strings(p_value jsonb, p_secrets text[]) returns jsonb language plpgsql immutable;
alter function jobforge.redact_strings(jsonb, text[]) owner to jf_fn;

create function jobforge.redact_text(p_text text, p_secrets text[]) returns text language plpgsql immutable;
alter function jobforge.redact_text(text, text[]) owner to jf_fn;
grant execute on function jobforge.redact_text(text, text[]) to jf_sys;

create function jobforge.redact_under(p_value jsonb, p_at text[], p_paths text[]) returns jsonb language plpgsql immutable;
alter function jobforge.redact_under(jsonb, text[], text[]) owner to jf_fn;

create function jobforge.redacted_values(p_value jsonb, p_paths text[]) returns text[] language sql immutable;
alter function jobforge.redacted_values(jsonb, text[]) owner to jf_fn;
grant execute on function jobforge.redacted_values(jsonb, text[]) to jf_sys;

create function jobforge.redrive_jobs(p_tenant_id uuid, p_job_ids uuid[] DEFAULT NULL::uuid[], p_fingerprint text DEFAULT NULL::text, p_type text DEFAULT NULL::text, p_queue text DEFAULT NULL::text, p_failed_after timestamp with time zone DEFAULT NULL::timestamp with time zone, p_failed_before timestamp with time zone DEFAULT NULL::timestamp with time zone, p_patch jsonb DEFAULT NULL::jsonb, p_max_attempts integer DEFAULT NULL::integer, p_reason text DEFAULT NULL::text, p_dry_run boolean DEFAULT false, p_limit integer DEFAULT 1000, p_cursor text DEFAULT NULL::text, p_budget_ms integer DEFAULT 2000) returns TABLE(id uuid, verdict text, error_code text, error_reason text, operation_id uuid, next_cursor text, complete boolean) language plpgsql volatile security definer set enable_bitmapscan=off set enable_seqscan=off set jit=off set search_path=pg_catalog, pg_temp;
alter function jobforge.redrive_jobs(uuid, uuid[], text, text, text, timestamp with time zone, timestamp with time zone, jsonb, integer, text, boolean, integer, text, integer) owner to jf_fn;
grant execute on function jobforge.redrive_jobs(uuid, uuid[], text, text, text, timestamp with time zone, timestamp with time zone, jsonb, integer, text, boolean, integer, text, integer) to jf_operator;
grant execute on function jobforge.redrive_jobs(uuid, uuid[], text, text, text, timestamp with time zone, timestamp with time zone, jsonb, integer, text, boolean, integer, text, integer) to jf_tenant;

create function jobforge.redrive_row(p_tenant_id uuid, p_job_id uuid, p_patch jsonb, p_max_attempts integer, p_room integer, p_dry_run boolean, p_now timestamp with time zone, OUT problem text, OUT before jsonb) returns record language plpgsql volatile;
alter function jobforge.redrive_row(uuid, uuid, jsonb, integer, integer, boolean, timestamp with time zone) owner to jf_fn;

create function jobforge.redrive_rows(p_tenant_id uuid, p_operation_id uuid, p_job_ids uuid[], p_patch jsonb, p_max_attempts integer, p_now timestamp with time zone) returns TABLE(id uuid, verdict text, error_code text, error_reason text) language plpgsql volatile;
alter function jobforge.redrive_rows(uuid, uuid, uuid[], jsonb, integer, timestamp with time zone) owner to jf_fn;

create function jobforge.refresh_candidates(p_gate jobforge.claim_gate, p_now timestamp with time zone) returns void language plpgsql volatile;
alter function jobforge.refresh_candidates(jobforge.claim_gate, timestamp with time zone) owner to jf_sys;

create function jobforge.refuse(p_code text, p_reason text, p_message text) returns void language plpgsql immutable;
alter function jobforge.refuse(text, text, text) owner to jf_sys;
grant execute on function jobforge.refuse(text, text, text) to jf_fn;
grant execute on function jobforge.refuse(text, text, text) to jf_owner;

create function jobforge.refuse_stale(p_lease_id uuid, p_tenant_id uuid, p_job_id uuid, p_fence integer, p_now timestamp with time zone) returns void language plpgsql volatile;
alter function jobforge.refuse_stale(uuid, uuid, uuid, integer, timestamp with time zone) owner to jf_sys;

create function jobforge.refuse_unknown_config(p_operation text, p_name text) returns void language plpgsql immutable;
alter function jobforge.refuse_unknown_config(text, text) owner to jf_fn;
grant execute on function jobforge.refuse_unknown_config(text, text) to jf_sys;

create function jobforge.register_worker(p_worker_id text, p_host text, p_pid integer, p_version text, p_queues text[], p_types text[], p_slots integer DEFAULT 1, p_metadata jsonb DEFAULT '{}'::jsonb) returns integer language plpgsql volatile security definer set search_path=pg_catalog, pg_temp;
alter function jobforge.register_worker(text, text, integer, text, text[], text[], integer, jsonb) owner to jf_sys;
grant execute on function jobforge.register_worker(text, text, integer, text, text[], text[], integer, jsonb) to jf_worker;

create function jobforge.rehearse_complete() returns void language plpgsql volatile security definer set enable_bitmapscan=off set enable_hashjoin=off set enable_mergejoin=off set enable_seqscan=off set jit=off set plan_cache_mode=force_generic_plan set search_path=pg_catalog, pg_temp;
alter function jobforge.rehearse_complete() owner to jf_sys;
grant execute on function jobforge.rehearse_complete() to jf_worker;

create function jobforge.release_artifact(p_tenant_id uuid, p_ref text, p_now timestamp with time zone) returns void language sql volatile;
alter function jobforge.release_artifact(uuid, text, timestamp with time zone) owner to jf_sys;
grant execute on function jobforge.release_artifact(uuid, text, timestamp with time zone) to jf_fn;

create function jobforge.release_jobs(p_lease_id uuid, p_tenant_ids uuid[] DEFAULT NULL::uuid[], p_job_ids uuid[] DEFAULT NULL::uuid[], p_fences integer[] DEFAULT NULL::integer[]) returns TABLE(at integer, verdict text) language plpgsql volatile security definer set enable_hashjoin=off set enable_mergejoin=off set enable_seqscan=off set jit=off set lock_timeout=100ms set plan_cache_mode=force_generic_plan set search_path=pg_catalog, pg_temp;
alter function jobforge.release_jobs(uuid, uuid[], uuid[], integer[]) owner to jf_sys;
grant execute on function jobforge.release_jobs(uuid, uuid[], uuid[], integer[]) to jf_worker;

create function jobforge.release_others(p_lease_id uuid, p_tenant_ids uuid[], p_job_ids uuid[], p_fences integer[]) returns integer language plpgsql volatile security definer set enable_mergejoin=off set enable_seqscan=off set jit=off set lock_timeout=100ms set plan_cache_mode=force_generic_plan set search_path=pg_catalog, pg_temp;
alter function jobforge.release_others(uuid, uuid[], uuid[], integer[]) owner to jf_sys;
grant execute on function jobforge.release_others(uuid, uuid[], uuid[], integer[]) to jf_worker;

create function jobforge.report_exit(p_lease_id uuid, p_tenant_id uuid, p_job_id uuid, p_fence integer, p_pid integer, p_exit_code integer DEFAULT NULL::integer, p_signal integer DEFAULT NULL::integer, p_stdout_tail text DEFAULT NULL::text, p_stderr_tail text DEFAULT NULL::text) returns boolean language plpgsql volatile security definer set enable_seqscan=off set jit=off set lock_timeout=100ms set search_path=pg_catalog, pg_temp;
alter function jobforge.report_exit(uuid, uuid, uuid, integer, integer, integer, integer, text, text) owner to jf_sys;
grant execute on function jobforge.report_exit(uuid, uuid, uuid, integer, integer, integer, integer, text, text) to jf_worker;

create function jobforge.report_progress(p_lease_id uuid, p_tenant_id uuid, p_job_id uuid, p_fence integer, p_percent real, p_message text DEFAULT ''::text) returns boolean language plpgsql volatile security definer set enable_seqscan=off set jit=off set lock_timeout=100ms set search_path=pg_catalog, pg_temp;
alter function jobforge.report_progress(uuid, uuid, uuid, integer, real, text) owner to jf_sys;
grant execute on function jobforge.report_progress(uuid, uuid, uuid, integer, real, text) to jf_worker;

create function jobforge.require_age(p_age interval) returns void language plpgsql immutable;
alter function jobforge.require_age(interval) owner to jf_sys;

create function jobforge.require_author(p_author text) returns void language plpgsql immutable;
alter function jobforge.require_author(text) owner to jf_sys;

create function jobforge.require_bulk(p_operation jobforge.bulk_operations, p_operation_id uuid) returns jobforge.bulk_operations language plpgsql immutable;
alter function jobforge.require_bulk(jobforge.bulk_operations, uuid) owner to jf_fn;

create function jobforge.require_claim(p_worker_id text, p_queues text[], p_types text[], p_limit integer, p_cursor jsonb, p_free integer DEFAULT NULL::integer, p_window integer DEFAULT NULL::integer, p_quick boolean DEFAULT false) returns void language plpgsql immutable;
alter function jobforge.require_claim(text, text[], text[], integer, jsonb, integer, integer, boolean) owner to jf_sys;

create function jobforge.require_clear(p_clear text[], p_known text[]) returns void language plpgsql immutable;
alter function jobforge.require_clear(text[], text[]) owner to jf_sys;

create function jobforge.require_columns(p_rows integer, VARIADIC p_lengths integer[]) returns void language plpgsql immutable;
alter function jobforge.require_columns(integer, integer[]) owner to jf_fn;
grant execute on function jobforge.require_columns(integer, integer[]) to jf_sys;

create function jobforge.require_connector_name(p_name text) returns void language plpgsql immutable;
alter function jobforge.require_connector_name(text) owner to jf_fn;

create function jobforge.require_connector_secrets(p_config text, p_secrets jsonb) returns void language plpgsql immutable;
alter function jobforge.require_connector_secrets(text, jsonb) owner to jf_fn;

create function jobforge.require_held(p_lease_id uuid, p_tenant_id uuid, p_job_id uuid, p_fence integer, p_now timestamp with time zone) returns void language plpgsql volatile;
alter function jobforge.require_held(uuid, uuid, uuid, integer, timestamp with time zone) owner to jf_sys;

create function jobforge.require_lease(p_lease_id uuid, p_now timestamp with time zone) returns jobforge.leases language plpgsql volatile;
alter function jobforge.require_lease(uuid, timestamp with time zone) owner to jf_sys;

create function jobforge.require_limit(p_limit integer) returns void language plpgsql immutable;
alter function jobforge.require_limit(integer) owner to jf_sys;
grant execute on function jobforge.require_limit(integer) to jf_fn;
grant execute on function jobforge.require_limit(integer) to jf_owner;

create function jobforge.require_listed(p_tenant_ids uuid[], p_job_ids uuid[], p_fences integer[]) returns void language plpgsql immutable;
alter function jobforge.require_listed(uuid[], uuid[], integer[]) owner to jf_sys;

create function jobforge.require_new_key(p_id text, p_secret_sha256 bytea, p_role text, p_tenant_id uuid) returns void language plpgsql immutable;
alter function jobforge.require_new_key(text, bytea, text, uuid) owner to jf_sys;

create function jobforge.require_patch(p_patch jsonb) returns void language plpgsql immutable;
alter function jobforge.require_patch(jsonb) owner to jf_fn;

create function jobforge.require_paths(p_key text, p_paths text[]) returns void language plpgsql immutable;
alter function jobforge.require_paths(text, text[]) owner to jf_sys;

create function jobforge.require_pausable(p_kind text, p_name text) returns void language plpgsql stable;
alter function jobforge.require_pausable(text, text) owner to jf_sys;

create function jobforge.require_period(p_from timestamp with time zone, p_to timestamp with time zone, p_group_by text, p_groups text[]) returns void language plpgsql immutable;
alter function jobforge.require_period(timestamp with time zone, timestamp with time zone, text, text[]) owner to jf_sys;

create function jobforge.require_redrive(p_patch jsonb, p_max_attempts integer, p_reason text, p_limit integer, p_budget_ms integer) returns void language plpgsql immutable;
alter function jobforge.require_redrive(jsonb, integer, text, integer, integer) owner to jf_fn;

create function jobforge.require_schema(p_key text, p_schema jsonb) returns void language plpgsql immutable;
alter function jobforge.require_schema(text, jsonb) owner to jf_sys;

create function jobforge.require_series(p_metric text, p_from timestamp with time zone, p_to timestamp with time zone, p_points integer) returns void language plpgsql immutable;
alter function jobforge.require_series(text, timestamp with time zone, timestamp with time zone, integer) owner to jf_sys;
grant execute on function jobforge.require_series(text, timestamp with time zone, timestamp with time zone, integer) to jf_fn;

create function jobforge.require_tenant(p_tenant_id uuid) returns void language plpgsql stable;
alter function jobforge.require_tenant(uuid) owner to jf_sys;
grant execute on function jobforge.require_tenant(uuid) to jf_fn;

create function jobforge.require_term(p_term bigint) returns void language plpgsql stable security definer set search_path=pg_catalog, pg_temp;
alter function jobforge.require_term(bigint) owner to jf_sys;
grant execute on function jobforge.require_term(bigint) to jf_owner;

create function jobforge.require_verdict(p_verdict text, p_job_id uuid) returns text language plpgsql immutable;
alter function jobforge.require_verdict(text, uuid) owner to jf_sys;

create function jobforge.require_worker_id(p_worker_id text) returns void language plpgsql immutable;
alter function jobforge.require_worker_id(text) owner to jf_sys;

create function jobforge.reschedule_job(p_tenant_id uuid, p_job_id uuid, p_run_at timestamp with time zone DEFAULT NULL::timestamp with time zone, p_max_attempts integer DEFAULT NULL::integer) returns TABLE(id uuid, status text, run_at timestamp with time zone, max_attempts integer) language plpgsql volatile security definer set enable_seqscan=off set jit=off set search_path=pg_catalog, pg_temp;
alter function jobforge.reschedule_job(uuid, uuid, timestamp with time zone, integer) owner to jf_fn;
grant execute on function jobforge.reschedule_job(uuid, uuid, timestamp with time zone, integer) to jf_operator;
grant execute on function jobforge.reschedule_job(uuid, uuid, timestamp with time zone, integer) to jf_tenant;

create function jobforge.reseal_secret(p_tenant_id uuid, p_config text, p_name text, p_was bytea, p_key_id text, p_sealed bytea) returns boolean language plpgsql volatile security definer set enable_seqscan=off set jit=off set search_path=pg_catalog, pg_temp;
alter function jobforge.reseal_secret(uuid, text, text, bytea, text, bytea) owner to jf_sys;
grant execute on function jobforge.reseal_secret(uuid, text, text, bytea, text, bytea) to jf_operator;

create function jobforge.resign(p_holder text) returns boolean language plpgsql volatile security definer set search_path=pg_catalog, pg_temp;
alter function jobforge.resign(text) owner to jf_sys;
grant execute on function jobforge.resign(text) to jf_operator;

create function jobforge.resume(p_kind text, p_name text, p_author text DEFAULT NULL::text) returns boolean language plpgsql volatile security definer set search_path=pg_catalog, pg_temp;
alter function jobforge.resume(text, text, text) owner to jf_sys;
grant execute on function jobforge.resume(text, text, text) to jf_operator;

create function jobforge.retention_classes() returns TABLE(class text, unit text, step interval, life interval) language sql immutable;
alter function jobforge.retention_classes() owner to jf_sys;
grant execute on function jobforge.retention_classes() to jf_owner;

create function jobforge.retire(p_status text, p_lease_id uuid, p_places tid[], p_results jsonb[], p_error text, p_now timestamp with time zone, OUT places tid[], OUT tenant_ids uuid[], OUT job_ids uuid[], OUT fences integer[]) returns record language plpgsql volatile;
alter function jobforge.retire(text, uuid, tid[], jsonb[], text, timestamp with time zone) owner to jf_sys;
grant execute on function jobforge.retire(text, uuid, tid[], jsonb[], text, timestamp with time zone) to jf_fn;

create function jobforge.retire_at(p_lease_id uuid, p_tenant_ids uuid[], p_job_ids uuid[], p_fences integer[], p_results jsonb[], p_places tid[], p_now timestamp with time zone) returns integer[] language plpgsql volatile;
alter function jobforge.retire_at(uuid, uuid[], uuid[], integer[], jsonb[], tid[], timestamp with time zone) owner to jf_sys;

create function jobforge.retire_by_key(p_status text, p_lease_id uuid, p_tenant_ids uuid[], p_job_ids uuid[], p_fences integer[], p_results jsonb[], p_error text, p_now timestamp with time zone) returns integer[] language plpgsql volatile;
alter function jobforge.retire_by_key(text, uuid, uuid[], uuid[], integer[], jsonb[], text, timestamp with time zone) owner to jf_sys;
grant execute on function jobforge.retire_by_key(text, uuid, uuid[], uuid[], integer[], jsonb[], text, timestamp with time zone) to jf_fn;

create function jobforge.retire_notes(p_tenant_id uuid, p_job_id uuid, p_now timestamp with time zone) returns void language plpgsql volatile;
alter function jobforge.retire_notes(uuid, uuid, timestamp with time zone) owner to jf_sys;
grant execute on function jobforge.retire_notes(uuid, uuid, timestamp with time zone) to jf_fn;

create function jobforge.retry_job(p_tenant_id uuid, p_job_id uuid) returns TABLE(id uuid, status text, run_at timestamp with time zone) language plpgsql volatile security definer set enable_seqscan=off set jit=off set search_path=pg_catalog, pg_temp;
alter function jobforge.retry_job(uuid, uuid) owner to jf_fn;
grant execute on function jobforge.retry_job(uuid, uuid) to jf_operator;
grant execute on function jobforge.retry_job(uuid, uuid) to jf_tenant;

create function jobforge.revival_problem(p_job jobforge.jobs, p_room integer) returns text language sql stable;
alter function jobforge.revival_problem(jobforge.jobs, integer) owner to jf_fn;

create function jobforge.revive(p_job jobforge.jobs, p_payload jsonb, p_max_attempts integer, p_now timestamp with time zone) returns text language plpgsql volatile;
alter function jobforge.revive(jobforge.jobs, jsonb, integer, timestamp with time zone) owner to jf_fn;

create function jobforge.revoke_api_key(p_id text, p_author text DEFAULT NULL::text, p_tenant_id uuid DEFAULT NULL::uuid) returns boolean language plpgsql volatile security definer set enable_seqscan=off set jit=off set search_path=pg_catalog, pg_temp;
alter function jobforge.revoke_api_key(text, text, uuid) owner to jf_sys;
grant execute on function jobforge.revoke_api_key(text, text, uuid) to jf_operator;

create function jobforge.room_to_wait(p_tenant_id uuid, p_now timestamp with time zone) returns integer language sql volatile;
alter function jobforge.room_to_wait(uuid, timestamp with time zone) owner to jf_fn;

create function jobforge.runs_of(p_kind text, p_name text) returns integer language sql volatile;
alter function jobforge.runs_of(text, text) owner to jf_sys;

create function jobforge.sample_stats(p_term bigint, p_limit integer DEFAULT 100000) returns integer language plpgsql volatile security definer set jit=off set search_path=pg_catalog, pg_temp;
alter function jobforge.sample_stats(bigint, integer) owner to jf_sys;
grant execute on function jobforge.sample_stats(bigint, integer) to jf_operator;

create function jobforge.scan_bulk(p_tenant_id uuid, p_kind text, p_filter jobforge.job_filter, p_at timestamp with time zone, p_id uuid, p_until timestamp with time zone, p_limit integer) returns TABLE(at timestamp with time zone, id uuid, matched boolean) language plpgsql stable;
alter function jobforge.scan_bulk(uuid, text, jobforge.job_filter, timestamp with time zone, uuid, timestamp with time zone, integer) owner to jf_fn;

create function jobforge.scan_dead_letters(p_tenant_id uuid, p_filter jobforge.job_filter, p_at timestamp with time zone, p_id uuid, p_until timestamp with time zone, p_limit integer) returns TABLE(finished_at timestamp with time zone, id uuid, matched boolean) language sql stable;
alter function jobforge.scan_dead_letters(uuid, jobforge.job_filter, timestamp with time zone, uuid, timestamp with time zone, integer) owner to jf_fn;

create function jobforge.schema_parts(p_root jsonb, p_node jsonb, p_path text, p_refs text[], p_ats text[]) returns TABLE(node jsonb, path text, refs text[], ats text[], hidden boolean) language plpgsql stable;
alter function jobforge.schema_parts(jsonb, jsonb, text, text[], text[]) owner to jf_sys;

create function jobforge.schema_target(p_root jsonb, p_ref text) returns jsonb language plpgsql stable;
alter function jobforge.schema_target(jsonb, text) owner to jf_sys;

create function jobforge.settle(p_outcome text, p_failures integer, p_deaths integer, p_max_attempts integer, p_cancel_at timestamp with time zone, p_definition jobforge.definitions, p_retry_after_ms bigint, p_now timestamp with time zone, OUT status text, OUT run_at timestamp with time zone) returns record language plpgsql volatile;
alter function jobforge.settle(text, integer, integer, integer, timestamp with time zone, jobforge.definitions, bigint, timestamp with time zone) owner to jf_sys;

create function jobforge.share_left(p_turn jobforge.claim_turn, p_weighted boolean, p_hungry uuid[], p_left integer) returns jobforge.claim_turn language plpgsql stable;
alter function jobforge.share_left(jobforge.claim_turn, boolean, uuid[], integer) owner to jf_sys;

create function jobforge.share_out(p_turn jobforge.claim_turn, p_weighted boolean, p_limit integer) returns jobforge.claim_turn language plpgsql stable;
alter function jobforge.share_out(jobforge.claim_turn, boolean, integer) owner to jf_sys;

create function jobforge.sleep_worker(p_worker_id text, p_queues text[], p_types text[], p_seconds integer DEFAULT 60) returns timestamp with time zone language plpgsql volatile security definer set search_path=pg_catalog, pg_temp;
alter function jobforge.sleep_worker(text, text[], text[], integer) owner to jf_sys;
grant execute on function jobforge.sleep_worker(text, text[], text[], integer) to jf_worker;

create function jobforge.snooze_job(p_lease_id uuid, p_tenant_id uuid, p_job_id uuid, p_fence integer, p_seconds double precision) returns timestamp with time zone language plpgsql volatile security definer set enable_seqscan=off set jit=off set lock_timeout=100ms set search_path=pg_catalog, pg_temp;
alter function jobforge.snooze_job(uuid, uuid, uuid, integer, double precision) owner to jf_sys;
grant execute on function jobforge.snooze_job(uuid, uuid, uuid, integer, double precision) to jf_worker;

create function jobforge.solo_lease(p_lease jobforge.leases, p_now timestamp with time zone) returns jobforge.leases language plpgsql volatile;
alter function jobforge.solo_lease(jobforge.leases, timestamp with time zone) owner to jf_sys;

create function jobforge.start_bulk(p_tenant_id uuid, p_kind text, p_filter jsonb, p_reason text DEFAULT NULL::text, p_patch jsonb DEFAULT NULL::jsonb, p_max_attempts integer DEFAULT NULL::integer, p_dry_run boolean DEFAULT false) returns jobforge.bulk_operation language plpgsql volatile security definer set enable_bitmapscan=off set enable_seqscan=off set jit=off set search_path=pg_catalog, pg_temp;
alter function jobforge.start_bulk(uuid, text, jsonb, text, jsonb, integer, boolean) owner to jf_fn;
grant execute on function jobforge.start_bulk(uuid, text, jsonb, text, jsonb, integer, boolean) to jf_operator;
grant execute on function jobforge.start_bulk(uuid, text, jsonb, text, jsonb, integer, boolean) to jf_tenant;

create function jobforge.state_problem(p_tenant_id uuid, p_job_id uuid) returns text language sql stable;
alter function jobforge.state_problem(uuid, uuid) owner to jf_fn;

create function jobforge.step_bulk(p_tenant_id uuid, p_operation_id uuid, p_limit integer DEFAULT 500) returns jobforge.bulk_operation language plpgsql volatile security definer set enable_bitmapscan=off set enable_seqscan=off set jit=off set search_path=pg_catalog, pg_temp;
alter function jobforge.step_bulk(uuid, uuid, integer) owner to jf_fn;
grant execute on function jobforge.step_bulk(uuid, uuid, integer) to jf_operator;
grant execute on function jobforge.step_bulk(uuid, uuid, integer) to jf_tenant;

create function jobforge.step_key(p_step text) returns text language sql immutable;
alter function jobforge.step_key(text) owner to jf_fn;
grant execute on function jobforge.step_key(text) to jf_sys;

create function jobforge.stop_worker(p_worker_id text) returns boolean language plpgsql volatile security definer set search_path=pg_catalog, pg_temp;
alter function jobforge.stop_worker(text) owner to jf_sys;
grant execute on function jobforge.stop_worker(text) to jf_worker;

create function jobforge.store_connector_secrets(p_tenant_id uuid, p_config text, p_secrets jsonb, p_now timestamp with time zone) returns void language plpgsql volatile;
alter function jobforge.store_connector_secrets(uuid, text, jsonb, timestamp with time zone) owner to jf_fn;

create function jobforge.survey(p_queues text[], p_types text[], OUT timeouts integer[], OUT apart boolean, OUT gated boolean) returns record language plpgsql volatile;
alter function jobforge.survey(text[], text[]) owner to jf_sys;

create function jobforge.sweep(p_queue text, p_lanes text, p_now timestamp with time zone) returns timestamp with time zone language plpgsql volatile;
alter function jobforge.sweep(text, text, timestamp with time zone) owner to jf_sys;

create function jobforge.sweep_on(p_gate jobforge.claim_gate, p_cursor jsonb, p_marks jobforge.claim_mark[], p_lanes text[], p_now timestamp with time zone) returns void language plpgsql volatile;
alter function jobforge.sweep_on(jobforge.claim_gate, jsonb, jobforge.claim_mark[], text[], timestamp with time zone) owner to jf_sys;

create function jobforge.system_state(p_limit integer DEFAULT 100) returns TABLE(leader_holder text, leader_term bigint, leader_expires_at timestamp with time zone, leader_alive_at timestamp with time zone, leads boolean, server_started_at timestamp with time zone, live_leases bigint, expired_leases bigint, oldest_beat_at timestamp with time zone, live_workers bigint, silent_workers bigint, sleepers bigint, tenants bigint, pauses bigint, sampled_at timestamp with time zone, leases jsonb) language plpgsql stable security definer set search_path=pg_catalog, pg_temp;
alter function jobforge.system_state(integer) owner to jf_sys;
grant execute on function jobforge.system_state(integer) to jf_operator;

create function jobforge.take_one(p_lease jobforge.leases, p_place tid, p_queues text[], p_types text[], p_now timestamp with time zone) returns jobforge.claimed language plpgsql volatile;
alter function jobforge.take_one(jobforge.leases, tid, text[], text[], timestamp with time zone) owner to jf_sys;

create function jobforge.take_turns(p_gate jobforge.claim_gate, p_bound uuid, p_turn jobforge.claim_turn, p_limit integer, p_marks jobforge.claim_mark[], p_now timestamp with time zone) returns jobforge.claim_turn language plpgsql volatile;
alter function jobforge.take_turns(jobforge.claim_gate, uuid, jobforge.claim_turn, integer, jobforge.claim_mark[], timestamp with time zone) owner to jf_sys;

create function jobforge.taken_ids(p_tenant_id uuid, p_ids uuid[], p_now timestamp with time zone) returns uuid[] language plpgsql volatile set plan_cache_mode=force_custom_plan;
alter function jobforge.taken_ids(uuid, uuid[], timestamp with time zone) owner to jf_fn;

create function jobforge.tell_bulk(p_operation jobforge.bulk_operations) returns jobforge.bulk_operation language sql stable;
alter function jobforge.tell_bulk(jobforge.bulk_operations) owner to jf_fn;

create function jobforge.tenant_room(p_tenant_id uuid, p_now timestamp with time zone, OUT room integer, OUT retry_at timestamp with time zone) returns record language plpgsql volatile;
alter function jobforge.tenant_room(uuid, timestamp with time zone) owner to jf_sys;

create function jobforge.token_at(p_tokens double precision, p_rate double precision, p_now timestamp with time zone) returns timestamp with time zone language sql immutable;
alter function jobforge.token_at(double precision, double precision, timestamp with time zone) owner to jf_sys;

create function jobforge.tokens(p_kind text, p_name text, p_rate double precision, p_burst integer, p_now timestamp with time zone) returns double precision language sql stable;
alter function jobforge.tokens(text, text, double precision, integer, timestamp with time zone) owner to jf_sys;

create function jobforge.tokens_now(p_tenant_id uuid, p_kind text, p_name text, p_rate double precision, p_burst double precision, p_now timestamp with time zone) returns double precision language plpgsql stable security definer set search_path=pg_catalog, pg_temp;
alter function jobforge.tokens_now(uuid, text, text, double precision, double precision, timestamp with time zone) owner to jf_sys;
grant execute on function jobforge.tokens_now(uuid, text, text, double precision, double precision, timestamp with time zone) to jf_fn;

create function jobforge.touch_api_keys(p_ids text[], p_at timestamp with time zone[]) returns integer language plpgsql volatile security definer set enable_hashjoin=off set enable_mergejoin=off set enable_seqscan=off set jit=off set search_path=pg_catalog, pg_temp;
alter function jobforge.touch_api_keys(text[], timestamp with time zone[]) owner to jf_sys;
grant execute on function jobforge.touch_api_keys(text[], timestamp with time zone[]) to jf_operator;

create function jobforge.trusted_marks(p_marks jsonb, p_queues text[], p_types text[], p_now timestamp with time zone) returns jobforge.claim_mark[] language plpgsql volatile;
alter function jobforge.trusted_marks(jsonb, text[], text[], timestamp with time zone) owner to jf_sys;

create function jobforge.uncovers(p_document jsonb, p_op jsonb, p_hidden text[]) returns boolean language plpgsql immutable;
alter function jobforge.uncovers(jsonb, jsonb, text[]) owner to jf_fn;

create function jobforge.undo_bulk(p_tenant_id uuid, p_operation_id uuid, p_limit integer DEFAULT 500) returns jobforge.bulk_operation language plpgsql volatile security definer set enable_bitmapscan=off set enable_seqscan=off set jit=off set search_path=pg_catalog, pg_temp;
alter function jobforge.undo_bulk(uuid, uuid, integer) owner to jf_fn;
grant execute on function jobforge.undo_bulk(uuid, uuid, integer) to jf_operator;
grant execute on function jobforge.undo_bulk(uuid, uuid, integer) to jf_tenant;

create function jobforge.undo_redrive(p_tenant_id uuid, p_job_id uuid, p_before jsonb) returns text language plpgsql volatile;
alter function jobforge.undo_redrive(uuid, uuid, jsonb) owner to jf_fn;

create function jobforge.upkeep_partitions(p_term bigint, p_limit integer DEFAULT 100) returns TABLE(made integer, dropped integer, refused integer) language plpgsql volatile security definer set lock_timeout=50ms set search_path=pg_catalog, pg_temp;
alter function jobforge.upkeep_partitions(bigint, integer) owner to jf_owner;
grant execute on function jobforge.upkeep_partitions(bigint, integer) to jf_operator;

create function jobforge.upsert_connector_config(p_tenant_id uuid, p_name text, p_settings jsonb DEFAULT NULL::jsonb, p_secrets jsonb DEFAULT NULL::jsonb, p_updated_by text DEFAULT NULL::text) returns TABLE(name text, settings jsonb, secrets jsonb, disabled_at timestamp with time zone, disabled_reason text, created_at timestamp with time zone, updated_at timestamp with time zone, updated_by text) language plpgsql volatile security definer set enable_seqscan=off set jit=off set search_path=pg_catalog, pg_temp;
alter function jobforge.upsert_connector_config(uuid, text, jsonb, jsonb, text) owner to jf_fn;
grant execute on function jobforge.upsert_connector_config(uuid, text, jsonb, jsonb, text) to jf_operator;
grant execute on function jobforge.upsert_connector_config(uuid, text, jsonb, jsonb, text) to jf_tenant;

create function jobforge.upsert_definition(p_key text, p_description text DEFAULT NULL::text, p_queue text DEFAULT NULL::text, p_priority integer DEFAULT NULL::integer, p_timeout_seconds integer DEFAULT NULL::integer, p_max_attempts integer DEFAULT NULL::integer, p_max_deaths integer DEFAULT NULL::integer, p_retry_preset text DEFAULT NULL::text, p_retry_base_ms bigint DEFAULT NULL::bigint, p_retry_factor real DEFAULT NULL::real, p_retry_cap_ms bigint DEFAULT NULL::bigint, p_retry_jitter real DEFAULT NULL::real, p_retention text DEFAULT NULL::text, p_is_active boolean DEFAULT NULL::boolean, p_max_in_flight integer DEFAULT NULL::integer, p_max_in_flight_per_key integer DEFAULT NULL::integer, p_rate_per_second double precision DEFAULT NULL::double precision, p_rate_burst integer DEFAULT NULL::integer, p_dead_retention text DEFAULT NULL::text, p_clear text[] DEFAULT '{}'::text[], p_arg_schema jsonb DEFAULT NULL::jsonb, p_redact text[] DEFAULT NULL::text[], p_only_new boolean DEFAULT false, p_unchanged_since timestamp with time zone DEFAULT NULL::timestamp with time zone) returns text language plpgsql volatile security definer set search_path=pg_catalog, pg_temp;
alter function jobforge.upsert_definition(text, text, text, integer, integer, integer, integer, text, bigint, real, bigint, real, text, boolean, integer, integer, double precision, integer, text, text[], jsonb, text[], boolean, timestamp with time zone) owner to jf_sys;
grant execute on function jobforge.upsert_definition(text, text, text, integer, integer, integer, integer, text, bigint, real, bigint, real, text, boolean, integer, integer, double precision, integer, text, text[], jsonb, text[], boolean, timestamp with time zone) to jf_operator;

create function jobforge.upsert_tenant(p_tenant_id uuid, p_name text DEFAULT NULL::text, p_weight integer DEFAULT NULL::integer, p_max_pending integer DEFAULT NULL::integer, p_max_in_flight integer DEFAULT NULL::integer, p_rate_per_second double precision DEFAULT NULL::double precision, p_rate_burst integer DEFAULT NULL::integer, p_retention text DEFAULT NULL::text, p_clear text[] DEFAULT '{}'::text[], p_time_zone text DEFAULT NULL::text) returns uuid language plpgsql volatile security definer set search_path=pg_catalog, pg_temp;
alter function jobforge.upsert_tenant(uuid, text, integer, integer, integer, double precision, integer, text, text[], text) owner to jf_sys;
grant execute on function jobforge.upsert_tenant(uuid, text, integer, integer, integer, double precision, integer, text, text[], text) to jf_operator;

create function jobforge.values_at(p_value jsonb, p_steps text[]) returns SETOF jsonb language plpgsql immutable;
alter function jobforge.values_at(jsonb, text[]) owner to jf_fn;
grant execute on function jobforge.values_at(jsonb, text[]) to jf_sys;

create function jobforge.verdicts(p_lease_id uuid, p_tenant_ids uuid[], p_job_ids uuid[], p_fences integer[], p_done integer[], p_now timestamp with time zone) returns TABLE(at integer, verdict text) language sql stable;
alter function jobforge.verdicts(uuid, uuid[], uuid[], integer[], integer[], timestamp with time zone) owner to jf_sys;

create function jobforge.waits_since(p_kind text, p_name text) returns timestamp with time zone language plpgsql stable set enable_seqscan=off set jit=off;
alter function jobforge.waits_since(text, text) owner to jf_sys;

create function jobforge.wake(p_types text[], p_queues text[], p_now timestamp with time zone) returns void language plpgsql volatile;
alter function jobforge.wake(text[], text[], timestamp with time zone) owner to jf_fn;
grant execute on function jobforge.wake(text[], text[], timestamp with time zone) to jf_sys;

create function jobforge.wake_worker(p_worker_id text) returns boolean language plpgsql volatile security definer set search_path=pg_catalog, pg_temp;
alter function jobforge.wake_worker(text) owner to jf_sys;
grant execute on function jobforge.wake_worker(text) to jf_worker;

create function jobforge.walk_ranges(p_marks jobforge.claim_mark[], p_queue text, p_type text, p_tenant_id uuid) returns TABLE(priority smallint, run_at timestamp with time zone, id uuid, through integer) language sql immutable rows 1;
alter function jobforge.walk_ranges(jobforge.claim_mark[], text, text, uuid) owner to jf_sys;

create function jobforge.wanted_partitions(p_now timestamp with time zone) returns TABLE(parent text, leaf text, first timestamp with time zone, past timestamp with time zone) language sql stable;
alter function jobforge.wanted_partitions(timestamp with time zone) owner to jf_owner;
grant execute on function jobforge.wanted_partitions(timestamp with time zone) to jf_sys;

create function jobforge.weights(p_tenants uuid[], p_weighted boolean) returns integer[] language plpgsql stable;
alter function jobforge.weights(uuid[], boolean) owner to jf_sys;

create function jobforge.widen_lease(p_lease jobforge.leases, p_window integer) returns jobforge.leases language plpgsql volatile;
alter function jobforge.widen_lease(jobforge.leases, integer) owner to jf_sys;

create function jobforge.write_cursor(p_at timestamp with time zone, p_id uuid) returns text language sql immutable;
alter function jobforge.write_cursor(timestamp with time zone, uuid) owner to jf_fn;
grant execute on function jobforge.write_cursor(timestamp with time zone, uuid) to jf_sys;

create function jobforge.write_only_paths(p_key text, p_schema jsonb) returns text[] language plpgsql stable;
alter function jobforge.write_only_paths(text, jsonb) owner to jf_sys;
