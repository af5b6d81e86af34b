//! Looking from above: why a job waits, a tenant's and the queues' sums, curves, the state of the system.

use jobforge_core::rpc::{
    complete_job, explain_job, job_summary, lead, queue_summary, read_series, read_system_series,
    sample_stats, system_state,
};
use jobforge_core::{Code, Flow, SeriesRequest};
use jobforge_testkit::{QUEUE, TENANT_A};

use crate::story::{Story, noop, refused, unknown_job};

#[tokio::test]
async fn a_waiting_a_running_and_an_unknown_job_are_explained() {
    let story = Story::begin().await;
    let later = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(3600);
    let scheduled = story.enqueue(&noop().run_at(later)).await.id;
    let told = explain_job(&story.app, TENANT_A, scheduled).await.unwrap();
    assert_eq!((told[0].reason.as_str(), told.len()), ("scheduled", 1));
    assert_eq!(told[0].until.unwrap().as_second(), later.as_second());
    assert!(told[0].detail.get().contains("run_at") && told[0].says.contains("is due in"), "{told:?}");

    let waiting = story.enqueue(&noop()).await.id;
    let told = explain_job(&story.app, TENANT_A, waiting).await.unwrap();
    assert_eq!((told[0].reason.as_str(), told[0].until), ("waiting_turn", None));
    story.claim(1).await;
    assert_eq!(explain_job(&story.app, TENANT_A, waiting).await.unwrap()[0].reason, "running");
    let unknown = refused(explain_job(&story.app, TENANT_A, unknown_job().id).await);
    assert_eq!(unknown, (Code::NotFound, "job_unknown".to_owned()));
}

#[tokio::test]
async fn sums_and_curves_follow_what_happens() {
    let story = Story::begin().await;
    story.db.advance_clock(0.0).await;
    let before = job_summary(&story.app, TENANT_A, 100).await.unwrap();
    assert_eq!((before.hour, before.completed_rate, before.sampled_at), (None, None, None));
    let term = lead(&story.operator, "one", 600).await.unwrap().term;
    sample_stats(&story.operator, term, 1000).await.unwrap();
    let done = story.running().await;
    complete_job(&story.worker, done.lease_id, done.job, None).await.unwrap();
    story.running().await;
    story.enqueue(&noop()).await;
    story.db.advance_clock(10.0).await;
    sample_stats(&story.operator, term, 1000).await.unwrap();

    let sums = job_summary(&story.app, TENANT_A, 100).await.unwrap();
    assert_eq!((sums.ready, sums.running, sums.capped), (1, 1, false));
    assert_eq!(sums.hour, Some(Flow { enqueued: 3, completed: 1, failed: 0, canceled: 0 }));
    assert_eq!(sums.day, sums.hour);
    assert!(sums.oldest_ready.is_some() && sums.sampled_at.is_some());
    assert_eq!(sums.drain_seconds, None, "three came and one went");

    let queues = queue_summary(&story.operator, 1000).await.unwrap();
    let queue = queues.iter().find(|queue| queue.queue == QUEUE).unwrap();
    assert_eq!((queue.ready, queue.running, queue.workers, queue.estimated), (1, 1, 1, false));
    assert!((queue.completed_rate.unwrap() - 0.1).abs() < 0.02, "{queue:?}");
    assert_eq!(queue.paused_by, None);

    let request =
        SeriesRequest { metric: Some("enqueued".to_owned()), points: 1, ..SeriesRequest::default() };
    let points = read_series(&story.app, TENANT_A, &request).await.unwrap();
    assert_eq!(
        points.iter().map(|point| (point.metric.as_str(), point.value)).collect::<Vec<_>>(),
        [("enqueued", 3.0)]
    );
    let points = read_system_series(&story.operator, Some(QUEUE), &request).await.unwrap();
    assert_eq!((points[0].queue.as_deref(), points[0].value), (Some(QUEUE), 3.0));
    let wrong = SeriesRequest { metric: Some("velocity".to_owned()), ..SeriesRequest::default() };
    let refusal = refused(read_series(&story.app, TENANT_A, &wrong).await);
    assert_eq!(refusal, (Code::InvalidArgument, "metric_unknown".to_owned()));
}

#[tokio::test]
async fn an_operator_sees_who_leads_and_which_leases_live() {
    let story = Story::begin().await;
    let nobody = system_state(&story.operator, 10).await.unwrap();
    assert!(!nobody.leads && nobody.live_leases == 0 && nobody.leases.get() == "[]", "{nobody:?}");
    let term = lead(&story.operator, "one", 10).await.unwrap().term;
    let run = story.running().await;
    let state = system_state(&story.operator, 10).await.unwrap();
    assert_eq!((state.leads, state.leader_holder.as_str(), state.leader_term), (true, "one", term));
    assert_eq!((state.live_leases, state.expired_leases, state.live_workers), (1, 0, 1));
    assert!(state.leases.get().contains(&run.lease_id.to_string()));
}
