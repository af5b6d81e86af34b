//! Requests put together from a job's payload and the connector config it names.
//!
//! A config's secrets go to the config's own address and nowhere else: who may enqueue jobs may use a secret,
//! but must not be able to send it to himself.

use std::collections::BTreeMap;

use jobforge_worker::{Context, HandlerError};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use secrecy::ExposeSecret;
use serde::Deserialize;
use url::Url;

use crate::configs::{ConnectorConfigs, Settings};
use crate::egress::{EgressError, UrlFault};
use crate::failure::permanent;

/// What marks a word of a header's value as the name of a secret.
const REFERENCE: &str = "secret:";
/// Headers that belong to the connection, not to the request.
const RESERVED: [&str; 12] = [
    "connection",
    "content-length",
    "expect",
    "host",
    "keep-alive",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "trailers",
    "transfer-encoding",
    "upgrade",
];

/// What the connectors read of a config.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Shared {
    /// Where all requests of this config go, or under which address.
    #[serde(alias = "url")]
    pub(crate) base_url: Option<String>,
    /// Headers of every request.
    #[serde(default)]
    pub(crate) headers: BTreeMap<String, String>,
}

/// The config that a payload names.
pub(crate) async fn find(
    configs: &dyn ConnectorConfigs,
    context: &Context,
    name: Option<&str>,
) -> Result<Option<Settings>, HandlerError> {
    let Some(name) = name else { return Ok(None) };
    match configs.find(context, name).await {
        Ok(Some(settings)) => {
            settings.secrets.values().for_each(|secret| context.add_secret(secret.expose_secret()));
            Ok(Some(settings))
        }
        Ok(None) => Err(permanent(format!("connector config {name} is not known"))),
        Err(error) => Err(error.into_handler_error()),
    }
}

impl Shared {
    /// The part of a config that is the same for all connectors.
    pub(crate) fn of(settings: Option<&Settings>) -> Result<Shared, HandlerError> {
        let Some(settings) = settings.filter(|settings| !settings.settings.is_null()) else {
            return Ok(Shared::default());
        };
        Shared::deserialize(&settings.settings)
            .map_err(|_| permanent("the connector config has a url or headers of the wrong type"))
    }

    /// The address of a request: the payload's, under the config's if that has one.
    pub(crate) fn url(&self, given: &str) -> Result<Url, HandlerError> {
        let Some(base) = &self.base_url else { return parse(given) };
        let mut base = parse(base)?;
        if given.is_empty() {
            return Ok(base);
        }
        let whole = Url::parse(given);
        if whole.as_ref().is_ok_and(|url| *url == base) {
            return Ok(base);
        }
        if !base.path().ends_with('/') {
            base.set_path(&format!("{}/", base.path()));
        }
        let url = whole.or_else(|_| base.join(given.trim_start_matches(['/', '\\'])));
        let url = url.map_err(|_| failed(&EgressError::Url(UrlFault::Malformed)))?;
        if url.origin() != base.origin() || !url.path().starts_with(base.path()) {
            return Err(permanent("the URL is refused: it leads away from the connector config's own"));
        }
        Ok(url)
    }

    /// The config's headers and the payload's, which win; references become secrets, marked as such.
    pub(crate) fn headers(
        &self,
        given: &BTreeMap<String, String>,
        settings: Option<&Settings>,
    ) -> Result<HeaderMap, HandlerError> {
        let home = settings.filter(|_| self.base_url.is_some());
        let mut headers = HeaderMap::new();
        for (name, text) in self.headers.iter().chain(given) {
            let name = header_name(name)?;
            let value = header_value(&name, text, home)?;
            headers.insert(name, value);
        }
        Ok(headers)
    }
}

/// The trace that the job belongs to goes on at the receiver, unless the payload names another.
pub(crate) fn add_trace(context: &Context, headers: &mut HeaderMap) {
    let child = context.child_traceparent().and_then(|child| HeaderValue::from_str(&child).ok());
    if let Some(child) = child {
        headers.entry("traceparent").or_insert(child);
    }
}

/// A name that a request may use.
pub(crate) fn header_name(text: &str) -> Result<HeaderName, HandlerError> {
    let name = HeaderName::from_bytes(text.as_bytes());
    let name =
        name.map_err(|_| permanent(format!("header {text:?} is refused: it is no name of a header")))?;
    if RESERVED.contains(&name.as_str()) {
        return Err(permanent(format!("header {name} is refused: it belongs to the connection")));
    }
    Ok(name)
}

