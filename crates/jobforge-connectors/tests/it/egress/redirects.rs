//! Redirects: how far they are followed and what goes along.

use jobforge_connectors::egress::{Egress, EgressError, Redirects};
use reqwest::header::{AUTHORIZATION, COOKIE, HeaderValue};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use uuid::Uuid;

use super::{get, send, settings};
use crate::server::{Reply, Server};

fn egress() -> Egress {
    Egress::new(&settings(&["127.0.0.0/8"])).unwrap()
}

#[tokio::test]
async fn credentials_do_not_go_along_to_another_host() {
    let other = Server::start("127.0.0.3:0", |_| Reply::status(200)).await;
    let leads_to = other.url("/there");
    let first = Server::start("127.0.0.2:0", move |request| match request.line.as_str() {
        "GET /away HTTP/1.1" => Reply::with(307, &[("location", &leads_to)], b""),
        "GET /near HTTP/1.1" => Reply::with(307, &[("location", "/here"), ("set-cookie", "a=b")], b""),
        _ => Reply::status(200),
    })
    .await;
    for path in ["/away", "/near"] {
        let mut request = get(&first.url(path));
        request.headers.insert(AUTHORIZATION, HeaderValue::from_static("Bearer canary"));
        request.headers.insert(COOKIE, HeaderValue::from_static("session=canary"));
        let mut secret = HeaderValue::from_static("canary");
        secret.set_sensitive(true);
        request.headers.insert("x-key", secret);
        request.headers.insert("accept", HeaderValue::from_static("text/html"));
        assert_eq!(egress().send(Uuid::nil(), request).await.unwrap().status, 200);
    }
    let there = other.received();
    assert_eq!(there.len(), 1);
    assert!(!format!("{there:?}").contains("canary"), "{there:?}");
    assert_eq!(there[0].headers["accept"], "text/html");
    let here = first.received();
    let here = here.iter().find(|request| request.line.contains("/here")).unwrap();
    assert_eq!(here.headers["authorization"], "Bearer canary", "the same host gets them again");
    assert_eq!(here.headers["cookie"], "session=canary", "and no cookie of an answer");
}

#[tokio::test]
async fn no_connection_is_used_twice() {
    // A server that would take a second request on the same connection.
    let patient = Server::start("127.0.0.1:0", |_| {
        Reply::Stream(Box::new(|mut stream| {
            Box::pin(async move {
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
                let _ = stream.read(&mut [0; 1024]).await;
            })
        }))
    })
    .await;
    let egress = egress();
    for _ in 0..3 {
        assert_eq!(send(&egress, &patient.url("/")).await.unwrap().status, 200);
    }
    assert_eq!(patient.accepted().await, 3);
}

#[tokio::test]
async fn redirects_end_after_five() {
    let round = Server::start("127.0.0.2:0", |_| Reply::with(302, &[("location", "/again")], b"")).await;
    let error = send(&egress(), &round.url("/")).await.unwrap_err();
    assert!(matches!(error, EgressError::TooManyRedirects(5)) && error.is_permanent(), "{error}");
    assert_eq!(round.received().len(), 6);
}

#[tokio::test]
async fn a_redirect_that_is_not_followed_is_the_answer() {
    let server =
        Server::start("127.0.0.2:0", |_| Reply::with(302, &[("location", "/again")], b"moved")).await;
    let mut request = get(&server.url("/"));
    request.redirects = Redirects::Answer;
    let answer = egress().send(Uuid::nil(), request).await.unwrap();
    assert_eq!((answer.status.as_u16(), &answer.body.bytes[..]), (302, &b"moved"[..]));
    assert_eq!(server.received().len(), 1);
}
