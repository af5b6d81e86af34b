//! The web page's sessions: begun with a key, shared by all servers, of no use to other people's pages.

use std::time::Duration;

use axum::Router;
use axum::http::Method;
use jobforge_core::Role;
use jobforge_testkit::{NOOP, TENANT_A};
use serde_json::json;

use crate::auth_support::{Ask, FOR_EVER, second, until};
use crate::world::{Key, World};

/// Begins a session; the cookie as a browser shows it.
async fn begin(router: &Router, key: &Key) -> String {
    let answer = Ask::post("/session", &json!({ "key": key.text })).of(router).await;
    let cookie = answer.headers["set-cookie"].to_str().unwrap().to_owned();
    answer.expect(201);
    cookie.split(';').next().unwrap().to_owned()
}

fn end(cookie: &str) -> Ask {
    Ask::new(Method::DELETE, "/session").header("cookie", cookie).header("sec-fetch-site", "same-origin")
}

#[tokio::test]
async fn a_session_does_what_its_key_may_on_every_server_until_it_ends() {
    let world = World::new().await;
    let other = second(&world.db, |config| config.credential_memory = FOR_EVER).await;
    let key = world.key(Role::Producer).await;
    let answer = Ask::post("/session", &json!({ "key": key.text })).of(&world.router).await;
    let set = answer.headers["set-cookie"].to_str().unwrap().to_owned();
    for part in
        ["__Host-jobforge=", "; Path=/;", "; HttpOnly", "; SameSite=Strict", "; Secure", "Max-Age=43200"]
    {
        assert!(set.contains(part), "{set}");
    }
    let who = answer.expect(201);
    assert_eq!((&who["role"], &who["tenant_id"]), (&json!("producer"), &json!(TENANT_A.to_string())));
    assert!(!set.contains(&key.id) && !set.contains(&key.text[16..]), "a browser does not learn the key");

    let cookie = set.split(';').next().unwrap();
    for router in [&world.router, &other] {
        let who = Ask::get("/session").header("cookie", cookie).of(router).await.expect(200);
        assert_eq!(who["credential"], format!("session of key jf_{}", key.id));
        let jobs = Ask::get("/jobs").header("cookie", cookie).of(router).await;
        jobs.refused(403, "JF009", "role_insufficient");
        let job = Ask::post("/jobs", &json!({ "type": NOOP })).header("cookie", cookie);
        job.header("sec-fetch-site", "same-origin").of(router).await.expect(201);
    }

    let ended = end(cookie).of(&world.router).await;
    assert!(ended.headers["set-cookie"].to_str().unwrap().contains("Max-Age=0"));
    assert_eq!(ended.status, 204);
    let gone = Ask::get("/session").header("cookie", cookie).of(&world.router).await;
    gone.refused(401, "JF101", "credential_invalid");
    until("the other server hears of it", async || {
        Ask::get("/session").header("cookie", cookie).of(&other).await.status == 401
    })
    .await;
}

#[tokio::test]
async fn a_session_ends_with_its_key_and_after_twelve_hours() {
    let world = World::with(|config| config.credential_memory = Duration::ZERO).await;
    let (revoked, kept) = (world.key(Role::TenantViewer).await, world.key(Role::TenantViewer).await);
    let (first, second) = (begin(&world.router, &revoked).await, begin(&world.router, &kept).await);
    let ask = async |cookie: &str| Ask::get("/jobs").header("cookie", cookie).of(&world.router).await.status;
    assert_eq!((ask(&first).await, ask(&second).await), (200.try_into().unwrap(), 200.try_into().unwrap()));
    world.revoke(&revoked).await;
    assert_eq!((ask(&first).await.as_u16(), ask(&second).await.as_u16()), (401, 200));
    world.db.advance_clock(12.0 * 3600.0 - 60.0).await;
    assert_eq!(ask(&second).await, 200);
    world.db.advance_clock(120.0).await;
    assert_eq!(ask(&second).await, 401);
    let again = begin(&world.router, &kept).await;
    let id = again.split_once('=').unwrap().1.as_bytes();
    let admin = world.db.connect_super().await;
    let left: i64 = admin.query_one("select count(*) from jobforge.sessions", &[]).await.unwrap().get(0);
    assert_eq!(left, 1, "what is over leaves when the next one begins");
    let sql = "select id_sha256 = sha256($1), s::text like '%' || encode($1, 'hex') || '%' from jobforge.sessions s";
    let row = admin.query_one(sql, &[&id]).await.unwrap();
    assert_eq!((row.get(0), row.get(1)), (true, false), "its hash is there, the id itself is nowhere");
}

#[tokio::test]
async fn a_session_is_begun_with_a_living_key_alone() {
    let world = World::new().await;
    let (key, revoked) = (world.key(Role::TenantAdmin).await, world.key(Role::TenantAdmin).await);
    world.revoke(&revoked).await;
    for wrong in ["", "jf_", revoked.text.as_str()] {
        let answer = Ask::post("/session", &json!({ "key": wrong })).of(&world.router).await;
        assert!(!answer.headers.contains_key("set-cookie"));
        answer.refused(401, "JF101", "credential_invalid");
    }
    for body in [json!({}), json!({ "key": 7 }), json!({ "key": key.text, "more": 1 }), json!([])] {
        Ask::post("/session", &body).of(&world.router).await.refused(400, "JF102", "body_invalid");
    }
    for cookie in ["__Host-jobforge=", "__Host-jobforge=x", &format!("__Host-jobforge={}", "x".repeat(43))] {
        let answer = Ask::get("/session").header("cookie", cookie).of(&world.router).await;
        answer.refused(401, "JF101", "credential_invalid");
    }
    let none = Ask::new(Method::DELETE, "/session").key(&key).of(&world.router).await;
    none.refused(400, "JF102", "session_missing");
}

