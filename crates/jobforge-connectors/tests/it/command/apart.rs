//! Commands that run at the same time as the same user: neither reaches what is the other's.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use jobforge_connectors::command::{CommandFile, Commands, WorkerEnvironment};
use jobforge_core::rpc;
use jobforge_testkit::{PASSWORD, TENANT_A, TestDb, WORKER};
use jobforge_worker::WorkerConfig;
use nix::libc::O_NONBLOCK;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::sys::stat::{Mode, umask};
use nix::unistd::{Gid, Uid, User, mkfifo, setgroups, setresgid, setresuid};
use serde_json::json;

use super::{Story, cookie, eventually, is_root, rooms, script};

/// Two pipes in a story's directory: a command says that it is there, and waits until it may go on.
struct Barrier {
    ready: File,
    go: File,
}

/// What a command does at the barrier.
const WAIT: &str = "echo > @DIR/ready; read word < @DIR/go";

impl Barrier {
    fn at(dir: &Path) -> Barrier {
        // With both ends open here nobody waits for another to open his.
        let pipe = |name: &str| {
            let path = dir.join(name);
            mkfifo(&path, Mode::S_IRWXU).unwrap();
            fs::set_permissions(&path, Permissions::from_mode(0o666)).unwrap();
            OpenOptions::new().read(true).write(true).custom_flags(O_NONBLOCK).open(&path).unwrap()
        };
        Barrier { ready: pipe("ready"), go: pipe("go") }
    }

    async fn reached(&self) {
        eventually("a command is at the barrier", async || (&self.ready).read(&mut [0; 8]).ok().map(|_| ()))
            .await;
    }

    fn open(&self) {
        (&self.go).write_all(b"go\n").unwrap();
    }
}

/// As one user who is not root, which could undo everything.
fn same_user() -> &'static str {
    if is_root() { "user = \"nobody\"\n" } else { "" }
}

/// No story here means anything where commands cannot be kept apart: better red than wrong.
fn assert_possible() {
    let file = CommandFile::parse("", &WorkerEnvironment).unwrap();
    let commands = Commands::new(file).supervised_by(env!("CARGO_BIN_EXE_jobforge-supervise"));
    let missing: Vec<String> = commands.warnings().iter().map(ToString::to_string).collect();
    assert_eq!(missing, [""; 0], "this machine allows no namespaces: run the stories as root or allow them");
}

/// As most systems have it, a mount in a namespace shows in those that it came from, unless somebody sees to that.
fn share_mounts() {
    if is_root() {
        const NOTHING: Option<&str> = None;
        unshare(CloneFlags::CLONE_NEWNS).unwrap();
        mount(NOTHING, "/", NOTHING, MsFlags::MS_REC | MsFlags::MS_SHARED, NOTHING).unwrap();
    }
}

/// What this thread, from which the supervisors are started, sees of them.
fn mounts_of_commands() -> usize {
    let mounts = fs::read_to_string("/proc/thread-self/mountinfo").unwrap();
    mounts.lines().filter(|line| line.contains("jobforge-")).count()
}

/// A holds its directory open to everybody; B knows where it is and tries every way.
async fn directories_are_apart(user: &str, change: impl FnOnce(&mut WorkerConfig, &TestDb)) -> Story {
    let holds =
        format!("umask 0; chmod 777 .; echo secret > secret; pwd > @DIR/where; {WAIT}; ls; cat secret");
    let tries = "there=$(cat @DIR/where); echo mine > mine; cat mine
        cat \"$there/secret\" && echo READ; ls \"$there\" && echo LISTED; cd \"$there\" && echo ENTERED
        touch \"$there/new\" && echo WROTE; rm -f \"$there/secret\"
        ls @DIR/jobforge-* | grep -v \"$(basename \"$(dirname \"$TMPDIR\")\")\"
        cat /proc/[0-9]*/cwd/secret && echo AROUND; touch /etc/jobforge-was-here && echo ETC; :";
    let more = format!("private_tmp = false\n{user}");
    let text = "directory_root = \"@DIR\"\n".to_owned()
        + &script("job.holds", &holds, &more)
        + &script("job.tries", tries, &more);
    let story = Story::begin_with(&text, change).await;
    let barrier = Barrier::at(story.dir.path());
    let holder = story.enqueue("job.holds", json!({})).await;
    barrier.reached().await;
    assert_eq!(mounts_of_commands(), 0, "what a command sees is its own");
    assert_eq!(remove_leftovers(&story), 0, "a directory that is in use stays");
    let there = story.read("where");
    assert_eq!(fs::read_to_string(Path::new(there.trim_end()).join("secret")).unwrap(), "secret\n");

    let (job, attempt) = story.run("job.tries", json!({})).await;
    assert_eq!((job.status.as_str(), attempt.stdout_tail.as_deref()), ("succeeded", Some("mine\n")));
    barrier.open();
    let (job, attempt) = story.over(holder).await;
    assert_eq!(
        (job.status.as_str(), attempt.stdout_tail.as_deref()),
        ("succeeded", Some("secret\nsecret\n"))
    );
    assert_eq!((rooms(story.dir.path()), mounts_of_commands()), (0, 0), "nothing is left");

    let left = Path::new(there.trim_end()).join("deep");
    fs::create_dir_all(&left).unwrap();
    fs::set_permissions(&left, Permissions::from_mode(0o000)).unwrap();
    assert_eq!((remove_leftovers(&story), rooms(story.dir.path())), (1, 0), "what nobody keeps is removed");
    story
}

