//! Those who may are served: the other half of isolation. A policy that shuts out the right ones is as wrong as one that
//! lets in the others, and each function must see, of every table, what it needs.

use serde_json::json;
use tokio_postgres::Client;
use uuid::Uuid;

use super::fences::Report;
use super::verdict::{Verdict, same, works};
use super::{Site, in_queue, probes};
use crate::schema::calls::{ClaimOptions, Held, act_for, claim, claim_with, enqueue_with, fail};
use crate::schema::{NOOP, TENANT_A, TENANT_B, WORKER};

probes![
    a_running_job_is_told_with_its_worker_and_progress,
    attempts_and_logs_are_told_while_the_job_lives_and_after,
    a_canceled_job_is_told_and_audited,
    a_dead_letter_is_retried_and_a_waiting_job_moved,
    jobs_are_listed_live_and_over,
    an_enqueue_wakes_a_sleeper,
    a_claim_goes_on_from_its_marks,
    a_claim_passes_held_tenants_by,
    a_claim_tells_the_types_timeout,
    limits_of_runs_and_of_starts_are_counted,
    keys_take_turns,
    waiting_jobs_are_counted,
];

/// A running job of tenant A with progress, a log line and a program's end.
async fn noted_job(site: &Site, queue: &'static str) -> Result<Held, String> {
    let [job, other] = site.held_in(queue).await?;
    for report in [Report::Progress, Report::Log, Report::Exit] {
        works(&format!("{report:?}"), report.send(&site.worker, &job).await)?;
    }
    works("the other", Report::Complete.send(&site.worker, &other).await)?;
    works("act", act_for(&site.app, TENANT_A).await)?;
    Ok(job)
}

async fn status(site: &Site, id: Uuid) -> Result<String, String> {
    works("act", act_for(&site.app, TENANT_A).await)?;
    let sql = "select status from jobforge.get_job($1, $2)";
    Ok(works("get_job", site.app.query_one(sql, &[&TENANT_A, &id]).await)?.get(0))
}

async fn a_running_job_is_told_with_its_worker_and_progress(site: &Site) -> Verdict {
    let job = noted_job(site, "service_running").await?;
    let sql = "select status, worker_id, progress_percent::integer from jobforge.get_job($1, $2)";
    let row = works("get_job", site.app.query_one(sql, &[&TENANT_A, &job.id]).await)?;
    let told: (String, Option<String>, Option<i32>) = (row.get(0), row.get(1), row.get(2));
    same("the job", told, ("running".into(), Some("w1".into()), Some(50)))
}

/// The number of attempts told, of log lines and of programs' ends with them.
async fn attempts(site: &Site, id: Uuid) -> Result<(i64, i64, i64), String> {
    let sql = "select count(*), coalesce(sum(jsonb_array_length(a.log)), 0)::bigint,
        count(*) filter (where a.pid = 4711 and a.exit_code = 0 and a.stdout_tail = 'out' and a.stderr_tail = 'err')
        from jobforge.list_attempts($1, $2) as a";
    let row = works("list_attempts", site.app.query_one(sql, &[&TENANT_A, &id]).await)?;
    Ok((row.get(0), row.get(1), row.get(2)))
}

async fn attempts_and_logs_are_told_while_the_job_lives_and_after(site: &Site) -> Verdict {
    let queue = "service_attempts";
    let job = noted_job(site, queue).await?;
    let (_, status) = works("fail", fail(&site.worker, &job, "retryable").await)?;
    same("the failed job's status", status.as_deref(), Some("queued"))?;
    same("attempts, log lines and programs of a live job", attempts(site, job.id).await?, (1, 1, 1))?;
    let again = "select status from jobforge.retry_job($1, $2)";
    works("retry", site.app.query(again, &[&TENANT_A, &job.id]).await)?;
    let claim = works("claim", claim_with(&site.worker, "w1", 1, in_queue(queue)).await)?;
    let job = claim.jobs.first().ok_or("the retried job was not claimed")?.clone();
    for report in [Report::Log, Report::Exit, Report::Complete] {
        works(&format!("{report:?}"), report.send(&site.worker, &job).await)?;
    }
    same("attempts, log lines and programs of a job that is over", attempts(site, job.id).await?, (2, 2, 2))
}

async fn a_canceled_job_is_told_and_audited(site: &Site) -> Verdict {
    let (id, _) =
        works("enqueue", enqueue_with(&site.app, TENANT_A, NOOP, "'{}', p_queue => 'service_cancel'").await)?;
    let sql = "select status from jobforge.cancel_job($1, $2, 'not needed')";
    let row = works("cancel", site.app.query_one(sql, &[&TENANT_A, &id]).await)?;
    same("its answer", row.get::<_, String>(0), "canceled".into())?;
    same("the job", status(site, id).await?, "canceled".into())?;
    works("act", act_for(&site.operator, TENANT_A).await)?;
    let sql = "select action, actor from jobforge.audit_log where job_id = $1";
    let row = works("the audit log", site.operator.query_one(sql, &[&id]).await)?;
    same(
        "the audit",
        (row.get::<_, String>(0), row.get::<_, String>(1)),
        ("cancel".into(), crate::schema::APP.into()),
    )
}

