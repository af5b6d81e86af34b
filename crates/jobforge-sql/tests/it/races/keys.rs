//! Keyed enqueues wait for one another and for nobody else; a dedupe key covers the living.

use jobforge_testkit::{Param, Running, Session};
use tokio_postgres::Error;
use uuid::Uuid;

use super::stage::{Stage, refusal};
use crate::schema::calls::{claim, complete, enqueue, enqueue_with, fail};
use crate::schema::{NOOP, OTHER, TENANT_A, TENANT_B};

const KEYED: &str = "select id, existing from jobforge.enqueue_job($1, 'test.noop', p_idempotency_key => $2)";

/// A batch of one type per row, with these keys in this order.
const BATCH: &str = "select at, id, existing from jobforge.enqueue_jobs($1, $2,
    array_fill('{}'::jsonb, array[cardinality($2::text[])]),
    p_idempotency_keys => $3, p_dedupe_keys => $4) order by at";

async fn keyed(session: &Session, key: &str) -> Result<(Uuid, bool), Error> {
    let row = session.client().query_one(KEYED, &[&TENANT_A, &key]).await?;
    Ok((row.get(0), row.get(1)))
}

async fn keyed_waiting(stage: &Stage, key: &str) -> Running {
    let params: Vec<Param> = vec![Box::new(TENANT_A), Box::new(key.to_owned())];
    stage.an_app().await.spawn_blocked(KEYED, params).await
}

async fn enqueued(running: Running) -> (Uuid, bool) {
    let (_, rows) = running.finish().await;
    let rows = rows.unwrap();
    (rows[0].get(0), rows[0].get(1))
}

#[tokio::test]
async fn a_keyed_enqueue_waits_for_the_winner_and_answers_with_its_job() {
    let stage = Stage::set().await;
    stage.app.begin().await;
    let (first, _) = keyed(&stage.app, "k").await.unwrap();
    let waiter = keyed_waiting(&stage, "k").await;
    assert_eq!(waiter.blocked_by().await, [stage.app.pid()]);
    stage.app.commit().await;
    assert_eq!(enqueued(waiter).await, (first, true));
    assert_eq!(stage.count("select count(*) from jobforge.jobs").await, 1);
}

#[tokio::test]
async fn when_the_winner_rolls_back_the_waiters_job_is_made() {
    let stage = Stage::set().await;
    stage.app.begin().await;
    let (never, _) = keyed(&stage.app, "k").await.unwrap();
    let waiter = keyed_waiting(&stage, "k").await;
    stage.app.rollback().await;
    let (id, existing) = enqueued(waiter).await;
    assert!(id != never && !existing);
    assert_eq!(stage.told(id).await, "queued 0/0/0");
}

#[tokio::test]
async fn an_open_keyed_enqueue_stalls_no_other_key_and_nobody_without_one() {
    let stage = Stage::set().await;
    stage.app.begin().await;
    keyed(&stage.app, "k").await.unwrap();
    // Each of these would wait for ever if it waited at all.
    stage.other.run("set lock_timeout = '10s'").await;
    assert!(!keyed(&stage.other, "another").await.unwrap().1);
    enqueue(stage.other.client(), TENANT_A, NOOP, serde_json::json!({})).await.unwrap();
    enqueue_with(stage.other.client(), TENANT_B, NOOP, "p_idempotency_key => 'k'").await.unwrap();
    enqueue_with(stage.other.client(), TENANT_A, OTHER, "p_idempotency_key => 'k'").await.unwrap();
    assert_eq!(claim(stage.worker.client(), "w1", 10).await.unwrap().len(), 4);
    stage.app.rollback().await;
}