#[tokio::test]
async fn other_peoples_pages_change_nothing() {
    let world = World::with(|config| config.hosts = vec!["jobs.example.com".to_owned()]).await;
    let key = world.key(Role::TenantAdmin).await;
    let cookie = begin(&world.router, &key).await;
    let enqueue = || {
        let ask = Ask::post("/jobs", &json!({ "type": NOOP })).header("cookie", &cookie);
        ask.header("host", "jobs.example.com")
    };
    let foreign: [&[(&str, &str)]; 5] = [
        &[],
        &[("sec-fetch-site", "cross-site")],
        &[("sec-fetch-site", "same-site"), ("origin", "https://jobs.example.com")],
        &[("origin", "https://evil.example")],
        &[("origin", "null")],
    ];
    for headers in foreign {
        let ask = headers.iter().fold(enqueue(), |ask, (name, value)| ask.header(name, value));
        ask.of(&world.router).await.refused(403, "JF009", "cross_site");
    }
    let delete = Ask::new(Method::DELETE, "/session").header("cookie", &cookie);
    delete.of(&world.router).await.refused(403, "JF009", "cross_site");
    let login = Ask::post("/session", &json!({ "key": key.text })).header("origin", "https://evil.example");
    login.of(&world.router).await.refused(403, "JF009", "cross_site");

    enqueue().header("origin", "https://jobs.example.com").of(&world.router).await.expect(201);
    enqueue().header("sec-fetch-site", "same-origin").of(&world.router).await.expect(201);
    // A page cannot make a browser send this header: whoever sends it is no page.
    let program =
        Ask::post("/jobs", &json!({ "type": NOOP })).key(&key).header("origin", "https://evil.example");
    program.of(&world.router).await.expect(201);
    // Nor is a wrong header made good by a cookie.
    let wrong = enqueue().header("sec-fetch-site", "same-origin").bearer("jf_wrong");
    wrong.of(&world.router).await.refused(401, "JF101", "credential_invalid");
}

#[tokio::test]
async fn a_foreign_name_for_this_machine_is_not_served() {
    let world = World::with(|config| config.hosts = vec!["jobs.example.com".to_owned()]).await;
    let key = world.key(Role::TenantViewer).await;
    let cookie = begin(&world.router, &key).await;
    for host in ["evil.example", "evil.example:7000", "jobs.example.com.evil.example"] {
        let answer = Ask::get("/jobs").header("cookie", &cookie).header("host", host).of(&world.router).await;
        answer.refused(421, "JF102", "host_unknown");
        let login = Ask::post("/session", &json!({ "key": key.text })).header("host", host);
        login.of(&world.router).await.refused(421, "JF102", "host_unknown");
        Ask::get("/jobs").key(&key).header("host", host).of(&world.router).await.expect(200);
        Ask::get("/health/live").header("host", host).of(&world.router).await.expect(200);
    }
    for host in ["jobs.example.com", "JOBS.example.com:443", "192.0.2.7:7000"] {
        Ask::get("/jobs").header("cookie", &cookie).header("host", host).of(&world.router).await.expect(200);
    }
}

#[tokio::test]
async fn on_ones_own_machine_the_cookie_needs_no_tls() {
    let world = World::new().await;
    let key = world.key(Role::TenantViewer).await;
    for host in ["localhost:7000", "127.0.0.1:7000", "[::1]:7000"] {
        let login = Ask::post("/session", &json!({ "key": key.text })).header("host", host);
        let answer = login.of(&world.router).await;
        let set = answer.headers["set-cookie"].to_str().unwrap().to_owned();
        assert!(set.starts_with("jobforge=") && !set.contains("Secure") && set.contains("HttpOnly"), "{set}");
        let cookie = set.split(';').next().unwrap();
        Ask::get("/jobs").header("cookie", cookie).header("host", host).of(&world.router).await.expect(200);
        // Elsewhere it would have come over the open network.
        let elsewhere = Ask::get("/jobs").header("cookie", cookie).header("host", "192.0.2.7");
        elsewhere.of(&world.router).await.refused(401, "JF101", "credential_invalid");
    }
}

#[tokio::test]
async fn of_one_key_the_newest_hundred_sessions_stay() {
    let world = World::new().await;
    let key = world.key(Role::TenantViewer).await;
    let first = begin(&world.router, &key).await;
    for _ in 0..100 {
        begin(&world.router, &key).await;
    }
    let admin = world.db.connect_super().await;
    let left: i64 = admin.query_one("select count(*) from jobforge.sessions", &[]).await.unwrap().get(0);
    assert_eq!(left, 100);
    Ask::get("/session").header("cookie", &first).of(&world.router).await.refused(
        401,
        "JF101",
        "credential_invalid",
    );
}

#[tokio::test]
async fn the_server_that_revokes_a_key_ends_its_sessions_at_once() {
    // Nothing is heard here: what is remembered would be believed for ever.
    let world = World::with(|config| config.credential_memory = FOR_EVER).await;
    let (admin, key) = (world.key(Role::TenantAdmin).await, world.key(Role::TenantViewer).await);
    let cookie = begin(&world.router, &key).await;
    let who = async || Ask::get("/session").header("cookie", &cookie).of(&world.router).await;
    who().await.expect(200);
    Ask::new(Method::DELETE, &format!("/admin/keys/{}", key.id))
        .key(&admin)
        .of(&world.router)
        .await
        .expect(200);
    who().await.refused(401, "JF101", "credential_invalid");
}
