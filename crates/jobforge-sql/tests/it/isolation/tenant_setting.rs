//! The tenant of a transaction: unset, empty, malformed or foreign, it opens nothing; and a login bound to one tenant
//! stays there whatever it sets.

use tokio_postgres::Client;
use uuid::Uuid;

use super::rows::{READABLE, STORED, store_rows};
use super::verdict::{Verdict, refused, same, works};
use super::{Site, probes};
use crate::schema::calls::{act_for, enqueue_with};
use crate::schema::{APP, NOOP, ONLY_A, ONLY_B, OPERATOR, TENANT_A, TENANT_B, connect_as};

probes![
    functions_refuse_an_unset_tenant,
    functions_refuse_an_empty_tenant,
    functions_refuse_a_malformed_tenant,
    functions_refuse_a_foreign_tenant,
    functions_refuse_no_tenant,
    functions_refuse_an_unknown_tenant,
    reads_see_nothing_without_a_tenant,
    reads_see_nothing_after_a_local_setting_ended,
    reads_fail_on_a_malformed_tenant,
    reads_see_one_tenant,
    a_bound_login_reads_only_its_tenant,
    a_bound_login_acts_only_for_its_tenant,
    a_bound_operator_audits_only_its_tenant,
    an_unregistered_login_gets_nothing,
    a_login_sees_only_its_own_binding,
    the_same_keys_in_two_tenants_make_two_jobs,
];

/// Why a function refuses: our reason, or the cast of the setting itself.
const MISMATCH: &[&str] = &["JF009 tenant_mismatch"];
const MALFORMED: &[&str] = &["JF009 tenant_mismatch", "22P02"];

/// A call of every function that acts for a tenant, for this one and for a job that it has.
async fn tenant_calls(site: &Site, tenant: Option<Uuid>) -> Result<Vec<(String, String)>, String> {
    let sql = "select p.proname::text, format('select * from jobforge.%I(%s)', p.proname, (
          select string_agg(case
              when a.o = 1 then coalesce(quote_literal($1::text), 'null') || '::uuid'
              when a.type = 'uuid'::regtype then quote_literal($2::text) || '::uuid'
              when a.type = 'text'::regtype then '''test.noop'''
              when a.type = 'text[]'::regtype then 'array[''test.noop'']'
              when a.type = 'jsonb[]'::regtype then 'array[''{}''::jsonb]'
              else 'null::' || a.type::regtype end, ', ' order by a.o)
          from unnest(p.proargtypes) with ordinality as a(type, o) where a.o <= p.pronargs - p.pronargdefaults))
        from pg_proc p
        where p.pronamespace = 'jobforge'::regnamespace and p.prosecdef and p.proargnames[1] = 'p_tenant_id'
          and has_function_privilege('jf_tenant', p.oid, 'execute')";
    let tenant = tenant.map(|id| id.to_string());
    let rows = works("list the tenant's functions", site.admin.query(sql, &[&tenant, &STORED]).await)?;
    let calls: Vec<(String, String)> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
    if calls.len() < 8 { Err(format!("too few functions act for a tenant: {calls:?}")) } else { Ok(calls) }
}

async fn all_refused(site: &Site, client: &Client, tenant: Option<Uuid>, wanted: &[&str]) -> Verdict {
    store_rows(site).await?;
    for (name, call) in tenant_calls(site, tenant).await? {
        refused(&name, client.query(&call, &[]).await, wanted)?;
    }
    Ok(())
}

/// Sets the tenant to any text, for the connection.
async fn set(client: &Client, value: &str) -> Verdict {
    works(
        "set the tenant",
        client.execute("select set_config('app.tenant_id', $1, false)", &[&value]).await,
    )?;
    Ok(())
}

async fn functions_refuse_an_unset_tenant(site: &Site) -> Verdict {
    for login in [APP, ONLY_A, OPERATOR] {
        // Only a connection that never had a tenant has none: afterwards it is empty.
        all_refused(site, &connect_as(&site.db, login).await, Some(TENANT_A), MISMATCH).await?;
    }
    Ok(())
}

