//! Medians, percentiles, spreads and ratios.
//!
//! The machines are noisy, so a figure is never a mean: it is the median of its runs with the smallest and
//! the largest beside it, and a ratio is taken inside each run before the median is taken over runs.

use serde::Serialize;

/// The middle of several runs, and how far they lie apart.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Spread {
    pub median: f64,
    pub min: f64,
    pub max: f64,
}

/// `None` for no samples.
pub fn spread(samples: &[f64]) -> Option<Spread> {
    let sorted = sorted(samples);
    Some(Spread { median: median(samples)?, min: *sorted.first()?, max: *sorted.last()? })
}

/// The middle sample, or the mean of the two middle ones.
pub fn median(samples: &[f64]) -> Option<f64> {
    let sorted = sorted(samples);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        len if len % 2 == 1 => Some(sorted[middle]),
        _ => Some(f64::midpoint(sorted[middle - 1], sorted[middle])),
    }
}

/// The nearest-rank percentile (`percent` in 0..=100): a value that really occurred, which is what a latency
/// of which "99 % were no slower" should be.
pub fn percentile(samples: &[f64], percent: f64) -> Option<f64> {
    let sorted = sorted(samples);
    if sorted.is_empty() {
        return None;
    }
    let rank = (percent / 100.0 * sorted.len() as f64).ceil() as usize;
    Some(sorted[rank.clamp(1, sorted.len()) - 1])
}

/// `subject / other` run by run. Runs that one of the two lacks, and zero divisors, are left out.
pub fn ratios(subject: &[f64], other: &[f64]) -> Vec<f64> {
    subject
        .iter()
        .zip(other)
        .filter(|(_, other)| **other != 0.0)
        .map(|(subject, other)| subject / other)
        .collect()
}

/// Jain's index of how equally something was shared out: 1 where all got the same, 1/n where one got everything.
/// `None` where there was nothing to share.
pub fn jain(portions: &[f64]) -> Option<f64> {
    let squares: f64 = portions.iter().map(|portion| portion * portion).sum();
    let sum: f64 = portions.iter().sum();
    (squares > 0.0).then(|| sum * sum / (portions.len() as f64 * squares))
}

/// How far the portions are from what their weights entitle them to, the worst of them, as a part of the entitlement.
/// `None` where there was nothing to share.
pub fn worst_deviation(portions: &[f64], weights: &[f64]) -> Option<f64> {
    let (sum, weight_sum): (f64, f64) = (portions.iter().sum(), weights.iter().sum());
    let deviation = |(portion, weight): (&f64, &f64)| (portion / sum / (weight / weight_sum) - 1.0).abs();
    (sum > 0.0).then(|| portions.iter().zip(weights).map(deviation).fold(0.0, f64::max))
}

fn sorted(samples: &[f64]) -> Vec<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_of_odd_even_and_nothing() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(&[]), None);
    }

    #[test]
    fn spread_shows_the_extremes() {
        assert_eq!(spread(&[5.0, 9.0, 6.0]), Some(Spread { median: 6.0, min: 5.0, max: 9.0 }));
        assert_eq!(spread(&[]), None);
    }

    #[test]
    fn percentile_is_a_value_that_occurred() {
        let hundred: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!(percentile(&hundred, 50.0), Some(50.0));
        assert_eq!(percentile(&hundred, 99.0), Some(99.0));
        assert_eq!(percentile(&hundred, 100.0), Some(100.0));
        assert_eq!(percentile(&hundred, 0.0), Some(1.0));
        assert_eq!(percentile(&[7.0], 99.0), Some(7.0));
        assert_eq!(percentile(&[], 50.0), None);
    }

    #[test]
    fn ratio_is_taken_inside_each_run() {
        // The machine is twice as fast in the second run; the ratio does not see it.
        assert_eq!(ratios(&[10.0, 20.0], &[5.0, 10.0]), vec![2.0, 2.0]);
        assert_eq!(ratios(&[10.0, 20.0], &[5.0]), vec![2.0]);
        assert_eq!(ratios(&[10.0, 20.0], &[0.0, 10.0]), vec![2.0]);
    }

    #[test]
    fn jain_tells_equal_from_unequal() {
        assert_eq!(jain(&[5.0, 5.0, 5.0, 5.0]), Some(1.0));
        assert_eq!(jain(&[8.0, 0.0, 0.0, 0.0]), Some(0.25));
        assert_eq!(jain(&[1.0, 3.0]), Some(0.8));
        assert_eq!(jain(&[0.0, 0.0]), None);
        assert_eq!(jain(&[]), None);
    }

    #[test]
    fn deviation_is_of_the_worst_share() {
        assert_eq!(worst_deviation(&[10.0, 20.0, 40.0], &[1.0, 2.0, 4.0]), Some(0.0));
        // A third each: the heaviest lacks 5/12 of its 4/7, the lightest has 4/3 more than its 1/7.
        let equal = worst_deviation(&[1.0, 1.0, 1.0], &[1.0, 2.0, 4.0]).unwrap();
        assert!((equal - 4.0 / 3.0).abs() < 1e-9, "{equal}");
        assert_eq!(worst_deviation(&[0.0, 0.0], &[1.0, 2.0]), None);
    }
}
