//! Tokens (JWT) that somebody else signs: an identity provider, a Supabase project.
//!
//! Which algorithms count is this server's setting, never the token's word. A token acts for one tenant, which its
//! issuer names in a claim that users cannot edit.

use std::sync::Arc;
use std::time::Instant;

use jobforge_core::{KeyScope, Role};
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode, decode_header};
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;
use uuid::Uuid;

use super::Identity;
use super::jwks::{BETWEEN_FIRST, FetchJwks, Found, Jwks};
use crate::problem::{ErrorCode, Problem};

/// How far the clocks of issuer and server may be apart, in seconds.
const LEEWAY: u64 = 30;
/// The longest token that is looked at, in bytes.
const LONGEST: usize = 16 << 10;
/// The longest subject: the audit log tells it whole.
const SUBJECT_LENGTH: usize = 200;
/// The shortest secret, in bytes: as long as what HS256 makes of it.
const SECRET_LENGTH: usize = 32;
/// What users write themselves, at some issuers.
const USERS_OWN: &str = "user_metadata";

/// Whose tokens are taken, and what they say where.
#[derive(Clone, Debug)]
pub struct TokenConfig {
    /// What tokens are signed with.
    pub keys: TokenKeys,
    /// The claim `iss` must be this.
    pub issuer: String,
    /// The claim `aud` must name this.
    pub audience: String,
    /// Where the tenant's id stands, as a path of members: `app_metadata.tenant_id`.
    pub tenant_claim: String,
    /// Where the role stands: `app_metadata.role`.
    pub role_claim: String,
}

/// What tokens are signed with.
#[derive(Clone, Debug)]
pub enum TokenKeys {
    /// HS256, with a secret shared with the issuer.
    Secret(SecretString),
    /// Keys that the issuer publishes.
    Jwks {
        /// Where.
        url: String,
        /// The algorithms that count.
        algorithms: Vec<TokenAlgorithm>,
        /// How they are fetched.
        fetch: Arc<dyn FetchJwks>,
    },
}

/// An algorithm with public keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TokenAlgorithm {
    /// RSA with SHA-256.
    Rs256,
    /// ECDSA on P-256 with SHA-256.
    Es256,
}

impl TokenConfig {
    /// Tokens of this issuer for this audience, with the claims at their usual places.
    pub fn new(keys: TokenKeys, issuer: impl Into<String>, audience: impl Into<String>) -> TokenConfig {
        TokenConfig {
            keys,
            issuer: issuer.into(),
            audience: audience.into(),
            tenant_claim: "app_metadata.tenant_id".to_owned(),
            role_claim: "app_metadata.role".to_owned(),
        }
    }

    /// What makes these settings unsound.
    fn fault(&self) -> Option<&'static str> {
        let path = |claim: &str| claim.split('.').all(|member| !member.is_empty());
        let users_own = |claim: &str| claim.split('.').any(|member| member == USERS_OWN);
        let claims = [self.tenant_claim.as_str(), self.role_claim.as_str()];
        if self.issuer.is_empty() || self.audience.is_empty() {
            return Some("issuer and audience must be named");
        }
        if !claims.into_iter().all(path) {
            return Some("a claim's path has members with dots between them");
        }
        if claims.into_iter().any(users_own) {
            return Some("users write user_metadata themselves: neither tenant nor role may come from there");
        }
        match &self.keys {
            TokenKeys::Secret(secret) if secret.expose_secret().len() < SECRET_LENGTH => {
                Some("the secret must have 32 bytes or more")
            }
            TokenKeys::Jwks { algorithms, .. } if algorithms.is_empty() => Some("no algorithm is allowed"),
            _ => None,
        }
    }
}

/// Knows whose token is whose.
#[derive(Debug)]
pub(crate) struct Tokens {
    issuer: String,
    audience: String,
    tenant: Vec<String>,
    role: Vec<String>,
    keys: Keys,
}

enum Keys {
    Secret(Arc<DecodingKey>),
    Jwks(Jwks),
}

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Keys")
    }
}

