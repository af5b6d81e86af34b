//! Dead letters and operations on many jobs through the typed calls.

use jobforge_core::rpc::{
    fail_job, get_bulk, get_job, group_dead_letters, list_bulk_results, list_bulks, list_dead_letters,
    redrive_jobs, start_bulk, step_bulk, undo_bulk,
};
use jobforge_core::{
    BulkFilter, BulkKind, Class, Code, DeadLetterFilter, Failure, NewJob, Redrive, Redriven, ResultsOf,
};
use jobforge_testkit::{NOOP, TENANT_A};
use uuid::Uuid;

use crate::story::{Story, failure, json, noop, refused};

/// Dead letters with these errors, in the order of their deaths.
async fn dead(story: &Story, errors: &[&str]) -> Vec<Uuid> {
    let mut ids = Vec::new();
    for error in errors {
        story.enqueue(&NewJob::raw(NOOP, json("{\"n\": 1.10}"))).await;
        let taken = story.claim(1).await.jobs.remove(0);
        let end = Failure { error: (*error).to_owned(), ..failure(taken.job, Class::Permanent) };
        fail_job(&story.worker, taken.lease_id, &end).await.unwrap();
        ids.push(taken.job.id);
    }
    ids
}

fn all() -> BulkFilter {
    BulkFilter { statuses: Some(vec!["failed".to_owned(), "dead".to_owned()]), ..BulkFilter::default() }
}

#[tokio::test]
async fn dead_letters_are_listed_grouped_and_redriven_by_their_cause() {
    let story = Story::begin().await;
    let ids = dead(&story, &["user 1 not found", "user 22 not found", "disk full"]).await;
    let groups = group_dead_letters(&story.app, TENANT_A, &DeadLetterFilter::default(), 10).await.unwrap();
    assert_eq!(groups.iter().map(|group| group.jobs).collect::<Vec<_>>(), [2, 1]);
    assert_eq!((groups[0].sample_id, groups[0].message.as_deref()), (ids[1], Some("user <n> not found")));
    assert_eq!((groups[0].class.as_str(), groups[0].capped), ("failed/permanent", false));
    let filter =
        DeadLetterFilter { fingerprint: Some(groups[0].fingerprint.clone()), ..DeadLetterFilter::default() };
    let page = list_dead_letters(&story.app, TENANT_A, &filter, 1, None).await.unwrap();
    assert_eq!((page.jobs[0].id, page.complete), (ids[1], true));
    let cursor = page.next_cursor.as_deref();
    let page = list_dead_letters(&story.app, TENANT_A, &filter, 10, cursor).await.unwrap();
    assert_eq!(page.jobs.iter().map(|job| job.id).collect::<Vec<_>>(), [ids[0]]);
    assert_eq!((page.next_cursor, page.jobs[0].error.as_deref()), (None, Some("user 1 not found")));

    let matching = Redriven::Matching { filter: &filter, cursor: None, limit: 1 };
    let first = redrive_jobs(&story.app, TENANT_A, &matching, &Redrive::default()).await.unwrap();
    assert_eq!((first.jobs[0].id, first.jobs[0].verdict.as_str()), (ids[0], "redriven"));
    let matching = Redriven::Matching { filter: &filter, cursor: first.next_cursor.as_deref(), limit: 10 };
    let rest = redrive_jobs(&story.app, TENANT_A, &matching, &Redrive::default()).await.unwrap();
    assert_eq!(rest.jobs.iter().map(|job| job.id).collect::<Vec<_>>(), [ids[1]]);
    assert_eq!(get_job(&story.app, TENANT_A, ids[2]).await.unwrap().status, "failed");
}

/// A worker in plain SQL may have nothing to say.
#[tokio::test]
async fn a_dead_letter_without_an_error_is_a_cause_of_its_own() {
    let story = Story::begin().await;
    dead(&story, &["disk full"]).await;
    story.enqueue(&noop()).await;
    let taken = story.claim(1).await.jobs.remove(0);
    let sql = "select jobforge.fail_job($1, $2, $3, $4, 'permanent', null)";
    let job = taken.job;
    story.worker.execute(sql, &[&taken.lease_id, &job.tenant_id, &job.id, &job.fence]).await.unwrap();
    let groups = group_dead_letters(&story.app, TENANT_A, &DeadLetterFilter::default(), 10).await.unwrap();
    assert_eq!(groups.len(), 2);
    let silent = groups.iter().find(|group| group.sample_id == job.id).unwrap();
    assert_eq!((&silent.sample_error, &silent.message), (&None, &None));
    let filter =
        DeadLetterFilter { fingerprint: Some(silent.fingerprint.clone()), ..DeadLetterFilter::default() };
    let page = list_dead_letters(&story.app, TENANT_A, &filter, 10, None).await.unwrap();
    assert_eq!(page.jobs.iter().map(|one| one.id).collect::<Vec<_>>(), [job.id]);
}

