//! Tokens of an issuer: taken when everything about them is in order, refused with one answer when anything is not.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use jiff::Timestamp;
use jobforge_server::auth::{FetchJwks, Fetching, PublishedKeys, TokenConfig, TokenKeys};
use jobforge_server::{Server, StartError};
use jobforge_testkit::{IssuerKey, NOOP, TENANT_A, TestDb};
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use serde_json::{Value, json};

use crate::auth_support::{Ask, config};
use crate::world::World;

const ISSUER: &str = "https://issuer.example/auth/v1";
const AUDIENCE: &str = "authenticated";
const SECRET: &str = "a secret of more than thirty-two bytes";

fn claims() -> Value {
    json!({
      "sub": "ann", "iss": ISSUER, "aud": AUDIENCE, "exp": Timestamp::now().as_second() + 600,
      "app_metadata": { "tenant_id": TENANT_A.to_string(), "role": "tenant_admin" },
      "user_metadata": { "tenant_id": "22222222-2222-2222-2222-222222222222", "role": "super_admin" },
    })
}

fn with(changes: &[(&str, Value)]) -> Value {
    let mut claims = claims();
    for (pointer, value) in changes {
        let (parent, name) = pointer.rsplit_once('/').unwrap();
        let parent = claims.pointer_mut(parent).unwrap().as_object_mut().unwrap();
        match value {
            Value::Null => parent.remove(name),
            value => parent.insert(name.to_owned(), value.clone()),
        };
    }
    claims
}

fn signed(claims: &Value) -> String {
    encode(&Header::new(Algorithm::HS256), claims, &EncodingKey::from_secret(SECRET.as_bytes())).unwrap()
}

async fn with_secret() -> World {
    let keys = TokenKeys::Secret(SECRET.into());
    World::with(|config| {
        config.tokens = Some(TokenConfig::new(keys, ISSUER, AUDIENCE));
        config.rates.refused_per_address = 0;
    })
    .await
}

async fn all_refused(world: &World, tokens: Vec<(&str, String)>) {
    let plain = Ask::get("/jobs").of(&world.router).await.bytes;
    let mut taken = Vec::new();
    for (why, token) in tokens {
        let answer = Ask::get("/jobs").bearer(&token).of(&world.router).await;
        if answer.status != 401 || answer.bytes != plain {
            taken.push(format!("{why}: {}", answer.status));
        }
    }
    assert!(taken.is_empty(), "not refused like all others: {taken:#?}");
}

#[tokio::test]
async fn a_token_acts_for_its_tenant_and_is_written_down_by_its_subject() {
    let world = with_secret().await;
    let token = signed(&claims());
    let who = Ask::get("/session").bearer(&token).of(&world.router).await.expect(200);
    assert_eq!((&who["role"], &who["tenant_id"]), (&json!("tenant_admin"), &json!(TENANT_A.to_string())));
    assert_eq!(who["credential"], "token ann");
    let job = Ask::post("/jobs", &json!({ "type": NOOP })).bearer(&token).of(&world.router).await.expect(201);
    assert_eq!(job["tenant_id"], TENANT_A.to_string());
    let other =
        Ask::get("/jobs").bearer(&token).header("jobforge-tenant", "22222222-2222-2222-2222-222222222222");
    other.of(&world.router).await.refused(403, "JF009", "tenant_foreign");
    let now = Timestamp::now().as_second();
    for fine in [
        with(&[("/exp", json!(now - 20))]),
        with(&[("/nbf", json!(now + 20))]),
        with(&[("/aud", json!(["other", AUDIENCE]))]),
    ] {
        Ask::get("/jobs").bearer(&signed(&fine)).of(&world.router).await.expect(200);
    }
}

