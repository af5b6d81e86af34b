//! The pictures of one run: what W6 keeps, what W7 shares, what a held snapshot does over time.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::metric::{Against, Limit, Metric, Workload};
use crate::payload::Size;
use crate::plot::{Bar, Bars, Curve, Curves};
use crate::report::Report;

/// Writes the pictures there is something to draw for.
pub fn write(directory: &Path, report: &Report) -> Result<()> {
    fs::create_dir_all(directory).with_context(|| format!("creating {}", directory.display()))?;
    let pictures = [
        ("w6-growth.svg", ratios(report, Workload::W6, "W6: drain / plain drain, median (line: min–max)")),
        ("w6-snapshot.svg", held(report)),
        ("w7-tenants.svg", ratios(report, Workload::W7, "W7: drain over many tenants / over one")),
        ("w7-shares.svg", shares(report)),
    ];
    for (name, picture) in pictures {
        if let Some(svg) = picture {
            let path = directory.join(name);
            fs::write(&path, svg).with_context(|| format!("writing {}", path.display()))?;
        }
    }
    Ok(())
}

fn ratios(report: &Report, workload: Workload, title: &str) -> Option<String> {
    let metrics = metrics(report, |metric| metric.workload == workload && metric.unit == "ratio");
    let bars = bars(report, &metrics);
    let bound = metrics.iter().find_map(at_least);
    let line = bound.map(|bound| (bound, format!("must hold: ≥ {bound}")));
    (!bars.is_empty()).then(|| Bars { title: title.to_owned(), bars, line }.svg())
}

fn shares(report: &Report) -> Option<String> {
    let metrics =
        metrics(report, |metric| metric.workload == Workload::W7 && metric.name.contains("share of"));
    let bars = bars(report, &metrics);
    let title = "W7: shares of starts, % (their weights ask for 14, 29 and 57)".to_owned();
    (!bars.is_empty()).then(|| Bars { title, bars, line: None }.svg())
}

fn held(report: &Report) -> Option<String> {
    let seconds = &report.findings.held;
    let curve = |name: &str, value: fn(&super::Second) -> f64| Curve {
        name: name.to_owned(),
        points: seconds.iter().map(|second| (f64::from(second.second), value(second))).collect(),
    };
    let curves = vec![curve("p50", |second| second.p50_ms), curve("p99", |second| second.p99_ms)];
    let title = "W6 (f): enqueue to start, ms, while a snapshot is held".to_owned();
    (!seconds.is_empty()).then(|| Curves { title, x_name: "s".to_owned(), curves }.svg())
}

fn metrics(report: &Report, wanted: impl Fn(&Metric) -> bool) -> Vec<Metric> {
    report.figures.metrics(Size::Small).into_iter().filter(wanted).collect()
}

fn bars(report: &Report, metrics: &[Metric]) -> Vec<Bar> {
    let bar = |metric: &Metric| {
        let spread = report.figures.figure(Size::Small, metric, "jobforge")?;
        Some(Bar {
            label: metric
                .name
                .trim_end_matches(" / plain")
                .replace(": started at its end / without", ", rate"),
            value: spread.median,
            min: spread.min,
            max: spread.max,
            text: format!("{:.2}", spread.median),
            holds: at_least(metric).map(|bound| spread.median >= bound),
        })
    };
    metrics.iter().filter_map(bar).collect()
}

fn at_least(metric: &Metric) -> Option<f64> {
    metric.bounds.iter().find_map(|bound| match (bound.against, bound.limit) {
        (Against::Nothing, Limit::AtLeast(limit)) => Some(limit),
        _ => None,
    })
}
