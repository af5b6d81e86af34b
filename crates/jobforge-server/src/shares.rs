//! One tenant never takes all places of those who may wait.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use uuid::Uuid;

/// So many tenants are remembered before those that wait for nothing are forgotten.
const REMEMBERED: usize = 1000;

/// The tenants' places.
#[derive(Debug)]
pub(crate) struct Shares {
    places: usize,
    tenants: Mutex<HashMap<Uuid, Arc<Semaphore>>>,
}

impl Shares {
    /// So many places for each tenant.
    pub(crate) fn new(places: usize) -> Shares {
        Shares { places, tenants: Mutex::default() }
    }

    /// A place of the tenant's own; none when the others did not leave in time.
    pub(crate) async fn place(&self, tenant: Uuid, patience: Duration) -> Option<OwnedSemaphorePermit> {
        let own = self.own(tenant);
        timeout(patience, own.acquire_owned()).await.ok()?.ok()
    }

    fn own(&self, tenant: Uuid) -> Arc<Semaphore> {
        let mut tenants = self.tenants.lock().unwrap_or_else(PoisonError::into_inner);
        if tenants.len() >= REMEMBERED {
            // Whoever holds a place or waits for one holds its semaphore, too.
            tenants.retain(|_, own| Arc::strong_count(own) > 1);
        }
        tenants.entry(tenant).or_insert_with(|| Arc::new(Semaphore::new(self.places))).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_tenant_has_its_places_and_no_others_and_gets_them_back() {
        let shares = Shares::new(2);
        let (a, b) = (Uuid::from_u128(1), Uuid::from_u128(2));
        let now = Duration::ZERO;
        let (first, _second) = (shares.place(a, now).await.unwrap(), shares.place(a, now).await.unwrap());
        assert!(shares.place(a, now).await.is_none());
        assert!(shares.place(b, now).await.is_some());
        drop(first);
        assert!(shares.place(a, now).await.is_some());
    }

    #[tokio::test]
    async fn who_waits_for_nothing_is_forgotten() {
        let shares = Shares::new(1);
        let held = shares.place(Uuid::nil(), Duration::ZERO).await.unwrap();
        for number in 0..5000 {
            drop(shares.place(Uuid::from_u128(number), Duration::ZERO).await);
        }
        assert!(shares.tenants.lock().unwrap().len() <= REMEMBERED);
        assert!(shares.place(Uuid::nil(), Duration::ZERO).await.is_none());
        drop(held);
    }
}