/// Two batches, the second with keys of the first the other way round, while somebody else holds the key in the
/// middle of the first: a second that took its keys as they come would hold what the first needs next.
async fn opposite_batches(types: [&'static str; 3], idempotent: bool) -> Vec<Result<Vec<bool>, String>> {
    let stage = Stage::set().await;
    let columns = |keys: Vec<&'static str>| -> Vec<Param> {
        let none: Option<Vec<&str>> = None;
        if idempotent {
            vec![Box::new(Some(keys)), Box::new(none)]
        } else {
            vec![Box::new(none), Box::new(Some(keys))]
        }
    };
    let batch = |types: &[&'static str], keys: Vec<&'static str>| -> Vec<Param> {
        let mut params: Vec<Param> = vec![Box::new(TENANT_A), Box::new(types.to_vec())];
        params.extend(columns(keys));
        params
    };
    stage.app.begin().await;
    let gate = batch(&[NOOP], vec!["m"]);
    let gate: Vec<_> = gate.iter().map(|p| p.as_ref() as _).collect();
    stage.app.query(BATCH, &gate).await.unwrap();
    let first = stage.an_app().await.spawn_blocked(BATCH, batch(&types, vec!["a", "m", "z"])).await;
    let second = stage.an_app().await.spawn_blocked(BATCH, batch(&types[1..], vec!["z", "a"])).await;
    stage.app.rollback().await;
    let mut ends = Vec::new();
    for running in [first, second] {
        let (_, rows) = running.finish().await;
        ends.push(rows.map(|rows| rows.iter().map(|row| row.get(2)).collect()).map_err(|e| e.to_string()));
    }
    ends
}

#[tokio::test]
async fn batches_with_keys_in_opposite_order_wait_and_do_not_deadlock() {
    let ends = opposite_batches([NOOP; 3], true).await;
    assert_eq!(ends, [Ok(vec![false; 3]), Ok(vec![true; 2])]);
}

#[tokio::test]
async fn batches_with_dedupe_keys_in_opposite_order_over_several_types_do_not_deadlock() {
    let ends = opposite_batches([NOOP, NOOP, OTHER], false).await;
    assert_eq!(ends, [Ok(vec![false; 3]), Ok(vec![true; 2])]);
}

#[tokio::test]
async fn under_repeatable_read_an_unseen_winner_is_a_serialization_error() {
    let stage = Stage::set().await;
    stage.other.run("begin isolation level repeatable read; select 1").await;
    stage.other.query("select count(*) from jobforge.jobs", &[]).await.unwrap();
    keyed(&stage.app, "k").await.unwrap();
    let refused = keyed(&stage.other, "k").await;
    assert_eq!(refusal(refused).split(' ').next(), Some("40001"));
}

#[tokio::test]
async fn a_key_with_another_payload_is_a_conflict_and_the_first_job_stays() {
    let stage = Stage::set().await;
    let (first, _) = keyed(&stage.app, "k").await.unwrap();
    let other = enqueue_with(
        stage.app.client(),
        TENANT_A,
        NOOP,
        "p_payload => '{\"n\": 2}', p_idempotency_key => 'k'",
    );
    assert_eq!(refusal(other.await), "JF004 key_reused_with_other_payload");
    assert_eq!(keyed(&stage.app, "k").await.unwrap(), (first, true));
}

#[tokio::test]
async fn made_ids_are_of_version_7_at_the_clocks_time_and_in_input_order() {
    let stage = Stage::set().await;
    let ids = stage.jobs(300).await;
    assert!(ids.is_sorted(), "ids of a batch are in input order");
    for id in [ids[0], ids[299]] {
        assert_eq!(id.get_version_num(), 7);
        let (seconds, _) = id.get_timestamp().unwrap().to_unix();
        assert!((stage.now().await - f64::from(u32::try_from(seconds).unwrap())).abs() < 2.0);
    }
}

#[tokio::test]
async fn a_clients_id_must_be_of_version_7_and_recent_and_is_made_once() {
    let stage = Stage::set().await;
    let made = "select jobforge.make_id(jobforge.id_base(jobforge.clock() - make_interval(days => $1)), jobforge.id_tail(), 1)";
    let id: Uuid = stage.admin.query_one(made, &[&0]).await.unwrap().get(0);
    let old: Uuid = stage.admin.query_one(made, &[&2]).await.unwrap().get(0);
    let sql = "select id, existing, status from jobforge.enqueue_job($1, 'test.noop', $3, p_id => $2)";
    let give = async |id: Uuid, n: i32| {
        let payload = tokio_postgres::types::Json(serde_json::json!({ "n": n }));
        let row = stage.app.client().query_one(sql, &[&TENANT_A, &id, &payload]).await?;
        Ok::<_, Error>((row.get::<_, Uuid>(0), row.get::<_, bool>(1), row.get::<_, String>(2)))
    };
    assert_eq!(refusal(give(Uuid::from_u128(0x4000_8000 << 32), 1).await), "JF001 id_not_version_7");
    assert_eq!(refusal(give(old, 1).await), "JF001 id_not_recent");
    assert_eq!(give(id, 1).await.unwrap(), (id, false, "queued".to_owned()));
    assert_eq!(give(id, 1).await.unwrap(), (id, true, "queued".to_owned()));
    assert_eq!(refusal(give(id, 2).await), "JF004 key_reused_with_other_payload");
    let job = stage.claim(1).await.remove(0);
    complete(stage.worker.client(), &job).await.unwrap();
    assert_eq!(give(id, 1).await.unwrap(), (id, true, "succeeded".to_owned()), "also when it is over");
}

/// What an enqueue with these arguments answers: its job and whether it was there, or the refusal.
async fn told(stage: &Stage, extra: &str) -> Result<(Uuid, bool), String> {
    enqueue_with(stage.app.client(), TENANT_A, NOOP, extra)
        .await
        .map_err(|error| refusal(Err::<(), _>(error)))
}

#[tokio::test]
async fn a_call_with_a_key_and_an_id_that_comes_again_keeps_its_key() {
    let stage = Stage::set().await;
    let made = "select jobforge.make_id(jobforge.id_base(jobforge.clock()), jobforge.id_tail(), $1)";
    let id: Uuid = stage.admin.query_one(made, &[&1]).await.unwrap().get(0);
    let both = format!("'{{\"n\": 1}}', p_idempotency_key => 'order', p_id => '{id}'");
    assert_eq!(told(&stage, &both).await, Ok((id, false)));
    assert_eq!(told(&stage, &both).await, Ok((id, true)));
    let other = format!("'{{\"n\": 2}}', p_idempotency_key => 'order', p_id => '{id}'");
    assert_eq!(told(&stage, &other).await, Err("JF004 key_reused_with_other_payload".to_owned()));
    assert_eq!(told(&stage, "'{\"n\": 1}', p_idempotency_key => 'order'").await, Ok((id, true)));
    // A key that comes to a known id is its job's from then on; one that is refused stays free.
    let late = format!("'{{\"n\": 1}}', p_idempotency_key => 'late', p_id => '{id}'");
    assert_eq!(told(&stage, &late).await, Ok((id, true)));
    assert_eq!(told(&stage, "'{\"n\": 1}', p_idempotency_key => 'late'").await, Ok((id, true)));
    let refused = format!("'{{\"n\": 2}}', p_idempotency_key => 'free', p_id => '{id}'");
    assert_eq!(told(&stage, &refused).await, Err("JF004 key_reused_with_other_payload".to_owned()));
    assert!(!told(&stage, "'{\"n\": 2}', p_idempotency_key => 'free'").await.unwrap().1);
    assert_eq!(stage.count("select count(*) from jobforge.jobs").await, 2);
}

/// Whoever lost the answer to what was accepted does not hear that it never was.
#[tokio::test]
async fn a_key_answers_though_its_type_was_switched_off_since() {
    let stage = Stage::set().await;
    let (first, _) = keyed(&stage.app, "k").await.unwrap();
    stage.definition(NOOP, "p_is_active => false").await;
    assert_eq!(keyed(&stage.app, "k").await.unwrap(), (first, true));
    assert_eq!(refusal(keyed(&stage.app, "new").await), "JF002 inactive_definition");
    stage.definition(NOOP, "p_is_active => true").await;
    assert!(!keyed(&stage.app, "new").await.unwrap().1);
}

/// What is wrong with such a row besides is told, and takes no neighbour along.
#[tokio::test]
async fn of_a_type_that_is_switched_off_a_known_key_does_not_hide_what_else_is_wrong() {
    let stage = Stage::set().await;
    let made = "select jobforge.make_id(jobforge.id_base(jobforge.clock()), jobforge.id_tail(), 1)";
    let id: Uuid = stage.admin.query_one(made, &[]).await.unwrap().get(0);
    let (first, _) = told(&stage, &format!("p_idempotency_key => 'k', p_id => '{id}'")).await.unwrap();
    stage.definition(NOOP, "p_is_active => false").await;
    let sql = "select coalesce(nullif(b.error_reason, ''), b.id::text) from jobforge.enqueue_jobs($1, array[$2, $2, $2, $3],
        array[null, '{}', '{}', '{}']::jsonb[], p_idempotency_keys => array['k', '', 'k', 'new'],
        p_ids => array[null, $4, null, null]::uuid[]) as b order by b.at";
    let rows = stage.app.query(sql, &[&TENANT_A, &NOOP, &OTHER, &id]).await.unwrap();
    let answers: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    assert_eq!(answers[..3], ["payload_missing", "idempotency_key_length", &first.to_string()]);
    assert!(answers[3].parse::<Uuid>().is_ok(), "{answers:?}");
}

