//! Documents that settings name: whole, from exactly there, and only where everybody may go.

use std::time::Duration;

use jobforge_connectors::egress::{Egress, EgressError, FetchError};
use uuid::Uuid;

use super::{PATIENCE, settings};
use crate::server::{Reply, Server};

const LIMIT: usize = 100;

#[tokio::test]
async fn a_document_is_had_whole_or_not_at_all() {
    let server = Server::start("127.0.0.1:0", |request| match request.line.split(' ').nth(1).unwrap() {
        "/fits" => Reply::with(200, &[], &[b'x'; LIMIT]),
        "/large" => Reply::with(200, &[], &[b'x'; LIMIT + 1]),
        "/moved" => Reply::with(302, &[("location", "/fits")], b""),
        "/short" => Reply::Raw(b"HTTP/1.1 200 X\r\ncontent-length: 9\r\n\r\nx".to_vec()),
        "/hangs" => Reply::Hang,
        _ => Reply::status(404),
    })
    .await;
    let egress = Egress::new(&settings(&["127.0.0.0/8"])).unwrap();
    let fetch =
        async |path: &str, patience| egress.fetch(&server.url(path).parse().unwrap(), patience, LIMIT).await;
    assert_eq!(fetch("/fits", PATIENCE).await.unwrap().len(), LIMIT);
    assert!(matches!(fetch("/large", PATIENCE).await, Err(FetchError::Large(LIMIT))));
    assert!(matches!(fetch("/none", PATIENCE).await, Err(FetchError::Status(status)) if status == 404));
    assert!(matches!(fetch("/moved", PATIENCE).await, Err(FetchError::Status(status)) if status == 302));
    let short = fetch("/short", PATIENCE).await;
    assert!(matches!(short, Err(FetchError::Egress(EgressError::Connection { .. }))), "{short:?}");
    let late = fetch("/hangs", Duration::from_millis(50)).await;
    assert!(matches!(late, Err(FetchError::Egress(EgressError::Timeout { .. }))), "{late:?}");
}

#[tokio::test]
async fn what_one_tenant_may_reach_is_not_what_settings_may() {
    let server = Server::everywhere().await;
    let mut settings = settings(&[]);
    for tenant in [Uuid::nil(), Uuid::max()] {
        settings.tenants.insert(tenant, vec!["127.0.0.0/8".parse().unwrap()]);
    }
    let egress = Egress::new(&settings).unwrap();
    let url = format!("http://127.0.0.1:{}/", server.port()).parse().unwrap();
    assert!(matches!(egress.check(&url), Err(EgressError::Denied { .. })));
    let fetched = egress.fetch(&url, PATIENCE, LIMIT).await;
    assert!(matches!(fetched, Err(FetchError::Egress(EgressError::Denied { .. }))), "{fetched:?}");
    assert_eq!(server.accepted().await, 0);
}
