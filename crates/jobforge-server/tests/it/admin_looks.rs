//! What operators look at: workers, queues, curves, the system, the audit log.

use jobforge_core::rpc::{claim_jobs, lead, register_worker, sample_stats};
use jobforge_core::{ClaimRequest, Cursor, Registration, Role};
use jobforge_testkit::{NOOP, QUEUE, TENANT_A, TENANT_B};
use serde_json::{Value, json};

use crate::admin::put;
use crate::world::World;

fn worker() -> Registration {
    Registration {
        worker_id: "host:1:boot".to_owned(),
        host: "host".to_owned(),
        pid: Some(1),
        version: "1.2.3".to_owned(),
        queues: vec![QUEUE.to_owned()],
        types: vec![NOOP.to_owned()],
        slots: 4,
        metadata: None,
    }
}

#[tokio::test]
async fn workers_queues_and_the_system_are_told() {
    let world = World::new().await;
    let (operator, producer) = (world.key(Role::SuperAdmin).await, world.key(Role::Producer).await);
    register_worker(&world.db.as_worker().await, &worker()).await.unwrap();
    world.post(&producer, "/jobs", json!({ "type": NOOP })).await.expect(201);

    let workers = world.get(&operator, "/admin/workers").await.expect(200);
    assert_eq!(
        (&workers["workers"][0]["worker_id"], &workers["workers"][0]["slots"]),
        (&json!("host:1:boot"), &json!(4))
    );
    let queues = world.get(&operator, "/admin/queues").await.expect(200);
    let queue = queues["queues"].as_array().unwrap().iter().find(|queue| queue["queue"] == QUEUE).unwrap();
    assert_eq!((&queue["ready"], &queue["workers"], &queue["slots"]), (&json!(1), &json!(1), &json!(4)));
    let system = world.get(&operator, "/admin/system").await.expect(200);
    assert_eq!((&system["state"]["live_workers"], &system["state"]["tenants"]), (&json!(1), &json!(3)));
    assert_eq!(system["version"], env!("CARGO_PKG_VERSION"));
    for list in ["stuck_leases", "forgotten_pauses", "starved"] {
        assert_eq!(system[list], json!([]), "{list}");
    }
    for path in ["/admin/workers?limit=0", "/admin/queues?limit=0", "/admin/system?limit=0"] {
        world.get(&operator, path).await.refused(400, "JF001", "limit_out_of_range");
    }
}

#[tokio::test]
async fn what_was_forgotten_what_starves_and_what_is_stuck_is_told() {
    let world = World::new().await;
    let (operator, producer) = (world.key(Role::SuperAdmin).await, world.key(Role::Producer).await);
    let limit = json!({ "max_in_flight": 1 });
    put(&world, &operator, &format!("/admin/jobs/definitions/{NOOP}"), limit).await.expect(200);
    world.post(&producer, "/jobs", json!([{ "type": NOOP }, { "type": NOOP }])).await.expect(200);
    let client = world.db.as_worker().await;
    register_worker(&client, &worker()).await.unwrap();
    let claim = ClaimRequest {
        worker_id: "host:1:boot",
        queues: &[QUEUE.to_owned()],
        types: &[NOOP.to_owned()],
        limit: 2,
        free: 2,
        lease_id: None,
        new_lease_id: None,
        lease_seconds: 30,
        window: Some(2),
        quick: false,
        cursor: &Cursor::default(),
    };
    assert_eq!(claim_jobs(&client, &claim).await.unwrap().jobs.len(), 1);
    let pause = json!({ "kind": "tenant", "name": TENANT_A, "reason": "for a minute" });
    world.post(&operator, "/admin/pauses", pause).await.expect(200);
    world.db.advance_clock(86_500.0).await;
    let system = world.get(&operator, "/admin/system").await.expect(200);
    let forgotten = &system["forgotten_pauses"][0];
    assert_eq!((&forgotten["name"], &forgotten["reason"]), (&json!(TENANT_A), &json!("for a minute")));
    assert_eq!(system["stuck_leases"][0]["worker_id"], "host:1:boot");
    let starved = &system["starved"][0];
    assert_eq!((&starved["kind"], &starved["limit_name"]), (&json!("definition"), &json!("max_in_flight")));
}