impl Tokens {
    /// Takes tokens by these settings, or says what is wrong with them.
    pub(crate) fn new(config: &TokenConfig) -> Result<Tokens, &'static str> {
        if let Some(fault) = config.fault() {
            return Err(fault);
        }
        let path = |claim: &str| claim.split('.').map(str::to_owned).collect();
        let keys = match &config.keys {
            TokenKeys::Secret(secret) => {
                Keys::Secret(Arc::new(DecodingKey::from_secret(secret.expose_secret().as_bytes())))
            }
            TokenKeys::Jwks { url, algorithms, fetch } => {
                Keys::Jwks(Jwks::new(url.clone(), algorithms.clone(), fetch.clone()))
            }
        };
        Ok(Tokens {
            issuer: config.issuer.clone(),
            audience: config.audience.clone(),
            tenant: path(&config.tenant_claim),
            role: path(&config.role_claim),
            keys,
        })
    }

    /// Who bears this token. Whatever is wrong with it, it is refused with the same words.
    pub(crate) async fn identify(&self, token: &str) -> Result<Identity, Problem> {
        if token.len() > LONGEST {
            return Err(Problem::unauthenticated());
        }
        let header = decode_header(token).map_err(|_| Problem::unauthenticated())?;
        if header.crit.is_some() {
            return Err(Problem::unauthenticated());
        }
        let (key, algorithm) = match &self.keys {
            Keys::Secret(key) => (key.clone(), Algorithm::HS256),
            Keys::Jwks(jwks) => match jwks.find(header.kid.as_deref(), Instant::now()).await {
                Found::Key(key, algorithm) => (key, algorithm),
                Found::Unknown => return Err(Problem::unauthenticated()),
                Found::Unavailable => return Err(unavailable()),
            },
        };
        self.read(token, &key, algorithm).ok_or_else(Problem::unauthenticated)
    }

    fn read(&self, token: &str, key: &DecodingKey, algorithm: Algorithm) -> Option<Identity> {
        let mut validation = Validation::new(algorithm);
        validation.leeway = LEEWAY;
        validation.validate_nbf = true;
        validation.set_issuer(&[&self.issuer]);
        validation.set_audience(&[&self.audience]);
        validation.set_required_spec_claims(&["exp", "iss", "aud", "sub"]);
        let claims = decode::<Value>(token, key, &validation).ok()?.claims;
        // The checks above would also take a list that ours is in.
        claims["iss"].as_str()?;
        let subject = claims["sub"].as_str().filter(|subject| sound_subject(subject))?;
        let scope = scope(claim(&claims, &self.role)?, claim(&claims, &self.tenant)?)?;
        Some(Identity { scope, credential: format!("token {subject}") })
    }
}

fn unavailable() -> Problem {
    let detail = "the keys of the tokens' issuer cannot be had now";
    Problem::new(ErrorCode::Unavailable, "issuer_unavailable", detail).retry_after(BETWEEN_FIRST)
}

/// A super-admin acts for all tenants and a token for one: there is no such token.
fn scope(role: &str, tenant: &str) -> Option<KeyScope> {
    let role = Role::parse(role).filter(|role| *role != Role::SuperAdmin)?;
    // Only the usual form: other spellings of a UUID are nobody's habit.
    let tenant = Uuid::parse_str(tenant).ok().filter(|_| tenant.len() == 36)?;
    KeyScope::of(role, Some(tenant))
}

fn claim<'a>(claims: &'a Value, path: &[String]) -> Option<&'a str> {
    path.iter().try_fold(claims, |value, member| value.as_object()?.get(member))?.as_str()
}

fn sound_subject(subject: &str) -> bool {
    let length = subject.chars().count();
    (1..=SUBJECT_LENGTH).contains(&length) && !subject.chars().any(char::is_control)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> TokenConfig {
        TokenConfig::new(TokenKeys::Secret("s".repeat(32).into()), "https://issuer.example", "jobforge")
    }

    #[test]
    fn unsound_settings_are_refused() {
        assert_eq!(config().fault(), None);
        let faults = [
            TokenConfig { issuer: String::new(), ..config() },
            TokenConfig { audience: String::new(), ..config() },
            TokenConfig { tenant_claim: "a..b".to_owned(), ..config() },
            TokenConfig { tenant_claim: "user_metadata.tenant_id".to_owned(), ..config() },
            TokenConfig { role_claim: "user_metadata.role".to_owned(), ..config() },
            TokenConfig { keys: TokenKeys::Secret("short".into()), ..config() },
        ];
        assert!(faults.iter().all(|config| config.fault().is_some()));
    }

    #[test]
    fn a_token_is_of_one_tenant() {
        let tenant = "11111111-1111-1111-1111-111111111111";
        assert!(scope("producer", tenant).is_some());
        assert!(scope("super_admin", tenant).is_none());
        assert!(scope("root", tenant).is_none());
        assert!(scope("producer", "11111111111111111111111111111111").is_none());
        assert!(scope("producer", "").is_none());
    }
}
