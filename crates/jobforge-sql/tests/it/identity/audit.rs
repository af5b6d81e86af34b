//! The audit log: every deed with its subject, its login and whom that acted for; read page by page.

use serde_json::{Value, json};
use uuid::Uuid;

use crate::races::stage::{Stage, refusal};
use crate::schema::calls::{act_for, complete, enqueue_with, fail};
use crate::schema::{APP, NOOP, OPERATOR, QUEUE, TENANT_A, TENANT_B};

const SYSTEM: Uuid = Uuid::nil();

/// What is told of the deeds of one who acts from now on: tenant, action, subject and login.
async fn deeds(stage: &Stage, credential: &str) -> Vec<(Uuid, String, String, String)> {
    let sql = "select tenant_id, action, coalesce(subject_kind || ' ' || subject_id, ''), actor
               from jobforge.list_system_audit(p_actor => $1, p_limit => 1000) where id is not null";
    let rows = stage.operator.query(sql, &[&credential]).await.unwrap();
    let mut told: Vec<_> = rows.iter().map(|row| (row.get(0), row.get(1), row.get(2), row.get(3))).collect();
    told.sort();
    told
}

async fn act_as(stage: &Stage, credential: &str) {
    for session in [&stage.app, &stage.operator, &stage.worker] {
        let sql = "select set_config('app.actor', $1, false), set_config('app.request_id', 'r-17', false)";
        session.query(sql, &[&credential]).await.unwrap();
    }
}

#[tokio::test]
async fn what_is_done_to_a_job_is_told_with_whom_it_was_done_for() {
    let stage = Stage::set().await;
    let [canceled, moved] = stage.jobs(2).await.try_into().unwrap();
    let running = stage.claim(1).await.remove(0);
    assert_eq!(running.id, canceled);
    act_as(&stage, "key jf_abc (producer)").await;
    for sql in [
        format!("select jobforge.cancel_job('{TENANT_A}', '{canceled}')"),
        format!(
            "select jobforge.reschedule_job('{TENANT_A}', '{moved}', jobforge.clock() + interval '1 day')"
        ),
        format!("select jobforge.retry_job('{TENANT_A}', '{moved}')"),
        format!("select jobforge.cancel_job('{TENANT_A}', '{moved}')"),
    ] {
        stage.app.query(&sql, &[]).await.unwrap();
    }
    let told = deeds(&stage, "key jf_abc (producer)").await;
    let of = |action: &str, id: Uuid| (TENANT_A, action.to_owned(), format!("job {id}"), APP.to_owned());
    let mut wanted = vec![
        of("cancel_requested", canceled),
        of("reschedule", moved),
        of("retry", moved),
        of("cancel", moved),
    ];
    wanted.sort();
    assert_eq!(told, wanted);
    let sql =
        "select count(*) from jobforge.audit_log where job_id::text = subject_id and request_id = 'r-17'";
    assert_eq!(stage.count(sql).await, 4);
}

