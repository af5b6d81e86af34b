//! Dead letters: lists and causes.

use serde_json::json;
use uuid::Uuid;

use crate::jobs_cast::{Cast, ids};

#[tokio::test]
async fn dead_letters_are_listed_by_cause_in_pages() {
    let cast = Cast::new().await;
    let dead = cast.dead(&["disk full", "no route to host", "disk full"]).await;
    cast.queued().await;
    let page = cast.get("/dead-letters?limit=2").await.expect(200);
    let mut seen = ids(&page["jobs"]);
    assert_eq!((seen.len(), &page["complete"]), (2, &json!(true)));
    let cursor = page["next_cursor"].as_str().unwrap();
    let rest = cast.get(&format!("/dead-letters?limit=2&cursor={cursor}")).await.expect(200);
    seen.extend(ids(&rest["jobs"]));
    let (mut all, mut found) = (dead.clone(), seen);
    all.sort();
    found.sort();
    assert_eq!(found, all);

    let groups = cast.get("/dead-letters/groups").await.expect(200);
    assert_eq!(groups["groups"].as_array().unwrap().len(), 2);
    assert_eq!(
        (&groups["groups"][0]["jobs"], &groups["groups"][0]["message"]),
        (&json!(2), &json!("disk full"))
    );
    let cause = groups["groups"][1]["fingerprint"].as_str().unwrap();
    let found = cast.get(&format!("/dead-letters?fingerprint={cause}")).await.expect(200);
    assert_eq!(ids(&found["jobs"]), [dead[1]]);
    assert_eq!(
        cast.get("/dead-letters/groups?limit=1").await.expect(200)["groups"].as_array().unwrap().len(),
        1
    );
}

#[tokio::test]
async fn dead_letters_are_filtered_and_what_is_no_filter_is_refused() {
    let cast = Cast::new().await;
    let dead = cast.dead(&["broke"]).await;
    let found =
        async |query: &str| ids(&cast.get(&format!("/dead-letters?{query}")).await.expect(200)["jobs"]);
    assert_eq!(found("type=test.noop&queue=default&failed_after=2020-01-01T00:00:00Z").await, dead);
    assert_eq!(found("definition_key=test.other").await, Vec::<Uuid>::new());
    assert_eq!(found("queue=other").await, Vec::<Uuid>::new());
    assert_eq!(found("failed_before=2020-01-01T00:00:00Z").await, Vec::<Uuid>::new());
    let none = cast.get("/dead-letters/groups?type=test.other").await.expect(200);
    assert_eq!(none, json!({ "groups": [] }));
    for path in ["/dead-letters", "/dead-letters/groups"] {
        cast.get(&format!("{path}?limit=0")).await.refused(400, "JF001", "limit_out_of_range");
        cast.get(&format!("{path}?failed_after=x")).await.refused(400, "JF102", "query_malformed");
        cast.get(&format!("{path}?status=dead")).await.refused(400, "JF102", "query_malformed");
    }
    cast.get("/dead-letters?cursor=x").await.refused(400, "JF102", "cursor_malformed");
}
