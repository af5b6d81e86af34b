//! Two-session stepping: run a statement until it really waits for a lock, do something else, go on.

use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Error, Row};

use crate::db::{TestDb, connect};
use crate::or_fail::OrFail;

/// Generous, because it only passes when a test fails.
const PATIENCE: Duration = Duration::from_secs(30);

/// One connection that is stepped by hand.
pub struct Session {
    client: Client,
    pid: i32,
    monitor_url: String,
}

/// A statement that runs in the background; its session comes back from [`Running::finish`].
pub struct Running {
    task: JoinHandle<(Session, Result<Vec<Row>, Error>)>,
    monitor: Client,
    pid: i32,
    sql: String,
}

/// A parameter that can move to the background.
pub type Param = Box<dyn ToSql + Sync + Send>;

impl TestDb {
    /// A session as superuser.
    pub async fn session(&self) -> Session {
        self.session_at(&self.socket_url()).await
    }

    /// A session at another URL of this database, e.g. from [`TestDb::url_as`].
    pub async fn session_at(&self, url: &str) -> Session {
        let client = connect(url).await;
        let row = client.query_one("select pg_backend_pid()", &[]).await.or_fail("ask for the session's pid");
        Session { client, pid: row.get(0), monitor_url: self.socket_url() }
    }
}

impl Session {
    /// The pid of the server process, as in `pg_stat_activity`.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// The connection, for everything this type does not wrap.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Begins a transaction.
    pub async fn begin(&self) {
        self.run("begin").await;
    }

    /// Commits it.
    pub async fn commit(&self) {
        self.run("commit").await;
    }

    /// Rolls it back.
    pub async fn rollback(&self) {
        self.run("rollback").await;
    }

    /// Runs statements without parameters or result; an error fails the test.
    pub async fn run(&self, sql: &str) {
        self.client.batch_execute(sql).await.or_fail("run a statement of the test");
    }

    /// Runs one statement; its error is for the test to judge.
    pub async fn query(&self, sql: &str, params: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>, Error> {
        self.client.query(sql, params).await
    }

    /// Starts a statement in the background.
    pub async fn start(self, sql: &str, params: Vec<Param>) -> Running {
        let monitor = connect(&self.monitor_url).await;
        let (pid, sql) = (self.pid, sql.to_owned());
        let task = tokio::spawn({
            let sql = sql.clone();
            async move {
                let params: Vec<&(dyn ToSql + Sync)> =
                    params.iter().map(|param| param.as_ref() as _).collect();
                let result = self.client.query(&sql, &params).await;
                (self, result)
            }
        });
        Running { task, monitor, pid, sql }
    }

    /// Starts a statement in the background and returns once it waits for a lock.
    pub async fn spawn_blocked(self, sql: &str, params: Vec<Param>) -> Running {
        let running = self.start(sql, params).await;
        running.wait_until_blocked().await;
        running
    }
}

impl Running {
    /// Returns once the statement really waits for a lock. Fails the test if it ends instead, or if it
    /// does neither in half a minute.
    pub async fn wait_until_blocked(&self) {
        let deadline = Instant::now() + PATIENCE;
        let mut last = String::new();
        while Instant::now() < deadline {
            let (blocked, state) = self.activity().await;
            if blocked {
                return;
            }
            last = state;
            assert!(
                !self.task.is_finished(),
                "the statement ended instead of waiting for a lock: {}",
                self.sql
            );
            sleep(Duration::from_millis(5)).await;
        }
        panic!("the statement did not wait for a lock within {PATIENCE:?} (it is {last}): {}", self.sql);
    }

    /// The sessions this one waits for.
    pub async fn blocked_by(&self) -> Vec<i32> {
        let row = self.monitor.query_one("select pg_blocking_pids($1)", &[&self.pid]).await;
        row.or_fail("ask whom a session waits for").get(0)
    }

    /// Whether the statement has ended.
    pub fn is_finished(&self) -> bool {
        self.task.is_finished()
    }

    /// Waits for the statement's end and gives its session back.
    pub async fn finish(self) -> (Session, Result<Vec<Row>, Error>) {
        let done = tokio::time::timeout(PATIENCE, self.task).await;
        let Ok(done) = done else { panic!("the statement did not end within {PATIENCE:?}: {}", self.sql) };
        done.or_fail("finish a statement in the background")
    }

    async fn activity(&self) -> (bool, String) {
        let sql = "select coalesce(wait_event_type = 'Lock', false),
                          concat_ws(' ', state, 'waiting for', wait_event_type, wait_event)
                   from pg_stat_activity where pid = $1";
        let row = self.monitor.query_opt(sql, &[&self.pid]).await.or_fail("look at pg_stat_activity");
        row.map_or_else(|| (false, "gone".to_owned()), |row| (row.get(0), row.get(1)))
    }
}
