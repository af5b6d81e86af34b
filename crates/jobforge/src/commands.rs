//! The commands, one file each. A command answers with its exit code, or with the error that is told.

use anyhow::Result;
use jiff::{SignedDuration, Timestamp};

use crate::failure::Usage;

pub(crate) mod bench;
pub(crate) mod check_commands;
pub(crate) mod config_show;
pub(crate) mod connectors;
pub(crate) mod dead;
pub(crate) mod definitions;
pub(crate) mod dev;
pub(crate) mod doctor;
pub(crate) mod enqueue;
pub(crate) mod jobs;
pub(crate) mod keys;
pub(crate) mod migrate;
pub(crate) mod openapi;
pub(crate) mod pause;
pub(crate) mod pauses;
pub(crate) mod queues;
pub(crate) mod result;
pub(crate) mod resume;
pub(crate) mod schedule;
pub(crate) mod serve;
pub(crate) mod tenants;
pub(crate) mod tick;
pub(crate) mod work;
pub(crate) mod workers;

/// The time that is this long from now by this machine's clock, as a flag asks for.
fn from_now(flag: &str, length: SignedDuration) -> Result<Timestamp> {
    let at = Timestamp::now().checked_add(length);
    at.map_err(|_| Usage::new(format!("{flag} {length:#}: there is no such time")).into())
}
