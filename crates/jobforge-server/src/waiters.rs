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
use tokio::time::{Instant, sleep};
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
    /// How many of them each tenant has.
    tenants: HashMap<Uuid, usize>,
    jobs: HashMap<Key, Watched>,
}

struct Watched {
    over: watch::Sender<bool>,
    pause: Duration,
    due: Instant,
}

impl Waiters {
    pub(crate) fn start(db: Arc<Db>, config: &ServerConfig, ending: CancellationToken) -> Waiters {
        Waiters::asking(Database(db), config.waiters, ending)
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
        // One tenant never takes all places.
        let own = state.tenants.get(&tenant).copied().unwrap_or(0);
        if state.waiting >= room.most || own >= room.most.div_ceil(2) {
            let detail = "as many requests wait for jobs as this server lets (server.waiters, half of them for one tenant); ask again, or with timeout_seconds=0";
            return Err(Problem::new(ErrorCode::RateLimited, "too_many_waiters", detail)
                .with_status(StatusCode::SERVICE_UNAVAILABLE)
                .retry_after(Duration::from_secs(1)));
        }
        state.waiting += 1;
        state.tenants.insert(tenant, own + 1);
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
        match state.tenants.get_mut(&self.key.0) {
            Some(own) if *own > 1 => *own -= 1,
            _ => drop(state.tenants.remove(&self.key.0)),
        }
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

struct Database(Arc<Db>);

impl Ask for Database {
    /// What cannot be told now is asked again.
    async fn ask(&self, jobs: Vec<Key>) -> Vec<Key> {
        let Ok(client) = self.0.operator().await else { return Vec::new() };
        match client.attempt(async |c| rpc::finished_jobs(c, &jobs).await).await {
            Ok(over) => over.iter().map(|job| (job.tenant_id, job.id)).collect(),
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(error, jobs = jobs.len(), "the database does not tell which jobs are over");
                Vec::new()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::{mpsc, oneshot};

    use super::*;

    /// Hands each question to the test, which answers it.
    struct Asked(mpsc::UnboundedSender<(Vec<Key>, oneshot::Sender<Vec<Key>>)>);

    impl Ask for Asked {
        async fn ask(&self, jobs: Vec<Key>) -> Vec<Key> {
            let (answer, answered) = oneshot::channel();
            self.0.send((jobs, answer)).unwrap();
            answered.await.unwrap()
        }
    }

    fn key(number: u128) -> Key {
        (Uuid::from_u128(1), Uuid::from_u128(number))
    }

    #[tokio::test]
    async fn all_that_wait_are_asked_for_at_once_and_nobody_else() {
        let (sender, mut questions) = mpsc::unbounded_channel();
        let waiters = Waiters::asking(Asked(sender), 1000, CancellationToken::new());
        let enter = |number: u128| waiters.enter(key(number).0, key(number).1).unwrap();
        drop(enter(0));
        let mut places: Vec<Place> = (1..=100).chain(1..=100).map(enter).collect();
        let (mut asked, answer) = questions.recv().await.unwrap();
        asked.sort_unstable();
        assert_eq!(asked, (1..=100).map(key).collect::<Vec<_>>());
        // Who comes while the question is under way is in the next one.
        let mut late = enter(200);
        answer.send((1..=99).map(key).collect()).unwrap();
        for place in places.iter_mut().filter(|place| place.key != key(100)) {
            place.over().await;
        }
        let mut seen = Vec::new();
        while !(seen.contains(&key(100)) && seen.contains(&key(200))) {
            let (asked, answer) = questions.recv().await.unwrap();
            assert!(asked.iter().all(|job| [key(100), key(200)].contains(job)));
            answer.send(asked.clone()).unwrap();
            seen.extend(asked);
        }
        late.over().await;
        drop((places, late));
        let state = waiters.0.state();
        assert_eq!((state.waiting, state.jobs.len()), (0, 0));
    }

    #[tokio::test]
    async fn pauses_grow_and_a_newcomer_shortens_them() {
        let room = Arc::new(Room { most: 10, state: Mutex::default(), came: Notify::new() });
        let waiters = Waiters(room.clone());
        let _first = waiters.enter(key(1).0, key(1).1).unwrap();
        let mut pauses = Vec::new();
        for _ in 0..5 {
            if let Some(watched) = room.state().jobs.get_mut(&key(1)) {
                watched.due = Instant::now();
            }
            assert_eq!(room.due(), [key(1)]);
            assert!(room.due().is_empty());
            pauses.push(room.state().jobs[&key(1)].pause.as_millis());
        }
        assert_eq!(pauses, [100, 200, 400, 500, 500]);
        let _second = waiters.enter(key(1).0, key(1).1).unwrap();
        assert_eq!(room.state().jobs[&key(1)].pause, FIRST);
    }

    #[tokio::test]
    async fn no_more_wait_than_may_and_no_tenant_takes_all_places() {
        let room = Arc::new(Room { most: 4, state: Mutex::default(), came: Notify::new() });
        let waiters = Waiters(room.clone());
        let enter = |tenant: u128| waiters.enter(Uuid::from_u128(tenant), Uuid::from_u128(7));
        let full = |place: Result<Place, Problem>| {
            place.is_err_and(|problem| problem.status_code() == StatusCode::SERVICE_UNAVAILABLE)
        };
        let (first, second) = (enter(1).unwrap(), enter(1).unwrap());
        assert!(full(enter(1)));
        let others = (enter(2).unwrap(), enter(3).unwrap());
        assert!(full(enter(4)));
        drop(second);
        assert!(enter(1).is_ok() && enter(4).is_ok());
        drop((first, others));
        assert!(room.state().tenants.is_empty());
    }
}
