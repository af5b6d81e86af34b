//! The keys that an issuer publishes, fetched when they are needed and kept while they cannot be fetched.

use std::error::Error as StdError;
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, KeyAlgorithm, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey};
use serde::Deserialize;
use serde_json::Value;

use super::token::TokenAlgorithm;

/// The shortest time between two fetches: a token with a made-up key id costs the issuer no more than that.
const BETWEEN: Duration = Duration::from_secs(60);
/// The same while nothing was ever fetched.
pub(super) const BETWEEN_FIRST: Duration = Duration::from_secs(5);
/// After this a key that the issuer has withdrawn is noticed.
const STALE: Duration = Duration::from_secs(600);
/// How long a fetch may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// The largest answer, in bytes, and the most keys of it.
const LARGEST: usize = 256 << 10;
const MOST: usize = 100;

/// Fetches what stands at a URL. The server has no HTTP client: whoever starts it lends the one with the egress guard.
pub trait FetchJwks: fmt::Debug + Send + Sync {
    /// The body of a successful answer.
    fn fetch<'a>(&'a self, url: &'a str) -> Fetching<'a>;
}

/// A fetch under way.
pub type Fetching<'a> =
    Pin<Box<dyn Future<Output = Result<Vec<u8>, Box<dyn StdError + Send + Sync>>> + Send + 'a>>;

/// An issuer's keys.
pub(crate) struct Jwks {
    url: String,
    algorithms: Vec<TokenAlgorithm>,
    fetch: Arc<dyn FetchJwks>,
    state: Mutex<State>,
    /// One fetches, the others wait for it.
    fetching: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct State {
    keys: Vec<Known>,
    fetched: Option<Instant>,
    tried: Option<Instant>,
}

#[derive(Clone)]
struct Known {
    id: Option<String>,
    algorithm: Algorithm,
    key: Arc<DecodingKey>,
}

/// What a key's id led to.
pub(crate) enum Found {
    /// The key, and the only algorithm it is good for.
    Key(Arc<DecodingKey>, Algorithm),
    /// The issuer has no such key.
    Unknown,
    /// Nothing was ever fetched.
    Unavailable,
}

impl Jwks {
    pub(crate) fn new(url: String, algorithms: Vec<TokenAlgorithm>, fetch: Arc<dyn FetchJwks>) -> Jwks {
        let (state, fetching) = Default::default();
        Jwks { url, algorithms, fetch, state, fetching }
    }

    /// The key of this id; without an id, the only key there is.
    pub(crate) async fn find(&self, id: Option<&str>, now: Instant) -> Found {
        let known = self.known(id);
        if known.is_none() {
            let _one = self.fetching.lock().await;
            if self.known(id).is_none() && self.may_fetch(now) {
                self.refresh(now).await;
            }
        } else if self.is_stale(now)
            && let Ok(_one) = self.fetching.try_lock()
            && self.may_fetch(now)
        {
            self.refresh(now).await;
        }
        match self.known(id) {
            Some(Known { key, algorithm, .. }) => Found::Key(key, algorithm),
            None if self.state().fetched.is_none() => Found::Unavailable,
            None => Found::Unknown,
        }
    }

    fn known(&self, id: Option<&str>) -> Option<Known> {
        let state = self.state();
        match (id, state.keys.as_slice()) {
            (Some(id), keys) => keys.iter().find(|known| known.id.as_deref() == Some(id)).cloned(),
            (None, [only]) => Some(only.clone()),
            (None, _) => None,
        }
    }

    fn is_stale(&self, now: Instant) -> bool {
        self.state().fetched.is_none_or(|at| now.saturating_duration_since(at) >= STALE)
    }

    fn may_fetch(&self, now: Instant) -> bool {
        let state = self.state();
        let between = if state.fetched.is_some() { BETWEEN } else { BETWEEN_FIRST };
        state.tried.is_none_or(|at| now.saturating_duration_since(at) >= between)
    }

    async fn refresh(&self, now: Instant) {
        self.state().tried = Some(now);
        let answer = match tokio::time::timeout(PATIENCE, self.fetch.fetch(&self.url)).await {
            Ok(answer) => answer,
            Err(_) => Err("no answer in time".into()),
        };
        match answer.and_then(|body| self.read(&body).map_err(Into::into)) {
            Ok(keys) => {
                let mut state = self.state();
                state.keys = keys;
                state.fetched = Some(now);
            }
            Err(error) => {
                tracing::warn!(
                    error = &*error as &dyn StdError,
                    url = self.url,
                    "the issuer's keys cannot be had"
                );
            }
        }
    }

    /// The keys of an answer that are of use here; a key of another kind is none of our business.
    fn read(&self, body: &[u8]) -> Result<Vec<Known>, String> {
        #[derive(Deserialize)]
        struct Set {
            keys: Vec<Value>,
        }
        if body.len() > LARGEST {
            return Err(format!("{} bytes are too many", body.len()));
        }
        let set: Set = serde_json::from_slice(body).map_err(|error| error.to_string())?;
        let jwks = set.keys.into_iter().take(MOST).filter_map(|key| serde_json::from_value(key).ok());
        let keys: Vec<Known> = jwks.filter_map(|jwk| self.usable(&jwk)).collect();
        if keys.is_empty() { Err("no usable key is among them".to_owned()) } else { Ok(keys) }
    }