async fn functions_refuse_an_empty_tenant(site: &Site) -> Verdict {
    for client in [&site.app, &site.only_a, &site.operator] {
        set(client, "").await?;
        all_refused(site, client, Some(TENANT_A), MISMATCH).await?;
    }
    Ok(())
}

async fn functions_refuse_a_malformed_tenant(site: &Site) -> Verdict {
    for text in ["x' or 1=1 --", "11111111-1111-1111-1111-11111111111", "null", " "] {
        set(&site.app, text).await?;
        all_refused(site, &site.app, Some(TENANT_A), MALFORMED).await?;
    }
    set(&site.app, "").await
}

async fn functions_refuse_a_foreign_tenant(site: &Site) -> Verdict {
    for client in [&site.app, &site.only_a, &site.operator] {
        set(client, &TENANT_A.to_string()).await?;
        all_refused(site, client, Some(TENANT_B), MISMATCH).await?;
    }
    Ok(())
}

async fn functions_refuse_no_tenant(site: &Site) -> Verdict {
    set(&site.app, &TENANT_A.to_string()).await?;
    all_refused(site, &site.app, None, &["JF001 tenant_missing"]).await
}

async fn functions_refuse_an_unknown_tenant(site: &Site) -> Verdict {
    let nobody = Uuid::from_u128(0xdead);
    set(&site.app, &nobody.to_string()).await?;
    all_refused(site, &site.app, Some(nobody), &["JF007 tenant_unknown"]).await
}

/// The tenants whose rows a login finds in a table.
async fn seen(client: &Client, table: &str) -> Result<Vec<Uuid>, String> {
    let sql = format!("select distinct tenant_id from jobforge.{table} order by 1");
    let rows = works(table, client.query(&sql, &[]).await)?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
}

async fn all_see(client: &Client, wanted: &[Uuid]) -> Verdict {
    for table in READABLE {
        same(table, seen(client, table).await?.as_slice(), wanted)?;
    }
    Ok(())
}

async fn reads_see_nothing_without_a_tenant(site: &Site) -> Verdict {
    store_rows(site).await?;
    for login in [APP, ONLY_A, OPERATOR] {
        let fresh = connect_as(&site.db, login).await;
        all_see(&fresh, &[]).await?;
        set(&fresh, "").await?;
        all_see(&fresh, &[]).await?;
    }
    Ok(())
}

async fn reads_see_nothing_after_a_local_setting_ended(site: &Site) -> Verdict {
    store_rows(site).await?;
    let fresh = connect_as(&site.db, APP).await;
    let sql = format!("begin; select set_config('app.tenant_id', '{TENANT_A}', true); commit");
    works("a transaction with a tenant", fresh.batch_execute(&sql).await)?;
    all_see(&fresh, &[]).await
}

async fn reads_fail_on_a_malformed_tenant(site: &Site) -> Verdict {
    store_rows(site).await?;
    set(&site.app, "x' or 1=1 --").await?;
    for table in READABLE {
        let sql = format!("select tenant_id from jobforge.{table}");
        refused(table, site.app.query(&sql, &[]).await, &["22P02"])?;
    }
    set(&site.app, "").await
}

async fn reads_see_one_tenant(site: &Site) -> Verdict {
    store_rows(site).await?;
    for client in [&site.app, &site.operator] {
        for tenant in [TENANT_A, TENANT_B] {
            works("act", act_for(client, tenant).await)?;
            all_see(client, &[tenant]).await?;
        }
    }
    for tenant in [TENANT_A, TENANT_B] {
        works("act", act_for(&site.operator, tenant).await)?;
        same("the audit log", seen(&site.operator, "audit_log").await?, vec![tenant])?;
    }
    Ok(())
}

async fn a_bound_login_reads_only_its_tenant(site: &Site) -> Verdict {
    store_rows(site).await?;
    for (client, own, foreign) in [(&site.only_a, TENANT_A, TENANT_B), (&site.only_b, TENANT_B, TENANT_A)] {
        works("act", act_for(client, own).await)?;
        all_see(client, &[own]).await?;
        works("act", act_for(client, foreign).await)?;
        all_see(client, &[]).await?;
    }
    Ok(())
}

