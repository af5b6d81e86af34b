//! What a caller by SQL leaves out, malforms or exceeds, and the code and reason with which it is refused: never by an error
//! that is the server's own.

#![allow(clippy::unwrap_used, reason = "a failed step fails the story, wherever it is")]

use jobforge_testkit::Session;

use crate::races::stage::{Stage, ids};
use crate::schema::calls::{ClaimOptions, Held, claim_with, release};
use crate::schema::{TENANT_A, told};

/// What becomes of a call in a transaction that is rolled back, e.g. `JF001 batch_size`.
async fn verdict(session: &Session, call: &str) -> String {
    session.begin().await;
    let answer = session.query(&format!("select * from jobforge.{call}"), &[]).await;
    session.rollback().await;
    match answer.as_ref().map_err(|error| (error, error.as_db_error())) {
        Ok(rows) => format!("accepted with {} rows", rows.len()),
        Err((_, Some(error))) => format!("{} {}", error.code().code(), error.detail().unwrap_or("")),
        Err((error, None)) => told(error),
    }
}

/// Fails with all calls that were not refused for the reason beside them.
async fn refused(session: &Session, cases: &[(String, &str)]) {
    let mut wrong = Vec::new();
    for (call, reason) in cases {
        let verdict = verdict(session, call).await;
        if verdict != *reason {
            wrong.push(format!("{call}: {verdict}, not {reason}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A report's lease, and its columns of tenants, ids and fences, as they are written in a call.
fn written(job: &Held) -> [String; 4] {
    let Held { lease_id, tenant_id, id, fence, .. } = job;
    [format!("'{lease_id}'"), format!("'{{{tenant_id}}}'"), format!("'{{{id}}}'"), format!("'{{{fence}}}'")]
}

#[tokio::test]
async fn a_report_without_fences_does_not_end_a_later_attempt_on_the_same_lease() {
    let stage = Stage::set().await;
    let first = stage.running().await;
    assert_eq!(release(stage.worker.client(), &first).await.unwrap(), "done");
    let o = ClaimOptions { lease_id: Some(first.lease_id), ..ClaimOptions::default() };
    let again = claim_with(stage.worker.client(), "w1", 1, o).await.unwrap().jobs.remove(0);
    assert_eq!((again.id, again.lease_id, again.fence), (first.id, first.lease_id, 2));
    let [lease, tenants, jobs, _] = written(&first);
    let place = format!("p_locators => '{{\"{}\"}}'", again.locator.replace('"', ""));
    refused(
        &stage.worker,
        &[
            (format!("complete_jobs({lease}, {tenants}, {jobs}, null)"), "JF001 columns_differ"),
            (format!("complete_jobs({lease}, {tenants}, {jobs}, null, '{{\"1\"}}')"), "JF001 columns_differ"),
            (format!("complete_jobs({lease}, {tenants}, {jobs}, null, {place})"), "JF001 columns_differ"),
        ],
    )
    .await;
    let none = format!("complete_jobs({lease}, {tenants}, {jobs}, '{{null}}')");
    let sql = format!("select verdict from jobforge.{none}");
    assert_eq!(stage.worker.query(&sql, &[]).await.unwrap()[0].get::<_, String>(0), "stale");
    assert_eq!(stage.told(first.id).await, "running 2/0/0");
}

#[tokio::test]
async fn a_batch_lacks_none_of_the_columns_that_it_needs() {
    let stage = Stage::set().await;
    let job = stage.running().await;
    let [lease, tenants, ids, fences] = written(&job);
    let no_tenants = format!("{lease}, null, {ids}, {fences}");
    let no_ids = format!("{lease}, {tenants}, null, {fences}");
    let no_fences = format!("{lease}, {tenants}, {ids}, null");
    let whole = format!("{lease}, {tenants}, {ids}, {fences}");
    let one = format!("{lease}, '{}', '{}', {}", job.tenant_id, job.id, job.fence);
    let (size, differ) = ("JF001 batch_size", "JF001 columns_differ");
    let mut cases = vec![
        (format!("complete_jobs({no_ids})"), size),
        (format!("complete_jobs({no_tenants})"), differ),
        (format!("fail_jobs({no_ids}, '{{retryable}}', '{{x}}')"), size),
        (format!("fail_jobs({no_tenants}, '{{retryable}}', '{{x}}')"), differ),
        (format!("fail_jobs({no_fences}, '{{retryable}}', '{{x}}')"), differ),
        (format!("fail_jobs({whole}, null, '{{x}}')"), differ),
        (format!("fail_jobs({whole}, '{{retryable}}', null)"), differ),
        (format!("fail_jobs({whole}, '{{null}}', '{{x}}')"), "JF001 class_unknown"),
        // Without a list of any kind the whole lease is given back.
        (format!("release_jobs({no_ids})"), size),
        (format!("release_jobs({lease}, {tenants})"), size),
        (format!("release_jobs({lease}, p_fences => {fences})"), size),
        (format!("release_jobs({no_tenants})"), differ),
        (format!("release_jobs({no_fences})"), differ),
        (format!("append_log({one}, null, '{{x}}')"), differ),
        (format!("append_log({one}, '{{info}}', null)"), size),
        (format!("append_log({one}, '{{null}}', '{{x}}')"), "JF001 level_unknown"),
    ];
    for through in ["", ", 9223372036854775807"] {
        cases.push((format!("heartbeat({no_tenants}{through})"), differ));
        cases.push((format!("heartbeat({no_fences}{through})"), differ));
        cases.push((format!("heartbeat({no_ids}{through})"), differ));
        cases.push((format!("heartbeat({lease}, {tenants}, '{{}}', '{{}}'{through})"), differ));
    }
    refused(&stage.worker, &cases).await;
    let term = stage.term;
    let call = format!("confirm_artifacts({term}, null, '{{sha256:x}}', now())");
    refused(&stage.operator, &[(call, differ)]).await;
    let verdict = verdict(&stage.worker, &format!("fail_jobs({whole}, '{{permanent}}', '{{null}}')")).await;
    assert_eq!(verdict, "accepted with 1 rows", "an error need not be told");
}

#[tokio::test]
async fn a_beat_does_not_forget_jobs_that_it_does_not_list() {
    let stage = Stage::set().await;
    stage.jobs(2).await;
    let held = stage.claim(2).await;
    let [lease, tenants, ids, fences] = written(&held[0]);
    let through = held[0].claim_no;
    let missing = "JF001 jobs_missing";
    refused(
        &stage.worker,
        &[
            (format!("heartbeat({lease}, p_through => {through})"), missing),
            (format!("heartbeat({lease}, '{{null}}', {ids}, {fences}, {through})"), missing),
            (format!("heartbeat({lease}, {tenants}, '{{null}}', {fences}, {through})"), missing),
            (format!("heartbeat({lease}, {tenants}, {ids}, '{{null}}', {through})"), missing),
            (format!("heartbeat({lease}, {tenants}, array[{ids}::uuid[]], {fences}, {through})"), missing),
        ],
    )
    .await;
    // A worker that says so holds nothing.
    let nothing = format!("select * from jobforge.heartbeat({lease}, '{{}}', '{{}}', '{{}}', {through})");
    stage.worker.query(&nothing, &[]).await.unwrap();
    assert_eq!(stage.count("select count(*) from jobforge.lease_claims").await, 0);
    let alive = format!("select * from jobforge.heartbeat({lease})");
    stage.worker.query(&alive, &[]).await.unwrap();
}

#[tokio::test]
async fn a_cursor_is_one_of_an_earlier_claim() {
    let stage = Stage::set().await;
    stage.job().await;
    let mark = r#""queue":"default","type":"test.noop","tenant_id":"11111111-1111-1111-1111-111111111111","id":"01900000-0000-7000-8000-000000000000""#;
    let sound = format!(r#"{mark},"run_at":"2026-01-01T00:00:00Z","priority":100"#);
    let malformed = [
        "[]".to_owned(),
        "1".to_owned(),
        "null".to_owned(),
        r#"{"turn":"x"}"#.to_owned(),
        r#"{"turn":""}"#.to_owned(),
        r#"{"turn":7}"#.to_owned(),
        r#"{"turn":"111111111-111-1111-1111-111111111111"}"#.to_owned(),
        r#"{"turn":"11111111-1111-1111-1111-11111111111-"}"#.to_owned(),
        r#"{"turn":"11111111-1111-1111-1111-1111111111111"}"#.to_owned(),
        r#"{"turn":{"a":1}}"#.to_owned(),
        r#"{"owed":"x"}"#.to_owned(),
        r#"{"owed":1.5}"#.to_owned(),
        r#"{"owed":-1}"#.to_owned(),
        r#"{"owed":99999999999}"#.to_owned(),
        r#"{"owed":[]}"#.to_owned(),
        r#"{"marks":"x"}"#.to_owned(),
        r#"{"marks":{}}"#.to_owned(),
        r#"{"marks":{"a":1}}"#.to_owned(),
        r#"{"marks":[{}]}"#.to_owned(),
        format!(r#"{{"marks":[{{{mark},"priority":100}}]}}"#),
        r#"{"marks":7}"#.to_owned(),
        r#"{"marks":[7]}"#.to_owned(),
        r#"{"marks":["x"]}"#.to_owned(),
        r#"{"marks":[[]]}"#.to_owned(),
        r#"{"marks":[null]}"#.to_owned(),
        format!(r#"{{"marks":[{{{mark},"run_at":"x","priority":100}}]}}"#),
        format!(r#"{{"marks":[{{{mark},"run_at":"20260-13-01","priority":100}}]}}"#),
        format!(r#"{{"marks":[{{{mark},"run_at":"2026-01-01T00:00:00Z","priority":70000}}]}}"#),
        format!(r#"{{"marks":[{{{mark},"run_at":"2026-01-01T00:00:00Z","priority":"x"}}]}}"#),
        format!(r#"{{"marks":[{{{sound},"tenant_id":"x"}}]}}"#),
        format!(r#"{{"turn":"x","marks":[{{{sound}}}]}}"#),
        format!(r#"{{"marks":[{}]}}"#, vec![format!("{{{sound}}}"); 65].join(",")),
    ];
    let claim =
        |cursor: &str| format!("claim_jobs('w1', '{{default}}', '{{test.noop}}', p_cursor => '{cursor}')");
    let cases: Vec<_> = malformed.iter().map(|cursor| (claim(cursor), "JF001 cursor_malformed")).collect();
    refused(&stage.worker, &cases).await;
    for cursor in [
        "{}".to_owned(),
        r#"{"turn":null,"owed":null,"marks":[]}"#.to_owned(),
        r#"{"marks":null}"#.to_owned(),
        format!(r#"{{"turn":"{TENANT_A}","owed":3}}"#),
        format!(r#"{{"turn":"{TENANT_A}","owed":0,"marks":[{{{sound}}}]}}"#),
    ] {
        assert_eq!(verdict(&stage.worker, &claim(&cursor)).await, "accepted with 2 rows", "{cursor}");
    }
}

#[tokio::test]
async fn each_bad_argument_has_its_reason() {
    let stage = Stage::set().await;
    let job = stage.running().await;
    let [lease, tenants, ids, fences] = written(&job);
    let whole = format!("{lease}, {tenants}, {ids}, {fences}");
    let one = format!("{lease}, '{}', '{}', {}", job.tenant_id, job.id, job.fence);
    let lanes = "'{default}', '{test.noop}'";
    stage.jobs(1).await; // for a claim that would be made
    let (tenants_in, ids_in) = (format!("{{{}}}", job.tenant_id), format!("{{{}}}", job.id));
    let wide = format!("jsonb_build_object('x', repeat('x', {}))", 16 * 1024);
    let worker = [
        (format!("fail_jobs({whole}, '{{sometimes}}', '{{x}}')"), "JF001 class_unknown"),
        (
            format!("fail_jobs({whole}, '{{retryable}}', '{{x}}', p_statuses => '{{gone}}')"),
            "JF001 attempt_status_unknown",
        ),
        (
            format!("fail_jobs({whole}, '{{retryable}}', '{{x}}', p_retry_after_ms => '{{-1}}')"),
            "JF001 retry_after_out_of_range",
        ),
        (format!("append_log({one}, '{{loud}}', '{{x}}')"), "JF001 level_unknown"),
        (format!("claim_jobs(null, {lanes})"), "JF001 worker_missing"),
        (format!("claim_jobs('w1', {lanes}, p_quick => null)"), "JF001 quick_missing"),
        ("claim_jobs('w1', '{{default}}', '{test.noop}')".to_owned(), "JF001 queues_out_of_range"),
        ("claim_jobs('w1', '{default}', '{{test.noop}}')".to_owned(), "JF001 types_out_of_range"),
        ("claim_jobs('w1', '[0:1]={default,other}', '{test.noop}')".to_owned(), "JF001 columns_differ"),
        ("claim_jobs('w1', '{default}', '[2:2]={test.noop}')".to_owned(), "JF001 columns_differ"),
        (
            "claim_jobs('w1', array[repeat('q', 64)], '{test.noop}', p_cursor => '{\"turn\": 1}')".to_owned(),
            "JF001 queue_malformed",
        ),
        (format!("claim_jobs('w1', {lanes}, p_new_lease_id => {lease})"), "JF008 lease_taken"),
        (format!("complete_jobs({whole}, '[0:0]={{1}}')"), "JF001 columns_differ"),
        (format!("complete_jobs({whole}, '{{{{1}}}}')"), "JF001 columns_differ"),
        (
            format!("release_others({lease}, '{{{tenants_in}}}', '{{{ids_in}}}', '{{{{1}}}}')"),
            "JF001 jobs_missing",
        ),
        ("look(null)".to_owned(), "JF001 worker_missing"),
        ("look(repeat('w', 201))".to_owned(), "JF001 worker_id_length"),
        (format!("sleep_worker(repeat('w', 201), {lanes})"), "JF001 worker_id_length"),
        (format!("register_worker('', 'host', 1, 'test', {lanes})"), "JF001 worker_id_length"),
        (format!("sleep_worker(null, {lanes})"), "JF001 worker_missing"),
        (format!("sleep_worker('w1', {lanes}, 0)"), "JF001 sleep_out_of_range"),
        (format!("sleep_worker('w1', {lanes}, 3601)"), "JF001 sleep_out_of_range"),
        (format!("sleep_worker('w1', {lanes}, null)"), "JF001 sleep_out_of_range"),
        (
            format!("register_worker('w3', 'host', 1, 'test', {lanes}, 1, p_metadata => {wide})"),
            "JF001 metadata_too_large",
        ),
    ];
    refused(&stage.worker, &worker).await;
    let app = [
        (format!("enqueue_job('{TENANT_A}', null)"), "JF001 type_missing"),
        (
            format!("enqueue_job('{TENANT_A}', 'test.noop', p_concurrency_key => '')"),
            "JF001 concurrency_key_length",
        ),
        (
            format!("enqueue_job('{TENANT_A}', 'test.noop', p_concurrency_key => repeat('k', 256))"),
            "JF001 concurrency_key_length",
        ),
    ];
    refused(&stage.app, &app).await;
    let gathered = format!(
        "enqueue_gathered('[0:0]={{{TENANT_A}}}', '{{test.noop}}', '{{1}}', p_priorities => '{{10}}')"
    );
    refused(&stage.operator, &[(gathered, "JF001 columns_differ")]).await;
    let last = "ffffffff-ffff-ffff-ffff-ffffffffffff";
    let operator = [(format!("upsert_tenant('{last}', 'Last')"), "JF001 tenant_out_of_range")];
    refused(&stage.operator, &operator).await;
}

#[tokio::test]
async fn a_release_tells_of_a_column_in_two_dimensions_what_became_of_its_jobs() {
    let stage = Stage::set().await;
    let job = stage.running().await;
    let [lease, tenants, ids, fences] = written(&job);
    let sql = format!(
        "select verdict from jobforge.release_jobs({lease}, array[{tenants}::uuid[]], array[{ids}::uuid[]], {fences})"
    );
    let rows = stage.worker.query(&sql, &[]).await.unwrap();
    assert_eq!(rows[0].get::<_, String>(0), "done");
    assert_eq!(stage.told(job.id).await, "queued 1/0/0");
}

#[tokio::test]
async fn a_worker_that_holds_more_than_a_batch_is_kept_alive() {
    let stage = Stage::set().await;
    let job = stage.running().await;
    let [lease, ..] = written(&job);
    let list = |rows: u32| {
        let many = |element: &str| format!("array_fill({element}, array[{rows}])");
        format!(
            "heartbeat({lease}, {}, {}, {})",
            many("gen_random_uuid()"),
            many("gen_random_uuid()"),
            many("1")
        )
    };
    let told = verdict(&stage.worker, &list(20_000)).await;
    assert!(told.starts_with("accepted"), "{told}");
    refused(&stage.worker, &[(list(100_001), "JF001 batch_size")]).await;
}

#[tokio::test]
async fn a_missing_place_is_looked_up_and_each_job_gets_its_own_result() {
    let stage = Stage::set().await;
    // Which of the three places are told.
    for known in [[true, true, false], [true, false, false], [false, true, true], [false, false, false]] {
        stage.jobs(3).await;
        let held = stage.claim(3).await;
        let column = |cells: [String; 3]| format!("'{{{}}}'", cells.join(","));
        let each = |cell: &dyn Fn(&Held) -> String| column([0, 1, 2].map(|at| cell(&held[at])));
        let places = [0, 1, 2].map(|at| match known[at] {
            true => format!("\"{}\"", held[at].locator),
            false => "null".to_owned(),
        });
        let sql = format!(
            "select verdict from jobforge.complete_jobs('{}', {}, {}, {}, '{{0,1,2}}', {})",
            held[0].lease_id,
            each(&|job| job.tenant_id.to_string()),
            each(&|job| job.id.to_string()),
            each(&|job| job.fence.to_string()),
            column(places),
        );
        let rows = stage.worker.query(&sql, &[]).await;
        let rows = rows.unwrap_or_else(|error| panic!("{known:?}: {}", told(&error)));
        let verdicts: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
        assert_eq!(verdicts, ["done"; 3], "{known:?}");
        let sql = "select array_agg(result::text order by id) from jobforge.job_history where id = any ($1)";
        let row = stage.admin.query_one(sql, &[&ids(&held)]).await.unwrap();
        assert_eq!(row.get::<_, Vec<String>>(0), ["0", "1", "2"], "{known:?}");
    }
}

/// A null among what is asked for would else match everything.
#[tokio::test]
async fn a_list_with_a_null_or_with_lists_in_it_is_refused() {
    let stage = Stage::set().await;
    let id = stage.job().await;
    let list = |statuses: &str| format!("list_jobs('{TENANT_A}', {statuses})");
    let cases = [
        (list("'{dead,null}'"), "JF001 status_unknown"),
        (list("'{null}'"), "JF001 status_unknown"),
        (format!("redrive_jobs('{TENANT_A}', '{{{{{id}}}}}')"), "JF001 columns_differ"),
        (format!("redrive_jobs('{TENANT_A}', '{{{id},null}}')"), "JF001 columns_differ"),
    ];
    refused(&stage.app, &cases).await;
}

#[tokio::test]
async fn a_limit_is_within_its_bounds_and_of_its_type() {
    let stage = Stage::set().await;
    let term = stage.term;
    let claim = |limit: &str| format!("claim_jobs('w1', '{{default}}', '{{test.noop}}', {limit})");
    let list = |limit: &str| format!("list_jobs('{TENANT_A}', p_limit => {limit})");
    let upkeep = |name: &str, limit: &str| format!("{name}({term}, {limit})");
    // No function takes so many, whoever calls; quoted, it is no integer.
    for (limit, verdict) in [
        ("0", "JF001 limit_out_of_range"),
        ("-1", "JF001 limit_out_of_range"),
        ("2147483647", "JF001 limit_out_of_range"),
        ("null", "JF001 limit_out_of_range"),
        ("2147483648", "42883 "),
        ("'2147483648'", "22003 "),
    ] {
        refused(&stage.worker, &[(claim(limit), verdict)]).await;
        refused(&stage.app, &[(list(limit), verdict)]).await;
        let duties = ["reap", "promote_due", "prune"].map(|name| (upkeep(name, limit), verdict));
        refused(&stage.operator, &duties).await;
    }
    refused(&stage.worker, &[(list("1"), "42501 "), (upkeep("reap", "1"), "42501 ")]).await;
    refused(&stage.app, &[(claim("1"), "42501 ")]).await;
}

#[tokio::test]
async fn times_and_waits_are_within_their_bounds() {
    let stage = Stage::set().await;
    let waiting = stage.job().await;
    let job = stage.claim(1).await.remove(0);
    assert_eq!(job.id, waiting);
    let waiting = stage.job().await;
    let Held { lease_id, tenant_id, id, fence, .. } = &job;
    let snooze =
        |seconds: &str| format!("snooze_job('{lease_id}', '{tenant_id}', '{id}', {fence}, {seconds})");
    let bad = ["-1", "'NaN'", "'Infinity'", "'-Infinity'", "31536001", "null"];
    let cases = bad.map(|seconds| (snooze(seconds), "JF001 snooze_out_of_range"));
    refused(&stage.worker, &cases).await;
    let enqueue = |at: &str| format!("enqueue_job('{TENANT_A}', 'test.noop', p_run_at => {at})");
    let reschedule = |at: &str| format!("reschedule_job('{TENANT_A}', '{waiting}', {at})");
    let far = ["now() - interval '11 years'", "now() + interval '11 years'", "'infinity'", "'-infinity'"];
    for at in far {
        let cases = [enqueue(at), reschedule(at)].map(|call| (call, "JF001 run_at_out_of_range"));
        refused(&stage.app, &cases).await;
    }
    // A past time means now.
    for call in [enqueue("now() - interval '9 years'"), reschedule("now() - interval '9 years'")] {
        let sql = format!("select run_at = jobforge.clock() from jobforge.{call}");
        assert!(stage.app.query(&sql, &[]).await.unwrap()[0].get::<_, bool>(0), "{call}");
    }
}

#[tokio::test]
async fn what_is_told_at_length_is_cut_and_the_rest_is_kept() {
    let stage = Stage::set().await;
    let job = stage.running().await;
    let [lease, tenants, ids, fences] = written(&job);
    let one = format!("{lease}, '{}', '{}', {}", job.tenant_id, job.id, job.fence);
    // Lines, and how many of them: the last but one finds no room, and one tells that it is so.
    let log = format!(
        "select jobforge.append_log({one}, array_fill('info'::text, array[$1::integer]),
           repeat('l', 4097) || array_fill('x'::text, array[$1 - 1]))"
    );
    let appended = async |lines: i32| -> i32 { stage.worker.query(&log, &[&lines]).await.unwrap()[0].get(0) };
    assert_eq!((appended(9_999).await, appended(2).await, appended(2).await), (9_999, 1, 0));
    let kept = "select count(*), max(length(message))::bigint,
                  count(*) filter (where level = 'warn' and line_no = 10001) from jobforge.job_logs";
    let row = stage.admin.query_one(kept, &[]).await.unwrap();
    assert_eq!((row.get(0), row.get(1), row.get(2)), (10_001_i64, 4_096_i64, 1_i64));
    // A log that is full to the line tells of the first that finds no room, too.
    stage.meddle("delete from jobforge.job_logs where line_no > 10000", &[]).await;
    assert_eq!((appended(1).await, appended(1).await), (0, 0));
    let row = stage.admin.query_one(kept, &[]).await.unwrap();
    assert_eq!((row.get(0), row.get(2)), (10_001_i64, 1_i64));
    // The beginning of an error, the ends of what a program wrote.
    let fail = format!(
        "select from jobforge.fail_jobs({lease}, {tenants}, {ids}, {fences}, '{{permanent}}', array['a' || repeat('e', 8192)],
           p_stdout_tails => array[repeat('o', 65536) || 'z'], p_stderr_tails => array[repeat('o', 65536) || 'z'])"
    );
    stage.worker.query(&fail, &[]).await.unwrap();
    let kept = "select j.error = 'a' || repeat('e', 8191) and a.error = j.error
                  and a.stdout_tail = repeat('o', 65535) || 'z' and a.stderr_tail = a.stdout_tail
                from jobforge.jobs j join jobforge.attempts a on a.job_id = j.id";
    assert!(stage.admin.query_one(kept, &[]).await.unwrap().get::<_, bool>(0));
    // The reason of a cancel, in the audit log.
    let waiting = stage.job().await;
    let reason = format!("select jobforge.cancel_job('{TENANT_A}', '{waiting}', repeat('r', 1001))");
    stage.app.query(&reason, &[]).await.unwrap();
    let kept_reason = "select max(length(detail ->> 'reason'))::bigint from jobforge.audit_log";
    assert_eq!(stage.count(kept_reason).await, 1_000);
}

#[tokio::test]
async fn a_key_of_255_characters_is_kept_and_a_longer_one_refused() {
    let stage = Stage::set().await;
    let keyed = |key: &str| format!("enqueue_job('{TENANT_A}', 'test.noop', p_idempotency_key => {key})");
    let long = "JF001 idempotency_key_length";
    refused(&stage.app, &[(keyed("repeat('é', 256)"), long), (keyed("''"), long)]).await;
    assert_eq!(verdict(&stage.app, &keyed("repeat('é', 255)")).await, "accepted with 1 rows");
}

/// The server's own refusals, before any function runs.
#[tokio::test]
async fn a_text_with_nul_never_reaches_a_function() {
    let stage = Stage::set().await;
    let keyed = |key: &str| format!("enqueue_job('{TENANT_A}', 'test.noop', p_idempotency_key => {key})");
    let paid = |payload: &str| format!("enqueue_job('{TENANT_A}', 'test.noop', {payload})");
    refused(
        &stage.app,
        &[
            (keyed(r"E'a\000b'"), "22021 "),
            (keyed("chr(0)"), "54000 "),
            (paid(r#"'{"a": "\u0000"}'"#), r"22P05 \u0000 cannot be converted to text."),
            (paid(r#"'{"a": '"#), "22P02 The input string ended unexpectedly."),
        ],
    )
    .await;
}
