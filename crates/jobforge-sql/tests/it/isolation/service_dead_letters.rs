//! Dead letters are served to their tenant and to nobody else: listed, grouped, redriven, undone, canceled, under
//! operations that are as much the tenant's own as the jobs.

use uuid::Uuid;

use super::verdict::{Verdict, refused, same, works};
use super::{Site, probes};
use crate::schema::calls::{act_for, fail};
use crate::schema::{TENANT_A, TENANT_B};

probes![
    dead_letters_are_listed_and_grouped_for_their_tenant,
    a_redrive_reaches_one_tenant,
    an_operation_is_stepped_undone_and_told_to_its_tenant,
];

/// A dead letter of each tenant, first A's, then B's.
async fn dead_in(site: &Site, queue: &'static str) -> Result<[Uuid; 2], String> {
    let held = site.held_in(queue).await?;
    for job in &held {
        works("fail", fail(&site.worker, job, "permanent").await)?;
    }
    Ok(held.map(|job| job.id))
}

async fn status(site: &Site, id: Uuid) -> Result<String, String> {
    let sql = "select status from jobforge.jobs where id = $1";
    Ok(works("look", site.admin.query_one(sql, &[&id]).await)?.get(0))
}

async fn dead_letters_are_listed_and_grouped_for_their_tenant(site: &Site) -> Verdict {
    let queue = "dead_listed";
    let ids = dead_in(site, queue).await?;
    for (tenant, id) in [(TENANT_A, ids[0]), (TENANT_B, ids[1])] {
        works("act", act_for(&site.app, tenant).await)?;
        let sql = "select id, class from jobforge.list_dead_letters($1, p_queue => $2) where id is not null";
        let rows = works("list", site.app.query(sql, &[&tenant, &queue]).await)?;
        let found: Vec<(Uuid, String)> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
        same("the list", found, vec![(id, "failed/permanent".to_owned())])?;
        let sql = "select jobs, sample_id from jobforge.group_dead_letters($1, p_queue => $2)";
        let row = works("group", site.app.query_one(sql, &[&tenant, &queue]).await)?;
        same("the group", (row.get::<_, i64>(0), row.get::<_, Uuid>(1)), (1, id))?;
    }
    Ok(())
}

async fn a_redrive_reaches_one_tenant(site: &Site) -> Verdict {
    let [own, foreign] = dead_in(site, "dead_redriven").await?;
    works("act", act_for(&site.app, TENANT_A).await)?;
    let sql =
        "select verdict, error_code from jobforge.redrive_jobs($1, array[$2::uuid]) where id is not null";
    let row = works("redrive another's", site.app.query_one(sql, &[&TENANT_A, &foreign]).await)?;
    let told: (String, Option<String>) = (row.get(0), row.get(1));
    same("another's job", told, ("skipped".to_owned(), Some("JF007".to_owned())))?;
    let sql =
        "select id from jobforge.redrive_jobs($1, p_queue => 'dead_redriven') where verdict = 'redriven'";
    let rows = works("redrive by filter", site.app.query(sql, &[&TENANT_A]).await)?;
    same("redriven", rows.iter().map(|row| row.get(0)).collect::<Vec<Uuid>>(), vec![own])?;
    same("another's job", status(site, foreign).await?, "failed".to_owned())
}

async fn an_operation_is_stepped_undone_and_told_to_its_tenant(site: &Site) -> Verdict {
    let [own, foreign] = dead_in(site, "dead_bulk").await?;
    works("act", act_for(&site.app, TENANT_A).await)?;
    let start = "select id, matched from jobforge.start_bulk($1, 'redrive', '{\"queue\": \"dead_bulk\"}')";
    let row = works("start", site.app.query_one(start, &[&TENANT_A]).await)?;
    let (operation, matched): (Uuid, i64) = (row.get(0), row.get(1));
    same("matched", matched, 1)?;
    let calls = [
        "select id from jobforge.step_bulk($1, $2)",
        "select id from jobforge.undo_bulk($1, $2)",
        "select id from jobforge.get_bulk($1, $2)",
    ];
    works("act", act_for(&site.app, TENANT_B).await)?;
    for sql in calls {
        refused(sql, site.app.query(sql, &[&TENANT_B, &operation]).await, &["JF007 bulk_unknown"])?;
    }
    for sql in [
        "select from jobforge.list_bulks($1) where id = $2",
        "select from jobforge.list_bulk_results($1, $2)",
    ] {
        same(sql, works(sql, site.app.query(sql, &[&TENANT_B, &operation]).await)?.len(), 0)?;
    }
    works("act", act_for(&site.app, TENANT_A).await)?;
    works("step", site.app.query(calls[0], &[&TENANT_A, &operation]).await)?;
    same(
        "after the step",
        (status(site, own).await?, status(site, foreign).await?),
        ("queued".into(), "failed".into()),
    )?;
    let results = "select job_id, verdict from jobforge.list_bulk_results($1, $2)";
    let row = works("results", site.app.query_one(results, &[&TENANT_A, &operation]).await)?;
    same("its result", (row.get::<_, Uuid>(0), row.get::<_, String>(1)), (own, "redriven".into()))?;
    works("undo", site.app.query(calls[1], &[&TENANT_A, &operation]).await)?;
    let sql = "select undone, actor from jobforge.list_bulks($1) where id = $2";
    let row = works("list", site.app.query_one(sql, &[&TENANT_A, &operation]).await)?;
    same("undone, by", (row.get::<_, i64>(0), row.get::<_, String>(1)), (1, crate::schema::APP.into()))?;
    same("after the undo", status(site, own).await?, "failed".to_owned())
}
