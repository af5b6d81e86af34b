//! Samples: what came and went is counted once, in the right place, and at a bounded cost where there is much of it.

#![allow(clippy::unwrap_used, reason = "a failed step fails the story, wherever it is")]

use uuid::Uuid;

use crate::races::stage::{Stage, refusal};
use crate::schema::calls::{act_for, complete, enqueue_with, fail};
use crate::schema::{NOOP, QUEUE, TENANT_A, TENANT_B};

async fn sample(stage: &Stage, limit: i32) -> i32 {
    let sql = "select jobforge.sample_stats($1, $2)";
    stage.operator.client().query_one(sql, &[&stage.term, &limit]).await.unwrap().get(0)
}

/// Sums over all samples of the queue: enqueued, completed, failed, canceled.
async fn flow(stage: &Stage) -> [i64; 4] {
    let sql = "select coalesce(sum(enqueued), 0)::bigint, coalesce(sum(completed), 0)::bigint,
                 coalesce(sum(failed), 0)::bigint, coalesce(sum(canceled), 0)::bigint from jobforge.queue_stats";
    let row = stage.admin.query_one(sql, &[]).await.unwrap();
    [row.get(0), row.get(1), row.get(2), row.get(3)]
}

/// A tenant's summary as one JSON object.
async fn summary(stage: &Stage, tenant: Uuid, limit: i32) -> serde_json::Value {
    act_for(stage.app.client(), tenant).await.unwrap();
    let sql = "select to_jsonb(s) from jobforge.job_summary($1, $2) as s";
    stage.app.client().query_one(sql, &[&tenant, &limit]).await.unwrap().get(0)
}

#[tokio::test]
async fn what_came_and_went_is_counted_once() {
    let stage = Stage::set().await;
    stage.job().await;
    stage.pass(2.0).await;
    sample(&stage, 100_000).await;
    assert_eq!(flow(&stage).await, [0; 4], "the first sample has nothing to count from");

    let waiting = stage.jobs(5).await;
    let runs = stage.claim(3).await;
    complete(stage.worker.client(), &runs[0]).await.unwrap();
    fail(stage.worker.client(), &runs[1], "permanent").await.unwrap();
    let cancel = "select from jobforge.cancel_job($1, $2)";
    stage.app.client().query(cancel, &[&TENANT_A, &waiting[4]]).await.unwrap();
    sample(&stage, 100_000).await;
    assert_eq!(flow(&stage).await, [0; 4], "the last second is left to the next sample");
    stage.pass(2.0).await;
    sample(&stage, 100_000).await;
    assert_eq!(flow(&stage).await, [5, 1, 1, 1]);
    for _ in 0..2 {
        stage.pass(3.0).await;
        sample(&stage, 100_000).await;
    }
    assert_eq!(flow(&stage).await, [5, 1, 1, 1], "nothing is counted twice");

    let sql = "select queued, ready, running, dead, seconds, estimated from jobforge.queue_stats order by at desc limit 1";
    let row = stage.admin.query_one(sql, &[]).await.unwrap();
    let depth: [i64; 4] = [row.get(0), row.get(1), row.get(2), row.get(3)];
    assert_eq!(depth, [2, 2, 1, 1]);
    assert_eq!((row.get::<_, f64>(4), row.get::<_, bool>(5)), (3.0, false));
}

#[tokio::test]
async fn every_completion_is_counted_whatever_the_samples_meet() {
    let stage = Stage::set().await;
    sample(&stage, 100_000).await;
    for round in 0..12 {
        stage.jobs(10).await;
        for run in stage.claim(10).await {
            complete(stage.worker.client(), &run).await.unwrap();
        }
        // Sometimes in the same second, sometimes after it.
        stage.pass(f64::from(round % 3) * 0.7).await;
        sample(&stage, 100_000).await;
    }
    stage.pass(2.0).await;
    sample(&stage, 100_000).await;
    assert_eq!(flow(&stage).await, [120, 120, 0, 0]);
    let tails = "select count(*) from jobforge.history_tails";
    assert!(stage.count(tails).await > 0);
}

/// A job that ends while a sample counts is live in it or over, never both.
#[tokio::test]
async fn the_parts_of_a_sample_see_the_same_moment() {
    let stage = Stage::set().await;
    let sql =
        "select provolatile::text from pg_proc where proname = any (array['count_live', 'count_finished'])";
    let kinds = stage.admin.query(sql, &[]).await.unwrap();
    // Only stable functions look with their caller's snapshot.
    assert_eq!(kinds.iter().map(|row| row.get::<_, String>(0)).collect::<Vec<_>>(), ["s", "s"]);
}

