//! A PgBouncer in transaction mode for one test, where every transaction may meet another session.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::unistd::geteuid;
use tempfile::TempDir;
use tokio::net::{TcpListener, TcpStream};
use tokio_postgres::SimpleQueryMessage;

use crate::installed::PASSWORD;
use crate::or_fail::OrFail;
use crate::{TestDb, connect};

/// Generous, because it only passes when a test fails.
const PATIENCE: Duration = Duration::from_secs(30);

/// Who may ask the pooler itself.
const CONSOLE: &str = "console";

/// A pooler of few sessions as one login; it ends with this.
#[derive(Debug)]
pub struct Pooler {
    process: Child,
    url: String,
    port: u16,
    _files: TempDir,
}

impl Pooler {
    /// A pooler of two sessions before this database that takes connections.
    pub async fn start(db: &TestDb, login: &str) -> Pooler {
        Pooler::of(2, db, login).await
    }

    /// One of so many sessions.
    pub async fn of(sessions: usize, db: &TestDb, login: &str) -> Pooler {
        let files = tempfile::tempdir().or_fail("make a directory for the pooler");
        // PgBouncer does not run as root, and its other user must read this.
        let open = |path: &std::path::Path, mode: u32| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).or_fail("open the pooler's files");
        };
        open(files.path(), 0o755);
        let listener = TcpListener::bind("127.0.0.1:0").await.or_fail("find a port for the pooler");
        let port = listener.local_addr().or_fail("find a port for the pooler").port();
        drop(listener);
        let (name, server) = (db.name(), db.cluster_port());
        let settings = format!(
            "[databases]\n{name} = host=127.0.0.1 port={server} user={login} password={PASSWORD}\n\
             [pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\nauth_type = any\n\
             pool_mode = transaction\ndefault_pool_size = {sessions}\nadmin_users = {CONSOLE}\n"
        );
        let path = files.path().join("pgbouncer.ini");
        fs::write(&path, settings).or_fail("write the pooler's settings");
        open(&path, 0o644);
        let mut command = Command::new("pgbouncer");
        if geteuid().is_root() {
            command.args(["-u", "nobody"]);
        }
        let process = command
            .arg("-q")
            .arg(&path)
            .env("PATH", format!("{}:/usr/sbin", std::env::var("PATH").unwrap_or_default()))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .or_fail("start pgbouncer (scripts/setup test installs it)");
        let url = format!("postgres://{login}@127.0.0.1:{port}/{name}");
        let pooler = Pooler { process, url, port, _files: files };
        let deadline = Instant::now() + PATIENCE;
        while TcpStream::connect(("127.0.0.1", port)).await.is_err() {
            assert!(Instant::now() < deadline, "the pooler does not listen");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        pooler
    }

    /// The database behind the pooler, as its login.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// How many of its sessions are somebody's now.
    pub async fn lent(&self) -> usize {
        let console = connect(&format!("postgres://{CONSOLE}@127.0.0.1:{}/pgbouncer", self.port)).await;
        let told = console.simple_query("show pools").await.or_fail("ask the pooler for its pools");
        told.iter()
            .filter_map(|message| match message {
                SimpleQueryMessage::Row(row) => row.get("sv_active")?.parse::<usize>().ok(),
                _ => None,
            })
            .sum()
    }

    /// A connection through the pooler.
    pub async fn connect(&self) -> tokio_postgres::Client {
        connect(&self.url).await
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
