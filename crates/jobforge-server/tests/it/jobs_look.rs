//! Looking at one job: its state, attempts, log, result, and why it waits; and at a tenant in numbers.

use jobforge_core::rpc::{append_log, lead, report_progress, sample_stats};
use jobforge_core::{Level, LogLine};
use serde_json::json;

use crate::jobs_cast::{Cast, raw};

#[tokio::test]
async fn an_etag_stands_for_the_job_until_something_about_it_changes() {
    let cast = Cast::new().await;
    let job = cast.running().await;
    let path = format!("/jobs/{}", job.job.id);
    let answer = cast.get(&path).await;
    let tag = answer.headers["etag"].to_str().unwrap().to_owned();
    assert!(tag.starts_with("W/\"") && tag.ends_with('"'), "{tag}");
    let strong = tag.strip_prefix("W/").unwrap();
    for known in [&tag, strong, &format!("\"other\", {tag}"), "*"] {
        let same = cast.get_with(&path, "if-none-match", known).await;
        assert_eq!((same.status.as_u16(), same.bytes.len()), (304, 0), "{known}");
        assert_eq!(same.headers["etag"], tag.as_str());
    }
    cast.get_with(&path, "if-none-match", "\"other\"").await.expect(200);

    report_progress(&cast.worker, job.lease_id, job.job, 40.0, "on its way").await.unwrap();
    let changed = cast.get_with(&path, "if-none-match", &tag).await;
    let progressed = changed.headers["etag"].clone();
    assert_eq!(changed.expect(200)["progress_percent"], 40.0);
    cast.complete(&job, None).await;
    let over = cast.get_with(&path, "if-none-match", progressed.to_str().unwrap()).await;
    assert_eq!(over.expect(200)["status"], "succeeded");
}

#[tokio::test]
async fn attempts_are_told_in_their_order() {
    let cast = Cast::new().await;
    let id = cast.queued().await;
    let path = format!("/jobs/{id}/attempts");
    assert_eq!(cast.get(&path).await.expect(200), json!({ "attempts": [] }));
    let first = cast.claim().await.remove(0);
    cast.fail(&first, "no route to host").await;
    cast.post_nothing(&format!("/jobs/{id}/retry")).await.expect(200);
    cast.claim().await;
    let told = cast.get(&path).await.expect(200);
    assert_eq!(
        (&told["attempts"][0]["status"], &told["attempts"][0]["number"]),
        (&json!("failed"), &json!(1))
    );
    assert_eq!(told["attempts"][0]["error"], "no route to host");
    assert_eq!(told["attempts"][1]["status"], "running");
}

#[tokio::test]
async fn a_log_is_read_in_pages_and_read_along() {
    let cast = Cast::new().await;
    let job = cast.running().await;
    let path = format!("/jobs/{}/logs", job.job.id);
    let empty = cast.get(&path).await.expect(200);
    assert_eq!(empty, json!({ "lines": [], "next_cursor": null, "complete": true }));

    let say = async |text: &str| {
        let line = LogLine { level: Level::Info, message: text.to_owned() };
        append_log(&cast.worker, job.lease_id, job.job, &[line]).await.unwrap();
    };
    for text in ["one", "two", "three"] {
        say(text).await;
    }
    let page = cast.get(&format!("{path}?limit=2")).await.expect(200);
    assert_eq!(page["complete"], false);
    assert_eq!((&page["lines"][0]["message"], &page["lines"][1]["message"]), (&json!("one"), &json!("two")));
    let cursor = page["next_cursor"].as_str().unwrap();
    let page = cast.get(&format!("{path}?cursor={cursor}")).await.expect(200);
    assert_eq!((page["lines"].as_array().unwrap().len(), &page["complete"]), (1, &json!(true)));
    let cursor = page["next_cursor"].as_str().unwrap();
    let none = cast.get(&format!("{path}?cursor={cursor}")).await.expect(200);
    assert_eq!((&none["lines"], none["next_cursor"].as_str()), (&json!([]), Some(cursor)));
    say("four").await;
    let page = cast.get(&format!("{path}?cursor={cursor}")).await.expect(200);
    assert_eq!(page["lines"][0]["message"], "four");

    let own = cast.get(&format!("{path}?number=1")).await.expect(200);
    assert_eq!(own["lines"].as_array().unwrap().len(), 4);
    assert_eq!(cast.get(&format!("{path}?number=2")).await.expect(200)["lines"], json!([]));
    cast.get(&format!("{path}?limit=0")).await.refused(400, "JF001", "limit_out_of_range");
    cast.get(&format!("{path}?cursor=x")).await.refused(400, "JF102", "cursor_malformed");
    cast.get(&format!("{path}?attempt=1")).await.refused(400, "JF102", "query_malformed");
}

