//! Who sleeps is woken, and an enqueue pays for a NOTIFY only when somebody sleeps for it.

use std::future::poll_fn;

use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio_postgres::{AsyncMessage, Client, NoTls};

use super::stage::Stage;
use crate::schema::calls::{act_for, claim, enqueue_with, fail, release};
use crate::schema::{NOOP, OTHER, TENANT_A, WORKER};

/// A worker's listening connection.
pub(super) struct Ear {
    client: Client,
    heard: UnboundedReceiver<String>,
}

impl Ear {
    pub(super) async fn open(stage: &Stage) -> Ear {
        let url = stage.db.url_as(WORKER, None);
        let (client, mut connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
        let (tell, heard) = unbounded_channel();
        tokio::spawn(async move {
            while let Some(Ok(message)) = poll_fn(|cx| connection.poll_message(cx)).await {
                if let AsyncMessage::Notification(note) = message {
                    let _ = tell.send(format!("{} {}", note.channel(), note.payload()));
                }
            }
        });
        client.batch_execute("listen jobforge_wake; listen jobforge_tick; listen probe").await.unwrap();
        Ear { client, heard }
    }

    /// What came since the last time. Notifications come in the order of their commits, so a probe of one's own
    /// tells that there is nothing more.
    pub(super) async fn heard(&mut self) -> Vec<String> {
        self.client.batch_execute("notify probe").await.unwrap();
        let mut all = Vec::new();
        while let Some(note) = self.heard.recv().await {
            if note == "probe " {
                break;
            }
            all.push(note.trim().to_owned());
        }
        all
    }
}

async fn sleep(stage: &Stage, worker: &str, queue: &str, kind: &str) {
    let sql = "select jobforge.sleep_worker($1, array[$2], array[$3])";
    stage.worker.query(sql, &[&worker, &queue, &kind]).await.unwrap();
}

const NOTHING: [&str; 0] = [];
const WAKE: [&str; 1] = ["jobforge_wake"];

#[tokio::test]
async fn an_enqueue_notifies_only_when_a_sleepers_mark_covers_it() {
    let stage = Stage::set().await;
    let mut ear = Ear::open(&stage).await;
    stage.job().await;
    assert_eq!(ear.heard().await, NOTHING, "nobody sleeps");
    sleep(&stage, "w1", "default", "test.other").await;
    stage.job().await;
    assert_eq!(ear.heard().await, NOTHING, "the sleeper does other work");
    sleep(&stage, "w1", "default", NOOP).await;
    enqueue_with(stage.app.client(), TENANT_A, NOOP, "p_queue => 'elsewhere'").await.unwrap();
    assert_eq!(ear.heard().await, NOTHING, "the sleeper sleeps for another queue");
    stage.job().await;
    assert_eq!(ear.heard().await, WAKE);
    enqueue_with(stage.app.client(), TENANT_A, NOOP, "p_idempotency_key => 'k'").await.unwrap();
    assert_eq!(ear.heard().await, WAKE, "keyed enqueues too");
    stage.worker.query("select jobforge.wake_worker('w1')", &[]).await.unwrap();
    stage.job().await;
    assert_eq!(ear.heard().await, NOTHING, "a busy worker needs no call");
}

#[tokio::test]
async fn a_mark_that_ran_out_costs_nobody_a_notification() {
    let stage = Stage::set().await;
    let mut ear = Ear::open(&stage).await;
    sleep(&stage, "w1", "default", NOOP).await;
    stage.pass(61.0).await;
    stage.job().await;
    assert_eq!(ear.heard().await, NOTHING);
}

#[tokio::test]
async fn a_batch_in_which_only_some_rows_name_a_queue_wakes_the_sleeper_of_the_default_one() {
    let stage = Stage::set().await;
    let mut ear = Ear::open(&stage).await;
    sleep(&stage, "w1", "default", NOOP).await;
    let sql =
        "select * from jobforge.enqueue_jobs($1, array['test.noop', 'test.noop'], array['{}', '{}']::jsonb[],
        p_queues => array['elsewhere', null])";
    stage.app.query(sql, &[&TENANT_A]).await.unwrap();
    assert_eq!(ear.heard().await, WAKE);
}

#[tokio::test]
async fn between_mark_and_look_nothing_is_missed() {
    let stage = Stage::set().await;
    let mut ear = Ear::open(&stage).await;
    // An application that enqueued before the mark and commits after it: not notified, but seen by the look.
    stage.app.begin().await;
    stage.job().await;
    sleep(&stage, "w1", "default", NOOP).await;
    assert_eq!(claim(stage.worker.client(), "w1", 1).await.unwrap(), []);
    stage.app.commit().await;
    assert_eq!(ear.heard().await, NOTHING);
    stage.worker.query("select * from jobforge.look('w1')", &[]).await.unwrap();
    assert_eq!(ear.heard().await, ["jobforge_wake", "jobforge_tick w1"]);
}

