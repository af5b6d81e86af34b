//! Operations on many jobs, driven to their end beside the requests that started them.
//!
//! Each step is a transaction of its own, so an operation that a stopping server leaves is where its last step ended:
//! `POST /bulk/{id}/resume` goes on there, on any server. A step that waits for somebody's transaction longer than a call
//! may is undone and tried again, with pauses: the operation says that it is held up, and stays where it was.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jobforge_core::{Actor, Bulk, Error, rpc};
use serde::Serialize;
use tokio::sync::Semaphore;
use tokio::time::sleep;
use tokio_postgres::Client;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::app::App;
use crate::lent::is_late;

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
    driven: Mutex<HashMap<Key, Driven>>,
    steps: Semaphore,
}

impl Default for Bulks {
    fn default() -> Bulks {
        Bulks { driven: Mutex::default(), steps: Semaphore::new(STEPS) }
    }
}

/// An operation that is driven.
#[derive(Default)]
struct Driven {
    /// Whether somebody asked for it again meanwhile.
    again: bool,
    /// Whether its last step did not get through.
    held_up: bool,
}

/// How an operation gets on that is not at its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Drive {
    /// This server goes on with it.
    UnderWay,
    /// This server tries again and again: the last step waited in vain for somebody's transaction, or the database does
    /// not answer. Nothing of that step is done; what was done before is.
    HeldUp,
    /// This server does nothing about it. Another one may; if not, resume it.
    Elsewhere,
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
        Entry::Occupied(mut driven) => driven.get_mut().again = true,
        Entry::Vacant(place) => {
            place.insert(Driven::default());
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
                app.bulks.note_step(key);
                todo = match next(&bulk) {
                    Some(next) => next,
                    None if app.bulks.asked_again(key) => Next::Look,
                    None => return,
                };
            }
            Err(Some(error)) if !error.is_transient() && !is_late(&error) => {
                let error = &error as &dyn std::error::Error;
                tracing::error!(error, operation = %key.1, "an operation on many jobs stopped; it can be resumed");
                return app.bulks.leave(key);
            }
            Err(error) => {
                app.bulks.note_held_up(key, error.as_ref());
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
    let client = app.db.patient(tenant).await.map_err(|_| None)?;
    let call = async |c: &Client| match todo {
        Next::Step => rpc::as_actor(c, actor, rpc::step_bulk(c, tenant, id, STEP)).await,
        Next::Undo => rpc::as_actor(c, actor, rpc::undo_bulk(c, tenant, id, STEP)).await,
        Next::Look => rpc::get_bulk(c, tenant, id).await,
    };
    client.attempt(call).await.map_err(Some)
}

fn next(bulk: &Bulk) -> Option<Next> {
    match bulk.status.as_str() {
        "running" => Some(Next::Step),
        "undoing" => Some(Next::Undo),
        _ => None,
    }
}

impl Bulks {
    /// How an operation gets on; nothing when it is at its end.
    pub(crate) fn drive_of(&self, tenant: Uuid, bulk: &Bulk) -> Option<Drive> {
        next(bulk)?;
        Some(match self.driven().get(&(tenant, bulk.id)) {
            Some(Driven { held_up: true, .. }) => Drive::HeldUp,
            Some(_) => Drive::UnderWay,
            None => Drive::Elsewhere,
        })
    }

    fn note_step(&self, key: Key) {
        if let Some(driven) = self.driven().get_mut(&key) {
            driven.held_up = false;
        }
    }

    fn note_held_up(&self, key: Key, error: Option<&Error>) {
        let error = error.map(|error| error as &dyn std::error::Error);
        tracing::warn!(error, operation = %key.1, "a step of an operation on many jobs is tried again");
        if let Some(driven) = self.driven().get_mut(&key) {
            driven.held_up = true;
        }
    }

    fn driven(&self) -> MutexGuard<'_, HashMap<Key, Driven>> {
        self.driven.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn leave(&self, key: Key) {
        self.driven().remove(&key);
    }

    /// Whether to look again; if not, the operation is driven no more.
    fn asked_again(&self, key: Key) -> bool {
        let mut driven = self.driven();
        match driven.get_mut(&key) {
            Some(driven) if driven.again => {
                driven.again = false;
                true
            }
            _ => {
                driven.remove(&key);
                false
            }
        }
    }
}