#[tokio::test]
async fn a_curve_comes_down_to_zero_and_the_next_day_goes_on() {
    let stage = Stage::set().await;
    let run = stage.running().await;
    stage.pass(2.0).await;
    sample(&stage, 100_000).await;
    complete(stage.worker.client(), &run).await.unwrap();
    stage.pass(2.0).await;
    sample(&stage, 100_000).await;
    let last =
        "select running + queued from jobforge.queue_stats where queue = 'default' order by at desc limit 1";
    assert_eq!(stage.count(last).await, 0);
    let last = "select running + queued from jobforge.tenant_stats order by at desc limit 1";
    assert_eq!(stage.count(last).await, 0);
    // The history goes on in another partition.
    stage.lose(86_000.0).await;
    let term = stage.lead("leader").await.unwrap();
    let run = stage.running().await;
    complete(stage.worker.client(), &run).await.unwrap();
    stage.pass(2.0).await;
    let sql = "select jobforge.sample_stats($1)";
    stage.operator.client().query(sql, &[&term]).await.unwrap();
    assert_eq!(flow(&stage).await, [1, 2, 0, 0]);
}

/// Whole pages are read, an even part of them: the estimate is right within its spread.
#[tokio::test]
async fn of_many_jobs_a_part_is_read_and_the_rest_estimated() {
    let stage = Stage::set().await;
    for _ in 0..3 {
        stage.jobs(10_000).await;
    }
    sample(&stage, 2_000).await;
    let sql = "select queued, estimated from jobforge.queue_stats";
    let row = stage.admin.query_one(sql, &[]).await.unwrap();
    let queued: i64 = row.get(0);
    assert!(row.get::<_, bool>(1) && (15_000..60_000).contains(&queued), "{queued} of 30000");

    // A summary counts up to its limit, and knows more from the sample.
    let told = summary(&stage, TENANT_A, 1000).await;
    assert_eq!((&told["capped"], told["ready"].as_i64()), (&true.into(), Some(queued)));
    let told = summary(&stage, TENANT_A, 30_000).await;
    assert_eq!((&told["capped"], &told["ready"]), (&false.into(), &30_000.into()));
}

#[tokio::test]
async fn of_many_completions_a_stretch_is_read_and_scaled_up() {
    let stage = Stage::set().await;
    sample(&stage, 100_000).await;
    let end = "insert into jobforge.job_history (tenant_id, id, run_at, created_at, finished_at, fence, failures, deaths,
          max_attempts, priority, status, retention, queue, type, payload, source)
        select $1, gen_random_uuid(), c, c, c, 1, 0, 0, 5, 100, 'succeeded', 'week', 'default', 'test.noop', '{}', 'manual'
        from generate_series(1, 50000), (select jobforge.clock()) as c(c)";
    stage.meddle(end, &[&TENANT_A]).await;
    stage.pass(2.0).await;
    sample(&stage, 2_000).await;
    let [enqueued, completed, ..] = flow(&stage).await;
    assert_eq!(enqueued, completed);
    assert!((45_000..55_000).contains(&completed), "{completed} of 50000");
    // The next one starts behind all of it.
    stage.pass(2.0).await;
    sample(&stage, 2_000).await;
    assert_eq!(flow(&stage).await[1], completed);
    stage.meddle(end, &[&TENANT_A]).await;
    stage.pass(2.0).await;
    sample(&stage, 2_000).await;
    let more = flow(&stage).await[1] - completed;
    assert!((45_000..55_000).contains(&more), "{more} of 50000 more");
}

#[tokio::test]
async fn the_hundred_busiest_tenants_are_kept() {
    let stage = Stage::set().await;
    let tenants =
        "insert into jobforge.tenants (id, name) select lpad(to_hex(t), 32, '0')::uuid, 'one of many'
                   from generate_series(4096, 4215) as t";
    stage.meddle(tenants, &[]).await;
    sample(&stage, 100_000).await;
    for n in 0..120_u128 {
        enqueue_with(stage.app.client(), Uuid::from_u128(4096 + n), NOOP, "'{}'").await.unwrap();
    }
    enqueue_with(stage.app.client(), TENANT_B, NOOP, "'{}'").await.unwrap();
    enqueue_with(stage.app.client(), TENANT_B, NOOP, "'{}'").await.unwrap();
    stage.pass(2.0).await;
    sample(&stage, 100_000).await;
    assert_eq!(stage.count("select count(*) from jobforge.tenant_stats").await, 100);
    assert_eq!(summary(&stage, TENANT_B, 100).await["enqueued_hour"], 2, "the busiest is among them");
    assert_eq!(flow(&stage).await[0], 122, "the queue knows of all");
}

