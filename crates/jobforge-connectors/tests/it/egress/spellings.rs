//! However loopback is spelled, and whatever leads there, no connection is made.

use jobforge_connectors::egress::{Egress, EgressError};
use url::Url;
use uuid::Uuid;

use super::{Names, get, send, settings};
use crate::server::{Reply, Server};

/// Hosts that reach this machine, or would on some system, or carry its address inside.
pub(super) const SPELLINGS: [&str; 46] = [
    "127.0.0.1",
    "127.0.0.1.",
    "127.1",
    "127.0.1",
    "127.00.00.01",
    "2130706433",
    "0x7f000001",
    "0x7F000001",
    "0x7f.1",
    "0x7f.0.0.1",
    "0x7f.0x0.0x0.0x1",
    "017700000001",
    "0177.0.0.1",
    "0177.1",
    "127.0.0.3",
    "127.255.255.254",
    "0.0.0.0",
    "0",
    "0x0",
    "00.0",
    "１２７.０.０.１",
    "127。0。0。1",
    "①②⑦.⓪.⓪.①",
    "127%2e0%2e0%2e1",
    "%31%32%37.0.0.1",
    "localhost",
    "localhost.",
    "LOCALHOST",
    "ⓛⓞⓒⓐⓛⓗⓞⓢⓣ",
    "a.localhost",
    "[::1]",
    "[0:0:0:0:0:0:0:1]",
    "[::]",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "[0:0:0:0:0:ffff:7f00:1]",
    "[::ffff:0.0.0.0]",
    "[::127.0.0.1]",
    "[::ffff:0:127.0.0.1]",
    "[64:ff9b::7f00:1]",
    "[64:ff9b:1::7f00:1]",
    "[2002:7f00:1::]",
    "[2001:0:7f00:1::]",
    "[2606:4700::5efe:7f00:1]",
    "user@127.0.0.1",
    "user:word@localhost",
];

/// What the system's resolver would say of the names among them.
fn names() -> std::sync::Arc<Names> {
    let local: &[&[&str]] = &[&["127.0.0.1", "::1"]];
    Names::of(&[("localhost", local), ("localhost.", local), ("a.localhost", local)])
}

#[tokio::test]
async fn no_spelling_of_loopback_is_reached() {
    let victim = Server::everywhere().await;
    let egress = Egress::with_lookup(&settings(&[]), names()).unwrap();
    for host in SPELLINGS {
        let url = format!("http://{host}:{}/", victim.port());
        // What no parser reads, no client requests.
        if Url::parse(&url).is_ok() {
            assert!(send(&egress, &url).await.is_err(), "{host}");
        }
    }
    for odd in [
        r"http:\\127.0.0.1:PORT\",
        "http:127.0.0.1:PORT",
        "http:///127.0.0.1:PORT/",
        "http://127.0.0\t.1:PORT/",
    ] {
        let url = odd.replace("PORT", &victim.port().to_string());
        assert!(send(&egress, &url).await.is_err(), "{odd}");
    }
    assert_eq!(victim.accepted().await, 0);
}

#[tokio::test]
async fn no_name_that_leads_to_loopback_is_reached() {
    let victim = Server::everywhere().await;
    let addresses = [
        "127.0.0.1",
        "127.9.9.9",
        "0.0.0.0",
        "::1",
        "::",
        "::ffff:127.0.0.1",
        "::ffff:0:127.0.0.1",
        "::127.0.0.1",
        "64:ff9b::7f00:1",
        "2002:7f00:1::",
        "2001:0:7f00:1::",
    ];
    let names = Names::of(&[]);
    let egress = Egress::with_lookup(&settings(&[]), names.clone()).unwrap();
    for address in addresses {
        names.set("evil.example", &[address]);
        names.set("both.example", &[address, "127.0.0.1", "::1"]);
        for name in ["evil.example", "both.example"] {
            let error = send(&egress, &format!("http://{name}:{}/", victim.port())).await.unwrap_err();
            assert!(matches!(error, EgressError::NoAddress { .. }), "{address}: {error}");
        }
    }
    assert_eq!(names.asked().len(), 2 * addresses.len());
    assert_eq!(victim.accepted().await, 0);
}

#[tokio::test]
async fn a_denied_name_and_an_unknown_one_are_answered_alike() {
    let closed = Names::of(&[("inside.example", &[&["10.0.0.1"]]), ("self.example", &[&["127.0.0.1"]])]);
    let egress = Egress::with_lookup(&settings(&[]), closed).unwrap();
    let victim = Server::everywhere().await;
    let mut told = Vec::new();
    for host in ["inside.example", "self.example", "unknown.example"] {
        // A port that somebody listens on, and one where nobody does.
        for port in [victim.port(), 1] {
            let error = send(&egress, &format!("http://{host}:{}/", port.max(1024))).await.unwrap_err();
            assert!(!error.is_permanent());
            told.push(error.to_string().replace(host, "HOST"));
        }
    }
    told.dedup();
    assert_eq!(told, ["HOST has no address that may be reached"]);
    let literal = [victim.port(), 1024].map(|port| format!("http://127.0.0.1:{port}/"));
    for url in literal {
        let error = send(&egress, &url).await.unwrap_err();
        assert_eq!(error.to_string(), "127.0.0.1 is not an address that may be reached");
        assert!(error.is_permanent());
    }
}

