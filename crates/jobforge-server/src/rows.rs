//! The rows of a batch, each read by itself: one that cannot be read is its own matter and harms no other.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{DeserializeOwned, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use uuid::Uuid;

use crate::extract::read_json;
use crate::problem::Problem;

/// The most rows of one report.
const MOST: usize = 5_000;

/// Rows as they came, each read or not. Held to the bounds of JSON one by one: what is around them must nest nothing.
#[derive(Debug)]
pub(crate) struct Rows<T>(Vec<Result<T, Box<Misread>>>);

/// A row that cannot be read.
#[derive(Debug)]
pub(crate) struct Misread {
    /// What can be read of its names all the same.
    pub(crate) tenant_id: Option<Uuid>,
    pub(crate) id: Option<Uuid>,
    /// Its places are those within the row.
    pub(crate) problem: Problem,
}

impl<T> Rows<T> {
    /// The rows in their order; refused as a whole if they are too many.
    pub(crate) fn read(self) -> Result<Vec<Result<T, Box<Misread>>>, Problem> {
        if self.0.len() > MOST {
            let detail = format!("a report has at most {MOST} rows");
            return Err(Problem::malformed("batch_size", detail));
        }
        Ok(self.0)
    }
}

impl<'de, T: DeserializeOwned> Deserialize<'de> for Rows<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Rows<T>, D::Error> {
        deserializer.deserialize_seq(Reader(PhantomData))
    }
}

struct Reader<T>(PhantomData<T>);

impl<'de, T: DeserializeOwned> Visitor<'de> for Reader<T> {
    type Value = Rows<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Rows<T>, A::Error> {
        let mut rows = Vec::new();
        while let Some(row) = elements.next_element::<&'de RawValue>()? {
            // One too many is enough to refuse them all.
            if rows.len() <= MOST {
                rows.push(read_json(row.get().as_bytes()).map_err(|problem| misread(row, problem)));
            }
        }
        Ok(Rows(rows))
    }
}

/// Whoever sent the row finds it by its place, and by its names where they are right.
fn misread(row: &RawValue, problem: Problem) -> Box<Misread> {
    #[derive(Default, Deserialize)]
    struct Names<'a> {
        #[serde(borrow)]
        tenant_id: Option<&'a RawValue>,
        #[serde(borrow)]
        id: Option<&'a RawValue>,
    }
    let names: Names = serde_json::from_str(row.get()).unwrap_or_default();
    let name = |text: Option<&RawValue>| serde_json::from_str(text?.get()).ok();
    Box::new(Misread { tenant_id: name(names.tenant_id), id: name(names.id), problem })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Row {
        id: Uuid,
    }

    fn read(text: &str) -> Vec<Result<Row, Box<Misread>>> {
        serde_json::from_str::<Rows<Row>>(text).unwrap().read().unwrap()
    }

    #[test]
    fn a_row_is_read_or_not_by_itself_alone() {
        let id = Uuid::from_u128(7);
        let deep = format!("{{\"id\": {}{}}}", "[".repeat(100_000), "]".repeat(100_000));
        let text = format!(
            "[{{\"id\": \"{id}\"}}, {{\"id\": \"{id}\", \"more\": 1e999}}, {deep}, null, {{\"tenant_id\": 7}}]"
        );
        let rows = read(&text);
        assert!(rows[0].as_ref().is_ok_and(|row| row.id == id));
        let told: Vec<(&str, Option<Uuid>)> = rows[1..]
            .iter()
            .map(|row| row.as_ref().unwrap_err())
            .map(|row| (row.problem.reason(), row.id))
            .collect();
        let invalid = ("body_invalid", None);
        assert_eq!(told, [("number_too_long", Some(id)), ("body_too_deep", None), invalid, invalid]);
    }

    #[test]
    fn too_many_rows_are_refused_and_not_kept() {
        let text = format!("[{}1]", "1,".repeat(MOST * 2));
        let rows = serde_json::from_str::<Rows<Row>>(&text).unwrap();
        assert_eq!(rows.0.len(), MOST + 1);
        assert_eq!(rows.read().unwrap_err().reason(), "batch_size");
        assert_eq!(read(&format!("[{}1]", "1,".repeat(MOST - 1))).len(), MOST);
    }
}
