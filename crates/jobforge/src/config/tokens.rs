//! The section `[server.tokens]`: whose tokens (JWT) the HTTP API takes beside its own keys.

use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use jobforge_artifacts::is_loopback;
use jobforge_connectors::configs::is_variable;
use jobforge_server::auth::{TokenAlgorithm, TokenClaims};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};
use url::Url;

/// The section as it is written.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TokenSettings {
    pub(crate) secret: Option<SecretReference>,
    pub(crate) jwks_url: Option<String>,
    pub(crate) issuer: Option<String>,
    pub(crate) audience: Option<String>,
    pub(crate) tenant_claim: String,
    pub(crate) role_claim: String,
    pub(crate) leeway_seconds: u64,
    pub(crate) jwks_algorithms: Vec<AlgorithmName>,
    pub(crate) jwks_refetch_seconds: u64,
    pub(crate) jwks_max_age_seconds: u64,
    pub(crate) jwks_allow_http: bool,
}

/// An algorithm by its name in a token.
#[derive(Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub(crate) enum AlgorithmName {
    Rs256,
    Es256,
}

/// `env:NAME`: the variable that has a secret. The secret itself is never a setting.
#[derive(Clone, PartialEq, Serialize)]
#[serde(into = "String")]
pub(crate) struct SecretReference(String);

/// What is taken, as far as the settings alone can tell.
pub(crate) struct Taken<'a> {
    pub(crate) keys: KeySettings<'a>,
    pub(crate) claims: TokenClaims,
}

/// What tokens are signed with.
pub(crate) enum KeySettings<'a> {
    /// The secret in this variable.
    Secret(&'a SecretReference),
    /// Keys that are published here.
    Published(Url),
}

impl TokenSettings {
    /// Whose tokens are taken, if any; refuses what cannot work or would have no effect.
    pub(crate) fn taken(&self) -> Result<Option<Taken<'_>>> {
        let keys = match (&self.secret, &self.jwks_url) {
            (Some(_), Some(_)) => {
                bail!("server.tokens.secret and server.tokens.jwks_url exclude each other: set one")
            }
            (Some(secret), None) => KeySettings::Secret(secret),
            (None, Some(url)) => KeySettings::Published(self.published_at(url)?),
            (None, None) => {
                let unset = *self == TokenSettings::default();
                ensure!(
                    unset,
                    "server.tokens has no effect without server.tokens.secret or server.tokens.jwks_url"
                );
                return Ok(None);
            }
        };
        if matches!(keys, KeySettings::Secret(_)) && self.clone().without_jwks() != *self {
            bail!("server.tokens.jwks_… has no effect on tokens that are signed with server.tokens.secret");
        }
        let named = |name: &str, value: &Option<String>| {
            value.clone().with_context(|| format!("tokens are taken only if server.tokens.{name} is set"))
        };
        let claims = TokenClaims {
            tenant_claim: self.tenant_claim.clone(),
            role_claim: self.role_claim.clone(),
            leeway: Duration::from_secs(self.leeway_seconds),
            ..TokenClaims::new(named("issuer", &self.issuer)?, named("audience", &self.audience)?)
        };
        match claims.fault() {
            Some(fault) => Err(anyhow!("server.tokens cannot be used: {fault}")),
            None => Ok(Some(Taken { keys, claims })),
        }
    }

    /// Whoever can change what is read there can sign tokens for everybody: in clear only where nobody is between, or
    /// where that is asked for.
    fn published_at(&self, url: &str) -> Result<Url> {
        // The URL may have a password in it, which is refused later: it is not repeated.
        let url = Url::parse(url).ok().context("server.tokens.jwks_url is no URL")?;
        match url.scheme() {
            "https" if self.jwks_allow_http => {
                bail!("server.tokens.jwks_allow_http has no effect on an https URL")
            }
            "http" if !self.jwks_allow_http && !is_loopback(&url) => {
                bail!(
                    "server.tokens.jwks_url is not encrypted: use https, or set server.tokens.jwks_allow_http"
                )
            }
            _ => {}
        }
        let seconds = 1..=86_400;
        let (refetch, max_age) = (self.jwks_refetch_seconds, self.jwks_max_age_seconds);
        ensure!(!self.jwks_algorithms.is_empty(), "server.tokens.jwks_algorithms must name one");
        ensure!(seconds.contains(&refetch), "server.tokens.jwks_refetch_seconds must be 1 to 86400");
        ensure!(
            seconds.contains(&max_age) && max_age >= refetch,
            "server.tokens.jwks_max_age_seconds must be server.tokens.jwks_refetch_seconds to 86400"
        );
        Ok(url)
    }

    fn without_jwks(self) -> TokenSettings {
        let TokenSettings { secret, issuer, audience, tenant_claim, role_claim, leeway_seconds, .. } = self;
        let unset = TokenSettings::default();
        TokenSettings { secret, issuer, audience, tenant_claim, role_claim, leeway_seconds, ..unset }
    }
}

/// What `config.default.toml` says: what differs from it was set.
impl Default for TokenSettings {
    fn default() -> TokenSettings {
        let claims = TokenClaims::new("", "");
        TokenSettings {
            secret: None,
            jwks_url: None,
            issuer: None,
            audience: None,
            tenant_claim: claims.tenant_claim,
            role_claim: claims.role_claim,
            leeway_seconds: claims.leeway.as_secs(),
            jwks_algorithms: vec![AlgorithmName::Rs256, AlgorithmName::Es256],
            jwks_refetch_seconds: 60,
            jwks_max_age_seconds: 600,
            jwks_allow_http: false,
        }
    }
}

