//! Stories of the worker, on a real Postgres, as the login roles of production.
#![expect(clippy::unwrap_used, reason = "a failed step fails the test, wherever it is")]

#[cfg(feature = "amqp")]
mod broker;
#[cfg(feature = "amqp")]
mod broker_probe;
mod calls;
mod examples;
mod faults;
mod lanes;
mod leases;
mod limits;
mod locked;
mod pooler;
mod refused;
mod rules;
mod running;
mod shutdown;
mod sleeping;
mod support;
mod talkers;
mod testing;
