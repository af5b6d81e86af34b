//! All that was measured: for each payload, metric and contender, one sample a run.

use serde::Serialize;

use crate::metric::Metric;
use crate::payload::Size;
use crate::statistics::{Spread, ratios, spread};

/// The samples of one contender for one metric and payload, in the order of the runs.
#[derive(Debug, Serialize)]
pub struct Series {
    pub payload: Size,
    #[serde(flatten)]
    pub metric: Metric,
    pub contender: &'static str,
    pub samples: Vec<f64>,
}

/// The results, in the order in which they were first measured.
#[derive(Debug, Default, Serialize)]
#[serde(transparent)]
pub struct Figures {
    series: Vec<Series>,
}

impl Figures {
    pub fn record(&mut self, payload: Size, metric: &Metric, contender: &'static str, sample: f64) {
        let known = self.series.iter_mut().find(|series| {
            series.payload == payload && series.metric == *metric && series.contender == contender
        });
        match known {
            Some(series) => series.samples.push(sample),
            None => {
                let samples = vec![sample];
                self.series.push(Series { payload, metric: metric.clone(), contender, samples });
            }
        }
    }

    /// The metrics measured with a payload, by workload.
    pub fn metrics(&self, payload: Size) -> Vec<Metric> {
        let mut metrics: Vec<Metric> = Vec::new();
        for series in self.series.iter().filter(|series| series.payload == payload) {
            if !metrics.contains(&series.metric) {
                metrics.push(series.metric.clone());
            }
        }
        metrics.sort_by_key(|metric| metric.workload);
        metrics
    }

    pub fn figure(&self, payload: Size, metric: &Metric, contender: &str) -> Option<Spread> {
        spread(self.samples(payload, metric, contender))
    }

    /// The subject's figure over the other's, taken inside each run.
    pub fn ratio(&self, payload: Size, metric: &Metric, pair: (&str, &str)) -> Option<Spread> {
        let (subject, other) = pair;
        spread(&ratios(self.samples(payload, metric, subject), self.samples(payload, metric, other)))
    }

    /// A contender's figure over another one of its own, taken inside each run.
    pub fn own_ratio(&self, payload: Size, pair: (&Metric, &Metric), contender: &str) -> Option<Spread> {
        let (metric, other) = pair;
        spread(&ratios(self.samples(payload, metric, contender), self.samples(payload, other, contender)))
    }

    fn samples(&self, payload: Size, metric: &Metric, contender: &str) -> &[f64] {
        self.series
            .iter()
            .find(|series| {
                series.payload == payload && series.metric == *metric && series.contender == contender
            })
            .map_or(&[], |series| &series.samples)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric::{BULK, DRAIN};

    #[test]
    fn samples_gather_by_payload_metric_and_contender() {
        let mut figures = Figures::default();
        for sample in [10.0, 30.0, 20.0] {
            figures.record(Size::Small, &DRAIN, "jobforge", sample * 2.0);
            figures.record(Size::Small, &DRAIN, "raw", sample);
        }
        figures.record(Size::OneKib, &DRAIN, "raw", 1.0);
        figures.record(Size::Small, &BULK, "raw", 5.0);

        assert_eq!(figures.metrics(Size::Small), vec![BULK, DRAIN]);
        let raw = figures.figure(Size::Small, &DRAIN, "raw");
        assert_eq!(raw, Some(Spread { median: 20.0, min: 10.0, max: 30.0 }));
        let ratio = figures.ratio(Size::Small, &DRAIN, ("jobforge", "raw"));
        assert_eq!(ratio, Some(Spread { median: 2.0, min: 2.0, max: 2.0 }));
        assert_eq!(figures.ratio(Size::Small, &BULK, ("jobforge", "raw")), None);
    }
}
