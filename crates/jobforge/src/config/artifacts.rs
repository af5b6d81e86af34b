//! The section `[artifacts]`: where payloads and results go that are too large for a row.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Result, bail};
use jobforge_artifacts::{ArtifactStore, Limits, Place, S3};
use serde::{Deserialize, Serialize, Serializer};

/// What the database takes into a row, and so the most that may be left there.
const MAX_IN_ROW: usize = 256 * 1024;
/// The most that the database lets a job hold.
const MAX_OBJECT: u64 = 1024 * 1024 * 1024;

#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ArtifactSettings {
    pub(crate) url: Option<String>,
    pub(crate) threshold: usize,
    pub(crate) max: u64,
    pub(crate) endpoint: Option<String>,
    pub(crate) region: Option<String>,
    pub(crate) access_key_id: Option<String>,
    pub(crate) secret_access_key: Option<Secret>,
    pub(crate) allow_http: bool,
}

/// A text that nobody is shown.
#[derive(Clone, Deserialize)]
#[serde(transparent)]
pub(crate) struct Secret(String);

impl ArtifactSettings {
    /// Refuses what cannot work or would have no effect.
    pub(super) fn validate(&self) -> Result<()> {
        let place = self.place()?;
        let (max, threshold) = (self.max, u64::try_from(self.threshold)?);
        let rules = [
            ((1024..=MAX_IN_ROW).contains(&self.threshold), "artifacts.threshold must be 1024 to 262144"),
            (
                (threshold..=MAX_OBJECT).contains(&max),
                "artifacts.max must be artifacts.threshold to 1073741824",
            ),
            (
                place.is_some() || self.s3()? == S3::default(),
                "artifacts.endpoint, region, keys and allow_http have no effect without artifacts.url",
            ),
        ];
        match rules.iter().find(|(kept, _)| !kept) {
            Some((_, broken)) => bail!("{broken}"),
            None => Ok(()),
        }
    }

    /// The store of the settings, or else the one in this directory; none without either.
    pub(crate) fn open(&self, dir: Option<&Path>) -> Result<Option<Arc<ArtifactStore>>> {
        let limits = Limits { threshold: self.threshold, max_bytes: self.max, ..Limits::default() };
        let place = self.place()?.or_else(|| dir.map(|dir| Place::Directory(dir.to_owned())));
        Ok(place.map(|place| ArtifactStore::open(&place, limits)).transpose()?.map(Arc::new))
    }

    fn place(&self) -> Result<Option<Place>> {
        let parse = |url: &String| Ok(Place::parse(url, self.s3()?)?);
        self.url.as_ref().map(parse).transpose()
    }

    fn s3(&self) -> Result<S3> {
        let credentials = match (&self.access_key_id, &self.secret_access_key) {
            (Some(id), Some(Secret(secret))) => Some((id.clone(), secret.clone())),
            (None, None) => None,
            _ => bail!("artifacts.access_key_id and artifacts.secret_access_key come together"),
        };
        let (endpoint, region) = (self.endpoint.clone(), self.region.clone());
        Ok(S3 { endpoint, region, credentials, allow_http: self.allow_http, ..S3::default() })
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str("***")
    }
}