#[tokio::test]
async fn what_is_done_to_anything_else_is_told_too() {
    let stage = Stage::set().await;
    let dead = stage.running().await;
    fail(stage.worker.client(), &dead, "permanent").await.unwrap();
    let running = stage.running().await;
    act_as(&stage, "ann").await;
    let redrive = format!(
        "select distinct operation_id from jobforge.redrive_jobs('{TENANT_A}', array['{}'::uuid])",
        dead.id
    );
    let operation: Uuid = stage.app.client().query_one(&redrive, &[]).await.unwrap().get(0);
    let start =
        format!("select id from jobforge.start_bulk('{TENANT_A}', 'cancel', '{{\"queue\": \"none\"}}')");
    let bulk: Uuid = stage.app.client().query_one(&start, &[]).await.unwrap().get(0);
    let config = format!("jobforge.upsert_connector_config('{TENANT_A}', 'mail')");
    stage.app.query(&format!("select {config}"), &[]).await.unwrap();
    let disable = "select jobforge.disable_connector_config($1, $2, $3, $4, 'mail', 'gone')";
    let held: [&(dyn tokio_postgres::types::ToSql + Sync); 4] =
        [&running.lease_id, &running.tenant_id, &running.id, &running.fence];
    stage.worker.query(disable, &held).await.unwrap();
    for verb in ["enable", "delete"] {
        let sql = format!("select jobforge.{verb}_connector_config('{TENANT_A}', 'mail')");
        stage.app.query(&sql, &[]).await.unwrap();
    }
    for sql in [
        format!("select jobforge.pause('queue', '{QUEUE}')"),
        format!("select jobforge.resume('queue', '{QUEUE}')"),
        format!("select jobforge.pause('tenant', '{TENANT_B}')"),
        format!("select jobforge.upsert_tenant('{TENANT_B}', p_weight => 3)"),
        "select jobforge.upsert_definition('mail.send', p_priority => 5)".to_owned(),
        format!("select jobforge.bind_login('{APP}', '{TENANT_B}')"),
        format!("select jobforge.create_api_key('told00000000', sha256('x'), 'producer', '{TENANT_A}')"),
        "select jobforge.create_api_key('told00000001', sha256('x'), 'super_admin')".to_owned(),
        "select jobforge.revoke_api_key('told00000000')".to_owned(),
        format!(
            "select jobforge.record_audit('{TENANT_A}', 'act_for', 'tenant', '{TENANT_A}', '{{\"path\": \"/jobs\"}}')"
        ),
    ] {
        stage.operator.query(&sql, &[]).await.unwrap();
    }
    let mut wanted: Vec<(Uuid, &str, String, &str)> = vec![
        (TENANT_A, "redrive", format!("bulk {operation}"), APP),
        (TENANT_A, "start_bulk", format!("bulk {bulk}"), APP),
        (TENANT_A, "upsert_connector_config", "connector_config mail".into(), APP),
        (TENANT_A, "disable_connector_config", "connector_config mail".into(), "jf_test_worker"),
        (TENANT_A, "enable_connector_config", "connector_config mail".into(), APP),
        (TENANT_A, "delete_connector_config", "connector_config mail".into(), APP),
        (SYSTEM, "pause", format!("queue {QUEUE}"), OPERATOR),
        (SYSTEM, "resume", format!("queue {QUEUE}"), OPERATOR),
        (TENANT_B, "pause", format!("tenant {TENANT_B}"), OPERATOR),
        (TENANT_B, "upsert_tenant", format!("tenant {TENANT_B}"), OPERATOR),
        (SYSTEM, "upsert_definition", "definition mail.send".into(), OPERATOR),
        (TENANT_B, "bind_login", format!("login {APP}"), OPERATOR),
        (TENANT_A, "create_api_key", "api_key told00000000".into(), OPERATOR),
        (SYSTEM, "create_api_key", "api_key told00000001".into(), OPERATOR),
        (TENANT_A, "revoke_api_key", "api_key told00000000".into(), OPERATOR),
        (TENANT_A, "act_for", format!("tenant {TENANT_A}"), OPERATOR),
    ];
    wanted.sort();
    let told = deeds(&stage, "ann").await;
    let told: Vec<_> = told.iter().map(|(t, a, s, l)| (*t, a.as_str(), s.clone(), l.as_str())).collect();
    assert_eq!(told, wanted);
    let by_job =
        "select count(*) from jobforge.audit_log where action = 'disable_connector_config' and job_id = $1";
    let row = stage.admin.query_one(by_job, &[&running.id]).await.unwrap();
    assert_eq!(row.get::<_, i64>(0), 1, "and for which job");
}

#[tokio::test]
async fn what_changes_nothing_is_no_deed() {
    let stage = Stage::set().await;
    act_as(&stage, "bob").await;
    for _ in 0..2 {
        stage.tenant(TENANT_A, "p_max_pending => 7").await;
        stage.definition("bob.job", "p_queue => 'bobs', p_arg_schema => '{\"title\": \"canary\"}'").await;
        stage.operate(&format!("select jobforge.bind_login('{APP}', '{TENANT_A}')")).await;
        stage.lose(1.0).await;
    }
    let told: Vec<String> = deeds(&stage, "bob").await.into_iter().map(|deed| deed.1).collect();
    assert_eq!(told, ["upsert_definition", "bind_login", "upsert_tenant"]);
    let sql = "select jsonb_agg(detail order by action) from jobforge.audit_log where credential = 'bob' and action like 'upsert%'";
    let details: Value = stage.admin.query_one(sql, &[]).await.unwrap().get(0);
    let changed = ["arg_schema", "queue"];
    assert_eq!(details, json!([{ "new": true, "changed": changed }, { "new": false, "max_pending": 7 }]));
}