#[tokio::test]
async fn a_summary_tells_states_rates_and_how_long_the_work_takes() {
    let stage = Stage::set().await;
    let told = summary(&stage, TENANT_A, 100).await;
    assert_eq!((&told["ready"], &told["drain_seconds"]), (&0.into(), &0.into()));
    assert_eq!(told["completed_hour"], serde_json::Value::Null, "nobody samples");
    sample(&stage, 1000).await;
    stage.jobs(30).await;
    let extra = "'{}', p_run_at => jobforge.clock() + interval '1 hour'";
    enqueue_with(stage.app.client(), TENANT_A, NOOP, extra).await.unwrap();
    stage.pass(2.0).await;
    let runs = stage.claim(22).await;
    for run in &runs[..20] {
        complete(stage.worker.client(), run).await.unwrap();
    }
    fail(stage.worker.client(), &runs[20], "permanent").await.unwrap();
    stage.pass(298.0).await;
    sample(&stage, 1000).await;
    let told = summary(&stage, TENANT_A, 100).await;
    let is = |name: &str, value: i64| assert_eq!(told[name], value, "{name}: {told}");
    for (name, value) in
        [("ready", 8), ("scheduled", 1), ("running", 1), ("failed", 1), ("dead", 0), ("blocked", 0)]
    {
        is(name, value);
    }
    for (name, value) in
        [("enqueued_hour", 31), ("completed_hour", 20), ("failed_day", 1), ("canceled_day", 0)]
    {
        is(name, value);
    }
    // Thirty-one came and twenty-one went in three hundred seconds: it grows.
    assert!((told["enqueued_rate"].as_f64().unwrap() - 31.0 / 300.0).abs() < 0.005, "{told}");
    assert_eq!(told["drain_seconds"], serde_json::Value::Null);

    stage.pass(300.0).await;
    for run in stage.claim(4).await {
        complete(stage.worker.client(), &run).await.unwrap();
    }
    stage.pass(2.0).await;
    sample(&stage, 1000).await;
    let told = summary(&stage, TENANT_A, 100).await;
    let drain = told["drain_seconds"].as_f64().unwrap();
    assert!((250.0..350.0).contains(&drain), "four left, four went in 300 s: {told}");
    stage.pass(130.0).await;
    assert_eq!(
        summary(&stage, TENANT_A, 100).await["completed_rate"],
        serde_json::Value::Null,
        "old samples tell no pace"
    );
}

#[tokio::test]
async fn curves_have_at_most_so_many_points() {
    let stage = Stage::set().await;
    act_for(stage.app.client(), TENANT_A).await.unwrap();
    sample(&stage, 1000).await;
    for _ in 0..6 {
        stage.jobs(1).await;
        stage.pass(60.0).await;
        let term = stage.lead("leader").await.unwrap();
        let sql = "select jobforge.sample_stats($1)";
        stage.operator.client().query(sql, &[&term]).await.unwrap();
    }
    let sql = "select count(*), sum(value), max(value) from jobforge.read_series($1, $2, p_points => $3)";
    let series = async |metric: &str, points: i32| {
        let row = stage.app.client().query_one(sql, &[&TENANT_A, &metric, &points]).await.unwrap();
        (row.get::<_, i64>(0), row.get::<_, Option<f64>>(1), row.get::<_, Option<f64>>(2))
    };
    let (points, sum, _) = series("enqueued", 60).await;
    assert!((6..=7).contains(&points), "a point for each minute: {points}");
    assert_eq!(sum, Some(6.0), "what came is a sum");
    let (points, sum, deepest) = series("queued", 1).await;
    assert_eq!(points, 1);
    assert!(sum == deepest && sum.unwrap() > 1.0 && sum.unwrap() < 6.0, "a depth is an average: {sum:?}");
    assert_eq!(series("enqueued", 1).await.1, Some(6.0));
    let sql = "select count(*), sum(value) from jobforge.read_system_series('enqueued', $1, p_points => 3)";
    let row = stage.operator.client().query_one(sql, &[&QUEUE]).await.unwrap();
    assert!(row.get::<_, i64>(0) <= 3);
    assert_eq!(row.get::<_, f64>(1), 6.0);
    let all = "select count(distinct metric) from jobforge.read_series($1)";
    assert_eq!(stage.app.client().query_one(all, &[&TENANT_A]).await.unwrap().get::<_, i64>(0), 9);
}

#[tokio::test]
async fn what_cannot_be_drawn_or_counted_is_refused() {
    let stage = Stage::set().await;
    for (arguments, reason) in [
        ("'velocity'", "JF001 metric_unknown"),
        ("'queued', p_points => 0", "JF001 points_out_of_range"),
        ("'queued', p_points => 1001", "JF001 points_out_of_range"),
        ("'queued', p_points => null", "JF001 points_out_of_range"),
        ("'queued', p_from => now(), p_to => now() - interval '1 hour'", "JF001 range_empty"),
        ("'queued', p_from => '-infinity'", "JF001 range_empty"),
        ("'queued', p_to => '4714-11-24 00:00:00+00 BC'", "JF001 range_empty"),
    ] {
        let sql = format!("select * from jobforge.read_series('{TENANT_A}', {arguments})");
        assert_eq!(refusal(stage.app.client().query(&sql, &[]).await), reason, "{arguments}");
        let sql = format!("select * from jobforge.read_system_series({arguments})");
        assert_eq!(refusal(stage.operator.client().query(&sql, &[]).await), reason, "{arguments}");
    }
    for limit in ["0", "null", "100001"] {
        let sql = format!("select * from jobforge.job_summary('{TENANT_A}', {limit})");
        assert_eq!(refusal(stage.app.client().query(&sql, &[]).await), "JF001 limit_out_of_range");
    }
    for call in ["queue_summary(0)", "system_state(0)", "sample_stats(1, 0)"] {
        let sql = format!("select * from jobforge.{}", call.replace("(1,", &format!("({},", stage.term)));
        assert_eq!(
            refusal(stage.operator.client().query(&sql, &[]).await),
            "JF001 limit_out_of_range",
            "{call}"
        );
    }
}