#[tokio::test]
async fn an_edit_is_applied_recorded_and_undone() {
    let story = Story::begin().await;
    let ids = dead(&story, &["x"]).await;
    let how = Redrive {
        patch: Some(json(r#"[{"op": "add", "path": "/to", "value": "b"}]"#)),
        max_attempts: Some(9),
        reason: Some("why\0not".to_owned()),
        dry_run: false,
    };
    let done = redrive_jobs(&story.app, TENANT_A, &Redriven::Jobs(&ids), &how).await.unwrap();
    let job = get_job(&story.app, TENANT_A, ids[0]).await.unwrap();
    assert_eq!((job.status.as_str(), job.max_attempts, job.failures), ("queued", 9, 0));
    assert_eq!(job.payload.get(), r#"{"n": 1.10, "to": "b"}"#);
    let operation = done.operation_id.unwrap();
    let record = get_bulk(&story.app, TENANT_A, operation).await.unwrap();
    assert_eq!((record.kind.as_str(), record.done, record.reason.as_str()), ("redrive", 1, "why\u{fffd}not"));
    assert_eq!(record.patch.unwrap().get(), r#"[{"op": "add", "path": "/to", "value": "b"}]"#);
    let of_job = list_bulk_results(&story.app, TENANT_A, ResultsOf::Job(ids[0]), 10, None).await.unwrap();
    assert_eq!((of_job[0].operation_id, of_job[0].verdict.as_str()), (operation, "redriven"));
    assert!(of_job[0].before.as_ref().unwrap().get().contains(r#""payload": {"n": 1.10}"#));
    let undone = undo_bulk(&story.app, TENANT_A, operation, 10).await.unwrap();
    assert_eq!((undone.status.as_str(), undone.undone, undone.kept), ("undone", 1, 0));
    let job = get_job(&story.app, TENANT_A, ids[0]).await.unwrap();
    assert_eq!((job.status.as_str(), job.failures, job.payload.get()), ("failed", 1, r#"{"n": 1.10}"#));
}

#[tokio::test]
async fn an_operation_is_stepped_to_its_end() {
    let story = Story::begin().await;
    dead(&story, &["a", "b", "c"]).await;
    let started =
        start_bulk(&story.app, TENANT_A, &BulkKind::Redrive(Redrive::default()), &all()).await.unwrap();
    assert_eq!((started.status.as_str(), started.matched, started.matched_capped), ("running", 3, false));
    let mut steps = 0;
    let mut bulk = started;
    while bulk.status == "running" {
        bulk = step_bulk(&story.app, TENANT_A, bulk.id, 2).await.unwrap();
        steps += 1;
    }
    assert_eq!((steps, bulk.status.as_str(), bulk.done, bulk.skipped), (2, "finished", 3, 0));
    let listed = list_bulks(&story.app, TENANT_A, 10, None).await.unwrap();
    assert_eq!(listed.iter().map(|listed| listed.id).collect::<Vec<_>>(), [bulk.id]);
    let of = ResultsOf::Operation(bulk.id);
    let first = list_bulk_results(&story.app, TENANT_A, of, 2, None).await.unwrap();
    let rest = list_bulk_results(&story.app, TENANT_A, of, 2, Some(first[1].job_id)).await.unwrap();
    assert_eq!((first.len(), rest.len()), (2, 1));
}

#[tokio::test]
async fn a_cancel_of_many_is_not_undone() {
    let story = Story::begin().await;
    let id = story.enqueue(&noop()).await.id;
    let kind = |dry_run| BulkKind::Cancel { reason: Some("not needed".to_owned()), dry_run };
    let which = BulkFilter { job_type: Some(NOOP.to_owned()), ..BulkFilter::default() };
    let dry = start_bulk(&story.app, TENANT_A, &kind(true), &which).await.unwrap();
    assert_eq!((dry.matched, dry.status.as_str(), dry.dry_run), (1, "finished", true));
    let bulk = start_bulk(&story.app, TENANT_A, &kind(false), &which).await.unwrap();
    let bulk = step_bulk(&story.app, TENANT_A, bulk.id, 10).await.unwrap();
    assert_eq!((bulk.status.as_str(), bulk.done), ("finished", 1));
    let job = get_job(&story.app, TENANT_A, id).await.unwrap();
    assert_eq!((job.status.as_str(), job.error.as_deref()), ("canceled", Some("not needed")));
    let refusal = refused(undo_bulk(&story.app, TENANT_A, bulk.id, 10).await);
    assert_eq!(refusal, (Code::WrongState, "bulk_not_undoable".to_owned()));
}

#[tokio::test]
async fn what_cannot_be_meant_is_refused() {
    let story = Story::begin().await;
    let ids = dead(&story, &["x"]).await;
    let invalid = |reason: &str| (Code::InvalidArgument, reason.to_owned());
    for patch in
        ["{}", "[]", r#"[{"op": "add", "path": "/a", "value": "\u0000"}]"#, r#"[{"op": "jump", "path": ""}]"#]
    {
        let how = Redrive { patch: Some(json(patch)), ..Redrive::default() };
        let refusal = refused(redrive_jobs(&story.app, TENANT_A, &Redriven::Jobs(&ids), &how).await);
        assert_eq!(refusal, invalid("patch_malformed"), "{patch}");
        let refusal = refused(start_bulk(&story.app, TENANT_A, &BulkKind::Redrive(how), &all()).await);
        assert_eq!(refusal, invalid("patch_malformed"), "{patch}");
    }
    let none = BulkFilter::default();
    let refusal =
        refused(start_bulk(&story.app, TENANT_A, &BulkKind::Redrive(Redrive::default()), &none).await);
    assert_eq!(refusal, invalid("filter_empty"));
    let waiting = BulkFilter { statuses: Some(vec!["queued".to_owned()]), ..BulkFilter::default() };
    let refusal =
        refused(start_bulk(&story.app, TENANT_A, &BulkKind::Redrive(Redrive::default()), &waiting).await);
    assert_eq!(refusal, invalid("status_unknown"));
    let ghost = Uuid::now_v7();
    let unknown = (Code::NotFound, "bulk_unknown".to_owned());
    assert_eq!(refused(step_bulk(&story.app, TENANT_A, ghost, 1).await), unknown);
    assert_eq!(refused(get_bulk(&story.app, TENANT_A, ghost).await), unknown);
    assert_eq!(get_job(&story.app, TENANT_A, ids[0]).await.unwrap().status, "failed");
}
