//! The commands, one file each. A command answers with its exit code, or with the error that is told.

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