/// What another worker does that starts beside this one.
fn remove_leftovers(story: &Story) -> usize {
    let text = format!("directory_root = {:?}", story.dir.path());
    Commands::new(CommandFile::parse(&text, &WorkerEnvironment).unwrap()).remove_leftovers()
}

#[tokio::test]
async fn the_directory_of_a_command_is_out_of_reach_for_another_of_its_user() {
    assert_possible();
    share_mounts();
    directories_are_apart(same_user(), |_, _| {}).await;
}

/// The worker itself is not root: namespaces come with a user namespace.
#[tokio::test]
async fn so_it_is_where_the_worker_is_an_ordinary_user() {
    assert_possible();
    if !is_root() {
        eprintln!("not root: the story before this one was it");
        return;
    }
    let nobody = User::from_name("nobody").unwrap().unwrap();
    let become_nobody = |config: &mut WorkerConfig, db: &TestDb| {
        // The server's socket is for who runs the stories.
        config.database_url = db.url_as(WORKER, Some(PASSWORD));
        setgroups(&[]).unwrap();
        setresgid(nobody.gid, nobody.gid, Gid::from_raw(0)).unwrap();
        // What is kept for coming back does not outlast the start of another program.
        setresuid(nobody.uid, nobody.uid, Uid::from_raw(0)).unwrap();
        assert_possible();
    };
    let story = directories_are_apart("", become_nobody).await;
    setresuid(Uid::from_raw(0), Uid::from_raw(0), Uid::from_raw(0)).unwrap();
    drop(story);
}

#[tokio::test]
async fn each_command_has_temporary_files_of_its_own_that_end_with_it() {
    assert_possible();
    let cookie = cookie();
    let writes = format!(
        "echo A > /tmp/{cookie}; echo A > /var/tmp/{cookie}; {WAIT}; cat /tmp/{cookie} /var/tmp/{cookie}"
    );
    let looks = format!(
        "ls /tmp /var/tmp | grep cookie-; echo B > /tmp/{cookie}; cat /tmp/{cookie}; rm /tmp/{cookie}; stat -c %a /tmp; pwd"
    );
    let more = format!("directory = \"@DIR/meet\"\n{}", same_user());
    let text = "directory_root = \"@DIR/root\"\n".to_owned()
        + &script("job.writes", &writes, &more)
        + &script("job.looks", &looks, &more);
    let dir = super::open_dir();
    for name in ["root", "meet"] {
        fs::create_dir(dir.path().join(name)).unwrap();
    }
    let text = text.replace("@DIR/root", dir.path().join("root").to_str().unwrap());
    let meet = dir.path().join("meet");
    fs::set_permissions(&meet, Permissions::from_mode(0o777)).unwrap();
    fs::write(meet.join("kept"), "").unwrap();
    let text = text.replace("@DIR/meet", meet.to_str().unwrap()).replace("@DIR/", "");
    let story = Story::begin(&text).await;
    let barrier = Barrier::at(&meet);
    let writer = story.enqueue("job.writes", json!({})).await;
    barrier.reached().await;

    let (job, attempt) = story.run("job.looks", json!({})).await;
    assert_eq!(job.status, "succeeded", "{attempt:?}");
    assert_eq!(
        attempt.stdout_tail.unwrap(),
        format!("B\n1777\n{}\n", meet.display()),
        "its own and no other"
    );
    barrier.open();
    let (job, attempt) = story.over(writer).await;
    assert_eq!((job.status.as_str(), attempt.stdout_tail.as_deref()), ("succeeded", Some("A\nA\n")));
    assert!(!Path::new("/tmp").join(&cookie).exists() && !Path::new("/var/tmp").join(&cookie).exists());
    assert!(meet.join("kept").exists(), "what the file names is not the command's to lose");
    assert_eq!((rooms(&dir.path().join("root")), mounts_of_commands()), (0, 0), "nothing is left");
}