#[tokio::test]
async fn whatever_is_wrong_with_a_token_gets_one_answer() {
    let world = with_secret().await;
    let now = Timestamp::now().as_second();
    let wrong = [
        ("expired", vec![("/exp", json!(now - 40))]),
        ("no expiry", vec![("/exp", Value::Null)]),
        ("expiry as text", vec![("/exp", json!("never"))]),
        ("not yet", vec![("/nbf", json!(now + 40))]),
        ("issuer", vec![("/iss", json!("https://evil.example"))]),
        ("issuer as a list", vec![("/iss", json!([ISSUER]))]),
        ("no issuer", vec![("/iss", Value::Null)]),
        ("audience", vec![("/aud", json!("anon"))]),
        ("no audience", vec![("/aud", Value::Null)]),
        ("no subject", vec![("/sub", Value::Null)]),
        ("empty subject", vec![("/sub", json!(""))]),
        ("subject with a newline", vec![("/sub", json!("ann\nroot"))]),
        ("long subject", vec![("/sub", json!("a".repeat(201)))]),
        ("no tenant", vec![("/app_metadata/tenant_id", Value::Null)]),
        ("tenant as number", vec![("/app_metadata/tenant_id", json!(7))]),
        ("tenant as array", vec![("/app_metadata/tenant_id", json!([TENANT_A.to_string()]))]),
        ("tenant as object", vec![("/app_metadata/tenant_id", json!({ "id": TENANT_A.to_string() }))]),
        ("tenant no UUID", vec![("/app_metadata/tenant_id", json!("a"))]),
        ("tenant in braces", vec![("/app_metadata/tenant_id", json!(format!("{{{TENANT_A}}}")))]),
        ("no role", vec![("/app_metadata/role", Value::Null)]),
        ("unknown role", vec![("/app_metadata/role", json!("root"))]),
        ("super-admin", vec![("/app_metadata/role", json!("super_admin"))]),
        ("role as array", vec![("/app_metadata/role", json!(["tenant_admin"]))]),
        ("only what users write", vec![("/app_metadata", Value::Null)]),
        ("claims as text", vec![("/app_metadata", json!("tenant_id"))]),
    ];
    let mut tokens: Vec<(&str, String)> =
        wrong.iter().map(|(why, changes)| (*why, signed(&with(changes)))).collect();
    let sound = signed(&claims());
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let body = part(&claims());
    let other_key = EncodingKey::from_secret(b"another secret of more than thirty-two bytes");
    let (head, _) = sound.rsplit_once('.').unwrap();
    let mut critical = Header::new(Algorithm::HS256);
    critical.crit = Some(vec!["b64".to_owned()]);
    let ours = EncodingKey::from_secret(SECRET.as_bytes());
    tokens.extend([
        ("none", format!("{}.{body}.", part(&json!({ "alg": "none", "typ": "JWT" })))),
        ("None", format!("{}.{body}.", part(&json!({ "alg": "None" })))),
        ("no signature", format!("{head}.")),
        ("other secret", encode(&Header::new(Algorithm::HS256), &claims(), &other_key).unwrap()),
        ("HS512", encode(&Header::new(Algorithm::HS512), &claims(), &ours).unwrap()),
        ("critical header", encode(&critical, &claims(), &ours).unwrap()),
        ("other body", format!("{}.{body}.{}", head.split_once('.').unwrap().0, "AAAA")),
        ("two parts", head.to_owned()),
        ("four parts", format!("{sound}.a")),
        ("endless", format!("{sound}{}", "a".repeat(20_000))),
        ("nothing", ".".to_owned()),
    ]);
    all_refused(&world, tokens).await;
    Ask::get("/jobs").bearer(&sound).of(&world.router).await.expect(200);
    let session = Ask::post("/session", &json!({ "key": sound })).of(&world.router).await;
    session.refused(401, "JF101", "credential_invalid");
}

/// An issuer that publishes what the test says.
#[derive(Debug, Default)]
struct Issuer(Mutex<Option<Value>>);

impl FetchJwks for Issuer {
    fn fetch<'a>(&'a self, url: &'a str) -> Fetching<'a> {
        Box::pin(async move {
            assert_eq!(url, "https://issuer.example/jwks");
            self.0
                .lock()
                .unwrap()
                .as_ref()
                .map(|set| set.to_string().into_bytes())
                .ok_or_else(|| "down".into())
        })
    }
}

fn pem(kind: &str, der: &[u8]) -> Vec<u8> {
    let text = STANDARD.encode(der);
    let lines: Vec<&str> =
        text.as_bytes().chunks(64).map(|line| std::str::from_utf8(line).unwrap()).collect();
    format!("-----BEGIN {kind}-----\n{}\n-----END {kind}-----\n", lines.join("\n")).into_bytes()
}

fn published_by(issuer: &Arc<Issuer>) -> TokenConfig {
    let keys = PublishedKeys::new("https://issuer.example/jwks", issuer.clone());
    TokenConfig::new(TokenKeys::Jwks(keys), ISSUER, AUDIENCE)
}

