//! Why a job does not run: each reason brought about, and then cleared by what clears it.

#![allow(clippy::unwrap_used, reason = "a failed step fails the story, wherever it is")]

use serde_json::{Value, json};
use uuid::Uuid;

use crate::races::stage::{Stage, refusal};
use crate::schema::calls::{Held, complete, enqueue_with, fail};
use crate::schema::{NOOP, QUEUE, TENANT_A, TENANT_B};

/// A stage on which `w1` and `w2` are alive.
async fn stage() -> Stage {
    let stage = Stage::set().await;
    for worker in ["w1", "w2"] {
        register(&stage, worker, QUEUE).await;
    }
    stage
}

async fn register(stage: &Stage, worker: &str, queue: &str) {
    let sql = "select jobforge.register_worker($1, 'h', 1, 'v', array[$2], array[$3])";
    stage.worker.client().query(sql, &[&worker, &queue, &NOOP]).await.unwrap();
}

/// The reasons in their order, with details and ends.
async fn explain(stage: &Stage, id: Uuid) -> Vec<(String, Value, Option<f64>)> {
    let sql =
        "select reason, detail, extract(epoch from until)::float8, says from jobforge.explain_job($1, $2)";
    let rows = stage.app.client().query(sql, &[&TENANT_A, &id]).await.unwrap();
    for row in &rows {
        let says: String = row.get(3);
        assert!(says.len() > 10, "{says:?} is no sentence");
    }
    rows.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect()
}

async fn reasons(stage: &Stage, id: Uuid) -> Vec<String> {
    explain(stage, id).await.into_iter().map(|(reason, ..)| reason).collect()
}

/// The detail of the decisive reason, which must be this one.
#[track_caller]
fn first(told: &[(String, Value, Option<f64>)], reason: &str) -> Value {
    assert_eq!(told.first().map(|one| one.0.as_str()), Some(reason), "{told:?}");
    told[0].1.clone()
}

fn close(found: f64, wanted: f64) -> bool {
    (found - wanted).abs() < 0.01
}

#[tokio::test]
async fn a_job_is_scheduled_until_its_time_comes() {
    let stage = stage().await;
    let extra = "'{}', p_run_at => jobforge.clock() + interval '60 seconds'";
    let (id, _) = enqueue_with(stage.app.client(), TENANT_A, NOOP, extra).await.unwrap();
    let told = explain(&stage, id).await;
    assert_eq!(first(&told, "scheduled")["seconds"], json!(60.0));
    assert!(close(told[0].2.unwrap(), stage.see(id).await.run_at));
    assert_eq!(told.len(), 1, "limits and turns concern what is due: {told:?}");
    stage.pass(61.0).await;
    register(&stage, "w1", QUEUE).await;
    assert_eq!(reasons(&stage, id).await, ["waiting_turn"], "due, though nobody made it ready yet");

    // A retry is scheduled, too, and says so.
    let run = stage.claim(1).await.remove(0);
    fail(stage.worker.client(), &run, "retryable").await.unwrap();
    let told = explain(&stage, id).await;
    assert_eq!(first(&told, "scheduled")["failures"], json!(1));
}

#[tokio::test]
async fn a_pause_holds_a_job_until_it_is_resumed_or_over() {
    let stage = stage().await;
    let id = stage.job().await;
    for (kind, name) in [("queue", QUEUE), ("tenant", &TENANT_A.to_string()), ("definition", NOOP)] {
        let pause = "select jobforge.pause($1, $2, 'the provider is down', p_author => 'eve')";
        stage.operator.client().query(pause, &[&kind, &name]).await.unwrap();
        let told = explain(&stage, id).await;
        let detail = first(&told, &format!("{kind}_paused"));
        assert_eq!((&detail["author"], &detail["reason"]), (&json!("eve"), &json!("the provider is down")));
        assert_eq!(told[0].2, None);
        assert_eq!(told.last().unwrap().1["estimated_start"], Value::Null, "nobody knows when");
        let resume = "select jobforge.resume($1, $2)";
        stage.operator.client().query(resume, &[&kind, &name]).await.unwrap();
        assert_eq!(reasons(&stage, id).await, ["waiting_turn"]);
    }
    let pause =
        "select jobforge.pause('queue', 'default', p_until => jobforge.clock() + interval '20 seconds'),
                        jobforge.pause('tenant', $1)";
    stage.operator.client().query(pause, &[&TENANT_A.to_string()]).await.unwrap();
    assert_eq!(stage.claim(1).await, vec![], "a paused tenant's job is not claimed");
    let told = explain(&stage, id).await;
    assert_eq!(
        told.iter().map(|one| one.0.as_str()).collect::<Vec<_>>(),
        ["tenant_paused", "queue_paused", "waiting_turn"],
        "what needs somebody comes first"
    );
    assert!(close(told[1].2.unwrap(), stage.now().await + 20.0));
    stage
        .operator
        .client()
        .query("select jobforge.resume('tenant', $1)", &[&TENANT_A.to_string()])
        .await
        .unwrap();
    stage.pass(21.0).await;
    assert_eq!(reasons(&stage, id).await, ["waiting_turn"]);
}

