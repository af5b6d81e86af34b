//! A network in which every address of the world leads to one listener: what is accepted there is what a guard
//! let out. It needs a namespace of one's own; where the system gives none, the stories of loopback stand alone.

use std::process::Command;

use jobforge_connectors::egress::{Egress, EgressError};

use super::{Names, send, settings};
use crate::server::Server;

/// One or more of every range that is not public, and of every way to write IPv4 inside IPv6.
const DENIED: [&str; 56] = [
    "0.0.0.0",
    "0.1.2.3",
    "10.0.0.1",
    "10.255.255.255",
    "100.64.0.1",
    "100.100.100.200",
    "127.0.0.1",
    "127.5.5.5",
    "168.63.129.16",
    "169.254.0.1",
    "169.254.169.254",
    "169.254.170.2",
    "172.16.0.1",
    "172.31.255.254",
    "192.0.0.1",
    "192.0.0.192",
    "192.0.2.1",
    "192.88.99.1",
    "192.168.0.1",
    "192.168.255.254",
    "198.18.0.1",
    "198.19.255.254",
    "198.51.100.1",
    "203.0.113.1",
    "240.0.0.1",
    "255.255.255.254",
    "::",
    "::1",
    "::ffff:10.0.0.1",
    "::ffff:169.254.169.254",
    "::ffff:0:10.0.0.1",
    "::10.0.0.1",
    "64:ff9b::a00:1",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b:1::a00:1",
    "100::1",
    "100:0:0:1::1",
    "2001::1",
    "2001:0:a00:1::1",
    "2001:2::1",
    "2001:10::1",
    "2001:20::1",
    "2001:db8::1",
    "2002:a00:1::1",
    "2002:a9fe:a9fe::1",
    "3fff::1",
    "3fff:fff::1",
    "4000::1",
    "5f00::1",
    "fc00::1",
    "fd00:ec2::254",
    "fdff::1",
    "fec0::1",
    "2606:4700::5efe:a00:1",
    "2606:4700::200:5efe:a00:1",
    "9999::1",
];
const PUBLIC: [&str; 6] =
    ["1.1.1.1", "8.8.8.8", "172.32.0.1", "198.20.0.1", "2606:4700::1111", "2a00:1450:4001::1"];

#[test]
fn only_public_addresses_are_reached_in_a_network_where_all_answer() {
    let enter =
        "ip link set lo up && ip route add local 0.0.0.0/0 dev lo && ip -6 route add local ::/0 dev lo";
    let unshare = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--net", "sh", "-c", script, "sh"]);
        command
    };
    if !unshare(enter).output().is_ok_and(|made| made.status.success()) {
        eprintln!("no network namespace here: the stories of loopback stand alone");
        return;
    }
    let mut child = unshare(&format!("{enter} && exec \"$@\""));
    child.arg(std::env::current_exe().unwrap());
    child.args(["egress::network::where_all_answer", "--exact", "--ignored", "--nocapture"]);
    let ran = child.output().unwrap();
    let told = format!("{}{}", String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success() && told.contains("1 passed"), "{told}");
}

#[tokio::test]
#[ignore = "is run by only_public_addresses_are_reached_in_a_network_where_all_answer"]
async fn where_all_answer() {
    let world = Server::everywhere().await;
    let names = Names::of(&[]);
    let egress = Egress::with_lookup(&settings(&[]), names.clone()).unwrap();
    let host =
        |address: &str| if address.contains(':') { format!("[{address}]") } else { address.to_owned() };
    for address in DENIED {
        names.set("some.example", &[address]);
        let literal = send(&egress, &format!("http://{}:{}/", host(address), world.port())).await;
        assert!(matches!(literal, Err(EgressError::Denied { .. })), "{address}: {literal:?}");
        let named = send(&egress, &format!("http://some.example:{}/", world.port())).await;
        assert!(matches!(named, Err(EgressError::NoAddress { .. })), "{address}: {named:?}");
    }
    assert_eq!(world.accepted().await, 0);
    for (number, address) in PUBLIC.into_iter().enumerate() {
        names.set("some.example", &[address]);
        let literal = send(&egress, &format!("http://{}:{}/", host(address), world.port())).await;
        let named = send(&egress, &format!("http://some.example:{}/", world.port())).await;
        assert_eq!(
            (literal.unwrap().status, named.unwrap().status),
            (reqwest::StatusCode::OK, reqwest::StatusCode::OK)
        );
        assert_eq!(world.accepted().await, 2 * (number + 1), "{address}");
    }
}
