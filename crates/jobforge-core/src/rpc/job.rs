//! What names a job in a report, and what a report is answered.

use std::error::Error as StdError;

use bytes::{BufMut, BytesMut};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, accepts, to_sql_checked};
use uuid::Uuid;

use crate::error::Error;

/// JSON text kept exactly: 2^53+1 and 1.10 come back as they went in.
pub type Payload = Box<RawValue>;

/// One attempt of one job: a report is taken only while the fence is the job's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct JobRef {
    /// Whose job it is.
    pub tenant_id: Uuid,
    /// The job.
    pub id: Uuid,
    /// The number of the attempt; it only ever grows.
    pub fence: i32,
}

/// Where a job's row was when it was claimed: a hint that saves a look-up and is never trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Locator {
    /// The page of the table.
    pub block: u32,
    /// The row in the page.
    pub offset: u16,
}

impl ToSql for Locator {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn StdError + Sync + Send>> {
        out.put_u32(self.block);
        out.put_u16(self.offset);
        Ok(IsNull::No)
    }

    accepts!(TID);
    to_sql_checked!();
}

impl<'a> FromSql<'a> for Locator {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Locator, Box<dyn StdError + Sync + Send>> {
        let [a, b, c, d, e, f]: [u8; 6] = raw.try_into()?;
        Ok(Locator { block: u32::from_be_bytes([a, b, c, d]), offset: u16::from_be_bytes([e, f]) })
    }

    accepts!(TID);
}

/// What became of one row of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It was taken.
    Done,
    /// The same report came before: an ambiguous commit was repeated.
    Already,
    /// The lease or the fence is no longer the job's: somebody else has it, or it is over.
    Stale,
    /// There is no such job.
    Unknown,
    /// The result cannot be stored.
    Invalid,
}

impl Verdict {
    pub(crate) fn parse(operation: &'static str, text: &str) -> Result<Verdict, Error> {
        match text {
            "done" => Ok(Verdict::Done),
            "already" => Ok(Verdict::Already),
            "stale" => Ok(Verdict::Stale),
            "unknown" => Ok(Verdict::Unknown),
            "invalid" => Ok(Verdict::Invalid),
            other => Err(Error::shape(operation, format_args!("verdict {other}"))),
        }
    }
}

/// Jobs as the columns that batch functions take.
pub(crate) struct JobColumns {
    pub(crate) tenant_ids: Vec<Uuid>,
    pub(crate) ids: Vec<Uuid>,
    pub(crate) fences: Vec<i32>,
}

impl FromIterator<JobRef> for JobColumns {
    fn from_iter<I: IntoIterator<Item = JobRef>>(jobs: I) -> JobColumns {
        let mut columns = JobColumns { tenant_ids: Vec::new(), ids: Vec::new(), fences: Vec::new() };
        for job in jobs {
            columns.tenant_ids.push(job.tenant_id);
            columns.ids.push(job.id);
            columns.fences.push(job.fence);
        }
        columns
    }
}
