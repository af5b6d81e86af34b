//! Keys: who is refused, how soon a revocation is felt, how many requests are taken, who is written down.

use std::time::Duration;

use jobforge_core::Role;
use jobforge_core::rpc::list_api_keys;
use jobforge_testkit::{FaultProxy, Mode, OPERATOR, PASSWORD, TENANT_A, TENANT_B};

use crate::auth_support::{Ask, FOR_EVER, second, until};
use crate::world::World;

#[tokio::test]
async fn every_wrong_key_gets_the_same_answer() {
    let world = World::new().await;
    let (key, revoked) = (world.key(Role::TenantViewer).await, world.key(Role::TenantViewer).await);
    world.revoke(&revoked).await;
    let (head, secret) = key.text.rsplit_once('_').unwrap();
    let wrong_secret = format!("{head}_{}", secret.chars().rev().collect::<String>());
    let unknown = format!("jf_000000000000_{secret}");
    let wrongs =
        [revoked.text.as_str(), &wrong_secret, &unknown, "jf_", "jf_x_y", "", "no.such.token", secret];
    let mut answers = Vec::new();
    for wrong in wrongs {
        let answer = Ask::get("/jobs").bearer(wrong).of(&world.router).await;
        assert_eq!(answer.headers["www-authenticate"], "Bearer");
        answers.push(answer.bytes.clone());
        answer.refused(401, "JF101", "credential_invalid");
    }
    let none = Ask::get("/jobs").of(&world.router).await;
    let basic = Ask::get("/jobs").header("authorization", "Basic YTpi").of(&world.router).await;
    let two = Ask::get("/jobs").key(&key).key(&key).of(&world.router).await;
    answers.extend([none.bytes, basic.bytes, two.bytes]);
    assert!(answers.iter().all(|answer| *answer == answers[0]), "one answer for all");
    Ask::get("/jobs").key(&key).of(&world.router).await.expect(200);
}

#[tokio::test]
async fn a_key_revoked_on_one_server_is_refused_by_the_other_at_once() {
    let world = World::new().await;
    // Believed for ever: only the notification can end it.
    let other = second(&world.db, |config| config.credential_memory = FOR_EVER).await;
    let (revoked, kept) = (world.key(Role::TenantViewer).await, world.key(Role::TenantViewer).await);
    listens(&world, 1).await;
    for key in [&revoked, &kept] {
        Ask::get("/jobs").key(key).of(&other).await.expect(200);
    }
    world.revoke(&revoked).await;
    until("the revoked key is refused", async || {
        Ask::get("/jobs").key(&revoked).of(&other).await.status == 401
    })
    .await;
    Ask::get("/jobs").key(&kept).of(&other).await.expect(200);
}

#[tokio::test]
async fn where_no_notification_is_heard_a_look_up_is_soon_made_again() {
    let world = World::with(|config| config.credential_memory = Duration::from_secs(1)).await;
    let key = world.key(Role::TenantViewer).await;
    // No upkeep: this server listens to nobody.
    world.get(&key, "/jobs").await.expect(200);
    world.revoke(&key).await;
    until("the revoked key is refused", async || world.get(&key, "/jobs").await.status == 401).await;
}

#[tokio::test]
async fn a_lost_listener_forgets_everything() {
    let world = World::new().await;
    let proxy = FaultProxy::start(world.db.cluster_port()).await;
    let direct = proxy.through(&world.db.url_as(OPERATOR, Some(PASSWORD)));
    let other = second(&world.db, |config| {
        config.credential_memory = FOR_EVER;
        config.direct_url = Some(direct);
    })
    .await;
    let (first, key) = (world.key(Role::TenantViewer).await, world.key(Role::TenantViewer).await);
    listens(&world, 1).await;
    // Whoever begins to listen forgets all: once one revocation was felt, that is behind it.
    Ask::get("/jobs").key(&first).of(&other).await.expect(200);
    world.revoke(&first).await;
    until("the first key is refused", async || Ask::get("/jobs").key(&first).of(&other).await.status == 401)
        .await;
    Ask::get("/jobs").key(&key).of(&other).await.expect(200);
    // What is revoked while nobody hears is refused once the loss is noticed.
    proxy.set_mode(Mode::Stall);
    world.revoke(&key).await;
    Ask::get("/jobs").key(&key).of(&other).await.expect(200);
    proxy.set_mode(Mode::Refuse);
    until("the revoked key is refused", async || Ask::get("/jobs").key(&key).of(&other).await.status == 401)
        .await;
}

