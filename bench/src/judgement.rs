//! What must hold, judged by what was measured: in the table, and by the exit code for whoever asks for it.

use std::fmt;
use std::process::ExitCode;

use crate::metric::{self, Against, Bound, Limit, Metric};
use crate::payload::Size;
use crate::report::{Report, number};

/// A bound, and what it was judged by.
#[derive(Debug, Clone, PartialEq)]
pub struct Judged {
    bound: Bound,
    value: f64,
}

impl Judged {
    pub fn holds(&self) -> bool {
        self.bound.limit.holds(self.value)
    }
}

impl fmt::Display for Judged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.bound.limit {
            Limit::AtLeast(limit) => write!(f, "≥ {limit}")?,
            Limit::AtMost(limit) => write!(f, "≤ {limit}")?,
        }
        match self.bound.against {
            Against::Nothing => {}
            Against::Contender(other) => write!(f, " {other}")?,
            // No column of the table has this ratio.
            Against::OwnBulk(method) => write!(f, " of {method} ({})", number(self.value))?,
        }
        f.write_str(if self.holds() { ": holds" } else { ": SHORT" })
    }
}

impl Report {
    /// The bounds that can be judged: those of the product, against what took part.
    pub fn judged(&self, payload: Size, metric: &Metric) -> Vec<Judged> {
        // Bounds are promises of the product; a peer that stands in as subject has made none.
        if self.subject() != "jobforge" {
            return Vec::new();
        }
        let judge = |bound: &Bound| {
            let spread = match bound.against {
                Against::Nothing => self.figures.figure(payload, metric, self.subject()),
                Against::Contender(other) => self.figures.ratio(payload, metric, (self.subject(), other)),
                Against::OwnBulk(method) => {
                    let limit = metric::bulk_by(method);
                    self.figures.own_ratio(payload, (metric, &limit), self.subject())
                }
            };
            Some(Judged { bound: *bound, value: spread?.median })
        };
        metric.bounds.iter().filter_map(judge).collect()
    }

    /// What `--judge` says of the whole run, and its exit code. A run that left out what a bound of it is judged by has not
    /// shown that bound.
    pub fn verdict(&self) -> (String, ExitCode) {
        let mut judged = 0;
        let mut short = Vec::new();
        let mut open = Vec::new();
        for &payload in &self.plan.payloads {
            for metric in self.figures.metrics(payload) {
                let named =
                    |what: &dyn fmt::Display| format!("\n  {:?} {}: {what}", metric.workload, metric.name);
                let bounds = self.judged(payload, &metric);
                judged += bounds.len();
                short.extend(bounds.iter().filter(|bound| !bound.holds()).map(|bound| named(bound)));
                let unjudged = metric.bounds.len() - bounds.len();
                open.extend((unjudged > 0).then(|| named(&format!("{unjudged} not judged"))));
            }
        }
        let told =
            format!("bounds judged: {judged}, short: {}{}{}", short.len(), short.concat(), open.concat());
        let sound = judged > 0 && short.is_empty() && open.is_empty();
        (told, if sound { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::Cli;
    use crate::figures::Figures;
    use crate::growth::Findings;
    use crate::metric::{BARE_COPY, BULK, DRAIN, HTTP_GAIN, bulk_by};
    use crate::report::ContenderSettings;

    /// A run in which JobForge drained so many jobs a second, raw 100 and graphile 50.
    fn drained(rate: f64) -> Report {
        let contender = |name| ContenderSettings { name, settings: Vec::new() };
        let mut report = Report {
            started_at: String::new(),
            plan: Cli::parse_from(["jobforge-bench"]).plan(),
            postgres: Vec::new(),
            contenders: ["jobforge", "raw", "graphile"].map(contender).into(),
            figures: Figures::default(),
            findings: Findings::default(),
        };
        for (name, rate) in [("jobforge", rate), ("raw", 100.0), ("graphile", 50.0)] {
            report.figures.record(Size::Small, &DRAIN, name, rate);
        }
        report
    }

    fn told(report: &Report, metric: &Metric) -> Vec<String> {
        report.judged(Size::Small, metric).iter().map(Judged::to_string).collect()
    }

    #[test]
    fn bounds_are_judged_by_the_ratios_of_the_product() {
        let mut report = drained(60.0);
        assert_eq!(told(&report, &DRAIN), ["≥ 1.2 graphile: holds", "≥ 0.7 raw: SHORT"]);
        let table = report.table(Size::Small).to_string();
        assert!(table.contains("jobforge / graphile") && table.contains("0.6000"), "{table}");
        assert!(table.contains("≥ 0.7 raw: SHORT"), "{table}");

        report.contenders.remove(0);
        assert_eq!(told(&report, &DRAIN), Vec::<String>::new(), "a peer has promised nothing");
    }

    #[test]
    fn a_bulk_enqueue_is_judged_by_a_copy_into_its_own_table() {
        let mut report = drained(90.0);
        report.figures.record(Size::Small, &BULK, "jobforge", 39.0);
        assert_eq!(told(&report, &BULK), Vec::<String>::new(), "nothing was copied");
        report.figures.record(Size::Small, &bulk_by(BARE_COPY), "jobforge", 100.0);
        assert_eq!(told(&report, &BULK), ["≥ 0.4 of bare COPY into the same table (0.3900): SHORT"]);
        assert_eq!(report.verdict().1, ExitCode::FAILURE);
    }

    #[test]
    fn a_verdict_falls_with_one_bound_and_stands_with_all() {
        let (told, code) = drained(90.0).verdict();
        assert_eq!((told.as_str(), code), ("bounds judged: 2, short: 0", ExitCode::SUCCESS));
        let (told, code) = drained(60.0).verdict();
        let short = "bounds judged: 2, short: 1\n  W3 drain: ≥ 0.7 raw: SHORT";
        assert_eq!((told.as_str(), code), (short, ExitCode::FAILURE));

        let mut report = drained(90.0);
        report.figures.record(Size::Small, &HTTP_GAIN, "jobforge", 4.9);
        let (told, code) = report.verdict();
        let short = "bounds judged: 3, short: 1\n  W1 what gathering gains: ≥ 5: SHORT";
        assert_eq!((told.as_str(), code), (short, ExitCode::FAILURE));
    }

    #[test]
    fn a_bound_whose_other_side_took_no_part_is_not_shown() {
        let mut report = drained(90.0);
        report.contenders.truncate(2);
        report.figures = Figures::default();
        for (name, rate) in [("jobforge", 90.0), ("raw", 100.0)] {
            report.figures.record(Size::Small, &DRAIN, name, rate);
        }
        let told = "bounds judged: 1, short: 0\n  W3 drain: 1 not judged";
        assert_eq!(report.verdict(), (told.to_owned(), ExitCode::FAILURE));
    }

    #[test]
    fn a_run_that_judged_nothing_is_no_success() {
        let mut report = drained(90.0);
        report.contenders.truncate(1);
        report.figures = Figures::default();
        assert_eq!(report.verdict(), ("bounds judged: 0, short: 0".to_owned(), ExitCode::FAILURE));
    }
}
