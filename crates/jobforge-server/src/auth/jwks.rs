//! The keys that an issuer publishes, fetched when they are needed and kept while they cannot be fetched.

use std::error::Error as StdError;
use std::fmt;
use std::ops::RangeInclusive;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, KeyAlgorithm, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey};
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::OwnedMutexGuard;

use super::token::TokenAlgorithm;

/// The shortest time between two fetches, unless it is set: a token with a made-up key id costs the issuer no more.
const BETWEEN: Duration = Duration::from_secs(60);
/// The same while nothing was ever fetched.
pub(super) const BETWEEN_FIRST: Duration = Duration::from_secs(5);
/// After this a key that the issuer has withdrawn is noticed, unless it is set.
const STALE: Duration = Duration::from_secs(600);
/// What both may be.
const TIMES: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(86_400);
/// How long a fetch may take.
pub const JWKS_PATIENCE: Duration = Duration::from_secs(5);
/// The largest answer, in bytes.
pub const JWKS_LARGEST: usize = 256 << 10;
/// The most keys of an answer.
const MOST: usize = 100;

/// Fetches what stands at a URL. The server has no HTTP client: whoever starts it lends the one with the egress guard.
pub trait FetchJwks: fmt::Debug + Send + Sync {
    /// The body of a successful answer.
    fn fetch<'a>(&'a self, url: &'a str) -> Fetching<'a>;
}

/// A fetch under way.
pub type Fetching<'a> =
    Pin<Box<dyn Future<Output = Result<Vec<u8>, Box<dyn StdError + Send + Sync>>> + Send + 'a>>;

/// The keys that an issuer publishes: where, which, and how they are had.
#[derive(Clone, Debug)]
pub struct PublishedKeys {
    /// Where.
    pub url: String,
    /// The algorithms that count.
    pub algorithms: Vec<TokenAlgorithm>,
    /// How they are fetched.
    pub fetch: Arc<dyn FetchJwks>,
    /// The shortest time between two fetches, whatever tokens name.
    pub refetch: Duration,
    /// After this they are fetched again, so that a withdrawn key is noticed.
    pub max_age: Duration,
}

impl PublishedKeys {
    /// Those at this URL, of every algorithm, at the usual times.
    pub fn new(url: impl Into<String>, fetch: Arc<dyn FetchJwks>) -> PublishedKeys {
        let algorithms = vec![TokenAlgorithm::Rs256, TokenAlgorithm::Es256];
        PublishedKeys { url: url.into(), algorithms, fetch, refetch: BETWEEN, max_age: STALE }
    }

    pub(super) fn fault(&self) -> Option<&'static str> {
        if self.algorithms.is_empty() {
            return Some("no algorithm is allowed");
        }
        if !TIMES.contains(&self.refetch) || !TIMES.contains(&self.max_age) {
            return Some("the issuer's keys are fetched again after 1 second to a day");
        }
        (self.max_age < self.refetch).then_some("keys cannot be older than what is between two fetches")
    }
}

/// An issuer's keys.
pub(crate) struct Jwks {
    shared: Arc<Shared>,
    /// One fetches, the others wait for it.
    fetching: Arc<tokio::sync::Mutex<()>>,
}

struct Shared {
    published: PublishedKeys,
    state: Mutex<State>,
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
    pub(crate) fn new(published: PublishedKeys) -> Jwks {
        let (state, fetching) = Default::default();
        Jwks { shared: Arc::new(Shared { published, state }), fetching }
    }

    /// The key of this id; without an id, the only key there is.
    pub(crate) async fn find(&self, id: Option<&str>, now: Instant) -> Found {
        let shared = &self.shared;
        if shared.known(id).is_none() {
            let one = self.fetching.clone().lock_owned().await;
            if shared.known(id).is_none() && shared.may_fetch(now) {
                self.refresh(one, now).await;
            }
        } else if shared.is_stale(now)
            && let Ok(one) = self.fetching.clone().try_lock_owned()
            && shared.may_fetch(now)
        {
            self.refresh(one, now).await;
        }
        match shared.known(id) {
            Some(Known { key, algorithm, .. }) => Found::Key(key, algorithm),
            None if shared.state().fetched.is_none() => Found::Unavailable,
            None => Found::Unknown,
        }
    }

    /// In a task of its own: a caller that hangs up must not take the fetch along, or whoever does so again and again
    /// would keep everybody from new keys.
    async fn refresh(&self, one: OwnedMutexGuard<()>, now: Instant) {
        let shared = self.shared.clone();
        let fetch = tokio::spawn(async move {
            shared.refresh(now).await;
            drop(one);
        });
        if let Err(error) = fetch.await {
            tracing::warn!(error = &error as &dyn StdError, "the fetch of the issuer's keys broke off");
        }
    }
}

impl Shared {
    fn known(&self, id: Option<&str>) -> Option<Known> {
        let state = self.state();
        match (id, state.keys.as_slice()) {
            (Some(id), keys) => keys.iter().find(|known| known.id.as_deref() == Some(id)).cloned(),
            (None, [only]) => Some(only.clone()),
            (None, _) => None,
        }
    }

    fn is_stale(&self, now: Instant) -> bool {
        let max_age = self.published.max_age;
        self.state().fetched.is_none_or(|at| now.saturating_duration_since(at) >= max_age)
    }

    fn may_fetch(&self, now: Instant) -> bool {
        let (state, refetch) = (self.state(), self.published.refetch);
        let between = if state.fetched.is_some() { refetch } else { refetch.min(BETWEEN_FIRST) };
        state.tried.is_none_or(|at| now.saturating_duration_since(at) >= between)
    }

