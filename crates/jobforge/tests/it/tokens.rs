//! Tokens of an issuer at the real server: signed with a secret, or with keys that are published over HTTP.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener};
use std::process::Stdio;
use std::sync::{Arc, Mutex};

use jiff::Timestamp;
use jobforge_testkit::{APP, IssuerKey, OPERATOR, TENANT_A, TENANT_B};
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use serde_json::{Value, json};

use crate::dev_server::{DevServer, open_dir};
use crate::serve::{Serve, request};
use crate::{Cli, Ran, demo_db, until};

const ISSUER: &str = "https://project.example/auth/v1";
const SECRET: &str = "canary: a secret of more than thirty-two bytes";

fn claims() -> Value {
    json!({
      "sub": "ann", "iss": ISSUER, "aud": "authenticated", "exp": Timestamp::now().as_second() + 600,
      "role": "authenticated",
      "app_metadata": { "tenant_id": TENANT_A.to_string(), "role": "tenant_admin" },
      "user_metadata": { "tenant_id": TENANT_B.to_string(), "role": "super_admin" },
    })
}

/// The claims with one of them changed, or left out.
fn but(name: &str, value: Value) -> Value {
    let mut claims = claims();
    match value {
        Value::Null => claims.as_object_mut().unwrap().remove(name),
        value => claims.as_object_mut().unwrap().insert(name.to_owned(), value),
    };
    claims
}

fn wrong_claims() -> Vec<(&'static str, Value)> {
    let now = Timestamp::now().as_second();
    let app = |tenant: Value, role: &str| json!({ "tenant_id": tenant, "role": role });
    let ours = json!(TENANT_A.to_string());
    vec![
        ("expired", but("exp", json!(now - 3600))),
        ("no expiry", but("exp", Value::Null)),
        ("not yet", but("nbf", json!(now + 3600))),
        ("issuer", but("iss", json!("https://other.example/auth/v1"))),
        ("audience", but("aud", json!("anon"))),
        ("no tenant", but("app_metadata", json!({ "role": "tenant_admin" }))),
        ("no tenant but the user's word", but("app_metadata", Value::Null)),
        ("tenant no UUID", but("app_metadata", app(json!("acme"), "tenant_admin"))),
        ("no role", but("app_metadata", json!({ "tenant_id": ours }))),
        ("unknown role", but("app_metadata", app(ours.clone(), "authenticated"))),
        ("super-admin", but("app_metadata", app(ours.clone(), "super_admin"))),
    ]
}

fn hs256(claims: &Value, secret: &str) -> String {
    encode(&Header::new(Algorithm::HS256), claims, &EncodingKey::from_secret(secret.as_bytes())).unwrap()
}

/// Whose tokens, and no end of wrong ones.
const COMMON: [(&str, &str); 3] = [
    ("JOBFORGE_SERVER__TOKENS__ISSUER", ISSUER),
    ("JOBFORGE_SERVER__TOKENS__AUDIENCE", "authenticated"),
    ("JOBFORGE_SERVER__RATES__REFUSED_PER_ADDRESS", "100000"),
];

fn status(server: &Serve, token: &str) -> u16 {
    request(&server.url, token, "GET /api/v1/jobs", None).0
}

#[track_caller]
fn refused(server: &Serve, why: &str, token: &str) {
    let (status, answer) = request(&server.url, token, "GET /api/v1/jobs", None);
    assert_eq!((status, answer["code"].as_str()), (401, Some("JF101")), "{why}: {answer}");
}

/// An issuer that publishes over HTTP what the test says, and counts who asks.
struct Issuer {
    address: SocketAddr,
    said: Arc<Mutex<Said>>,
}

struct Said {
    status: u16,
    body: String,
    asked: usize,
}

