//! Reports and QR codes as jobs.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jobforge_connectors::{qr, report};
use jobforge_testkit::{OTHER, TENANT_A, TENANT_B};
use serde_json::{Value, json};

use crate::support::Story;

fn rows_of(report: &Value) -> Value {
    let body: Value = serde_json::from_str(report["body"].as_str().unwrap()).unwrap();
    body["rows"].clone()
}

#[tokio::test]
async fn a_report_of_rows_bears_the_databases_time() {
    let story = Story::begin().await;
    story.db.set_clock(Some("2031-05-06T07:08:09Z")).await;
    let worker = story.work("").await;
    let payload = json!({ "format": "json", "title": "Sales", "filename": "sales-2031",
        "columns": ["item", "price"], "rows": [["ä", 1.5], { "item": "=1+1" }] });
    let (status, report) = story.run(report::TYPE, &payload).await;
    assert_eq!(status, "succeeded", "{report}");
    let body: Value = serde_json::from_str(report["body"].as_str().unwrap()).unwrap();
    assert!(body["generated_at"].as_str().unwrap().starts_with("2031-05-06T07:08:"), "{body}");
    assert_eq!(body["rows"], json!([["ä", 1.5], ["=1+1", null]]));
    let told = json!([
        report["format"],
        report["content_type"],
        report["filename"],
        report["rows"],
        report["truncated"]
    ]);
    assert_eq!(told, json!(["json", "application/json", "sales-2031.json", 2, false]));
    worker.shutdown().await;
}

#[tokio::test]
async fn a_report_of_jobs_counts_those_of_its_tenant() {
    let story = Story::begin().await;
    for (tenant, jobs) in [(TENANT_A, 3), (TENANT_B, 2)] {
        for _ in 0..jobs {
            story.enqueue(tenant, OTHER, &json!({})).await;
        }
    }
    let worker = story.work("").await;
    let (status, report) = story.run(report::TYPE, &json!({ "format": "json", "source": "jobs" })).await;
    assert_eq!((status.as_str(), &report["truncated"]), ("succeeded", &json!(false)), "{report}");
    let wanted = json!([[report::TYPE, 1, 0, 1, 0, 0, 0, 0, null], [OTHER, 3, 3, 0, 0, 0, 0, 0, null],]);
    assert_eq!(rows_of(&report), wanted);
    let payload = json!({ "format": "csv", "source": "jobs", "group_by": "status" });
    let (_, report) = story.run(report::TYPE, &payload).await;
    let body = report["body"].as_str().unwrap();
    assert!(body.starts_with("status,jobs,waiting,"), "{body}");
    assert!(body.contains("\r\nqueued,3,3,0,") && body.contains("\r\nsucceeded,1,0,0,1,"), "{body}");
    worker.shutdown().await;
}

/// Nobody samples here: the report says that it does not know.
#[tokio::test]
async fn a_report_of_what_came_and_went_tells_what_the_samples_lack() {
    let story = Story::begin().await;
    let worker = story.work("").await;
    let payload = json!({ "format": "json", "source": "flow", "group_by": "hour" });
    let (status, report) = story.run(report::TYPE, &payload).await;
    assert_eq!(
        (status.as_str(), &report["truncated"], rows_of(&report)),
        ("succeeded", &json!(true), json!([]))
    );
    worker.shutdown().await;
}

#[tokio::test]
async fn a_payload_that_makes_nothing_fails_for_good() {
    let story = Story::begin().await;
    let worker = story.work("").await;
    let bad_period = json!({ "format": "csv", "source": "jobs",
        "from": "2030-01-02T00:00:00Z", "to": "2030-01-01T00:00:00Z" });
    for (job_type, payload, told) in [
        (report::TYPE, json!({ "format": "pdf" }), "does not fit"),
        (report::TYPE, json!({ "format": "csv" }), "either columns"),
        (report::TYPE, bad_period, "range_empty"),
        (report::TYPE, json!({ "format": "csv", "columns": ["a"], "rows": [[1, 2]] }), "row 1"),
        (qr::TYPE, json!({ "text": "x".repeat(3000) }), "3000 bytes"),
        (qr::TYPE, json!({ "txt": "x" }), "does not fit"),
    ] {
        let (status, error) = story.run(job_type, &payload).await;
        assert_eq!(status, "failed", "{error}");
        assert!(error.as_str().unwrap().contains(told), "{error}");
    }
    worker.shutdown().await;
}

#[tokio::test]
async fn a_qr_code_comes_as_the_jobs_result() {
    let story = Story::begin().await;
    let worker = story.work("").await;
    let payload = json!({ "tagged": { "prefix": "DOC", "fields": [{ "name": "id", "value": "7" }] } });
    let (status, image) = story.run(qr::TYPE, &payload).await;
    assert_eq!((status.as_str(), &image["text"]), ("succeeded", &json!("DOC|id=7")));
    let png = STANDARD.decode(image["png_base64"].as_str().unwrap()).unwrap();
    assert_eq!(&png[1..4], b"PNG");
    assert_eq!((&image["width"], &image["height"], &image["version"]), (&json!(290), &json!(290), &json!(1)));
    worker.shutdown().await;
}
