//! What the demo types promise: people judge the whole by them.

use std::process::{Child, Stdio};

use jobforge_core::LogsRequest;
use jobforge_core::rpc::list_logs;
use jobforge_testkit::{APP, TENANT_A, TestDb, WORKER};
use serde_json::{Value, json};

use crate::{Cli, Ran, demo_db, until};

/// An application and a worker that runs when it is told to.
struct Stage {
    db: TestDb,
    app: Cli,
    worker: Cli,
}

impl Stage {
    async fn new() -> Stage {
        let db = demo_db().await;
        Stage { app: Cli::new(&db, APP), worker: Cli::new(&db, WORKER), db }
    }

    fn enqueue(&self, job_type: &str, payload: &Value) -> String {
        let made = self.app.run(&["enqueue", job_type, "--payload", &payload.to_string(), "--json"]).json();
        made["id"].as_str().unwrap().to_owned()
    }

    /// Runs what is due, and tells how the job stands then.
    fn ticked(&self, id: &str) -> Value {
        let ran = self.worker.run(&["tick", "--json"]).json();
        assert_eq!(ran["claimed"], 1, "{ran}");
        self.shown(id)
    }

    /// A worker that has begun to run it.
    fn running(&self, id: &str) -> Ticking {
        let mut command = self.worker.command();
        command.args(["tick", "--json"]).stdout(Stdio::piped()).stderr(Stdio::piped());
        let ticking = Ticking { child: Some(command.spawn().unwrap()) };
        until("the job runs", || (self.shown(id)["status"] == "running").then_some(()));
        ticking
    }

    /// Asks for its end, and tells how it stands once the worker has ended too.
    fn canceled(&self, id: &str, mut ticking: Ticking) -> Value {
        let told = self.app.run(&["jobs", "cancel", id, "--json"]).json();
        assert_eq!(told["cancel_requested"], true, "{told}");
        let child = ticking.child.take().unwrap();
        let ended = Ran::of(child.wait_with_output().unwrap());
        assert_eq!(ended.json()["claimed"], 1, "{ended:?}");
        let job = self.shown(id);
        assert_eq!(job["status"], "canceled", "{job}");
        job
    }

    fn shown(&self, id: &str) -> Value {
        self.app.run(&["jobs", "show", id, "--json"]).json()["job"].clone()
    }

    /// Makes a job due that waits for its next attempt.
    fn hasten(&self, id: &str) {
        assert_eq!(self.app.run(&["jobs", "retry", id, "--json"]).json()["status"], "queued");
    }
}

/// A worker at work.
struct Ticking {
    child: Option<Child>,
}

impl Drop for Ticking {
    /// A failed test leaves no worker behind.
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[tokio::test]
async fn an_echo_returns_its_payload_and_a_sleeper_says_how_long_it_slept() {
    let stage = Stage::new().await;
    let payload = json!({ "hello": ["world", 1] });
    let echoed = stage.ticked(&stage.enqueue("demo.echo", &payload));
    assert_eq!((&echoed["status"], &echoed["result"]), (&"succeeded".into(), &payload));
    let slept = stage.ticked(&stage.enqueue("demo.sleep", &json!({ "ms": 1 })));
    assert_eq!((&slept["status"], &slept["result"]), (&"succeeded".into(), &"slept 1 ms".into()));
}

#[tokio::test]
async fn a_sleeper_wakes_to_be_canceled() {
    let stage = Stage::new().await;
    let id = stage.enqueue("demo.sleep", &json!({ "ms": 600_000 }));
    let ticking = stage.running(&id);
    let canceled = stage.canceled(&id, ticking);
    assert!(canceled.to_string().contains("told to stop while asleep"), "{canceled}");
}

#[tokio::test]
async fn progress_is_told_while_it_is_made() {
    let stage = Stage::new().await;
    let id = stage.enqueue("demo.progress", &json!({ "steps": 10_000, "ms": 50 }));
    let ticking = stage.running(&id);
    let (percent, told) = until("progress is told", || {
        let job = stage.shown(&id);
        Some((job["progress_percent"].as_f64()?, job["progress_message"].as_str()?.to_owned()))
    });
    let step = told.strip_prefix("step ").and_then(|rest| rest.strip_suffix(" of 10000"));
    let step: f64 = step.unwrap_or_else(|| panic!("{told}")).parse().unwrap();
    assert!(step >= 1.0 && (percent - step / 100.0).abs() < 0.001, "{told}: {percent}");
    let canceled = stage.canceled(&id, ticking);
    assert!(canceled.to_string().contains("told to stop before step"), "{canceled}");
}

#[tokio::test]
async fn every_step_is_a_line_in_the_log() {
    let stage = Stage::new().await;
    let id = stage.enqueue("demo.progress", &json!({ "steps": 4, "ms": 1 }));
    let ended = stage.ticked(&id);
    assert_eq!((&ended["status"], &ended["result"]), (&"succeeded".into(), &"4 steps".into()));
    let app = stage.db.as_app().await;
    let lines = list_logs(&app, TENANT_A, id.parse().unwrap(), LogsRequest::default()).await.unwrap();
    let lines: Vec<&str> = lines.iter().map(|line| line.message.as_str()).collect();
    assert_eq!(lines, ["step 1 done", "step 2 done", "step 3 done", "step 4 done"]);
}

#[tokio::test]
async fn a_flaky_job_succeeds_after_as_many_failures_as_it_was_asked_for() {
    let stage = Stage::new().await;
    let id = stage.enqueue("demo.flaky", &json!({ "fail_times": 2 }));
    for failures in 1..=2 {
        let failed = stage.ticked(&id);
        assert_eq!(
            (&failed["status"], &failed["failures"]),
            (&"queued".into(), &failures.into()),
            "{failed}"
        );
        assert!(failed.to_string().contains(&format!("failure {failures} of 2, as asked for")), "{failed}");
        stage.hasten(&id);
    }
    let ended = stage.ticked(&id);
    assert_eq!(
        (&ended["status"], &ended["result"]),
        (&"succeeded".into(), &"succeeded after 2 failures".into())
    );
}

#[tokio::test]
async fn a_failure_is_for_good_or_for_as_long_as_attempts_last() {
    let stage = Stage::new().await;
    let for_good = stage.ticked(&stage.enqueue("demo.fail", &json!({ "message": "no such bank" })));
    assert_eq!((&for_good["status"], &for_good["attempt"]), (&"failed".into(), &1.into()), "{for_good}");
    assert!(for_good.to_string().contains("no such bank"), "{for_good}");

    let id = stage.enqueue("demo.fail", &json!({ "permanent": false }));
    let most = stage.shown(&id)["max_attempts"].as_i64().unwrap();
    assert!(most > 1);
    for failures in 1..most {
        let failed = stage.ticked(&id);
        assert_eq!(
            (&failed["status"], &failed["failures"]),
            (&"queued".into(), &failures.into()),
            "{failed}"
        );
        stage.hasten(&id);
    }
    let dead = stage.ticked(&id);
    assert_eq!((&dead["status"], &dead["failures"]), (&"dead".into(), &most.into()), "{dead}");
}
