//! How many bytes of requests' bodies are in memory at once, over all connections.
//!
//! A body is let in as it comes, not as its head announces it: who announces much and sends little takes up little. What came
//! counts until its request is answered, since what was read from it lives as long. No tenant takes up more than half, so
//! that one that sends large bodies slowly keeps no other from being served.

use std::collections::HashMap;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::http::{Extensions, StatusCode};
use bytes::Bytes;
use uuid::Uuid;

use crate::auth::Identity;
use crate::problem::{ErrorCode, Problem};

/// The least that is made room for, where a body may be that long.
const LEAST: usize = 4 << 10;

/// The bodies of all requests under way.
#[derive(Debug)]
pub(crate) struct HeldBodies {
    most: usize,
    held: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    bytes: usize,
    /// How many of them each owner has.
    owners: HashMap<Owner, usize>,
}

/// Whose body it is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Owner {
    /// A caller of one tenant.
    Tenant(Uuid),
    /// A caller of no tenant.
    Credential(String),
    /// Whoever shows its credential in the body.
    Nobody,
}

/// What one body takes up, given back when this is dropped.
#[derive(Debug)]
pub(crate) struct Room {
    bodies: Arc<HeldBodies>,
    owner: Owner,
    bytes: usize,
}

/// Where a request's room is kept until the request is answered.
#[derive(Clone, Default)]
pub(crate) struct Kept(Arc<OnceLock<Room>>);

impl Owner {
    /// The owner of the request with these extensions, once its caller is known.
    pub(crate) fn of(extensions: &Extensions) -> Owner {
        match extensions.get::<Identity>() {
            Some(identity) => match identity.tenant() {
                Some(tenant) => Owner::Tenant(tenant),
                None => Owner::Credential(identity.credential.clone()),
            },
            None => Owner::Nobody,
        }
    }
}

impl Kept {
    pub(crate) fn keep(&self, room: Room) {
        // A request has one body.
        let _ = self.0.set(room);
    }
}

impl HeldBodies {
    /// So many bytes at most.
    pub(crate) fn new(most: usize) -> Arc<HeldBodies> {
        Arc::new(HeldBodies { most, held: Mutex::default() })
    }

    /// How many there are.
    pub(crate) fn bytes(&self) -> usize {
        self.held().bytes
    }

    /// No room yet, for somebody's body.
    pub(crate) fn room(self: &Arc<HeldBodies>, owner: Owner) -> Room {
        Room { bodies: self.clone(), owner, bytes: 0 }
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Room {
    /// Takes a body in, up to so many bytes.
    pub(crate) async fn take_in(&mut self, mut body: Body, most: usize) -> Result<Bytes, Problem> {
        let longest = body.size_hint().upper().and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(most);
        let mut bytes: Vec<u8> = Vec::new();
        while let Some(frame) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
            let frame = frame.map_err(|_| Problem::malformed("body_unreadable", "the body broke off"))?;
            let Ok(data) = frame.into_data() else { continue };
            let needed = bytes.len() + data.len();
            if needed > most {
                return Err(too_large());
            }
            if needed > bytes.capacity() {
                let wanted = (bytes.capacity() * 2).max(LEAST).min(longest).max(needed);
                self.grow(wanted)?;
                bytes.reserve_exact(wanted - bytes.len());
            }
            bytes.extend_from_slice(&data);
        }
        Ok(bytes.into())
    }

    /// Takes up so many bytes, or is refused them.
    fn grow(&mut self, bytes: usize) -> Result<(), Problem> {
        let more = bytes.saturating_sub(self.bytes);
        let mut held = self.bodies.held();
        let own = held.owners.get(&self.owner).copied().unwrap_or(0);
        if held.bytes + more > self.bodies.most || own + more > self.bodies.most.div_ceil(2) {
            return Err(full());
        }
        held.bytes += more;
        held.owners.insert(self.owner.clone(), own + more);
        self.bytes += more;
        Ok(())
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let mut held = self.bodies.held();
        held.bytes -= self.bytes;
        match held.owners.get_mut(&self.owner) {
            Some(own) if *own > self.bytes => *own -= self.bytes,
            _ => drop(held.owners.remove(&self.owner)),
        }
    }
}

pub(crate) fn too_large() -> Problem {
    Problem::new(ErrorCode::TooLarge, "body_too_large", "the body is larger than this server takes")
}

fn full() -> Problem {
    let detail = "the bodies of requests take up as much memory as this server lets (server.held_body_bytes, half of it for one tenant); try again";
    Problem::new(ErrorCode::RateLimited, "bodies_full", detail)
        .with_status(StatusCode::SERVICE_UNAVAILABLE)
        .retry_after(Duration::from_secs(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(number: u128) -> Owner {
        Owner::Tenant(Uuid::from_u128(number))
    }

    #[test]
    fn no_more_is_held_than_may_be_and_nobody_holds_it_all() {
        let bodies = HeldBodies::new(100);
        let (mut one, mut other, mut third) =
            (bodies.room(owner(1)), bodies.room(owner(2)), bodies.room(owner(3)));
        assert!(one.grow(30).is_ok() && one.grow(50).is_ok());
        assert_eq!(one.grow(51).unwrap_err().reason(), "bodies_full");
        assert!(bodies.room(owner(1)).grow(1).is_err(), "its half is taken up");
        assert!(other.grow(40).is_ok() && third.grow(10).is_ok());
        assert!(other.grow(41).is_err(), "all is taken up");
        drop(third);
        assert!(other.grow(50).is_ok());
        drop(one);
        assert!(bodies.room(owner(1)).grow(50).is_ok());
        drop(other);
        let held = bodies.held();
        assert_eq!((held.bytes, held.owners.len()), (0, 0));
    }

    #[tokio::test]
    async fn a_body_takes_up_what_it_is_long() {
        let bodies = HeldBodies::new(1 << 20);
        for length in [0, 1, LEAST, LEAST + 1, 100_000] {
            let mut room = bodies.room(Owner::Nobody);
            let sent = vec![7; length];
            let taken = room.take_in(Body::from(sent.clone()), 100_000).await.unwrap();
            assert_eq!((taken.as_ref(), room.bytes), (sent.as_slice(), length));
        }
        let mut room = bodies.room(Owner::Nobody);
        let long = room.take_in(Body::from(vec![7; 100_001]), 100_000).await.unwrap_err();
        assert_eq!((long.reason(), room.bytes), ("body_too_large", 0));
    }
}
