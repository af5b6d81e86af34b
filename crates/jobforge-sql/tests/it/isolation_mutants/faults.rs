//! The faults: one line of SQL each, as a tired hand would write it, and the probes that must see it.

/// In `file`, `from` becomes `to` wherever it stands.
pub(crate) struct Mutant {
    pub(crate) name: &'static str,
    pub(crate) file: &'static str,
    pub(crate) from: &'static str,
    pub(crate) to: &'static str,
    pub(crate) caught_by: &'static [&'static str],
}

/// In what an explanation looks up beyond its tenant.
pub(crate) const LOOKUPS: &[Mutant] = &[
    Mutant {
        name: "a limit's holders are told to everybody",
        file: "93_explain_lookups.sql",
        from: " filter (where h.tenant_id = p_tenant_id)",
        to: "",
        caught_by: &["a_definitions_limit_names_only_own_jobs"],
    },
    Mutant {
        name: "a look-up takes any tenant",
        file: "93_explain_lookups.sql",
        from: "  perform jobforge.require_tenant(p_tenant_id);\n",
        to: "",
        caught_by: &["look_ups_are_for_the_callers_tenant"],
    },
    Mutant {
        name: "a look-up takes any tenant's key",
        file: "93_explain_lookups.sql",
        from: "when 'key' then p_tenant_id::text || '/' || p_name",
        to: "",
        caught_by: &["a_key_is_a_tenants_own"],
    },
    Mutant {
        name: "an explanation does not ask whose job it is",
        file: "92_explain.sql",
        from: "  perform jobforge.require_tenant(p_tenant_id);\n",
        to: "",
        caught_by: &["another_tenants_job_is_not_explained"],
    },
];

/// In who gets at a connector's config, its secrets and a tenant's counts.
pub(crate) const CONNECTORS: &[Mutant] = &[
    Mutant {
        name: "what a job asks does not compare the fence",
        file: "89_connector_secrets.sql",
        from: "and j.id = p_job_id and j.fence = p_fence and",
        to: "and j.id = p_job_id and",
        caught_by: &[
            "an_old_fence_is_refused",
            "a_guessed_fence_is_refused",
            "a_zombie_is_refused_after_a_new_claim",
        ],
    },
    Mutant {
        name: "what a job asks does not compare the lease",
        file: "89_connector_secrets.sql",
        from: " and j.lease_id = p_lease_id) then",
        to: ") then",
        caught_by: &["another_lease_is_refused"],
    },
    Mutant {
        name: "what a job asks does not compare the tenant",
        file: "89_connector_secrets.sql",
        from: "where j.tenant_id = p_tenant_id and j.id = p_job_id",
        to: "where j.id = p_job_id",
        caught_by: &["the_right_token_for_the_wrong_tenant_is_refused"],
    },
    Mutant {
        name: "what a job asks does not look at the lease's life",
        file: "89_connector_secrets.sql",
        from: "if not jobforge.lease_lives(p_lease_id, p_now) or not exists (",
        to: "if not exists (",
        caught_by: &[
            "an_expired_lease_is_refused_before_the_reaper_came",
            "its_reports_on_a_trusted_lease_are_refused",
        ],
    },
    Mutant {
        name: "a worker finds any tenant's config",
        file: "89_connector_secrets.sql",
        from: "where c.tenant_id = p_tenant_id and c.name = p_name;\nend",
        to: "where c.name = p_name order by c.tenant_id desc limit 1;\nend",
        caught_by: &["a_job_finds_its_tenants_config"],
    },
    Mutant {
        name: "a worker finds any tenant's secrets",
        file: "89_connector_secrets.sql",
        from: "from jobforge.connector_secrets k where k.tenant_id = p_tenant_id and k.config = p_name",
        to: "from jobforge.connector_secrets k where k.config = p_name",
        caught_by: &["a_job_finds_its_tenants_config"],
    },
    Mutant {
        name: "a bound operator gets everybody's sealed secrets",
        file: "89_connector_secrets.sql",
        from: " and (v_bound is null or s.tenant_id = v_bound)\n    and (s.tenant_id, s.config",
        to: "\n    and (s.tenant_id, s.config",
        caught_by: &["a_bound_operator_reseals_only_its_tenants"],
    },
    Mutant {
        name: "a bound operator seals for everybody",
        file: "89_connector_secrets.sql",
        from: " and s.sealed = p_was\n    and (v_bound is null or s.tenant_id = v_bound);",
        to: " and s.sealed = p_was;",
        caught_by: &["a_bound_operator_reseals_only_its_tenants"],
    },
    Mutant {
        name: "a reseal overwrites what changed meanwhile",
        file: "89_connector_secrets.sql",
        from: " and s.sealed = p_was\n",
        to: "\n",
        caught_by: &["operators_reseal_what_did_not_change"],
    },
    Mutant {
        name: "a reader is told what is sealed",
        file: "88_connector_configs.sql",
        from: "'key_id', s.key_id,\n",
        to: "'key_id', s.key_id, 'sealed', encode(s.sealed, 'base64'), 'env', s.env,\n",
        caught_by: &["no_reader_is_told_a_secret"],
    },
    Mutant {
        name: "a refusal repeats what it refuses",
        file: "88_connector_configs.sql",
        from: "must be {\"env\": NAME} or {\"key_id\": ID, \"sealed\": BASE64}', v_secret.key, p_config));",
        to: "is not %s', v_secret.key, p_config, v_secret.value));",
        caught_by: &["refusals_repeat_no_secret"],
    },
    Mutant {
        name: "a report counts everybody's jobs",
        file: "97_report.sql",
        from: "from jobforge.tenant_stats s where s.tenant_id = p_tenant_id and s.at",
        to: "from jobforge.tenant_stats s where s.at",
        caught_by: &["counts_are_of_the_jobs_tenant"],
    },
];

