//! Is the schema still what this program installs: tables and constraints, policies and grants, functions and their
//! texts?

use jobforge_core::migrate::{Drift, Fact, Part};

use super::Check;

pub(super) fn checks(drift: &Drift) -> Vec<Check> {
    vec![tables(drift), security(drift), functions(drift)]
}

fn tables(drift: &Drift) -> Check {
    const NAME: &str = "drift: tables";
    let advice = "somebody changed them by hand; `jobforge migrate --print` shows what they should be";
    part(NAME, drift, Part::Table, advice)
        .unwrap_or_else(|| Check::ok(NAME, "columns and constraints as installed"))
}

/// What is too much here may open to others what the rest keeps closed, so it is no matter of taste as elsewhere.
fn security(drift: &Drift) -> Check {
    const NAME: &str = "drift: security";
    const ADVICE: &str = "tenants may see one another: make what is missing as it stands above, drop or revoke what is too many";
    let (missing, extra) = (of_part(&drift.missing, Part::Security), of_part(&drift.extra, Part::Security));
    if missing.is_empty() && extra.is_empty() {
        return Check::ok(NAME, "policies and grants as installed");
    }
    let (kept, extra): (Vec<&str>, Vec<&str>) = extra.into_iter().partition(|line| is_rest(line, &missing));
    let (opening, closed): (Vec<&str>, Vec<&str>) =
        extra.into_iter().partition(|line| opens(line) && !is_strangers(line, drift));
    let found = match opening.len() {
        0 => format!("{} facts missing, {} too many", missing.len(), closed.len()),
        open => format!("{} facts missing, {open} open what is installed closed", missing.len()),
    };
    let check = match missing.is_empty() && opening.is_empty() {
        true => Check::warn(NAME, found),
        false => Check::fail(NAME, found),
    };
    check
        .details(lines("opens: ", &opening))
        .details(lines("missing: ", &missing))
        .details(lines("of it there is: ", &kept))
        .details(lines("too many: ", &closed))
        .advice(ADVICE)
}

/// Whether something that was added lets anybody see or do more. A restrictive policy narrows, row security that is
/// enforced does too, and whoever may use the schema or a type reaches nothing by it; all else does, whomever it is for.
fn opens(line: &str) -> bool {
    if line.starts_with("grant ") {
        return !["grant usage on schema ", "grant usage on type "].iter().any(|kind| line.starts_with(kind));
    }
    if line.starts_with("create policy ") {
        // A quoted name may hold any words: it is never taken for a clause.
        let words: Vec<&str> = line.split(' ').collect();
        return words.get(2).is_none_or(|name| name.starts_with('"'))
            || words.get(5..7) != Some(["as", "restrictive"].as_slice());
    }
    !line.ends_with(" enable, force row level security;")
}

/// Whether a grant is what is left of missing ones: to the same grantee, on the same object, nothing that they lack.
fn is_rest(line: &str, missing: &[&str]) -> bool {
    let Some(grant) = Grant::of(line) else { return false };
    let before: Vec<Grant<'_>> = missing
        .iter()
        .filter_map(|line| Grant::of(line))
        .filter(|other| (other.object, other.grantee) == (grant.object, grant.grantee))
        .collect();
    grant.privileges().iter().all(|&privilege| before.iter().any(|other| other.covers(privilege)))
}

/// A grant in its parts, as `facts.sql` of the migrations writes it.
struct Grant<'a> {
    /// `select, update`, or `select (id, status)` of columns.
    rights: &'a str,
    object: &'a str,
    grantee: &'a str,
}