impl Issuer {
    fn start() -> Issuer {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let said = Arc::new(Mutex::new(Said { status: 503, body: String::new(), asked: 0 }));
        let says = said.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let lines = BufReader::new(stream.try_clone().unwrap()).lines();
                let line =
                    lines.map_while(Result::ok).take_while(|line| !line.is_empty()).collect::<Vec<_>>();
                assert!(line.first().is_none_or(|line| line.starts_with("GET /keys ")), "{line:?}");
                let mut says = says.lock().unwrap();
                says.asked += 1;
                let Said { status, body, .. } = &*says;
                let length = body.len();
                let _ = write!(
                    stream,
                    "HTTP/1.1 {status} X\r\nconnection: close\r\nlocation: /keys\r\ncontent-length: {length}\r\n\r\n{body}"
                );
            }
        });
        Issuer { address, said }
    }

    fn publishes(&self, keys: &[&IssuerKey]) {
        let keys: Vec<Value> = keys.iter().map(|key| key.jwk()).collect();
        self.says(200, &json!({ "keys": keys }).to_string());
    }

    fn says(&self, status: u16, body: &str) {
        let mut said = self.said.lock().unwrap();
        (said.status, said.body) = (status, body.to_owned());
    }

    fn asked(&self) -> usize {
        self.said.lock().unwrap().asked
    }

    fn url(&self) -> String {
        format!("http://{}/keys", self.address)
    }

    /// A server that takes this issuer's tokens and may fetch its keys as often.
    fn serve(&self, db: &jobforge_testkit::TestDb, seconds: &str) -> Serve {
        let url = self.url();
        let own = [
            ("JOBFORGE_SERVER__TOKENS__JWKS_URL", url.as_str()),
            ("JOBFORGE_SERVER__TOKENS__JWKS_REFETCH_SECONDS", seconds),
            ("JOBFORGE_SERVER__TOKENS__JWKS_MAX_AGE_SECONDS", seconds),
            ("JOBFORGE_EGRESS__ALLOW", "127.0.0.1"),
        ];
        Serve::start_with(db, Stdio::null(), &[&COMMON[..], &own].concat())
    }
}

#[tokio::test]
async fn a_token_signed_with_the_secret_acts_for_its_tenant() {
    let db = demo_db().await;
    let key = Cli::new(&db, OPERATOR).run(&["keys", "create", "producer"]).stdout;
    let dir = tempfile::tempdir().unwrap();
    let said = dir.path().join("stderr");
    let own = [
        ("JOBFORGE_SERVER__TOKENS__SECRET", "env:JOBFORGE_TOKEN_SECRET"),
        ("JOBFORGE_TOKEN_SECRET", SECRET),
        ("JOBFORGE_LOG__FILTER", "trace"),
    ];
    let stderr = fs::File::create(&said).unwrap();
    let server = Serve::start_with(&db, stderr.into(), &[&COMMON[..], &own].concat());
    let token = hs256(&claims(), SECRET);
    let (status, who) = request(&server.url, &token, "GET /api/v1/session", None);
    assert_eq!((status, who["credential"].as_str()), (200, Some("token ann")), "{who}");
    assert_eq!((&who["tenant_id"], &who["role"]), (&json!(TENANT_A.to_string()), &json!("tenant_admin")));
    let body = r#"{"type": "demo.echo", "payload": {"n": 1}}"#;
    for credential in [token.as_str(), key.trim()] {
        let (status, job) = request(&server.url, credential, "POST /api/v1/jobs", Some(body));
        assert_eq!((status, &job["tenant_id"]), (201, &json!(TENANT_A.to_string())), "{job}");
    }
    for (why, claims) in wrong_claims() {
        refused(&server, why, &hs256(&claims, SECRET));
    }
    refused(&server, "another secret", &hs256(&claims(), "another secret of more than thirty-two bytes"));
    refused(&server, "published keys are not taken", &IssuerKey::es256("one").sign(&claims()));
    let (head, payload) = ("eyJhbGciOiJub25lIn0", token.split('.').nth(1).unwrap());
    refused(&server, "not signed", &format!("{head}.{payload}."));
    drop(server);
    let said = fs::read_to_string(said).unwrap();
    assert!(said.contains("the server is ready") && !said.contains("canary"), "the secret is in the log");
}

#[tokio::test]
async fn published_keys_are_fetched_once_for_any_number_of_made_up_ones() {
    let db = demo_db().await;
    let (issuer, rsa, ec) = (Issuer::start(), IssuerKey::rs256("rsa"), IssuerKey::es256("ec"));
    issuer.publishes(&[&rsa, &ec]);
    let server = issuer.serve(&db, "3600");
    assert_eq!(issuer.asked(), 0, "nobody has shown a token");
    for key in [&rsa, &ec] {
        assert_eq!(status(&server, &key.sign(&claims())), 200);
        for (why, claims) in wrong_claims() {
            refused(&server, why, &key.sign(&claims));
        }
    }
    refused(&server, "the public key as a secret", &rsa.forge_with(&rsa.public, &claims()));
    refused(&server, "a secret", &hs256(&claims(), SECRET));
    for number in 0..20 {
        refused(&server, "a made-up key", &IssuerKey::es256(&format!("made-up {number}")).sign(&claims()));
    }
    assert_eq!(issuer.asked(), 1);
}