impl From<AlgorithmName> for TokenAlgorithm {
    fn from(name: AlgorithmName) -> TokenAlgorithm {
        match name {
            AlgorithmName::Rs256 => TokenAlgorithm::Rs256,
            AlgorithmName::Es256 => TokenAlgorithm::Es256,
        }
    }
}

impl SecretReference {
    /// The variable's name.
    pub(crate) fn variable(&self) -> &str {
        &self.0
    }
}

impl From<SecretReference> for String {
    fn from(reference: SecretReference) -> String {
        format!("env:{}", reference.0)
    }
}

/// What is no reference may be the secret itself: no message repeats it, of whatever type it is.
impl<'de> Deserialize<'de> for SecretReference {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<SecretReference, D::Error> {
        let written = serde_json::Value::deserialize(from)?;
        let name =
            written.as_str().and_then(|text| text.strip_prefix("env:")).filter(|name| is_variable(name));
        name.map(|name| SecretReference(name.to_owned())).ok_or_else(|| {
            D::Error::custom("server.tokens.secret names a variable, as env:NAME, and is no secret")
        })
    }
}

#[cfg(test)]
mod tests {
    use config::{File, FileFormat};

    use super::*;

    fn named() -> TokenSettings {
        let (issuer, audience) = (Some("https://issuer.example".to_owned()), Some("jobforge".to_owned()));
        TokenSettings { issuer, audience, ..TokenSettings::default() }
    }

    fn secret() -> TokenSettings {
        TokenSettings { secret: Some(SecretReference("A_SECRET".to_owned())), ..named() }
    }

    fn published(url: &str) -> TokenSettings {
        TokenSettings { jwks_url: Some(url.to_owned()), ..named() }
    }

    #[test]
    fn the_file_of_defaults_says_the_same() {
        let file = super::super::layer(File::from_str(super::super::DEFAULTS, FileFormat::Toml)).unwrap();
        let written: TokenSettings = file.get("server.tokens").unwrap();
        assert!(written == TokenSettings::default());
    }

    #[test]
    fn one_kind_of_keys_is_taken_or_none() {
        assert!(TokenSettings::default().taken().unwrap().is_none());
        let settings = secret();
        let taken = settings.taken().unwrap().unwrap();
        assert!(matches!(taken.keys, KeySettings::Secret(reference) if reference.variable() == "A_SECRET"));
        assert_eq!(
            (taken.claims.issuer.as_str(), taken.claims.audience.as_str()),
            ("https://issuer.example", "jobforge")
        );
        for url in ["https://issuer.example/keys", "http://127.0.0.1:9/keys", "http://localhost/keys"] {
            let settings = published(url);
            let taken = settings.taken().unwrap().unwrap();
            assert!(matches!(taken.keys, KeySettings::Published(read) if read.as_str() == url));
        }
        let in_clear = TokenSettings { jwks_allow_http: true, ..published("http://issuer.example/keys") };
        assert!(in_clear.taken().is_ok());
    }

    #[test]
    fn what_cannot_work_or_has_no_effect_is_refused() {
        let url = "https://issuer.example/keys";
        let cases = [
            ("exclude each other", TokenSettings { jwks_url: Some(url.to_owned()), ..secret() }),
            ("has no effect without", named()),
            ("has no effect without", TokenSettings { leeway_seconds: 10, ..TokenSettings::default() }),
            ("has no effect without", TokenSettings { jwks_refetch_seconds: 9, ..TokenSettings::default() }),
            ("jwks_… has no effect", TokenSettings { jwks_max_age_seconds: 700, ..secret() }),
            ("jwks_… has no effect", TokenSettings { jwks_allow_http: true, ..secret() }),
            (
                "jwks_… has no effect",
                TokenSettings { jwks_algorithms: vec![AlgorithmName::Es256], ..secret() },
            ),
            ("server.tokens.issuer is set", TokenSettings { issuer: None, ..secret() }),
            ("server.tokens.audience is set", TokenSettings { audience: None, ..published(url) }),
            ("no URL", published("issuer.example/keys")),
            ("not encrypted", published("http://issuer.example/keys")),
            ("no effect on an https URL", TokenSettings { jwks_allow_http: true, ..published(url) }),
            ("must name one", TokenSettings { jwks_algorithms: Vec::new(), ..published(url) }),
            ("jwks_refetch_seconds must be", TokenSettings { jwks_refetch_seconds: 0, ..published(url) }),
            ("jwks_max_age_seconds must be", TokenSettings { jwks_max_age_seconds: 59, ..published(url) }),
            (
                "jwks_max_age_seconds must be",
                TokenSettings { jwks_max_age_seconds: 86_401, ..published(url) },
            ),
            (
                "user_metadata",
                TokenSettings { tenant_claim: "user_metadata.tenant_id".to_owned(), ..secret() },
            ),
            ("members with dots", TokenSettings { role_claim: ".role".to_owned(), ..secret() }),
            ("leeway", TokenSettings { leeway_seconds: 301, ..secret() }),
        ];
        for (words, settings) in cases {
            let Err(error) = settings.taken() else { panic!("not refused: {words}") };
            assert!(error.to_string().contains(words), "{words}: {error}");
        }
    }

    #[test]
    fn a_reference_is_read_and_anything_else_is_not_repeated() {
        let read = |text: &str| serde_json::from_str::<SecretReference>(text);
        assert_eq!(serde_json::to_string(&read("\"env:A_SECRET\"").unwrap()).unwrap(), "\"env:A_SECRET\"");
        for text in [
            "\"canary77\"",
            "\"env:\"",
            "\"env:canary77!\"",
            "\"ENV:canary77\"",
            "77",
            "[\"canary77\"]",
            "true",
        ] {
            let error = read(text).err().unwrap().to_string();
            assert!(
                error.contains("env:NAME") && !error.contains("canary") && !error.contains("77"),
                "{error}"
            );
        }
    }
}
