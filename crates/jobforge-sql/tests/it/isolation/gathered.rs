//! Enqueues for many tenants at once are for whoever may act for all of them: a login bound to one tenant, one that
//! narrowed itself to one, a request behind PostgREST and an unknown login enqueue nothing that way, not even for themselves.

use tokio_postgres::Client;
use uuid::Uuid;

use super::verdict::{Verdict, refused, same, works};
use super::{Site, probes};
use crate::schema::{APP, GATE, NOOP, ONLY_A, TENANT_A, TENANT_B, WEB, connect_as};

probes![
    a_trusted_login_enqueues_for_many_tenants,
    a_bound_login_does_not_enqueue_for_many_tenants,
    a_narrowed_login_does_not_enqueue_for_many_tenants,
    an_unregistered_login_does_not_enqueue_for_many_tenants,
    a_transaction_of_one_tenant_does_not_enqueue_for_many,
    a_request_behind_postgrest_does_not_enqueue_for_many_tenants,
];

async fn gather(client: &Client, tenants: &[Uuid]) -> Result<u64, tokio_postgres::Error> {
    let sql = "select jobforge.enqueue_gathered($1::uuid[], array_fill($2::text, array[cardinality($1)]),
        array_fill('{}'::jsonb, array[cardinality($1)]), array_fill('gathered'::text, array[cardinality($1)]))";
    client.execute(sql, &[&tenants, &NOOP]).await
}

async fn stored(site: &Site) -> Result<Vec<Uuid>, String> {
    let sql = "select tenant_id from jobforge.jobs where queue = 'gathered' order by id";
    let rows = works("look", site.admin.query(sql, &[]).await)?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
}

async fn a_trusted_login_enqueues_for_many_tenants(site: &Site) -> Verdict {
    let client = connect_as(&site.db, APP).await;
    works("enqueue", gather(&client, &[TENANT_A, TENANT_B, TENANT_A]).await)?;
    same("whose jobs they are", stored(site).await?, vec![TENANT_A, TENANT_B, TENANT_A])?;
    let forget = "delete from jobforge.jobs where queue = 'gathered'";
    works("clean up", site.admin.batch_execute(forget).await)
}

async fn a_bound_login_does_not_enqueue_for_many_tenants(site: &Site) -> Verdict {
    for tenants in [&[TENANT_B][..], &[TENANT_A], &[TENANT_A, TENANT_B]] {
        refused(ONLY_A, gather(&site.only_a, tenants).await, &["JF009 login_bound"])?;
    }
    same("jobs", stored(site).await?, vec![])
}

async fn a_narrowed_login_does_not_enqueue_for_many_tenants(site: &Site) -> Verdict {
    let client = connect_as(&site.db, APP).await;
    let narrow = format!("set app.bound_tenant = '{TENANT_A}'");
    works("narrow", client.batch_execute(&narrow).await)?;
    refused(APP, gather(&client, &[TENANT_B]).await, &["JF009 login_bound"])?;
    same("jobs", stored(site).await?, vec![])
}

async fn an_unregistered_login_does_not_enqueue_for_many_tenants(site: &Site) -> Verdict {
    let forget = format!("delete from jobforge.logins where role_name = '{ONLY_A}'");
    works("forget the login", site.admin.batch_execute(&forget).await)?;
    let answer = gather(&site.only_a, &[TENANT_A]).await;
    let know =
        format!("insert into jobforge.logins (role_name, tenant_id) values ('{ONLY_A}', '{TENANT_A}')");
    works("know the login", site.admin.batch_execute(&know).await)?;
    refused(ONLY_A, answer, &["JF009 login_not_bound"])
}

async fn a_transaction_of_one_tenant_does_not_enqueue_for_many(site: &Site) -> Verdict {
    let client = connect_as(&site.db, APP).await;
    let name = format!("begin; set local app.tenant_id = '{TENANT_A}'");
    works("name a tenant", client.batch_execute(&name).await)?;
    refused(APP, gather(&client, &[TENANT_B]).await, &["JF009 login_bound"])?;
    works("roll back", client.batch_execute("rollback").await)?;
    same("jobs", stored(site).await?, vec![])
}

/// Even where nobody set the function that names the tenant before each request.
async fn a_request_behind_postgrest_does_not_enqueue_for_many_tenants(site: &Site) -> Verdict {
    let client = connect_as(&site.db, GATE).await;
    works("take the request's role", client.batch_execute(&format!("set role {WEB}")).await)?;
    refused(WEB, gather(&client, &[TENANT_A]).await, &["JF009 login_bound"])?;
    same("jobs", stored(site).await?, vec![])
}
