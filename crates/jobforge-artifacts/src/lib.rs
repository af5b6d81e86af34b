//! Where payloads and results live that are too large for a row: a directory, or an S3-compatible store.
//!
//! - [`ArtifactStore`] (`store.rs`) writes, reads and deletes contents by their SHA-256, each tenant's apart.
//! - [`Place`] (`place.rs`) says where they are: settings that cannot work, or would have no effect, are refused.
//! - [`enqueue_job`] (`enqueue.rs`) enqueues a job and moves its payload into the store if it is large.
//!
//! What is absent on purpose: any knowledge of which object is still needed. The database has it; the
//! scheduler collects.

mod directory;
mod enqueue;
mod place;
mod store;

pub use enqueue::{EnqueueError, Stowed, enqueue_job, enqueue_stowed, fetch, stow};
pub use jobforge_core::{Artifact, ArtifactError, ArtifactId, ArtifactRef, Artifacts};
pub use place::{Place, PlaceError, S3, is_loopback};
pub use store::{ArtifactStore, Limits};
