//! Fences: a report counts only with the lease, the fence and the tenant that the job has now, and only while the lease
//! lives. Whatever else comes is refused and changes nothing.

use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Error};

use super::verdict::{Verdict, same, works};
use super::{Site, in_queue, probes};
use crate::schema::calls::{ClaimOptions, Held, claim_with, enqueue_with, release, release_all};
use crate::schema::{NOOP, TENANT_A, TENANT_B, told};

probes![
    an_old_fence_is_refused,
    a_guessed_fence_is_refused,
    another_lease_is_refused,
    a_zombie_is_refused_after_a_new_claim,
    an_ended_lease_is_refused,
    an_expired_lease_is_refused_before_the_reaper_came,
    the_right_token_for_the_wrong_tenant_is_refused,
    locators_are_only_hints,
    every_report_works_with_the_right_token,
];

/// Every way in which a worker says something about a job it holds.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Report {
    Complete,
    CompleteBatch,
    Fail,
    FailBatch,
    Heartbeat,
    Progress,
    Log,
    Exit,
    Hold,
    Snooze,
    Release,
    FindConfig,
    DisableConfig,
    CountJobs,
    CountFlow,
}

impl Report {
    pub(crate) const ALL: [Report; 15] = [
        Report::Complete,
        Report::CompleteBatch,
        Report::Fail,
        Report::FailBatch,
        Report::Heartbeat,
        Report::Progress,
        Report::Log,
        Report::Exit,
        Report::Hold,
        Report::Snooze,
        Report::Release,
        Report::FindConfig,
        Report::DisableConfig,
        Report::CountJobs,
        Report::CountFlow,
    ];

    /// Sends it; the answer is the verdict where there is one, else the problem of the job, else what came back.
    pub(crate) async fn send(self, worker: &Client, job: &Held) -> Result<String, Error> {
        let sql = match self {
            Report::Complete => "jobforge.complete_job($1, $2, $3, $4) as r(verdict)",
            Report::CompleteBatch => {
                "jobforge.complete_jobs($1, array[$2::uuid], array[$3::uuid], array[$4::integer]) as r(at, verdict)"
            }
            Report::Fail => "jobforge.fail_job($1, $2, $3, $4) as r(verdict, status, run_at)",
            Report::FailBatch => {
                "jobforge.fail_jobs($1, array[$2::uuid], array[$3::uuid], array[$4::integer], '{permanent}', '{bad}')
                   as r(at, verdict, status, run_at)"
            }
            Report::Heartbeat => {
                "(select max(h.problem) from
                    jobforge.heartbeat($1, array[$2::uuid], array[$3::uuid], array[$4::integer]) as h) as r(verdict)"
            }
            Report::Progress => "jobforge.report_progress($1, $2, $3, $4, 50) as r(verdict)",
            Report::Log => "jobforge.append_log($1, $2, $3, $4, '{info}', '{line}') as r(verdict)",
            Report::Exit => "jobforge.report_exit($1, $2, $3, $4, 4711, 0, null, 'out', 'err') as r(verdict)",
            Report::Hold => {
                "jobforge.hold_result($1, $2, $3, $4, 'sha256:' || repeat('f', 64), 7) as r(verdict)"
            }
            Report::Snooze => "jobforge.snooze_job($1, $2, $3, $4, 60) as r(verdict)",
            Report::Release => {
                "jobforge.release_jobs($1, array[$2::uuid], array[$3::uuid], array[$4::integer]) as r(at, verdict)"
            }
            Report::FindConfig => {
                "(select count(*) from jobforge.find_connector_config($1, $2, $3, $4, 'reports')) as r(verdict)"
            }
            Report::DisableConfig => {
                "jobforge.disable_connector_config($1, $2, $3, $4, 'reports', 'gone') as r(verdict)"
            }
            Report::CountJobs => {
                "(select count(*) from jobforge.count_jobs($1, $2, $3, $4, 'type')) as r(verdict)"
            }
            Report::CountFlow => {
                "(select count(*) from jobforge.count_flow($1, $2, $3, $4, 'day')) as r(verdict)"
            }
        };
        let sql = format!("select coalesce(r.verdict::text, 'ok') from {sql}");
        worker
            .query_one(&sql, &[&job.lease_id, &job.tenant_id, &job.id, &job.fence])
            .await
            .map(|row| row.get(0))
    }
}

/// A report that must be refused, by its error or its verdict, and change nothing. A beat of a living lease may renew
/// that lease: then only the job is looked at.
pub(crate) async fn refused_report(site: &Site, worker: &Client, report: Report, job: &Held) -> Verdict {
    let before = site.picture(job).await?;
    match report.send(worker, job).await {
        Err(error) if matches!(error.code().map(SqlState::code), Some("JF006" | "JF007")) => {}
        Err(error) => return Err(format!("{report:?}: {}", told(&error))),
        Ok(verdict) if ["stale", "unknown", "lost"].contains(&verdict.as_str()) => {}
        Ok(verdict) => return Err(format!("{report:?} with tokens that are not the job's: {verdict}")),
    }
    let mut after = site.picture(job).await?;
    if matches!(report, Report::Heartbeat) {
        after["stored"][6] = before["stored"][6].clone();
    }
    same(&format!("what is stored after a refused {report:?}"), after, before)
}

async fn all_refused(site: &Site, job: &Held) -> Verdict {
    for report in Report::ALL {
        refused_report(site, &site.worker, report, job).await?;
    }
    Ok(())
}

