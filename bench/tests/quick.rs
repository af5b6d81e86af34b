//! The whole bench at its smallest, on a private Postgres: every contender goes through every workload, and each
//! figure that should be there is.

use std::fs;

use assert_cmd::Command;
use serde_json::Value;
use tempfile::TempDir;

#[test]
fn quick_run_measures_every_contender_in_every_workload() {
    let directory = TempDir::new().unwrap();
    let results = directory.path().join("results.json");

    let mut bench = Command::cargo_bin("jobforge-bench").unwrap();
    bench
        .env_remove("JOBFORGE_BENCH_DATABASE_URL")
        .args(["--quick", "--jobs", "600", "--json"])
        .arg(&results);
    let output = bench.assert().success().get_output().stdout.clone();

    let table = String::from_utf8(output).unwrap();
    assert!(table.contains("fsync = on"), "the settings are missing:\n{table}");
    assert!(
        table.contains("jobforge") && table.contains("raw") && table.contains("graphile"),
        "a contender is missing:\n{table}"
    );

    let judged = ["holds", "SHORT"].map(|word| format!("): {word}"));
    let copy = table.lines().find(|line| line.contains("≥ 0.4 of bare COPY into the same table ("));
    let copy = copy.unwrap_or_else(|| panic!("the bulk enqueue is not judged by its own table:\n{table}"));
    assert!(judged.iter().any(|word| copy.contains(word)), "{copy}");

    let report: Value = serde_json::from_slice(&fs::read(&results).unwrap()).unwrap();
    for contender in ["jobforge", "raw", "graphile"] {
        for (workload, metrics) in [("W1", 3), ("W2", 1), ("W3", 1), ("W4", 3), ("W5", 8)] {
            let found = series(&report, contender, workload);
            assert!(found.len() >= metrics, "{contender} has {} figures for {workload}", found.len());
            for samples in found {
                assert_eq!(samples.as_array().unwrap().len(), 1);
            }
        }
    }
    assert_eq!(series(&report, "jobforge", "W1").len(), 7, "a figure of the HTTP API is missing");
}

#[test]
fn unknown_contender_is_refused_before_anything_starts() {
    let mut bench = Command::cargo_bin("jobforge-bench").unwrap();
    let output =
        bench.args(["--quick", "--contenders", "nobody"]).assert().failure().get_output().stderr.clone();
    assert!(String::from_utf8(output).unwrap().contains("there is no contender nobody"));
}

#[test]
fn small_sizes_are_not_judged() {
    for (arguments, told) in [
        (["--judge", "--jobs", "600"], "the bounds are those of full sizes, and these are smaller: --jobs"),
        (["--judge", "--quick", "--only=W3"], "cannot be used with"),
    ] {
        let mut bench = Command::cargo_bin("jobforge-bench").unwrap();
        let output = bench.args(arguments).assert().failure().get_output().stderr.clone();
        let output = String::from_utf8(output).unwrap();
        assert!(output.contains(told), "{output}");
    }
}

fn series<'a>(report: &'a Value, contender: &str, workload: &str) -> Vec<&'a Value> {
    let series = report["figures"].as_array().expect("the report lists its figures");
    series
        .iter()
        .filter(|series| series["contender"] == contender && series["workload"] == workload)
        .map(|series| &series["samples"])
        .collect()
}
