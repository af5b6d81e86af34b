//! Directories that must not be touched.

use std::fs;

use jobforge_postgres::{Cluster, Error};

use crate::{open_dir, settings, start};

#[test]
fn data_of_another_major_is_refused() {
    let dir = open_dir();
    let data_dir = dir.path().join("pg");
    drop(start(&data_dir));
    fs::write(data_dir.join("pgdata/PG_VERSION"), "12\n").unwrap();
    let error = Cluster::start(settings(&data_dir)).unwrap_err();
    assert!(matches!(error, Error::WrongMajor { found: 12, .. }));
    assert!(
        error.to_string().contains("holds data of Postgres 12, but the binaries are Postgres"),
        "{error}"
    );
}

#[test]
fn a_directory_of_somebody_else_is_refused() {
    let dir = open_dir();
    fs::write(dir.path().join("letter.txt"), "dear").unwrap();
    let error = Cluster::start(settings(dir.path())).unwrap_err();
    assert!(matches!(error, Error::ForeignDirectory(_)), "{error}");
}

#[test]
fn a_setting_the_server_does_not_know_is_told_with_its_log() {
    let dir = open_dir();
    let mut wanted = settings(&dir.path().join("pg"));
    wanted.server_settings.push(("no_such_setting".to_owned(), "1".to_owned()));
    let error = Cluster::start(wanted).unwrap_err();
    assert!(
        error.to_string().contains("unrecognized configuration parameter \"no_such_setting\""),
        "{error}"
    );
}

#[test]
fn a_half_made_cluster_is_made_anew() {
    let dir = open_dir();
    let data_dir = dir.path().join("pg");
    let half_made = ["pgdata.new".to_owned(), format!("pgdata.new{}", "0123456789abcdef".repeat(2))];
    half_made.iter().for_each(|name| fs::create_dir_all(data_dir.join(name).join("base")).unwrap());
    assert!(start(&data_dir).owned());
    half_made.iter().for_each(|name| assert!(!data_dir.join(name).exists(), "{name}"));
}

#[test]
fn what_somebody_keeps_beside_a_cluster_under_a_name_like_ours_stays() {
    let dir = open_dir();
    let data_dir = dir.path().join("pg");
    let id = "0123456789abcdef".repeat(2);
    let theirs = [
        "pgdata.new-backup".to_owned(),
        format!("pgdata.new{id}0"),
        format!("pgdata.new{}", id.to_uppercase()),
    ];
    for name in &theirs {
        fs::create_dir_all(data_dir.join(name).join("base")).unwrap();
        let error = Cluster::start(settings(&data_dir)).unwrap_err();
        assert!(matches!(error, Error::ForeignDirectory(_)), "{name}: {error}");
        fs::rename(data_dir.join(name), dir.path().join(name)).unwrap();
    }
    drop(start(&data_dir));
    theirs.iter().for_each(|name| fs::rename(dir.path().join(name), data_dir.join(name)).unwrap());
    assert!(start(&data_dir).owned());
    theirs.iter().for_each(|name| assert!(data_dir.join(name).join("base").exists(), "{name}"));
}

/// An initdb that outlives whoever started it goes on writing, so that what it writes cannot be removed.
#[test]
fn a_half_made_cluster_that_cannot_be_removed_is_left() {
    let dir = open_dir();
    let data_dir = dir.path().join("pg");
    fs::create_dir_all(&data_dir).unwrap();
    // No directory: it stands for one that cannot be removed now.
    fs::write(data_dir.join("pgdata.new"), "").unwrap();
    assert!(start(&data_dir).owned());
}
