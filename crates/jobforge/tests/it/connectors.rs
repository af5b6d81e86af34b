//! The connectors in the executable: their job types, and where `work` and `dev` let them go.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread;

use jobforge_testkit::{APP, OPERATOR, WORKER};
use nix::sys::signal::Signal;

use crate::dev_server::{DevServer, open_dir};
use crate::{Cli, Ran, demo_db};

/// A server on this machine that answers every request with 200.
fn server() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok");
        }
    });
    url
}

#[tokio::test]
async fn connectors_are_installed_and_reach_only_what_the_settings_allow() {
    let db = demo_db().await;
    let (app, operator, worker) = (Cli::new(&db, APP), Cli::new(&db, OPERATOR), Cli::new(&db, WORKER));
    let installed = operator.run(&["definitions", "install-connectors", "--json"]).json();
    assert_eq!(installed["installed"][0], "connector.http.request");
    assert_eq!(
        operator.run(&["definitions", "install-connectors", "--json"]).json(),
        installed,
        "twice is once"
    );
    let shown = operator.run(&["definitions", "show", "connector.webhook.deliver", "--json"]).json();
    assert_eq!((&shown["max_attempts"], &shown["timeout_seconds"]), (&20.into(), &60.into()));
    assert_eq!(shown["arg_schema"]["type"], "object", "{shown}");

    let payload = format!("{{\"url\": \"{}\"}}", server());
    let enqueue = || {
        let made = app.run(&["enqueue", "connector.http.request", "--payload", &payload, "--json"]).json();
        made["id"].as_str().unwrap().to_owned()
    };
    let job = |id: &str| app.run(&["jobs", "show", id, "--json"]).json()["job"].clone();
    let refused = enqueue();
    assert_eq!(worker.run(&["tick", "--json"]).json()["failed"], 1);
    assert_eq!(job(&refused)["error"], "127.0.0.1 is not an address that may be reached");
    let allowed = enqueue();
    let ran = worker
        .command()
        .args(["tick", "--json"])
        .env("JOBFORGE_EGRESS__ALLOW", "127.0.0.1")
        .output()
        .unwrap();
    assert_eq!(Ran::of(ran).json()["completed"], 1);
    assert_eq!(job(&allowed)["result"]["body"], "ok");
}

#[test]
fn a_development_server_lets_connectors_reach_this_machine_and_says_so() {
    let dir = open_dir();
    let dev = DevServer::start(dir.path(), &["--no-demo"]);
    assert!(
        dev.stderr().contains("connectors may reach this machine too (127.0.0.0/8, ::1)"),
        "{}",
        dev.stderr()
    );
    let payload = format!("{{\"url\": \"{}\"}}", server());
    let made = dev.run(&["enqueue", "connector.http.request", "--payload", &payload, "--json"]).json();
    let shown = dev.job_that_is("succeeded", made["id"].as_str().unwrap());
    assert_eq!(shown["job"]["result"]["status"], 200);
    assert!(dev.stop(Signal::SIGINT).success());
}