#[tokio::test]
async fn without_a_live_worker_of_its_lane_a_job_has_no_worker() {
    let stage = stage().await;
    let id = stage.job().await;
    for worker in ["w1", "w2"] {
        stage.worker.client().query("select jobforge.stop_worker($1)", &[&worker]).await.unwrap();
    }
    assert_eq!(first(&explain(&stage, id).await, "no_worker")["elsewhere"], json!(0));
    register(&stage, "w1", "another").await;
    assert_eq!(first(&explain(&stage, id).await, "no_worker")["elsewhere"], json!(1));
    register(&stage, "w2", QUEUE).await;
    assert_eq!(reasons(&stage, id).await, ["waiting_turn"]);
    stage.pass(91.0).await;
    assert_eq!(reasons(&stage, id).await[0], "no_worker", "one that is silent for so long does not live");
}

#[tokio::test]
async fn a_tenants_runs_hold_the_next_job_until_one_ends() {
    let stage = stage().await;
    stage.meddle("update jobforge.tenants set max_in_flight = 2 where id = $1", &[&TENANT_A]).await;
    stage.jobs(2).await;
    let runs = stage.claim(2).await;
    let id = stage.job().await;
    let detail = first(&explain(&stage, id).await, "tenant_in_flight");
    assert_eq!((&detail["max"], &detail["running"]), (&json!(2), &json!(2)));
    assert_eq!(detail["job_ids"], json!([runs[0].id, runs[1].id]));
    // Its row stays until a claim sweeps it out; it does not count.
    complete(stage.worker.client(), &runs[0]).await.unwrap();
    assert_eq!(reasons(&stage, id).await, ["waiting_turn"]);
}

#[tokio::test]
async fn a_definitions_runs_of_all_tenants_hold_the_next_job() {
    let stage = stage().await;
    stage.meddle("update jobforge.definitions set max_in_flight = 25 where key = $1", &[&NOOP]).await;
    stage.jobs(24).await;
    enqueue_with(stage.app.client(), TENANT_B, NOOP, "'{}'").await.unwrap();
    let runs = stage.claim(25).await;
    let id = stage.job().await;
    let detail = first(&explain(&stage, id).await, "definition_in_flight");
    assert_eq!((&detail["max"], &detail["running"]), (&json!(25), &json!(25)));
    assert_eq!(detail["job_ids"].as_array().unwrap().len(), 20, "no more than twenty are told");
    // A job that runs again under another fence is not the run that was counted.
    stage.meddle("update jobforge.jobs set fence = fence + 1 where id = $1", &[&runs[3].id]).await;
    assert_eq!(reasons(&stage, id).await, ["waiting_turn"]);
}

