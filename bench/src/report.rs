//! The tables on stdout and the file of samples.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use comfy_table::{Cell, CellAlignment, Table, presets::UTF8_FULL_CONDENSED};
use serde::Serialize;

use crate::cli::Plan;
use crate::contenders::Contender;
use crate::figures::Figures;
use crate::growth::Findings;
use crate::judgement::Judged;
use crate::metric::Metric;
use crate::payload::Size;
use crate::server;
use crate::statistics::Spread;

/// Everything one run of the program found out.
#[derive(Debug, Serialize)]
pub struct Report {
    pub started_at: String,
    pub plan: Plan,
    pub postgres: Vec<server::Setting>,
    pub contenders: Vec<ContenderSettings>,
    pub figures: Figures,
    pub findings: Findings,
}

#[derive(Debug, Serialize)]
pub struct ContenderSettings {
    pub name: &'static str,
    pub settings: Vec<String>,
}

impl ContenderSettings {
    pub fn of(contender: &dyn Contender) -> Self {
        Self { name: contender.name(), settings: contender.settings() }
    }
}

impl Report {
    /// What the figures were measured under.
    pub fn settings(&self) -> String {
        let postgres: Vec<String> =
            self.postgres.iter().map(|setting| format!("{} = {}", setting.name, setting.value)).collect();
        let mut lines = vec![format!("Postgres: {}", postgres.join(", "))];
        for contender in &self.contenders {
            for setting in &contender.settings {
                lines.push(format!("{}: {setting}", contender.name));
            }
        }
        lines.join("\n")
    }

    /// Median and spread of each figure, and the subject's ratio to each other contender.
    pub fn table(&self, payload: Size) -> Table {
        let mut table = Table::new();
        table.load_style(UTF8_FULL_CONDENSED).set_header(self.header());
        for metric in self.figures.metrics(payload) {
            table.add_row(self.row(payload, &metric));
        }
        for column in table.column_iter_mut().skip(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        table
    }

    pub fn write(&self, path: &Path) -> Result<()> {
        let parent = path.parent().context("the results need a file to go to")?;
        fs::create_dir_all(parent).with_context(|| format!("creating {}", parent.display()))?;
        let json = serde_json::to_string_pretty(self)?;
        fs::write(path, json).with_context(|| format!("writing {}", path.display()))
    }

    fn header(&self) -> Vec<String> {
        let names = self.contenders.iter().map(|contender| contender.name);
        let mut header = vec![String::new()];
        header.extend(names.clone().map(str::to_owned));
        header.extend(names.skip(1).map(|other| format!("{} / {other}", self.subject())));
        header.push("must hold".to_owned());
        header
    }

    fn row(&self, payload: Size, metric: &Metric) -> Vec<Cell> {
        let names = self.contenders.iter().map(|contender| contender.name);
        let figures = names.clone().map(|name| self.figures.figure(payload, metric, name));
        let ratios = names.skip(1).map(|other| self.figures.ratio(payload, metric, (self.subject(), other)));
        let mut row = vec![Cell::new(format!("{:?} {}, {}", metric.workload, metric.name, metric.unit))];
        row.extend(figures.chain(ratios).map(|spread| Cell::new(show(spread))));
        let bounds: Vec<String> = self.judged(payload, metric).iter().map(Judged::to_string).collect();
        row.push(Cell::new(bounds.join("\n")));
        row
    }

    pub fn subject(&self) -> &'static str {
        self.contenders.first().map_or("", |contender| contender.name)
    }
}

fn show(spread: Option<Spread>) -> String {
    let Some(spread) = spread else { return "—".to_owned() };
    let [median, min, max] = [spread.median, spread.min, spread.max].map(number);
    if min == max { median } else { format!("{median} ({min}–{max})") }
}

/// Three or so significant digits; more would be noise.
pub fn number(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        size if size >= 10_000.0 => format!("{:.1}k", value / 1000.0),
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        assert_eq!(number(0.0), "0");
        assert_eq!(number(61_234.5), "61.2k");
        assert_eq!(number(1_234.5), "1234");
        assert_eq!(number(1.789), "1.79");
        assert_eq!(number(0.00123), "0.0012");
    }

    #[test]
    fn one_run_has_no_spread() {
        assert_eq!(show(None), "—");
        assert_eq!(show(Some(Spread { median: 2.0, min: 2.0, max: 2.0 })), "2.00");
        assert_eq!(show(Some(Spread { median: 2.0, min: 1.0, max: 3.0 })), "2.00 (1.00–3.00)");
    }
}
