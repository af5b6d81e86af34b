//! Migrations: once each, by one at a time, by a login that is no superuser.

use jobforge_core::migrate::{self, FileState, MigrateError, Plan, Report};
use jobforge_core::{Error, NewJob, rpc};
use jobforge_testkit::{NOOP, OPERATOR, TENANT_A, TestDb};
use tokio_postgres::Client;

async fn migrated() -> TestDb {
    let db = TestDb::blank().await;
    migrate::up(&db.super_url()).await.unwrap();
    db
}

async fn count(client: &Client, sql: &str) -> i64 {
    client.query_one(sql, &[]).await.unwrap().get(0)
}

#[tokio::test]
async fn a_second_run_finds_nothing_to_do() {
    let db = TestDb::blank().await;
    let plan = migrate::plan(&db.super_url()).await.unwrap();
    let first = migrate::up(&db.super_url()).await.unwrap();
    assert_eq!(
        first.applied.iter().map(|applied| &applied.name).collect::<Vec<_>>(),
        plan.migrations.iter().collect::<Vec<_>>()
    );
    assert_eq!(first.functions_changed, plan.functions);
    assert!(first.applied[0].name == "0001_roles" && first.applied[0].version == 1);
    assert_eq!(migrate::up(&db.super_url()).await.unwrap(), Report::default());
    assert_eq!(migrate::plan(&db.super_url()).await.unwrap(), Plan::default());
}

#[tokio::test]
async fn a_fresh_schema_has_its_partitions_before_any_leader_comes() {
    let db = TestDb::blank().await;
    migrate::up(&db.super_url()).await.unwrap();
    let missing = "select count(*) from jobforge.wanted_partitions(jobforge.clock()) as w
        where to_regclass('jobforge.' || w.leaf) is null";
    let row = db.connect_super().await.query_one(missing, &[]).await.unwrap();
    assert_eq!(row.get::<_, i64>(0), 0);
}

#[tokio::test]
async fn a_plan_changes_nothing() {
    let db = TestDb::blank().await;
    let plan = migrate::plan(&db.super_url()).await.unwrap();
    assert!(!plan.is_empty() && plan.functions.contains(&"20_claim".to_owned()));
    let admin = db.connect_super().await;
    assert_eq!(count(&admin, "select count(*) from pg_namespace where nspname = 'jobforge'").await, 0);
}

#[tokio::test]
async fn two_migrators_at_once_do_the_work_once() {
    let db = TestDb::blank().await;
    let url = db.super_url();
    let (one, two) = tokio::join!(migrate::up(&url), migrate::up(&url));
    let (one, two) = (one.unwrap(), two.unwrap());
    let (worked, idle) = if one.applied.is_empty() { (two, one) } else { (one, two) };
    assert!(!worked.applied.is_empty());
    assert_eq!(idle, Report::default());
}

#[tokio::test]
async fn the_status_tells_what_is_applied_to_an_operator_too() {
    let db = TestDb::blank().await;
    let admin = db.connect_super().await;
    let before = migrate::status(&admin).await.unwrap();
    assert!(before.migrations.iter().all(|(_, state)| *state == FileState::Pending) && !before.is_current());
    let db = TestDb::new().await;
    let status = migrate::status(&db.as_operator().await).await.unwrap();
    assert!(status.is_current(), "{status:?}");
    assert!(migrate::status(&db.as_worker().await).await.is_err());
}

#[tokio::test]
async fn an_edited_migration_is_refused() {
    let db = migrated().await;
    let admin = db.connect_super().await;
    let edit = "update jobforge.schema_migrations set sha256 = 'other' where version = 2";
    admin.batch_execute(edit).await.unwrap();
    for refusal in [migrate::up(&db.super_url()).await.err(), migrate::plan(&db.super_url()).await.err()] {
        let Some(Error::Migration(MigrateError::Edited { name })) = refusal else { panic!("{refusal:?}") };
        assert_eq!(name, "0002_system");
    }
    let status = migrate::status(&admin).await.unwrap();
    assert_eq!(status.migrations[1], ("0002_system".to_owned(), FileState::Differs));
}

#[tokio::test]
async fn a_database_ahead_of_the_program_is_refused() {
    let db = migrated().await;
    let admin = db.connect_super().await;
    let ahead = "insert into jobforge.schema_migrations (version, name, sha256, took_ms) values (9999, '9999_x', '', 0)";
    admin.batch_execute(ahead).await.unwrap();
    let refusal = migrate::up(&db.super_url()).await.unwrap_err();
    assert!(matches!(refusal, Error::Migration(MigrateError::Newer { version: 9999, .. })), "{refusal:?}");
    let status = migrate::status(&admin).await.unwrap();
    assert_eq!((status.newer.as_slice(), status.is_current()), (["9999_x".to_owned()].as_slice(), false));
}

