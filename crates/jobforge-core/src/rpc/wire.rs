//! How values cross the wire: JSON as its own text, rows read column by column, answers put back in order.

use std::error::Error as StdError;

use bytes::{BufMut, BytesMut};
use serde_json::value::RawValue;
use tokio_postgres::Row;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, accepts, to_sql_checked};

use crate::error::Error;

/// What jsonb's binary form starts with.
const JSONB_VERSION: u8 = 1;

/// JSON text sent as jsonb without being parsed or written again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Json<'a>(pub(crate) &'a str);

impl<'a> From<&'a Box<RawValue>> for Json<'a> {
    fn from(value: &'a Box<RawValue>) -> Json<'a> {
        Json(value.get())
    }
}

impl ToSql for Json<'_> {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn StdError + Sync + Send>> {
        out.put_u8(JSONB_VERSION);
        out.put_slice(self.0.as_bytes());
        Ok(IsNull::No)
    }

    accepts!(JSONB);
    to_sql_checked!();
}

/// jsonb received as its text, numbers and all.
#[derive(Debug)]
pub(crate) struct JsonText(pub(crate) Box<RawValue>);

impl<'a> FromSql<'a> for JsonText {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<JsonText, Box<dyn StdError + Sync + Send>> {
        match raw.split_first() {
            Some((&JSONB_VERSION, text)) => {
                Ok(JsonText(RawValue::from_string(std::str::from_utf8(text)?.to_owned())?))
            }
            _ => Err("unknown version of jsonb".into()),
        }
    }

    accepts!(JSONB);
}

/// A row read from its first column to its last: by position, because a look-up by name costs a search
/// for every value of every row.
pub(crate) struct Columns<'a> {
    operation: &'static str,
    row: &'a Row,
    next: usize,
}

impl<'a> Columns<'a> {
    pub(crate) fn of(operation: &'static str, row: &'a Row) -> Columns<'a> {
        Columns { operation, row, next: 0 }
    }

    /// The next column's value.
    pub(crate) fn take<T: FromSql<'a>>(&mut self) -> Result<T, Error> {
        let value = self.row.try_get(self.next).map_err(|error| Error::shape(self.operation, error));
        self.next += 1;
        value
    }

    /// The row from this many columns further on.
    pub(crate) fn skip(self, columns: usize) -> Columns<'a> {
        Columns { next: self.next + columns, ..self }
    }

    /// The next column's JSON.
    pub(crate) fn json(&mut self) -> Result<Box<RawValue>, Error> {
        Ok(self.take::<JsonText>()?.0)
    }

    /// The next column's JSON or null.
    pub(crate) fn json_opt(&mut self) -> Result<Option<Box<RawValue>>, Error> {
        Ok(self.take::<Option<JsonText>>()?.map(|json| json.0))
    }
}

/// Puts a batch's answers into the order of its rows. `answers` count from one.
pub(crate) fn in_order<T>(
    operation: &'static str,
    rows: usize,
    answers: impl IntoIterator<Item = Result<(i32, T), Error>>,
) -> Result<Vec<T>, Error> {
    let mut ordered: Vec<Option<T>> = (0..rows).map(|_| None).collect();
    for answer in answers {
        let (at, value) = answer?;
        let index = usize::try_from(at).ok().and_then(|at| at.checked_sub(1));
        match index.and_then(|index| ordered.get_mut(index)) {
            Some(place) => *place = Some(value),
            None => return Err(Error::shape(operation, format_args!("row {at} of {rows}"))),
        }
    }
    let complete: Option<Vec<T>> = ordered.into_iter().collect();
    complete.ok_or_else(|| Error::shape(operation, "a row got no answer"))
}

/// Text that Postgres can store: it has no NUL, so each becomes U+FFFD.
pub(crate) fn clean(text: &str) -> std::borrow::Cow<'_, str> {
    if text.contains('\0') { text.replace('\0', "\u{fffd}").into() } else { text.into() }
}
