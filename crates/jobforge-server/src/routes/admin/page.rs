//! Pages of lists that go by a name or an id.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use utoipa::IntoParams;

use crate::cursor;
use crate::problem::Problem;

/// Which page.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct PageParams {
    /// The most entries, 1 to 10000.
    #[serde(default = "usual_limit")]
    #[param(minimum = 1, maximum = 10000, default = 100)]
    pub(super) limit: i32,
    /// Where the page before ended.
    cursor: Option<String>,
}

/// How many, for a list without pages.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct LimitParams {
    /// The most entries, 1 to 10000.
    #[serde(default = "usual_limit")]
    #[param(minimum = 1, maximum = 10000, default = 100)]
    pub(super) limit: i32,
}

impl PageParams {
    /// The last entry of the page before.
    pub(super) fn after<T: DeserializeOwned>(&self) -> Result<Option<T>, Problem> {
        self.cursor.as_deref().map(cursor::read).transpose()
    }
}

/// The cursor behind a page; none behind one that is not full.
pub(super) fn next<T, P: Serialize>(limit: i32, page: &[T], place: impl Fn(&T) -> P) -> Option<String> {
    let full = usize::try_from(limit).is_ok_and(|limit| page.len() >= limit);
    page.last().filter(|_| full).map(|last| cursor::write(&place(last)))
}

pub(super) fn usual_limit() -> i32 {
    100
}
