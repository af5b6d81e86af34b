//! Where artifacts are: read from a URL and what belongs to it, checked before anything is written.

use std::fmt;
use std::path::PathBuf;

use url::{Host, Url};

/// Where the objects are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// In a directory of this machine, or of one that all workers see.
    Directory(PathBuf),
    /// In a bucket.
    Bucket(S3),
}

/// A bucket and how to reach it.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct S3 {
    /// The bucket.
    pub bucket: String,
    /// What the keys of all objects begin with; may be empty.
    pub prefix: String,
    /// Where the service is; AWS's own unless given.
    pub endpoint: Option<String>,
    /// Its region; `us-east-1` unless given.
    pub region: Option<String>,
    /// The key and its secret; without them the machine's own role is asked.
    pub credentials: Option<(String, String)>,
    /// Whether an endpoint elsewhere may be spoken to without encryption.
    pub allow_http: bool,
}

/// Why a place cannot be used. The messages repeat no secret.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlaceError {
    /// It is no URL of a kind that is known.
    #[error("artifacts: the URL is neither file:///directory nor s3://bucket/prefix")]
    Url,
    /// A setting makes no sense beside the others.
    #[error("artifacts: {0}")]
    Setting(String),
    /// The directory cannot be made or is open to others.
    #[error("artifacts: the directory {path} cannot be used: {detail}")]
    Directory {
        /// Which.
        path: String,
        /// Why.
        detail: String,
    },
    /// The client of the service cannot be made.
    #[error("artifacts: the bucket {bucket} cannot be used")]
    Bucket {
        /// Which.
        bucket: String,
        /// What the client said.
        #[source]
        source: object_store::Error,
    },
}

impl Place {
    /// Reads a URL; `s3` has what else is set. With a directory none of that may be set.
    pub fn parse(url: &str, s3: S3) -> Result<Place, PlaceError> {
        let parsed = Url::parse(url).map_err(|_| PlaceError::Url)?;
        let plain = parsed.query().is_none() && parsed.fragment().is_none() && parsed.username().is_empty();
        match parsed.scheme() {
            "file" if plain => {
                if s3 != S3::default() {
                    let text = "endpoint, region, keys and allow_http mean nothing for a directory";
                    return Err(PlaceError::Setting(text.to_owned()));
                }
                parsed.to_file_path().map(Place::Directory).map_err(|()| PlaceError::Url)
            }
            "s3" if plain && parsed.port().is_none() => {
                let bucket = parsed.host_str().filter(|host| !host.is_empty()).ok_or(PlaceError::Url)?;
                let s3 = S3 {
                    bucket: bucket.to_owned(),
                    prefix: parsed.path().trim_matches('/').to_owned(),
                    ..s3
                };
                s3.check()?;
                Ok(Place::Bucket(s3))
            }
            _ => Err(PlaceError::Url),
        }
    }
}

impl S3 {
    /// Secrets and contents go over the wire in clear only where nobody listens, or where that is asked for.
    fn check(&self) -> Result<(), PlaceError> {
        let refuse = |text: &str| Err(PlaceError::Setting(text.to_owned()));
        let endpoint = match &self.endpoint {
            None if self.allow_http => return refuse("allow_http has no effect without an endpoint"),
            None => return Ok(()),
            Some(endpoint) => Url::parse(endpoint).ok(),
        };
        match endpoint.as_ref().map(|endpoint| (endpoint, endpoint.scheme())) {
            Some((_, "https")) if self.allow_http => refuse("allow_http has no effect on an https endpoint"),
            Some((_, "https")) => Ok(()),
            Some((endpoint, "http")) if self.allow_http || is_loopback(endpoint) => Ok(()),
            Some((_, "http")) => refuse("the endpoint is not encrypted: use https, or set allow_http"),
            _ => refuse("endpoint must be an http or https URL"),
        }
    }
}

/// Whether this URL leads to the machine itself, by an address or the name `localhost`.
pub fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        Some(Host::Domain(name)) => name == "localhost",
        None => false,
    }
}

impl fmt::Debug for S3 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let credentials = self.credentials.as_ref().map(|(id, _)| (id, "***"));
        f.debug_struct("S3")
            .field("bucket", &self.bucket)
            .field("prefix", &self.prefix)
            .field("endpoint", &self.endpoint)
            .field("region", &self.region)
            .field("credentials", &credentials)
            .field("allow_http", &self.allow_http)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(endpoint: &str, allow_http: bool) -> S3 {
        S3 { endpoint: Some(endpoint.to_owned()), allow_http, ..S3::default() }
    }

    #[test]
    fn directories_and_buckets_are_told_apart() {
        assert_eq!(
            Place::parse("file:///var/lib/x", S3::default()).unwrap(),
            Place::Directory("/var/lib/x".into())
        );
        let Place::Bucket(s3) = Place::parse("s3://bucket/a/b/", S3::default()).unwrap() else {
            panic!("no bucket")
        };
        assert_eq!((s3.bucket.as_str(), s3.prefix.as_str()), ("bucket", "a/b"));
        for url in [
            "/var/lib/x",
            "http://host/x",
            "s3:///x",
            "s3://bucket?x=1",
            "s3://bucket:80/",
            "s3://me@bucket/",
            "",
        ] {
            assert!(matches!(Place::parse(url, S3::default()), Err(PlaceError::Url)), "{url}");
        }
    }

    #[test]
    fn settings_without_effect_and_clear_text_are_refused() {
        let refused = |url: &str, s3: S3| matches!(Place::parse(url, s3), Err(PlaceError::Setting(_)));
        assert!(refused("file:///x", S3 { region: Some("eu".to_owned()), ..S3::default() }));
        assert!(refused("s3://b", S3 { allow_http: true, ..S3::default() }));
        assert!(refused("s3://b", at("https://s3.example.com", true)));
        assert!(refused("s3://b", at("http://s3.example.com", false)));
        assert!(refused("s3://b", at("http://127.0.0.1.example.com", false)));
        assert!(refused("s3://b", at("ftp://s3.example.com", false)));
        for (endpoint, allow_http) in [
            ("http://127.0.0.1:9000", false),
            ("http://localhost:9000", false),
            ("http://[::1]:1", false),
            ("http://minio", true),
        ] {
            assert!(Place::parse("s3://b", at(endpoint, allow_http)).is_ok(), "{endpoint}");
        }
    }

    #[test]
    fn no_secret_is_printed() {
        let s3 = S3 { credentials: Some(("id".to_owned(), "hush".to_owned())), ..S3::default() };
        let told = format!("{:?}", Place::parse("s3://b", s3).unwrap());
        assert!(told.contains("***") && !told.contains("hush"), "{told}");
    }
}
