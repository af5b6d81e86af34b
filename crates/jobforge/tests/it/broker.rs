//! Hints from the command line, through a real RabbitMQ.

use jobforge_testkit::{APP, Broker as Server, NOOP, TestDb, WORKER};
use jobforge_worker::{Broker, Context, Outcome, Worker, WorkerConfig};
use serde_json::Value;

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
