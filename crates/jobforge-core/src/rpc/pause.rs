//! Pause and resume: hold a queue, a tenant or a definition back, and let it go on.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tokio_postgres::types::Type;
use tokio_postgres::{GenericClient, Row};

use super::wire::{Columns, clean};
use crate::error::Error;

/// What can be paused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum PauseKind {
    /// All jobs of a queue.
    Queue,
    /// All jobs of a tenant; its id is the name.
    Tenant,
    /// All jobs of a type.
    Definition,
}

impl PauseKind {
    /// Every kind.
    pub const ALL: [PauseKind; 3] = [PauseKind::Queue, PauseKind::Tenant, PauseKind::Definition];

    /// Its name in SQL.
    pub fn as_str(self) -> &'static str {
        match self {
            PauseKind::Queue => "queue",
            PauseKind::Tenant => "tenant",
            PauseKind::Definition => "definition",
        }
    }

    pub(super) fn parse(operation: &'static str, text: &str) -> Result<PauseKind, Error> {
        let known = PauseKind::ALL.into_iter().find(|kind| kind.as_str() == text);
        known.ok_or_else(|| Error::shape(operation, format_args!("unknown kind {text}")))
    }
}

impl fmt::Display for PauseKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A pause to be made, or to be changed: a pause that holds keeps its beginning.
#[derive(Clone, Debug)]
pub struct NewPause {
    /// Of what kind.
    pub kind: PauseKind,
    /// Of which one.
    pub name: String,
    /// Why.
    pub reason: String,
    /// When it ends by itself; without, it lasts until somebody resumes.
    pub until: Option<Timestamp>,
    /// By whose hand; without, the login.
    pub author: Option<String>,
}

/// A pause that holds something back now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Pause {
    /// Of what kind.
    pub kind: PauseKind,
    /// Of which one.
    pub name: String,
    /// Why.
    pub reason: String,
    /// By whose hand.
    pub author: String,
    /// Since when.
    pub paused_at: Timestamp,
    /// When it ends by itself.
    pub until: Option<Timestamp>,
}

/// Holds something back: from the next claim on nothing of it starts, what runs goes on. Answers the time.
pub async fn pause<C: GenericClient>(c: &C, pause: &NewPause) -> Result<Timestamp, Error> {
    const OPERATION: &str = "pause";
    let row = c
        .query_typed_one(
            "select jobforge.pause(p_kind => $1, p_name => $2, p_reason => $3, p_until => $4, p_author => $5)",
            &[
                (&pause.kind.as_str(), Type::TEXT),
                (&clean(&pause.name), Type::TEXT),
                (&clean(&pause.reason), Type::TEXT),
                (&pause.until, Type::TIMESTAMPTZ),
                (&pause.author.as_deref().map(clean), Type::TEXT),
            ],
        )
        .await
        .map_err(|error| Error::call(OPERATION, error))?;
    Columns::of(OPERATION, &row).take()
}

/// Ends a pause and wakes the sleepers; false where nothing was paused.
pub async fn resume<C: GenericClient>(
    c: &C,
    kind: PauseKind,
    name: &str,
    author: Option<&str>,
) -> Result<bool, Error> {
    const OPERATION: &str = "resume";
    let row = c
        .query_typed_one(
            "select jobforge.resume(p_kind => $1, p_name => $2, p_author => $3)",
            &[(&kind.as_str(), Type::TEXT), (&clean(name), Type::TEXT), (&author.map(clean), Type::TEXT)],
        )
        .await
        .map_err(|error| Error::call(OPERATION, error))?;
    Columns::of(OPERATION, &row).take()
}

/// What is paused now, the latest first.
pub async fn list_pauses<C: GenericClient>(c: &C, limit: i32) -> Result<Vec<Pause>, Error> {
    const OPERATION: &str = "list_pauses";
    let rows = c
        .query_typed(
            "select p.kind, p.name, p.reason, p.author, p.paused_at, p.until
             from jobforge.list_pauses(p_limit => $1) as p",
            &[(&limit, Type::INT4)],
        )
        .await
        .map_err(|error| Error::call(OPERATION, error))?;
    rows.iter().map(|row: &Row| read_pause(OPERATION, row)).collect()
}

fn read_pause(operation: &'static str, row: &Row) -> Result<Pause, Error> {
    let mut columns = Columns::of(operation, row);
    Ok(Pause {
        kind: PauseKind::parse(operation, columns.take()?)?,
        name: columns.take()?,
        reason: columns.take()?,
        author: columns.take()?,
        paused_at: columns.take()?,
        until: columns.take()?,
    })
}
