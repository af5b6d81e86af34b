//! A worker's login that is bound to one tenant works only there: it is given no other tenant's job, and the right
//! tokens of one do not help it.

use serde_json::Value;
use tokio_postgres::Error;

use super::fences::{Report, refused_report};
use super::verdict::{Verdict, refused, same, works};
use super::{Site, in_queue, probes};
use crate::schema::calls::{ClaimOptions, claim_with, enqueue_with, release_all};
use crate::schema::{NOOP, OTHER, TENANT_A, TENANT_B, WORKER_A};

probes![
    it_claims_only_its_tenants_jobs,
    it_claims_no_reserved_or_suspect_job_of_another,
    of_few_jobs_it_claims_its_tenants,
    onto_its_lease_comes_no_other_tenants_job,
    it_cannot_claim_onto_a_trusted_lease,
    its_reports_on_a_trusted_lease_are_refused,
    it_cannot_end_a_trusted_lease,
    it_learns_nothing_of_a_foreign_job,
    it_reports_on_its_own_lease,
    an_unregistered_worker_is_refused,
    the_stranger_is_refused,
];

/// Both tenants' jobs of every kind in a queue: ordinary ones, reserved ones and suspects.
async fn fill(site: &Site, queue: &str) -> Verdict {
    for tenant in [TENANT_A, TENANT_B] {
        for extra in ["", ", p_priority => 5", ", p_correlation_id => 'suspect'"] {
            let extra = format!("'{{}}', p_queue => '{queue}'{extra}");
            works("enqueue", enqueue_with(&site.operator, tenant, NOOP, &extra).await)?;
        }
    }
    let sql =
        "update jobforge.jobs set deaths = 2, fence = 2 where queue = $1 and correlation_id = 'suspect'";
    works("make suspects", site.admin.execute(sql, &[&queue]).await).map(drop)
}

async fn it_claims_only_its_tenants_jobs(site: &Site) -> Verdict {
    let queue = "bound_claim";
    fill(site, queue).await?;
    let mut taken = Vec::new();
    for types in [vec![NOOP], vec![NOOP, OTHER]] {
        // A cursor of another's making is only a hint where to begin.
        for cursor in [None, Some(serde_json::json!({ "turn": TENANT_A, "marks": [] }))] {
            let options = ClaimOptions { types: types.clone(), cursor, ..in_queue(queue) };
            let claim = works("claim", claim_with(&site.worker_a, "w2", 10, options).await)?;
            taken.extend(claim.jobs.iter().map(|job| job.tenant_id));
        }
    }
    same("the claimed jobs' tenants", taken, vec![TENANT_A; 3])
}

async fn it_claims_no_reserved_or_suspect_job_of_another(site: &Site) -> Verdict {
    let queue = "bound_apart";
    fill(site, queue).await?;
    let sql = "delete from jobforge.jobs where queue = $1 and tenant_id = $2";
    works("leave B's only", site.admin.execute(sql, &[&queue, &TENANT_A]).await)?;
    let claim = works("claim", claim_with(&site.worker_a, "w2", 10, in_queue(queue)).await)?;
    same("jobs of B for a worker of A", claim.jobs, vec![])
}

/// Nothing stands apart: a trusted worker would have all of it at once.
async fn of_few_jobs_it_claims_its_tenants(site: &Site) -> Verdict {
    let queue = "bound_few";
    for tenant in [TENANT_A, TENANT_B] {
        let extra = format!("'{{}}', p_queue => '{queue}'");
        works("enqueue", enqueue_with(&site.app, tenant, NOOP, &extra).await)?;
    }
    let claim = works("claim", claim_with(&site.worker_a, "w2", 10, in_queue(queue)).await)?;
    let tenants: Vec<_> = claim.jobs.iter().map(|job| job.tenant_id).collect();
    same("the claimed jobs' tenants", tenants, vec![TENANT_A])
}

/// Whoever claims: one job alone is taken without a turn, but not that of another tenant.
async fn onto_its_lease_comes_no_other_tenants_job(site: &Site) -> Verdict {
    let queue = "bound_one";
    let extra = format!("'{{}}', p_queue => '{queue}'");
    works("enqueue", enqueue_with(&site.app, TENANT_A, NOOP, &extra).await)?;
    let lease_id = works("claim", claim_with(&site.worker_a, "w2", 10, in_queue(queue)).await)?.lease_id;
    works("enqueue", enqueue_with(&site.app, TENANT_B, NOOP, &extra).await)?;
    for worker in [&site.worker_a, &site.worker] {
        let options = ClaimOptions { lease_id: Some(lease_id), ..in_queue(queue) };
        let claim = works("claim", claim_with(worker, "w2", 10, options).await)?;
        same("jobs of B on a lease of A", claim.jobs, vec![])?;
    }
    Ok(())
}

