//! The HTTP API of `jobforge dev` and the keys to it.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::dev_server::{DevServer, open_dir};
use crate::serve::request;

fn announced(server: &DevServer) -> Value {
    serde_json::from_str(&fs::read_to_string(server.dev_file()).unwrap()).unwrap()
}

fn id_of(key: &str) -> &str {
    key.split('_').nth(1).unwrap()
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn the_keys_work_survive_a_second_start_and_are_made_anew_when_they_are_revoked() {
    let dir = open_dir();
    let first = DevServer::start(dir.path(), &["--no-demo"]);
    let told = announced(&first);
    let (url, keys) = (told["url"].as_str().unwrap(), told["keys"].clone());
    let key = |name: &str| keys[name].as_str().unwrap();
    assert_eq!(mode(&dir.path().join(".jobforge/keys.json")), 0o600);
    for name in ["admin", "tenant", "worker"] {
        assert!(!first.stderr().contains(key(name)), "a key was printed");
    }
    let welcome = first.stderr();
    assert!(welcome.contains(&format!("{url}/docs")) && welcome.contains("curl "), "{welcome}");

    let body = r#"{"type": "demo.echo", "payload": {"hello": "world"}}"#;
    let (status, job) = request(url, key("tenant"), "POST /api/v1/jobs", Some(body));
    assert_eq!((status, &job["tenant_id"]), (201, &told["tenant_id"]), "{job}");
    first.job_that_is("succeeded", job["id"].as_str().unwrap());
    // A super-admin says for whom it acts, and a worker does not enqueue.
    assert_eq!(request(url, key("admin"), "GET /api/v1/jobs", None).1["reason"], "tenant_missing");
    assert_eq!(request(url, key("worker"), "POST /api/v1/jobs", Some(body)).1["reason"], "role_insufficient");
    // Its own worker may have taken all that was due: what counts is that somebody ran.
    let (status, ticked) = request(url, key("tenant"), "POST /api/v1/jobs/tick", None);
    assert!(status == 200 && ticked["claimed"].is_u64(), "{status} {ticked}");
    let revoked = first.run(&["keys", "revoke", id_of(key("worker")), "--json"]).json();
    assert_eq!(revoked["revoked"], json!(true));
    assert!(first.stop(Signal::SIGINT).success());

    let again = DevServer::start(dir.path(), &["--no-demo"]);
    let now = announced(&again)["keys"].clone();
    assert_eq!((&now["admin"], &now["tenant"]), (&keys["admin"], &keys["tenant"]), "what is valid stays");
    assert_ne!(now["worker"], keys["worker"], "what was revoked is made anew");
    let listed = again.run(&["keys", "list", "--json"]).json();
    assert_eq!(listed["keys"].as_array().unwrap().len(), 4);
    assert!(again.stop(Signal::SIGINT).success());
}

#[test]
fn the_address_is_the_one_asked_for_and_a_free_one_when_the_usual_one_is_taken() {
    let dir = open_dir();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    fs::write(dir.path().join("jobforge.toml"), format!("[server]\nlisten = \"{address}\"\n")).unwrap();
    let server = DevServer::start(dir.path(), &["--no-demo"]);
    let elsewhere = announced(&server)["url"].as_str().unwrap().to_owned();
    assert_ne!(elsewhere, format!("http://{address}"));
    assert_eq!(request(&elsewhere, "", "GET /api/v1/health/ready", None).0, 200);
    assert!(server.stop(Signal::SIGINT).success());

    drop(taken);
    let server = DevServer::start(dir.path(), &["--no-demo", "--listen", &address]);
    assert_eq!(announced(&server)["url"], format!("http://{address}"));
    assert!(server.stop(Signal::SIGINT).success());
}