    async fn refresh(&self, now: Instant) {
        self.state().tried = Some(now);
        let PublishedKeys { url, fetch, .. } = &self.published;
        let answer = match tokio::time::timeout(JWKS_PATIENCE, fetch.fetch(url)).await {
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
                tracing::warn!(error = &*error as &dyn StdError, url, "the issuer's keys cannot be had");
            }
        }
    }

    /// The keys of an answer that are of use here; a key of another kind is none of our business.
    fn read(&self, body: &[u8]) -> Result<Vec<Known>, String> {
        #[derive(Deserialize)]
        struct Set {
            keys: Vec<Value>,
        }
        if body.len() > JWKS_LARGEST {
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
        if !signs || !fits || !self.published.algorithms.contains(&allowed) {
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
        let published = PublishedKeys::new("https://issuer.example/jwks", issuer.clone());
        Jwks::new(PublishedKeys { algorithms: vec![TokenAlgorithm::Es256], ..published })
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

    /// An issuer that answers when the test lets it.
    #[derive(Debug, Default)]
    struct Slow {
        issuer: Issuer,
        asked: tokio::sync::Notify,
        may_answer: tokio::sync::Notify,
    }

    impl FetchJwks for Slow {
        fn fetch<'a>(&'a self, url: &'a str) -> Fetching<'a> {
            Box::pin(async {
                self.asked.notify_one();
                self.may_answer.notified().await;
                self.issuer.fetch(url).await
            })
        }
    }

    #[tokio::test]
    async fn a_caller_that_hangs_up_keeps_nobody_from_the_keys() {
        let slow = Arc::new(Slow::default());
        slow.issuer.answers(Some(&["one"]));
        let published = PublishedKeys::new("https://issuer.example/jwks", slow.clone());
        let (jwks, start) = (Jwks::new(published), Instant::now());
        tokio::select! {
            biased;
            _ = jwks.find(Some("made up"), start) => panic!("there is no answer yet"),
            () = slow.asked.notified() => {}
        }
        slow.may_answer.notify_one();
        assert!(matches!(jwks.find(Some("one"), start).await, Found::Key(..)), "the fetch went on");
        assert_eq!(slow.issuer.fetches(), 1);
    }

    #[tokio::test]
    async fn the_times_are_those_of_the_settings() {
        let issuer = Arc::new(Issuer::default());
        issuer.answers(Some(&["one"]));
        let seconds = Duration::from_secs;
        let published = PublishedKeys::new("https://issuer.example/jwks", issuer.clone());
        let published = PublishedKeys { refetch: seconds(2), max_age: seconds(7), ..published };
        assert_eq!(published.fault(), None);
        for (refetch, max_age) in [(0, 7), (2, 1), (2, 90_000), (90_000, 90_000)] {
            let published =
                PublishedKeys { refetch: seconds(refetch), max_age: seconds(max_age), ..published.clone() };
            assert!(published.fault().is_some(), "{refetch} {max_age}");
        }
        assert!(PublishedKeys { algorithms: Vec::new(), ..published.clone() }.fault().is_some());
        let (jwks, start) = (Jwks::new(published), Instant::now());
        for (id, after, fetches) in [("one", 0, 1), ("no", 1, 1), ("no", 2, 2), ("one", 8, 2), ("one", 9, 3)]
        {
            jwks.find(Some(id), start + seconds(after)).await;
            assert_eq!(issuer.fetches(), fetches, "{id} after {after} s");
        }
    }

    #[tokio::test]
    async fn an_answer_that_is_none_changes_nothing() {
        let issuer = Arc::new(Issuer::default());
        issuer.answers(Some(&["one"]));
        let (jwks, start) = (jwks(&issuer), Instant::now());
        assert!(matches!(jwks.find(Some("one"), start).await, Found::Key(..)));
        let huge = format!("{{\"keys\":[]}}{}", " ".repeat(JWKS_LARGEST));
        for (bad, day) in ["", "<html>", "{\"keys\":[]}", "{\"keys\":{}}", "null", &huge].iter().zip(1..) {
            issuer.0.lock().unwrap().0 = Some((*bad).to_owned());
            let found = jwks.find(Some("one"), start + Duration::from_secs(day * 86_400)).await;
            assert!(matches!(found, Found::Key(..)), "{bad:.20}");
            assert_eq!(issuer.fetches(), 1 + usize::try_from(day).unwrap());
        }
    }

    #[test]
    fn only_keys_of_allowed_kinds_are_of_use() {
        let jwks = jwks(&Arc::default());
        let read = |set: Value| jwks.shared.read(set.to_string().as_bytes()).map(|keys| keys.len());
        let rsa = json!({ "kty": "RSA", "kid": "r", "n": "AQAB", "e": "AQAB" });
        let secret = json!({ "kty": "oct", "kid": "s", "k": "c2VjcmV0" });
        let mut key = json!({ "kty": "EC", "crv": "P-256", "kid": "e",
          "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU", "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0" });
        assert_eq!(read(json!({ "keys": [rsa, secret, key, { "kty": "new" }, 7] })), Ok(1));
        assert!(read(json!({ "keys": [rsa, secret] })).is_err());
        key["alg"] = json!("HS256");
        assert!(read(json!({ "keys": [key] })).is_err(), "no key may be used as a secret");
        key["alg"] = json!("ES256");
        assert_eq!(read(json!({ "keys": [key] })), Ok(1));
        key["use"] = json!("enc");
        assert!(read(json!({ "keys": [key] })).is_err());
        assert!(read(json!([])).is_err());
        key["use"] = json!("sig");
        let many = json!({ "keys": vec![key.clone(); MOST + 1] });
        assert_eq!(read(many), Ok(MOST));
        let huge = format!("{{\"keys\":[{key}]}}{}", " ".repeat(JWKS_LARGEST));
        assert!(jwks.shared.read(huge.as_bytes()).is_err(), "too large");
    }
}
