//! The probes must be able to fail: each fault that is put into the SQL here, and each policy that is dropped, has to
//! turn probes red. A probe that stays green whatever happens proves nothing.

mod faults;
mod logins;

use jobforge_testkit::TestDb;

use crate::isolation::{GROUPS, Probe, Site, red};
use crate::schema::{migrated, mutated};
use faults::Mutant;

fn probe(name: &str) -> &'static Probe {
    let all = GROUPS.iter().flat_map(|(_, probes)| probes.iter());
    all.into_iter().find(|probe| probe.name == name).unwrap_or_else(|| panic!("there is no probe {name}"))
}

/// Every probe that is said to see the fault must see it, so that none of them hides behind another.
async fn assert_caught(name: &str, db: TestDb, caught_by: &[&str]) {
    let site = Site::of(db).await;
    assert!(!caught_by.is_empty(), "{name}: nothing is said to see it");
    for by in caught_by {
        match (probe(by).run)(&site).await {
            Ok(()) => panic!("{name}: {by} is green"),
            Err(why) => println!("{name}: {by}: {why}"),
        }
    }
}

async fn assert_all_caught(mutants: &[Mutant]) {
    for mutant in mutants {
        let db = mutated(|file, text| {
            if file != mutant.file {
                return text;
            }
            assert!(text.contains(mutant.from), "{}: {file} has no longer {:?}", mutant.name, mutant.from);
            text.replace(mutant.from, mutant.to)
        });
        assert_caught(mutant.name, db.await, mutant.caught_by).await;
    }
}

#[tokio::test]
async fn faulty_policies_are_caught() {
    assert_all_caught(faults::POLICIES).await;
}

#[tokio::test]
async fn faulty_look_ups_are_caught() {
    assert_all_caught(faults::LOOKUPS).await;
}

#[tokio::test]
async fn faulty_fences_are_caught() {
    assert_all_caught(faults::FENCES).await;
}

#[tokio::test]
async fn faulty_bindings_are_caught() {
    assert_all_caught(logins::LOGINS).await;
}

#[tokio::test]
async fn faulty_gates_are_caught() {
    assert_all_caught(faults::GATES).await;
}

#[tokio::test]
async fn faulty_connectors_are_caught() {
    assert_all_caught(faults::CONNECTORS).await;
}

#[tokio::test]
async fn faulty_identities_are_caught() {
    assert_all_caught(faults::IDENTITY).await;
}

#[tokio::test]
async fn faulty_keys_and_rights_are_caught() {
    assert_all_caught(faults::RIGHTS).await;
}

/// What such an owner's functions see; and that the catalogue tells of the owner.
const UNBOUND_OWNER: &[&str] = &[
    "function_owners_are_ours_and_bound_by_policies",
    "it_sees_nothing_without_a_tenant",
    "it_sees_and_changes_one_tenant",
    "it_writes_for_one_tenant",
    "it_sees_nothing_for_a_login_of_another_tenant",
];

/// The functions go to another owner in this database: the roles themselves are everybody's, and stay as they are.
#[tokio::test]
async fn an_owner_whom_no_policy_binds_is_caught() {
    let superuser = mutated(|_, text| text.replace("-- owner: jf_fn", "-- applied by the superuser"));
    assert_caught("a superuser owns the tenants' functions", superuser.await, UNBOUND_OWNER).await;
    let bypassing = mutated(|file, text| match file {
        "0001_roles.sql" => text + MAKE_BYPASSING_OWNER,
        _ => text.replace("-- owner: jf_fn", "-- owner: jf_test_bypass"),
    });
    assert_caught("their owner bypasses row-level security", bypassing.await, UNBOUND_OWNER).await;
}

const MAKE_BYPASSING_OWNER: &str = "
    do $$ begin
      if not exists (select from pg_roles where rolname = 'jf_test_bypass') then
        create role jf_test_bypass nologin bypassrls;
        grant jf_fn to jf_test_bypass;
      end if;
    end $$;
    grant usage, create on schema jobforge to jf_test_bypass;
    alter default privileges for role jf_test_bypass revoke execute on functions from public;";

