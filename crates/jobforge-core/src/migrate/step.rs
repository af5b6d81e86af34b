//! The text of each step, a transaction of its own. What runs and what is printed is the same text.

use std::fmt::Write;

use super::files::{File, Source};

/// A transaction that stays open for the whole run; nothing may end it for being idle.
pub(super) const HOLD_LOCK: &str = "begin;
    set local lock_timeout = 0;
    set local statement_timeout = 0;
    set local idle_in_transaction_session_timeout = 0;
    do $$ begin perform pg_advisory_xact_lock(hashtextextended('jobforge migrate', 0)); end $$";

/// Names resolve to the catalog alone, whatever the login's search path; nothing waits long for a lock.
const BEGIN: &str = "begin;
set local client_min_messages = warning;
set local search_path = pg_catalog;
set local statement_timeout = 0;
set local lock_timeout = '2s';
set local check_function_bodies = off;
";

/// Where migrations and functions are recorded: made with the schema itself.
const RECORDS: &str = "set local role jf_owner;
create table jobforge.schema_migrations (
  version    integer     not null,
  name       text        not null,
  sha256     text        not null,
  applied_at timestamptz not null default clock_timestamp(),
  took_ms    integer     not null,
  constraint schema_migrations_pk primary key (version)
);
create table jobforge.schema_functions (
  name       text        not null,
  sha256     text        not null,
  applied_at timestamptz not null default clock_timestamp(),
  constraint schema_functions_pk primary key (name)
);
alter table jobforge.schema_migrations enable row level security, force row level security;
alter table jobforge.schema_functions enable row level security, force row level security;
create policy owner_all on jobforge.schema_migrations for all to jf_owner using (true) with check (true);
create policy owner_all on jobforge.schema_functions for all to jf_owner using (true) with check (true);
create policy all_read on jobforge.schema_migrations for select to jf_operator, jf_sys using (true);
create policy all_read on jobforge.schema_functions for select to jf_operator, jf_sys using (true);
grant select on jobforge.schema_migrations, jobforge.schema_functions to jf_operator, jf_sys;
reset role;
";

/// One migration and its record.
pub(super) fn migration(file: &File) -> String {
    let mut sql = format!("-- {}\n{BEGIN}", file.name);
    push_as(&mut sql, file.owner, file.sql);
    if file.version == 1 {
        sql.push_str(RECORDS);
    }
    let (version, name, sha256) = (file.version, file.name, &file.sha256);
    let record = format!(
        "insert into jobforge.schema_migrations (version, name, sha256, took_ms) values ({version}, '{name}',
  '{sha256}', extract(epoch from clock_timestamp() - transaction_timestamp()) * 1000);\n"
    );
    push_as(&mut sql, Some("jf_owner"), &record);
    sql.push_str("commit;\n\n");
    sql
}

/// The changed files of functions and their records. Only meanwhile may the functions' owners make
/// anything in the schema.
pub(super) fn functions(changed: &[File], source: &Source) -> String {
    let mut sql = format!("-- functions\n{BEGIN}");
    push_as(&mut sql, Some("jf_owner"), "grant create on schema jobforge to jf_fn, jf_sys;\n");
    for file in changed {
        push_as(&mut sql, file.owner, file.sql);
    }
    let mut records = String::from("revoke create on schema jobforge from jf_fn, jf_sys;\n");
    for file in changed {
        let _ = write!(
            records,
            "insert into jobforge.schema_functions (name, sha256) values ('{}', '{}')
  on conflict (name) do update set sha256 = excluded.sha256, applied_at = excluded.applied_at;\n",
            file.name, file.sha256
        );
    }
    let names = quoted(source.functions.iter().map(|file| file.name));
    let _ = writeln!(records, "delete from jobforge.schema_functions where name not in ({names});");
    // A worker may finish jobs before any leader makes partitions: they would lie in the default ones.
    records.push_str("select jobforge.make_partitions(1000);\n");
    push_as(&mut sql, Some("jf_owner"), &records);
    sql.push_str(&drop_superseded(source));
    sql.push_str("commit;\n");
    sql
}

/// A function has one signature, the one that this transaction wrote: another goes, as do functions that no file
/// makes any more.
fn drop_superseded(source: &Source) -> String {
    let made = source
        .functions
        .iter()
        .flat_map(|file| file.sql.lines())
        .filter_map(|line| line.strip_prefix("create or replace function jobforge.")?.split('(').next());
    format!(
        "do $$
declare
  v_old regprocedure;
begin
  for v_old in
    select p.oid::regprocedure from pg_proc p
    where p.pronamespace = 'jobforge'::regnamespace and (p.proname not in ({})
      or (p.xmin <> pg_current_xact_id()::xid and exists (
        select from pg_proc n where n.pronamespace = p.pronamespace and n.proname = p.proname
          and n.oid <> p.oid and n.xmin = pg_current_xact_id()::xid)))
  loop
    execute format('drop function %s', v_old);
  end loop;
end
$$;
",
        quoted(made)
    )
}

fn quoted<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.map(|name| format!("'{name}'")).collect::<Vec<_>>().join(", ")
}

fn push_as(sql: &mut String, owner: Option<&str>, text: &str) {
    if let Some(owner) = owner {
        let _ = writeln!(sql, "set local role {owner};");
    }
    sql.push_str(text);
    if !text.ends_with('\n') {
        sql.push('\n');
    }
    sql.push_str("reset role;\n");
}