fn header_value(name: &HeaderName, text: &str, home: Option<&Settings>) -> Result<HeaderValue, HandlerError> {
    let mut is_secret = false;
    let mut words = Vec::new();
    for word in text.split(' ') {
        let Some(reference) = word.strip_prefix(REFERENCE) else {
            words.push(word);
            continue;
        };
        let Some(home) = home else {
            let why = "secrets are sent only to the address of the connector config they belong to";
            return Err(permanent(format!("header {name} is refused: {why}")));
        };
        let secret = home.secrets.get(reference);
        let unknown = || permanent(format!("header {name} is refused: there is no secret {reference:?}"));
        words.push(secret.ok_or_else(unknown)?.expose_secret());
        is_secret = true;
    }
    let value = HeaderValue::from_str(&words.join(" "));
    let mut value =
        value.map_err(|_| permanent(format!("header {name} is refused: its value cannot be sent")))?;
    value.set_sensitive(is_secret);
    Ok(value)
}

fn parse(text: &str) -> Result<Url, HandlerError> {
    Url::parse(text).map_err(|_| failed(&EgressError::Url(UrlFault::Malformed)))
}

/// What an egress error means for a job.
pub(crate) fn failed(error: &EgressError) -> HandlerError {
    let told = HandlerError::new(error.to_string());
    if error.is_permanent() { told.permanent() } else { told }
}

#[cfg(test)]
mod tests {
    use secrecy::SecretString;
    use serde_json::json;

    use super::*;

    fn settings() -> Settings {
        let secrets = [("token".to_owned(), SecretString::from("hunter2"))];
        Settings { settings: json!({ "base_url": "https://a.example/v1" }), secrets: secrets.into() }
    }

    #[test]
    fn a_config_keeps_requests_at_home() {
        let shared = Shared::of(Some(&settings())).unwrap();
        let at =
            |given: &str| shared.url(given).map(|url| url.to_string()).map_err(|error| error.to_string());
        assert_eq!(at("users/1?x=y"), Ok("https://a.example/v1/users/1?x=y".to_owned()));
        assert_eq!(at("/users"), Ok("https://a.example/v1/users".to_owned()));
        assert_eq!(at(""), Ok("https://a.example/v1".to_owned()));
        assert_eq!(at("https://a.example/v1"), Ok("https://a.example/v1".to_owned()));
        assert_eq!(at("https://a.example/v1/x"), Ok("https://a.example/v1/x".to_owned()));
        assert_eq!(at("//b.example/v1/"), Ok("https://a.example/v1/b.example/v1/".to_owned()));
        for away in [
            "https://b.example/v1/",
            "http://a.example/v1/",
            "https://a.example:444/v1/",
            "https://a.example/v2",
            "../v2",
            "%2e%2e/v2",
            "https://a.example@b.example/v1/",
            "https:b.example/v1/",
        ] {
            let refused = at(away).unwrap_err();
            assert!(refused.contains("leads away"), "{away}: {refused}");
        }
        assert_eq!(Shared::default().url("https://b.example/").unwrap().as_str(), "https://b.example/");
        assert!(Shared::default().url("/relative").is_err());
    }

    #[test]
    fn references_become_secrets_only_at_home() {
        let settings = settings();
        let shared = Shared::of(Some(&settings)).unwrap();
        let given = |value: &str| BTreeMap::from([("Authorization".to_owned(), value.to_owned())]);
        let headers = shared.headers(&given("Bearer secret:token"), Some(&settings)).unwrap();
        assert_eq!(headers["authorization"], "Bearer hunter2");
        assert!(headers["authorization"].is_sensitive());
        assert!(shared.headers(&given("secret:other"), Some(&settings)).is_err());
        assert!(Shared::default().headers(&given("secret:token"), Some(&settings)).is_err(), "no home");
        assert!(Shared::default().headers(&given("secret:token"), None).is_err());
    }

    #[test]
    fn headers_of_the_connection_and_broken_ones_are_refused() {
        for (name, value) in
            [("Host", "a"), ("transfer-encoding", "chunked"), ("a b", "c"), ("x", "a\r\nb: c")]
        {
            let given = BTreeMap::from([(name.to_owned(), value.to_owned())]);
            assert!(Shared::default().headers(&given, None).is_err(), "{name}");
        }
    }
}