impl<'a> Grant<'a> {
    fn of(line: &'a str) -> Option<Grant<'a>> {
        let (rights, rest) = split(line.strip_prefix("grant ")?.strip_suffix(';')?, " on ")?;
        let (object, grantee) = split(rest, " to ")?;
        Some(Grant { rights, object, grantee })
    }

    /// Each privilege, with its column if it has one.
    fn privileges(&self) -> Vec<(&'a str, Option<&'a str>)> {
        match self.rights.split_once(" (") {
            Some((privilege, columns)) => {
                columns.trim_end_matches(')').split(", ").map(|column| (privilege, Some(column))).collect()
            }
            None => self.rights.split(", ").map(|privilege| (privilege, None)).collect(),
        }
    }

    /// What is granted on all columns is on each.
    fn covers(&self, (privilege, column): (&str, Option<&str>)) -> bool {
        let own = self.privileges();
        own.contains(&(privilege, column)) || own.contains(&(privilege, None))
    }
}

/// Whether it is a grant on a function that somebody made in the schema and that runs as whoever calls it: everybody may call a
/// new function, and reads by it what they may read without. Whatever holds or shows rows is not passed by.
fn is_strangers(line: &str, drift: &Drift) -> bool {
    let Some(name) = Grant::of(line).and_then(|grant| grant.object.strip_prefix("function ")) else {
        return false;
    };
    let owner = format!("alter function {name} owner to ");
    let owned = |facts: &[Fact]| facts.iter().any(|fact| fact.line.starts_with(&owner));
    let function = name.split('(').next().unwrap_or_default();
    let is_definer = |fact: &Fact| {
        let made = fact.line.strip_prefix("create function ").and_then(|rest| rest.strip_prefix(function));
        made.is_some_and(|rest| rest.starts_with('(') && rest.contains(" security definer"))
    };
    owned(&drift.extra) && !owned(&drift.missing) && !drift.extra.iter().any(is_definer)
}

/// Before and after the first of these words that is not within a quoted name.
fn split<'a>(text: &'a str, words: &str) -> Option<(&'a str, &'a str)> {
    let outside = |&(at, _): &(usize, &str)| text[..at].matches('"').count().is_multiple_of(2);
    let (at, _) = text.match_indices(words).find(outside)?;
    Some((&text[..at], &text[at + words.len()..]))
}

fn functions(drift: &Drift) -> Check {
    const NAME: &str = "drift: functions";
    const ADVICE: &str = "apply them again: `jobforge migrate --functions`";
    if let Some(check) = part(NAME, drift, Part::Function, ADVICE) {
        return check.details(drift.functions.iter().map(|name| format!("another text: {name}")));
    }
    if drift.functions.is_empty() {
        return Check::ok(NAME, "signatures, owners, settings and texts as installed");
    }
    Check::fail(NAME, format!("another text than this program's: {}", drift.functions.join(", ")))
        .advice(ADVICE)
}

/// What lacks is a fault; what somebody added is worth a look.
fn part(name: &'static str, drift: &Drift, part: Part, advice: &str) -> Option<Check> {
    let (missing, extra) = (of_part(&drift.missing, part), of_part(&drift.extra, part));
    let found = format!("{} facts missing, {} too many", missing.len(), extra.len());
    let check = match (missing.is_empty(), extra.is_empty()) {
        (true, true) => return None,
        (true, false) => Check::warn(name, found),
        (false, _) => Check::fail(name, found),
    };
    Some(check.details(lines("missing: ", &missing)).details(lines("too many: ", &extra)).advice(advice))
}

/// The lines that are about one part.
pub(super) fn of_part(facts: &[Fact], part: Part) -> Vec<&str> {
    facts.iter().filter(|fact| fact.part == part).map(|fact| fact.line.as_str()).collect()
}

/// As many as people read, and of each as much.
pub(super) fn lines(before: &str, lines: &[&str]) -> Vec<String> {
    const MOST: usize = 5;
    const LONGEST: usize = 160;
    let mut told: Vec<String> = lines
        .iter()
        .take(MOST)
        .map(|line| match line.char_indices().nth(LONGEST) {
            Some((end, _)) => format!("{before}{}…", &line[..end]),
            None => format!("{before}{line}"),
        })
        .collect();
    if lines.len() > MOST {
        told.push(format!("{before}{} more", lines.len() - MOST));
    }
    told
}
