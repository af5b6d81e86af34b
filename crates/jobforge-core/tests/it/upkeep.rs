//! Leadership and its duties, workers that come, sleep and go.

use jobforge_core::rpc::{
    PrunePosition, get_job, lead, list_workers, look, promote_due, prune, reap, register_worker, resign,
    sample_stats, sleep_worker, stop_worker, upkeep_partitions, wake_worker,
};
use jobforge_core::{Code, listen};
use jobforge_testkit::{OPERATOR, TENANT_A, WORKER};

use crate::story::{Story, W1, lanes, noop, refused, registration};

#[tokio::test]
async fn one_leads_until_it_resigns() {
    let story = Story::begin().await;
    let first = lead(&story.operator, "one", 10).await.unwrap();
    assert!(first.leads);
    let second = lead(&story.operator, "two", 10).await.unwrap();
    assert_eq!((second.leads, second.term), (false, first.term));
    assert!(!resign(&story.operator, "two").await.unwrap());
    assert!(resign(&story.operator, "one").await.unwrap());
    let second = lead(&story.operator, "two", 10).await.unwrap();
    assert_eq!((second.leads, second.term), (true, first.term + 1));
    let refusal = refused(promote_due(&story.operator, first.term, 10).await);
    assert_eq!(refusal, (Code::LeaseLost, "term_over".to_owned()));
}

#[tokio::test]
async fn a_lost_lease_gives_its_jobs_back() {
    let story = Story::begin().await;
    let job = story.running().await;
    // Signs of life all along: what follows is a death, not an outage.
    for _ in 0..12 {
        story.db.advance_clock(3.0).await;
        lead(&story.operator, "one", 10).await.unwrap();
    }
    let term = lead(&story.operator, "one", 10).await.unwrap().term;
    let reaped = reap(&story.operator, term, 10).await.unwrap();
    assert_eq!((reaped.leases, reaped.free, reaped.deaths, reaped.next_expiry), (1, 0, 1, None));
    let read = get_job(&story.app, TENANT_A, job.job.id).await.unwrap();
    assert_eq!((read.status.as_str(), read.deaths, read.failures), ("queued", 1, 0));
}

#[tokio::test]
async fn duties_run_under_the_term() {
    let story = Story::begin().await;
    let later = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(5);
    story.enqueue(&noop().run_at(later)).await;
    story.db.advance_clock(6.0).await;
    let term = lead(&story.operator, "one", 600).await.unwrap().term;
    assert_eq!(promote_due(&story.operator, term, 10).await.unwrap(), 1);
    assert_eq!(sample_stats(&story.operator, term, 1000).await.unwrap(), 1);
    // The schema came with partitions for the next days; a day later one more day is due.
    story.db.advance_clock(86_400.0).await;
    let term = lead(&story.operator, "one", 600).await.unwrap().term;
    let made = upkeep_partitions(&story.operator, term, 1000).await.unwrap();
    assert!(made.made > 0 && made.refused == 0, "{made:?}");
    assert_eq!(upkeep_partitions(&story.operator, term, 1000).await.unwrap().made, 0);
    let pruned = prune(&story.operator, term, 100, &PrunePosition::default()).await.unwrap();
    assert_eq!((pruned.keys, pruned.dead_letters, pruned.orphans, pruned.more), (0, 0, 0, false));
    prune(&story.operator, term, 100, &pruned.after).await.unwrap();
}

#[tokio::test]
async fn a_prune_tells_how_many_jobs_it_took_back_from_leases_that_are_gone() {
    let story = Story::begin().await;
    story.running().await;
    story.db.connect_super().await.batch_execute("delete from jobforge.leases").await.unwrap();
    let term = lead(&story.operator, "one", 600).await.unwrap().term;
    let first = prune(&story.operator, term, 100, &PrunePosition::default()).await.unwrap();
    // The count goes along with the position, and is not told again.
    let second = prune(&story.operator, term, 100, &first.after).await.unwrap();
    assert_eq!((first.stranded, second.stranded), (1, 0));
}

#[tokio::test]
async fn a_worker_registers_again_under_its_number_and_stops() {
    let story = Story::begin().await;
    let first = register_worker(&story.worker, &registration("w2")).await.unwrap();
    assert_eq!(register_worker(&story.worker, &registration("w2")).await.unwrap(), first);
    assert!(stop_worker(&story.worker, "w2").await.unwrap());
    assert!(!stop_worker(&story.worker, "nobody").await.unwrap());
    let workers = list_workers(&story.operator, 10).await.unwrap();
    let worker = workers.iter().find(|worker| worker.worker_id == "w2").unwrap();
    assert!(worker.stopped_at.is_some() && !worker.stale);
    assert_eq!((worker.slots, worker.metadata.get()), (10, r#"{"zone": "a"}"#));
}

#[tokio::test]
async fn an_enqueue_wakes_a_sleeper_and_one_looks_for_all() {
    let story = Story::begin().await;
    let (queues, types) = lanes();
    let mut listener =
        listen::Listener::connect(&story.db.url_as(WORKER, None), &[listen::WAKE]).await.unwrap();
    sleep_worker(&story.worker, W1, &queues, &types, 60).await.unwrap();
    assert!(look(&story.worker, W1).await.unwrap().sentinel);
    register_worker(&story.worker, &registration("w2")).await.unwrap();
    assert!(!look(&story.worker, "w2").await.unwrap().sentinel);
    story.enqueue(&noop()).await;
    assert_eq!(listener.next().await.unwrap().channel, listen::WAKE);
    let found = look(&story.worker, W1).await.unwrap();
    assert_eq!((found.found_work, found.next_due), (Some(true), None));
    assert!(wake_worker(&story.worker, W1).await.unwrap());
    assert!(!wake_worker(&story.worker, W1).await.unwrap());
}

#[tokio::test]
async fn a_cancel_request_is_heard_with_its_lease() {
    let story = Story::begin().await;
    let url = story.db.url_as(OPERATOR, None);
    let mut listener = listen::Listener::connect(&url, &[listen::CANCEL]).await.unwrap();
    let job = story.running().await;
    jobforge_core::rpc::cancel_job(&story.app, TENANT_A, job.job.id, None).await.unwrap();
    let heard = listener.next().await.unwrap();
    assert_eq!((heard.channel.as_str(), heard.payload), (listen::CANCEL, job.lease_id.to_string()));
}
