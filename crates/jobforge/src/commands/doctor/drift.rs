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
    let Some(check) = part(NAME, drift, Part::Security, ADVICE) else {
        return Check::ok(NAME, "policies and grants as installed");
    };
    let opening: Vec<&str> =
        of_part(&drift.extra, Part::Security).into_iter().filter(|line| opens(line)).collect();
    if opening.is_empty() {
        return check;
    }
    let (missing, extra) = (of_part(&drift.missing, Part::Security), of_part(&drift.extra, Part::Security));
    let closed: Vec<&str> = extra.into_iter().filter(|line| !opens(line)).collect();
    let found = format!("{} facts missing, {} open what is installed closed", missing.len(), opening.len());
    Check::fail(NAME, found)
        .details(lines("opens: ", &opening))
        .details(lines("missing: ", &missing))
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
