//! Names become addresses here and nowhere else, and only addresses that may be reached come out: the
//! connection goes to exactly those, so there is no second look-up that could answer otherwise.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use futures_util::future::BoxFuture;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use super::policy::EgressPolicy;

/// Looks names up.
pub trait Lookup: Send + Sync + 'static {
    /// All addresses of a name.
    fn lookup<'a>(&'a self, name: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>>;
}

/// The system's resolver.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemLookup;

impl Lookup for SystemLookup {
    fn lookup<'a>(&'a self, name: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        Box::pin(async move {
            let found = tokio::net::lookup_host((name, 0)).await?;
            Ok(found.map(|address| address.ip()).collect())
        })
    }
}

/// A name that leads nowhere allowed.
#[derive(Debug, thiserror::Error)]
#[error("no address that may be reached")]
pub(super) struct NoAddress;

/// A look-up that lets only the policy's addresses through.
pub(super) struct GuardedResolver {
    pub(super) lookup: Arc<dyn Lookup>,
    pub(super) policy: Arc<EgressPolicy>,
}

impl Resolve for GuardedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let (lookup, policy) = (self.lookup.clone(), self.policy.clone());
        Box::pin(async move {
            // Why a look-up failed is not told apart from an answer that is denied.
            let found = lookup.lookup(name.as_str()).await.map_err(|_| NoAddress)?;
            // Port 0 is replaced by the URL's.
            let open = found.into_iter().filter(|address| policy.permits(*address));
            let open: Vec<SocketAddr> = open.map(|address| SocketAddr::new(address, 0)).collect();
            if open.is_empty() {
                return Err(NoAddress.into());
            }
            Ok(Box::new(open.into_iter()) as Addrs)
        })
    }
}
