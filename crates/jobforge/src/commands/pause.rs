//! `jobforge pause`: hold a queue, a tenant or a definition back.

use std::process::ExitCode;

use anyhow::Result;
use jobforge_core::rpc::pause;
use jobforge_core::{NewPause, PauseKind};
use nix::unistd::{Uid, User, gethostname};
use serde_json::json;

use super::from_now;
use crate::cli::{Held, PauseArgs};
use crate::config::Config;
use crate::output::{Output, local};
use crate::target::{Purpose, Target};

pub(crate) async fn run(config: &Config, args: PauseArgs, output: Output) -> Result<ExitCode> {
    let end = args.length.map(|length| from_now("--for", length)).transpose()?;
    let client = Target::resolve(config, Purpose::Operate)?.connect().await?;
    let new = NewPause {
        kind: PauseKind::from(args.held.kind),
        author: Some(author(&args.held)),
        name: args.held.name(),
        reason: args.reason,
        until: args.until.or(end),
    };
    let paused_at = pause(&client, &new).await?;
    let json = json!({
        "kind": new.kind, "name": new.name, "reason": new.reason, "until": new.until, "author": new.author,
        "at": paused_at,
    });
    output.answer(&json, || {
        let end =
            new.until.map_or_else(|| "until it is resumed".to_owned(), |at| format!("until {}", local(at)));
        format!("{} {} is paused {end}; what runs goes on", new.kind, new.name)
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Who does it, for those who find the pause later.
pub(super) fn author(held: &Held) -> String {
    held.author.clone().unwrap_or_else(person)
}

/// Who sits before this command: the login is often everybody's.
pub(super) fn person() -> String {
    let uid = Uid::current();
    let user = User::from_uid(uid).ok().flatten().map_or_else(|| uid.to_string(), |user| user.name);
    let host = gethostname().ok().and_then(|host| host.into_string().ok());
    host.map_or_else(|| user.clone(), |host| format!("{user}@{host}"))
}