/// Enqueues a batch with these ids: each row's id, or why it was refused.
async fn with_ids(stage: &Stage, ids: &[Option<Uuid>]) -> Vec<Result<Uuid, String>> {
    let sql = "select id, error_code, error_reason from jobforge.enqueue_jobs($1, array_fill('test.noop'::text, array[$3::integer]),
        array_fill('{}'::jsonb, array[$3::integer]), p_ids => $2) order by at";
    let count = i32::try_from(ids.len()).unwrap();
    let rows = stage.app.query(sql, &[&TENANT_A, &ids, &count]).await.unwrap();
    let answer = |row: &tokio_postgres::Row| match row.get(1) {
        None | Some("") => Ok(row.get(0)),
        Some(code) => Err(format!("{code} {}", row.get::<_, &str>(2))),
    };
    rows.iter().map(answer).collect()
}

#[tokio::test]
async fn a_clients_id_that_jobforge_gave_a_job_is_refused_and_its_neighbours_go_on() {
    let stage = Stage::set().await;
    let taken = stage.job().await;
    for place in ["live", "over"] {
        let answers = with_ids(&stage, &[None, Some(taken), None]).await;
        assert!(answers[0].is_ok() && answers[2].is_ok(), "{place}: {answers:?}");
        assert_eq!(answers[1], Err("JF004 id_taken".to_owned()), "{place}");
        let single = "p_idempotency_key => 'k', p_id => ";
        let refused = enqueue_with(stage.app.client(), TENANT_A, NOOP, &format!("{single}'{taken}'")).await;
        assert_eq!(refusal(refused), "JF004 id_taken", "{place}");
        for job in stage.claim(10).await {
            complete(stage.worker.client(), &job).await.unwrap();
        }
        stage.see(taken).await;
    }
    // The key that came with it names no job, and another tenant's ids are its own.
    assert!(!keyed(&stage.app, "k").await.unwrap().1);
    let own = enqueue_with(stage.other.client(), TENANT_B, NOOP, &format!("p_id => '{taken}'")).await;
    assert_eq!(own.unwrap(), (taken, false));
}

