//! Commands as jobs, judged by what really happened: which processes live, which files are there.

mod apart;
mod bounds;
mod ending;
mod file;
mod privacy;
mod running;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use jobforge_connectors::command::{CommandFile, Commands, WorkerEnvironment};
use jobforge_core::{Attempt, Definition, Job, NewJob, rpc};
use jobforge_testkit::{TENANT_A, TestDb, WORKER};
use jobforge_worker::{Worker, WorkerConfig, WorkerHandle};
use serde_json::Value;
use tempfile::TempDir;
use tokio_postgres::Client;
use uuid::Uuid;

/// Generous, because it only passes when a test fails.
const PATIENCE: Duration = Duration::from_secs(200);

/// Both ways in which a command's processes are kept together.
const WAYS: [&str; 2] = ["auto", "off"];

/// A worker with commands, an application, and a directory that every user may write to.
struct Story {
    _db: TestDb,
    app: Client,
    operator: Client,
    dir: TempDir,
    worker: WorkerHandle,
}

impl Story {
    /// A worker with these commands; `@DIR` stands for the story's directory.
    async fn begin(commands: &str) -> Story {
        Story::begin_with(commands, |_, _| {}).await
    }

    async fn begin_with(commands: &str, change: impl FnOnce(&mut WorkerConfig, &TestDb)) -> Story {
        let db = TestDb::new().await;
        let (app, operator) = (db.as_app().await, db.as_operator().await);
        let dir = open_dir();
        let text = commands.replace("@DIR", dir.path().to_str().unwrap());
        let file =
            CommandFile::parse(&text, &WorkerEnvironment).unwrap_or_else(|problems| panic!("{problems:#?}"));
        for key in file.keys() {
            let definition = Definition { max_attempts: Some(1), ..Definition::new(key) };
            define(&operator, definition).await;
        }
        let mut config = WorkerConfig {
            database_url: db.url_as(WORKER, None),
            slots: 4,
            stop_grace: file.longest_grace() + Duration::from_secs(20),
            ..WorkerConfig::default()
        };
        change(&mut config, &db);
        let commands = Commands::new(file).supervised_by(env!("CARGO_BIN_EXE_jobforge-supervise"));
        let worker = commands.handle(Worker::builder(config)).build().unwrap().start().await.unwrap();
        Story { _db: db, app, operator, dir, worker }
    }

    async fn enqueue(&self, key: &str, payload: Value) -> Uuid {
        let job = NewJob::new(key, &payload).unwrap();
        rpc::enqueue_job(&self.app, TENANT_A, &job).await.unwrap().id
    }

    async fn attempt(&self, id: Uuid) -> Option<Attempt> {
        rpc::list_attempts(&self.app, TENANT_A, id).await.unwrap().pop()
    }

    /// The job once it is over, with its last attempt.
    async fn over(&self, id: Uuid) -> (Job, Attempt) {
        let over = ["succeeded", "failed", "dead", "canceled"];
        let job = eventually("the job is over", async || {
            let job = rpc::get_job(&self.app, TENANT_A, id).await.unwrap();
            over.contains(&job.status.as_str()).then_some(job)
        })
        .await;
        (job, self.attempt(id).await.unwrap())
    }

    /// Runs one job to its end.
    async fn run(&self, key: &str, payload: Value) -> (Job, Attempt) {
        self.over(self.enqueue(key, payload).await).await
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.dir.path().join(name)
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }
}

/// Makes or changes a job type.
async fn define(operator: &Client, definition: Definition) {
    rpc::upsert_definition(operator, &definition).await.unwrap();
}

fn open_dir() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777)).unwrap();
    dir
}

/// Asks again and again until the answer is there.
async fn eventually<T>(what: &str, ask: impl AsyncFn() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(answer) = ask().await {
            return answer;
        }
        assert!(Instant::now() < deadline, "not within {PATIENCE:?}: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// The living processes whose environment holds this text.
fn alive(cookie: &str) -> Vec<i32> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.filter(|pid| holds(Path::new(&format!("/proc/{pid}/environ")), cookie)).collect()
}

fn holds(file: &Path, text: &str) -> bool {
    let bytes = fs::read(file).unwrap_or_default();
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

/// A text that no other process on this machine has.
fn cookie() -> String {
    format!("cookie-{}", Uuid::new_v4())
}

fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

/// A command that runs a script in a shell of its own, as the file's author may and a payload may not.
fn script(key: &str, script: &str, more: &str) -> String {
    let script = script.replace('{', "{{").replace('}', "}}");
    format!("[commands.\"{key}\"]\nprogram = \"/bin/sh\"\nargs = [\"-c\", '''{script}''']\n{more}\n")
}

/// The same for a script that uses the story's directory, which lies where everybody's temporary files do.
fn sharing_script(key: &str, text: &str, more: &str) -> String {
    script(key, text, &format!("private_tmp = false\n{more}"))
}

/// What is there of attempts that run, or left of those that did.
fn rooms(directory_root: &Path) -> usize {
    let rooms = directory_root.join(format!("jobforge-{}", nix::unistd::geteuid()));
    fs::read_dir(rooms).map_or(0, Iterator::count)
}
