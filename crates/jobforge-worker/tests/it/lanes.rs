//! Reports of quick jobs go the way their jobs came, on the claims' connections, and stop no claim there.

use std::time::Duration;

use jobforge_testkit::FaultPoints;
use jobforge_worker::{Context, HandlerResult, Outcome, WorkerConfig, WorkerHandle};
use serde_json::Value;

use crate::support::{Story, echo, eventually, faults};

/// Notes which server processes claim and which complete.
const NOTES: &str = "
    create table public.noted (pid integer, what text, primary key (pid, what));
    create function public.note() returns trigger language plpgsql security definer as $$
    begin
      insert into public.noted values (pg_backend_pid(), tg_argv[0]) on conflict do nothing;
      return null;
    end $$;
    create trigger noted after insert on jobforge.lease_claims for each row execute function public.note('claim');
    create trigger noted after insert on jobforge.job_history for each row execute function public.note('report')";

const BOTH: &str = "select count(*) from public.noted c join public.noted r using (pid) where c.what = 'claim' and r.what = 'report'";

/// A worker whose claims have lent their connection.
struct Lent {
    story: Story,
    points: FaultPoints,
    worker: WorkerHandle,
}

impl Lent {
    async fn begin() -> Lent {
        Lent::begin_with(echo).await
    }

    async fn begin_with<F, W>(handler: F) -> Lent
    where
        F: Fn(Context, Value) -> W + Send + Sync + 'static,
        W: Future<Output = HandlerResult> + Send + 'static,
    {
        let story = Story::begin().await;
        story.db.connect_super().await.batch_execute(NOTES).await.unwrap();
        let points = FaultPoints::new();
        // Longer than the story's patience: nothing is given up for being slow, and only full groups go beside others.
        let (call_timeout, report_delay) = (Duration::from_secs(300), Duration::from_secs(300));
        let config = WorkerConfig {
            report_group: 8,
            report_delay,
            call_timeout,
            faults: faults(&points),
            ..story.config()
        };
        let worker = story.work(config, handler).await;
        let lent = Lent { story, points, worker };
        eventually("reports go where claims do", async || {
            lent.story.enqueue_numbers(100).await;
            lent.all_over().await;
            (lent.story.count(BOTH).await > 0).then_some(())
        })
        .await;
        lent
    }

    /// Holds two groups of outcomes at least on their way: all but the first wait until they are full.
    async fn hold_groups(&self) {
        self.points.pause("report");
        self.story.enqueue_numbers(100).await;
        eventually("groups are under way", async || (self.points.hits("report") >= 2).then_some(())).await;
    }

    async fn all_over(&self) {
        eventually("all are over", async || {
            (self.story.count("select count(*) from jobforge.jobs").await == 0).then_some(())
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_report_that_waits_for_somebodys_lock_holds_up_no_claim() {
    let lent = Lent::begin().await;
    lent.hold_groups().await;
    let holder = lent.story.db.session().await;
    holder.begin().await;
    holder.run("select from jobforge.jobs where lease_id is not null for update").await;
    lent.points.resume("report");
    lent.story.enqueue_numbers(50).await;
    eventually("all are claimed", async || {
        (lent.story.count("select count(*) from jobforge.jobs where lease_id is null").await == 0)
            .then_some(())
    })
    .await;
    holder.commit().await;
    lent.all_over().await;
    lent.worker.shutdown().await;
    assert_eq!(lent.worker.stats().lost, 0);
}

/// Sessions that report and never claimed.
const OWN: &str = "select count(*) from public.noted r where r.what = 'report'
    and not exists (select from public.noted c where c.pid = r.pid and c.what = 'claim')";

#[tokio::test(flavor = "multi_thread")]
async fn small_groups_beside_lent_ones_share_one_connection() {
    let lent = Lent::begin().await;
    for _ in 0..5 {
        // Twelve full groups, and three jobs that are too few for a lent connection.
        lent.story.enqueue_numbers(99).await;
        lent.all_over().await;
    }
    assert_eq!(lent.story.count(OWN).await, 1);
    lent.worker.shutdown().await;
}

/// What cannot go on a lent connection opens no further one for each group.
#[tokio::test(flavor = "multi_thread")]
async fn groups_with_other_outcomes_keep_to_a_few_connections() {
    let lent = Lent::begin_with(|_, n: Value| async move {
        match n.as_i64().is_some_and(|n| n % 10 == 0) {
            true => Ok(Outcome::Cancel { reason: "as asked".to_owned() }),
            false => Ok(Outcome::done()),
        }
    })
    .await;
    for _ in 0..10 {
        lent.story.enqueue_numbers(100).await;
        lent.all_over().await;
    }
    let own = lent.story.count(OWN).await;
    assert!((1..=4).contains(&own), "{own}");
    lent.worker.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_to_go_on_a_connection_that_broke_goes_on_another() {
    let lent = Lent::begin().await;
    lent.hold_groups().await;
    let admin = lent.story.db.connect_super().await;
    let killed = "select count(*) from (select distinct pid from public.noted where what = 'claim') as n, pg_terminate_backend(n.pid)";
    let killed: i64 = admin.query_one(killed, &[]).await.unwrap().get(0);
    assert!(killed > 0);
    lent.points.resume("report");
    lent.all_over().await;
    lent.worker.shutdown().await;
    let unharmed = "select count(*) from jobforge.job_history where deaths = 0 and status = 'succeeded'";
    let all = lent.story.count("select count(*) from jobforge.job_history").await;
    assert_eq!((lent.story.count(unharmed).await, all % 100), (all, 0));
}
