//! A proxy of the environment would look names up by itself, so it is not heeded.

use std::process::Command;

use jobforge_connectors::egress::Egress;

use super::{send, settings};
use crate::server::{Reply, Server};

const TARGET: &str = "TEST_TARGET_URL";

#[tokio::test]
async fn proxies_of_the_environment_are_not_heeded() {
    let proxy = Server::start("127.0.0.1:0", |_| Reply::status(200)).await;
    let target = Server::start("127.0.0.1:0", |_| Reply::status(200)).await;
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["egress::proxy::behind_a_proxy", "--exact", "--ignored", "--nocapture"]);
    for name in ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy", "HTTPS_PROXY", "https_proxy"] {
        child.env(name, proxy.url(""));
    }
    child
        .env_remove("NO_PROXY")
        .env_remove("no_proxy")
        .env_remove("REQUEST_METHOD")
        .env(TARGET, target.url("/"));
    let ran = tokio::task::spawn_blocking(move || child.output().unwrap()).await.unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    assert_eq!((proxy.accepted().await, target.received().len()), (0, 1));
}

#[tokio::test]
#[ignore = "is run by proxies_of_the_environment_are_not_heeded"]
async fn behind_a_proxy() {
    let egress = Egress::new(&settings(&["127.0.0.0/8"])).unwrap();
    assert_eq!(send(&egress, &std::env::var(TARGET).unwrap()).await.unwrap().status, 200);
}
