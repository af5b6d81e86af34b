//! Whether a broker is there, asked often and over one connection.

use std::time::Duration;

use futures_util::future::join_all;
use jobforge_testkit::{Broker as Server, FaultProxy, Mode};
use jobforge_worker::{Broker, Probe};
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;

use crate::support::{Lines, PATIENCE, eventually};

/// Connections so far, and those of them that are open.
fn connections(proxy: &FaultProxy) -> (usize, usize) {
    let all = proxy.connections();
    (all.len(), all.iter().filter(|connection| connection.open).count())
}

#[tokio::test(flavor = "multi_thread")]
async fn serial_a_probe_keeps_its_connection_and_makes_another_when_that_is_gone() {
    let server = Server::start().await;
    // A broker that has just started may be slow to its first caller.
    let first = Probe::new(Broker::new(&server.url()).unwrap()).believing_for(Duration::ZERO);
    eventually("the broker answers", async || first.answers().await.then_some(())).await;
    let lines = Lines::capture();
    let proxy = FaultProxy::start(server.port()).await;
    let broker = Broker::new(&proxy.through(&server.url())).unwrap();
    let probe = Probe::new(broker).believing_for(Duration::ZERO);
    assert_eq!(connections(&proxy), (0, 0), "not before it is asked");
    // Callers that do not wait for their answers.
    for _ in 0..20 {
        drop(tokio::time::timeout(Duration::ZERO, probe.answers()).await);
    }
    for _ in 0..20 {
        assert!(probe.answers().await);
    }
    assert!(join_all((0..20).map(|_| probe.answers())).await.into_iter().all(|answer| answer));
    assert_eq!(connections(&proxy), (1, 1), "one for all questions");

    // Gone between two questions: the broker is there all the same.
    proxy.cut();
    eventually("the connection is closed", async || (connections(&proxy).1 == 0).then_some(())).await;
    assert!(probe.answers().await);
    assert_eq!(connections(&proxy), (2, 1));
    assert_eq!(lines.text(), "", "nothing to tell");

    // No answer at all, and no end of the connection: it must not be waited for.
    proxy.set_mode(Mode::Silence);
    for _ in 0..2 {
        assert!(!probe.answers().await);
    }
    assert_eq!(lines.count("WARN", "the broker is away"), 1, "{}", lines.text());
    proxy.set_mode(Mode::Pass);
    assert!(probe.answers().await);
    assert_eq!(lines.count("INFO", "the broker is back"), 1, "{}", lines.text());
    assert!(!lines.text().contains("guest"), "{}", lines.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn those_who_ask_together_get_one_answer() {
    let nobody = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("amqp://guest:guest@{}", nobody.local_addr().unwrap());
    let probe = Probe::new(Broker::new(&url).unwrap()).believing_for(Duration::from_secs(3600));
    let hang_up = async {
        drop(nobody.accept().await.unwrap());
        nobody.accept().await.map(drop)
    };
    tokio::select! {
        answers = join_all((0..50).map(|_| probe.answers())) => assert!(!answers.contains(&true)),
        second = hang_up => panic!("a second connection: {second:?}"),
    }
    assert!(!format!("{probe:?}").contains("guest"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_never_speaks_is_hung_up_on() {
    let mute = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("amqp://guest:guest@{}", mute.local_addr().unwrap());
    let probe = Probe::new(Broker::new(&url).unwrap());
    let (answer, accepted) = tokio::join!(probe.answers(), mute.accept());
    assert!(!answer);
    let mut said = Vec::new();
    let hung_up = tokio::time::timeout(PATIENCE, accepted.unwrap().0.read_to_end(&mut said)).await;
    hung_up.expect("the connection is left open").unwrap();
    assert_eq!(said, b"AMQP\0\0\x09\x01");
}