/// In the policies and what they stand on.
pub(crate) const POLICIES: &[Mutant] = &[
    Mutant {
        name: "policies that are open without a tenant",
        file: "0004_isolation.sql",
        from: "using (tenant_id = (select nullif(current_setting('app.tenant_id', true), '')::uuid))",
        to: "using (nullif(current_setting('app.tenant_id', true), '') is null
             or tenant_id = (select nullif(current_setting('app.tenant_id', true), '')::uuid))",
        caught_by: &[
            "reads_see_nothing_without_a_tenant",
            "reads_see_nothing_after_a_local_setting_ended",
            "it_sees_nothing_without_a_tenant",
        ],
    },
    Mutant {
        name: "policies that cast the bare setting",
        file: "0004_isolation.sql",
        from: "nullif(current_setting('app.tenant_id', true), '')::uuid",
        to: "current_setting('app.tenant_id', true)::uuid",
        caught_by: &[
            "functions_refuse_an_empty_tenant",
            "reads_see_nothing_without_a_tenant",
            "reads_see_nothing_after_a_local_setting_ended",
            "it_sees_nothing_without_a_tenant",
        ],
    },
    Mutant {
        name: "policies that let anything be written",
        file: "0004_isolation.sql",
        from: "with check (tenant_id = (select nullif(current_setting('app.tenant_id', true), '')::uuid))",
        to: "with check (true)",
        caught_by: &["it_writes_for_one_tenant"],
    },
    Mutant {
        name: "policies not forced on tenants' tables",
        file: "0004_isolation.sql",
        from: "enable row level security, force row level security",
        to: "enable row level security",
        caught_by: &["every_table_forces_its_policies"],
    },
    Mutant {
        name: "policies not forced on new partitions",
        file: "75_partitions.sql",
        from: "enable row level security, force row level security",
        to: "enable row level security",
        caught_by: &["every_table_forces_its_policies"],
    },
    Mutant {
        name: "a login bound by the setting alone",
        file: "0004_isolation.sql",
        from: "l.role_name = session_user::text\n",
        to: "true\n",
        caught_by: &["it_sees_nothing_for_a_login_of_another_tenant"],
    },
    Mutant {
        name: "every login's binding is readable",
        file: "0004_isolation.sql",
        from: "using (role_name = session_user::text)",
        to: "using (true)",
        caught_by: &["a_login_sees_only_its_own_binding"],
    },
];