#[tokio::test]
async fn an_id_of_a_job_that_is_not_committed_yet_is_waited_for_and_refused() {
    let stage = Stage::set().await;
    stage.app.begin().await;
    let taken = stage.job().await;
    let sql = "select id from jobforge.enqueue_job($1, 'test.noop', p_id => $2)";
    let waiting = stage.an_app().await.spawn_blocked(sql, vec![Box::new(TENANT_A), Box::new(taken)]).await;
    stage.app.commit().await;
    let (_, refused) = waiting.finish().await;
    assert_eq!(refusal(refused), "JF004 id_taken");
}

/// What an enqueue looks at stays locked until its application commits, and a partition's end must not wait for each of these.
#[tokio::test]
async fn an_enqueue_with_ids_locks_few_partitions_of_the_history() {
    let stage = Stage::set().await;
    let ids: Vec<_> =
        stage.jobs(100).await.iter().map(|id| Some(Uuid::from_u128(id.as_u128() ^ 1))).collect();
    stage.app.begin().await;
    assert!(with_ids(&stage, &ids).await.iter().all(Result::is_ok));
    let sql = format!(
        "select count(*) from pg_locks l join pg_class c on c.oid = l.relation
         where l.pid = {} and c.relname like 'job\\_history%'",
        stage.app.pid()
    );
    let held = stage.count(&sql).await;
    // The root and four classes; of each the partitions of three days, with their indexes, and what lies between classes.
    assert!(held <= 32, "a batch of 100 locks {held} tables and indexes of the history");
    stage.app.commit().await;
}

