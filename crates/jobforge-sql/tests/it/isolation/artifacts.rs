//! Objects of the artifact store: a tenant's job holds its own tenant's, and nobody else's.

use tokio_postgres::{Client, Error};
use uuid::Uuid;

use super::verdict::{Verdict, refused, same, works};
use super::{Site, probes};
use crate::schema::calls::{act_for, complete, enqueue_with, lead};
use crate::schema::{NOOP, TENANT_A, TENANT_B};

probes![a_job_holds_its_own_tenants_objects, results_are_held_and_objects_are_collected];

fn object(digits: &str) -> String {
    format!("sha256:{digits:0>64}")
}

/// A job of this tenant whose payload is the object; not due, so that no claim takes it.
async fn naming(client: &Client, tenant: Uuid, object: &str) -> Result<Uuid, Error> {
    let extra = format!(
        "'{{\"$artifact\": {{\"ref\": \"{object}\", \"bytes\": 7}}}}', p_queue => 'artifacts',
         p_run_at => jobforge.clock() + interval '1 day'"
    );
    enqueue_with(client, tenant, NOOP, &extra).await.map(|(id, _)| id)
}

async fn attach(client: &Client, tenant: Uuid, job: Uuid, object: &str) -> Result<(), Error> {
    act_for(client, tenant).await?;
    client.query("select jobforge.attach_artifact($1, $2, $3, 7)", &[&tenant, &job, &object]).await.map(drop)
}

async fn announce(client: &Client, tenant: Uuid, object: &str) -> Result<(), Error> {
    act_for(client, tenant).await?;
    client.query("select jobforge.announce_artifact($1, $2)", &[&tenant, &object]).await.map(drop)
}

async fn holders(site: &Site, object: &str) -> Result<i64, String> {
    let sql = "select count(*) from jobforge.job_artifacts where ref = $1";
    Ok(works("count", site.admin.query_one(sql, &[&object]).await)?.get(0))
}

async fn a_job_holds_its_own_tenants_objects(site: &Site) -> Verdict {
    let object = object("a1");
    works("announce", announce(&site.app, TENANT_A, &object).await)?;
    let of_a = works("enqueue for A", naming(&site.app, TENANT_A, &object).await)?;
    let of_b = works("enqueue for B", naming(&site.app, TENANT_B, &object).await)?;
    // B names what A announced, and then A's job.
    refused("A's object", attach(&site.app, TENANT_B, of_b, &object).await, &["JF007 artifact_unknown"])?;
    refused("A's object", attach(&site.only_b, TENANT_B, of_b, &object).await, &["JF007 artifact_unknown"])?;
    works("announce for B", announce(&site.app, TENANT_B, &object).await)?;
    refused("A's job", attach(&site.app, TENANT_B, of_a, &object).await, &["JF007 job_unknown"])?;
    let bound = attach(&site.only_b, TENANT_A, of_a, &object).await;
    refused("A, by a login of B", bound, &["JF009 login_not_bound"])?;
    same("holders", holders(site, &object).await?, 0)?;
    works("attach", attach(&site.app, TENANT_A, of_a, &object).await)?;
    works("again", attach(&site.app, TENANT_A, of_a, &object).await)?;
    same("holders", holders(site, &object).await?, 1)?;
    // The end of a job that never ran is written by a tenant's function.
    works("act", act_for(&site.app, TENANT_A).await)?;
    works("cancel", site.app.query("select * from jobforge.cancel_job($1, $2)", &[&TENANT_A, &of_a]).await)?;
    let sql = "select job_finished_at is not null and retention is not null from jobforge.job_artifacts where job_id = $1";
    same("the end is noted", works("look", site.admin.query_one(sql, &[&of_a]).await)?.get(0), true)
}

async fn results_are_held_and_objects_are_collected(site: &Site) -> Verdict {
    let (kept, lost) = (object("b1"), object("b2"));
    let [job, _] = site.held_in("artifacts_results").await?;
    let hold = "select jobforge.hold_result($1, $2, $3, $4, $5, 7)";
    for object in [&lost, &kept] {
        let held =
            site.worker.query(hold, &[&job.lease_id, &job.tenant_id, &job.id, &job.fence, object]).await;
        works("hold", held)?;
    }
    works("complete", complete(&site.worker, &job).await)?;
    let age = "update jobforge.artifacts set collect_at = now() - interval '1 minute' where ref = any ($1)";
    works("make old", site.admin.execute(age, &[&[&lost, &kept].as_slice()]).await)?;
    let term = works("lead", lead(&site.operator, "upkeep").await)?;
    let collect = "select ref, doomed_at from jobforge.collect_artifacts($1) where ref = any ($2)";
    let doomed = works("collect", site.operator.query(collect, &[&term, &[&lost, &kept].as_slice()]).await)?;
    let refs: Vec<String> = doomed.iter().map(|row| row.get(0)).collect();
    same("doomed", refs, vec![lost.clone()])?;
    let at: std::time::SystemTime = doomed[0].get(1);
    let confirm = "select jobforge.confirm_artifacts($1, array[$2::uuid], array[$3], $4)";
    let row = works("confirm", site.operator.query_one(confirm, &[&term, &TENANT_A, &lost, &at]).await)?;
    same("confirmed", row.get::<_, i32>(0), 1)?;
    let sql = "select array_agg(ref order by ref) from jobforge.artifacts where ref = any ($1)";
    let left = works("look", site.admin.query_one(sql, &[&[&lost, &kept].as_slice()]).await)?;
    same("left", left.get::<_, Vec<String>>(0), vec![kept])
}
