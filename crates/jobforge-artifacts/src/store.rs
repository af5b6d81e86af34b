//! Contents by their SHA-256: written whole, read only if they are what was written.

use std::error::Error as StdError;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{BoxFuture, FutureExt};
use jobforge_core::{Artifact, ArtifactError, ArtifactId, ArtifactRef, Artifacts};
use object_store::aws::AmazonS3Builder;
use object_store::path::Path;
use object_store::{BackoffConfig, ClientOptions, ObjectStore, ObjectStoreExt, PutPayload, RetryConfig};
use uuid::Uuid;

use crate::directory;
use crate::place::{Place, PlaceError, S3, is_loopback};

/// How large contents are, and how long the store is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Contents of more bytes than this are moved into the store.
    pub threshold: usize,
    /// The most bytes of one.
    pub max_bytes: u64,
    /// When an unanswered request counts as failed.
    pub timeout: Duration,
    /// How often a request that failed is sent again.
    pub retries: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            threshold: 256 * 1024,
            max_bytes: 64 * 1024 * 1024,
            timeout: Duration::from_secs(30),
            retries: 3,
        }
    }
}

/// A directory or a bucket, with an object for each content: `<prefix>/<tenant>/<hh>/<hash>`.
#[derive(Debug)]
pub struct ArtifactStore {
    objects: Arc<dyn ObjectStore>,
    prefix: String,
    /// The directory, if it is one.
    root: Option<PathBuf>,
    limits: Limits,
}

impl ArtifactStore {
    /// Opens a place. A directory is made; a bucket is not asked for before it is needed.
    pub fn open(place: &Place, limits: Limits) -> Result<ArtifactStore, PlaceError> {
        match place {
            Place::Directory(path) => {
                let objects = Arc::new(directory::open(path)?);
                Ok(ArtifactStore { objects, prefix: String::new(), root: Some(path.clone()), limits })
            }
            Place::Bucket(s3) => {
                let objects = client(s3, limits)
                    .map_err(|source| PlaceError::Bucket { bucket: s3.bucket.clone(), source })?;
                Ok(ArtifactStore { objects, prefix: s3.prefix.clone(), root: None, limits })
            }
        }
    }

    /// Where a tenant's object is. The names are made of hexadecimal digits alone: nothing that anybody wrote
    /// leads out of the tenant's part.
    fn key(&self, tenant: Uuid, id: ArtifactId) -> Path {
        let hex = id.hex();
        let own = [tenant.to_string(), hex[..2].to_owned(), hex];
        Path::from_iter(self.prefix.split('/').filter(|part| !part.is_empty()).map(str::to_owned).chain(own))
    }

    async fn write(&self, tenant: Uuid, artifact: Artifact) -> Result<(), ArtifactError> {
        let (reference, max) = (artifact.reference(), self.limits.max_bytes);
        if reference.bytes() > max {
            return Err(ArtifactError::TooLarge { bytes: reference.bytes(), max });
        }
        let id = reference.id();
        let failed = |source| unavailable("put", id, source);
        let key = self.key(tenant, id);
        let payload = PutPayload::from_bytes(artifact.content().clone());
        let written = self.objects.put(&key, payload);
        self.within(written).await.and_then(|put| put.map_err(Into::into)).map_err(failed)?;
        self.on_disk(&key, directory::close).await.map_err(failed)
    }

    async fn read(&self, tenant: Uuid, artifact: ArtifactRef) -> Result<Bytes, ArtifactError> {
        let (id, bytes, max) = (artifact.id(), artifact.bytes(), self.limits.max_bytes);
        if bytes > max {
            return Err(ArtifactError::TooLarge { bytes, max });
        }
        let altered = |detail: String| ArtifactError::Altered { id, detail };
        let key = self.key(tenant, id);
        let found = async {
            let found = self.objects.get(&key).await?;
            // Before the first byte of it is read: an object of another length may be of any.
            if found.meta.size != bytes {
                return Ok(Err(altered(format!("it has {} bytes instead of {bytes}", found.meta.size))));
            }
            found.bytes().await.map(Ok)
        };
        let found = match self.within(found).await.map_err(|late| unavailable("get", id, late))? {
            Ok(found) => found?,
            Err(error) if self.is_missing(&error) => return Err(ArtifactError::Missing { id }),
            Err(error) => return Err(unavailable("get", id, error.into())),
        };
        match Artifact::of(found.clone()).reference() == artifact {
            true => Ok(found),
            false => Err(altered("its content has another SHA-256".to_owned())),
        }
    }

