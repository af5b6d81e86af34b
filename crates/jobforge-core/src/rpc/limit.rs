//! What tenants and definitions have in common: limits that can be taken away, and a pause that holds them.

use jiff::Timestamp;
use serde::Serialize;

use super::wire::Columns;
use crate::error::Error;

/// A limit or rule that is taken away. A value that is not given stays; only this makes it none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Clear {
    /// How many jobs may wait; tenants only.
    MaxPending,
    /// How many jobs may run at a time.
    MaxInFlight,
    /// How many jobs may start in a second, and how many at once.
    Rate,
    /// How long history is kept; tenants only, whose definitions' then counts.
    Retention,
    /// What payloads must fit; definitions only.
    ArgSchema,
    /// What of payloads is never shown, but for what the schema marks; definitions only.
    Redact,
}

impl Clear {
    /// Its name in SQL.
    pub fn as_str(self) -> &'static str {
        match self {
            Clear::MaxPending => "max_pending",
            Clear::MaxInFlight => "max_in_flight",
            Clear::Rate => "rate",
            Clear::Retention => "retention",
            Clear::ArgSchema => "arg_schema",
            Clear::Redact => "redact",
        }
    }

    pub(super) fn names(cleared: &[Clear]) -> Vec<&'static str> {
        cleared.iter().map(|clear| clear.as_str()).collect()
    }
}

/// The pause that holds a tenant or a definition now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Hold {
    /// Since when.
    pub paused_at: Timestamp,
    /// When it ends by itself.
    pub until: Option<Timestamp>,
    /// Why.
    pub reason: String,
    /// By whose hand.
    pub author: String,
}

impl Hold {
    /// From a list's four last columns: all of them null where nothing holds.
    pub(super) fn read(columns: &mut Columns<'_>) -> Result<Option<Hold>, Error> {
        let paused_at: Option<Timestamp> = columns.take()?;
        let until = columns.take()?;
        let (reason, author): (Option<String>, Option<String>) = (columns.take()?, columns.take()?);
        Ok(paused_at.map(|paused_at| Hold {
            paused_at,
            until,
            reason: reason.unwrap_or_default(),
            author: author.unwrap_or_default(),
        }))
    }
}
