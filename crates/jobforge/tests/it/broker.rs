//! Hints from the command line and a server that requires the broker, with a real RabbitMQ.

use std::process::Stdio;

use jobforge_testkit::{APP, Broker as Server, NOOP, TestDb, WORKER};
use jobforge_worker::{Broker, Context, Outcome, Worker, WorkerConfig};
use serde_json::Value;

use crate::serve::{Serve, request};
use crate::{Cli, Ran, until};

/// Enqueues with these settings of a broker.
fn enqueue(cli: &Cli, args: &[&str], settings: &[(&str, &str)]) -> Ran {
    let mut command = cli.command();
    command.args(["enqueue", NOOP, "--json"]).args(args).envs(settings.iter().copied());
    Ran::of(command.output().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn serial_an_enqueue_hints_when_it_is_asked_to() {
    let db = TestDb::new().await;
    let server = Server::start().await;
    let (app, url) = (Cli::new(&db, APP), server.url());
    let key = ("JOBFORGE_BROKER__ROUTING_KEY", "jobs.here");
    let broker = Broker::new(&url).unwrap().routing_key(key.1).unwrap();
    // It hears hints whatever it can run.
    let config = WorkerConfig {
        database_url: db.url_as(WORKER, None),
        queues: vec!["elsewhere".to_owned()],
        broker: Some(broker),
        ..WorkerConfig::default()
    };
    let worker =
        Worker::builder(config).handle(NOOP, |_: Context, _: Value| async { Ok(Outcome::done()) }).build();
    let worker = worker.unwrap().start().await.unwrap();
    until("the worker has found the broker", || worker.broker_connected().then_some(()));

    let at = ("JOBFORGE_BROKER__URL", url.as_str());
    enqueue(&app, &[], &[at, key]).json();
    enqueue(&app, &["--hint"], &[at, key]).json();
    until("the hint came", || (worker.stats().broker_hints == 1).then_some(()));
    enqueue(&app, &["--count", "20"], &[at, key, ("JOBFORGE_BROKER__PUBLISH", "true")]).json();
    until("one hint for all of them", || (worker.stats().broker_hints == 2).then_some(()));
    // Elsewhere, and so unheard.
    enqueue(&app, &["--hint"], &[at]).json();
    enqueue(&app, &["--hint"], &[at, key]).json();
    until("the next hint came", || (worker.stats().broker_hints == 3).then_some(()));
    worker.shutdown().await;
}

#[tokio::test]
async fn a_hint_that_cannot_be_sent_is_a_warning_and_one_without_a_broker_a_mistake() {
    let db = TestDb::new().await;
    let app = Cli::new(&db, APP);
    let mistaken = enqueue(&app, &["--hint"], &[]);
    assert_eq!((mistaken.code, mistaken.stdout.as_str()), (2, ""), "{mistaken:?}");
    assert!(mistaken.stderr.contains("JOBFORGE_BROKER__URL"), "{mistaken:?}");

    let url = Server::absent().url().replace("guest:guest", "somebody:hidden");
    let away = enqueue(&app, &["--hint"], &[("JOBFORGE_BROKER__URL", &url)]);
    assert!(away.json()["id"].is_string());
    assert_eq!(away.stderr.matches("the broker is away").count(), 1, "{away:?}");
    assert_eq!(away.stderr.lines().count(), 1, "nothing but the warning: {away:?}");
    assert!(!away.stderr.contains("hidden"), "{away:?}");

    let shown =
        Ran::of(app.command().args(["config", "show"]).env("JOBFORGE_BROKER__URL", &url).output().unwrap());
    assert!(shown.stdout.contains("somebody:***@") && !shown.stdout.contains("hidden"), "{shown:?}");
    let unfit = enqueue(&app, &[], &[("JOBFORGE_BROKER__URL", "http://somebody:hidden@host")]);
    assert_eq!(unfit.code, 2, "{unfit:?}");
    assert!(unfit.stderr.contains("amqp://") && !unfit.stderr.contains("hidden"), "{unfit:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn serial_a_server_that_requires_the_broker_is_ready_while_it_is_there() {
    let db = TestDb::new().await;
    let mut broker = Server::start().await;
    let (url, required) = (broker.url(), ("JOBFORGE_SERVER__READY_REQUIRES_BROKER", "true"));
    let at = ("JOBFORGE_BROKER__URL", url.as_str());
    let server = Serve::start_with(&db, Stdio::null(), &[at, required]);
    let ready = || request(&server.url, "", "GET /api/v1/health/ready", None);
    // A broker takes connections a little before it takes logins.
    until("it is ready", || (ready().0 == 200).then_some(()));

    broker.kill();
    let refusal = until("it is not ready", || Some(ready()).filter(|(status, _)| *status != 200));
    let (status, told) = (refusal.0, (refusal.1["code"].as_str(), refusal.1["reason"].as_str()));
    assert_eq!((status, told), (503, (Some("JF106"), Some("broker_unavailable"))), "{refusal:?}");
    assert_eq!(request(&server.url, "", "GET /api/v1/health/live", None).0, 200);
    // Whoever does not require it does not miss it.
    let other = Serve::start_with(&db, Stdio::null(), &[at]);
    assert_eq!(request(&other.url, "", "GET /api/v1/health/ready", None).0, 200);

    broker.resume().await;
    until("it is ready again", || (ready().0 == 200).then_some(()));
}

#[tokio::test]
async fn a_broker_that_is_required_must_be_named() {
    let db = TestDb::new().await;
    let mut command = Cli::new(&db, APP).command();
    command.current_dir("/").args(["serve", "--listen", "127.0.0.1:0"]);
    let refused = Ran::of(command.env("JOBFORGE_SERVER__READY_REQUIRES_BROKER", "true").output().unwrap());
    assert_eq!((refused.code, refused.stdout.as_str()), (2, ""), "{refused:?}");
    assert!(refused.stderr.contains("server.ready_requires_broker needs a broker"), "{refused:?}");
    assert!(refused.stderr.contains("JOBFORGE_BROKER__URL"), "{refused:?}");
}