#[tokio::test]
async fn a_dedupe_key_answers_with_the_living_twin_until_it_ends() {
    let stage = Stage::set().await;
    let app = stage.app.client();
    let twin = async || enqueue_with(app, TENANT_A, NOOP, "p_dedupe_key => 'd'").await.unwrap();
    let (first, _) = twin().await;
    assert_eq!(twin().await, (first, true), "queued");
    assert!(!enqueue_with(app, TENANT_B, NOOP, "p_dedupe_key => 'd'").await.unwrap().1, "per tenant");
    let job = stage.claim(2).await.into_iter().find(|job| job.id == first).unwrap();
    assert_eq!(twin().await, (first, true), "running");
    fail(stage.worker.client(), &job, "permanent").await.unwrap();
    let (second, existing) = twin().await;
    assert!(second != first && !existing, "a dead letter covers nothing");
}

#[tokio::test]
async fn a_racing_twin_is_waited_for() {
    let stage = Stage::set().await;
    let sql = "select id, existing from jobforge.enqueue_job($1, 'test.noop', p_dedupe_key => 'd')";
    stage.app.begin().await;
    let first: Uuid = stage.app.query(sql, &[&TENANT_A]).await.unwrap()[0].get(0);
    let waiter = stage.an_app().await.spawn_blocked(sql, vec![Box::new(TENANT_A)]).await;
    stage.app.commit().await;
    assert_eq!(enqueued(waiter).await, (first, true));
}

#[tokio::test]
async fn a_dead_letter_with_a_living_twin_is_not_retried() {
    let stage = Stage::set().await;
    enqueue_with(stage.app.client(), TENANT_A, NOOP, "p_dedupe_key => 'd'").await.unwrap();
    let job = stage.claim(1).await.remove(0);
    fail(stage.worker.client(), &job, "permanent").await.unwrap();
    enqueue_with(stage.app.client(), TENANT_A, NOOP, "p_dedupe_key => 'd'").await.unwrap();
    let retry = "select * from jobforge.retry_job($1, $2)";
    let refused = stage.app.query(retry, &[&TENANT_A, &job.id]).await;
    assert_eq!(refusal(refused), "JF008 dedupe_twin_alive");
}

#[tokio::test]
async fn a_dead_letter_whose_twin_is_being_enqueued_is_not_retried_either() {
    let stage = Stage::set().await;
    enqueue_with(stage.app.client(), TENANT_A, NOOP, "p_dedupe_key => 'd'").await.unwrap();
    let job = stage.claim(1).await.remove(0);
    fail(stage.worker.client(), &job, "permanent").await.unwrap();
    stage.other.begin().await;
    enqueue_with(stage.other.client(), TENANT_A, NOOP, "p_dedupe_key => 'd'").await.unwrap();
    let retry = "select * from jobforge.retry_job($1, $2)";
    let waiting = stage.an_app().await.spawn_blocked(retry, vec![Box::new(TENANT_A), Box::new(job.id)]).await;
    stage.other.commit().await;
    let (_, refused) = waiting.finish().await;
    assert_eq!(refusal(refused), "JF008 dedupe_twin_alive");
    assert_eq!(stage.told(job.id).await, "failed 1/1/0");
}