#[tokio::test]
async fn keys_follow_the_issuer_and_stay_while_it_has_no_answer() {
    let db = demo_db().await;
    let (issuer, old, new) = (Issuer::start(), IssuerKey::es256("old"), IssuerKey::rs256("new"));
    let server = issuer.serve(&db, "1");
    let (by_old, by_new) = (old.sign(&claims()), new.sign(&claims()));
    let (code, answer) = request(&server.url, &by_old, "GET /api/v1/jobs", None);
    assert_eq!((code, answer["reason"].as_str()), (503, Some("issuer_unavailable")), "{answer}");
    issuer.publishes(&[&old]);
    until("the issuer is asked again", || (status(&server, &by_old) == 200).then_some(()));
    refused(&server, "not published yet", &by_new);

    issuer.publishes(&[&new]);
    until("the new key counts", || (status(&server, &by_new) == 200).then_some(()));
    refused(&server, "withdrawn", &by_old);

    let huge = json!({ "keys": [old.jwk()], "more": "x".repeat(300_000) }).to_string();
    let both = json!({ "keys": [old.jwk()] }).to_string();
    for (status_said, body) in
        [(500, both.as_str()), (302, &both), (200, "<html>"), (200, r#"{"keys":[]}"#), (200, &huge)]
    {
        issuer.says(status_said, body);
        let before = issuer.asked();
        until("the issuer is asked twice more", || {
            assert_eq!(status(&server, &by_new), 200, "{status_said} {body:.20}");
            (issuer.asked() >= before + 2).then_some(())
        });
        refused(&server, "of an answer that is none", &by_old);
    }
}

#[tokio::test]
async fn settings_that_cannot_work_are_told_before_anything_starts() {
    let db = demo_db().await;
    let cli = Cli::new(&db, APP);
    let (url, pem) =
        ("JOBFORGE_SERVER__TOKENS__JWKS_URL", "-----BEGIN PUBLIC KEY-----\ncanarycanarycanarycanary");
    let (secret, variable) = ("JOBFORGE_SERVER__TOKENS__SECRET", ("OF_THE_ISSUER", SECRET));
    let by_name = (secret, "env:OF_THE_ISSUER");
    let cases: [(&str, &[(&str, &str)]); 10] = [
        ("OF_THE_ISSUER is not set", &[by_name]),
        ("32 bytes or more", &[by_name, ("OF_THE_ISSUER", "canary")]),
        ("a key of another kind", &[by_name, ("OF_THE_ISSUER", pem)]),
        ("as env:NAME", &[(secret, SECRET)]),
        ("as env:NAME", &[(secret, "7777")]),
        (
            "which tenants can read",
            &[(secret, "env:JOBFORGE_SECRET_TOKENS"), ("JOBFORGE_SECRET_TOKENS", SECRET)],
        ),
        ("exclude each other", &[by_name, variable, (url, "https://issuer.example/keys")]),
        (
            "user_metadata",
            &[by_name, variable, ("JOBFORGE_SERVER__TOKENS__TENANT_CLAIM", "user_metadata.tenant_id")],
        ),
        ("127.0.0.1 is not an address that may be reached", &[(url, "http://127.0.0.1:9999/keys")]),
        ("a user name or password", &[(url, "https://ann:canary@issuer.example/keys")]),
    ];
    for (words, settings) in cases {
        let mut command = cli.command();
        command.args(["serve", "--listen", "127.0.0.1:0"]).envs(COMMON).envs(settings.iter().copied());
        // A login that leads nowhere: nothing may be asked of a database before.
        command.env("JOBFORGE_SERVER__OPERATOR_URL", "postgres://nobody@127.0.0.1:1/none");
        let ran = Ran::of(command.output().unwrap());
        assert_eq!(ran.code, 2, "{words}: {ran:?}");
        assert!(ran.stderr.contains(words), "{words}: {ran:?}");
        assert!(!ran.stderr.contains("canary") && !ran.stderr.contains("7777"), "{ran:?}");
    }
}

#[test]
fn a_development_server_takes_tokens_of_an_issuer_on_this_machine() {
    let (dir, issuer, key) = (open_dir(), Issuer::start(), IssuerKey::es256("one"));
    issuer.publishes(&[&key]);
    let settings = format!(
        "[server.tokens]\njwks_url = \"{}\"\nissuer = \"{ISSUER}\"\naudience = \"authenticated\"\n\
         tenant_claim = \"org\"\n",
        issuer.url()
    );
    fs::write(dir.path().join("jobforge.toml"), settings).unwrap();
    let server = DevServer::start(dir.path(), &["--no-demo", "--listen", "127.0.0.1:0"]);
    let told: Value = serde_json::from_str(&fs::read_to_string(server.dev_file()).unwrap()).unwrap();
    let token = key.sign(&but("org", told["tenant_id"].clone()));
    let (status, who) = request(told["url"].as_str().unwrap(), &token, "GET /api/v1/session", None);
    assert_eq!((status, &who["tenant_id"]), (200, &told["tenant_id"]), "{who}");
}