#[tokio::test]
async fn a_concurrency_key_is_held_by_its_runs() {
    let stage = stage().await;
    let mut ids = Vec::new();
    for _ in 0..3 {
        let (id, _) =
            enqueue_with(stage.app.client(), TENANT_A, NOOP, "'{}', p_concurrency_key => 'order-7'")
                .await
                .unwrap();
        ids.push(id);
        stage.pass(1.0).await;
    }
    let run = stage.claim(3).await.remove(0);
    assert_eq!(run.id, ids.remove(0));
    let told = explain(&stage, ids[1]).await;
    let detail = first(&told, "concurrency_key");
    assert_eq!(
        (&detail["key"], &detail["max"], &detail["job_ids"]),
        (&json!("order-7"), &json!(1), &json!([run.id]))
    );
    assert_eq!(told[1].1["ahead"], json!(1), "one of its key stands before it");
    stage.meddle("update jobforge.definitions set max_in_flight_per_key = 2 where key = $1", &[&NOOP]).await;
    assert_eq!(reasons(&stage, ids[1]).await, ["waiting_turn"]);
    stage.meddle("update jobforge.definitions set max_in_flight_per_key = 1 where key = $1", &[&NOOP]).await;
    complete(stage.worker.client(), &run).await.unwrap();
    assert_eq!(reasons(&stage, ids[1]).await, ["waiting_turn"]);
}

#[tokio::test]
async fn a_used_up_rate_holds_a_job_until_the_next_token() {
    let stage = stage().await;
    let id = stage.job().await;
    for (kind, table, name) in [
        ("tenant", "tenants set rate_per_second = 0.5 where id::text", TENANT_A.to_string()),
        ("definition", "definitions set rate_per_second = 0.5 where key", NOOP.to_owned()),
    ] {
        stage.meddle(&format!("update jobforge.{table} = $1"), &[&name]).await;
        assert_eq!(reasons(&stage, id).await, ["waiting_turn"], "a bucket that nobody took from is full");
        let take = "insert into jobforge.limit_buckets values ($1, $2, 0.25, jobforge.clock())";
        stage.meddle(take, &[&kind, &name]).await;
        let told = explain(&stage, id).await;
        let detail = first(&told, &format!("{kind}_rate"));
        assert_eq!(
            (&detail["rate"], &detail["tokens"], &detail["burst"]),
            (&json!(0.5), &json!(0.25), &json!(1))
        );
        assert!(
            close(told[0].2.unwrap(), stage.now().await + 1.5),
            "three quarters of a token at one half a second"
        );
        stage.pass(1.6).await;
        assert_eq!(reasons(&stage, id).await, ["waiting_turn"]);
    }
}

#[tokio::test]
async fn a_job_that_killed_twice_waits_to_run_alone() {
    let stage = stage().await;
    let id = stage.job().await;
    for _ in 0..2 {
        assert_eq!(stage.claim(1).await.len(), 1);
        stage.pass(31.0).await;
        assert_eq!(reasons(&stage, id).await, ["lost"], "the lease ran out and nobody reaped it");
        stage.reap().await;
        assert_eq!(reasons(&stage, id).await[0], "scheduled");
        stage.pass(2.5).await;
        register(&stage, "w1", QUEUE).await;
    }
    let detail = first(&explain(&stage, id).await, "solo_pending");
    assert_eq!((&detail["deaths"], &detail["ahead"]), (&json!(2), &json!(0)));
    stage.claim(1).await;
    let detail = first(&explain(&stage, id).await, "running");
    assert_eq!((&detail["solo"], &detail["attempt"]), (&json!(true), &json!(3)));
}

#[tokio::test]
async fn a_runs_worker_and_last_beat_are_told_and_then_its_end() {
    let stage = stage().await;
    let runs = [stage.running().await, stage.running().await];
    stage.pass(8.0).await;
    let beat = "select from jobforge.heartbeat($1)";
    stage.worker.client().query(beat, &[&runs[0].lease_id]).await.unwrap();
    let detail = first(&explain(&stage, runs[0].id).await, "running");
    assert_eq!((&detail["worker_id"], &detail["cancel_requested"]), (&json!("w1"), &json!(false)));
    assert_ne!(detail["last_beat_at"], detail["lease_created_at"]);
    stage
        .app
        .client()
        .query("select from jobforge.cancel_job($1, $2)", &[&TENANT_A, &runs[0].id])
        .await
        .unwrap();
    assert_eq!(first(&explain(&stage, runs[0].id).await, "running")["cancel_requested"], json!(true));

    complete(stage.worker.client(), &runs[0]).await.unwrap();
    assert_eq!(first(&explain(&stage, runs[0].id).await, "finished")["status"], json!("succeeded"));
    fail(stage.worker.client(), &runs[1], "permanent").await.unwrap();
    let detail = first(&explain(&stage, runs[1].id).await, "finished");
    assert_eq!((&detail["status"], &detail["error"]), (&json!("failed"), &json!("told to fail")));
    stage
        .app
        .client()
        .query("select from jobforge.retry_job($1, $2)", &[&TENANT_A, &runs[1].id])
        .await
        .unwrap();
    assert_eq!(reasons(&stage, runs[1].id).await, ["waiting_turn"]);
}

