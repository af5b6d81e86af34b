//! Documents that an operator's settings name: for no tenant, from exactly there, whole or not at all.

use std::time::Duration;

use bytes::Bytes;
use reqwest::header::HeaderMap;
use reqwest::{Method, StatusCode};
use url::Url;

use super::body::{Body, BodyEnd};
use super::error::EgressError;
use super::{Egress, Redirects, Request};

/// Why a document cannot be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FetchError {
    /// There is no answer.
    #[error(transparent)]
    Egress(#[from] EgressError),
    /// The answer is another one; a redirect is, too.
    #[error("the answer is {0}")]
    Status(StatusCode),
    /// There is more of it than was wanted, or than the settings allow.
    #[error("the answer has more than {0} bytes")]
    Large(usize),
}

impl Egress {
    /// Refuses what can be refused by looking at the URL, before anything is requested for nobody in particular.
    pub fn check(&self, url: &Url) -> Result<(), EgressError> {
        self.clients.everybody.policy.check(url)
    }

    /// The document at this URL. What single tenants may reach beyond all others counts for nothing here.
    pub async fn fetch(&self, url: &Url, timeout: Duration, max_body: usize) -> Result<Bytes, FetchError> {
        let request = Request {
            method: Method::GET,
            url: url.clone(),
            headers: HeaderMap::new(),
            body: None,
            timeout,
            max_body,
            redirects: Redirects::Answer,
        };
        let answer = self.clients.send(&self.clients.everybody, request).await?;
        if answer.status != StatusCode::OK {
            return Err(FetchError::Status(answer.status));
        }
        match answer.body {
            Body { bytes, end: BodyEnd::Whole } => Ok(bytes),
            Body { bytes, end: BodyEnd::Cut } => Err(FetchError::Large(bytes.len())),
            Body { end: BodyEnd::Failed(error), .. } => Err(error.into()),
        }
    }
}