async fn a_bound_login_acts_only_for_its_tenant(site: &Site) -> Verdict {
    for (client, own, foreign) in [(&site.only_a, TENANT_A, TENANT_B), (&site.only_b, TENANT_B, TENANT_A)] {
        works("act", act_for(client, foreign).await)?;
        all_refused(site, client, Some(foreign), &["JF009 login_not_bound"]).await?;
        works("enqueue for its own", enqueue_with(client, own, NOOP, "'{}', p_queue => 'bound'").await)?;
    }
    Ok(())
}

/// No login of the tests is a bound operator: the trusted one is bound for a moment.
async fn a_bound_operator_audits_only_its_tenant(site: &Site) -> Verdict {
    store_rows(site).await?;
    let bind = |tenant: &str| {
        format!("update jobforge.logins set tenant_id = {tenant} where role_name = '{OPERATOR}'")
    };
    works("bind", site.admin.batch_execute(&bind(&format!("'{TENANT_A}'"))).await)?;
    let found = async {
        works("act", act_for(&site.operator, TENANT_B).await)?;
        all_see(&site.operator, &[]).await?;
        same("the audit log", seen(&site.operator, "audit_log").await?, vec![])?;
        all_refused(site, &site.operator, Some(TENANT_B), &["JF009 login_not_bound"]).await
    };
    let found = found.await;
    works("trust again", site.admin.batch_execute(&bind("null")).await)?;
    found
}

/// The role alone is not enough: a login that nobody registered is a member of it and gets nothing.
async fn an_unregistered_login_gets_nothing(site: &Site) -> Verdict {
    store_rows(site).await?;
    let forget = format!("delete from jobforge.logins where role_name = '{ONLY_B}'");
    works("forget a login", site.admin.batch_execute(&forget).await)?;
    let found = async {
        works("act", act_for(&site.only_b, TENANT_B).await)?;
        all_see(&site.only_b, &[]).await?;
        all_refused(site, &site.only_b, Some(TENANT_B), &["JF009 login_not_bound"]).await
    };
    let found = found.await;
    let register =
        format!("insert into jobforge.logins (role_name, tenant_id) values ('{ONLY_B}', '{TENANT_B}')");
    works("register it again", site.admin.batch_execute(&register).await)?;
    found
}

async fn a_login_sees_only_its_own_binding(site: &Site) -> Verdict {
    for (login, client) in site.logins() {
        if [APP, ONLY_A, ONLY_B, OPERATOR].contains(&login) {
            let rows = works(login, client.query("select role_name from jobforge.logins", &[]).await)?;
            let names: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
            same(login, names, vec![login.to_owned()])?;
        }
    }
    Ok(())
}

async fn the_same_keys_in_two_tenants_make_two_jobs(site: &Site) -> Verdict {
    // A client's own id is a key, too: the same bytes may come from two tenants' clients.
    let own_id = format!("'{{}}', p_queue => 'keys', p_id => '{}'", Uuid::now_v7());
    for extra in [
        "'{}', p_queue => 'keys', p_idempotency_key => 'same'",
        "'{}', p_queue => 'keys', p_dedupe_key => 'same'",
        &own_id,
    ] {
        let mut ids = Vec::new();
        for tenant in [TENANT_A, TENANT_B] {
            let (id, existing) = works(extra, enqueue_with(&site.app, tenant, NOOP, extra).await)?;
            if existing {
                return Err(format!("{extra}: tenant {tenant} met another's job"));
            }
            let (again, existing) = works(extra, enqueue_with(&site.app, tenant, NOOP, extra).await)?;
            same("the second call's job", (again, existing), (id, true))?;
            ids.push(id);
        }
        if ids[0] == ids[1] && extra != own_id {
            return Err(format!("{extra}: two tenants share a job: {ids:?}"));
        }
    }
    Ok(())
}
