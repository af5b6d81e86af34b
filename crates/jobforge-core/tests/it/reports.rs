//! Reports on jobs, and their verdicts: done, already, stale, unknown, invalid.

use std::time::Duration;

use jobforge_core::rpc::{
    append_log, cancel_job, complete_job, complete_jobs, complete_unlocked, fail_job, fail_jobs,
    fail_unlocked, get_job, heartbeat, list_attempts, release_jobs, report_exit, report_progress, snooze_job,
};
use jobforge_core::{
    AttemptEnd, ClaimedJob, Class, Code, Completion, Error, Failure, JobRef, Level, LogLine, ProgramExit,
    Verdict,
};
use jobforge_testkit::TENANT_A;
use tokio_postgres::error::SqlState;

use crate::story::{Story, failure, json, noop, refused, unknown_job};

fn completion(job: &ClaimedJob) -> Completion {
    Completion { job: job.job, result: None, locator: Some(job.locator) }
}

#[tokio::test]
async fn a_repeated_completion_is_already_done() {
    let story = Story::begin().await;
    let job = story.running().await;
    let done = [completion(&job)];
    assert_eq!(complete_jobs(&story.worker, job.lease_id, &done).await.unwrap(), [Verdict::Done]);
    assert_eq!(complete_jobs(&story.worker, job.lease_id, &done).await.unwrap(), [Verdict::Already]);
    assert_eq!(complete_job(&story.worker, job.lease_id, job.job, None).await.unwrap(), Verdict::Already);
}

#[tokio::test]
async fn a_repeated_failure_is_already_done() {
    let story = Story::begin().await;
    let job = story.running().await;
    let broken = failure(job.job, Class::Retryable);
    assert_eq!(fail_job(&story.worker, job.lease_id, &broken).await.unwrap().verdict, Verdict::Done);
    assert_eq!(fail_job(&story.worker, job.lease_id, &broken).await.unwrap().verdict, Verdict::Already);
    assert_eq!(fail_jobs(&story.worker, job.lease_id, &[broken]).await.unwrap()[0].verdict, Verdict::Already);
    let read = get_job(&story.app, TENANT_A, job.job.id).await.unwrap();
    assert_eq!((read.status.as_str(), read.failures), ("queued", 1));
}

#[tokio::test]
async fn a_row_that_moved_since_its_claim_is_still_completed() {
    let story = Story::begin().await;
    let (moved, still) = (story.running().await, story.running().await);
    // Another worker's lease: each of the two was claimed by a claim of its own.
    assert_ne!(moved.lease_id, still.lease_id);
    let canceled = cancel_job(&story.app, TENANT_A, moved.job.id, Some("changed\0my mind")).await.unwrap();
    assert_eq!((canceled.status.as_str(), canceled.cancel_requested), ("running", true));
    let verdicts = complete_jobs(&story.worker, moved.lease_id, &[completion(&moved)]).await.unwrap();
    assert_eq!(verdicts, [Verdict::Done]);
    assert_eq!(get_job(&story.app, TENANT_A, moved.job.id).await.unwrap().status, "succeeded");
}

#[tokio::test]
async fn who_does_not_wait_for_a_lock_is_told_so_and_changes_nothing() {
    let story = Story::begin().await;
    let (free, held) = (story.running().await, story.running().await);
    let holder = story.db.session().await;
    holder.begin().await;
    holder.run(&format!("select from jobforge.jobs where id = '{}' for update", held.job.id)).await;
    let wait = Duration::from_millis(20);
    let [free, held] = [free, held].map(|job| (job.lease_id, [completion(&job)]));
    let refused = complete_unlocked(&story.worker, held.0, &held.1, wait).await.unwrap_err();
    let Error::Database { source, .. } = &refused else { panic!("{refused:?}") };
    assert_eq!(source.code().map(SqlState::code), Some("55P03"));
    assert_eq!(get_job(&story.app, TENANT_A, held.1[0].job.id).await.unwrap().status, "running");
    let failed = [failure(held.1[0].job, Class::Permanent)];
    let refused = fail_unlocked(&story.worker, held.0, &failed, wait).await.unwrap_err();
    let Error::Database { source, .. } = &refused else { panic!("{refused:?}") };
    assert_eq!(source.code().map(SqlState::code), Some("55P03"));
    // The others are done, and what comes after it on this connection waits as ever.
    assert_eq!(complete_unlocked(&story.worker, free.0, &free.1, wait).await.unwrap(), [Verdict::Done]);
    let timeout = story.worker.query_one("show lock_timeout", &[]).await.unwrap();
    assert_eq!(timeout.get::<_, &str>(0), "0");
    holder.commit().await;
    assert_eq!(complete_jobs(&story.worker, held.0, &held.1).await.unwrap(), [Verdict::Done]);
}

