//! `connector.webhook.deliver`: one signed delivery. A receiver says 2xx and it is done, 410 and it is over;
//! anything else is tried again.

mod sign;

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;
use jobforge_core::Payload;
use jobforge_worker::{Context, HandlerError, HandlerResult, Outcome};
use reqwest::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use reqwest::{Method, StatusCode};
use secrecy::SecretString;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::answer::Answer;
use crate::configs::Settings;
use crate::egress::{Redirects, Request};
use crate::failure::permanent;
use crate::outgoing::{Shared, add_trace, failed, find, header_name};
use crate::retry_after::retry_after;
use crate::tools::Tools;

use sign::SigningKey;

/// The type of its jobs.
pub const KEY: &str = "connector.webhook.deliver";
/// How long a receiver has.
pub const TIMEOUT: Duration = Duration::from_secs(30);
/// How much of the answer's body is kept.
const KEPT_BYTES: usize = 1024;
/// What is kept of the answer's headers.
const KEPT_HEADERS: [&str; 6] = ["content-type", "date", "location", "retry-after", "server", "x-request-id"];
/// Headers that this connector alone sets.
const OWN_HEADERS: [&str; 2] = ["webhook-", "x-jobforge-"];
const SIGNATURE: &str = "x-jobforge-signature";
/// The secrets of a config that sign, unless its settings name others: the current one first.
const SIGNING_SECRETS: [&str; 2] = ["signing_secret", "previous_signing_secret"];

/// What its payloads look like, as a JSON Schema.
pub fn schema() -> &'static str {
    include_str!("deliver.schema.json")
}

/// The payload; `deliver.schema.json` tells what each member means, and checks it before.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Delivery {
    #[serde(default)]
    url: String,
    connector: Option<String>,
    event_type: String,
    body: Box<RawValue>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    #[serde(default, deserialize_with = "secrets")]
    secrets: Vec<SecretString>,
    signature_header: Option<String>,
}

/// What this connector alone reads of a config.
#[derive(Default, Deserialize)]
struct Signing {
    signing_secrets: Option<Vec<String>>,
    signature_header: Option<String>,
}

pub(crate) async fn deliver(context: Context, payload: Payload, tools: &Tools) -> HandlerResult {
    let given: Delivery = tools.webhook_schema.decode(&payload)?;
    let settings = find(&*tools.configs, &context, given.connector.as_deref()).await?;
    let request = put_together(&context, &given, settings.as_ref())?;
    let host = request.url.host_str().unwrap_or_default().to_owned();

    let response = tools.egress.send(context.tenant_id(), request).await.map_err(|error| failed(&error))?;
    let mut answer = Answer::of(&response);
    answer.headers.retain(|name, _| KEPT_HEADERS.contains(&name.as_str()));
    // The status decides: a receiver that has taken the delivery need not say more.
    if response.status.is_success() {
        return Ok(Outcome::complete(&answer)?);
    }
    let error = HandlerError::new(answer.told(&host));
    if response.status == StatusCode::GONE {
        if let Some(name) = &given.connector {
            tools.configs.disable(&context, name, "the receiver answered 410 Gone").await?;
        }
        return Err(error.permanent());
    }
    Err(match retry_after(&response.headers) {
        Some(wait) => error.retry_after(wait),
        None => error,
    })
}

