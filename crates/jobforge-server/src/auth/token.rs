//! Tokens (JWT) that somebody else signs: an identity provider, a Supabase project.
//!
//! Which algorithms count is this server's setting, never the token's word. A token acts for one tenant, which its
//! issuer names in a claim that users cannot edit.

use std::sync::Arc;
use std::time::{Duration, Instant};

use jobforge_core::{KeyScope, Role};
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode, decode_header};
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;
use uuid::Uuid;

use super::Identity;
use super::jwks::{BETWEEN_FIRST, Found, Jwks, PublishedKeys};
use crate::problem::{ErrorCode, Problem};

/// How far the clocks of issuer and server may be apart: usually, and at most.
const LEEWAY: Duration = Duration::from_secs(30);
const LONGEST_LEEWAY: Duration = Duration::from_secs(300);
/// The longest token that is looked at, in bytes.
const LONGEST: usize = 16 << 10;
/// The longest subject: the audit log tells it whole.
const SUBJECT_LENGTH: usize = 200;
/// The shortest secret, in bytes: as long as what HS256 makes of it.
const SECRET_LENGTH: usize = 32;
/// What users write themselves, at some issuers.
const USERS_OWN: [&str; 3] = ["user_metadata", "raw_user_meta_data", "unsafe_metadata"];

/// Whose tokens are taken, and what they say where.
#[derive(Clone, Debug)]
pub struct TokenConfig {
    /// What tokens are signed with.
    pub keys: TokenKeys,
    /// What they must say.
    pub claims: TokenClaims,
}

/// What tokens must say.
#[derive(Clone, Debug)]
pub struct TokenClaims {
    /// The claim `iss` must be this.
    pub issuer: String,
    /// The claim `aud` must name this.
    pub audience: String,
    /// Where the tenant's id stands, as a path of members: `app_metadata.tenant_id`.
    pub tenant_claim: String,
    /// Where the role stands: `app_metadata.role`.
    pub role_claim: String,
    /// How far the clocks of issuer and server may be apart.
    pub leeway: Duration,
}

/// What tokens are signed with.
#[derive(Clone, Debug)]
pub enum TokenKeys {
    /// HS256, with a secret shared with the issuer.
    Secret(SecretString),
    /// Keys that the issuer publishes.
    Jwks(PublishedKeys),
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
        TokenConfig { keys, claims: TokenClaims::new(issuer, audience) }
    }

    /// What makes these settings unsound.
    pub fn fault(&self) -> Option<&'static str> {
        self.claims.fault().or_else(|| match &self.keys {
            TokenKeys::Secret(secret) => secret_fault(secret.expose_secret()),
            TokenKeys::Jwks(keys) => keys.fault(),
        })
    }
}

impl TokenClaims {
    /// Those of this issuer for this audience, at their usual places.
    pub fn new(issuer: impl Into<String>, audience: impl Into<String>) -> TokenClaims {
        TokenClaims {
            issuer: issuer.into(),
            audience: audience.into(),
            tenant_claim: "app_metadata.tenant_id".to_owned(),
            role_claim: "app_metadata.role".to_owned(),
            leeway: LEEWAY,
        }
    }

    /// What makes these settings unsound.
    pub fn fault(&self) -> Option<&'static str> {
        let path = |claim: &str| claim.split('.').all(|member| !member.is_empty());
        let users_own = |claim: &str| claim.split('.').any(|member| USERS_OWN.contains(&member));
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
        (self.leeway > LONGEST_LEEWAY).then_some("the leeway must be 300 seconds or less")
    }
}

/// A public key is public: as the secret of HS256 anybody could sign with it.
fn secret_fault(secret: &str) -> Option<&'static str> {
    let begin = secret.trim_start();
    if secret.len() < SECRET_LENGTH {
        Some("the secret must have 32 bytes or more")
    } else if begin.starts_with("-----BEGIN") || begin.starts_with("ssh-") || begin.starts_with('{') {
        Some("the secret is a key of another kind: of an issuer with public keys, name the URL of its keys")
    } else {
        None
    }
}

