//! Claims that wait: woken by a notification, looking for themselves where none arrives, ended with the server.

use std::net::SocketAddr;
use std::time::Duration;

use jobforge_core::Role;
use jobforge_server::{Server, ServerConfig};
use jobforge_testkit::{APP, NOOP, OPERATOR, QUEUE, TENANT_A, TestDb, WORKER};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};
use tokio_postgres::Client;

use crate::worker_agent::{Agent, enqueue, jobs, status};
use crate::world::World;

/// How long anything here may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// Waits until this is true in the database.
async fn until(client: &Client, what: &str, sql: &str) {
    let come = async {
        while !client.query_one(sql, &[]).await.unwrap().get::<_, bool>(0) {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(PATIENCE, come).await.unwrap_or_else(|_| panic!("{what}"));
}

async fn asleep(client: &Client) {
    until(client, "nobody sleeps", "select exists (select from jobforge.sleepers)").await;
}

async fn listening(client: &Client) {
    // The last thing such a connection was told: the server looks only once it hears.
    let sql = "select exists (select from jobforge.sentinel s where s.holder like 'server:%')";
    until(client, "the server does not listen", sql).await;
}

#[tokio::test]
async fn who_waits_is_woken_by_an_enqueue() {
    let world = World::new().await;
    let admin = world.db.connect_super().await;
    let agent = Agent::of_all(&world).await;
    // Shorter than the pause after which it would look without having heard.
    let wait = agent.try_claim(1, json!({ "wait_seconds": 20 }));
    let work = async {
        asleep(&admin).await;
        listening(&admin).await;
        enqueue(&world, TENANT_A, 1).await
    };
    let (claim, ids) = tokio::join!(wait, work);
    let held = jobs(&claim.expect(200));
    assert_eq!(held.iter().map(|job| job.id().to_owned()).collect::<Vec<_>>(), ids);
}

#[tokio::test]
async fn work_that_falls_due_wakes_who_waits() {
    let world = World::new().await;
    let admin = world.db.connect_super().await;
    let producer = world.key(Role::Producer).await;
    let agent = Agent::of_all(&world).await;
    let wait = agent.try_claim(1, json!({ "wait_seconds": 20 }));
    let work = async {
        asleep(&admin).await;
        listening(&admin).await;
        let job = json!({ "type": NOOP, "run_at": "2126-01-01T00:00:00Z" });
        // Too far away to be taken: the next is due in a moment.
        world.post(&producer, "/jobs", job).await.refused(400, "JF001", "run_at_out_of_range");
        let soon = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(2);
        world.post(&producer, "/jobs", json!({ "type": NOOP, "run_at": soon })).await.expect(201)
    };
    let (claim, _) = tokio::join!(wait, work);
    assert_eq!(jobs(&claim.expect(200)).len(), 1);
}

#[tokio::test]
async fn where_no_notification_arrives_who_waits_looks_each_second() {
    // Nobody listens on that port.
    let world = World::with(|config| config.direct_url = Some("postgres://x@127.0.0.1:1/x".to_owned())).await;
    let admin = world.db.connect_super().await;
    let agent = Agent::of_all(&world).await;
    let wait = agent.try_claim(1, json!({ "wait_seconds": 20 }));
    let work = async {
        asleep(&admin).await;
        enqueue(&world, TENANT_A, 1).await
    };
    let (claim, _) = tokio::join!(wait, work);
    assert_eq!(jobs(&claim.expect(200)).len(), 1);
}

#[tokio::test]
async fn who_waits_in_vain_is_told_so_and_holds_no_connection() {
    let world = World::with(|config| config.connections = 1).await;
    let admin = world.db.connect_super().await;
    let (agent, other) = (Agent::of_a(&world).await, Agent::of_all(&world).await);
    let wait = agent.try_claim(1, json!({ "wait_seconds": 2 }));
    let meanwhile = async {
        asleep(&admin).await;
        other.claim(1).await
    };
    let (claim, none) = tokio::join!(wait, meanwhile);
    let claim = claim.expect(200);
    assert_eq!(
        (&claim["jobs"], &claim["lease_id"], &claim["expires_at"]),
        (&json!([]), &json!(null), &json!(null))
    );
    assert!(claim["cursor"].is_string() && none.is_empty());
}

#[tokio::test]
async fn a_worker_that_has_all_it_can_run_sleeps_no_longer() {
    let world = World::new().await;
    let admin = world.db.connect_super().await;
    let agent = Agent::of_a(&world).await;
    let work = async {
        asleep(&admin).await;
        enqueue(&world, TENANT_A, 1).await
    };
    let (claim, _) = tokio::join!(agent.try_claim(1, json!({ "wait_seconds": 20 })), work);
    assert_eq!(jobs(&claim.expect(200)).len(), 1);
    let sleepers: i64 = admin.query_one("select count(*) from jobforge.sleepers", &[]).await.unwrap().get(0);
    assert_eq!(sleepers, 0);
}

/// A server on a port, for what needs a real connection.
async fn served() -> (World, jobforge_server::ServerHandle) {
    let db = TestDb::new().await;
    let mut config = ServerConfig::new(db.url_as(APP, None), db.url_as(OPERATOR, None));
    config.worker_url = Some(db.url_as(WORKER, None));
    let server = Server::new(config).await.unwrap();
    let router = server.router();
    let handle = server.start(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
    (World { db, router }, handle)
}

/// Sends a claim that waits, and does not read.
async fn hang(agent: &Agent<'_>, address: SocketAddr) -> TcpStream {
    let body =
        json!({ "worker_id": agent.worker_id, "queues": [QUEUE], "types": [NOOP], "wait_seconds": 30 });
    let (body, key) = (body.to_string(), &agent.key.text);
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!(
        "POST /api/v1/worker/jobs/claim HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    stream
}

#[tokio::test]
async fn a_caller_that_goes_away_takes_no_job_along() {
    let (world, handle) = served().await;
    let admin = world.db.connect_super().await;
    let agent = Agent::of_a(&world).await;
    let stream = hang(&agent, handle.address()).await;
    asleep(&admin).await;
    drop(stream);
    let ids = enqueue(&world, TENANT_A, 1).await;
    // Another gets it, be it that the first claim took it and gave it back.
    let other = Agent::of_all(&world).await;
    let claim = other.try_claim(1, json!({ "wait_seconds": 30 })).await.expect(200);
    assert_eq!(jobs(&claim)[0].id(), ids[0]);
    assert_eq!(status(&world, TENANT_A, &ids[0]).await, "running");
    handle.shutdown().await;
}

/// It goes away while the database hands it jobs: those of a new lease go back with the lease, those of its own lease alone.
#[tokio::test]
async fn what_was_claimed_for_a_caller_that_is_gone_goes_back() {
    let world = World::new().await;
    let admin = world.db.connect_super().await;
    let holder = world.db.connect_super().await;
    let agent = Agent::of_a(&world).await;
    enqueue(&world, TENANT_A, 1).await;
    let own = agent.try_claim(1, json!({})).await.expect(200);
    for more in [json!({}), json!({ "lease_id": own["lease_id"] })] {
        let ids = enqueue(&world, TENANT_A, 2).await;
        holder.batch_execute("begin; lock table jobforge.lease_claims in exclusive mode").await.unwrap();
        let mut claim = Box::pin(agent.try_claim(2, more));
        let held_up = "select exists (select from pg_stat_activity a where a.datname = current_database()
            and a.wait_event_type = 'Lock')";
        tokio::select! {
            answer = &mut claim => panic!("the claim was not held up: {answer:?}"),
            () = until(&admin, "the claim is not held up", held_up) => {}
        }
        drop(claim);
        holder.batch_execute("rollback").await.unwrap();
        let back = format!(
            "select count(*) = 2 from jobforge.jobs j where j.id in ('{}', '{}') and j.status = 'queued'
               and j.fence = 1 and j.lease_id is null",
            ids[0], ids[1]
        );
        until(&admin, "the jobs did not go back", &back).await;
        let leases: i64 = admin.query_one("select count(*) from jobforge.leases", &[]).await.unwrap().get(0);
        assert_eq!(leases, 1, "the lease that the caller knows of is left, and no other");
        for job in agent.claim(2).await {
            agent.report("complete", &job, json!({})).await.expect(200);
        }
        admin
            .batch_execute(
                "delete from jobforge.leases l where l.id <> (select j.lease_id from jobforge.jobs j)",
            )
            .await
            .unwrap();
    }
    agent.report("complete", &jobs(&own)[0], json!({})).await.expect(200);
}

#[tokio::test]
async fn a_server_that_ends_keeps_nobody_waiting() {
    let (world, handle) = served().await;
    let admin = world.db.connect_super().await;
    let agent = Agent::of_a(&world).await;
    let mut stream = hang(&agent, handle.address()).await;
    asleep(&admin).await;
    handle.shutdown().await;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains(r#""jobs":[]"#), "{answer}");
}
