//! `connector.http.request`: one HTTP request, whose answer is the job's result.

mod payload;
mod verdict;

use std::time::Duration;

use bytes::Bytes;
use jobforge_core::Payload;
use jobforge_worker::{Context, HandlerError, HandlerResult, Outcome};
use reqwest::Method;
use reqwest::header::{CONTENT_TYPE, HeaderValue};

use crate::answer::Answer;
use crate::egress::{BodyEnd, Redirects, Request, Response};
use crate::failure::permanent;
use crate::outgoing::{Shared, failed, find};
use crate::retry_after::retry_after;
use crate::tools::Tools;

use payload::HttpRequest;
use verdict::Verdict;

/// The type of its jobs.
pub const KEY: &str = "connector.http.request";
/// How much of a body an error repeats.
const TOLD_BYTES: usize = 1024;

/// What its payloads look like, as a JSON Schema.
pub fn schema() -> &'static str {
    include_str!("request.schema.json")
}

pub(crate) async fn request(context: Context, payload: Payload, tools: &Tools) -> HandlerResult {
    let given: HttpRequest = tools.http_schema.decode(&payload)?;
    let settings = find(&*tools.configs, &context, given.connector.as_deref()).await?;
    let shared = Shared::of(settings.as_ref())?;
    let request = put_together(&context, &given, &shared, settings.as_ref())?;
    let host = request.url.host_str().unwrap_or_default().to_owned();
    let verb = request.method.clone();

    let mut response =
        tools.egress.send(context.tenant_id(), request).await.map_err(|error| failed(&error))?;
    let verdict = Verdict::of(response.status, &given);
    if verdict == Verdict::Success {
        if let BodyEnd::Failed(error) = &response.body.end {
            return Err(failed(error));
        }
        return Ok(Outcome::complete(&Answer::of(&response))?);
    }
    shorten(&mut response);
    let told = Answer::of(&response).told(&host);
    let error = HandlerError::new(format!("{verb} {told}"));
    let error = match retry_after(&response.headers) {
        Some(wait) => error.retry_after(wait),
        None => error,
    };
    Err(if verdict == Verdict::Permanent { error.permanent() } else { error })
}

fn put_together(
    context: &Context,
    given: &HttpRequest,
    shared: &Shared,
    settings: Option<&crate::configs::Settings>,
) -> Result<Request, HandlerError> {
    let mut url = shared.url(&given.url)?;
    given.add_query(&mut url);
    let mut headers = shared.headers(&given.headers, settings)?;
    let body = match (&given.json, &given.body) {
        (Some(json), _) => Some(Bytes::copy_from_slice(json.get().as_bytes())),
        (None, body) => body.as_ref().map(|body| Bytes::copy_from_slice(body.as_bytes())),
    };
    if given.json.is_some() && !headers.contains_key(CONTENT_TYPE) {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    }
    crate::outgoing::add_trace(context, &mut headers);
    let method = given.method.as_deref().unwrap_or("GET");
    let method = Method::from_bytes(method.as_bytes()).map_err(|_| permanent("the method is none"))?;
    Ok(Request {
        method,
        url,
        headers,
        body,
        timeout: Duration::from_secs(given.timeout_seconds.into()),
        max_body: given.capture_bytes,
        redirects: if given.follow_redirects { Redirects::Follow } else { Redirects::Answer },
    })
}

/// Errors are read in lists: the beginning of the body is enough.
fn shorten(response: &mut Response) {
    if response.body.bytes.len() > TOLD_BYTES {
        response.body.bytes.truncate(TOLD_BYTES);
        response.body.end = BodyEnd::Cut;
    }
}