    /// By the kind of the key, so that no token can choose: an RSA key is never the secret of an HMAC.
    fn usable(&self, jwk: &Jwk) -> Option<Known> {
        let (algorithm, allowed, named) = match &jwk.algorithm {
            AlgorithmParameters::RSA(_) => (Algorithm::RS256, TokenAlgorithm::Rs256, KeyAlgorithm::RS256),
            AlgorithmParameters::EllipticCurve(curve) if curve.curve == EllipticCurve::P256 => {
                (Algorithm::ES256, TokenAlgorithm::Es256, KeyAlgorithm::ES256)
            }
            _ => return None,
        };
        let signs = jwk.common.public_key_use.as_ref().is_none_or(|of| *of == PublicKeyUse::Signature);
        let fits = jwk.common.key_algorithm.is_none_or(|said| said == named);
        if !signs || !fits || !self.algorithms.contains(&allowed) {
            return None;
        }
        let key = Arc::new(DecodingKey::from_jwk(jwk).ok()?);
        Some(Known { id: jwk.common.key_id.clone(), algorithm, key })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// An issuer whose answer the test sets.
    #[derive(Debug, Default)]
    struct Issuer(Mutex<(Option<String>, usize)>);

    impl FetchJwks for Issuer {
        fn fetch<'a>(&'a self, _: &'a str) -> Fetching<'a> {
            Box::pin(async {
                let mut inner = self.0.lock().unwrap();
                inner.1 += 1;
                inner.0.clone().map(String::into_bytes).ok_or_else(|| "down".into())
            })
        }
    }

    impl Issuer {
        fn answers(&self, keys: Option<&[&str]>) {
            let key = |id: &&str| {
                json!({ "kty": "EC", "crv": "P-256", "kid": id,
                  "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",
                  "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0" })
            };
            let set = keys.map(|ids| json!({ "keys": ids.iter().map(key).collect::<Vec<_>>() }).to_string());
            self.0.lock().unwrap().0 = set;
        }

        fn fetches(&self) -> usize {
            self.0.lock().unwrap().1
        }
    }

    fn jwks(issuer: &Arc<Issuer>) -> Jwks {
        Jwks::new("https://issuer.example/jwks".to_owned(), vec![TokenAlgorithm::Es256], issuer.clone())
    }

    #[tokio::test]
    async fn an_unknown_key_fetches_once_a_minute() {
        let issuer = Arc::new(Issuer::default());
        issuer.answers(Some(&["one"]));
        let (jwks, start) = (jwks(&issuer), Instant::now());
        let after = |seconds| start + Duration::from_secs(seconds);
        assert!(matches!(jwks.find(Some("one"), start).await, Found::Key(_, Algorithm::ES256)));
        assert!(matches!(jwks.find(None, start).await, Found::Key(..)), "the only key needs no name");
        issuer.answers(Some(&["one", "two"]));
        assert!(matches!(jwks.find(Some("two"), after(59)).await, Found::Unknown));
        assert_eq!(issuer.fetches(), 1);
        assert!(matches!(jwks.find(Some("two"), after(60)).await, Found::Key(..)));
        assert!(matches!(jwks.find(Some("three"), after(61)).await, Found::Unknown));
        assert!(matches!(jwks.find(None, after(61)).await, Found::Unknown), "which of the two?");
        assert_eq!(issuer.fetches(), 2);
    }

    #[tokio::test]
    async fn a_withdrawn_key_goes_and_an_outage_keeps_the_last() {
        let issuer = Arc::new(Issuer::default());
        let (jwks, start) = (jwks(&issuer), Instant::now());
        let after = |seconds| start + Duration::from_secs(seconds);
        assert!(matches!(jwks.find(Some("one"), start).await, Found::Unavailable));
        assert!(matches!(jwks.find(Some("one"), after(1)).await, Found::Unavailable));
        assert_eq!(issuer.fetches(), 1, "an issuer that is down is not asked at once again");
        issuer.answers(Some(&["one"]));
        assert!(matches!(jwks.find(Some("one"), after(5)).await, Found::Key(..)));
        issuer.answers(None);
        assert!(matches!(jwks.find(Some("one"), after(100_000)).await, Found::Key(..)), "kept in an outage");
        assert_eq!(issuer.fetches(), 3);
        issuer.answers(Some(&["two"]));
        assert!(matches!(jwks.find(Some("one"), after(200_000)).await, Found::Unknown), "withdrawn");
    }

    #[test]
    fn only_keys_of_allowed_kinds_are_of_use() {
        let jwks = jwks(&Arc::default());
        let read = |set: Value| jwks.read(set.to_string().as_bytes()).map(|keys| keys.len());
        let rsa = json!({ "kty": "RSA", "kid": "r", "n": "AQAB", "e": "AQAB" });
        let secret = json!({ "kty": "oct", "kid": "s", "k": "c2VjcmV0" });
        let mut key = json!({ "kty": "EC", "crv": "P-256", "kid": "e",
          "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU", "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0" });
        assert_eq!(read(json!({ "keys": [rsa, secret, key, { "kty": "new" }, 7] })), Ok(1));
        assert!(read(json!({ "keys": [rsa, secret] })).is_err());
        key["use"] = json!("enc");
        assert!(read(json!({ "keys": [key] })).is_err());
        assert!(read(json!([])).is_err());
    }
}
