//! Connectors at work: a real worker on a real Postgres, from the tenant's set-up to the job's result.
#![expect(clippy::unwrap_used, reason = "a failed step fails the test, wherever it is")]

mod configs;
mod generators;
mod support;
