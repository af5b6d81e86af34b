//! CPU time of a local Postgres, and of this process, from /proc.
//!
//! The postmaster's own time, plus that of its children alive, plus that of its children gone (the kernel adds an
//! ended child's time to its parent). A child that ends between the two readings of one sum is missed or counted
//! twice, and the clock ticks at 10 ms, so the figure is approximate: good for a phase of a second, not for less.

use std::fs;
use std::net::IpAddr;

use anyhow::{Context, Result};
use nix::unistd::{SysconfVar, sysconf};

use crate::server::Server;

/// The parent of all of a server's processes.
#[derive(Debug)]
pub struct Postmaster {
    pid: u32,
    ticks_per_second: f64,
}

/// The fields of `/proc/<pid>/stat` this module needs.
#[derive(Debug, PartialEq)]
struct Stat {
    command: String,
    parent: u32,
    own_ticks: u64,
    ended_children_ticks: u64,
}

impl Postmaster {
    /// `None` if the server runs on another machine, or out of this one's sight.
    pub async fn find(server: &Server) -> Result<Option<Self>> {
        let row = server
            .admin()
            .query_typed_one("select pg_backend_pid(), host(inet_server_addr())", &[])
            .await
            .context("asking for the server's process")?;
        let address: Option<String> = row.get(1);
        let local = address.is_none_or(|ip| ip.parse().is_ok_and(|ip: IpAddr| ip.is_loopback()));
        let backend: i32 = row.get(0);
        let stat = fs::read_to_string(format!("/proc/{backend}/stat")).ok().and_then(|line| parse(&line));
        let ticks = sysconf(SysconfVar::CLK_TCK).ok().flatten();
        Ok(match (stat, ticks) {
            (Some(stat), Some(ticks)) if local && stat.command == "postgres" => {
                Some(Self { pid: stat.parent, ticks_per_second: ticks as f64 })
            }
            _ => None,
        })
    }

    /// CPU seconds of the whole server since its start.
    pub fn cpu_seconds(&self) -> Result<f64> {
        let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", self.pid))
            .context("listing Postgres's processes")?;
        let mut ticks = 0;
        for pid in children.split_whitespace() {
            // A child that has just ended is in its parent's sum, read last.
            let line = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            ticks += parse(&line).map_or(0, |stat| stat.own_ticks);
        }
        let line = fs::read_to_string(format!("/proc/{}/stat", self.pid))
            .context("reading the postmaster's time")?;
        let postmaster = parse(&line).context("the postmaster's stat has an unknown form")?;
        ticks += postmaster.own_ticks + postmaster.ended_children_ticks;
        Ok(ticks as f64 / self.ticks_per_second)
    }
}

/// CPU seconds of this process, in which workers and schedulers run that a workload starts.
pub fn own_cpu_seconds() -> Result<f64> {
    let line = fs::read_to_string("/proc/self/stat").context("reading this process's time")?;
    let stat = parse(&line).context("this process's stat has an unknown form")?;
    let ticks_per_second = sysconf(SysconfVar::CLK_TCK)?.context("the clock's tick is not known")?;
    Ok(stat.own_ticks as f64 / ticks_per_second as f64)
}

/// The command stands in parentheses and may hold spaces and parentheses itself, so the fields are counted from
/// the last closing one.
fn parse(line: &str) -> Option<Stat> {
    let (head, tail) = line.rsplit_once(')')?;
    let (_, command) = head.split_once('(')?;
    let fields: Vec<&str> = tail.split_whitespace().collect();
    let number = |index: usize| fields.get(index)?.parse::<u64>().ok();
    Some(Stat {
        command: command.to_owned(),
        parent: fields.get(1)?.parse().ok()?,
        own_ticks: number(11)? + number(12)?,
        ended_children_ticks: number(13)? + number(14)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_line_is_read_from_the_last_parenthesis() {
        let line = "42 (a (b) c) S 7 42 42 0 -1 4194560 1 2 3 4 100 20 3 400 20 0 1 0 9 9 9";
        let stat =
            Stat { command: "a (b) c".to_owned(), parent: 7, own_ticks: 120, ended_children_ticks: 403 };
        assert_eq!(parse(line), Some(stat));
        assert_eq!(parse(""), None);
    }
}
