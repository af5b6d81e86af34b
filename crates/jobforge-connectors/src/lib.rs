//! What a worker does without code: commands, connectors, and the one egress client they share.

pub mod command;
