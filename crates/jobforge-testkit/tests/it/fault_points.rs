//! Holding and failing code at named points.

use jobforge_testkit::{FaultInjected, FaultPoints};

#[tokio::test]
async fn a_point_holds_resumes_and_fails() {
    let points = FaultPoints::new();
    points.hit("claim").await.unwrap();

    points.pause("claim");
    let held = tokio::spawn({
        let points = points.clone();
        async move { points.hit("claim").await }
    });
    points.wait_reached("claim").await;
    assert!(!held.is_finished());
    points.hit("another").await.unwrap();
    points.resume("claim");
    held.await.unwrap().unwrap();

    points.fail("claim");
    assert_eq!(points.hit("claim").await, Err(FaultInjected("claim".to_owned())));
    assert_eq!(points.hits("claim"), 1);
    points.resume("claim");
    points.hit("claim").await.unwrap();
}