async fn a_dead_letter_is_retried_and_a_waiting_job_moved(site: &Site) -> Verdict {
    let [job, other] = site.held_in("service_dead").await?;
    for job in [&job, &other] {
        let (_, status) = works("fail", fail(&site.worker, job, "permanent").await)?;
        same("the failed job's status", status.as_deref(), Some("failed"))?;
    }
    works("act", act_for(&site.app, TENANT_A).await)?;
    let dead = "select count(*) from jobforge.list_jobs($1, '{failed}', p_queue => 'service_dead') where id is not null";
    let row = works("list", site.app.query_one(dead, &[&TENANT_A]).await)?;
    same("dead letters listed", row.get::<_, i64>(0), 1)?;
    for sql in [
        "select status from jobforge.retry_job($1, $2)",
        "select status from jobforge.reschedule_job($1, $2, now() + interval '1 day')",
    ] {
        let row = works(sql, site.app.query_one(sql, &[&TENANT_A, &job.id]).await)?;
        same(sql, row.get::<_, String>(0), "queued".into())?;
    }
    Ok(())
}

async fn jobs_are_listed_live_and_over(site: &Site) -> Verdict {
    let [job, other] = site.held_in("service_list").await?;
    for job in [&job, &other] {
        works("complete", Report::Complete.send(&site.worker, job).await)?;
    }
    works("enqueue", enqueue_with(&site.app, TENANT_A, NOOP, "'{}', p_queue => 'service_list'").await)?;
    let sql = "select array_agg(status order by id) from jobforge.list_jobs($1, p_queue => 'service_list') where id is not null";
    let row = works("list", site.app.query_one(sql, &[&TENANT_A]).await)?;
    same("the listed", row.get::<_, Option<Vec<String>>>(0), Some(vec!["succeeded".into(), "queued".into()]))
}

/// A listener's own round trip after the enqueue's commit brings what was sent by then.
async fn an_enqueue_wakes_a_sleeper(site: &Site) -> Verdict {
    let url = site.db.url_as(WORKER, None);
    let (listener, mut connection) =
        works("listen", tokio_postgres::connect(&url, tokio_postgres::NoTls).await)?;
    let (heard_at, mut heard) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Some(Ok(message)) = std::future::poll_fn(|cx| connection.poll_message(cx)).await {
            if let tokio_postgres::AsyncMessage::Notification(told) = message {
                let _ = heard_at.send(told.channel().to_owned());
            }
        }
    });
    works("listen", listener.batch_execute("listen jobforge_wake").await)?;
    let asleep = "select jobforge.sleep_worker('w1', '{service_sleep}', '{test.noop}')";
    works("sleep", site.worker.query(asleep, &[]).await)?;
    works("enqueue", enqueue_with(&site.app, TENANT_A, NOOP, "'{}', p_queue => 'service_sleep'").await)?;
    for _ in 0..2 {
        works("a round trip", listener.batch_execute("select 1").await)?;
    }
    let found = heard.try_recv().map_err(|_| "the sleeper was not notified".to_owned());
    let wake = "select jobforge.wake_worker('w1')";
    let row = works("wake", site.worker.query_one(wake, &[]).await)?;
    same("the mark was there", row.get::<_, bool>(0), true)?;
    same("the channel", found?, "jobforge_wake".to_owned())
}

/// Two claims by one worker: the second passes where the first stood, and looks behind it when it may have to.
async fn a_claim_goes_on_from_its_marks(site: &Site) -> Verdict {
    let queue = "service_marks";
    for _ in 0..2 {
        works(
            "enqueue",
            enqueue_with(&site.app, TENANT_A, NOOP, &format!("'{{}}', p_queue => '{queue}'")).await,
        )?;
    }
    let first = works("claim", claim_with(&site.worker, "w1", 1, in_queue(queue)).await)?;
    let job = first.jobs.first().ok_or("nothing was claimed")?;
    let row = works("its time", run_at(&site.admin, job.id).await)?;
    let marks = json!([{ "queue": queue, "type": NOOP, "tenant_id": TENANT_A, "priority": job.priority,
                         "run_at": row, "id": job.id }]);
    let cursor = Some(json!({ "turn": first.turn, "marks": marks }));
    let options = ClaimOptions { lease_id: Some(first.lease_id), cursor, ..in_queue(queue) };
    let second = works("claim on", claim_with(&site.worker, "w1", 1, options).await)?;
    same("jobs of the second claim", second.jobs.len(), 1)?;
    let swept = "select count(*) from jobforge.sweeps where queue = $1";
    same(
        "the sweep is noted",
        works("sweeps", site.admin.query_one(swept, &[&queue]).await)?.get::<_, i64>(0),
        1,
    )
}