/// In what makes a report count.
pub(crate) const FENCES: &[Mutant] = &[
    Mutant {
        name: "a result is held without its token",
        file: "57_artifact_upkeep.sql",
        from: "  perform jobforge.hold_job(p_lease_id, p_tenant_id, p_job_id, p_fence, v_now);\n",
        to: "",
        caught_by: &["an_old_fence_is_refused", "a_zombie_is_refused_after_a_new_claim"],
    },
    Mutant {
        name: "a job holds what nobody announced",
        file: "57_artifact_upkeep.sql",
        from: "  if v_doomed is null then",
        to: "  if false then",
        caught_by: &["a_job_holds_its_own_tenants_objects"],
    },
    Mutant {
        name: "objects are collected though somebody holds them",
        file: "57_artifact_upkeep.sql",
        from: "where h.tenant_id = v_row.tenant_id and h.ref = v_row.ref) then",
        to: "where false) then",
        caught_by: &["results_are_held_and_objects_are_collected"],
    },
    Mutant {
        name: "completion does not compare the fence",
        file: "40_complete.sql",
        from: "and j.id = r.id and j.fence = r.fence\n      and j.lease_id",
        to: "and j.id = r.id\n      and j.lease_id",
        caught_by: &[
            "an_old_fence_is_refused",
            "a_guessed_fence_is_refused",
            "a_zombie_is_refused_after_a_new_claim",
        ],
    },
    Mutant {
        name: "completion compares the worker, not the lease",
        file: "40_complete.sql",
        from: "j.lease_id is not distinct from p_lease_id",
        to: "j.worker_no = (select l.worker_no from jobforge.leases l where l.id = p_lease_id)",
        caught_by: &["another_lease_is_refused"],
    },
    Mutant {
        name: "completion does not compare the tenant",
        file: "40_complete.sql",
        from: "where j.ctid = r.locator and j.tenant_id = r.tenant_id and j.id",
        to: "where j.ctid = (select x.ctid from jobforge.jobs x where x.id = r.id) and j.id",
        caught_by: &["the_right_token_for_the_wrong_tenant_is_refused"],
    },
    Mutant {
        name: "completion trusts the locator",
        file: "40_complete.sql",
        from: "where j.ctid = r.locator and j.tenant_id = r.tenant_id and j.id = r.id and j.fence = r.fence",
        to: "where j.ctid = r.locator and j.fence = r.fence",
        caught_by: &["locators_are_only_hints"],
    },
    Mutant {
        name: "a report does not ask whether its lease expired",
        file: "40_complete.sql",
        from: "select l.expires_at > p_now and (",
        to: "select (",
        caught_by: &["an_expired_lease_is_refused_before_the_reaper_came"],
    },
    Mutant {
        name: "a beat revives an expired lease",
        file: "30_heartbeat.sql",
        from: "where l.id = p_lease_id and l.expires_at > v_now and (v_bound",
        to: "where l.id = p_lease_id and (v_bound",
        caught_by: &["an_expired_lease_is_refused_before_the_reaper_came"],
    },
    Mutant {
        name: "a beat does not compare the fence",
        file: "30_heartbeat.sql",
        from: "and k.id = u.id and k.fence = u.fence",
        to: "and k.id = u.id",
        caught_by: &[
            "an_old_fence_is_refused",
            "a_guessed_fence_is_refused",
            "a_zombie_is_refused_after_a_new_claim",
        ],
    },
    Mutant {
        name: "a claim goes onto an expired lease",
        file: "24_lease.sql",
        from: "or v_lease.expires_at <= p_now",
        to: "",
        caught_by: &["an_expired_lease_is_refused_before_the_reaper_came"],
    },
    Mutant {
        name: "a claim of one job goes onto an expired lease",
        file: "23_few.sql",
        from: "where l.id = p_lease_id and l.expires_at > p_now and",
        to: "where l.id = p_lease_id and",
        caught_by: &["an_expired_lease_is_refused_before_the_reaper_came"],
    },
    Mutant {
        name: "failing does not compare the fence",
        file: "50_fail.sql",
        from: "k.id = r.id and k.fence = r.fence",
        to: "k.id = r.id",
        caught_by: &[
            "an_old_fence_is_refused",
            "a_guessed_fence_is_refused",
            "a_zombie_is_refused_after_a_new_claim",
        ],
    },
    Mutant {
        name: "giving back does not compare the fence",
        file: "52_give_back.sql",
        from: "and j.id = r.id and j.fence = r.fence",
        to: "and j.id = r.id",
        caught_by: &[
            "an_old_fence_is_refused",
            "a_guessed_fence_is_refused",
            "a_zombie_is_refused_after_a_new_claim",
        ],
    },
    Mutant {
        name: "snoozing does not compare the fence",
        file: "52_give_back.sql",
        from: "j.id = p_job_id and j.fence = p_fence",
        to: "j.id = p_job_id",
        caught_by: &[
            "an_old_fence_is_refused",
            "a_guessed_fence_is_refused",
            "a_zombie_is_refused_after_a_new_claim",
        ],
    },
    Mutant {
        name: "notes do not compare the fence",
        file: "54_notes.sql",
        from: "j.id = p_job_id and j.fence = p_fence",
        to: "j.id = p_job_id",
        caught_by: &[
            "an_old_fence_is_refused",
            "a_guessed_fence_is_refused",
            "a_zombie_is_refused_after_a_new_claim",
        ],
    },
];

