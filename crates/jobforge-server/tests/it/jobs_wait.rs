//! Waiting for jobs to end.

use std::time::Duration;

use futures_util::future::join_all;
use jobforge_server::{Server, ServerConfig};
use jobforge_testkit::{APP, OPERATOR};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use uuid::Uuid;

use crate::jobs_cast::{Cast, raw};
use crate::world::World;

#[tokio::test]
async fn a_wait_ends_when_the_job_does() {
    let cast = Cast::of(World::with(|config| config.waiters = 1).await).await;
    let job = cast.running().await;
    let path = format!("/jobs/{}/wait?timeout_seconds=60", job.job.id);
    let other = format!("/jobs/{}/wait?timeout_seconds=1", cast.queued().await);
    let ended = async {
        asked(&cast).await;
        cast.complete(&job, Some(raw(json!({ "n": 1 })))).await;
    };
    let (answer, ()) = tokio::join!(cast.get(&path), ended);
    let job = answer.expect(200);
    assert_eq!(
        (&job["over"], &job["status"], &job["result"]),
        (&json!(true), &json!("succeeded"), &json!({ "n": 1 }))
    );
    // It left its place, and is answered at once by now.
    assert_eq!(cast.get(&path).await.expect(200)["over"], true);
    let waited = cast.get(&other).await.expect(200);
    assert_eq!((&waited["over"], &waited["status"]), (&json!(false), &json!("queued")));
    cast.get(&other).await.expect(200);
}

#[tokio::test]
async fn many_wait_for_many_jobs_and_for_the_same_one() {
    let cast = Cast::new().await;
    for _ in 0..20 {
        cast.queued().await;
    }
    let jobs = cast.claim().await;
    let paths: Vec<String> =
        jobs.iter().chain(&jobs).map(|job| format!("/jobs/{}/wait?timeout_seconds=60", job.job.id)).collect();
    let ended = async {
        for (at, job) in jobs.iter().enumerate() {
            match at % 3 {
                0 => cast.fail(job, "broke").await,
                _ => cast.complete(job, None).await,
            }
        }
    };
    let (answers, ()) = tokio::join!(join_all(paths.iter().map(|path| cast.get(path))), ended);
    for (at, answer) in answers.into_iter().enumerate() {
        let job = answer.expect(200);
        let status = if (at % 20) % 3 == 0 { "failed" } else { "succeeded" };
        assert_eq!((&job["over"], job["status"].as_str()), (&json!(true), Some(status)));
    }
}

#[tokio::test]
async fn a_wait_without_time_is_a_look_and_too_long_a_wait_is_refused() {
    let cast = Cast::of(World::with(|config| config.waiters = 0).await).await;
    let id = cast.queued().await;
    let job = cast.get(&format!("/jobs/{id}/wait?timeout_seconds=0")).await.expect(200);
    assert_eq!((&job["over"], &job["id"]), (&json!(false), &json!(id)));
    let none = cast.get(&format!("/jobs/{id}/wait")).await;
    assert!(none.headers.contains_key("retry-after"));
    none.refused(503, "JF105", "too_many_waiters");
    cast.get(&format!("/jobs/{id}/wait?timeout_seconds=61")).await.refused(
        400,
        "JF001",
        "timeout_out_of_range",
    );
    cast.get(&format!("/jobs/{id}/wait?timeout_seconds=-1")).await.refused(400, "JF102", "query_malformed");
    cast.get(&format!("/jobs/{}/wait", Uuid::now_v7())).await.refused(404, "JF007", "job_unknown");
}

#[tokio::test]
async fn a_wait_ends_when_the_server_does() {
    let world = World::new().await;
    let url = |login: &str| world.db.url_as(login, None);
    let server = Server::new(ServerConfig::new(url(APP), url(OPERATOR))).await.unwrap();
    let cast = Cast::of(World { db: world.db, router: server.router() }).await;
    let id = cast.queued().await;
    let handle = server.start("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let mut stream = TcpStream::connect(handle.address()).await.unwrap();
    let request = format!(
        "GET /api/v1/jobs/{id}/wait?timeout_seconds=60 HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {}\r\nconnection: close\r\n\r\n",
        cast.admin.text
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    asked(&cast).await;
    let mut answer = String::new();
    let (read, ()) = tokio::join!(stream.read_to_string(&mut answer), handle.shutdown());
    read.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("\"over\":false"), "{answer}");
}

/// Returns when the server has asked for jobs that somebody waits for.
async fn asked(cast: &Cast) {
    let observer = cast.world.db.connect_super().await;
    let query = "select from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()
                 and query like '%jobforge.finished_jobs(%'";
    for _ in 0..600 {
        if !observer.query(query, &[]).await.unwrap().is_empty() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("nobody waits");
}
