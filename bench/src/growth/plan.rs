//! How much of everything.

use serde::Serialize;

use super::Scenario;

/// The sizes of W6 to W8 that are not those of the other workloads.
#[derive(Debug, Clone, Serialize)]
pub struct GrowthPlan {
    /// What the rows and tenants that stand around are multiplied with.
    pub scale: f64,
    pub held_seconds: u32,
    pub held_rate_per_s: u32,
    pub idle_seconds: u32,
    /// Empty means all.
    pub scenarios: Vec<Scenario>,
}

/// What a plan starts from before options change it.
#[derive(Debug, Clone, Copy)]
pub struct GrowthSizes {
    pub scale: f64,
    pub held_seconds: u32,
    pub held_rate_per_s: u32,
    pub idle_seconds: u32,
}

impl GrowthPlan {
    /// A full size at this plan's scale; never fewer than two, so that every scenario remains one.
    pub fn scaled(&self, full: usize) -> usize {
        ((full as f64 * self.scale).round() as usize).max(2)
    }
}

impl GrowthSizes {
    pub const FULL: Self = Self { scale: 1.0, held_seconds: 300, held_rate_per_s: 2_000, idle_seconds: 60 };
    pub const QUICK: Self = Self { scale: 0.002, held_seconds: 1, held_rate_per_s: 200, idle_seconds: 1 };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scale_shrinks_and_leaves_something() {
        let plan = |scale| GrowthPlan {
            scale,
            held_seconds: 1,
            held_rate_per_s: 1,
            idle_seconds: 1,
            scenarios: Vec::new(),
        };
        assert_eq!(plan(1.0).scaled(10_000), 10_000);
        assert_eq!(plan(0.002).scaled(10_000), 20);
        assert_eq!(plan(0.000_001).scaled(10_000), 2);
    }
}