/// In who may act for whom.
pub(crate) const LOGINS: &[Mutant] = &[
    Mutant {
        name: "functions believe p_tenant_id",
        file: "00_base.sql",
        from: "if p_tenant_id is distinct from nullif(current_setting('app.tenant_id', true), '')::uuid then",
        to: "perform set_config('app.tenant_id', p_tenant_id::text, true); if false then",
        caught_by: &[
            "functions_refuse_an_unset_tenant",
            "functions_refuse_an_empty_tenant",
            "functions_refuse_a_malformed_tenant",
            "functions_refuse_a_foreign_tenant",
        ],
    },
    Mutant {
        name: "functions do not ask whom the login may act for",
        file: "00_base.sql",
        from: "(l.tenant_id is null or l.tenant_id = p_tenant_id)",
        to: "true",
        caught_by: &["a_bound_login_acts_only_for_its_tenant", "a_bound_operator_audits_only_its_tenant"],
    },
    Mutant {
        name: "an unknown worker's login is trusted",
        file: "00_base.sql",
        from: "if v_login.known is null then",
        to: "if false then",
        caught_by: &["an_unregistered_worker_is_refused"],
    },
    Mutant {
        name: "any worker may report on any lease",
        file: "40_complete.sql",
        from: "l.expires_at > p_now and (v_bound is null or l.tenant_id = v_bound) into",
        to: "l.expires_at > p_now into",
        caught_by: &[
            "its_reports_on_a_trusted_lease_are_refused",
            "it_cannot_end_a_trusted_lease",
            "it_learns_nothing_of_a_foreign_job",
        ],
    },
    Mutant {
        name: "any worker may beat for any lease",
        file: "30_heartbeat.sql",
        from: " and (v_bound is null or l.tenant_id = v_bound)",
        to: "",
        caught_by: &["its_reports_on_a_trusted_lease_are_refused", "it_learns_nothing_of_a_foreign_job"],
    },
    Mutant {
        name: "any worker may claim onto any lease",
        file: "24_lease.sql",
        from: " or (v_bound is not null and v_lease.tenant_id is distinct from v_bound)",
        to: "",
        caught_by: &["it_cannot_claim_onto_a_trusted_lease"],
    },
    Mutant {
        name: "any worker may claim one job onto any lease",
        file: "23_few.sql",
        from: "and (select g.tenant_id is null from jobforge.logins g where g.role_name = session_user::text)",
        to: "",
        caught_by: &["it_cannot_claim_onto_a_trusted_lease", "an_unregistered_worker_is_refused"],
    },
    Mutant {
        name: "one job of another tenant comes onto a bound lease",
        file: "23_few.sql",
        from: "l.expires_at > p_now and l.tenant_id is null",
        to: "l.expires_at > p_now",
        caught_by: &["onto_its_lease_comes_no_other_tenants_job"],
    },
    Mutant {
        name: "a bound worker takes everybody's turn",
        file: "22_turns.sql",
        from: "if p_bound is not null then",
        to: "if false then",
        caught_by: &["it_claims_only_its_tenants_jobs", "it_claims_no_reserved_or_suspect_job_of_another"],
    },
    Mutant {
        name: "a bound worker takes all that is ready where that is little",
        file: "20_claim.sql",
        from: "and not v_gated and v_session.tenant_id is null then",
        to: "and not v_gated then",
        caught_by: &["of_few_jobs_it_claims_its_tenants"],
    },
    Mutant {
        name: "a bound worker takes everybody's reserved and suspect jobs",
        file: "21_claim_apart.sql",
        from: "and (p_lease.tenant_id is null or j.tenant_id = p_lease.tenant_id)",
        to: "",
        caught_by: &["it_claims_only_its_tenants_jobs", "it_claims_no_reserved_or_suspect_job_of_another"],
    },
    Mutant {
        name: "a bound worker learns which jobs exist",
        file: "42_verdicts.sql",
        from: "when r.tenant_id <> b.bound then 'unknown'",
        to: "",
        caught_by: &["it_learns_nothing_of_a_foreign_job"],
    },
];