/// Drops each policy of these names in a database of its own. The groups are tried in this order, until one is red.
async fn assert_each_is_missed(names: &[&str], first: &[&str]) {
    assert_part_is_missed(names, first, |_| true).await;
}

/// The same of some of the tables.
async fn assert_part_is_missed(names: &[&str], first: &[&str], of: impl Fn(&str) -> bool) {
    let db = migrated().await;
    let sql = "select polname::text, polrelid::regclass::text from pg_policy where polname::text = any ($1) order by 1, 2";
    let policies = db.connect_super().await.query(sql, &[&names]).await.expect("list the policies");
    assert!(!policies.is_empty(), "there is no policy {names:?}");
    for row in policies {
        let (policy, table): (String, String) = (row.get(0), row.get(1));
        if !of(&table) {
            continue;
        }
        let site = Site::of(without(&policy, &table).await).await;
        let found = first_red(&site, first).await;
        assert!(found.is_some(), "nothing misses the policy {policy} of {table}");
        println!("without {policy} of {table}: {}", found.unwrap_or_default());
    }
}

async fn without(policy: &str, table: &str) -> TestDb {
    let db = migrated().await;
    let sql = format!("drop policy {policy} on {table}");
    db.connect_super().await.batch_execute(&sql).await.expect("drop a policy");
    db
}

/// What the first red probe found. That the catalogue lacks a policy is not asked: somebody must miss it.
async fn first_red(site: &Site, first: &[&str]) -> Option<String> {
    let (mut order, rest): (Vec<_>, Vec<_>) = GROUPS.iter().partition(|(name, _)| first.contains(name));
    order.extend(rest.into_iter().filter(|(name, _)| *name != "catalogue"));
    for probe in order.into_iter().flat_map(|(_, probes)| probes.chunks(1)) {
        if let Some(found) = red(site, probe).await.pop() {
            return Some(found);
        }
    }
    None
}

const PEOPLE: &[&str] = &["tenant_rows", "tenant_reads"];
const SYSTEM: &[&str] = &["sys_all"];
const OTHERS: &[&str] = &["login_bound", "fn_read", "own_login"];
const SOUND: &[&str] = &["sound", "sound_new"];

#[tokio::test]
async fn tenants_rows_policies_are_missed() {
    assert_each_is_missed(&PEOPLE[..1], &["forgetful function", "tenant setting"]).await;
}

#[tokio::test]
async fn tenants_reads_policies_are_missed() {
    assert_each_is_missed(&PEOPLE[1..], &["forgetful function", "tenant setting"]).await;
}

/// They are many: two halves run side by side.
const SYSTEM_FIRST: &[&str] = &["service", "service of upkeep", "connectors", "explanations", "identity"];
const MIDDLE: &str = "jobforge.job";

#[tokio::test]
async fn system_policies_are_missed_of_the_first_tables() {
    assert_part_is_missed(SYSTEM, SYSTEM_FIRST, |table| table < MIDDLE).await;
}

#[tokio::test]
async fn system_policies_are_missed_of_the_other_tables() {
    assert_part_is_missed(SYSTEM, SYSTEM_FIRST, |table| table >= MIDDLE).await;
}

#[tokio::test]
async fn bindings_and_readers_policies_are_missed() {
    assert_each_is_missed(OTHERS, &["forgetful function", "service", "explanations"]).await;
}

#[tokio::test]
async fn soundness_is_missed() {
    assert_each_is_missed(SOUND, &["soundness"]).await;
}

#[tokio::test]
async fn no_policy_is_left_out() {
    let db = migrated().await;
    let sql = "select distinct polname::text from pg_policy where polname::text <> all ($1)";
    let dropped = [PEOPLE, SYSTEM, OTHERS, SOUND].concat();
    let left = db.connect_super().await.query(sql, &[&dropped]).await.expect("list the policies");
    let left: Vec<String> = left.iter().map(|row| row.get(0)).collect();
    assert!(left.is_empty(), "policies that no test drops: {left:?}");
}
