//! What a worker does without code: commands, connectors, and the one egress client they share.
//!
//! - `configs`: what connectors are set up with per tenant, and how secrets are sealed
//! - `report`: `connector.report.generate`
//! - `qr`: `connector.qr.generate`

pub mod configs;
mod generators;
pub mod qr;
pub mod report;

pub use generators::{generator_definitions, register_generators};