#[tokio::test]
async fn a_blocked_job_and_an_unknown_one() {
    let stage = stage().await;
    let id = stage.job().await;
    stage.meddle("update jobforge.jobs set status = 'blocked', ready = false where id = $1", &[&id]).await;
    assert_eq!(reasons(&stage, id).await, ["blocked"]);
    stage.meddle("update jobforge.jobs set status = 'queued', ready = true where id = $1", &[&id]).await;
    assert_eq!(reasons(&stage, id).await, ["waiting_turn"]);
    let sql = "select * from jobforge.explain_job($1, $2)";
    let unknown = stage.app.client().query(sql, &[&TENANT_A, &Uuid::new_v4()]).await;
    assert_eq!(refusal(unknown), "JF007 job_unknown");
}

#[tokio::test]
async fn a_turn_tells_the_place_the_crowd_and_by_the_pace_the_start() {
    let stage = stage().await;
    let sample = "select jobforge.sample_stats($1)";
    stage.operator.client().query(sample, &[&stage.term]).await.unwrap();
    stage.jobs(20).await;
    // Within one moment only chance orders two batches.
    stage.lose(0.001).await;
    enqueue_with(stage.app.client(), TENANT_B, NOOP, "'{}'").await.unwrap();
    let ids = stage.jobs(10).await;
    let told = explain(&stage, ids[9]).await;
    let turn = first(&told, "waiting_turn");
    assert_eq!((&turn["ahead"], &turn["capped"], &turn["tenants"]), (&json!(29), &json!(false), &json!(2)));
    assert_eq!((&turn["estimated_start"], told[0].2), (&Value::Null, None), "nobody knows a pace yet");

    // Twenty in ten seconds, all of them the tenant's own: two a second.
    stage.pass(4.0).await;
    let runs: Vec<Held> = stage.claim(21).await.into_iter().filter(|run| run.tenant_id == TENANT_A).collect();
    for run in &runs {
        complete(stage.worker.client(), run).await.unwrap();
    }
    stage.pass(6.0).await;
    stage.operator.client().query(sample, &[&stage.term]).await.unwrap();
    let told = explain(&stage, ids[9]).await;
    let turn = first(&told, "waiting_turn");
    assert_eq!((&turn["ahead"], &turn["tenants"]), (&json!(9), &json!(1)));
    assert!(close(turn["tenant_rate"].as_f64().unwrap(), 2.0), "{turn}");
    assert!((told[0].2.unwrap() - stage.now().await - 5.0).abs() < 0.1, "{told:?}");

    let (urgent, _) =
        enqueue_with(stage.app.client(), TENANT_A, NOOP, "'{}', p_priority => 20").await.unwrap();
    assert_eq!(
        first(&explain(&stage, urgent).await, "waiting_turn")["ahead"],
        json!(0),
        "a smaller number is sooner"
    );
    assert_eq!(first(&explain(&stage, ids[9]).await, "waiting_turn")["ahead"], json!(10));
    let reserved = "update jobforge.jobs set priority = 5 where id = any ($1)";
    stage.meddle(reserved, &[&vec![urgent, ids[9]]]).await;
    assert_eq!(
        first(&explain(&stage, urgent).await, "waiting_turn")["ahead"],
        json!(1),
        "the older one of both"
    );
}

#[tokio::test]
async fn a_long_way_is_counted_to_ten_thousand() {
    let stage = stage().await;
    stage.jobs(10_000).await;
    stage.lose(0.01).await;
    let ids = stage.jobs(2).await;
    let turn = first(&explain(&stage, ids[0]).await, "waiting_turn");
    assert_eq!((&turn["ahead"], &turn["capped"]), (&json!(10_000), &json!(false)));
    let turn = first(&explain(&stage, ids[1]).await, "waiting_turn");
    assert_eq!((&turn["ahead"], &turn["capped"]), (&json!(10_000), &json!(true)));
}
