//! The first key.

use axum::Router;
use jobforge_core::Role;
use jobforge_server::Server;
use jobforge_testkit::TestDb;
use secrecy::ExposeSecret;
use serde_json::json;

use crate::auth_support::{Ask, config};
use crate::world::{Answer, World};

const HERE: &str = "127.0.0.1:5000";

async fn offering(db: &TestDb) -> (Router, String) {
    let server = Server::new(config(db)).await.unwrap();
    let token = server.bootstrap_token().expect("there is no key yet").expose_secret().to_owned();
    (server.router(), token)
}

async fn bootstrap(router: &Router, token: &str, from: &str) -> Answer {
    Ask::post("/bootstrap", &json!({ "token": token })).from(from).of(router).await
}

#[tokio::test]
async fn the_first_key_is_made_once_on_this_machine() {
    let db = TestDb::new().await;
    let (router, token) = offering(&db).await;
    let remote = bootstrap(&router, &token, "192.0.2.1:5000").await;
    remote.refused(403, "JF009", "bootstrap_remote");
    let nowhere = Ask::post("/bootstrap", &json!({ "token": token })).of(&router).await;
    nowhere.refused(403, "JF009", "bootstrap_remote");
    let page = Ask::post("/bootstrap", &json!({ "token": token })).header("sec-fetch-site", "cross-site");
    page.from(HERE).of(&router).await.refused(403, "JF009", "cross_site");
    bootstrap(&router, "guess", HERE).await.refused(401, "JF101", "credential_invalid");

    let answer = bootstrap(&router, &token, HERE).await;
    assert_eq!(answer.headers["cache-control"], "no-store");
    let made = answer.expect(201);
    let who = Ask::get("/session").bearer(made["key"].as_str().unwrap()).of(&router).await.expect(200);
    assert_eq!((who["role"].as_str(), &who["tenant_id"]), (Some("super_admin"), &json!(null)));

    bootstrap(&router, &token, HERE).await.refused(404, "JF104", "route_unknown");
    let again = Server::new(config(&db)).await.unwrap();
    assert!(again.bootstrap_token().is_none(), "a server with keys offers nothing");
    bootstrap(&again.router(), &token, HERE).await.refused(404, "JF104", "route_unknown");
}

#[tokio::test]
async fn of_two_servers_one_gives_out_the_first_key() {
    let db = TestDb::new().await;
    let ((one, token_one), (two, token_two)) = (offering(&db).await, offering(&db).await);
    let (first, second) =
        tokio::join!(bootstrap(&one, &token_one, HERE), bootstrap(&two, &token_two, "[::1]:5000"));
    let (made, late, loser, token) =
        if first.status == 201 { (first, second, two, token_two) } else { (second, first, one, token_one) };
    made.expect(201);
    late.refused(409, "JF008", "keys_exist");
    bootstrap(&loser, &token, HERE).await.refused(404, "JF104", "route_unknown");
}

#[tokio::test]
async fn ten_guesses_end_the_offer() {
    let db = TestDb::new().await;
    let (router, token) = offering(&db).await;
    for _ in 0..10 {
        bootstrap(&router, "guess", HERE).await.refused(401, "JF101", "credential_invalid");
    }
    bootstrap(&router, &token, HERE).await.refused(404, "JF104", "route_unknown");
}

#[tokio::test]
async fn a_key_made_elsewhere_ends_the_offer() {
    let world = World::new().await;
    let (router, token) = offering(&world.db).await;
    world.key(Role::SuperAdmin).await;
    bootstrap(&router, &token, HERE).await.refused(409, "JF008", "keys_exist");
}
