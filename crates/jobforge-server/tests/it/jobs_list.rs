//! Lists of jobs: by label, by payload, by time; by cursor and by offset.

use jobforge_core::NewJob;
use jobforge_testkit::{NOOP, OTHER};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::jobs_cast::{Cast, ids, raw};

#[tokio::test]
async fn jobs_are_found_by_label_payload_and_type() {
    let cast = Cast::new().await;
    let order =
        |id: i32| NewJob::raw(NOOP, raw(&json!({ "order": { "id": id, "lines": [1, 2] }, "a&b": "é" })));
    let seven = cast.made(NewJob { tags: vec!["red".into(), "big".into()], ..order(7) }).await;
    let eight = cast.made(NewJob { tags: vec!["red".into()], ..order(8) }).await;
    let other = cast.made(NewJob::raw(OTHER, raw(&json!({})))).await;
    let found = async |query: &str| ids(&cast.get(&format!("/jobs?{query}")).await.expect(200)["jobs"]);
    assert_eq!(found("tag=red").await, [eight, seven]);
    assert_eq!(found("tag=big").await, [seven]);
    assert_eq!(found(&payload(&json!({ "order": { "id": 7 } }))).await, [seven]);
    assert_eq!(found(&payload(&json!({ "a&b": "é" }))).await, [eight, seven]);
    assert_eq!(
        found(&format!("{}&tag=big", payload(&json!({ "order": { "id": 8 } })))).await,
        Vec::<Uuid>::new()
    );
    assert_eq!(found(&payload(&json!({}))).await, [other, eight, seven]);
    assert_eq!(found(&format!("type={OTHER}")).await, [other]);
    assert_eq!(found(&format!("definition_key={OTHER}")).await, [other]);
}

#[tokio::test]
async fn jobs_are_found_by_the_time_they_came() {
    let cast = Cast::new().await;
    cast.world.db.set_clock(Some("2026-03-01T10:00:00Z")).await;
    let first = cast.queued().await;
    cast.world.db.set_clock(Some("2026-03-01T11:00:00Z")).await;
    let second = cast.queued().await;
    let found = async |query: &str| ids(&cast.get(&format!("/jobs?{query}")).await.expect(200)["jobs"]);
    assert_eq!(found("created_after=2026-03-01T11:00:00Z").await, [second]);
    assert_eq!(found("created_before=2026-03-01T11:00:00Z").await, [first]);
    assert_eq!(
        found("created_after=2026-03-01T10:00:00Z&created_before=2026-03-01T12:00:00Z").await,
        [second, first]
    );
}

#[tokio::test]
async fn a_cursor_and_an_offset_lead_over_the_same_jobs() {
    let cast = Cast::new().await;
    let mut all = Vec::new();
    for _ in 0..7 {
        all.push(cast.queued().await);
    }
    all.reverse();
    let page = async |query: &str| cast.get(&format!("/jobs?{query}")).await.expect(200);
    let first = page("limit=3").await;
    assert_eq!(ids(&first["jobs"]), all[..3]);
    let mut seen = ids(&first["jobs"]);
    let mut cursor = first["next_cursor"].as_str().map(str::to_owned);
    while let Some(at) = cursor {
        let next = page(&format!("limit=3&cursor={at}")).await;
        seen.extend(ids(&next["jobs"]));
        cursor = next["next_cursor"].as_str().map(str::to_owned);
    }
    assert_eq!(seen, all);

    let second = page("limit=3&offset=2").await;
    assert_eq!(ids(&second["jobs"]), all[2..5]);
    let cursor = second["next_cursor"].as_str().unwrap();
    assert_eq!(ids(&page(&format!("cursor={cursor}")).await["jobs"]), all[5..]);
    assert_eq!(ids(&page("offset=0&limit=1").await["jobs"]), all[..1]);
    let beyond = page("offset=1000").await;
    assert_eq!((ids(&beyond["jobs"]), &beyond["next_cursor"]), (Vec::<Uuid>::new(), &json!(null)));
    // As many are passed by as one call of the database lists.
    assert_eq!(ids(&page("offset=6&limit=1000").await["jobs"]), all[6..]);
}

#[tokio::test]
async fn what_a_list_does_not_take_is_refused() {
    let cast = Cast::new().await;
    let cursor = {
        cast.queued().await;
        cast.queued().await;
        cast.get("/jobs?limit=1").await.expect(200)["next_cursor"].as_str().unwrap().to_owned()
    };
    let refused = async |query: &str, code: &str, reason: &str| {
        cast.get(&format!("/jobs?{query}")).await.refused(400, code, reason);
    };
    for limit in ["0", "-1", "1001"] {
        refused(&format!("limit={limit}"), "JF001", "limit_out_of_range").await;
    }
    refused("offset=1001", "JF001", "offset_out_of_range").await;
    refused("offset=-1", "JF102", "query_malformed").await;
    refused(&format!("offset=1&cursor={cursor}"), "JF001", "offset_and_cursor").await;
    refused("cursor=nonsense", "JF102", "cursor_malformed").await;
    refused("payload=7", "JF102", "payload_malformed").await;
    refused("payload=%5B%5D", "JF102", "payload_malformed").await;
    refused("payload=%7B", "JF102", "payload_malformed").await;
    refused("payload=%7B%22a%22%3A%22%5Cu0000%22%7D", "JF001", "payload_malformed").await;
    refused("status=lost", "JF001", "status_unknown").await;
    refused("source=bogus", "JF001", "source_unknown").await;
    refused("tag=a%00b", "JF102", "query_malformed").await;
    refused("sort=id", "JF102", "query_malformed").await;
}

fn payload(value: &Value) -> String {
    let hex = |byte: u8| format!("%{byte:02X}");
    format!("payload={}", value.to_string().bytes().map(hex).collect::<String>())
}