async fn run_at(admin: &Client, id: Uuid) -> Result<String, tokio_postgres::Error> {
    admin
        .query_one("select run_at::text from jobforge.jobs where id = $1", &[&id])
        .await
        .map(|row| row.get(0))
}

/// Held tenants fill a turn of 64: the claim goes by the list of the free ones.
async fn a_claim_passes_held_tenants_by(site: &Site) -> Verdict {
    let held: Vec<Uuid> = (0x100..0x146).map(Uuid::from_u128).collect();
    let make = "select jobforge.upsert_tenant(t, 'held') from unnest($1::uuid[]) as t";
    works("make tenants", site.operator.query(make, &[&held]).await)?;
    for tenant in held.iter().chain([&TENANT_B]) {
        works("enqueue", enqueue_with(&site.app, *tenant, NOOP, "'{}', p_queue => 'service_held'").await)?;
    }
    let each = |verb: &str| format!("select jobforge.{verb}('tenant', t::text) from unnest($1::uuid[]) as t");
    works("hold", site.operator.query(&each("pause"), &[&held]).await)?;
    let claim = claim_with(&site.worker, "w1", 2, in_queue("service_held")).await;
    works("let go", site.operator.query(&each("resume"), &[&held]).await)?;
    let tenants: Vec<Uuid> = works("claim", claim)?.jobs.iter().map(|job| job.tenant_id).collect();
    same("whose jobs were claimed", tenants, vec![TENANT_B])
}

async fn a_claim_tells_the_types_timeout(site: &Site) -> Verdict {
    let define = "select jobforge.upsert_definition('test.timed', p_queue => 'service_timed', p_timeout_seconds => 77)";
    works("define", site.operator.query(define, &[]).await)?;
    works("enqueue", enqueue_with(&site.app, TENANT_A, "test.timed", "'{}'").await)?;
    let sql = "select timeout_seconds from jobforge.claim_jobs('w1', '{service_timed}', '{test.timed}') where id is not null";
    let row = works("claim", site.worker.query_one(sql, &[]).await)?;
    same("the timeout", row.get::<_, Option<i32>>(0), Some(77))?;
    works("an ordinary claim", claim(&site.worker, "w1", 1).await).map(drop)
}

/// A type with a limit of both kinds: one starts, and the second claim counts it and its token.
async fn limits_of_runs_and_of_starts_are_counted(site: &Site) -> Verdict {
    let queue = "service_limits";
    let define =
        "select jobforge.upsert_definition('test.limited', p_queue => 'service_limits', p_max_in_flight => 2,
        p_rate_per_second => 0.001, p_rate_burst => 3)";
    works("define", site.operator.query(define, &[]).await)?;
    for _ in 0..4 {
        works("enqueue", enqueue_with(&site.app, TENANT_A, "test.limited", "'{}'").await)?;
    }
    let claim = async || {
        let options = ClaimOptions { types: vec!["test.limited"], ..in_queue(queue) };
        works("claim", claim_with(&site.worker, "w1", 10, options).await)
    };
    let first = claim().await?.jobs;
    same("jobs up to the limit", first.len(), 2)?;
    same("jobs beyond it", claim().await?.jobs.len(), 0)?;
    for job in &first {
        works("complete", Report::Complete.send(&site.worker, job).await)?;
    }
    same("jobs up to the burst", claim().await?.jobs.len(), 1)
}

async fn keys_take_turns(site: &Site) -> Verdict {
    let queue = "service_keys";
    works("act", act_for(&site.app, TENANT_A).await)?;
    let sql = "select count(*) from jobforge.enqueue_jobs($1, array_fill('test.noop'::text, array[120]),
        array_fill('{}'::jsonb, array[120]), array_fill('service_keys'::text, array[120]),
        p_concurrency_keys => array(select 'k' || n from generate_series(1, 120) as n))";
    works("enqueue", site.app.query(sql, &[&TENANT_A]).await)?;
    for wanted in [100, 20] {
        let claimed = works("claim", claim_with(&site.worker, "w1", 200, in_queue(queue)).await)?.jobs;
        same("jobs of a turn", claimed.len(), wanted)?;
    }
    Ok(())
}

async fn waiting_jobs_are_counted(site: &Site) -> Verdict {
    let tenant = Uuid::from_u128(0x20);
    let make = "select jobforge.upsert_tenant($1, 'counted', p_max_pending => 1500)";
    works("make a tenant", site.operator.query(make, &[&tenant]).await)?;
    works("enqueue", enqueue_with(&site.app, tenant, NOOP, "p_queue => 'service_pending'").await)?;
    let counted = "select count(*) from jobforge.pending_counts where tenant_id = $1";
    let row = works("the count", site.admin.query_one(counted, &[&tenant]).await)?;
    same("counts kept", row.get::<_, i64>(0), 1)
}
