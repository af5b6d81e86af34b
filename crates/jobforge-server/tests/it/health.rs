//! Readiness, where it depends on a broker too.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::http::Method;
use jobforge_server::{BrokerAnswer, BrokerCheck};

use crate::world::{Answer, World};

#[derive(Debug, Default)]
struct Told(AtomicBool);

impl BrokerCheck for Told {
    fn answers(&self) -> BrokerAnswer<'_> {
        Box::pin(async { self.0.load(Ordering::SeqCst) })
    }
}

async fn get(world: &World, path: &str) -> Answer {
    world.send(None, Method::GET, path, None).await
}

#[tokio::test]
async fn a_server_that_requires_a_broker_is_ready_with_it_alone() {
    let broker = Arc::new(Told::default());
    let lent: Arc<dyn BrokerCheck> = broker.clone();
    let world = World::with(|config| config.broker = Some(lent)).await;
    let away = get(&world, "/health/ready").await;
    assert_eq!(away.headers["retry-after"], "1");
    let away = away.refused(503, "JF106", "broker_unavailable");
    assert!(away["detail"].as_str().unwrap().contains("server.ready_requires_broker"), "{away}");
    get(&world, "/health/live").await.expect(200);

    broker.0.store(true, Ordering::SeqCst);
    assert_eq!(get(&world, "/health/ready").await.expect(200)["status"], "ok");
    get(&world, "/health/live").await.expect(200);
}

#[tokio::test]
async fn a_server_that_requires_none_is_ready_by_its_database() {
    let world = World::new().await;
    get(&world, "/health/ready").await.expect(200);
}
