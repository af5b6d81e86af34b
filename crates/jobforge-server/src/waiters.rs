//! Requests that wait for jobs to end: however many they are, the database is asked for all of them at once.
//!
//! A job is asked for 50 milliseconds after somebody came to wait for it, then after pauses that double up to half a
//! second. While nobody waits, nothing is asked.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::http::StatusCode;
use jobforge_core::rpc;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::config::ServerConfig;
use crate::db::Db;
use crate::problem::{ErrorCode, Problem};

/// The first pause, and the shortest between two questions.
const FIRST: Duration = Duration::from_millis(50);
/// The longest pause.
const LONGEST: Duration = Duration::from_millis(500);
/// So many jobs the database tells of at once.
const MOST: usize = 10_000;

/// A tenant and its job.
type Key = (Uuid, Uuid);

/// Where requests wait.
pub(crate) struct Waiters(Arc<Room>);

/// A request's place among those that wait; it leaves when this is dropped.
pub(crate) struct Place {
    room: Arc<Room>,
    key: Key,
    over: Option<watch::Receiver<bool>>,
}

/// Tells which of these jobs are over.
trait Ask: Send + 'static {
    fn ask(&self, jobs: Vec<Key>) -> impl Future<Output = Vec<Key>> + Send;
}

struct Room {
    most: usize,
    state: Mutex<State>,
    /// Somebody came into the empty room.
    came: Notify,
}

#[derive(Default)]
struct State {
    waiting: usize,
    jobs: HashMap<Key, Watched>,
}

struct Watched {
    over: watch::Sender<bool>,
    pause: Duration,
    due: Instant,
}

impl Waiters {
    pub(crate) fn start(db: Arc<Db>, config: &ServerConfig, ending: CancellationToken) -> Waiters {
        Waiters::asking(Database { db, patience: config.call_timeout }, config.waiters, ending)
    }

    fn asking(ask: impl Ask, most: usize, ending: CancellationToken) -> Waiters {
        let room = Arc::new(Room { most: most.min(MOST), state: Mutex::default(), came: Notify::new() });
        tokio::spawn(run(room.clone(), ask, ending));
        Waiters(room)
    }

    /// Begins to wait for a job; refused when too many wait.
    pub(crate) fn enter(&self, tenant: Uuid, job: Uuid) -> Result<Place, Problem> {
        let (room, key) = (&self.0, (tenant, job));
        let mut state = room.state();
        if state.waiting >= room.most {
            let detail =
                "too many requests wait for jobs on this server; ask again, or with timeout_seconds=0";
            return Err(Problem::new(ErrorCode::RateLimited, "too_many_waiters", detail)
                .with_status(StatusCode::SERVICE_UNAVAILABLE)
                .retry_after(Duration::from_secs(1)));
        }
        state.waiting += 1;
        let due = Instant::now() + FIRST;
        let new = || Watched { over: watch::Sender::new(false), pause: FIRST, due };
        let watched = state.jobs.entry(key).or_insert_with(new);
        // Whoever comes later waits no longer for it than the first did.
        (watched.pause, watched.due) = (FIRST, due.min(watched.due));
        let over = Some(watched.over.subscribe());
        drop(state);
        room.came.notify_one();
        Ok(Place { room: room.clone(), key, over })
    }
}

impl Place {
    /// Returns when the job was seen to be over.
    pub(crate) async fn over(&mut self) {
        if let Some(over) = &mut self.over {
            // Without a sender nobody will ever tell: the caller's own time limit ends its wait.
            if over.wait_for(|over| *over).await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.over = None;
        let mut state = self.room.state();
        state.waiting -= 1;
        if state.jobs.get(&self.key).is_some_and(|watched| watched.over.receiver_count() == 0) {
            state.jobs.remove(&self.key);
        }
    }
}

impl Room {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The jobs to ask for now; each waits for longer than before until the next time.
    fn due(&self) -> Vec<Key> {
        let now = Instant::now();
        let mut state = self.state();
        let due = state.jobs.iter_mut().filter(|(_, watched)| watched.due <= now);
        let asked = due.map(|(key, watched)| {
            watched.pause = (watched.pause * 2).min(LONGEST);
            watched.due = now + watched.pause;
            *key
        });
        asked.collect()
    }

    fn tell(&self, over: &[Key]) {
        let mut state = self.state();
        for watched in over.iter().filter_map(|key| state.jobs.remove(key)) {
            watched.over.send_replace(true);
        }
    }
}

async fn run(room: Arc<Room>, ask: impl Ask, ending: CancellationToken) {
    loop {
        let rest = async {
            while room.state().jobs.is_empty() {
                room.came.notified().await;
            }
            sleep(FIRST).await;
        };
        tokio::select! {
            biased;
            () = ending.cancelled() => return,
            () = rest => {}
        }
        let due = room.due();
        if !due.is_empty() {
            room.tell(&ask.ask(due).await);
        }
    }
}

struct Database {
    db: Arc<Db>,
    patience: Duration,
}

impl Ask for Database {
    /// What cannot be told now is asked again.
    async fn ask(&self, jobs: Vec<Key>) -> Vec<Key> {
        let question = async {
            let client = self.db.operator().await?;
            let answer = rpc::finished_jobs(&*client, &jobs).await;
            client.done(answer)
        };
        match timeout(self.patience, question).await {
            Ok(Ok(over)) => over.iter().map(|job| (job.tenant_id, job.id)).collect(),
            Ok(Err(_)) => Vec::new(),
            Err(_) => {
                tracing::warn!(jobs = jobs.len(), "the database did not tell in time which jobs are over");
                Vec::new()
            }
        }
    }
}
