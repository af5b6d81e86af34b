//! What people do to a job: cancel, retry, reschedule, look.

use jobforge_core::rpc::{
    cancel_job, claim_jobs, complete_job, enqueue_job, fail_job, get_job, list_jobs, reschedule_job,
    retry_job,
};
use jobforge_core::{ClaimRequest, Class, Code, Cursor, JobFilter, NewJob};
use jobforge_testkit::{OTHER, TENANT_A};

use crate::story::{Story, failure, json, lanes, noop, refused, request, unknown_job};

#[tokio::test]
async fn a_waiting_job_is_canceled_at_once_and_only_once() {
    let story = Story::begin().await;
    let id = story.enqueue(&noop()).await.id;
    let canceled = cancel_job(&story.app, TENANT_A, id, Some("not needed")).await.unwrap();
    assert_eq!((canceled.status.as_str(), canceled.cancel_requested), ("canceled", false));
    let read = get_job(&story.app, TENANT_A, id).await.unwrap();
    assert_eq!((read.status.as_str(), read.error.as_deref()), ("canceled", Some("not needed")));
    assert!(story.claim(1).await.jobs.is_empty());
    let again = refused(cancel_job(&story.app, TENANT_A, id, None).await);
    assert_eq!(again, (Code::WrongState, "job_canceled".to_owned()));
}

#[tokio::test]
async fn what_is_over_or_unknown_is_not_operated_on() {
    let story = Story::begin().await;
    let job = story.running().await;
    complete_job(&story.worker, job.lease_id, job.job, None).await.unwrap();
    let over = (Code::WrongState, "job_succeeded".to_owned());
    let id = job.job.id;
    assert_eq!(refused(cancel_job(&story.app, TENANT_A, id, None).await), over);
    assert_eq!(refused(retry_job(&story.app, TENANT_A, id).await), over);
    assert_eq!(refused(reschedule_job(&story.app, TENANT_A, id, None, Some(3)).await), over);
    let unknown = (Code::NotFound, "job_unknown".to_owned());
    let ghost = unknown_job().id;
    assert_eq!(refused(cancel_job(&story.app, TENANT_A, ghost, None).await), unknown);
    assert_eq!(refused(retry_job(&story.app, TENANT_A, ghost).await), unknown);
    assert_eq!(refused(get_job(&story.app, TENANT_A, ghost).await), unknown);
}

#[tokio::test]
async fn a_running_job_is_neither_retried_nor_rescheduled() {
    let story = Story::begin().await;
    let id = story.running().await.job.id;
    let running = (Code::WrongState, "job_running".to_owned());
    assert_eq!(refused(retry_job(&story.app, TENANT_A, id).await), running);
    assert_eq!(refused(reschedule_job(&story.app, TENANT_A, id, None, Some(3)).await), running);
}

#[tokio::test]
async fn a_job_whose_attempts_are_changed_keeps_its_time_and_its_place() {
    let story = Story::begin().await;
    let later = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(3600);
    let future = story.enqueue(&noop().run_at(later)).await.id;
    let (first, second) = (story.enqueue(&noop()).await.id, story.enqueue(&noop()).await.id);
    for id in [future, first] {
        let before = get_job(&story.app, TENANT_A, id).await.unwrap().run_at;
        let told = reschedule_job(&story.app, TENANT_A, id, None, Some(9)).await.unwrap();
        assert_eq!((told.run_at, told.max_attempts), (before, 9));
    }
    let order: Vec<_> = story.claim(3).await.jobs.iter().map(|claimed| claimed.job.id).collect();
    assert_eq!(order, [first, second]);
}

