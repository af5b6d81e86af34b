//! How many requests are taken: of a credential, and, of those that are refused, from an address.
//!
//! The address is the connection's own. What a header says of another one is not believed, because anybody can write
//! it; so behind a proxy all callers share the proxy's. That is why a credential which is remembered as valid is served
//! from a barred address, too: only what would ask the database or check a signature is turned away.

use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::num::NonZeroU32;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::extract::ConnectInfo;
use axum::http::request::Parts;
use governor::clock::{Clock, DefaultClock};
use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};

use crate::config::RateLimits;
use crate::problem::{ErrorCode, Problem};

/// The most addresses that are barred at a time; more would be an attack on the memory.
const MOST: usize = 100_000;
/// Of an IPv6 address: who has one has the others of its network.
const NETWORK: u128 = !0 << 64;

/// Where a connection comes from; nowhere in a test without one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Peer(Option<IpAddr>);

impl Peer {
    pub(crate) fn of(parts: &Parts) -> Peer {
        let info = parts.extensions.get::<ConnectInfo<SocketAddr>>();
        Peer(info.map(|ConnectInfo(address)| address.ip().to_canonical()))
    }

    pub(crate) fn is_loopback(self) -> bool {
        self.0.is_some_and(|address| address.is_loopback())
    }

    fn network(self) -> Option<IpAddr> {
        self.0.map(|address| match address {
            IpAddr::V4(_) => address,
            IpAddr::V6(six) => Ipv6Addr::from_bits(six.to_bits() & NETWORK).into(),
        })
    }
}

/// What was taken lately.
pub(crate) struct Rates {
    credentials: Option<DefaultKeyedRateLimiter<String>>,
    refused: Option<DefaultKeyedRateLimiter<IpAddr>>,
    barred: Mutex<HashMap<IpAddr, Instant>>,
}

impl fmt::Debug for Rates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Rates")
    }
}

impl Rates {
    pub(crate) fn new(limits: RateLimits) -> Rates {
        let quota = |rate: u32| NonZeroU32::new(rate).map(Quota::per_second);
        Rates {
            credentials: quota(limits.per_credential).map(RateLimiter::keyed),
            refused: quota(limits.refused_per_address).map(RateLimiter::keyed),
            barred: Mutex::default(),
        }
    }

    /// Counts a request of a credential.
    pub(crate) fn take(&self, credential: &str) -> Result<(), Problem> {
        let Some(limiter) = &self.credentials else { return Ok(()) };
        limiter.check_key(&credential.to_owned()).map_err(|until| {
            let wait = until.wait_time_from(DefaultClock::default().now());
            limited("credential_rate", "the credential makes too many requests", wait)
        })
    }

    /// Turns away who was refused too often, before anything is asked for its sake.
    pub(crate) fn admit(&self, peer: Peer) -> Result<(), Problem> {
        let Some(address) = peer.network() else { return Ok(()) };
        let now = Instant::now();
        match self.barred().get(&address) {
            Some(until) if *until > now => {
                let detail = "too many requests from this address were refused";
                Err(limited("refused_rate", detail, *until - now))
            }
            _ => Ok(()),
        }
    }

    /// Counts a request that was refused for its credential.
    pub(crate) fn note_refused(&self, peer: Peer) {
        let (Some(limiter), Some(address)) = (&self.refused, peer.network()) else { return };
        if let Err(until) = limiter.check_key(&address) {
            let wait = until.wait_time_from(DefaultClock::default().now());
            let mut barred = self.barred();
            if barred.len() < MOST || barred.contains_key(&address) {
                barred.insert(address, Instant::now() + wait);
            }
        }
    }

    /// Forgets who was quiet since.
    pub(crate) fn tidy(&self) {
        let now = Instant::now();
        self.barred().retain(|_, until| *until > now);
        if let Some(limiter) = &self.credentials {
            limiter.retain_recent();
        }
        if let Some(limiter) = &self.refused {
            limiter.retain_recent();
        }
    }

    fn barred(&self) -> MutexGuard<'_, HashMap<IpAddr, Instant>> {
        self.barred.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn limited(reason: &'static str, detail: &'static str, wait: Duration) -> Problem {
    // Rounded up: who comes back a moment too early is refused again.
    let wait = Duration::from_secs(wait.as_secs() + 1);
    Problem::new(ErrorCode::RateLimited, reason, detail).retry_after(wait)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_of_ipv6_is_one_address() {
        let network = |text: &str| Peer(Some(text.parse().unwrap())).network();
        assert_eq!(network("2001:db8:1:2::5"), network("2001:db8:1:2:ffff::9"));
        assert_ne!(network("2001:db8:1:2::5"), network("2001:db8:1:3::5"));
        assert_ne!(network("192.0.2.1"), network("192.0.2.2"));
    }

    #[test]
    fn no_limit_is_no_limit() {
        let rates = Rates::new(RateLimits { per_credential: 0, refused_per_address: 0 });
        let peer = Peer(Some(IpAddr::from([192, 0, 2, 1])));
        for _ in 0..1000 {
            rates.take("key").unwrap();
            rates.note_refused(peer);
        }
        rates.admit(peer).unwrap();
    }
}
