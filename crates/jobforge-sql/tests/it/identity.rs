//! Who calls and what they did: API keys by their lives, the audit log by its entries, and what a server looks up for
//! those who wait and read along.

#![allow(clippy::unwrap_used, reason = "a failed step fails the story, wherever it is")]

mod audit;
mod keys;
mod looks;
mod sessions;
