//! Isolation: what a tenant, a worker or an operator must not reach, tried as the logins that would try it.
//!
//! A probe is a named function that says what it found. The same list runs twice: here it must be all green; in
//! `isolation_mutants` each fault put into the SQL must turn at least one probe red. So a probe must not rest on what
//! another left behind: each works in a queue of its own.

mod artifacts;
mod bound_workers;
mod catalogue;
mod connectors;
mod direct_access;
mod execute_rights;
mod explanations;
mod fences;
mod forgetful;
mod gathered;
mod identity;
mod narrowed_workers;
mod payloads;
mod postgrest;
mod rows;
mod service;
mod service_dead_letters;
mod service_upkeep;
mod soundness;
mod tenant_setting;
mod verdict;

use std::pin::Pin;

use jobforge_testkit::TestDb;
use serde_json::json;
use tokio_postgres::Client;

use crate::schema::calls::{ClaimOptions, Held, claim_with, enqueue_with};
use crate::schema::{
    APP, GATE, NOOP, ONLY_A, ONLY_B, OPERATOR, STRANGER, TENANT_A, TENANT_B, WORKER, WORKER_A, connect_as,
    migrated,
};
use verdict::Verdict;

/// A database and one connection for each login; `admin` looks where no login may, and never acts for one.
pub(crate) struct Site {
    pub(crate) db: TestDb,
    admin: Client,
    app: Client,
    only_a: Client,
    only_b: Client,
    worker: Client,
    worker_a: Client,
    operator: Client,
    stranger: Client,
    gate: Client,
}

/// A question with a yes or no, and why.
pub(crate) struct Probe {
    pub(crate) name: &'static str,
    pub(crate) run: for<'a> fn(&'a Site) -> Pin<Box<dyn Future<Output = Verdict> + 'a>>,
}

macro_rules! probes {
    ($($name:ident),* $(,)?) => {
        pub(super) const PROBES: &[super::Probe] =
            &[$(super::Probe { name: stringify!($name), run: |site| Box::pin($name(site)) }),*];
    };
}
pub(crate) use probes;

/// All probes, by what they look at.
pub(crate) const GROUPS: &[(&str, &[Probe])] = &[
    ("catalogue", catalogue::PROBES),
    ("tenant setting", tenant_setting::PROBES),
    ("forgetful function", forgetful::PROBES),
    ("direct access", direct_access::PROBES),
    ("execute rights", execute_rights::PROBES),
    ("bound workers", bound_workers::PROBES),
    ("narrowed workers", narrowed_workers::PROBES),
    ("fences", fences::PROBES),
    ("gathered enqueues", gathered::PROBES),
    ("payloads", payloads::PROBES),
    ("artifacts", artifacts::PROBES),
    ("explanations", explanations::PROBES),
    ("postgrest", postgrest::PROBES),
    ("service", service::PROBES),
    ("service of dead letters", service_dead_letters::PROBES),
    ("service of upkeep", service_upkeep::PROBES),
    ("soundness", soundness::PROBES),
    ("connectors", connectors::PROBES),
    ("identity", identity::PROBES),
];

impl Site {
    pub(crate) async fn of(db: TestDb) -> Site {
        Site {
            admin: db.connect_super().await,
            app: connect_as(&db, APP).await,
            only_a: connect_as(&db, ONLY_A).await,
            only_b: connect_as(&db, ONLY_B).await,
            worker: connect_as(&db, WORKER).await,
            worker_a: connect_as(&db, WORKER_A).await,
            operator: connect_as(&db, OPERATOR).await,
            stranger: connect_as(&db, STRANGER).await,
            gate: connect_as(&db, GATE).await,
            db,
        }
    }

