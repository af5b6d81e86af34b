//! A worker with a RabbitMQ beside it: hints shorten the way to a job, and nothing depends on them.

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures_util::FutureExt;
use jobforge_testkit::{Broker as Server, FaultProxy, Mode};
use jobforge_worker::{Broker, Faults, Outcome, Publisher, WorkerConfig};
use lapin::options::BasicPublishOptions;
use lapin::{BasicProperties, Connection, ConnectionProperties};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::support::{Lines, Story, echo, eventually};

/// An hour in which no look finds anything: whoever starts a job then was told of it.
const NEVER: Duration = Duration::from_secs(3600);

/// Messages that a worker must not stumble over.
const MALFORMED: [&str; 6] = ["", "garbage", "[]", "{}", r#"{"job_id": 5}"#, r#"{"job_id": "five"}"#];

/// When claims were about to be sent.
#[derive(Clone, Default)]
struct Claims(Arc<Mutex<Vec<SystemTime>>>);

impl Claims {
    fn count(&self) -> usize {
        self.0.lock().unwrap().len()
    }

    /// When the last one was, in seconds since 1970.
    fn last_at(&self) -> f64 {
        let last = self.0.lock().unwrap().last().copied().unwrap_or(UNIX_EPOCH);
        last.duration_since(UNIX_EPOCH).unwrap().as_secs_f64()
    }

    fn faults(&self) -> Faults {
        let claims = self.0.clone();
        Faults::at_points(Arc::new(move |point| {
            if point == "claim" {
                claims.lock().unwrap().push(SystemTime::now());
            }
            async {}.boxed()
        }))
    }
}

/// Sends messages that no publisher of ours would.
async fn publish_raw(server: &Server, bodies: &[&str]) {
    let connection = Connection::connect(&server.url(), ConnectionProperties::default()).await.unwrap();
    let channel = connection.create_channel().await.unwrap();
    for body in bodies {
        let (exchange, key) = (Broker::EXCHANGE.into(), Broker::ROUTING_KEY.into());
        let (options, properties) = (BasicPublishOptions::default(), BasicProperties::default());
        channel.basic_publish(exchange, key, options, body.as_bytes(), properties).await.unwrap();
    }
    connection.close(200, "done".into()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn serial_a_hint_alone_makes_a_deaf_worker_look() {
    let story = Story::begin().await;
    let server = Server::start().await;
    let broker = Broker::new(&server.url()).unwrap();
    let proxy = FaultProxy::start(story.db.cluster_port()).await;
    proxy.set_mode(Mode::Refuse);
    let claims = Claims::default();
    let config = WorkerConfig {
        direct_url: Some(proxy.through(&story.tcp_url())),
        broker: Some(broker.clone()),
        look: NEVER,
        faults: claims.faults(),
        ..story.config()
    };
    let worker = story.work(config, echo).await;
    // One claim at the start, one when the broker was found: hints before that went by unheard.
    eventually("the worker has nothing to do", async || {
        // The last of them is over: the session was idle before it, too.
        let sql = format!(
            "select count(*) from pg_stat_activity where datname = current_database() and state = 'idle'
             and query not like '%pg_stat_activity%' and query like '%jobforge.claim_jobs%' and query_start >= to_timestamp({})",
            claims.last_at()
        );
        (claims.count() == 2 && story.count(&sql).await == 1).then_some(())
    })
    .await;
    assert!(worker.broker_connected() && !worker.hears());
    let id = story.enqueue(json!(1)).await;

    publish_raw(&server, &MALFORMED).await;
    eventually("all messages are taken", async || {
        (worker.stats().broker_malformed == MALFORMED.len() as u64).then_some(())
    })
    .await;
    assert_eq!((claims.count(), worker.stats().broker_hints), (2, 0));
    assert_eq!(story.job(id).await.status, "queued");

    let publisher = Publisher::start(broker);
    publisher.hint(id);
    story.until(id, "succeeded").await;
    assert_eq!(worker.stats().broker_hints, 1);
    publisher.close().await;
    worker.shutdown().await;
    assert!(!worker.broker_connected());
}

#[tokio::test(flavor = "multi_thread")]
async fn serial_a_broker_that_comes_and_goes_costs_a_warning_and_no_job() {
    let lines = Lines::capture();
    let story = Story::begin().await;
    let mut server = Server::absent();
    let nobody = TcpListener::bind(("127.0.0.1", server.port())).await.unwrap();
    let config = WorkerConfig { broker: Some(Broker::new(&server.url()).unwrap()), ..story.config() };
    let gate = Arc::new(tokio::sync::Semaphore::new(0));
    let pass = gate.clone();
    let worker = story
        .work(config, move |_, _: Value| {
            let pass = pass.clone();
            async move {
                pass.acquire().await?.forget();
                Ok(Outcome::done())
            }
        })
        .await;

    // Absent at the start: jobs run, and of many tries one is told.
    gate.add_permits(1);
    let id = story.enqueue(json!(0)).await;
    story.until(id, "succeeded").await;
    for _ in 0..4 {
        drop(nobody.accept().await.unwrap());
    }
    assert_eq!(lines.count("WARN", "the broker is away"), 1, "{}", lines.text());
    drop(nobody);

    server.resume().await;
    eventually("the broker is found", async || worker.broker_connected().then_some(())).await;
    assert_eq!(lines.count("INFO", "the broker is back"), 1, "{}", lines.text());
    assert_eq!(worker.stats().broker_reconnects, 0);

    // Gone in the middle of a thousand jobs.
    story.enqueue_numbers(1000).await;
    gate.add_permits(300);
    eventually("some jobs are done", async || (worker.stats().completed >= 301).then_some(())).await;
    server.kill();
    eventually("the broker is missed", async || (!worker.broker_connected()).then_some(())).await;
    gate.add_permits(700);
    eventually("all jobs are done", async || (worker.stats().completed == 1001).then_some(())).await;
    assert_eq!(lines.count("WARN", "the broker is away"), 2, "{}", lines.text());

    server.resume().await;
    eventually("the broker is found again", async || worker.broker_connected().then_some(())).await;
    assert_eq!(worker.stats().broker_reconnects, 1);
    publish_raw(&server, &[&json!({ "job_id": id }).to_string()]).await;
    eventually("hints come again", async || (worker.stats().broker_hints == 1).then_some(())).await;
    worker.shutdown().await;
    assert!(!lines.text().contains("guest"), "a password was logged: {}", lines.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_publisher_without_a_broker_warns_once_and_holds_up_nobody() {
    let lines = Lines::capture();
    let nobody = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("amqp://guest:guest@{}", nobody.local_addr().unwrap());
    let publisher = Publisher::start(Broker::new(&url).unwrap());
    for _ in 0..3 {
        // More than may wait: this returns all the same.
        while nobody.accept().now_or_never().is_none() {
            (0..2000).for_each(|_| publisher.hint(uuid::Uuid::new_v4()));
            tokio::task::yield_now().await;
        }
    }
    publisher.close().await;
    assert_eq!(lines.count("WARN", "the broker is away"), 1, "{}", lines.text());
    assert!(!lines.text().contains("guest"), "{}", lines.text());
}
