//! The order of things: run by run, pass by pass, the contenders take turns, and whoever went first in one run goes
//! last in the next, so that neither a drift of the machine nor the place in the row favours anyone.

use anyhow::{Context, Result};
use indicatif::{ProgressBar, ProgressStyle};

use crate::cli::Plan;
use crate::contenders::Contender;
use crate::figures::Figures;
use crate::payload::{Payload, Size};
use crate::postgres_cpu::Postmaster;
use crate::server::Server;
use crate::workloads::{Pass, Setting};

pub async fn run(plan: &Plan, server: &Server, contenders: &mut [Box<dyn Contender>]) -> Result<Figures> {
    let postmaster = Postmaster::find(server).await?;
    if postmaster.is_none() {
        eprintln!("Postgres is not on this machine: no CPU figures");
    }
    let turns = turns(plan, contenders);
    let progress = ProgressBar::new(turns.len() as u64)
        .with_style(ProgressStyle::with_template("{bar:30} {pos}/{len} {elapsed} (left: {eta}) {msg}")?);
    let mut figures = Figures::default();
    for turn in turns {
        let contender = contenders[turn.contender].as_mut();
        let name = contender.name();
        progress.set_message(format!("run {}: {}, {name}", turn.run + 1, turn.pass.label()));
        let setting = Setting {
            server,
            postmaster: postmaster.as_ref(),
            plan,
            payload: &Payload::new(turn.payload),
            database: server.fresh_database(format!("jobforge_bench_{name}")).await?,
        };
        let samples = turn.pass.run(&setting, contender).await;
        let samples = samples.with_context(|| format!("{name}: {}", turn.pass.label()))?;
        for (metric, sample) in samples {
            if plan.workloads.contains(&metric.workload) {
                figures.record(turn.payload, &metric, name, sample);
            }
        }
        // Left standing, its dead rows would keep autovacuum busy under the next contender.
        server.drop_database(&setting.database).await?;
        progress.inc(1);
    }
    progress.finish_and_clear();
    Ok(figures)
}

/// One contender's go at one pass.
#[derive(Debug, PartialEq)]
struct Turn {
    run: u32,
    payload: Size,
    pass: Pass,
    contender: usize,
}

fn turns(plan: &Plan, contenders: &[Box<dyn Contender>]) -> Vec<Turn> {
    let needed: Vec<Vec<Pass>> =
        contenders.iter().map(|contender| Pass::needed(plan, contender.as_ref())).collect();
    let mut passes: Vec<Pass> = Vec::new();
    for pass in needed.iter().flatten() {
        if !passes.contains(pass) {
            passes.push(*pass);
        }
    }
    let mut turns = Vec::new();
    for run in 0..plan.runs {
        for &payload in &plan.payloads {
            for &pass in &passes {
                for contender in rotated(contenders.len(), run) {
                    if needed[contender].contains(&pass) {
                        turns.push(Turn { run, payload, pass, contender });
                    }
                }
            }
        }
    }
    turns
}

/// `0..len`, starting `by` places further on.
fn rotated(len: usize, by: u32) -> impl Iterator<Item = usize> {
    (0..len).map(move |place| (place + by as usize) % len)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everyone_is_first_in_turn() {
        assert_eq!(rotated(3, 0).collect::<Vec<_>>(), vec![0, 1, 2]);
        assert_eq!(rotated(3, 1).collect::<Vec<_>>(), vec![1, 2, 0]);
        assert_eq!(rotated(3, 5).collect::<Vec<_>>(), vec![2, 0, 1]);
        assert_eq!(rotated(0, 1).count(), 0);
    }
}