    /// Every login with its connection.
    fn logins(&self) -> [(&'static str, &Client); 8] {
        [
            (APP, &self.app),
            (ONLY_A, &self.only_a),
            (ONLY_B, &self.only_b),
            (WORKER, &self.worker),
            (WORKER_A, &self.worker_a),
            (OPERATOR, &self.operator),
            (STRANGER, &self.stranger),
            (GATE, &self.gate),
        ]
    }

    /// One job of each tenant in a queue of the probe's own, claimed by the trusted worker: first A's, then B's. Each
    /// tenant has a connector config for its job to ask for.
    async fn held_in(&self, queue: &'static str) -> Result<[Held; 2], String> {
        for tenant in [TENANT_A, TENANT_B] {
            let config =
                "insert into jobforge.connector_configs (tenant_id, name, created_at, updated_at, updated_by)
                values ($1, 'reports', now(), now(), 'nobody') on conflict do nothing";
            self.admin
                .execute(config, &[&tenant])
                .await
                .map_err(|e| format!("make a config: {}", told(&e)))?;
            let extra = format!("'{{}}', p_queue => '{queue}'");
            enqueue_with(&self.app, tenant, NOOP, &extra)
                .await
                .map_err(|e| format!("enqueue: {}", told(&e)))?;
        }
        let mut held = claim_with(&self.worker, "w1", 10, in_queue(queue))
            .await
            .map_err(|e| format!("claim: {}", told(&e)))?
            .jobs;
        held.sort_by_key(|job| job.tenant_id);
        held.try_into().map_err(|jobs| format!("the claim took other jobs than the two of {queue}: {jobs:?}"))
    }

    /// Everything that is stored about a job, to see that a refused call changed nothing.
    async fn picture(&self, job: &Held) -> Result<serde_json::Value, String> {
        let sql = "select jsonb_build_array(
              (select jsonb_agg(j) from jobforge.jobs j where j.id = $1),
              (select jsonb_agg(h) from jobforge.job_history h where h.id = $1),
              (select jsonb_agg(a) from jobforge.attempts a where a.job_id = $1),
              (select jsonb_agg(l) from jobforge.job_logs l where l.job_id = $1),
              (select jsonb_agg(p) from jobforge.job_progress p where p.job_id = $1),
              (select jsonb_agg(c) from jobforge.lease_claims c where c.lease_id = $2),
              (select jsonb_agg(l) from jobforge.leases l where l.id = $2),
              (select jsonb_agg(e) from jobforge.attempt_exits e where e.job_id = $1),
              (select jsonb_agg(c order by c.tenant_id) from jobforge.connector_configs c where c.name = 'reports'),
              (select jsonb_agg(h) from jobforge.job_artifacts h where h.job_id = $1))";
        let row = self.admin.query_one(sql, &[&job.id, &job.lease_id]).await.map_err(|e| told(&e))?;
        Ok(json!({ "stored": row.get::<_, serde_json::Value>(0) }))
    }
}

use crate::schema::told;

/// A claim from one queue.
fn in_queue(queue: &'static str) -> ClaimOptions {
    ClaimOptions { queues: vec![queue], ..ClaimOptions::default() }
}

/// Runs probes and returns what each of the red ones found.
pub(crate) async fn red(site: &Site, probes: &[Probe]) -> Vec<String> {
    let mut found = Vec::new();
    for probe in probes {
        if let Err(why) = (probe.run)(site).await {
            found.push(format!("{}: {why}", probe.name));
        }
    }
    found
}

/// Each group on a database of its own.
macro_rules! all_green {
    ($($test:ident => $group:literal),* $(,)?) => {
        $(#[tokio::test]
        async fn $test() {
            let site = Site::of(migrated().await).await;
            let (_, probes) = GROUPS.iter().find(|(name, _)| *name == $group).expect("the group is listed");
            let found = red(&site, probes).await;
            assert!(found.is_empty(), "{}", found.join("\n"));
        })*

        #[test]
        fn every_group_is_run() {
            let mut run = vec![$($group),*];
            let mut listed: Vec<_> = GROUPS.iter().map(|(name, _)| *name).collect();
            run.sort_unstable();
            listed.sort_unstable();
            assert_eq!(run, listed);
        }
    };
}

all_green! {
    the_catalogue_shows_no_way_around => "catalogue",
    without_a_sound_tenant_there_is_nothing => "tenant setting",
    a_forgetful_function_sees_one_tenant => "forgetful function",
    tables_are_closed => "direct access",
    functions_are_granted_one_by_one => "execute rights",
    a_bound_worker_stays_with_its_tenant => "bound workers",
    a_narrowed_worker_stays_with_its_tenant => "narrowed workers",
    a_stale_report_changes_nothing => "fences",
    only_the_trusted_enqueue_for_many_tenants => "gathered enqueues",
    payloads_come_back_as_they_went_in => "payloads",
    connectors_are_a_tenants_own => "connectors",
    objects_belong_to_their_tenant => "artifacts",
    explanations_tell_nothing_of_others => "explanations",
    behind_postgrest_the_tenant_is_the_tokens => "postgrest",
    those_who_may_are_served => "service",
    dead_letters_are_served => "service of dead letters",
    upkeep_is_served => "service of upkeep",
    what_no_life_leads_to_is_not_stored => "soundness",
    keys_and_deeds_are_told_to_whom_they_concern => "identity",
}

/// The probes share a database when they meet a mutant: that must not make them red.
#[tokio::test]
async fn all_probes_are_green_on_one_database() {
    let site = Site::of(migrated().await).await;
    for (group, probes) in GROUPS {
        let found = red(&site, probes).await;
        assert!(found.is_empty(), "{group}: {}", found.join("\n"));
    }
}