/// In what tells the tenant of a request behind PostgREST.
pub(crate) const GATES: &[Mutant] = &[
    Mutant {
        name: "the claim that users edit is believed",
        file: "05_pre_request.sql",
        from: "v_claim := p_claims::jsonb -> 'app_metadata' -> 'tenant_id';",
        to: "v_claim := coalesce(p_claims::jsonb -> 'app_metadata' -> 'tenant_id', p_claims::jsonb -> 'user_metadata' -> 'tenant_id');",
        caught_by: &["a_claim_that_users_edit_is_not_believed"],
    },
    Mutant {
        name: "a header is believed where there is no claim",
        file: "05_pre_request.sql",
        from: "nullif(current_setting('request.jwt.claims', true), '')",
        to: "coalesce(nullif(current_setting('request.jwt.claims', true), ''), jsonb_build_object('app_metadata',
               jsonb_build_object('tenant_id', current_setting('request.headers', true)::jsonb ->> 'x-tenant-id'))::text)",
        caught_by: &["headers_and_cookies_name_no_tenant"],
    },
    Mutant {
        name: "the tenant outlives its request",
        file: "05_pre_request.sql",
        from: "v_tenant::text, true)",
        to: "v_tenant::text, false)",
        caught_by: &["nothing_is_left_for_the_next_request"],
    },
    Mutant {
        name: "a request without a claim goes on",
        file: "05_pre_request.sql",
        from: "if v_claim is null or v_claim = 'null' then",
        to: "if v_claim is null or v_claim = 'null' then return null; end if; if false then",
        caught_by: &["a_request_without_a_sound_claim_is_refused"],
    },
    Mutant {
        name: "a claim of any form is taken",
        file: "05_pre_request.sql",
        from: "{12}$'",
        to: "{12}'",
        caught_by: &["a_request_without_a_sound_claim_is_refused"],
    },
    Mutant {
        name: "the login's own tenant and the tenants there are do not matter",
        file: "05_pre_request.sql",
        from: "perform jobforge.require_tenant(v_tenant);",
        to: "null;",
        caught_by: &["a_request_without_a_sound_claim_is_refused", "a_bound_gate_serves_one_tenant"],
    },
    Mutant {
        name: "a login that can become an operator serves requests",
        file: "05_pre_request.sql",
        from: "pg_has_role(session_user, 'jf_operator', 'member') or",
        to: "",
        caught_by: &["a_gate_that_can_become_more_serves_nobody"],
    },
    Mutant {
        name: "a login that can become a worker serves requests",
        file: "05_pre_request.sql",
        from: " or pg_has_role(session_user, 'jf_worker', 'member')",
        to: "",
        caught_by: &["a_gate_that_can_become_more_serves_nobody"],
    },
];