#[tokio::test]
async fn the_last_use_of_a_key_is_noted() {
    let world = World::new().await;
    let other = second(&world.db, |_| {}).await;
    let (used, unused) = (world.key(Role::TenantViewer).await, world.key(Role::TenantViewer).await);
    Ask::get("/jobs").key(&used).of(&other).await.expect(200);
    let operator = world.db.as_operator().await;
    let last_use = async |id: &str| {
        let keys = list_api_keys(&operator, None, 100, None).await.unwrap();
        keys.into_iter().find(|key| key.id == id).unwrap().last_used_at
    };
    until("the use is noted", async || last_use(&used.id).await.is_some()).await;
    assert_eq!(last_use(&unused.id).await, None);
}

#[tokio::test]
async fn a_credential_that_asks_too_much_waits() {
    let world = World::with(|config| config.rates.per_credential = 1).await;
    let (busy, calm) = (world.key(Role::TenantViewer).await, world.key(Role::TenantViewer).await);
    let mut limited = None;
    until("the rate is exceeded", async || {
        let answer = world.get(&busy, "/jobs").await;
        if answer.status == 429 {
            limited = Some(answer);
        }
        limited.is_some()
    })
    .await;
    let limited = limited.unwrap();
    assert!(limited.headers["retry-after"].to_str().unwrap().parse::<u64>().unwrap() >= 1);
    limited.refused(429, "JF105", "credential_rate");
    world.get(&calm, "/jobs").await.expect(200);
    until("it may ask again", async || world.get(&busy, "/jobs").await.status == 200).await;
}

#[tokio::test]
async fn an_address_that_guesses_is_turned_away_before_anything_is_asked() {
    let world = World::with(|config| {
        config.rates.refused_per_address = 1;
        config.credential_memory = FOR_EVER;
    })
    .await;
    let known = world.key(Role::TenantViewer).await;
    let guess = format!("jf_000000000000_{}", "x".repeat(43));
    let ask = |token: &str, from: &str| Ask::get("/jobs").bearer(token).from(from);
    ask(&known.text, "192.0.2.1:1000").of(&world.router).await.expect(200);
    let mut claimed = 0_u8;
    until("a sound key that would have to be looked up is turned away, too", async || {
        // Whatever it says of itself: the address is the connection's.
        claimed = claimed.wrapping_add(1);
        let elsewhere = format!("198.51.100.{claimed}");
        ask(&guess, "192.0.2.1:1000").header("x-forwarded-for", &elsewhere).of(&world.router).await;
        let fresh = world.key(Role::TenantViewer).await;
        let answer = ask(&fresh.text, "192.0.2.1:2000").of(&world.router).await;
        if answer.status == 429 {
            assert!(answer.headers.contains_key("retry-after"));
            answer.refused(429, "JF105", "refused_rate");
            return true;
        }
        false
    })
    .await;
    ask(&known.text, "192.0.2.1:3000").of(&world.router).await.expect(200);
    ask(&guess, "192.0.2.2:1000").of(&world.router).await.refused(401, "JF101", "credential_invalid");
}

#[tokio::test]
async fn who_acts_for_a_tenant_is_written_down_once_a_minute() {
    let world = World::new().await;
    let root = world.key(Role::SuperAdmin).await;
    let admin = world.db.connect_super().await;
    let noted = async || {
        let count = "select count(*) from jobforge.audit_log where action = 'act_for_tenant'";
        admin.query_one(count, &[]).await.unwrap().get::<_, i64>(0)
    };
    let ask = async |tenant: uuid::Uuid, path: &str| {
        let ask = Ask::get(path).key(&root).header("jobforge-tenant", &tenant.to_string());
        ask.of(&world.router).await
    };
    for _ in 0..3 {
        ask(TENANT_A, "/jobs").await.expect(200);
    }
    assert_eq!(noted().await, 1, "the same again is not news");
    ask(TENANT_B, "/jobs").await.expect(200);
    assert_eq!(noted().await, 2, "another tenant is");
    for _ in 0..2 {
        let unknown = uuid::Uuid::now_v7();
        ask(TENANT_A, &format!("/jobs/{unknown}")).await.refused(404, "JF007", "job_unknown");
    }
    assert_eq!(noted().await, 3, "another route is, whatever the job");
}

/// Waits until so many servers listen.
async fn listens(world: &World, servers: i64) {
    let admin = world.db.connect_super().await;
    let sql =
        "select count(*) from pg_stat_activity where datname = current_database() and query like 'listen %'";
    until("the server listens", async || {
        admin.query_one(sql, &[]).await.unwrap().get::<_, i64>(0) == servers
    })
    .await;
}