#[tokio::test]
async fn a_dead_letter_runs_again_unless_its_twin_lives() {
    let story = Story::begin().await;
    let job = noop().dedupe_key("twin");
    let id = story.enqueue(&job).await.id;
    let taken = story.claim(1).await.jobs.remove(0);
    fail_job(&story.worker, taken.lease_id, &failure(taken.job, Class::Permanent)).await.unwrap();
    let twin = story.enqueue(&job).await;
    assert!(!twin.existing);
    let refusal = refused(retry_job(&story.app, TENANT_A, id).await);
    assert_eq!(refusal, (Code::WrongState, "dedupe_twin_alive".to_owned()));
    cancel_job(&story.app, TENANT_A, twin.id, None).await.unwrap();
    assert_eq!(retry_job(&story.app, TENANT_A, id).await.unwrap().status, "queued");
    let again = story.claim(1).await.jobs.remove(0);
    assert_eq!((again.job.id, again.job.fence, again.failures), (id, 2, 0));
}

#[tokio::test]
async fn a_waiting_job_is_moved_in_time() {
    let story = Story::begin().await;
    let id = story.enqueue(&noop()).await.id;
    let later = jiff::Timestamp::now() + jiff::SignedDuration::from_hours(1);
    let moved = reschedule_job(&story.app, TENANT_A, id, Some(later), Some(9)).await.unwrap();
    assert_eq!((moved.run_at.as_microsecond(), moved.max_attempts), (later.as_microsecond(), 9));
    assert!(story.claim(1).await.jobs.is_empty());
    let past = jiff::Timestamp::now() - jiff::SignedDuration::from_hours(1);
    reschedule_job(&story.app, TENANT_A, id, Some(past), None).await.unwrap();
    assert_eq!(story.claim(1).await.jobs.len(), 1);
    let nothing = refused(reschedule_job(&story.app, TENANT_A, id, None, None).await);
    assert_eq!(nothing, (Code::InvalidArgument, "nothing_to_change".to_owned()));
}

#[tokio::test]
async fn a_list_is_paged_newest_first_and_filtered() {
    let story = Story::begin().await;
    let mut ids = Vec::new();
    for n in 0..5 {
        let job = if n == 2 { NewJob::raw(OTHER, json("{}")) } else { noop() };
        ids.insert(0, story.enqueue(&job).await.id);
    }
    let first = JobFilter { limit: 3, ..JobFilter::default() };
    let page = list_jobs(&story.app, TENANT_A, &first).await.unwrap();
    assert_eq!(page.jobs.iter().map(|job| job.id).collect::<Vec<_>>(), ids[..3]);
    let rest = JobFilter { cursor: page.next_cursor, ..first };
    let page = list_jobs(&story.app, TENANT_A, &rest).await.unwrap();
    assert_eq!(page.jobs.iter().map(|job| job.id).collect::<Vec<_>>(), ids[3..]);
    assert_eq!((page.next_cursor, page.complete), (None, true));
    let others = JobFilter { job_type: Some(OTHER.to_owned()), ..JobFilter::default() };
    let page = list_jobs(&story.app, TENANT_A, &others).await.unwrap();
    assert_eq!(page.jobs.iter().map(|job| job.id).collect::<Vec<_>>(), [ids[2]]);
}

#[tokio::test]
async fn an_operators_reserved_work_goes_first() {
    let story = Story::begin().await;
    story.enqueue(&noop().priority(10)).await;
    let urgent = enqueue_job(&story.operator, TENANT_A, &noop().priority(0)).await.unwrap().id;
    assert_eq!(story.claim(2).await.jobs[0].job.id, urgent);
}

#[tokio::test]
async fn a_bound_worker_sees_only_its_tenant() {
    let story = Story::begin().await;
    enqueue_job(&story.app, jobforge_testkit::TENANT_B, &noop()).await.unwrap();
    let own = story.enqueue(&noop()).await.id;
    let bound = story.db.as_worker_a().await;
    let (queues, types) = lanes();
    let cursor = Cursor::default();
    let claimed = claim_jobs(&bound, &request(&queues, &types, 10, &cursor)).await.unwrap();
    assert_eq!(claimed.jobs.iter().map(|job| job.job.id).collect::<Vec<_>>(), [own]);
    let foreign = story.claim(1).await;
    let taken = ClaimRequest { lease_id: Some(foreign.lease_id), ..request(&queues, &types, 1, &cursor) };
    assert_eq!(refused(claim_jobs(&bound, &taken).await).0, Code::LeaseLost);
}
