//! A trusted worker's login that serves others narrows itself to the tenant in `app.bound_tenant`: then it is bound as a
//! tenant's own login is. The setting only ever narrows; what cannot be read refuses everything.

use tokio_postgres::{Client, Error};
use uuid::Uuid;

use super::fences::{Report, refused_report};
use super::verdict::{Verdict, refused, same, works};
use super::{Site, in_queue, probes};
use crate::schema::calls::{ClaimOptions, Held, claim_with, enqueue_with, release_all};
use crate::schema::{NOOP, TENANT_A, TENANT_B, WORKER, WORKER_A, connect_as};

probes![
    a_narrowed_worker_claims_only_its_tenants_jobs,
    a_narrowed_worker_reports_on_its_own_lease,
    a_narrowed_workers_reports_on_a_trusted_lease_are_refused,
    a_narrowed_workers_reports_on_another_tenants_lease_are_refused,
    a_narrowed_worker_cannot_end_a_trusted_lease,
    a_narrowed_worker_cannot_claim_onto_a_trusted_lease,
    a_narrowed_worker_learns_nothing_of_a_foreign_job,
    a_narrowing_ends_with_its_transaction,
    a_malformed_narrowing_refuses_everything,
    a_bound_login_is_not_widened_by_the_setting,
];

/// A connection of this login that says it works for this tenant alone.
async fn narrowed(site: &Site, login: &str, tenant: &str) -> Result<Client, String> {
    let client = connect_as(&site.db, login).await;
    let sql = "select set_config('app.bound_tenant', $1, false)";
    works("narrow", client.execute(sql, &[&tenant]).await)?;
    Ok(client)
}

async fn narrowed_to(site: &Site, tenant: Uuid) -> Result<Client, String> {
    narrowed(site, WORKER, &tenant.to_string()).await
}

/// One job of each tenant in this queue.
async fn fill(site: &Site, queue: &str) -> Verdict {
    for tenant in [TENANT_A, TENANT_B] {
        let extra = format!("'{{}}', p_queue => '{queue}'");
        works("enqueue", enqueue_with(&site.app, tenant, NOOP, &extra).await)?;
    }
    Ok(())
}

async fn claimed(client: &Client, queue: &'static str) -> Result<Vec<Held>, String> {
    Ok(works("claim", claim_with(client, "w2", 10, in_queue(queue)).await)?.jobs)
}

async fn a_narrowed_worker_claims_only_its_tenants_jobs(site: &Site) -> Verdict {
    let queue = "narrowed_claim";
    fill(site, queue).await?;
    let jobs = claimed(&narrowed_to(site, TENANT_A).await?, queue).await?;
    same("the claimed jobs' tenants", jobs.iter().map(|job| job.tenant_id).collect(), vec![TENANT_A])
}

async fn a_narrowed_worker_reports_on_its_own_lease(site: &Site) -> Verdict {
    let queue = "narrowed_own";
    fill(site, queue).await?;
    let worker = narrowed_to(site, TENANT_A).await?;
    let jobs = claimed(&worker, queue).await?;
    let job = jobs.first().ok_or("its own tenant's job was not given to it")?;
    for report in [Report::Heartbeat, Report::Progress, Report::Log, Report::Exit, Report::Complete] {
        works(&format!("{report:?}"), report.send(&worker, job).await)?;
    }
    Ok(())
}

async fn a_narrowed_workers_reports_on_a_trusted_lease_are_refused(site: &Site) -> Verdict {
    let held = site.held_in("narrowed_reports").await?;
    let worker = narrowed_to(site, TENANT_A).await?;
    for job in &held {
        for report in Report::ALL {
            refused_report(site, &worker, report, job).await?;
        }
    }
    Ok(())
}

async fn a_narrowed_workers_reports_on_another_tenants_lease_are_refused(site: &Site) -> Verdict {
    let queue = "narrowed_other";
    fill(site, queue).await?;
    let jobs = claimed(&narrowed_to(site, TENANT_B).await?, queue).await?;
    let foreign = jobs.first().ok_or("B's job was not given to B's worker")?;
    let worker = narrowed_to(site, TENANT_A).await?;
    for report in Report::ALL {
        refused_report(site, &worker, report, foreign).await?;
    }
    Ok(())
}