#[tokio::test]
async fn a_stale_fence_changes_nothing_on_any_report() {
    let story = Story::begin().await;
    let first = story.running().await;
    release_jobs(&story.worker, first.lease_id, &[first.job]).await.unwrap();
    let second = story.claim(1).await.jobs.remove(0);
    assert_eq!((second.job.id, second.job.fence), (first.job.id, 2));
    // The old fence on its own lease, and on the lease of the new attempt.
    for lease in [first.lease_id, second.lease_id] {
        assert_stale(&story, lease, first.job).await;
    }
    // The new fence on the old lease.
    assert_stale(&story, first.lease_id, second.job).await;
    let read = get_job(&story.app, TENANT_A, second.job.id).await.unwrap();
    assert_eq!((read.status.as_str(), read.attempt, read.failures), ("running", 2, 0));
    assert_eq!(complete_job(&story.worker, second.lease_id, second.job, None).await.unwrap(), Verdict::Done);
}

async fn assert_stale(story: &Story, lease: uuid::Uuid, job: JobRef) {
    let stale = (Code::LeaseLost, "fence_stale".to_owned());
    let worker = &story.worker;
    let done = Completion { job, result: None, locator: None };
    assert_eq!(complete_jobs(worker, lease, &[done]).await.unwrap(), [Verdict::Stale]);
    assert_eq!(
        fail_jobs(worker, lease, &[failure(job, Class::Permanent)]).await.unwrap()[0].verdict,
        Verdict::Stale
    );
    assert_eq!(release_jobs(worker, lease, &[job]).await.unwrap(), [Verdict::Stale]);
    assert_eq!(refused(complete_job(worker, lease, job, None).await), stale);
    assert_eq!(refused(fail_job(worker, lease, &failure(job, Class::Retryable)).await), stale);
    assert_eq!(refused(snooze_job(worker, lease, job, Duration::from_secs(1)).await), stale);
    assert_eq!(refused(report_progress(worker, lease, job, 1.0, "").await), stale);
    let line = LogLine { level: Level::Warn, message: "late".to_owned() };
    assert_eq!(refused(append_log(worker, lease, job, &[line]).await), stale);
    assert_eq!(heartbeat(worker, lease, Some(&[job]), None).await.unwrap().lost, [job]);
}

#[tokio::test]
async fn an_unknown_job_is_told_as_such() {
    let story = Story::begin().await;
    let lease = story.running().await.lease_id;
    let ghost = unknown_job();
    let done = Completion { job: ghost, result: None, locator: None };
    assert_eq!(complete_jobs(&story.worker, lease, &[done]).await.unwrap(), [Verdict::Unknown]);
    assert_eq!(release_jobs(&story.worker, lease, &[ghost]).await.unwrap(), [Verdict::Unknown]);
    let failed = fail_jobs(&story.worker, lease, &[failure(ghost, Class::Retryable)]).await.unwrap();
    assert_eq!(failed[0].verdict, Verdict::Unknown);
    let refusal = refused(complete_job(&story.worker, lease, ghost, None).await);
    assert_eq!(refusal, (Code::NotFound, "job_unknown".to_owned()));
}

#[tokio::test]
async fn a_lapsed_lease_reports_nothing() {
    let story = Story::begin().await;
    let job = story.running().await;
    story.db.advance_clock(31.0).await;
    assert_eq!(
        complete_jobs(&story.worker, job.lease_id, &[completion(&job)]).await.unwrap(),
        [Verdict::Stale]
    );
    assert_eq!(get_job(&story.app, TENANT_A, job.job.id).await.unwrap().status, "running");
}

