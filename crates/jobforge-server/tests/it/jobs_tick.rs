//! Due jobs run by a request, in development.

use std::sync::{Arc, Mutex};

use futures_util::future::BoxFuture;
use jobforge_core::Role;
use jobforge_server::{ServerConfig, Tick, TickError, Ticked};
use serde_json::json;

use crate::jobs_cast::Cast;
use crate::world::World;

#[derive(Debug, Default)]
struct Runner(Mutex<Vec<usize>>);

impl Tick for Runner {
    fn run_due(&self, limit: usize) -> BoxFuture<'_, Result<Ticked, TickError>> {
        self.0.lock().unwrap().push(limit);
        Box::pin(async move {
            match limit {
                13 => Err("bad luck".into()),
                _ => Ok(Ticked { claimed: 3, completed: 2, failed: 1, ..Ticked::default() }),
            }
        })
    }
}

#[tokio::test]
async fn due_jobs_are_run_and_counted() {
    let runner = Arc::new(Runner::default());
    let lent: Arc<dyn Tick> = runner.clone();
    let change = |config: &mut ServerConfig| (config.development, config.tick) = (true, Some(lent));
    let cast = Cast::of(World::with(change).await).await;
    let counts = json!({ "claimed": 3, "completed": 2, "failed": 1, "snoozed": 0, "released": 0 });
    assert_eq!(cast.post_nothing("/jobs/tick").await.expect(200), counts);
    assert_eq!(cast.post("/jobs/tick", json!({ "limit": 5 })).await.expect(200), counts);
    cast.post("/jobs/tick", json!({ "limit": 13 })).await.refused(500, "JF107", "internal");
    cast.post("/jobs/tick", json!({ "limit": 0 })).await.refused(400, "JF001", "limit_out_of_range");
    cast.post("/jobs/tick", json!({ "limit": 1001 })).await.refused(400, "JF001", "limit_out_of_range");
    cast.post("/jobs/tick", json!({ "queues": [] })).await.refused(400, "JF102", "body_invalid");
    for role in [Role::TenantViewer, Role::Producer, Role::Worker] {
        let key = cast.world.key(role).await;
        cast.world.post(&key, "/jobs/tick", json!({})).await.refused(403, "JF009", "role_insufficient");
    }
    assert_eq!(*runner.0.lock().unwrap(), [10, 5, 13]);
}

#[tokio::test]
async fn elsewhere_there_is_no_such_route() {
    let lend = |config: &mut ServerConfig| config.tick = Some(Arc::new(Runner::default()));
    let develop = |config: &mut ServerConfig| config.development = true;
    for world in [World::new().await, World::with(lend).await, World::with(develop).await] {
        let cast = Cast::of(world).await;
        cast.post_nothing("/jobs/tick").await.refused(404, "JF104", "route_unknown");
        cast.post("/jobs/tick", json!({ "nonsense": 1 })).await.refused(404, "JF104", "route_unknown");
    }
}
