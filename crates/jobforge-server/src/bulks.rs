//! Operations on many jobs, driven to their end beside the requests that started them.
//!
//! Each step is a transaction of its own, so an operation that a stopping server leaves is where its last step ended:
//! `POST /bulk/{id}/resume` goes on there, on any server.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jobforge_core::{Actor, Bulk, Error, rpc};
use tokio::sync::Semaphore;
use tokio::time::sleep;
use uuid::Uuid;

use crate::app::App;

/// Jobs of one step: short transactions, and numbers that move.
pub(crate) const STEP: i32 = 500;
/// Steps under way at once: the other connections for what may wait are left to requests.
const STEPS: usize = 4;
/// How long a failed step is rested from, at first and at last.
const RESTS: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(10));

/// A tenant and its operation.
type Key = (Uuid, Uuid);

/// The operations that this server drives.
pub(crate) struct Bulks {
    /// Whether somebody asked for it again meanwhile.
    driven: Mutex<HashMap<Key, bool>>,
    steps: Semaphore,
}

impl Default for Bulks {
    fn default() -> Bulks {
        Bulks { driven: Mutex::default(), steps: Semaphore::new(STEPS) }
    }
}

/// What a drive does next.
#[derive(Clone, Copy)]
enum Next {
    Step,
    Undo,
    Look,
}

/// Sees to it that an operation comes to its end, once for each operation.
pub(crate) fn drive(app: &Arc<App>, tenant: Uuid, actor: &Actor, bulk: &Bulk) {
    let (key, next) = ((tenant, bulk.id), next(bulk));
    let Some(next) = next else { return };
    match app.bulks.driven().entry(key) {
        Entry::Occupied(mut again) => *again.get_mut() = true,
        Entry::Vacant(place) => {
            place.insert(false);
            tokio::spawn(run(app.clone(), key, actor.clone(), next));
        }
    }
}

async fn run(app: Arc<App>, key: Key, actor: Actor, first: Next) {
    let (mut todo, mut rest) = (first, RESTS.0);
    loop {
        let answer = tokio::select! {
            biased;
            () = app.ending.cancelled() => return app.bulks.leave(key),
            answer = step(&app, key, &actor, todo) => answer,
        };
        match answer {
            Ok(bulk) => {
                rest = RESTS.0;
                todo = match next(&bulk) {
                    Some(next) => next,
                    None if app.bulks.asked_again(key) => Next::Look,
                    None => return,
                };
            }
            Err(Some(error)) if !error.is_transient() => {
                let error = &error as &dyn std::error::Error;
                tracing::error!(error, operation = %key.1, "an operation on many jobs stopped; it can be resumed");
                return app.bulks.leave(key);
            }
            Err(_) => {
                tokio::select! {
                    () = app.ending.cancelled() => {}
                    () = sleep(rest) => {}
                }
                rest = (rest * 2).min(RESTS.1);
            }
        }
    }
}

/// One step; no error is there where no connection was to be had.
async fn step(app: &App, (tenant, id): Key, actor: &Actor, todo: Next) -> Result<Bulk, Option<Error>> {
    let _slot = app.bulks.steps.acquire().await.map_err(|_| None)?;
    let client = app.db.patient().await.map_err(|_| None)?;
    let answer = match todo {
        Next::Step => rpc::as_actor(&client, actor, rpc::step_bulk(&*client, tenant, id, STEP)).await,
        Next::Undo => rpc::as_actor(&client, actor, rpc::undo_bulk(&*client, tenant, id, STEP)).await,
        Next::Look => rpc::get_bulk(&*client, tenant, id).await,
    };
    client.settle(answer).map_err(Some)
}

fn next(bulk: &Bulk) -> Option<Next> {
    match bulk.status.as_str() {
        "running" => Some(Next::Step),
        "undoing" => Some(Next::Undo),
        _ => None,
    }
}

impl Bulks {
    fn driven(&self) -> MutexGuard<'_, HashMap<Key, bool>> {
        self.driven.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn leave(&self, key: Key) {
        self.driven().remove(&key);
    }

    /// Whether to look again; if not, the operation is driven no more.
    fn asked_again(&self, key: Key) -> bool {
        let mut driven = self.driven();
        match driven.get_mut(&key) {
            Some(again) if *again => {
                *again = false;
                true
            }
            _ => {
                driven.remove(&key);
                false
            }
        }
    }
}