#[tokio::test]
async fn published_keys_count_for_their_own_algorithm_alone() {
    let (rsa, ec, other) = (IssuerKey::rs256("rsa"), IssuerKey::es256("ec"), IssuerKey::es256("ec"));
    let (secret, new) = (IssuerKey::es256("oct"), IssuerKey::es256("new"));
    let issuer = Arc::new(Issuer::default());
    let published_secret = json!({ "kty": "oct", "kid": "oct", "k": URL_SAFE_NO_PAD.encode(SECRET) });
    *issuer.0.lock().unwrap() = Some(json!({ "keys": [rsa.jwk(), ec.jwk(), published_secret] }));
    let world = World::with(|config| config.tokens = Some(published_by(&issuer))).await;
    let with_rsa = rsa.sign(&claims());
    for token in [&with_rsa, &ec.sign(&claims())] {
        Ask::get("/jobs").bearer(token).of(&world.router).await.expect(200);
    }

    // The public key is public: as the secret of an HMAC anybody could sign with it.
    let public_pem = pem("RSA PUBLIC KEY", &rsa.public);
    let modulus = rsa.jwk()["n"].as_str().unwrap().to_owned();
    let as_rsa = |algorithm| rsa.sign_as(&rsa.header(algorithm), &claims());
    all_refused(
        &world,
        vec![
            ("RSA key as a secret: PEM", rsa.forge_with(&public_pem, &claims())),
            ("RSA key as a secret: DER", rsa.forge_with(&rsa.public, &claims())),
            ("RSA key as a secret: modulus", rsa.forge_with(modulus.as_bytes(), &claims())),
            ("RSA key as a secret: modulus, decoded", {
                rsa.forge_with(&URL_SAFE_NO_PAD.decode(&modulus).unwrap(), &claims())
            }),
            ("P-256 key as a secret: point", ec.forge_with(&ec.public, &claims())),
            ("a published secret", secret.forge_with(SECRET.as_bytes(), &claims())),
            ("an algorithm that is not listed", as_rsa(Algorithm::RS512)),
            ("a padding that is not listed", as_rsa(Algorithm::PS256)),
            ("the wrong key's name", rsa.sign_as(&ec.header(Algorithm::RS256), &claims())),
            ("somebody else's key", other.sign(&claims())),
            ("an unknown name", new.sign(&claims())),
            ("no name, of two keys", ec.sign_as(&Header::new(Algorithm::ES256), &claims())),
        ],
    )
    .await;
    *issuer.0.lock().unwrap() = None;
    Ask::get("/jobs").bearer(&with_rsa).of(&world.router).await.expect(200);
}

#[tokio::test]
async fn an_issuer_that_was_never_reached_is_no_fault_of_the_token() {
    let issuer = Arc::new(Issuer::default());
    let world = World::with(|config| config.tokens = Some(published_by(&issuer))).await;
    let token = signed(&claims());
    Ask::get("/jobs").bearer(&token).of(&world.router).await.refused(503, "JF106", "issuer_unavailable");
}

#[tokio::test]
async fn a_tenant_that_nobody_made_is_not_made_by_a_token() {
    let world = with_secret().await;
    let unknown = with(&[("/app_metadata/tenant_id", json!("99999999-9999-9999-9999-999999999999"))]);
    let token = signed(&unknown);
    for ask in [Ask::get("/jobs"), Ask::post("/jobs", &json!({ "type": NOOP }))] {
        ask.bearer(&token).of(&world.router).await.refused(404, "JF007", "tenant_unknown");
    }
}

#[tokio::test]
async fn claims_stand_where_the_settings_say_and_clocks_may_differ_as_far() {
    let world = World::with(|config| {
        let mut tokens = TokenConfig::new(TokenKeys::Secret(SECRET.into()), ISSUER, AUDIENCE);
        tokens.claims.tenant_claim = "org".to_owned();
        tokens.claims.role_claim = "a.b.role".to_owned();
        tokens.claims.leeway = Duration::ZERO;
        config.tokens = Some(tokens);
        config.rates.refused_per_address = 0;
    })
    .await;
    let at = |changes: &[(&str, Value)]| {
        let own =
            [("/org", json!(TENANT_A.to_string())), ("/a", json!({ "b": { "role": "tenant_viewer" } }))];
        signed(&with(&[&own[..], changes].concat()))
    };
    let who = Ask::get("/session").bearer(&at(&[])).of(&world.router).await.expect(200);
    assert_eq!((&who["role"], &who["tenant_id"]), (&json!("tenant_viewer"), &json!(TENANT_A.to_string())));
    let now = Timestamp::now().as_second();
    let wrong = vec![
        ("the usual places", signed(&claims())),
        ("expired, within the usual leeway", at(&[("/exp", json!(now - 20))])),
        ("not yet, within the usual leeway", at(&[("/nbf", json!(now + 25))])),
        ("no tenant", at(&[("/org", Value::Null)])),
        ("no role", at(&[("/a/b", json!({}))])),
    ];
    all_refused(&world, wrong).await;
}

#[tokio::test]
async fn unsound_settings_do_not_start() {
    let db = TestDb::new().await;
    let mut config = config(&db);
    let mut tokens = TokenConfig::new(TokenKeys::Secret(SECRET.into()), ISSUER, AUDIENCE);
    tokens.claims.tenant_claim = "user_metadata.tenant_id".to_owned();
    config.tokens = Some(tokens);
    let refused = Server::new(config).await.unwrap_err();
    assert!(matches!(refused, StartError::Tokens(why) if why.contains("user_metadata")));
}
