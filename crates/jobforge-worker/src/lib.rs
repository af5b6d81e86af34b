//! JobForge's worker: claims jobs, runs handlers, reports outcomes.
//!
//! ```no_run
//! use jobforge_worker::{Context, JobType, Outcome, Worker, WorkerConfig};
//!
//! #[derive(serde::Deserialize)]
//! struct SendMail { to: String }
//!
//! impl JobType for SendMail { const TYPE: &'static str = "mail.send"; }
//!
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! let config = WorkerConfig { database_url: "postgres://…".to_owned(), ..WorkerConfig::default() };
//! let worker = Worker::builder(config)
//!     .handle_job(|_: Context, mail: SendMail| async move { println!("to {}", mail.to); Ok(Outcome::done()) })
//!     .build()?;
//! let running = worker.start().await?;
//! tokio::signal::ctrl_c().await?;
//! running.shutdown().await;
//! # Ok(())
//! # }
//! ```
//!
//! The guide `docs/guides/rust.md` tells more; [`testing`] is for tests of handlers.
//!
//! The way of a job: `runner` claims it onto a lease and puts it into the `buffer`; a slot takes it out and
//! gives it to the `executor`; the `reporter` tells the database how it ended. Beside them `heartbeat` keeps
//! the leases alive from a thread of its own, and `sleep` waits when there is no work. Each of them may lose
//! its connection at any time; the lease and the job's fence make whatever they repeat harmless.

mod apart;
mod artifacts;
mod beside;
#[cfg(feature = "amqp")]
mod broker;
mod buffer;
mod bundle;
mod claiming;
mod config;
mod context;
mod desk;
mod engine;
mod executor;
mod flights;
mod handler;
mod heartbeat;
mod holdings;
mod job;
mod journal;
mod lanes;
mod link;
mod listener;
mod notes;
mod outcome;
mod pace;
mod panics;
mod positions;
mod readiness;
mod redact;
mod rehearsal;
mod reporter;
mod rules;
mod runner;
mod sleep;
mod stats;
mod supervise;
pub mod testing;
mod window;
mod worker;

#[cfg(feature = "amqp")]
pub use broker::{Broker, BrokerError, Probe, Publisher};
pub use config::WorkerConfig;
#[doc(hidden)]
pub use config::{FaultHook, Faults};
pub use context::Context;
pub use handler::Handler;
pub use jobforge_core::{JobType, Level, ProgramExit};
pub use journal::{End, Ended};
pub use outcome::{Exit, HandlerError, HandlerResult, Outcome};
pub use panics::hush_handler_panics;
pub use redact::{LEAST, REDACTED, Secrets};
pub use stats::Stats;
pub use worker::{Running, Worker, WorkerBuilder, WorkerError, WorkerHandle};

/// The code of the guides and of the README is compiled with this crate's.
#[cfg(doctest)]
mod documents {
    #[doc = include_str!("../../../README.md")]
    struct Readme;

    #[doc = include_str!("../../../docs/guides/rust.md")]
    struct Guide;

    #[cfg(feature = "amqp")]
    #[doc = include_str!("../../../docs/guides/rabbitmq.md")]
    struct Hints;

    #[doc = include_str!("../../../docs/guides/identity.md")]
    struct Identity;
}