/// Knows whose token is whose.
#[derive(Debug)]
pub(crate) struct Tokens {
    claims: TokenClaims,
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
            TokenKeys::Jwks(published) => Keys::Jwks(Jwks::new(published.clone())),
        };
        let claims = config.claims.clone();
        Ok(Tokens { tenant: path(&claims.tenant_claim), role: path(&claims.role_claim), claims, keys })
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
        // The key's algorithm, whatever the token names.
        let mut validation = Validation::new(algorithm);
        validation.leeway = self.claims.leeway.as_secs();
        validation.validate_nbf = true;
        validation.set_issuer(&[&self.claims.issuer]);
        validation.set_audience(&[&self.claims.audience]);
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
    use jsonwebtoken::{EncodingKey, Header, encode};
    use serde_json::json;

    use super::*;

    const TENANT: &str = "11111111-1111-1111-1111-111111111111";
    const PUBLIC_KEY: &str =
        "-----BEGIN PUBLIC KEY-----\nMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE\n-----END PUBLIC KEY-----\n";

    fn config() -> TokenConfig {
        TokenConfig::new(TokenKeys::Secret("s".repeat(32).into()), "https://issuer.example", "jobforge")
    }

    #[test]
    fn unsound_settings_are_refused() {
        assert_eq!(config().fault(), None);
        let claims = || config().claims;
        let unsound = [
            TokenClaims { issuer: String::new(), ..claims() },
            TokenClaims { audience: String::new(), ..claims() },
            TokenClaims { tenant_claim: "a..b".to_owned(), ..claims() },
            TokenClaims { tenant_claim: "user_metadata.tenant_id".to_owned(), ..claims() },
            TokenClaims { role_claim: "user_metadata.role".to_owned(), ..claims() },
            TokenClaims { role_claim: "unsafe_metadata.role".to_owned(), ..claims() },
            TokenClaims { tenant_claim: "a.raw_user_meta_data.b".to_owned(), ..claims() },
            TokenClaims { leeway: Duration::from_secs(301), ..claims() },
        ];
        for claims in unsound {
            assert!(TokenConfig { claims: claims.clone(), ..config() }.fault().is_some(), "{claims:?}");
        }
        let jwk = r#"{"kty":"RSA","n":"0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWhM78LhWx","e":"AQAB"}"#;
        for secret in ["short", PUBLIC_KEY, jwk, "ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAABgQ"] {
            let keys = TokenKeys::Secret(secret.into());
            assert!(TokenConfig { keys, ..config() }.fault().is_some(), "{secret}");
        }
    }

    /// The library knows which keys are for which algorithms and would refuse as well; here it has nothing to
    /// refuse, because the key is the bytes of a public key, for any use. What refuses is the algorithm we bind it to.
    #[test]
    fn a_public_key_is_never_the_secret_of_an_hmac() {
        let tokens = Tokens::new(&config()).unwrap();
        let claims = json!({
          "sub": "ann", "iss": "https://issuer.example", "aud": "jobforge", "exp": 9_999_999_999_u64,
          "app_metadata": { "tenant_id": TENANT, "role": "tenant_admin" },
        });
        let forger = EncodingKey::from_secret(PUBLIC_KEY.as_bytes());
        let forged = encode(&Header::new(Algorithm::HS256), &claims, &forger).unwrap();
        let key = DecodingKey::from_secret(PUBLIC_KEY.as_bytes());
        assert_eq!(tokens.read(&forged, &key, Algorithm::RS256), None);
        assert_eq!(tokens.read(&forged, &key, Algorithm::ES256), None);
        assert!(tokens.read(&forged, &key, Algorithm::HS256).is_some(), "nothing else is wrong with it");
    }

    #[test]
    fn a_token_is_of_one_tenant() {
        assert!(scope("producer", TENANT).is_some());
        assert!(scope("super_admin", TENANT).is_none());
        assert!(scope("root", TENANT).is_none());
        assert!(scope("producer", "11111111111111111111111111111111").is_none());
        assert!(scope("producer", "").is_none());
    }
}
