//! The upkeep that needs doing once, not once per process: taking lost leases back, making due work ready,
//! keeping partitions ahead, deleting what is past its time and objects that no job holds, sampling the queues.
//!
//! Any number of schedulers may run; the database lets one of them lead, under a term that only grows.
//! Leadership is an optimisation: every duty is idempotent and bounded, carries its term, and is refused when
//! the term is over. So a leader that was paused in between does nothing late; it finds itself following.
//!
//! - [`Scheduler`] (`scheduler.rs`) starts and stops the tasks below; `supervise.rs` ends them all when one of them ends.
//! - `leader.rs` asks for the leadership again and again and publishes what it is told.
//! - `duties.rs` runs the duties, one file each, while there is a term to run them under; those of the artifact store beside
//!   the others.
//!
//! What is absent on purpose: any decision about a job. Nothing a job's progress hangs on waits for a leader.

mod collect;
mod config;
mod connection;
mod duties;
mod error;
mod leader;
mod partitions;
mod promote;
mod prune;
mod reap;
mod scheduler;
mod stats;
mod supervise;
mod term;

pub use config::{FaultHook, Faults, SchedulerConfig};
pub use error::Error;
pub use scheduler::{Role, Scheduler, SchedulerHandle};