#[tokio::test]
async fn the_queues_curves_are_told() {
    let world = World::new().await;
    let (operator, producer) = (world.key(Role::SuperAdmin).await, world.key(Role::Producer).await);
    world.post(&producer, "/jobs", json!({ "type": NOOP })).await.expect(201);
    let client = world.db.as_operator().await;
    let term = lead(&client, "one", 600).await.unwrap().term;
    sample_stats(&client, term, 100_000).await.unwrap();
    let series =
        world.get(&operator, &format!("/admin/series?queue={QUEUE}&metric=queued")).await.expect(200);
    let points = series["points"].as_array().unwrap();
    assert!(points.iter().all(|point| point["queue"] == QUEUE && point["metric"] == "queued"));
    assert!(points.iter().any(|point| point["value"] == 1.0), "{series}");
    for (query, reason) in [
        ("metric=mood", "metric_unknown"),
        ("points=0", "points_out_of_range"),
        ("from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z", "range_empty"),
    ] {
        world.get(&operator, &format!("/admin/series?{query}")).await.refused(400, "JF001", reason);
    }
    world.get(&operator, "/admin/series?queue=%00").await.refused(400, "JF102", "query_malformed");
}

#[tokio::test]
async fn a_tenant_reads_its_own_log_and_an_operator_everybodys() {
    let world = World::new().await;
    let operator = world.key(Role::SuperAdmin).await;
    let (a, b) = (world.key(Role::TenantAdmin).await, world.key_of_b(Role::TenantAdmin).await);
    put(&world, &a, "/admin/connectors/mine", json!({})).await.expect(200);
    put(&world, &a, "/admin/connectors/more", json!({})).await.expect(200);
    put(&world, &b, "/admin/connectors/theirs", json!({})).await.expect(200);
    let about = "subject_kind=connector_config";
    let subjects = |page: &Value| -> Vec<String> {
        let entries = page["entries"].as_array().unwrap().iter();
        entries.map(|entry| entry["subject_id"].as_str().unwrap().to_owned()).collect()
    };
    let first = world.get(&a, &format!("/audit?{about}&limit=1")).await.expect(200);
    assert_eq!((subjects(&first), &first["complete"]), (vec!["more".to_owned()], &json!(true)));
    let cursor = first["next_cursor"].as_str().unwrap();
    let second = world.get(&a, &format!("/audit?{about}&limit=1&cursor={cursor}")).await.expect(200);
    assert_eq!(subjects(&second), ["mine"]);
    assert_eq!(second["entries"][0]["tenant_id"], json!(TENANT_A));

    let all = world.get(&operator, &format!("/admin/audit?{about}")).await.expect(200);
    assert_eq!(subjects(&all), ["theirs", "more", "mine"]);
    let of_b = world.get(&operator, &format!("/admin/audit?{about}&tenant_id={TENANT_B}")).await.expect(200);
    assert_eq!(subjects(&of_b), ["theirs"]);
    let by_a = format!("/admin/audit?actor=key%20jf_{}%20(tenant_admin)", a.id);
    assert_eq!(subjects(&world.get(&operator, &by_a).await.expect(200)), ["more", "mine"]);

    world.get(&a, "/audit?subject_id=x").await.refused(400, "JF001", "subject_kind_missing");
    world.get(&a, &format!("/audit?tenant_id={TENANT_B}")).await.refused(400, "JF102", "query_malformed");
    world.get(&a, "/audit?after=-009000-01-01T00:00:00Z").await.refused(400, "JF102", "value_unstorable");
    world.get(&a, "/audit?cursor=x").await.refused(400, "JF102", "cursor_malformed");
}