#[tokio::test]
async fn no_redirect_leads_to_loopback() {
    let victim = Server::everywhere().await;
    let (port, names) = (victim.port(), names());
    // The path says which status and which spelling the answer leads on with.
    let guide = Server::start("127.0.0.2:0", move |request| {
        let mut parts = request.line.split(['/', ' ']).skip(2);
        let (status, index): (u16, usize) =
            (parts.next().unwrap().parse().unwrap(), parts.next().unwrap().parse().unwrap());
        // Headers carry bytes: what is no ASCII is sent as a browser would write it.
        Reply::with(status, &[("location", &format!("http://{}:{port}/", SPELLINGS[index]))], b"")
    })
    .await;
    let egress = Egress::with_lookup(&settings(&["127.0.0.2"]), names).unwrap();
    let mut followed = 0;
    for status in [301, 302, 303, 307, 308] {
        for (index, host) in SPELLINGS.iter().enumerate() {
            let result = send(&egress, &guide.url(&format!("/{status}/{index}"))).await;
            assert!(result.is_err(), "{status} {host}");
            followed += 1;
        }
    }
    assert_eq!(guide.received().len(), followed, "every redirect was really seen");
    assert_eq!(victim.accepted().await, 0);
}

#[tokio::test]
async fn a_name_that_changes_its_address_is_checked_at_every_request() {
    let (home, victim) = twins().await;
    let names = Names::of(&[("rebind.example", &[&["127.0.0.2"], &["127.0.0.1"]])]);
    let egress = Egress::with_lookup(&settings(&["127.0.0.2"]), names.clone()).unwrap();
    let url = format!("http://rebind.example:{}/", home.port());
    assert_eq!(send(&egress, &url).await.unwrap().status, 200);
    assert_eq!(names.asked().len(), 1, "one look-up: what was checked is what is connected to");
    for _ in 0..3 {
        assert!(matches!(send(&egress, &url).await, Err(EgressError::NoAddress { .. })));
    }
    assert_eq!((home.received().len(), victim.accepted().await), (1, 0));
}

#[tokio::test]
async fn a_name_that_changes_its_address_between_two_hops_is_checked_again() {
    let names = Names::of(&[("rebind.example", &[&["127.0.0.2"], &["127.0.0.1"]])]);
    let (home, victim) = twins_with(|_| Reply::with(302, &[("location", "/again")], b"")).await;
    let egress = Egress::with_lookup(&settings(&["127.0.0.2"]), names.clone()).unwrap();
    let error = send(&egress, &format!("http://rebind.example:{}/", home.port())).await.unwrap_err();
    assert!(matches!(error, EgressError::NoAddress { .. }), "{error}");
    assert_eq!(names.asked().len(), 2);
    assert_eq!((home.received().len(), victim.accepted().await), (1, 0));
}

#[tokio::test]
async fn of_many_addresses_only_those_that_are_allowed_are_tried() {
    let (home, victim) = twins().await;
    let names = Names::of(&[("mixed.example", &[&["127.0.0.1", "::1", "127.0.0.2"]])]);
    let egress = Egress::with_lookup(&settings(&["127.0.0.2"]), names).unwrap();
    let url = format!("http://mixed.example:{}/", home.port());
    assert_eq!(send(&egress, &url).await.unwrap().status, 200);
    assert_eq!((home.received().len(), victim.accepted().await), (1, 0));
}

#[tokio::test]
async fn what_one_tenant_may_reach_stays_closed_to_others() {
    let (rich, poor) = (Uuid::from_u128(1), Uuid::from_u128(2));
    let server = Server::start("127.0.0.2:0", |_| Reply::status(200)).await;
    let mut settings = settings(&[]);
    settings.tenants.insert(rich, vec!["127.0.0.2/32".parse().unwrap()]);
    let names = Names::of(&[("inside.example", &[&["127.0.0.2"]])]);
    let egress = Egress::with_lookup(&settings, names).unwrap();
    // The connection of the one is never the other's, not even while it is fresh.
    for url in [server.url("/"), format!("http://inside.example:{}/", server.port())] {
        assert_eq!(egress.send(rich, get(&url)).await.unwrap().status, 200);
        assert!(egress.send(poor, get(&url)).await.is_err());
        assert_eq!(egress.send(rich, get(&url)).await.unwrap().status, 200);
    }
    assert_eq!(server.received().len(), 4);
}

/// Two listeners on one port: 127.0.0.2, which tests allow, and 127.0.0.1, which they do not.
async fn twins() -> (Server, Server) {
    twins_with(|_| Reply::status(200)).await
}

async fn twins_with(answer: fn(crate::server::Received) -> Reply) -> (Server, Server) {
    loop {
        let home = Server::start("127.0.0.2:0", answer).await;
        // Somebody else may have the port there.
        let at = format!("127.0.0.1:{}", home.port());
        if tokio::net::TcpListener::bind(&at).await.is_ok() {
            return (home, Server::start(&at, |_| Reply::status(200)).await);
        }
    }
}