#[tokio::test]
async fn a_result_is_answered_alone_and_as_it_was_written() {
    let cast = Cast::new().await;
    let job = cast.running().await;
    let path = format!("/jobs/{}/result", job.job.id);
    cast.get(&path).await.refused(409, "JF008", "job_running");
    let text = r#"{"a": 1.10, "b": 9007199254740993}"#;
    cast.complete(&job, Some(serde_json::from_str(text).unwrap())).await;
    let answer = cast.get(&path).await;
    assert_eq!(answer.headers["content-type"], "application/json");
    assert_eq!(std::str::from_utf8(&answer.bytes).unwrap(), text);

    let silent = cast.running().await;
    cast.complete(&silent, None).await;
    let none = cast.get(&format!("/jobs/{}/result", silent.job.id)).await;
    assert_eq!((none.status.as_u16(), none.bytes.as_slice()), (200, b"null".as_slice()));
    let failed = cast.dead(&["broke"]).await[0];
    cast.get(&format!("/jobs/{failed}/result")).await.refused(409, "JF008", "job_failed");

    let large = json!({ "$artifact": { "ref": format!("sha256:{}", "a".repeat(64)), "bytes": 5_000_000 } });
    let job = cast.running().await;
    cast.complete(&job, Some(raw(large.clone()))).await;
    assert_eq!(cast.get(&format!("/jobs/{}/result", job.job.id)).await.expect(200), large);
}

#[tokio::test]
async fn a_waiting_job_is_explained() {
    let cast = Cast::new().await;
    let id = cast.queued().await;
    let path = format!("/jobs/{id}/explain");
    let told = cast.get(&path).await.expect(200);
    assert!(told["reasons"][0]["reason"].is_string() && told["reasons"][0]["says"].is_string(), "{told}");
    let later = json!({ "run_at": "2030-01-01T00:00:00Z" });
    cast.post(&format!("/jobs/{id}/reschedule"), later).await.expect(200);
    let told = cast.get(&path).await.expect(200);
    assert_eq!(
        (&told["reasons"][0]["reason"], &told["reasons"][0]["until"]),
        (&json!("scheduled"), &json!("2030-01-01T00:00:00Z"))
    );
    cast.post_nothing(&format!("/jobs/{id}/cancel")).await.expect(200);
    assert_eq!(cast.get(&path).await.expect(200)["reasons"][0]["reason"], "finished");
}

#[tokio::test]
async fn a_tenant_is_told_in_numbers_and_curves() {
    let cast = Cast::new().await;
    cast.queued().await;
    cast.dead(&[]).await;
    let summary = cast.get("/jobs/summary").await.expect(200);
    assert_eq!(
        (&summary["running"], &summary["ready"], &summary["sampled_at"]),
        (&json!(1), &json!(0), &json!(null))
    );
    assert_eq!(cast.get("/series").await.expect(200), json!({ "points": [] }));

    let operator = cast.world.db.as_operator().await;
    for _ in 0..2 {
        let term = lead(&operator, "s1", 60).await.unwrap().term;
        sample_stats(&operator, term, 10_000).await.unwrap();
        cast.world.db.advance_clock(61.0).await;
    }
    let series = cast.get("/series?metric=running").await.expect(200);
    assert_eq!(
        (&series["points"][0]["metric"], &series["points"][0]["value"]),
        (&json!("running"), &json!(1.0))
    );
    assert!(cast.get("/jobs/summary").await.expect(200)["sampled_at"].is_string());
    cast.get("/series?metric=luck").await.refused(400, "JF001", "metric_unknown");
    cast.get("/series?points=1001").await.refused(400, "JF001", "points_out_of_range");
    cast.get("/series?from=yesterday").await.refused(400, "JF102", "query_malformed");
}

#[tokio::test]
async fn what_is_no_id_is_refused_before_anything_is_asked() {
    let cast = Cast::new().await;
    for path in [
        "/jobs/7",
        "/jobs/7/attempts",
        "/jobs/7/logs",
        "/jobs/7/result",
        "/jobs/7/wait",
        "/jobs/7/explain",
        "/bulk/7",
    ] {
        cast.get(path).await.refused(400, "JF102", "path_malformed");
    }
}
