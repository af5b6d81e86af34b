//! Tables, roles and schemas without a function between: no login writes, reads what it should not, or makes anything.

use tokio_postgres::Client;

use super::rows::{READABLE, store_rows};
use super::verdict::{DENIED, Verdict, none, refused, same, works};
use super::{Site, probes};
use crate::schema::calls::act_for;
use crate::schema::{APP, ONLY_A, ONLY_B, OPERATOR, TENANT_A};

probes![
    no_login_writes_to_any_table,
    logins_read_what_is_listed_and_no_more,
    payloads_and_results_are_not_readable,
    sequences_are_closed,
    no_login_becomes_an_owner,
    no_login_makes_anything,
    no_login_changes_the_clock_or_a_policy,
];

/// Every table of the schema, partitions too, with every way to write, tried by the server itself as this login.
const TRY_ALL_WRITES: &str = "do $$
    declare
      v_table record;
      v_sql text;
      v_open text[] := '{}';
    begin
      for v_table in
        select c.oid::regclass as name, quote_ident(a.attname) as some
        from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum = 2
        where c.relnamespace = (select n.oid from pg_namespace n where n.nspname = 'jobforge') and c.relkind in ('r', 'p', 'v')
      loop
        foreach v_sql in array array[
          format('insert into %s default values', v_table.name),
          format('update %s set %s = null', v_table.name, v_table.some),
          format('update %s set %s = null where false', v_table.name, v_table.some),
          format('delete from %s', v_table.name),
          format('truncate %s', v_table.name),
          format('lock table %s in access exclusive mode', v_table.name)]
        loop
          begin
            execute v_sql;
            v_open := v_open || v_sql;
          exception
            when insufficient_privilege then null;
            when others then v_open := v_open || (v_sql || ': ' || sqlerrm);
          end;
        end loop;
      end loop;
      if cardinality(v_open) > 0 then
        raise exception '% statements went through, such as %', cardinality(v_open), v_open[1];
      end if;
    end $$";

async fn no_login_writes_to_any_table(site: &Site) -> Verdict {
    for (login, client) in site.logins() {
        works(login, client.batch_execute(TRY_ALL_WRITES).await)?;
    }
    Ok(())
}

/// The tables of which a login may read at least one column.
async fn readable(client: &Client) -> Result<Vec<String>, String> {
    let sql = "select c.relname::text from pg_class c join pg_namespace n on n.oid = c.relnamespace
        where n.nspname = 'jobforge' and c.relkind in ('r', 'p', 'v', 'm')
          and has_schema_privilege(n.oid, 'usage') and has_any_column_privilege(c.oid, 'select') order by 1";
    let rows = works("list what is readable", client.query(sql, &[]).await)?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
}

async fn logins_read_what_is_listed_and_no_more(site: &Site) -> Verdict {
    for (login, client) in site.logins() {
        let mut wanted: Vec<&str> = match login {
            APP | ONLY_A | ONLY_B => [READABLE.as_slice(), &["logins"]].concat(),
            OPERATOR => [READABLE.as_slice(), &["logins", "audit_log"]].concat(),
            _ => vec![],
        };
        wanted.sort_unstable();
        same(login, readable(client).await?, wanted.iter().map(|name| (*name).to_owned()).collect())?;
        for hidden in
            ["tenants", "leases", "idempotency_keys", "job_history_week_default", "workers", "api_keys"]
        {
            let sql = format!("select count(*) from jobforge.{hidden}");
            refused(&format!("{login}: {sql}"), client.query(&sql, &[]).await, &[DENIED])?;
        }
    }
    Ok(())
}

/// Neither by name nor by way of the whole row, a filter, or what a write would return.
async fn payloads_and_results_are_not_readable(site: &Site) -> Verdict {
    store_rows(site).await?;
    for client in [&site.app, &site.only_a, &site.operator] {
        works("act", act_for(client, TENANT_A).await)?;
        for sql in [
            "select payload from jobforge.jobs",
            "select * from jobforge.jobs",
            "select j from jobforge.jobs j",
            "select to_jsonb(j) from jobforge.jobs j",
            "select id from jobforge.jobs where payload is not null",
            "select id from jobforge.jobs order by payload",
            "select lease_id from jobforge.jobs",
            "select payload from jobforge.job_history",
            "select result from jobforge.job_history",
            "select h from jobforge.job_history h",
            "select id from jobforge.job_history where result is not null",
            "select patch from jobforge.bulk_operations",
            "select o from jobforge.bulk_operations o",
            "select before from jobforge.bulk_results",
            "select job_id from jobforge.bulk_results where before is not null",
            "update jobforge.jobs set error = null returning payload",
            "copy jobforge.jobs to stdout",
        ] {
            refused(sql, client.simple_query(sql).await, &[DENIED])?;
        }
        works(
            "the other columns",
            client.query("select id, status, type, error from jobforge.jobs", &[]).await,
        )?;
    }
    Ok(())
}

async fn sequences_are_closed(site: &Site) -> Verdict {
    for (login, client) in site.logins() {
        for sql in ["select nextval('jobforge.claim_numbers')", "select setval('jobforge.claim_numbers', 1)"]
        {
            refused(&format!("{login}: {sql}"), client.query(sql, &[]).await, &[DENIED])?;
        }
    }
    Ok(())
}

async fn no_login_becomes_an_owner(site: &Site) -> Verdict {
    for (login, client) in site.logins() {
        for sql in [
            "set role jf_owner",
            "set role jf_fn",
            "set role jf_sys",
            "set role postgres",
            "set session authorization jf_sys",
            "set session authorization postgres",
        ] {
            let call = client.batch_execute(sql).await;
            let _ = client.batch_execute("reset role; reset session authorization").await;
            refused(&format!("{login}: {sql}"), call, &[DENIED])?;
        }
    }
    Ok(())
}

async fn no_login_makes_anything(site: &Site) -> Verdict {
    for (login, client) in site.logins() {
        for sql in [
            "create temp table jobs (x int)",
            "create table jobforge.extra (x int)",
            "create table public.extra (x int)",
            "create function jobforge.clock(text) returns text language sql as 'select $1'",
            "create schema extra",
            "create view jobforge.peek as select 1",
        ] {
            refused(&format!("{login}: {sql}"), client.batch_execute(sql).await, &[DENIED])?;
        }
    }
    Ok(())
}

async fn no_login_changes_the_clock_or_a_policy(site: &Site) -> Verdict {
    let mut faults = Vec::new();
    for (login, client) in site.logins() {
        for sql in [
            "create or replace function jobforge.clock() returns timestamptz language sql as 'select now()'",
            "alter table jobforge.jobs disable row level security",
            "alter table jobforge.jobs no force row level security",
            "drop policy tenant_rows on jobforge.jobs",
            "create policy open on jobforge.jobs using (true)",
            "alter function jobforge.clock() owner to current_user",
            "alter role jf_fn bypassrls",
            "grant jf_sys to current_user",
            "grant select on jobforge.jobs to public",
            "comment on table jobforge.jobs is 'mine'",
        ] {
            if let Err(why) = refused(sql, client.batch_execute(sql).await, &[DENIED]) {
                faults.push(format!("{login}: {why}"));
            }
        }
    }
    none("changes that went through", &faults)
}
