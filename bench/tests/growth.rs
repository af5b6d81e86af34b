//! W6 to W8 at their smallest, on a private Postgres: what stands around a drain really stands there, what is drained is
//! really drained, and each figure and picture that should be there is.

use std::fs;
use std::path::Path;

use assert_cmd::Command;
use serde_json::Value;
use tempfile::TempDir;

const JOBS: i64 = 600;
/// The full sizes at the scale of a quick run.
const MILLION: i64 = 2_000;
const TENANTS: i64 = 20;

#[test]
fn quick_run_measures_every_scenario_for_what_it_is() {
    let directory = TempDir::new().unwrap();
    let (report, table) = run(directory.path());

    for (scenario, before, after) in [
        ("history", 10 * MILLION, 10 * MILLION + JOBS),
        ("future", MILLION, MILLION),
        ("other-type", MILLION, MILLION),
        ("running", TENANTS, TENANTS),
        ("paused", TENANTS - 1, TENANTS - 1),
        ("idle", 10, 0),
    ] {
        let evidence = evidence(&report, scenario);
        assert_eq!(
            (evidence["before"].as_i64(), evidence["after"].as_i64()),
            (Some(before), Some(after)),
            "{scenario}"
        );
    }
    for scenario in ["history", "future", "other-type", "running", "paused"] {
        assert_eq!(evidence(&report, scenario)["drained"].as_i64(), Some(JOBS), "{scenario}");
        assert_eq!(evidence(&report, scenario)["strays"].as_i64(), Some(0), "{scenario}");
    }

    // So few that the worker may have done the rest before it was told to stop.
    for (scenario, tenants) in [("tenants", TENANTS), ("weights", 3), ("at-limit", TENANTS - 1)] {
        let evidence = evidence(&report, scenario);
        assert_eq!(evidence["before"].as_i64(), Some(tenants), "{scenario}");
        assert!(evidence["drained"].as_i64() >= Some(JOBS), "{evidence}");
    }
    let at_limit = evidence(&report, "at-limit");
    assert_eq!(at_limit["strays"].as_i64(), Some(0), "limits were not kept: {at_limit}");

    let backlog = evidence(&report, "backlog");
    let [before, after, drained] = ["before", "after", "drained"].map(|name| backlog[name].as_i64().unwrap());
    assert_eq!(before, JOBS + MILLION);
    assert!(drained >= JOBS && after == before - drained, "{backlog}");

    let snapshot = evidence(&report, "snapshot");
    assert!(snapshot["before"].as_i64() > Some(0), "no snapshot was held: {snapshot}");
    assert!(snapshot["after"].as_i64() >= snapshot["before"].as_i64(), "it was let go: {snapshot}");
    assert!(snapshot["drained"].as_i64() >= Some(JOBS), "{snapshot}");

    let small = evidence(&report, "small-tenants");
    assert!(small["after"].as_i64() >= Some(JOBS), "the large tenant ran out: {small}");
    assert!(small["after"].as_i64() < small["before"].as_i64(), "the large tenant got nothing: {small}");

    figures_are_there(&report, &table);
    for picture in ["w6-growth.svg", "w6-snapshot.svg", "w7-tenants.svg", "w7-shares.svg"] {
        let svg = fs::read_to_string(directory.path().join(picture)).unwrap();
        assert!(svg.ends_with("</svg>\n"), "{picture}: {svg}");
    }
}

fn run(directory: &Path) -> (Value, String) {
    let results = directory.join("results.json");
    let mut bench = Command::cargo_bin("jobforge-bench").expect("the bench is built");
    bench
        .env_remove("JOBFORGE_BENCH_DATABASE_URL")
        .args(["--quick", "--only", "W6,W7,W8", "--jobs", &JOBS.to_string(), "--plots"])
        .arg(directory)
        .arg("--json")
        .arg(&results);
    let output = bench.assert().success().get_output().stdout.clone();
    let report = fs::read(&results).expect("the samples are written");
    let report = serde_json::from_slice(&report).expect("the samples are JSON");
    (report, String::from_utf8(output).expect("the table is text"))
}

fn evidence<'a>(report: &'a Value, scenario: &str) -> &'a Value {
    let evidence = report["findings"]["evidence"].as_array().expect("the report has its evidence");
    evidence
        .iter()
        .find(|evidence| evidence["scenario"] == scenario)
        .unwrap_or_else(|| panic!("no {scenario}"))
}

/// Each bound that can be judged is, in words.
fn figures_are_there(report: &Value, table: &str) {
    for (workload, figures) in [("W6", 22), ("W7", 11), ("W8", 4)] {
        let series = report["figures"].as_array().expect("the report lists its figures");
        let found = series.iter().filter(|series| series["workload"] == workload).count();
        assert_eq!(found, figures, "{workload}");
    }
    for bound in ["≥ 0.8", "≥ 0.6", "≤ 1000", "≤ 10", "≤ 2", "≤ 1"] {
        let judged = ["holds", "SHORT"].iter().any(|word| table.contains(&format!("{bound}: {word}")));
        assert!(judged, "{bound} is not judged:\n{table}");
    }
    assert!(!table.contains("graphile"), "growth is measured against itself:\n{table}");
}
