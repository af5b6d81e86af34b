//! Two who operate at once, and operators beside claims: pauses and limits never wait for claims, nor claims for them.

use jobforge_testkit::{Param, Running, Session};
use serde_json::Value;

use super::stage::{Stage, ids, rival_claim};
use crate::schema::calls::complete;
use crate::schema::{NOOP, OPERATOR, TENANT_A};

const PAUSE: &str = "select jobforge.pause('tenant', $1, $2)";
const RESUME: &str = "select jobforge.resume('tenant', $1)";

async fn second_operator(stage: &Stage) -> Session {
    stage.db.session_at(&stage.db.url_as(OPERATOR, None)).await
}

/// What a second operator does while the first is not through; it must wait.
async fn waiting(stage: &Stage, sql: &str, params: Vec<Param>) -> Running {
    let running = second_operator(stage).await.spawn_blocked(sql, params).await;
    assert_eq!(running.blocked_by().await, [stage.operator.pid()]);
    running
}

fn tenant() -> Param {
    Box::new(TENANT_A.to_string())
}

#[tokio::test]
async fn a_claim_waits_for_no_pause_and_a_pause_for_no_claim() {
    let stage = Stage::set().await;
    let jobs = stage.jobs(3).await;
    for session in [&stage.worker, &stage.rival, &stage.operator] {
        session.run("set lock_timeout = '10s'").await;
    }
    stage.operator.begin().await;
    stage.operator.query(PAUSE, &[&TENANT_A.to_string(), &"a"]).await.unwrap();
    assert_eq!(stage.claim(1).await.len(), 1, "what is not committed holds nothing");
    stage.worker.begin().await;
    let held = stage.claim(1).await;
    stage.operator.commit().await;
    assert_eq!(rival_claim(&stage.rival, 9).await, [], "from the next claim on nothing starts");
    stage.worker.commit().await;
    assert_eq!(complete(stage.worker.client(), &held[0]).await.unwrap(), "done", "what was under way runs");
    assert_eq!(rival_claim(&stage.rival, 9).await, []);

    stage.operator.begin().await;
    stage.operator.query(RESUME, &[&TENANT_A.to_string()]).await.unwrap();
    assert_eq!(rival_claim(&stage.rival, 9).await, [], "nor does a resume before it is committed");
    stage.operator.commit().await;
    assert_eq!(ids(&rival_claim(&stage.rival, 9).await).len(), jobs.len() - 2);
}

#[tokio::test]
async fn of_two_pauses_the_second_is_what_stays() {
    let stage = Stage::set().await;
    stage.job().await;
    stage.operator.begin().await;
    stage.operator.query(PAUSE, &[&TENANT_A.to_string(), &"first"]).await.unwrap();
    let second = waiting(&stage, PAUSE, vec![tenant(), Box::new("second")]).await;
    stage.operator.commit().await;
    second.finish().await.1.unwrap();
    let sql = "select to_jsonb(array_agg(p.reason)) from jobforge.pauses p";
    let reasons: Value = stage.admin.query_one(sql, &[]).await.unwrap().get(0);
    assert_eq!(reasons, serde_json::json!(["second"]));
    assert_eq!(stage.claim(1).await, []);
}

#[tokio::test]
async fn a_resume_that_meets_a_pause_ends_it_and_the_second_of_two_resumes_ends_nothing() {
    let stage = Stage::set().await;
    stage.job().await;
    stage.operate(&format!("select jobforge.pause('tenant', '{TENANT_A}')")).await;
    stage.operator.begin().await;
    stage.operator.query(PAUSE, &[&TENANT_A.to_string(), &"longer"]).await.unwrap();
    let resume = waiting(&stage, RESUME, vec![tenant()]).await;
    stage.operator.commit().await;
    let answer = async |running: Running| running.finish().await.1.unwrap()[0].get::<_, bool>(0);
    assert!(answer(resume).await);
    stage.operate(&format!("select jobforge.pause('tenant', '{TENANT_A}')")).await;
    stage.operator.begin().await;
    stage.operator.query(RESUME, &[&TENANT_A.to_string()]).await.unwrap();
    let second = waiting(&stage, RESUME, vec![tenant()]).await;
    stage.operator.commit().await;
    assert!(!answer(second).await);
    assert_eq!(stage.claim(1).await.len(), 1);
}

