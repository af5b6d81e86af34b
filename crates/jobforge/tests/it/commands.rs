//! Programs as jobs, from outside: the file is checked, jobs run, and a killed worker leaves nothing behind.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use jobforge_core::Definition;
use jobforge_core::rpc::upsert_definition;
use jobforge_testkit::{APP, TestDb, WORKER};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::dev_server::{DevServer, open_dir};
use crate::{Cli, jobforge, run, until};

fn example() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/commands.toml")
}

async fn db_with(keys: &[&str]) -> TestDb {
    let db = TestDb::new().await;
    let operator = db.as_operator().await;
    for key in keys {
        upsert_definition(&operator, &Definition::new(*key)).await.unwrap();
    }
    db
}

#[test]
fn a_file_of_commands_is_checked_without_a_database() {
    let dir = tempfile::tempdir().unwrap();
    let example = example();
    let example = example.to_str().unwrap();
    let sound = run(dir.path(), &["commands", "check", "--file", example, "--json"]).json();
    let keys: Vec<&str> =
        sound["commands"].as_array().unwrap().iter().filter_map(|it| it["key"].as_str()).collect();
    assert_eq!(keys, ["demo.date", "demo.print", "demo.wc"]);
    let told = run(dir.path(), &["commands", "check", "--file", example]);
    assert!(told.code == 0 && told.stdout.contains("/usr/bin/wc"), "{told:?}");

    let file = dir.path().join("bad.toml");
    fs::write(&file, "[commands.\"a.b\"]\nprogram = \"sh\"\nshell = true\n").unwrap();
    let bad = run(dir.path(), &["commands", "check", "--file", "bad.toml"]);
    assert_eq!(bad.code, 1, "{bad:?}");
    let lines: Vec<&str> = bad.stdout.lines().collect();
    assert_eq!(
        lines,
        ["commands.\"a.b\".program: must be an absolute path", "commands.\"a.b\".shell: is not known"]
    );
    let bad = run(dir.path(), &["commands", "check", "--file", "bad.toml", "--json"]);
    assert_eq!((bad.code, bad.parsed()["problems"].as_array().unwrap().len()), (1, 2));
    // The setting names the file too, and a worker does not start with a bad one.
    fs::write(dir.path().join("jobforge.toml"), "[worker]\ncommands_file = \"bad.toml\"").unwrap();
    assert_eq!(run(dir.path(), &["commands", "check"]).code, 1);
    let refused = run(dir.path(), &["work", "--database-url", "postgres://nobody@127.0.0.1:1/x"]);
    assert_eq!(refused.code, 2, "{refused:?}");
    assert!(refused.stderr.contains("commands.\"a.b\".shell: is not known"), "{refused:?}");
    fs::remove_file(dir.path().join("jobforge.toml")).unwrap();
    assert_eq!(run(dir.path(), &["commands", "check"]).code, 2, "no file is wrong usage");
}

/// A worker in the background; killed with the test.
struct Work(Child);