async fn an_old_fence_is_refused(site: &Site) -> Verdict {
    let [mut job, _] = site.held_in("fence_old").await?;
    job.fence -= 1;
    all_refused(site, &job).await
}

async fn a_guessed_fence_is_refused(site: &Site) -> Verdict {
    let [job, _] = site.held_in("fence_guess").await?;
    for fence in [job.fence + 1, i32::MAX, -1] {
        all_refused(site, &Held { fence, ..job.clone() }).await?;
    }
    Ok(())
}

/// The worker's own other lease does not stand for this job, though both belong to one worker.
async fn another_lease_is_refused(site: &Site) -> Verdict {
    let [job, _] = site.held_in("fence_lease").await?;
    let [other, _] = site.held_in("fence_lease").await?;
    all_refused(site, &Held { lease_id: other.lease_id, ..job }).await
}

/// Gives a job back and claims it again, by another worker: the old tokens, and each of them with the new other half.
async fn a_zombie_is_refused_after_a_new_claim(site: &Site) -> Verdict {
    let queue = "fence_zombie";
    let [old, other] = site.held_in(queue).await?;
    same("release", works("release", release(&site.worker, &old).await)?, "done".to_owned())?;
    let claim = works("claim again", claim_with(&site.worker, "w2", 10, in_queue(queue)).await)?;
    let new = claim.jobs.first().ok_or("the released job was not claimed again")?;
    same("the job and its fence", (new.id, new.fence), (old.id, old.fence + 1))?;
    all_refused(site, &old).await?;
    all_refused(site, &Held { lease_id: new.lease_id, ..old.clone() }).await?;
    all_refused(site, &Held { fence: new.fence, ..old.clone() }).await?;
    for job in [new, &other] {
        works("the holder's own report", Report::Complete.send(&site.worker, job).await)?;
    }
    Ok(())
}

async fn an_ended_lease_is_refused(site: &Site) -> Verdict {
    let [job, _] = site.held_in("fence_ended").await?;
    works("end the lease", release_all(&site.worker, job.lease_id).await)?;
    all_refused(site, &job).await
}

/// The lease is shorter than the five seconds of silence that would count as an outage and revive it.
async fn an_expired_lease_is_refused_before_the_reaper_came(site: &Site) -> Verdict {
    let queue = "fence_expired";
    let extra = format!("'{{}}', p_queue => '{queue}'");
    site.db.advance_clock(0.0).await;
    let found = async {
        works("enqueue", enqueue_with(&site.app, TENANT_A, NOOP, &extra).await)?;
        let options = ClaimOptions { lease_seconds: 2, ..in_queue(queue) };
        let claim = works("claim", claim_with(&site.worker, "w1", 1, options).await)?;
        let job = claim.jobs.first().ok_or("nothing was claimed")?.clone();
        site.db.advance_clock(1.0).await;
        works("a beat in time", Report::Heartbeat.send(&site.worker, &job).await)?;
        site.db.advance_clock(2.0).await;
        all_refused(site, &job).await?;
        let options = ClaimOptions { lease_id: Some(job.lease_id), ..in_queue(queue) };
        let more = claim_with(&site.worker, "w1", 1, options).await;
        super::verdict::refused("claim onto it", more, &["JF006 lease_lost"])?;
        let ended = release_all(&site.worker, job.lease_id).await;
        super::verdict::refused("end it", ended, &["JF006 lease_lost"])
    };
    let found = found.await;
    site.db.set_clock(None).await;
    found
}

async fn the_right_token_for_the_wrong_tenant_is_refused(site: &Site) -> Verdict {
    let [of_a, of_b] = site.held_in("fence_tenant").await?;
    all_refused(site, &Held { tenant_id: TENANT_B, ..of_a }).await?;
    all_refused(site, &Held { tenant_id: TENANT_A, ..of_b }).await
}

/// A locator that names another job's row must not complete that job, and a wrong one must not stop a right report.
async fn locators_are_only_hints(site: &Site) -> Verdict {
    let [of_a, of_b] = site.held_in("fence_locator").await?;
    let before = site.picture(&of_b).await?["stored"][0].clone();
    let sql = "select verdict from jobforge.complete_jobs($1, array[$2::uuid], array[$3::uuid], array[$4::integer], null,
                 array[$5::text::tid])";
    let row = site
        .worker
        .query_one(sql, &[&of_a.lease_id, &of_a.tenant_id, &of_a.id, &of_a.fence, &of_b.locator])
        .await;
    same("complete", works("complete", row)?.get::<_, String>(0), "done".to_owned())?;
    same("the job at the wrong place", site.picture(&of_b).await?["stored"][0].clone(), before)
}

async fn every_report_works_with_the_right_token(site: &Site) -> Verdict {
    for report in Report::ALL {
        let [of_a, of_b] = site.held_in("fence_right").await?;
        for job in [&of_a, &of_b] {
            let answer = works(&format!("{report:?}"), report.send(&site.worker, job).await)?;
            if ["stale", "unknown", "lost"].contains(&answer.as_str()) {
                return Err(format!("{report:?} with the right token: {answer}"));
            }
        }
        let sql = "update jobforge.jobs set ready = false, run_at = run_at + interval '1 day'
                   where queue = 'fence_right' and status = 'queued'";
        works("put what is left away", site.admin.batch_execute(sql).await)?;
    }
    Ok(())
}