#[tokio::test]
async fn a_result_that_cannot_be_stored_spoils_no_other() {
    let story = Story::begin().await;
    for _ in 0..4 {
        story.enqueue(&noop()).await;
    }
    let claimed = story.claim(4).await;
    let huge = serde_json::to_string(&"x".repeat(1_100_000)).unwrap();
    let results = [Some(json("1")), Some(json(r#""\u0000""#)), Some(json(&huge)), None];
    let done: Vec<Completion> = claimed
        .jobs
        .iter()
        .zip(results)
        .map(|(job, result)| Completion { result, ..completion(job) })
        .collect();
    let verdicts = complete_jobs(&story.worker, claimed.lease_id, &done).await.unwrap();
    assert_eq!(verdicts, [Verdict::Done, Verdict::Invalid, Verdict::Invalid, Verdict::Done]);
    let single =
        complete_job(&story.worker, claimed.lease_id, claimed.jobs[1].job, done[1].result.as_ref()).await;
    assert_eq!(refused(single), (Code::PayloadInvalid, "result_nul".to_owned()));
    let single =
        complete_job(&story.worker, claimed.lease_id, claimed.jobs[2].job, done[2].result.as_ref()).await;
    assert_eq!(refused(single), (Code::PayloadInvalid, "result_too_large".to_owned()));
}

#[tokio::test]
async fn a_batch_is_answered_in_its_own_order_wherever_its_rows_lie() {
    let story = Story::begin().await;
    for _ in 0..4 {
        story.enqueue(&noop()).await;
    }
    let claimed = story.claim(4).await;
    let mut done: Vec<Completion> = claimed.jobs.iter().rev().map(completion).collect();
    done[1].job.fence += 1;
    let verdicts = complete_jobs(&story.worker, claimed.lease_id, &done).await.unwrap();
    assert_eq!(verdicts, [Verdict::Done, Verdict::Stale, Verdict::Done, Verdict::Done]);
    let status = get_job(&story.app, TENANT_A, done[1].job.id).await.unwrap().status;
    assert_eq!(status, "running", "the third of the claim, the second of the batch");
}

#[tokio::test]
async fn a_batch_of_failures_is_answered_in_its_order_and_keeps_its_tails() {
    let story = Story::begin().await;
    for _ in 0..3 {
        story.enqueue(&noop()).await;
    }
    let claimed = story.claim(3).await;
    let failures: Vec<Failure> = claimed
        .jobs
        .iter()
        .rev()
        .zip([Class::Permanent, Class::Retryable, Class::Canceled])
        .map(|(job, class)| Failure {
            error: "no\0pe".to_owned(),
            retry_after: Some(Duration::MAX),
            end: if class == Class::Canceled { AttemptEnd::Canceled } else { AttemptEnd::Timeout },
            exit_code: Some(137),
            stdout_tail: Some("out".to_owned()),
            stderr_tail: Some("e\0rr".to_owned()),
            ..failure(job.job, class)
        })
        .collect();
    let failed = fail_jobs(&story.worker, claimed.lease_id, &failures).await.unwrap();
    let statuses: Vec<_> = failed.iter().map(|failed| failed.status.as_deref().unwrap()).collect();
    assert_eq!(statuses, ["failed", "queued", "canceled"]);
    let attempts = list_attempts(&story.app, TENANT_A, failures[0].job.id).await.unwrap();
    let attempt = &attempts[0];
    assert_eq!((attempt.status.as_str(), attempt.exit_code), ("timeout", Some(137)));
    assert_eq!(attempt.error.as_deref(), Some("no\u{fffd}pe"));
    assert_eq!(attempt.stderr_tail.as_deref(), Some("e\u{fffd}rr"));
    assert_eq!(attempt.error_class.as_deref(), Some("permanent"));
}

#[tokio::test]
async fn a_beat_renews_and_tells_of_canceled_jobs() {
    let story = Story::begin().await;
    story.enqueue(&noop()).await;
    story.enqueue(&noop()).await;
    let claimed = story.claim(2).await;
    let jobs: Vec<JobRef> = claimed.jobs.iter().map(|job| job.job).collect();
    cancel_job(&story.app, TENANT_A, jobs[1].id, None).await.unwrap();
    story.db.advance_clock(10.0).await;
    let through = claimed.jobs[0].claim_no;
    let beat = heartbeat(&story.worker, claimed.lease_id, Some(&jobs), Some(through)).await.unwrap();
    assert!(beat.expires_at > claimed.expires_at);
    assert_eq!((beat.canceled.as_slice(), beat.lost.len()), (&jobs[1..], 0));
    let beat = heartbeat(&story.worker, claimed.lease_id, None, None).await.unwrap();
    assert!(beat.canceled.is_empty());
    assert!(heartbeat(&story.worker, claimed.lease_id, Some(&[]), None).await.is_ok());
    let lost = refused(heartbeat(&story.worker, uuid::Uuid::nil(), None, None).await);
    assert_eq!(lost, (Code::LeaseLost, "lease_lost".to_owned()));
}

#[tokio::test]
async fn progress_and_log_follow_the_job() {
    let story = Story::begin().await;
    let job = story.running().await;
    report_progress(&story.worker, job.lease_id, job.job, 42.5, "half\0way").await.unwrap();
    let lines = [(Level::Debug, "one"), (Level::Error, "tw\0o")];
    let lines = lines.map(|(level, message)| LogLine { level, message: message.to_owned() });
    assert_eq!(append_log(&story.worker, job.lease_id, job.job, &lines).await.unwrap(), 2);
    let read = get_job(&story.app, TENANT_A, job.job.id).await.unwrap();
    assert_eq!(
        (read.progress_percent, read.progress_message.as_deref()),
        (Some(42.5), Some("half\u{fffd}way"))
    );
    complete_job(&story.worker, job.lease_id, job.job, None).await.unwrap();
    let attempts = list_attempts(&story.app, TENANT_A, job.job.id).await.unwrap();
    let log: serde_json::Value = serde_json::from_str(attempts[0].log.as_ref().unwrap().get()).unwrap();
    assert_eq!((log[0]["message"].as_str(), log[1]["level"].as_str()), (Some("one"), Some("error")));
}

#[tokio::test]
async fn a_programs_process_and_end_are_told_while_it_runs_and_after_a_good_end() {
    let story = Story::begin().await;
    let job = story.running().await;
    let started = ProgramExit { pid: Some(4711), ..ProgramExit::default() };
    report_exit(&story.worker, job.lease_id, job.job, &started).await.unwrap();
    let told = list_attempts(&story.app, TENANT_A, job.job.id).await.unwrap().remove(0);
    assert_eq!((told.status.as_str(), told.pid, told.exit_code), ("running", Some(4711), None));

    let ended = ProgramExit {
        pid: None,
        exit_code: Some(0),
        signal: None,
        stdout_tail: Some("done\0".to_owned()),
        stderr_tail: Some("x".repeat(70_000)),
    };
    report_exit(&story.worker, job.lease_id, job.job, &ended).await.unwrap();
    complete_job(&story.worker, job.lease_id, job.job, None).await.unwrap();
    let told = list_attempts(&story.app, TENANT_A, job.job.id).await.unwrap().remove(0);
    assert_eq!((told.status.as_str(), told.pid, told.exit_code), ("succeeded", Some(4711), Some(0)));
    assert_eq!((told.signal, told.stdout_tail.as_deref()), (None, Some("done\u{fffd}")));
    assert_eq!(told.stderr_tail.unwrap().len(), 65_536);
    let late = refused(report_exit(&story.worker, job.lease_id, job.job, &started).await);
    assert_eq!(late.0, Code::LeaseLost, "{late:?}");
}

#[tokio::test]
async fn a_signal_is_told_with_a_failed_attempt() {
    let story = Story::begin().await;
    let job = story.running().await;
    let killed = ProgramExit { pid: Some(7), signal: Some(9), ..ProgramExit::default() };
    report_exit(&story.worker, job.lease_id, job.job, &killed).await.unwrap();
    let failure = failure(job.job, Class::Permanent);
    fail_job(&story.worker, job.lease_id, &failure).await.unwrap();
    let told = list_attempts(&story.app, TENANT_A, job.job.id).await.unwrap().remove(0);
    assert_eq!((told.status.as_str(), told.exit_code, told.signal), ("failed", None, Some(9)));
}

#[tokio::test]
async fn a_snoozed_job_waits_without_a_failure() {
    let story = Story::begin().await;
    let job = story.running().await;
    let run_at =
        snooze_job(&story.worker, job.lease_id, job.job, Duration::from_millis(90_500)).await.unwrap();
    assert!(run_at > job.run_at);
    assert!(story.claim(1).await.jobs.is_empty());
    story.db.advance_clock(100.0).await;
    let again = story.claim(1).await.jobs.remove(0);
    assert_eq!((again.job.fence, again.failures, again.run_at), (2, 0, run_at));
    cancel_job(&story.app, TENANT_A, again.job.id, None).await.unwrap();
    let refusal = refused(snooze_job(&story.worker, again.lease_id, again.job, Duration::from_secs(1)).await);
    assert_eq!(refusal, (Code::WrongState, "cancel_requested".to_owned()));
}