async fn it_cannot_claim_onto_a_trusted_lease(site: &Site) -> Verdict {
    let [_, foreign] = site.held_in("bound_lease").await?;
    let options = ClaimOptions { lease_id: Some(foreign.lease_id), ..in_queue("bound_lease") };
    refused("claim", claim_with(&site.worker_a, "w1", 10, options).await, &["JF006 lease_lost"])
}

async fn its_reports_on_a_trusted_lease_are_refused(site: &Site) -> Verdict {
    let held = site.held_in("bound_reports").await?;
    for job in &held {
        for report in Report::ALL {
            refused_report(site, &site.worker_a, report, job).await?;
        }
    }
    Ok(())
}

async fn it_cannot_end_a_trusted_lease(site: &Site) -> Verdict {
    let [own, foreign] = site.held_in("bound_end").await?;
    let before = (site.picture(&own).await?, site.picture(&foreign).await?);
    refused("release all", release_all(&site.worker_a, foreign.lease_id).await, &["JF006 lease_lost"])?;
    same("the jobs", (site.picture(&own).await?, site.picture(&foreign).await?), before)
}

/// An answer that told a job of another tenant from none would be an oracle.
async fn it_learns_nothing_of_a_foreign_job(site: &Site) -> Verdict {
    let [_, foreign] = site.held_in("bound_oracle").await?;
    let mut nobody = foreign.clone();
    nobody.id = uuid::Uuid::new_v4();
    for report in Report::ALL {
        let about_one = report.send(&site.worker_a, &foreign).await.map_err(|e| code(&e));
        let about_none = report.send(&site.worker_a, &nobody).await.map_err(|e| code(&e));
        same(&format!("{report:?} on a foreign job and on none"), about_one, about_none)?;
    }
    Ok(())
}

fn code(error: &Error) -> String {
    error.code().map_or_else(|| error.to_string(), |code| code.code().to_owned())
}

async fn it_reports_on_its_own_lease(site: &Site) -> Verdict {
    let queue = "bound_own";
    works(
        "enqueue",
        enqueue_with(&site.app, TENANT_A, NOOP, &format!("'{{}}', p_queue => '{queue}'")).await,
    )?;
    let claim = works("claim", claim_with(&site.worker_a, "w2", 1, in_queue(queue)).await)?;
    let job = claim.jobs.first().ok_or("its own tenant's job was not given to it")?;
    for report in [Report::Heartbeat, Report::Progress, Report::Log, Report::Complete] {
        works(&format!("{report:?}"), report.send(&site.worker_a, job).await)?;
    }
    Ok(())
}

/// Every function for workers, called by a login that is a member of the role and not registered.
async fn an_unregistered_worker_is_refused(site: &Site) -> Verdict {
    let forget = format!("delete from jobforge.logins where role_name = '{WORKER_A}'");
    works("forget the login", site.admin.batch_execute(&forget).await)?;
    let found = async {
        let [own, foreign] = site.held_in("bound_unknown").await?;
        let onto = ClaimOptions { lease_id: Some(foreign.lease_id), ..in_queue("bound_unknown") };
        refused("claim", claim_with(&site.worker_a, "w1", 10, onto).await, &["JF009 login_not_bound"])?;
        for report in Report::ALL {
            refused(
                &format!("{report:?}"),
                report.send(&site.worker_a, &own).await,
                &["JF009 login_not_bound"],
            )?;
        }
        for call in [
            "jobforge.claim_jobs('w1', '{default}', '{test.noop}')",
            "jobforge.register_worker('w3', 'h', 1, 'v', '{default}', '{test.noop}')",
            "jobforge.stop_worker('w1')",
            "jobforge.sleep_worker('w1', '{default}', '{test.noop}')",
            "jobforge.wake_worker('w1')",
            "jobforge.look('w1')",
            "jobforge.recall_marks('{default}', '{test.noop}')",
        ] {
            let sql = format!("select * from {call}");
            refused(call, site.worker_a.query(&sql, &[]).await, &["JF009 login_not_bound"])?;
        }
        Ok(())
    };
    let found = found.await;
    let register =
        format!("insert into jobforge.logins (role_name, tenant_id) values ('{WORKER_A}', '{TENANT_A}')");
    works("register it again", site.admin.batch_execute(&register).await)?;
    found
}

async fn the_stranger_is_refused(site: &Site) -> Verdict {
    let [own, _] = site.held_in("bound_stranger").await?;
    let before: Value = site.picture(&own).await?;
    for report in Report::ALL {
        refused(&format!("{report:?}"), report.send(&site.stranger, &own).await, &["42501"])?;
    }
    same("the job", site.picture(&own).await?, before)
}
