//! Payloads come back as they went in, or do not come in at all.

use super::verdict::{Verdict, refused, same, works};
use super::{Site, in_queue, probes};
use crate::schema::calls::{act_for, claim_with};
use crate::schema::{NOOP, TENANT_A};

probes![
    numbers_are_exact,
    a_nul_is_refused_at_the_door,
    what_is_too_large_or_too_deep_is_refused,
    a_bad_row_leaves_its_neighbours,
    an_unknown_type_is_refused,
    a_key_used_for_another_payload_is_refused,
];

/// Enqueues a payload given as an SQL expression.
async fn enqueue(site: &Site, payload: &str) -> Result<uuid::Uuid, tokio_postgres::Error> {
    act_for(&site.app, TENANT_A).await?;
    let sql = format!("select id from jobforge.enqueue_job($1, $2, {payload}, p_queue => 'payloads')");
    site.app.query_one(&sql, &[&TENANT_A, &NOOP]).await.map(|row| row.get(0))
}

/// 2^53 + 1 is the first whole number that a double cannot hold. The text is compared: no client's JSON in between.
async fn numbers_are_exact(site: &Site) -> Verdict {
    let id = works("enqueue", enqueue(site, r#"'{"n": 9007199254740993, "z": 1.10, "e": 1e300}'"#).await)?;
    let claim = works("claim", claim_with(&site.worker, "w1", 1, in_queue("payloads")).await)?;
    let job = claim.jobs.first().ok_or("nothing was claimed")?;
    let complete = "select jobforge.complete_job($1, $2, $3, $4, '{\"n\": 9007199254740993, \"z\": 1.10}')";
    works("complete", site.worker.query(complete, &[&job.lease_id, &TENANT_A, &id, &job.fence]).await)?;
    let sql = "select j.payload ->> 'n', j.payload ->> 'z', length(j.payload ->> 'e'), j.result ->> 'n', j.result ->> 'z'
               from jobforge.get_job($1, $2) as j";
    let row = works("get", site.app.query_one(sql, &[&TENANT_A, &id]).await)?;
    let text = |at: usize| row.get::<_, String>(at);
    same(
        "the payload",
        (text(0), text(1), row.get::<_, i32>(2)),
        ("9007199254740993".into(), "1.10".into(), 301),
    )?;
    same("the result", (text(3), text(4)), ("9007199254740993".into(), "1.10".into()))
}

async fn a_nul_is_refused_at_the_door(site: &Site) -> Verdict {
    for payload in [r#"'["\u0000"]'"#, r#"'{"a\u0000": 1}'"#] {
        refused(payload, enqueue(site, payload).await, &["22P05"])?;
    }
    refused("a NUL in a text argument", enqueue(site, "'{}', p_queue => E'\\x00'").await, &["22021", "42601"])
}

async fn what_is_too_large_or_too_deep_is_refused(site: &Site) -> Verdict {
    for (payload, reason) in [
        ("jsonb_build_object('a', repeat('x', 300000))", "JF003 payload_too_large"),
        ("(repeat('[', 200) || repeat(']', 200))::jsonb", "JF003 payload_too_deep"),
        ("('{\"n\": ' || repeat('9', 500) || '}')::jsonb", "JF003 number_too_long"),
        ("null", "JF003 payload_missing"),
    ] {
        refused(payload, enqueue(site, payload).await, &[reason])?;
    }
    let large = "jsonb_build_object('a', repeat('x', 262000))";
    works("what just fits", enqueue(site, large).await).map(drop)
}

async fn a_bad_row_leaves_its_neighbours(site: &Site) -> Verdict {
    works("act", act_for(&site.app, TENANT_A).await)?;
    let sql = "select e.error_code, e.error_reason, e.id is not null from jobforge.enqueue_jobs($1, array[$2::text, 'nobody.knows', $2],
                 array['{}', '{}', jsonb_build_object('a', repeat('x', 300000))]::jsonb[],
                 p_queues => array_fill('payloads_batch'::text, array[3])) as e order by e.at";
    let rows = works("a batch", site.app.query(sql, &[&TENANT_A, &NOOP]).await)?;
    let found: Vec<(String, bool)> =
        rows.iter().map(|row| (row.get::<_, Option<String>>(0).unwrap_or_default(), row.get(2))).collect();
    let wanted = [("", true), ("JF002", false), ("JF003", false)].map(|(code, made)| (code.to_owned(), made));
    same("the answers", found, wanted.to_vec())
}

async fn an_unknown_type_is_refused(site: &Site) -> Verdict {
    works("act", act_for(&site.app, TENANT_A).await)?;
    let sql = "select * from jobforge.enqueue_job($1, 'nobody.knows')";
    refused("enqueue", site.app.query(sql, &[&TENANT_A]).await, &["JF002"])
}

async fn a_key_used_for_another_payload_is_refused(site: &Site) -> Verdict {
    let first = r#"'{"a": 1}', p_idempotency_key => 'payloads'"#;
    let id = works("first", enqueue(site, first).await)?;
    same("the same again", works("again", enqueue(site, first).await)?, id)?;
    let other = r#"'{"a": 2}', p_idempotency_key => 'payloads'"#;
    refused("another payload", enqueue(site, other).await, &["JF004 key_reused_with_other_payload"])
}
