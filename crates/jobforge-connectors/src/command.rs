//! Commands as jobs: the worker's own file says which program a job type runs, and how.
//!
//! The database knows a command by its key alone, which is the job's type. What the key means stands in the
//! worker's file, so whoever may enqueue chooses among programs and fills in values, and never writes a
//! command line.
//!
//! - `file.rs`, `fields.rs`: the file, checked as a whole; `argv.rs`, `environment.rs`, `verdict.rs`: its parts
//! - `handler.rs`: one attempt, from the payload to the outcome; `run.rs`: the worker's end of it
//! - `directory.rs`: the directories made for an attempt; `rehearsal.rs`: whether attempts can be kept apart here
//! - `output.rs`, `tails.rs`: what the program prints
//! - `order.rs`: what worker and supervisor say to each other
//! - `supervise.rs`: the supervisor, a process for each command; `launch.rs`: from its fork to the program;
//!   `namespace.rs`: a process namespace where the kernel allows one; `view.rs`: what it sees of the file system;
//!   `tree.rs`: finding and killing

mod argv;
mod directory;
mod environment;
mod fields;
mod file;
mod handler;
mod order;
mod output;
mod rehearsal;
mod run;
mod tails;
mod verdict;

#[cfg(target_os = "linux")]
mod launch;
#[cfg(target_os = "linux")]
mod namespace;
#[cfg(target_os = "linux")]
mod supervise;
mod tree;
#[cfg(target_os = "linux")]
mod view;

pub use environment::{SecretSource, WorkerEnvironment};
pub use fields::Problem;
pub use file::{Command, CommandFile};
pub use handler::Commands;
pub use order::Namespaces;
#[cfg(target_os = "linux")]
pub use supervise::supervise_if_asked;
pub use tree::sweep_orphans;

/// Becomes the supervisor of a command if this process was started as one. Commands need Linux: elsewhere no
/// file of commands is accepted, and nobody asks.
#[cfg(not(target_os = "linux"))]
pub fn supervise_if_asked() {}
