//! Where the server is looked for.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use jobforge_postgres::{Error, Package, Search, Version, find_binaries};
use tempfile::tempdir;

/// Scripts that only know their version.
pub(crate) fn fake_postgres(bin: &Path, version: &str) {
    fs::create_dir_all(bin).unwrap();
    for name in ["postgres", "initdb"] {
        let script = format!("#!/bin/sh\necho '{name} (PostgreSQL) {version}'\n");
        fs::write(bin.join(name), script).unwrap();
        fs::set_permissions(bin.join(name), fs::Permissions::from_mode(0o755)).unwrap();
    }
}

#[test]
fn a_machine_without_postgres_is_told_how_to_get_one() {
    let root = tempdir().unwrap();
    let error = Search { root: root.path().to_owned(), ..Search::default() }.find().unwrap_err();
    assert!(matches!(error, Error::NotFound));
    let text = error.to_string();
    assert!(text.contains("no Postgres 15 or newer found"), "{text}");
    assert!(text.contains("docker run"), "{text}");
    let install = if cfg!(target_os = "macos") {
        "brew install postgresql@17"
    } else {
        "apt-get install -y --no-install-recommends postgresql"
    };
    assert!(text.contains(install), "{text}");
    assert_eq!(text.contains("jobforge dev --yes"), Package::of_this_machine().is_some(), "{text}");
}

#[test]
fn the_newest_wins_and_the_cache_is_last() {
    let root = tempdir().unwrap();
    let cache = root.path().join("cache");
    let search = Search { root: root.path().to_owned(), cache_dir: Some(cache.clone()), ..Search::default() };
    let major = || search.find().map(|found| found.version.major).ok();
    fake_postgres(&root.path().join("usr/lib/postgresql/14/bin"), "14.9");
    assert_eq!(major(), None);
    fake_postgres(&cache.join("18.1.0/bin"), "18.1");
    assert_eq!(major(), Some(18));
    fake_postgres(&root.path().join("usr/lib/postgresql/15/bin"), "15.2 (Debian 15.2-1)");
    assert_eq!(major(), Some(15));
    fake_postgres(&root.path().join("usr/pgsql-16/bin"), "16.3");
    assert_eq!(major(), Some(16));
}

#[test]
fn the_search_path_comes_first_and_links_are_followed() {
    let root = tempdir().unwrap();
    fake_postgres(&root.path().join("real/bin"), "16.3");
    fake_postgres(&root.path().join("usr/lib/postgresql/16/bin"), "16.3");
    let links = root.path().join("links");
    fs::create_dir(&links).unwrap();
    std::os::unix::fs::symlink(root.path().join("real/bin/postgres"), links.join("postgres")).unwrap();
    let search = Search { root: root.path().to_owned(), path: Some(links.into()), ..Search::default() };
    assert_eq!(search.find().unwrap().dir, fs::canonicalize(root.path().join("real/bin")).unwrap());
}

#[test]
fn a_named_directory_is_the_only_one_looked_at() {
    let root = tempdir().unwrap();
    let error = find_binaries(Some(root.path())).unwrap_err();
    assert!(error.to_string().ends_with("there is no `postgres` in it"), "{error}");
    fake_postgres(&root.path().join("bin"), "17.5");
    let found = find_binaries(Some(root.path())).unwrap();
    assert_eq!(found.version, Version { major: 17, minor: 5 });
}