#[tokio::test]
async fn an_enqueue_that_saw_no_sleeper_at_its_start_sees_one_that_marked_meanwhile() {
    let stage = Stage::set().await;
    let mut ear = Ear::open(&stage).await;
    // The enqueue waits for a key; the worker goes to sleep meanwhile.
    stage.other.begin().await;
    let keyed = "select id from jobforge.enqueue_job($1, 'test.noop', p_idempotency_key => 'k')";
    stage.other.query(keyed, &[&TENANT_A]).await.unwrap();
    let waiting = stage.an_app().await.spawn_blocked(keyed, vec![Box::new(TENANT_A)]).await;
    sleep(&stage, "w1", "default", NOOP).await;
    stage.other.rollback().await;
    waiting.finish().await.1.unwrap();
    assert_eq!(ear.heard().await, WAKE);
}

#[tokio::test]
async fn one_sleeper_looks_for_all_and_is_replaced_after_two_seconds_not_before() {
    let stage = Stage::set().await;
    let look = async |worker: &str| -> bool {
        let rows = stage.worker.query("select sentinel from jobforge.look($1)", &[&worker]).await.unwrap();
        rows[0].get(0)
    };
    assert!(look("w1").await);
    assert!(!look("w2").await);
    stage.pass(1.9).await;
    assert!(!look("w2").await, "1.9 s are not over");
    stage.pass(0.1).await;
    assert!(look("w2").await, "2 s are");
    assert!(!look("w1").await);
    stage.pass(1.0).await;
    assert!(look("w2").await, "who looks stays");
}

#[tokio::test]
async fn a_look_makes_due_work_ready_wakes_and_tells_what_falls_due_next() {
    let stage = Stage::set().await;
    let mut ear = Ear::open(&stage).await;
    sleep(&stage, "w2", "default", NOOP).await;
    for seconds in ["5", "60"] {
        let when = format!("p_run_at => jobforge.clock() + interval '{seconds} s'");
        enqueue_with(stage.app.client(), TENANT_A, NOOP, &when).await.unwrap();
    }
    ear.heard().await;
    let look =
        "select found_work, extract(epoch from next_due - jobforge.clock())::float8 from jobforge.look('w1')";
    let row = &stage.worker.query(look, &[]).await.unwrap()[0];
    assert_eq!((row.get::<_, bool>(0), row.get::<_, f64>(1)), (false, 5.0));
    assert_eq!(ear.heard().await, ["jobforge_tick w1"]);
    stage.pass(5.0).await;
    let row = &stage.worker.query(look, &[]).await.unwrap()[0];
    assert_eq!((row.get::<_, bool>(0), row.get::<_, f64>(1)), (true, 55.0));
    assert_eq!(ear.heard().await, ["jobforge_wake", "jobforge_tick w1"]);
}

#[tokio::test]
async fn what_comes_back_or_falls_due_or_is_retried_wakes_too() {
    let stage = Stage::set().await;
    let mut ear = Ear::open(&stage).await;
    sleep(&stage, "w2", "default", NOOP).await;
    stage.jobs(2).await;
    ear.heard().await;
    let held = claim(stage.worker.client(), "w1", 2).await.unwrap();
    release(stage.worker.client(), &held[0]).await.unwrap();
    assert_eq!(ear.heard().await, WAKE, "release");
    fail(stage.worker.client(), &held[1], "permanent").await.unwrap();
    assert_eq!(ear.heard().await, NOTHING);
    act_for(stage.app.client(), TENANT_A).await.unwrap();
    stage.app.query("select * from jobforge.retry_job($1, $2)", &[&TENANT_A, &held[1].id]).await.unwrap();
    assert_eq!(ear.heard().await, WAKE, "retry");
    enqueue_with(stage.app.client(), TENANT_A, NOOP, "p_run_at => jobforge.clock() + interval '5 s'")
        .await
        .unwrap();
    ear.heard().await;
    stage.pass(5.0).await;
    stage.operator.query("select jobforge.promote_due($1)", &[&stage.term]).await.unwrap();
    assert_eq!(ear.heard().await, WAKE, "promote_due");
}

#[tokio::test]
async fn a_redrive_wakes_who_sleeps_for_it_and_nobody_else() {
    let stage = Stage::set().await;
    let mut ear = Ear::open(&stage).await;
    let redrive = "select * from jobforge.redrive_jobs($1, array[$2::uuid])";
    for (lane, wanted) in [(OTHER, NOTHING.as_slice()), (NOOP, &WAKE)] {
        let job = stage.running().await;
        fail(stage.worker.client(), &job, "permanent").await.unwrap();
        sleep(&stage, "w2", "default", lane).await;
        ear.heard().await;
        stage.app.query(redrive, &[&TENANT_A, &job.id]).await.unwrap();
        assert_eq!(ear.heard().await, wanted, "a sleeper for {lane}");
        stage.claim(1).await;
    }
}