#[tokio::test]
async fn what_a_refused_call_would_have_done_is_not_told() {
    let stage = Stage::set().await;
    act_as(&stage, "eve").await;
    let done = stage.running().await;
    complete(stage.worker.client(), &done).await.unwrap();
    let cancel = stage.app.query("select jobforge.cancel_job($1, $2)", &[&TENANT_A, &done.id]).await;
    assert_eq!(refusal(cancel), "JF008 job_succeeded");
    assert_eq!(deeds(&stage, "eve").await, []);
}

#[tokio::test]
async fn what_somebody_says_of_himself_is_cut_to_what_fits() {
    let stage = Stage::set().await;
    let id = stage.job().await;
    let say = "select set_config('app.actor', repeat('é', 5000), false), set_config('app.request_id', repeat('r', 5000), false)";
    stage.app.query(say, &[]).await.unwrap();
    stage.app.query("select jobforge.cancel_job($1, $2)", &[&TENANT_A, &id]).await.unwrap();
    let sql =
        "select length(credential), length(request_id), actor from jobforge.audit_log where subject_id = $1";
    let row = stage.admin.query_one(sql, &[&id.to_string()]).await.unwrap();
    assert_eq!(
        (row.get::<_, i32>(0), row.get::<_, i32>(1), row.get::<_, String>(2)),
        (255, 128, APP.to_owned())
    );
}

/// What one page tells: the details' numbers, whether it is complete, and the cursor.
async fn page(stage: &Stage, arguments: &str) -> (Vec<i32>, bool, Option<String>) {
    let sql = format!(
        "select (detail ->> 'n')::integer, complete, next_cursor from jobforge.list_audit('{TENANT_A}', {arguments})"
    );
    let mut rows = stage.app.query(&sql, &[]).await.unwrap();
    let end = rows.pop().unwrap();
    (rows.iter().map(|row| row.get(0)).collect(), end.get(1), end.get(2))
}

async fn entries(stage: &Stage, from: i32, to: i32, columns: &str, values: &str) {
    let sql = format!(
        "insert into jobforge.audit_log (tenant_id, at, actor, action, detail{columns})
         select '{TENANT_A}', '2031-01-01'::timestamptz + n / 2 * interval '1 second', 'login', 'deed', jsonb_build_object('n', n){values}
         from generate_series({from}, {to}) as n"
    );
    stage.admin.batch_execute(&sql).await.unwrap();
}

#[tokio::test]
async fn pages_follow_one_another_and_filters_leave_out() {
    let stage = Stage::set().await;
    // Two of a time: the cursor is between them.
    entries(&stage, 1, 9, "", "").await;
    entries(&stage, 10, 11, ", subject_kind, subject_id, credential", ", 'queue', 'mail', 'key jf_x'").await;
    let (mut all, mut cursor, mut pages) = (Vec::new(), "null".to_owned(), 0);
    loop {
        let (told, complete, next) =
            page(&stage, &format!("p_actor => 'login', p_limit => 3, p_cursor => {cursor}")).await;
        assert!(complete && told.len() <= 3);
        all.extend(told);
        pages += 1;
        let Some(next) = next else { break };
        cursor = format!("'{next}'");
    }
    let mut sorted = all.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, (1..=11).collect::<Vec<_>>(), "each once");
    assert!(all.iter().map(|n| n / 2).rev().is_sorted(), "newest first: {all:?}");
    assert_eq!(pages, 4);
    let told = async |arguments: &str| {
        let mut told = page(&stage, arguments).await.0;
        told.sort_unstable();
        told
    };
    assert_eq!(told("'queue'").await, [10, 11]);
    assert_eq!(told("'queue', 'mail'").await, [10, 11]);
    assert!(told("'queue', 'other'").await.is_empty());
    assert_eq!(told("p_actor => 'key jf_x'").await, [10, 11], "by the credential");
    assert_eq!(told("p_actor => 'login', p_before => '2031-01-01 00:00:02+00'").await, [1, 2, 3]);
    assert_eq!(told("p_actor => 'login', p_after => '2031-01-01 00:00:05+00'").await, [10, 11]);
    let both =
        "p_actor => 'login', p_after => '2031-01-01 00:00:02+00', p_before => '2031-01-01 00:00:03+00'";
    assert_eq!(told(both).await, [4, 5]);
    let sql = "select (detail ->> 'n')::integer from jobforge.list_system_audit(p_subject_kind => 'queue', p_subject_id => 'mail')
               where id is not null order by 1";
    let rows = stage.operator.query(sql, &[]).await.unwrap();
    assert_eq!(rows.iter().map(|row| row.get::<_, i32>(0)).collect::<Vec<_>>(), [10, 11], "whoever's it is");
}

