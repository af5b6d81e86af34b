//! A worker behind PgBouncer in transaction mode, where every statement may meet another session.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use jobforge_testkit::{PASSWORD, TestDb, WORKER};
use jobforge_worker::{HandlerError, Level, Outcome, WorkerConfig};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::{TcpListener, TcpStream};

use crate::support::{Story, echo, eventually};

/// A pooler that ends with this.
struct Pooler {
    process: Child,
    port: u16,
    _files: TempDir,
}

impl Pooler {
    async fn start(db: &TestDb) -> Pooler {
        let files = tempfile::tempdir().unwrap();
        // PgBouncer does not run as root, and its other user must read this.
        fs::set_permissions(files.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let port = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
        let settings = format!(
            "[databases]\n{name} = host=127.0.0.1 port={server} user={WORKER} password={PASSWORD}\n\
             [pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\nauth_type = any\n\
             pool_mode = transaction\ndefault_pool_size = 2\n",
            name = db.name(),
            server = db.cluster_port(),
        );
        let path = files.path().join("pgbouncer.ini");
        fs::write(&path, settings).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        let mut command = Command::new("pgbouncer");
        if nix::unistd::geteuid().is_root() {
            command.args(["-u", "nobody"]);
        }
        let path_with_sbin = format!("{}:/usr/sbin", std::env::var("PATH").unwrap_or_default());
        let process = command
            .arg("-q")
            .arg(&path)
            .env("PATH", path_with_sbin)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("pgbouncer is installed (scripts/setup test)");
        let pooler = Pooler { process, port, _files: files };
        let answers = async || TcpStream::connect(("127.0.0.1", port)).await.ok();
        eventually("the pooler listens", answers).await;
        pooler
    }

    fn url(&self, db: &TestDb) -> String {
        format!("postgres://{WORKER}@127.0.0.1:{}/{}", self.port, db.name())
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn behind_a_pooler_everything_works_and_a_deaf_listener_is_not_trusted() {
    let story = Story::begin().await;
    let pooler = Pooler::start(&story.db).await;
    let config = WorkerConfig { database_url: pooler.url(&story.db), ..story.config() };
    let worker = story
        .work(config, |context, payload: Value| async move {
            context.log(Level::Info, "through the pooler").await;
            match payload.as_u64() {
                Some(n) if n % 2 == 0 => Ok(Outcome::done()),
                _ => Err(HandlerError::new("odd").permanent()),
            }
        })
        .await;
    let ids = story.enqueue_numbers(20).await;
    for (n, id) in ids.into_iter().enumerate() {
        story.until(id, if n % 2 == 0 { "succeeded" } else { "failed" }).await;
    }
    // LISTEN succeeds behind a pooler, and even hears itself, but nobody else.
    assert!(!worker.hears());
    let began = Instant::now();
    let id = story.enqueue(json!(0)).await;
    story.until(id, "succeeded").await;
    assert!(began.elapsed() < Duration::from_secs(5), "polling finds it: {:?}", began.elapsed());
    worker.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_direct_way_around_the_pooler_is_heard() {
    let story = Story::begin().await;
    let pooler = Pooler::start(&story.db).await;
    let direct = story.config().database_url;
    let config =
        WorkerConfig { database_url: pooler.url(&story.db), direct_url: Some(direct), ..story.config() };
    let worker = story.work(config, echo).await;
    eventually("the listener hears", async || worker.hears().then_some(())).await;
    let id = story.enqueue(json!(0)).await;
    story.until(id, "succeeded").await;
    worker.shutdown().await;
}