    async fn remove(&self, tenant: Uuid, id: ArtifactId) -> Result<(), ArtifactError> {
        let failed = |source| unavailable("delete", id, source);
        let key = self.key(tenant, id);
        match self.within(self.objects.delete(&key)).await.map_err(failed)? {
            Err(error) if !self.is_missing(&error) => return Err(failed(error.into())),
            _ => {}
        }
        self.on_disk(&key, directory::sweep).await.map_err(failed)
    }

    /// Of a bucket or directory that is itself not there nothing is known: it may be back in a moment.
    fn is_missing(&self, error: &object_store::Error) -> bool {
        let object_store::Error::NotFound { source, .. } = error else { return false };
        !source.to_string().contains("NoSuchBucket") && self.root.as_ref().is_none_or(|root| root.is_dir())
    }

    async fn within<T>(&self, work: impl Future<Output = T>) -> Result<T, Source> {
        // The client's own limits are for each try of a request.
        let all = self.limits.timeout * u32::try_from(self.limits.retries + 1).unwrap_or(u32::MAX);
        tokio::time::timeout(all, work).await.map_err(|_| format!("no answer within {all:?}").into())
    }

    async fn on_disk(
        &self,
        key: &Path,
        work: fn(&std::path::Path) -> std::io::Result<()>,
    ) -> Result<(), Source> {
        let Some(root) = &self.root else { return Ok(()) };
        let file = root.join(key.as_ref());
        Ok(tokio::task::spawn_blocking(move || work(&file)).await??)
    }
}

type Source = Box<dyn StdError + Send + Sync>;

fn unavailable(operation: &'static str, id: ArtifactId, source: Source) -> ArtifactError {
    ArtifactError::Unavailable { operation, id, source }
}

fn client(s3: &S3, limits: Limits) -> Result<Arc<dyn ObjectStore>, object_store::Error> {
    let retry = RetryConfig {
        backoff: BackoffConfig { max_backoff: Duration::from_secs(5), ..BackoffConfig::default() },
        max_retries: limits.retries,
        retry_timeout: limits.timeout,
    };
    let options = ClientOptions::new()
        .with_timeout(limits.timeout)
        .with_connect_timeout(limits.timeout.min(Duration::from_secs(5)));
    let endpoint = s3.endpoint.as_deref();
    let plain =
        endpoint.and_then(|endpoint| url::Url::parse(endpoint).ok()).is_some_and(|url| is_loopback(&url));
    let mut builder = AmazonS3Builder::new()
        .with_bucket_name(&s3.bucket)
        .with_region(s3.region.as_deref().unwrap_or("us-east-1"))
        .with_virtual_hosted_style_request(false)
        // Not every service knows the request for many.
        .with_disable_bulk_delete(true)
        .with_retry(retry)
        .with_client_options(options)
        .with_allow_http(s3.allow_http || plain);
    if let Some(endpoint) = endpoint {
        builder = builder.with_endpoint(endpoint.trim_end_matches('/'));
    }
    if let Some((id, secret)) = &s3.credentials {
        builder = builder.with_access_key_id(id).with_secret_access_key(secret);
    }
    Ok(Arc::new(builder.build()?))
}

impl Artifacts for ArtifactStore {
    fn threshold(&self) -> usize {
        self.limits.threshold
    }

    fn put(&self, tenant: Uuid, artifact: Artifact) -> BoxFuture<'_, Result<(), ArtifactError>> {
        self.write(tenant, artifact).boxed()
    }

    fn get(&self, tenant: Uuid, artifact: ArtifactRef) -> BoxFuture<'_, Result<Bytes, ArtifactError>> {
        self.read(tenant, artifact).boxed()
    }

    fn delete(&self, tenant: Uuid, id: ArtifactId) -> BoxFuture<'_, Result<(), ArtifactError>> {
        self.remove(tenant, id).boxed()
    }
}