/// In keys, grants and the form of functions.
pub(crate) const RIGHTS: &[Mutant] = &[
    Mutant {
        name: "keys without a tenant",
        file: "0003_jobs.sql",
        from: "primary key (tenant_id, type, key)",
        to: "primary key (type, key)",
        caught_by: &["keys_start_with_the_tenant", "the_same_keys_in_two_tenants_make_two_jobs"],
    },
    Mutant {
        name: "dedupe across tenants",
        file: "0003_jobs.sql",
        from: "create unique index jobs_dedupe on",
        to: "create unique index jobs_dedupe_all on jobforge.jobs (dedupe_key)
               where dedupe_key is not null and status in ('blocked', 'queued', 'running');
             create unique index jobs_dedupe on",
        caught_by: &["keys_start_with_the_tenant", "the_same_keys_in_two_tenants_make_two_jobs"],
    },
    Mutant {
        name: "everybody may execute",
        file: "0001_roles.sql",
        from: "revoke execute on functions from public",
        to: "grant execute on functions to public",
        caught_by: &["nobody_in_general_may_execute", "every_function_is_refused_to_whom_it_is_not_for"],
    },
    Mutant {
        name: "definer functions with the caller's search_path",
        file: "90_read.sql",
        from: "set search_path = pg_catalog, pg_temp\n",
        to: "",
        caught_by: &["definer_functions_pin_their_search_path"],
    },
    Mutant {
        name: "definer functions that look into pg_temp first",
        file: "40_complete.sql",
        from: "set search_path = pg_catalog, pg_temp\n",
        to: "set search_path = pg_catalog\n",
        caught_by: &["definer_functions_pin_their_search_path"],
    },
    Mutant {
        name: "temporary tables for everybody",
        file: "0001_roles.sql",
        from: "revoke temporary on database %I from public",
        to: "grant temporary on database %I to public",
        caught_by: &["grants_go_to_our_roles_only", "no_login_makes_anything"],
    },
    Mutant {
        name: "payloads are readable",
        file: "0004_isolation.sql",
        from: "source_ref, created_by, parent_id, error) on jobforge.jobs to",
        to: "source_ref, created_by, parent_id, error, payload) on jobforge.jobs to",
        caught_by: &["no_dangerous_privilege_is_granted", "payloads_and_results_are_not_readable"],
    },
    Mutant {
        name: "logs may be truncated",
        file: "0004_isolation.sql",
        from: "grant select on jobforge.audit_log to jf_operator",
        to: "grant select, truncate on jobforge.audit_log to jf_operator",
        caught_by: &["no_dangerous_privilege_is_granted", "no_login_writes_to_any_table"],
    },
    Mutant {
        name: "workers may enqueue",
        file: "10_enqueue.sql",
        from: "text, text, jsonb, text, text, text, text) to jf_tenant, jf_operator",
        to: "text, text, jsonb, text, text, text, text) to jf_tenant, jf_operator, jf_worker",
        caught_by: &["every_function_is_refused_to_whom_it_is_not_for"],
    },
    Mutant {
        name: "tenants may claim",
        file: "20_claim.sql",
        from: "to jf_worker;",
        to: "to jf_worker, jf_tenant;",
        caught_by: &["every_function_is_refused_to_whom_it_is_not_for"],
    },
];