/// Each of two who set a limit sees what the other did: what one leaves alone stays as the other set it, and what runs counts.
#[tokio::test]
async fn two_who_set_a_limit_leave_what_each_said() {
    for call in ["upsert_tenant($1::text::uuid, ", "upsert_definition($1::text, "] {
        let stage = Stage::set().await;
        stage.jobs(9).await;
        let running = stage.claim(2).await;
        let name = if call.starts_with("upsert_tenant") { TENANT_A.to_string() } else { NOOP.to_owned() };
        let sql = |set: &str| format!("select jobforge.{call}{set})::text");
        stage.operator.begin().await;
        stage
            .operator
            .query(&sql("p_max_in_flight => 7, p_rate_per_second => 1000"), &[&name])
            .await
            .unwrap();
        let params: Vec<Param> = vec![Box::new(name.clone())];
        let second = waiting(&stage, &sql("p_max_in_flight => 3"), params).await;
        stage.operator.commit().await;
        second.finish().await.1.unwrap();
        assert_eq!(rival_claim(&stage.rival, 9).await.len(), 1, "{name}: three, of which two ran before");
        let sql = "select count(*) from (select max_in_flight, rate_per_second from jobforge.tenants
            union all select max_in_flight, rate_per_second from jobforge.definitions) as l
            where l.max_in_flight = 3 and l.rate_per_second = 1000";
        assert_eq!(stage.count(sql).await, 1, "{name}");
        assert_eq!(running.len(), 2);
    }
}

/// The second takes away what the first is setting: nothing of the limit is left.
#[tokio::test]
async fn a_limit_that_is_taken_away_while_it_is_set_is_gone() {
    let stage = Stage::set().await;
    stage.jobs(9).await;
    let sql = |set: &str| format!("select jobforge.upsert_tenant($1::text::uuid, {set})::text");
    stage.operator.begin().await;
    stage.operator.query(&sql("p_max_in_flight => 1"), &[&TENANT_A.to_string()]).await.unwrap();
    let second = waiting(&stage, &sql("p_clear => '{max_in_flight}'"), vec![tenant()]).await;
    stage.operator.commit().await;
    second.finish().await.1.unwrap();
    assert_eq!(stage.claim(9).await.len(), 9);
}

/// Of two who make one definition, and of two who change what both saw, the second is told so, however late it looks.
#[tokio::test]
async fn of_two_who_expect_the_same_of_a_definition_the_second_is_refused() {
    let stage = Stage::set().await;
    let sql = "select d.updated_at::text from jobforge.definitions d where d.key = $1";
    let seen: String = stage.admin.query_one(sql, &[&NOOP]).await.unwrap().get(0);
    let unchanged = format!("p_unchanged_since => '{seen}'");
    for (key, expected, reason) in
        [("race.new", "p_only_new => true", "definition_exists"), (NOOP, &unchanged, "definition_changed")]
    {
        let sql = format!("select jobforge.upsert_definition($1::text, p_priority => 77, {expected})");
        stage.operator.begin().await;
        stage.operator.query(&sql, &[&key]).await.unwrap();
        let second = waiting(&stage, &sql, vec![Box::new(key.to_owned())]).await;
        stage.operator.commit().await;
        let refusal = second.finish().await.1.unwrap_err();
        let refusal = refusal.as_db_error().unwrap();
        assert_eq!((refusal.code().code(), refusal.detail()), ("JF008", Some(reason)), "{key}");
    }
}
