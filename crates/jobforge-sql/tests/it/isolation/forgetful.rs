//! A function that forgets its WHERE: made in the test's database, owned by the role that owns the tenants' functions.
//! Row-level security, not the care of who writes a function, keeps it to one tenant.

use tokio_postgres::Client;
use uuid::Uuid;

use super::rows::{STORED, TENANT_TABLES, store_rows};
use super::verdict::{DENIED, Verdict, refused, same, works};
use super::{Site, probes};
use crate::schema::calls::act_for;
use crate::schema::{APP, NOOP, TENANT_A, TENANT_B, connect_as};

probes![
    it_sees_nothing_without_a_tenant,
    it_sees_and_changes_one_tenant,
    it_writes_for_one_tenant,
    it_sees_nothing_for_a_login_of_another_tenant,
];

/// Runs any statement as the owner of the tenants' functions and tells how many rows it met.
const MAKE: &str = "
    create or replace function jobforge.forgetful(p_sql text) returns bigint
    language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
    as $$ declare v_rows bigint; begin execute p_sql; get diagnostics v_rows = row_count; return v_rows; end $$;
    do $$ begin
      execute (select format('alter function jobforge.forgetful(text) owner to %I', r.rolname)
        from pg_proc p join pg_roles r on r.oid = p.proowner where p.proname = 'enqueue_jobs');
    end $$;
    revoke all on function jobforge.forgetful(text) from public;
    grant execute on function jobforge.forgetful(text) to jf_tenant, jf_operator;";

/// With the function in place for as long as the probe lasts: to the other probes it would be a fault.
async fn forgetfully(site: &Site, probe: impl Future<Output = Verdict>) -> Verdict {
    store_rows(site).await?;
    works("make the forgetful function", site.admin.batch_execute(MAKE).await)?;
    let found = probe.await;
    works("drop it", site.admin.batch_execute("drop function jobforge.forgetful(text)").await)?;
    found
}

async fn rows(client: &Client, sql: &str) -> Result<i64, tokio_postgres::Error> {
    client.query_one("select jobforge.forgetful($1)", &[&sql]).await.map(|row| row.get(0))
}

async fn count(client: &Client, table: &str, only: &str) -> Result<i64, String> {
    works(table, rows(client, &format!("select from jobforge.{table} where {only}")).await)
}

async fn it_sees_nothing_without_a_tenant(site: &Site) -> Verdict {
    forgetfully(site, async {
        let fresh = connect_as(&site.db, APP).await;
        for setting in [None, Some("")] {
            if let Some(text) = setting {
                works("set", fresh.execute("select set_config('app.tenant_id', $1, false)", &[&text]).await)?;
            }
            for table in TENANT_TABLES {
                same(table, count(&fresh, table, "true").await?, 0)?;
            }
        }
        Ok(())
    })
    .await
}

async fn it_sees_and_changes_one_tenant(site: &Site) -> Verdict {
    forgetfully(site, async {
        works("act", act_for(&site.app, TENANT_A).await)?;
        for table in TENANT_TABLES {
            let foreign = format!("tenant_id <> '{TENANT_A}'");
            same(table, count(&site.app, table, &foreign).await?, 0)?;
            if count(&site.app, table, "true").await? == 0 {
                return Err(format!("{table}: a tenant's function does not see the tenant's rows"));
            }
            for sql in [
                format!("update jobforge.{table} set tenant_id = tenant_id where {foreign}"),
                format!("delete from jobforge.{table} where {foreign}"),
            ] {
                same(&sql, works(&sql, rows(&site.app, &sql).await)?, 0)?;
            }
        }
        Ok(())
    })
    .await
}

/// A row for another tenant, written in each table as a copy of the tenant's own.
async fn it_writes_for_one_tenant(site: &Site) -> Verdict {
    forgetfully(site, async {
        works("act", act_for(&site.app, TENANT_A).await)?;
        for table in TENANT_TABLES {
            let sql = format!("update jobforge.{table} set tenant_id = '{TENANT_B}'");
            refused(&sql, rows(&site.app, &sql).await, &[DENIED])?;
        }
        let key = |tenant: Uuid| {
            format!(
                "insert into jobforge.idempotency_keys (tenant_id, type, key, job_id, payload_hash, created_at)
                 values ('{tenant}', 'x', '{}', '{STORED}', '', now())",
                Uuid::new_v4()
            )
        };
        refused("insert for another", rows(&site.app, &key(TENANT_B)).await, &[DENIED])?;
        works("insert for its own", rows(&site.app, &key(TENANT_A)).await).map(drop)
    })
    .await
}

async fn it_sees_nothing_for_a_login_of_another_tenant(site: &Site) -> Verdict {
    forgetfully(site, async {
        works("act", act_for(&site.only_a, TENANT_B).await)?;
        for table in TENANT_TABLES {
            same(table, count(&site.only_a, table, "true").await?, 0)?;
        }
        let sql = format!(
            "insert into jobforge.audit_log (tenant_id, at, actor, action) values ('{TENANT_B}', now(), 'x', 'x')"
        );
        refused(&sql, rows(&site.only_a, &sql).await, &[DENIED])?;
        let sql = format!(
            "insert into jobforge.jobs (tenant_id, id, run_at, created_at, max_attempts, priority, ready, status, retention,
               queue, type, payload, source)
             values ('{TENANT_B}', gen_random_uuid(), now(), now(), 3, 100, true, 'queued', 'week', 'x', '{NOOP}', '{{}}',
               'manual')"
        );
        refused(&sql, rows(&site.only_a, &sql).await, &[DENIED])
    })
    .await
}