async fn a_narrowed_worker_cannot_end_a_trusted_lease(site: &Site) -> Verdict {
    let [own, foreign] = site.held_in("narrowed_end").await?;
    let before = (site.picture(&own).await?, site.picture(&foreign).await?);
    let worker = narrowed_to(site, TENANT_A).await?;
    refused("release all", release_all(&worker, foreign.lease_id).await, &["JF006 lease_lost"])?;
    same("the jobs", (site.picture(&own).await?, site.picture(&foreign).await?), before)
}

/// One job waits, and then two: an idle system's claim has a short way.
async fn a_narrowed_worker_cannot_claim_onto_a_trusted_lease(site: &Site) -> Verdict {
    let queue = "narrowed_onto";
    let [_, foreign] = site.held_in(queue).await?;
    let worker = narrowed_to(site, TENANT_A).await?;
    for waiting in 1..=2 {
        let extra = format!("'{{}}', p_queue => '{queue}'");
        works("enqueue", enqueue_with(&site.app, TENANT_B, NOOP, &extra).await)?;
        let onto = ClaimOptions { lease_id: Some(foreign.lease_id), ..in_queue(queue) };
        let what = format!("a claim with {waiting} waiting");
        refused(&what, claim_with(&worker, "w2", 10, onto).await.map(drop), &["JF006 lease_lost"])?;
    }
    Ok(())
}

async fn a_narrowed_worker_learns_nothing_of_a_foreign_job(site: &Site) -> Verdict {
    let [_, foreign] = site.held_in("narrowed_oracle").await?;
    let nobody = Held { id: Uuid::new_v4(), ..foreign.clone() };
    let worker = narrowed_to(site, TENANT_A).await?;
    let code = |error: Error| error.code().map_or_else(|| error.to_string(), |code| code.code().to_owned());
    for report in Report::ALL {
        let about_one = report.send(&worker, &foreign).await.map_err(code);
        let about_none = report.send(&worker, &nobody).await.map_err(code);
        same(&format!("{report:?} on a foreign job and on none"), about_one, about_none)?;
    }
    Ok(())
}

/// The next who has the connection is not bound by what the last one said.
async fn a_narrowing_ends_with_its_transaction(site: &Site) -> Verdict {
    let queue = "narrowed_once";
    fill(site, queue).await?;
    let client = connect_as(&site.db, WORKER).await;
    let sql = format!(
        "begin; select set_config('app.bound_tenant', '{TENANT_A}', true);
         select jobforge.wake_worker('w2'); commit"
    );
    works("a narrowed transaction", client.batch_execute(&sql).await)?;
    let mut tenants: Vec<Uuid> = claimed(&client, queue).await?.iter().map(|job| job.tenant_id).collect();
    tenants.sort_unstable();
    same("the claimed jobs' tenants", tenants, vec![TENANT_A, TENANT_B])
}

async fn a_malformed_narrowing_refuses_everything(site: &Site) -> Verdict {
    let [own, _] = site.held_in("narrowed_malformed").await?;
    for text in ["x' or 1=1 --", "11111111-1111-1111-1111-11111111111", "null", "*", " "] {
        for login in [WORKER, WORKER_A] {
            let worker = narrowed(site, login, text).await?;
            refuses_everything(&worker, &own, text, "JF009 bound_tenant_malformed").await?;
        }
    }
    Ok(())
}

async fn a_bound_login_is_not_widened_by_the_setting(site: &Site) -> Verdict {
    let [own, _] = site.held_in("narrowed_bound").await?;
    let worker = narrowed(site, WORKER_A, &TENANT_B.to_string()).await?;
    refuses_everything(&worker, &own, "another tenant", "JF009 tenant_mismatch").await?;
    let queue = "narrowed_bound_claim";
    for same_tenant in ["", "11111111-1111-1111-1111-111111111111"] {
        fill(site, queue).await?;
        let jobs = claimed(&narrowed(site, WORKER_A, same_tenant).await?, queue).await?;
        let tenants: Vec<Uuid> = jobs.iter().map(|job| job.tenant_id).collect();
        same("the claimed jobs' tenants", tenants, vec![TENANT_A])?;
    }
    Ok(())
}

/// Every function for workers.
async fn refuses_everything(worker: &Client, job: &Held, what: &str, wanted: &str) -> Verdict {
    for report in Report::ALL {
        refused(&format!("{report:?}, {what}"), report.send(worker, job).await, &[wanted])?;
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
        refused(call, worker.query(&format!("select * from {call}"), &[]).await, &[wanted])?;
    }
    Ok(())
}