#[tokio::test]
async fn a_search_that_finds_little_ends_with_a_cursor() {
    let stage = Stage::set().await;
    entries(&stage, 1, 1, ", credential", ", 'rare'").await;
    entries(&stage, 2, 10_500, "", "").await;
    let (told, complete, cursor) = page(&stage, "p_actor => 'rare'").await;
    assert_eq!((told, complete), (vec![], false), "ten thousand were looked at");
    let next = format!("p_actor => 'rare', p_cursor => '{}'", cursor.unwrap());
    assert_eq!(page(&stage, &next).await, (vec![1], true, None));
}

#[tokio::test]
async fn questions_and_entries_that_make_no_sense_are_refused() {
    let stage = Stage::set().await;
    let before = stage.count("select count(*) from jobforge.audit_log").await;
    for (arguments, wanted) in [
        ("p_limit => 0", "JF001 limit_out_of_range"),
        ("p_limit => 1001", "JF001 limit_out_of_range"),
        ("p_subject_id => 'x'", "JF001 subject_kind_missing"),
        ("p_cursor => 'x'", "JF001 cursor_malformed"),
    ] {
        let sql = format!("select jobforge.list_audit('{TENANT_A}', {arguments})");
        assert_eq!(refusal(stage.app.query(&sql, &[]).await), wanted, "{arguments}");
        let sql = format!("select jobforge.list_system_audit({arguments})");
        assert_eq!(refusal(stage.operator.query(&sql, &[]).await), wanted, "{arguments}");
    }
    for (arguments, wanted) in [
        ("null, null", "JF001 action_malformed"),
        ("null, 'Not an action'", "JF001 action_malformed"),
        ("null, 'x', 'job'", "JF001 subject_malformed"),
        ("null, 'x', null, 'id'", "JF001 subject_malformed"),
        ("null, 'x', 'Not a kind', 'id'", "JF001 subject_malformed"),
        ("null, 'x', 'job', 'no uuid'", "JF001 subject_malformed"),
        ("null, 'x', 'queue', repeat('x', 256)", "JF001 subject_malformed"),
        ("null, 'x', p_detail => '[]'", "JF001 detail_malformed"),
        ("null, 'x', p_detail => jsonb_build_object('a', repeat('x', 20000))", "JF001 detail_malformed"),
        ("'00000000-0000-0000-0000-00000000dead', 'x'", "JF007 tenant_unknown"),
    ] {
        let sql = format!("select jobforge.record_audit({arguments})");
        assert_eq!(refusal(stage.operator.query(&sql, &[]).await), wanted, "{arguments}");
    }
    assert_eq!(stage.count("select count(*) from jobforge.audit_log").await, before);
}

/// A tenant's own deeds do not show it what others do to their jobs of the same id.
#[tokio::test]
async fn a_subject_is_looked_up_within_its_tenant() {
    let stage = Stage::set().await;
    let id = Uuid::now_v7();
    for tenant in [TENANT_A, TENANT_B] {
        let extra = format!("'{{}}', p_id => '{id}'");
        enqueue_with(stage.other.client(), tenant, NOOP, &extra).await.unwrap();
        let cancel = "select jobforge.cancel_job($1, $2, $3)";
        stage.other.query(cancel, &[&tenant, &id, &tenant.to_string()]).await.unwrap();
    }
    for tenant in [TENANT_A, TENANT_B] {
        act_for(stage.other.client(), tenant).await.unwrap();
        let sql = "select detail ->> 'reason' from jobforge.list_audit($1, 'job', $2) where id is not null";
        let row = stage.other.client().query_one(sql, &[&tenant, &id.to_string()]).await.unwrap();
        assert_eq!(row.get::<_, String>(0), tenant.to_string());
    }
}
