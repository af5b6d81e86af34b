//! Named points in code under test where a test can hold it or make it fail.

use std::collections::HashMap;
use std::time::Duration;

use tokio::sync::watch;

/// How long a test waits for code to come by before it fails.
const PATIENCE: Duration = Duration::from_secs(30);

/// A registry of points; clones share it.
#[derive(Debug, Clone)]
pub struct FaultPoints {
    points: watch::Sender<HashMap<String, Point>>,
}

/// What [`FaultPoints::hit`] returns at a point that is set to fail.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("injected failure at `{0}`")]
pub struct FaultInjected(pub String);

#[derive(Debug, Clone, Copy, Default)]
struct Point {
    action: Action,
    /// Hits since the action was last changed by `pause` or `fail`.
    hits: usize,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Action {
    #[default]
    Pass,
    Pause,
    Fail,
}

impl FaultPoints {
    /// All points pass.
    pub fn new() -> FaultPoints {
        FaultPoints { points: watch::Sender::new(HashMap::new()) }
    }

    /// Called by code under test: passes, waits for [`FaultPoints::resume`], or fails.
    pub async fn hit(&self, name: &str) -> Result<(), FaultInjected> {
        self.change(name, |point| point.hits += 1);
        let is_open = |points: &HashMap<String, Point>| action(points, name) != Action::Pause;
        let decided = self.points.subscribe().wait_for(is_open).await.map(|points| action(&points, name));
        match decided {
            Ok(Action::Fail) => Err(FaultInjected(name.to_owned())),
            _ => Ok(()),
        }
    }

    /// Holds whoever hits the point from now on.
    pub fn pause(&self, name: &str) {
        self.change(name, |point| *point = Point { action: Action::Pause, hits: 0 });
    }

    /// Lets everybody at the point go on, and later ones pass.
    pub fn resume(&self, name: &str) {
        self.change(name, |point| point.action = Action::Pass);
    }

    /// Fails everybody at the point, and later ones until [`FaultPoints::resume`].
    pub fn fail(&self, name: &str) {
        self.change(name, |point| *point = Point { action: Action::Fail, hits: 0 });
    }

    /// How often the point was hit since `pause` or `fail`.
    pub fn hits(&self, name: &str) -> usize {
        self.points.borrow().get(name).map_or(0, |point| point.hits)
    }

    /// Returns once the point was hit since `pause` or `fail`; fails the test after half a minute.
    pub async fn wait_reached(&self, name: &str) {
        let mut points = self.points.subscribe();
        let reached = points.wait_for(|points| points.get(name).is_some_and(|point| point.hits > 0));
        let reached = tokio::time::timeout(PATIENCE, reached).await;
        assert!(reached.is_ok(), "nobody came to the fault point `{name}` within {PATIENCE:?}");
    }

    fn change(&self, name: &str, change: impl FnOnce(&mut Point)) {
        self.points.send_modify(|points| change(points.entry(name.to_owned()).or_default()));
    }
}

impl Default for FaultPoints {
    fn default() -> Self {
        FaultPoints::new()
    }
}

fn action(points: &HashMap<String, Point>, name: &str) -> Action {
    points.get(name).copied().unwrap_or_default().action
}