fn put_together(
    context: &Context,
    given: &Delivery,
    settings: Option<&Settings>,
) -> Result<Request, HandlerError> {
    let shared = Shared::of(settings)?;
    let signing = Signing::of(settings)?;
    let keys = keys(given, &signing, settings)?;
    let mut headers = shared.headers(&given.headers, settings)?;
    let own = |name: &HeaderName| OWN_HEADERS.iter().any(|prefix| name.as_str().starts_with(prefix));
    if let Some(taken) = headers.keys().find(|name| own(name)) {
        return Err(permanent(format!("header {taken} is refused: the delivery sets it")));
    }
    let body = Bytes::copy_from_slice(given.body.get().as_bytes());
    headers.entry(CONTENT_TYPE).or_insert(HeaderValue::from_static("application/json"));
    let plain =
        given.signature_header.as_deref().or(signing.signature_header.as_deref()).unwrap_or(SIGNATURE);
    let plain = header_name(plain)?;
    for (name, value) in signed(context, &given.event_type, &body, &keys) {
        let name = name.map_or_else(|| plain.clone(), HeaderName::from_static);
        let value =
            HeaderValue::from_str(&value).map_err(|_| permanent("the event's type cannot be sent"))?;
        headers.insert(name, value);
    }
    add_trace(context, &mut headers);
    Ok(Request {
        method: Method::POST,
        url: shared.url(&given.url)?,
        headers,
        body: Some(body),
        timeout: TIMEOUT,
        max_body: KEPT_BYTES,
        redirects: Redirects::Answer,
    })
}

/// The headers of a delivery; the one without a name is the plain signature's.
fn signed(
    context: &Context,
    event_type: &str,
    body: &[u8],
    keys: &[SigningKey],
) -> [(Option<&'static str>, String); 7] {
    // The id is the same in every attempt, so that a receiver knows a delivery it has taken; the time is the
    // attempt's own, so that an old delivery cannot be played again.
    let (id, timestamp) = (context.job_id().to_string(), Timestamp::now().as_second());
    let standard: Vec<String> = keys.iter().map(|key| key.standard(&id, timestamp, body)).collect();
    // A plain signature has room for one key only: the current one.
    let plain = keys.first().map(|key| key.plain(body)).unwrap_or_default();
    [
        (Some("webhook-id"), id.clone()),
        (Some("webhook-timestamp"), timestamp.to_string()),
        (Some("webhook-signature"), standard.join(" ")),
        (Some("x-jobforge-event"), event_type.to_owned()),
        (Some("x-jobforge-delivery"), id),
        (Some("x-jobforge-attempt"), context.attempt().to_string()),
        (None, plain),
    ]
}

impl Signing {
    fn of(settings: Option<&Settings>) -> Result<Signing, HandlerError> {
        let Some(settings) = settings.filter(|settings| !settings.settings.is_null()) else {
            return Ok(Signing::default());
        };
        Signing::deserialize(&settings.settings)
            .map_err(|_| permanent("the connector config has signing settings of the wrong type"))
    }
}

/// The live keys: the payload's, or the config's.
fn keys(
    given: &Delivery,
    signing: &Signing,
    settings: Option<&Settings>,
) -> Result<Vec<SigningKey>, HandlerError> {
    let mut secrets: Vec<(String, &SecretString)> = Vec::new();
    for (number, secret) in given.secrets.iter().enumerate() {
        secrets.push((format!("number {}", number + 1), secret));
    }
    if let Some(settings) = settings.filter(|_| secrets.is_empty()) {
        let usual = || SIGNING_SECRETS.map(str::to_owned).to_vec();
        let named = signing.signing_secrets.clone();
        for name in named.clone().unwrap_or_else(usual) {
            match settings.secrets.get(&name) {
                Some(secret) => secrets.push((name, secret)),
                None if named.is_some() => {
                    return Err(permanent(format!("there is no signing secret {name}")));
                }
                None => {}
            }
        }
    }
    if secrets.is_empty() {
        return Err(permanent("there is no signing secret: a delivery is never sent unsigned"));
    }
    let parse = |(name, secret): (String, &SecretString)| {
        SigningKey::parse(secret).map_err(|why| permanent(format!("signing secret {name} is refused: {why}")))
    };
    secrets.into_iter().map(parse).collect()
}

fn secrets<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<SecretString>, D::Error> {
    Ok(Vec::<String>::deserialize(from)?.into_iter().map(SecretString::from).collect())
}
