//! Sessions of the web page: a cookie with a random id, of which the database keeps the hash. A session is its key's,
//! and ends with it.

use std::time::Duration;

use axum::http::HeaderValue;
use axum::http::request::Parts;
use axum_extra::extract::cookie::CookieJar;
use jiff::Timestamp;
use jobforge_core::{FoundSession, rpc};
use sha2::{Digest, Sha256};

use super::memory::Memory;
use super::rate::Peer;
use super::{Identity, key, origin};
use crate::app::App;
use crate::problem::Problem;

/// How long a session lives.
pub(crate) const LIFETIME: Duration = Duration::from_secs(12 * 3600);

/// A browser takes a cookie of this name only for the host alone, and over TLS.
const SECURE_NAME: &str = "__Host-jobforge";
/// On the caller's own machine there is no TLS.
const LOCAL_NAME: &str = "jobforge";

/// A session's id, which only its browser has.
pub(crate) struct SessionId(String);

impl SessionId {
    pub(crate) fn generate() -> SessionId {
        SessionId(key::random_secret())
    }

    /// The id that a request's cookie shows, if it has the form of one.
    pub(crate) fn of(parts: &Parts) -> Option<SessionId> {
        let jar = CookieJar::from_headers(&parts.headers);
        let id = jar.get(name(parts))?.value();
        key::is_secret(id).then(|| SessionId(id.to_owned()))
    }

    /// What is stored.
    pub(crate) fn sha256(&self) -> [u8; 32] {
        Sha256::digest(self.0.as_bytes()).into()
    }

    /// The cookie that makes a browser show this id from now on.
    pub(crate) fn cookie(&self, parts: &Parts) -> Result<HeaderValue, Problem> {
        cookie(parts, &self.0, LIFETIME)
    }
}

/// Whether a request shows a session's cookie, of whatever form.
pub(crate) fn has_cookie(parts: &Parts) -> bool {
    CookieJar::from_headers(&parts.headers).get(name(parts)).is_some()
}

/// The cookie that makes a browser forget its session.
pub(crate) fn no_cookie(parts: &Parts) -> Result<HeaderValue, Problem> {
    cookie(parts, "", Duration::ZERO)
}

fn cookie(parts: &Parts, value: &str, age: Duration) -> Result<HeaderValue, Problem> {
    let name = name(parts);
    let secure = if name == SECURE_NAME { "; Secure" } else { "" };
    let age = age.as_secs();
    let text = format!("{name}={value}; Path=/; Max-Age={age}; HttpOnly; SameSite=Strict{secure}");
    HeaderValue::from_str(&text).map_err(|_| Problem::malformed("cookie_malformed", "the cookie has no form"))
}

fn name(parts: &Parts) -> &'static str {
    if origin::is_local(&parts.headers, &parts.uri) { LOCAL_NAME } else { SECURE_NAME }
}

/// What is known of sessions right now.
#[derive(Debug)]
pub(crate) struct Sessions(Memory<[u8; 32], FoundSession>);

impl Sessions {
    /// Sessions whose look-ups are believed for this long.
    pub(crate) fn new(fresh: Duration) -> Sessions {
        Sessions(Memory::new(fresh))
    }

    /// Whose session this is.
    pub(crate) async fn identify(&self, app: &App, peer: Peer, id: &SessionId) -> Result<Identity, Problem> {
        let hash = id.sha256();
        let session = match self.0.get(&hash) {
            Some(session) => session,
            None => self.look_up(app, peer, hash).await?.ok_or_else(Problem::unauthenticated)?,
        };
        if session.expires_at <= Timestamp::now() {
            return Err(Problem::unauthenticated());
        }
        app.keys.note_use(&session.key_id);
        let credential = format!("session of key {}{}", key::PREFIX, session.key_id);
        Ok(Identity { scope: session.scope, credential })
    }

    /// Forgets a key's sessions.
    pub(crate) fn forget(&self, key_id: &str) {
        self.0.forget(|_, session| session.key_id == key_id);
    }

    /// Forgets all.
    pub(crate) fn forget_all(&self) {
        self.0.forget(|_, _| true);
    }

    async fn look_up(&self, app: &App, peer: Peer, hash: [u8; 32]) -> Result<Option<FoundSession>, Problem> {
        app.rates.admit(peer)?;
        let asked = self.0.ask();
        let client = app.db.operator().await?;
        let found = client.call(async |c| rpc::find_session(c, &hash).await).await?;
        if let Some(session) = &found {
            self.0.keep(asked, hash, session.clone());
        }
        Ok(found)
    }
}
