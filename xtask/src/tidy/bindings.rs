//! What a client may call is bound and tested: every function granted to a client role has its typed call in
//! the core crate and is named by a test.

use std::collections::BTreeMap;

use super::{Violation, is_test_file};
use crate::source::{Tree, has_word, sql};

const RULE: &str = "binding";
const RPC_DIR: &str = "crates/jobforge-core/src/rpc/";

/// The roles that logins are members of; a grant among the function owners is nobody's interface.
const CLIENT_ROLES: [&str; 4] = ["jf_tenant", "jf_worker", "jf_operator", "public"];

/// Functions that are granted to clients and yet have no typed call, each with its reason.
const WITHOUT_CALL: &[(&str, &str)] =
    &[("pre_request", "PostgREST calls it before each request; other hosts name the tenant themselves")];

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    check_with(tree, WITHOUT_CALL)
}

fn check_with(tree: &Tree, without_call: &[(&str, &str)]) -> Vec<Violation> {
    let granted = granted_functions(tree);
    let calls: Vec<&str> = tree.under(RPC_DIR).map(|(_, text)| text).collect();
    let tests: Vec<&str> = tree.iter().filter(|(path, _)| is_test_file(path)).map(|(_, text)| text).collect();
    let mut found = Vec::new();
    for (name, (path, line)) in &granted {
        let mut complain = |message: String| found.push(Violation::at(RULE, (path, *line), message));
        let exempt = without_call.iter().any(|(exempt, _)| exempt == name);
        if !exempt && is_missing(name, &calls) {
            complain(format!("{name} is granted to clients but no file in {RPC_DIR} names it"));
        }
        if is_missing(name, &tests) {
            complain(format!("{name} is granted to clients but no test names it"));
        }
    }
    // With no grants at all there is nothing yet that the table could be out of date with.
    let stale = without_call.iter().filter(|(name, _)| !granted.is_empty() && !granted.contains_key(*name));
    found.extend(stale.map(|(name, reason)| {
        Violation::in_file(
            RULE,
            file!(),
            format!("exemption of {name} ({reason}) is stale: it is not granted"),
        )
    }));
    found
}

/// Names with the place of their first grant to a client.
fn granted_functions(tree: &Tree) -> BTreeMap<String, (String, usize)> {
    let mut granted = BTreeMap::new();
    for (path, text) in
        tree.under("sql/").filter(|(path, _)| path.ends_with(".sql") && !path.contains("snapshot"))
    {
        for statement in sql::statements(text) {
            let Some((functions, roles)) = statement.grants_execute() else { continue };
            if roles.iter().any(|role| CLIENT_ROLES.contains(role)) {
                for name in functions {
                    granted.entry(name.to_owned()).or_insert_with(|| (path.to_owned(), statement.line));
                }
            }
        }
    }
    granted
}

fn is_missing(name: &str, texts: &[&str]) -> bool {
    !texts.is_empty() && !texts.iter().any(|text| has_word(text, name))
}

#[cfg(test)]
mod tests {
    use super::super::complaints;
    use super::*;

    const GRANT: (&str, &str) =
        ("sql/functions/99_grants.sql", "grant execute on function jobforge.reap(int) to jf_worker;");
    const CALL: (&str, &str) =
        ("crates/jobforge-core/src/rpc/reap.rs", "\"select * from jobforge.reap($1)\"");
    const OTHER_CALL: (&str, &str) = ("crates/jobforge-core/src/rpc/claim.rs", "\"jobforge.claim_jobs\"");
    const TEST: (&str, &str) = ("crates/jobforge-core/tests/reap.rs", "rpc.reap(1)");
    const OTHER_TEST: (&str, &str) = ("crates/jobforge-core/tests/claim.rs", "reaper()");

    fn without_exemptions(tree: &Tree) -> Vec<Violation> {
        check_with(tree, &[])
    }

    #[test]
    fn a_bound_and_tested_function_passes() {
        assert!(complaints(without_exemptions, &[GRANT, CALL, TEST]).is_empty());
    }

    #[test]
    fn a_function_without_call_fails_unless_exempt() {
        let files = [GRANT, OTHER_CALL, TEST];
        assert!(
            complaints(without_exemptions, &files)[0].contains("reap is granted to clients but no file in")
        );
        assert!(check_with(&Tree::of(&files), &[("reap", "called by cron only")]).is_empty());
    }

    #[test]
    fn a_function_without_test_fails() {
        assert!(complaints(without_exemptions, &[GRANT, CALL, OTHER_TEST])[0].contains("no test names it"));
    }

    #[test]
    fn a_stale_exemption_fails() {
        assert_eq!(check_with(&Tree::of(&[GRANT, CALL, TEST]), &[("gone", "why")]).len(), 1);
    }

    #[test]
    fn a_grant_among_owners_binds_nothing() {
        let grant =
            ("sql/functions/99_grants.sql", "grant execute on function jobforge.settle(int) to jf_sys;");
        assert!(complaints(without_exemptions, &[grant, OTHER_CALL, OTHER_TEST]).is_empty());
    }
}