#[tokio::test]
async fn functions_whose_text_changed_are_applied_again() {
    let db = migrated().await;
    let admin = db.connect_super().await;
    let change = "update jobforge.schema_functions set sha256 = 'old' where name = '00_base';
        insert into jobforge.schema_functions (name, sha256) values ('99_gone', 'x');
        create or replace function jobforge.clock() returns timestamptz language sql volatile
        as $$ select '2000-01-01'::timestamptz $$";
    admin.batch_execute(change).await.unwrap();
    let report = migrate::up(&db.super_url()).await.unwrap();
    assert_eq!((report.applied.len(), report.functions_changed), (0, vec!["00_base".to_owned()]));
    assert_eq!(count(&admin, "select extract(year from jobforge.clock())::bigint").await / 1000, 2);
    assert!(count(&admin, "select extract(year from jobforge.clock())::bigint").await > 2000);
    assert_eq!(migrate::up(&db.super_url()).await.unwrap(), Report::default());
}

#[tokio::test]
async fn function_owners_cannot_make_anything_afterwards() {
    let db = migrated().await;
    let admin = db.connect_super().await;
    let may = "select count(*) from unnest('{jf_fn,jf_sys,jf_tenant,jf_worker,jf_operator}'::text[]) as r
               where has_schema_privilege(r, 'jobforge', 'create')";
    assert_eq!(count(&admin, may).await, 0);
    let unforced = "select count(*) from pg_class where relnamespace = 'jobforge'::regnamespace
                    and relkind in ('r', 'p') and not (relrowsecurity and relforcerowsecurity)";
    assert_eq!(count(&admin, unforced).await, 0);
}

#[tokio::test]
async fn the_printed_script_makes_the_same_schema() {
    let db = TestDb::blank().await;
    db.connect_super().await.batch_execute(&migrate::print()).await.unwrap();
    assert_eq!(migrate::up(&db.super_url()).await.unwrap(), Report::default());
    assert!(migrate::status(&db.connect_super().await).await.unwrap().is_current());
}

/// Who a managed Postgres lets migrate: a login that may make roles and owns the database, and nothing more.
struct Migrator {
    role: String,
    url: String,
}

impl Migrator {
    async fn of(db: &TestDb, admin: &Client) -> Migrator {
        let role = format!("migrator_{}", uuid::Uuid::new_v4().simple());
        let sql = format!(
            "create role {role} login createrole password 'x'; alter database {} owner to {role}",
            db.name()
        );
        admin.batch_execute(&sql).await.unwrap();
        let url = db.url_as(&role, Some("x"));
        Migrator { role, url }
    }

    /// Roles outlive a test's database.
    async fn leave(self, db: &TestDb, admin: &Client) {
        let (role, name) = (self.role, db.name());
        let give_back =
            format!("alter database {name} owner to postgres; drop owned by {role}; drop role {role}");
        admin.batch_execute(&give_back).await.unwrap();
    }
}

#[tokio::test]
async fn the_printed_script_is_for_a_login_with_createrole_too() {
    let db = TestDb::blank().await;
    let admin = db.connect_super().await;
    let migrator = Migrator::of(&db, &admin).await;
    db.connect(&migrator.url).await.batch_execute(&migrate::print()).await.unwrap();
    assert_eq!(migrate::up(&migrator.url).await.unwrap(), Report::default());
    assert!(migrate::status(&admin).await.unwrap().is_current());
    assert_eq!(migrate::drift(&admin).await.unwrap(), migrate::Drift::default());
    migrator.leave(&db, &admin).await;
}

#[tokio::test]
async fn a_login_with_createrole_that_owns_the_database_is_enough() {
    let db = TestDb::blank().await;
    let admin = db.connect_super().await;
    let migrator = Migrator::of(&db, &admin).await;
    let url = migrator.url.clone();
    assert!(!migrate::up(&url).await.unwrap().applied.is_empty());
    assert_eq!(migrate::up(&url).await.unwrap(), Report::default());
    let owned = "select count(*) from pg_class where relnamespace = 'jobforge'::regnamespace
                 and relowner <> 'jf_owner'::regrole";
    assert_eq!(count(&admin, owned).await, 0);

    // The logins of tests belong to the whole Postgres, and come with its first database of the usual kind.
    let _usual = TestDb::new().await;
    rpc::bind_login(&admin, OPERATOR, None).await.unwrap();
    let operator = db.as_operator().await;
    rpc::upsert_tenant(&operator, &jobforge_core::Tenant::named(TENANT_A, "A")).await.unwrap();
    rpc::upsert_definition(&operator, &jobforge_core::Definition::new(NOOP)).await.unwrap();
    let job = NewJob::new(NOOP, &()).unwrap();
    rpc::enqueue_job(&operator, TENANT_A, &job).await.unwrap();
    migrator.leave(&db, &admin).await;
}

