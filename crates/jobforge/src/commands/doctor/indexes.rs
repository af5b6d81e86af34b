//! Indexes that lack or that Postgres does not use: without one of them a claim reads the whole table.

use jobforge_core::migrate::{Drift, Part};

use super::Check;
use super::drift::{lines, of_part};

const NAME: &str = "indexes";

pub(super) fn check(drift: &Drift) -> Check {
    let missing = of_part(&drift.missing, Part::Index);
    let extra = of_part(&drift.extra, Part::Index);
    if !missing.is_empty() {
        let found = format!("{} missing", missing.len());
        return Check::fail(NAME, found)
            .details(missing.iter().map(|line| (*line).to_owned()))
            .advice("make each again as it stands above, with `create index concurrently`");
    }
    if let Some(first) = drift.invalid_indexes.first() {
        return Check::fail(NAME, format!("not valid: {}", drift.invalid_indexes.join(", ")))
            .advice(format!("reindex index concurrently jobforge.{first}"));
    }
    if !extra.is_empty() {
        return Check::warn(NAME, format!("{} that JobForge did not make", extra.len()))
            .details(lines("", &extra))
            .advice("each makes every enqueue and claim dearer; drop those that nobody needs");
    }
    Check::ok(NAME, "all there and valid")
}