/// With nothing said: private directories below `/tmp`, which is not everybody's `/tmp`.
#[tokio::test]
async fn so_it_is_with_what_a_file_does_not_say() {
    assert_possible();
    let text = script("job.holds", "umask 0; chmod 777 .; echo secret > secret; pwd; sleep 600", same_user())
        + &script(
            "job.tries",
            "cat \"$0/secret\"; ls \"$0\" && echo LISTED; ls -d /tmp/*; echo x > /tmp/x && cat /tmp/x; \
             echo $(dirname $(dirname \"$TMPDIR\")); touch $TMPDIR/y && ls; :",
            same_user(),
        )
        .replace("''']", "''', \"{payload.there}\"]");
    let story = Story::begin(&text).await;
    let holder = story.enqueue("job.holds", json!({})).await;
    let there = eventually("its directory is told", async || {
        let log = story.attempt(holder).await?.log?;
        let log: Vec<serde_json::Value> = serde_json::from_str(log.get()).unwrap();
        Some(log.first()?["message"].as_str()?.to_owned())
    })
    .await;
    let root = std::env::temp_dir().join(format!("jobforge-{}", nix::unistd::geteuid()));
    let root = root.display();
    let (job, attempt) = story.run("job.tries", json!({ "there": there })).await;
    assert_eq!(job.status, "succeeded", "{attempt:?}");
    assert_eq!(attempt.stdout_tail.unwrap(), format!("{root}\nx\n{root}\ny\n"), "{there}");
    rpc::cancel_job(&story.app, TENANT_A, holder, None).await.unwrap();
    story.over(holder).await;
    assert!(!Path::new(&there).exists(), "{there} is left");
}

/// A program and a directory that lie among everybody's temporary files go on being what they are.
#[tokio::test]
async fn what_the_file_names_below_tmp_is_there_and_stays() {
    assert_possible();
    let dir = super::open_dir();
    for name in ["bin", "place", "root"] {
        fs::create_dir(dir.path().join(name)).unwrap();
    }
    let (program, place) = (dir.path().join("bin/program"), dir.path().join("place"));
    fs::write(&program, "#!/bin/sh\necho new > new; ls; ls ..; ls $(dirname $0)\n").unwrap();
    fs::write(dir.path().join("bin/beside"), "").unwrap();
    fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(&place, Permissions::from_mode(0o777)).unwrap();
    fs::write(place.join("old"), "").unwrap();
    std::os::unix::fs::symlink("program", dir.path().join("bin/link")).unwrap();
    let text = "directory_root = \"@DIR/root\"\n".to_owned()
        + &["program", "link"]
            .map(|name| {
                format!(
                    "[commands.\"{name}\"]\nprogram = \"@DIR/bin/{name}\"\ndirectory = \"@DIR/place\"\n{}",
                    same_user()
                )
            })
            .concat();
    // A worker that keeps its own files to itself.
    umask(Mode::from_bits_truncate(0o077));
    let story = Story::begin(&text.replace("@DIR", dir.path().to_str().unwrap())).await;
    for (key, seen) in [("program", "program\n"), ("link", "link\nprogram\n")] {
        let (job, attempt) = story.run(key, json!({})).await;
        assert_eq!(job.status, "succeeded", "{attempt:?}");
        assert_eq!(attempt.stdout_tail.unwrap(), format!("new\nold\nbin\nplace\n{seen}"), "{key}");
    }
    assert_eq!(fs::read_to_string(place.join("new")).unwrap(), "new\n");
    assert!(place.join("old").exists() && program.exists() && dir.path().join("bin/beside").exists());
    assert_eq!(rooms(&dir.path().join("root")), 0);
}

#[tokio::test]
async fn nothing_is_left_of_a_command_that_fails_or_takes_too_long() {
    assert_possible();
    let text = "directory_root = \"@DIR\"\n".to_owned()
        + &script("job.fails", "mkdir -p /tmp/a/b; echo x > /tmp/a/b/c; chmod 0 /tmp/a; exit 3", same_user())
        + &script(
            "job.lasts",
            "echo x > /tmp/x; sleep 600",
            &format!("timeout_seconds = 1\n{}", same_user()),
        );
    let story = Story::begin(&text).await;
    for key in ["job.fails", "job.lasts"] {
        assert_eq!(story.run(key, json!({})).await.0.status, "dead", "{key}");
        assert_eq!((rooms(story.dir.path()), mounts_of_commands()), (0, 0), "{key}");
    }
}

/// Everybody can make a directory of that name where temporary files are: a command does not use it.
#[tokio::test]
async fn a_place_that_is_somebody_elses_is_not_used() {
    let text = "directory_root = \"@DIR\"\n".to_owned() + &script("job.any", ":", "");
    let story = Story::begin(&text).await;
    let place = story.path(&format!("jobforge-{}", nix::unistd::geteuid()));
    fs::create_dir_all(&place).unwrap();
    fs::set_permissions(&place, Permissions::from_mode(0o777)).unwrap();
    let (job, attempt) = story.run("job.any", json!({})).await;
    assert_eq!((job.status.as_str(), attempt.exit_code), ("dead", None));
    let error = attempt.error.unwrap();
    assert!(error.ends_with("it belongs to somebody else, or others may write to it"), "{error}");
}