#[tokio::test]
async fn a_lock_in_the_way_is_waited_for_in_short_turns() {
    let db = TestDb::blank().await;
    let other = db.session().await;
    other.begin().await;
    other.run("create schema jobforge").await;
    let url = db.super_url();
    let migrating = async {
        let report = migrate::up(&url).await;
        (report, tokio::time::Instant::now())
    };
    let releasing = async {
        // Past the first lock_timeout: the migration has to have come back for more.
        let admin = db.connect_super().await;
        let gave_up = "select count(*) from pg_stat_activity where datname = current_database()
                       and wait_event_type = 'Lock' and query like '%0001_roles%'";
        while count(&admin, gave_up).await == 0 {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        while count(&admin, gave_up).await > 0 {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        other.rollback().await;
    };
    let ((report, _), ()) = tokio::join!(migrating, releasing);
    assert!(!report.unwrap().applied.is_empty());
}

#[test]
fn the_schemas_hash_is_stable() {
    assert_eq!(migrate::schema_hash(), migrate::schema_hash());
    assert_eq!(migrate::schema_hash().len(), 64);
}

#[tokio::test]
async fn a_schema_that_was_changed_by_hand_is_told_apart_from_a_sound_one() {
    use jobforge_core::migrate::{Drift, Part, drift};
    let db = TestDb::new().await;
    let operator = db.as_operator().await;
    assert_eq!(drift(&operator).await.unwrap(), Drift::default(), "as it was installed");
    let admin = db.connect_super().await;
    let changes = "drop index jobforge.jobs_future;
        create index by_hand on jobforge.jobs (source);
        alter table jobforge.jobs add column by_hand text;
        alter table jobforge.tenants drop constraint tenants_weight_range;
        drop policy sys_all on jobforge.leases;
        grant select on jobforge.jobs to jf_worker;
        alter function jobforge.retry_job(uuid, uuid) reset search_path;
        create or replace function jobforge.canonical(p_value jsonb) returns text language plpgsql immutable
          as $$ begin return 'other'; end $$;
        update pg_index set indisvalid = false where indexrelid = 'jobforge.jobs_dead_letters'::regclass";
    admin.batch_execute(changes).await.unwrap();
    // Whatever the login's path is, names are told in full.
    operator.batch_execute("set search_path = jobforge, public").await.unwrap();
    let found = drift(&operator).await.unwrap();
    let told = |facts: &[jobforge_core::migrate::Fact], part: Part| -> Vec<String> {
        let lines = facts.iter().filter(|fact| fact.part == part).map(|fact| fact.line.clone());
        lines.map(|line| line.split_whitespace().take(7).collect::<Vec<_>>().join(" ")).collect()
    };
    assert_eq!(told(&found.missing, Part::Index), ["create index jobs_future ON jobforge.jobs USING btree"]);
    assert_eq!(told(&found.extra, Part::Index), ["create index by_hand ON jobforge.jobs USING btree"]);
    assert_eq!(told(&found.extra, Part::Table), ["alter table jobforge.jobs add column by_hand text;"]);
    let lost = "alter table jobforge.tenants add constraint tenants_weight_range";
    assert_eq!(
        told(&found.missing, Part::Table),
        [format!("{lost} CHECK").split(' ').take(7).collect::<Vec<_>>().join(" ")]
    );
    assert_eq!(told(&found.missing, Part::Security), ["create policy sys_all on jobforge.leases for all"]);
    assert_eq!(told(&found.extra, Part::Security), ["grant select on table jobforge.jobs to jf_worker;"]);
    assert_eq!(
        (told(&found.missing, Part::Function).len(), told(&found.extra, Part::Function).len()),
        (1, 1)
    );
    assert_eq!(found.functions, ["canonical"]);
    assert_eq!(found.invalid_indexes, ["jobs_dead_letters"]);
}

#[tokio::test]
async fn functions_changed_by_hand_are_mended_when_all_are_applied_again() {
    use jobforge_core::migrate::{Drift, drift};
    let db = TestDb::new().await;
    let admin = db.connect_super().await;
    let changes =
        "create or replace function jobforge.canonical(p_value jsonb) returns text language plpgsql immutable
          as $$ begin return 'other'; end $$;
        create function jobforge.retry_job(p_job_id uuid) returns void language sql as $$ select $$;
        alter function jobforge.cancel_job(uuid, uuid, text) reset search_path;
        grant execute on function jobforge.reap(bigint, integer) to jf_tenant";
    admin.batch_execute(changes).await.unwrap();
    assert!(
        migrate::up(&db.super_url()).await.unwrap().functions_changed.is_empty(),
        "the records know nothing"
    );
    let report = migrate::reapply(&db.super_url()).await.unwrap();
    assert!(report.applied.is_empty() && report.functions_changed.len() > 10);
    let left = drift(&admin).await.unwrap();
    let lines: Vec<&str> = left.extra.iter().map(|fact| fact.line.as_str()).collect();
    assert_eq!(lines, ["grant execute on function jobforge.reap(bigint, integer) to jf_tenant;"]);
    admin
        .batch_execute("revoke execute on function jobforge.reap(bigint, integer) from jf_tenant")
        .await
        .unwrap();
    assert_eq!(drift(&admin).await.unwrap(), Drift::default());
}
