//! One line that tells what goes on: refreshed in place on a terminal, written anew every few seconds
//! elsewhere.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use jobforge_core::connect::connect;
use jobforge_core::rpc::list_jobs;
use jobforge_core::{Error, JobFilter};
use jobforge_worker::{Stats, WorkerHandle};
use tokio::sync::watch;
use tokio_postgres::Client;

use crate::demo::TENANT;
use crate::output::{say, watched};

/// The most live jobs that are counted: a longer line helps nobody.
const COUNTED: i32 = 1000;

/// The live jobs.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Counts {
    pub(crate) queued: usize,
    pub(crate) running: usize,
    pub(crate) dead_letters: usize,
    capped: bool,
}

/// The line, kept up to date until dropped.
pub(crate) struct Summary {
    url: String,
    counts: watch::Sender<Counts>,
    bar: Option<ProgressBar>,
}

impl Summary {
    /// Counts what this login sees.
    pub(crate) fn new(url: String) -> Summary {
        let bar = watched().then(|| {
            let bar = ProgressBar::new_spinner();
            // The template is fixed; without a style the bar shows the same message.
            if let Ok(style) = ProgressStyle::with_template("{spinner} {wide_msg}") {
                bar.set_style(style);
            }
            bar
        });
        Summary { url, counts: watch::Sender::new(Counts::default()), bar }
    }

    /// What was counted last.
    pub(crate) fn counts(&self) -> watch::Receiver<Counts> {
        self.counts.subscribe()
    }

    /// Until dropped; a database that is away leaves the last counts standing.
    pub(crate) async fn run(&self, worker: &WorkerHandle) {
        let period = Duration::from_secs(if self.bar.is_some() { 1 } else { 5 });
        let mut client: Option<Client> = None;
        let (mut before, mut at) = (worker.stats(), Instant::now());
        loop {
            tokio::time::sleep(period).await;
            match self.count(&mut client).await {
                Ok(counts) => drop(self.counts.send_replace(counts)),
                Err(error) => {
                    tracing::debug!(%error, "not counted");
                    client = None;
                }
            }
            let stats = worker.stats();
            self.show(&line(*self.counts.borrow(), &stats, &before, at.elapsed()));
            (before, at) = (stats, Instant::now());
        }
    }

    async fn count(&self, client: &mut Option<Client>) -> Result<Counts, Error> {
        let client = match client {
            Some(client) => client,
            None => {
                let (fresh, connection) = connect(&self.url).await?;
                tokio::spawn(connection);
                client.insert(fresh)
            }
        };
        let statuses = ["blocked", "queued", "running", "failed", "dead"].map(str::to_owned).to_vec();
        let filter = JobFilter { statuses: Some(statuses), limit: COUNTED, ..JobFilter::default() };
        let page = list_jobs(client, TENANT, &filter).await?;
        let of = |names: &[&str]| page.jobs.iter().filter(|job| names.contains(&job.status.as_str())).count();
        Ok(Counts {
            queued: of(&["blocked", "queued"]),
            running: of(&["running"]),
            dead_letters: of(&["failed", "dead"]),
            capped: page.next_cursor.is_some(),
        })
    }

    fn show(&self, line: &str) {
        match &self.bar {
            Some(bar) => {
                bar.set_message(line.to_owned());
                bar.tick();
            }
            None => say(line),
        }
    }
}

impl Drop for Summary {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn line(counts: Counts, now: &Stats, before: &Stats, passed: Duration) -> String {
    let rate = |now: u64, before: u64| {
        let jobs = u32::try_from(now.saturating_sub(before)).unwrap_or(u32::MAX);
        f64::from(jobs) / passed.as_secs_f64().max(0.001)
    };
    let more = if counts.capped { "+" } else { "" };
    format!(
        "queued {}{more} · running {} · succeeded {} ({:.1}/s) · failed {} ({:.1}/s) · dead letters {}{more}",
        counts.queued,
        counts.running,
        now.completed,
        rate(now.completed, before.completed),
        now.failed,
        rate(now.failed, before.failed),
        counts.dead_letters,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_tells_counts_and_rates() {
        let counts = Counts { queued: 3, running: 2, dead_letters: 1, capped: false };
        let (before, now) = (
            Stats { completed: 10, ..Stats::default() },
            Stats { completed: 20, failed: 5, ..Stats::default() },
        );
        assert_eq!(
            line(counts, &now, &before, Duration::from_secs(5)),
            "queued 3 · running 2 · succeeded 20 (2.0/s) · failed 5 (1.0/s) · dead letters 1"
        );
    }
}