impl Work {
    fn start(cli: &Cli, file: &Path) -> Work {
        let mut command = cli.command();
        command.args(["work", "--commands", file.to_str().unwrap()]).env("CANARY", "worker-secret");
        Work(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }

    fn pid(&self) -> i32 {
        i32::try_from(self.0.id()).unwrap()
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn enqueue(app: &Cli, key: &str, payload: &str) -> String {
    let id = app.run(&["enqueue", key, "--payload", payload, "--json"]).json()["id"].clone();
    id.as_str().unwrap().to_owned()
}

fn over(app: &Cli, id: &str) -> Value {
    until("the job is over", || {
        let shown = app.run(&["jobs", "show", id, "--json"]).json();
        let status = shown["job"]["status"].as_str().unwrap().to_owned();
        ["succeeded", "failed", "dead"].contains(&status.as_str()).then_some(shown)
    })
}

#[tokio::test]
async fn the_examples_run_and_are_shown_with_process_exit_and_tail() {
    let db = db_with(&["demo.date", "demo.wc", "demo.print"]).await;
    let (app, worker) = (Cli::new(&db, APP), Cli::new(&db, WORKER));
    let _work = Work::start(&worker, &example());
    let date = over(&app, &enqueue(&app, "demo.date", "{}"));
    assert_eq!(date["job"]["result"]["date"].as_str().map(str::len), Some(10), "{date}");
    let payload = r#"{"text": "héllo"}"#;
    let count = over(&app, &enqueue(&app, "demo.wc", payload));
    assert_eq!(count["job"]["result"], payload.len(), "{count}");
    let id = enqueue(&app, "demo.print", r#"{"text": "hello; id", "note": "-n"}"#);
    let printed = over(&app, &id);
    assert_eq!(printed["attempts"][0]["stdout_tail"], format!("hello; id\nnote: -n\njob={id}\n"));
    let shown = app.run(&["jobs", "show", &id]).stdout;
    let pid = &printed["attempts"][0]["pid"];
    assert!(
        shown.contains(&format!("process {pid}, exit code 0")) && shown.contains("| hello; id"),
        "{shown}"
    );
}

/// The living processes whose environment holds this text.
fn alive(cookie: &str) -> Vec<i32> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let holds = |pid: &i32| {
        let bytes = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        bytes.windows(cookie.len()).any(|window| window == cookie.as_bytes())
    };
    pids.filter(holds).collect()
}

fn children(of: i32) -> Vec<i32> {
    let path = format!("/proc/{of}/task");
    let tasks = fs::read_dir(path).unwrap().flatten();
    let lists = tasks.map(|task| fs::read_to_string(task.path().join("children")).unwrap_or_default());
    lists
        .flat_map(|list| list.split_whitespace().map(|pid| pid.parse().unwrap()).collect::<Vec<_>>())
        .collect()
}

/// A tree with children that left its session, and one that lost its parent.
fn stubborn(dir: &Path, way: &str) -> (PathBuf, String) {
    let cookie = format!("cookie-{}", uuid::Uuid::new_v4());
    let script = "trap \"\" TERM; setsid sh -c \"sleep 601; :\" & (setsid sleep 602 &); sleep 603";
    let text = format!(
        "namespaces = \"{way}\"\ndirectory_root = \"{}\"\n[commands.\"job.stubborn\"]\nprogram = \"/bin/sh\"\n\
         args = [\"-c\", '''{script}''']\nenv = {{ set = {{ COOKIE = \"{cookie}\" }} }}\n",
        dir.display()
    );
    let file = dir.join(format!("{way}.toml"));
    fs::write(&file, text).unwrap();
    (file, cookie)
}

fn private_directories(dir: &Path) -> usize {
    fs::read_dir(dir.join(format!("jobforge-{}", nix::unistd::geteuid()))).map_or(0, Iterator::count)
}

#[tokio::test]
async fn nothing_survives_a_killed_worker() {
    let db = db_with(&["job.stubborn"]).await;
    let (app, worker) = (Cli::new(&db, APP), Cli::new(&db, WORKER));
    for way in ["auto", "off"] {
        let dir = tempfile::tempdir().unwrap();
        let (file, cookie) = stubborn(dir.path(), way);
        let work = Work::start(&worker, &file);
        enqueue(&app, "job.stubborn", "{}");
        until("the tree is there", || (alive(&cookie).len() >= 5).then_some(()));
        assert_eq!(private_directories(dir.path()), 1);
        kill(Pid::from_raw(work.pid()), Signal::SIGKILL).unwrap();
        until("nothing is left of it", || alive(&cookie).is_empty().then_some(()));
        until("nor its directory", || (private_directories(dir.path()) == 0).then_some(()));
    }
}

/// As `killall -9 jobforge` does. With a namespace nothing survives; without one the next worker finds it.
#[tokio::test]
async fn what_survives_a_worker_killed_together_with_its_supervisors_is_found_by_the_next() {
    let db = db_with(&["job.stubborn"]).await;
    let (app, worker) = (Cli::new(&db, APP), Cli::new(&db, WORKER));
    for way in ["auto", "off"] {
        let dir = tempfile::tempdir().unwrap();
        let (file, cookie) = stubborn(dir.path(), way);
        let work = Work::start(&worker, &file);
        enqueue(&app, "job.stubborn", "{}");
        until("the tree is there", || (alive(&cookie).len() >= 5).then_some(()));
        let supervisors = children(work.pid());
        assert_eq!(supervisors.len(), 1);
        // In a namespace the supervisor that does the work is the child of the one that waits.
        let within: Vec<i32> = if way == "auto" { children(supervisors[0]) } else { Vec::new() };
        // At one moment: who saw another die would clean up after it.
        let all: Vec<i32> = within.into_iter().chain(supervisors).chain([work.pid()]).collect();
        for signal in [Signal::SIGSTOP, Signal::SIGKILL] {
            all.iter().for_each(|pid| kill(Pid::from_raw(*pid), signal).unwrap());
        }
        drop(work);
        if way == "off" {
            until("the program itself dies with its supervisor", || (alive(&cookie).len() < 5).then_some(()));
        } else {
            until("nothing is left of it", || alive(&cookie).is_empty().then_some(()));
        }
        assert_eq!(private_directories(dir.path()), 1, "{way}: nobody was there to remove it");
        // Whatever the next worker runs has another mark.
        fs::write(&file, fs::read_to_string(&file).unwrap().replace(&cookie, "next")).unwrap();
        let _next = Work::start(&worker, &file);
        until("the next worker kills the rest", || alive(&cookie).is_empty().then_some(()));
        until("and removes the directory", || (private_directories(dir.path()) == 0).then_some(()));
    }
}

/// Root without the right to have namespaces, as in many containers.
#[test]
fn where_commands_cannot_be_kept_apart_it_is_said_and_where_that_is_required_refused() {
    if !nix::unistd::geteuid().is_root() {
        eprintln!("not root: there is no right to take away");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let without = |args: &[&str]| {
        let mut command = std::process::Command::new("setpriv");
        command.args(["--bounding-set=-sys_admin", "--", env!("CARGO_BIN_EXE_jobforge")]).args(args);
        let ran = command.current_dir(dir.path()).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (ran.status.code(), text(ran.stdout), text(ran.stderr))
    };
    let check = ["commands", "check", "--file", "commands.toml"];
    let file = dir.path().join("commands.toml");
    let text = "[commands.\"a.b\"]\nprogram = \"/bin/true\"\n";
    fs::write(&file, text).unwrap();
    let missing = "cannot have a process namespace: Operation not permitted";
    let (code, told, _) = without(&check);
    assert!(
        code == Some(0) && told.contains("warning: namespaces: commands are not kept apart here"),
        "{told}"
    );
    assert!(told.contains(missing), "{told}");
    assert!(!run(dir.path(), &check).stdout.contains("not kept apart"));
    let work = ["work", "--commands", "commands.toml", "--database-url", "postgres://nobody@127.0.0.1:1/x"];
    for (general, own) in [("", "isolation = \"required\"\n"), ("namespaces = \"require\"\n", "")] {
        fs::write(&file, format!("{general}{text}{own}")).unwrap();
        let problem = format!("commands.\"a.b\".isolation: is required, and not possible here: {missing}");
        let (code, told, _) = without(&check);
        assert!(code == Some(1) && told.starts_with(&problem), "{told}");
        let (code, _, told) = without(&work);
        assert!(code == Some(2) && told.contains(&problem), "{told}");
        assert_eq!(run(dir.path(), &check).code, 0, "it is possible with the right");
    }
}

#[test]
fn a_development_server_picks_up_the_commands_beside_it() {
    let dir = open_dir();
    fs::copy(example(), dir.path().join("commands.toml")).unwrap();
    let server = DevServer::start(dir.path(), &["--no-demo"]);
    let made = server.run(&["enqueue", "demo.wc", "--payload", "{\"a\": 1}", "--json"]).json();
    let shown = server.job_that_is("succeeded", made["id"].as_str().unwrap());
    assert_eq!(shown["job"]["result"], 8);
    assert!(server.stop(Signal::SIGINT).success());
}

#[test]
fn the_supervisors_name_alone_makes_nobody_a_supervisor() {
    let dir = tempfile::tempdir().unwrap();
    let ran = jobforge(dir.path()).args(["jobforge: command"]).output().unwrap();
    assert_eq!(ran.status.code(), Some(2), "an argument is not a name");
}
