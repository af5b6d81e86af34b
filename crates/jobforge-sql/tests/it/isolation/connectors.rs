//! Connector configs: a tenant's own, read back without their secrets; a worker finds them for a job it holds; an
//! operator seals them anew. And what a job counts is its tenant's.

use tokio_postgres::{Client, Error};
use uuid::Uuid;

use super::rows::store_rows;
use super::verdict::{DENIED, Verdict, refused, same, works};
use super::{Site, probes};
use crate::schema::calls::{Held, act_for};
use crate::schema::{OPERATOR, TENANT_A, TENANT_B};

probes![
    configs_are_set_up_and_told_to_their_tenant,
    a_job_finds_its_tenants_config,
    a_disabled_config_is_told_and_enabled_again,
    no_reader_is_told_a_secret,
    refusals_repeat_no_secret,
    nobody_selects_secrets,
    operators_reseal_what_did_not_change,
    a_bound_operator_reseals_only_its_tenants,
    counts_are_of_the_jobs_tenant,
];

/// What no answer may have: a variable's name, and sealed bytes.
const ENV: &str = "JOBFORGE_SECRET_CANARY";
const SEALED: &str = "Q2FuYXJ5IGNhbmFyeSBjYW5hcnkgY2FuYXJ5IGNhbmFyeSE=";
const SEALED_HEX: &str = "43616e617279";

/// Sets a config up for a tenant, with one secret of each kind.
async fn set(client: &Client, tenant: Uuid, name: &str, host: &str) -> Result<String, Error> {
    act_for(client, tenant).await?;
    let secrets =
        format!(r#"{{"by_env": {{"env": "{ENV}"}}, "by_key": {{"key_id": "k1", "sealed": "{SEALED}"}}}}"#);
    let sql =
        "select c::text from jobforge.upsert_connector_config($1, $2, jsonb_build_object('host', $3::text),
                 $4::text::jsonb) as c";
    client.query_one(sql, &[&tenant, &name, &host, &secrets]).await.map(|row| row.get(0))
}

async fn configs_are_set_up_and_told_to_their_tenant(site: &Site) -> Verdict {
    for (tenant, host) in [(TENANT_A, "a.example"), (TENANT_B, "b.example")] {
        works("set", set(&site.app, tenant, "told", host).await)?;
    }
    for (tenant, host) in [(TENANT_A, "a.example"), (TENANT_B, "b.example")] {
        works("act", act_for(&site.app, tenant).await)?;
        for sql in [
            "select settings ->> 'host', updated_by from jobforge.get_connector_config($1, 'told')",
            "select settings ->> 'host', updated_by from jobforge.list_connector_configs($1) where name = 'told'",
        ] {
            let row = works(sql, site.app.query_one(sql, &[&tenant]).await)?;
            let found: (String, String) = (row.get(0), row.get(1));
            same(sql, found, (host.to_owned(), crate::schema::APP.to_owned()))?;
        }
    }
    works("act", act_for(&site.app, TENANT_A).await)?;
    let delete = "select jobforge.delete_connector_config($1, 'told')";
    let deleted = works("delete", site.app.query_one(delete, &[&TENANT_A]).await)?;
    same("deleted", deleted.get(0), true)?;
    let again = works("delete again", site.app.query_one(delete, &[&TENANT_A]).await)?;
    same("deleted again", again.get(0), false)?;
    let sql = "select (select count(*) from jobforge.connector_configs where name = 'told'),
               (select count(*) from jobforge.connector_secrets where config = 'told' and tenant_id = $1),
               (select count(*) from jobforge.connector_secrets where config = 'told' and tenant_id = $2)";
    let row = works("look", site.admin.query_one(sql, &[&TENANT_A, &TENANT_B]).await)?;
    same("what is left", (row.get::<_, i64>(0), row.get::<_, i64>(1), row.get::<_, i64>(2)), (1, 0, 2))
}

async fn find(site: &Site, job: &Held, name: &str) -> Result<Vec<tokio_postgres::Row>, Error> {
    let sql = "select settings ->> 'host', secret_names, envs, key_ids, sealed
               from jobforge.find_connector_config($1, $2, $3, $4, $5)";
    site.worker.query(sql, &[&job.lease_id, &job.tenant_id, &job.id, &job.fence, &name]).await
}

async fn a_job_finds_its_tenants_config(site: &Site) -> Verdict {
    let [of_a, of_b] = site.held_in("connector_found").await?;
    works("set", set(&site.app, TENANT_A, "found", "a.example").await)?;
    works("set", set(&site.app, TENANT_B, "only_b", "b.example").await)?;
    works("set", set(&site.app, TENANT_B, "found", "b.example").await)?;
    for (job, host) in [(&of_a, "a.example"), (&of_b, "b.example")] {
        let rows = works("find", find(site, job, "found").await)?;
        let row = rows.first().ok_or("nothing was found")?;
        same("the config", row.get::<_, String>(0), host.to_owned())?;
        let texts = |at: usize| row.get::<_, Option<Vec<Option<String>>>>(at).unwrap_or_default();
        same("its secrets", texts(1), vec![Some("by_env".to_owned()), Some("by_key".to_owned())])?;
        same("references", texts(2), vec![Some(ENV.to_owned()), None])?;
        same("keys", texts(3), vec![None, Some("k1".to_owned())])?;
        let sealed: Option<Vec<Option<Vec<u8>>>> = row.get(4);
        same("sealed", sealed.and_then(|all| all[1].as_ref().map(Vec::len)), Some(35))?;
    }
    same("another tenant's config", works("find", find(site, &of_a, "only_b").await)?.len(), 0)
}

async fn a_disabled_config_is_told_and_enabled_again(site: &Site) -> Verdict {
    let [of_a, _] = site.held_in("connector_disabled").await?;
    for tenant in [TENANT_A, TENANT_B] {
        works("set", set(&site.app, tenant, "gone", "x").await)?;
    }
    let disable = "select jobforge.disable_connector_config($1, $2, $3, $4, 'gone', 'answers 410')";
    let arguments: [&(dyn tokio_postgres::types::ToSql + Sync); 4] =
        [&of_a.lease_id, &of_a.tenant_id, &of_a.id, &of_a.fence];
    for first in [true, false] {
        let row = works("disable", site.worker.query_one(disable, &arguments).await)?;
        same("disabled now", row.get(0), first)?;
    }
    let look = "select disabled_reason from jobforge.get_connector_config($1, 'gone')";
    for (tenant, reason) in [(TENANT_B, None), (TENANT_A, Some("answers 410".to_owned()))] {
        works("act", act_for(&site.app, tenant).await)?;
        let row = works("look", site.app.query_one(look, &[&tenant]).await)?;
        same("the reason", row.get::<_, Option<String>>(0), reason)?;
    }
    let audited = "select action from jobforge.audit_log where tenant_id = $1 and job_id = $2";
    let row = works("audit", site.admin.query_one(audited, &[&TENANT_A, &of_a.id]).await)?;
    same("audited", row.get::<_, String>(0), "disable_connector_config".to_owned())?;
    let enable = "select jobforge.enable_connector_config($1, 'gone')";
    for first in [true, false] {
        let row = works("enable", site.app.query_one(enable, &[&TENANT_A]).await)?;
        same("enabled now", row.get(0), first)?;
    }
    let row = works("look", site.app.query_one(look, &[&TENANT_A]).await)?;
    same("the reason", row.get::<_, Option<String>>(0), None)
}

fn without_secrets(what: &str, text: &str) -> Verdict {
    let told = [ENV, SEALED, SEALED_HEX].into_iter().find(|canary| text.contains(canary));
    told.map_or(Ok(()), |canary| Err(format!("{what} tells {canary}: {text}")))
}

/// Whatever a tenant or an operator can call or read, and what is written down beside: none has more than names.
async fn no_reader_is_told_a_secret(site: &Site) -> Verdict {
    without_secrets("upsert", &works("set", set(&site.app, TENANT_A, "canary", "x").await)?)?;
    for client in [&site.app, &site.operator] {
        works("act", act_for(client, TENANT_A).await)?;
        for sql in [
            "select c::text from jobforge.get_connector_config($1, 'canary') as c",
            "select c::text from jobforge.list_connector_configs($1) as c where c.name = 'canary'",
        ] {
            let row = works(sql, client.query_one(sql, &[&TENANT_A]).await)?;
            let text: String = row.get(0);
            without_secrets(sql, &text)?;
            same(sql, text.contains("by_key") && text.contains("k1") && text.contains("by_env"), true)?;
        }
    }
    let audit =
        "select string_agg(a::text, ' ') from jobforge.audit_log a where action = 'upsert_connector_config'";
    without_secrets("the audit log", works("audit", site.admin.query_one(audit, &[]).await)?.get(0))
}

/// Whoever mistakes a secret's form has sent the secret: the refusal must not spread it.
async fn refusals_repeat_no_secret(site: &Site) -> Verdict {
    works("act", act_for(&site.app, TENANT_A).await)?;
    let long = format!(r#"{{"t": {{"key_id": "k1", "sealed": "{}"}}}}"#, "canary00".repeat(1500));
    let many: Vec<String> = (0..51).map(|n| format!(r#""s{n}": {{"env": "CANARY"}}"#)).collect();
    for (secrets, reason) in [
        (r#"{"t": "canary"}"#.to_owned(), "secret_malformed"),
        (r#"{"t": {"value": "canary"}}"#.to_owned(), "secret_malformed"),
        (r#"{"t": {"env": "canary canary"}}"#.to_owned(), "secret_malformed"),
        (r#"{"t": {"env": "OK", "value": "canary"}}"#.to_owned(), "secret_malformed"),
        (r#"{"t": {"key_id": "k1", "sealed": "canary"}}"#.to_owned(), "secret_malformed"),
        (
            r#"{"t": {"key_id": "not an id", "sealed": "canary00canary00canary00canary00canary00"}}"#
                .to_owned(),
            "secret_malformed",
        ),
        (r#"["canary"]"#.to_owned(), "secret_malformed"),
        (r#"{"canary canary": {"env": "OK"}}"#.to_owned(), "secret_name_malformed"),
        (long, "secret_too_large"),
        (format!("{{{}}}", many.join(",")), "too_many_secrets"),
    ] {
        let sql = "select jobforge.upsert_connector_config($1, 'refused', p_secrets => $2::text::jsonb)";
        let answer = site.app.query(sql, &[&TENANT_A, &secrets]).await;
        if let Err(error) = &answer
            && format!("{error:?}").to_lowercase().contains("canary")
        {
            return Err(format!("a refusal repeats what was refused: {error:?}"));
        }
        refused(&secrets, answer, &[&format!("JF001 {reason}")])?;
    }
    for (settings, name, reason) in [
        ("'[]'", "refused", "settings_malformed"),
        ("jsonb_build_object('a', repeat('x', 70000))", "refused", "settings_too_large"),
        (
            "jsonb_build_object('a', (repeat('[', 200) || repeat(']', 200))::jsonb)",
            "refused",
            "settings_malformed",
        ),
        ("'{}'", "not a name", "name_malformed"),
        ("'{}'", "", "name_malformed"),
    ] {
        let sql = format!("select jobforge.upsert_connector_config($1, $2, {settings})");
        let answer = site.app.query(&sql, &[&TENANT_A, &name]).await;
        refused(&sql, answer, &[&format!("JF001 {reason}")])?;
    }
    let author = "select jobforge.upsert_connector_config($1, 'refused', p_updated_by => '')";
    refused(author, site.app.query(author, &[&TENANT_A]).await, &["JF001 author_length"])?;
    let sql = "select from jobforge.connector_configs where name in ('refused', 'not a name', '')";
    same("what was refused", works("look", site.admin.query(sql, &[]).await)?.len(), 0)?;
    for sql in [
        "select jobforge.get_connector_config($1, 'refused')",
        "select jobforge.enable_connector_config($1, 'refused')",
    ] {
        refused(sql, site.app.query(sql, &[&TENANT_A]).await, &["JF007 connector_config_unknown"])?;
    }
    Ok(())
}

async fn nobody_selects_secrets(site: &Site) -> Verdict {
    store_rows(site).await?;
    for (login, client) in site.logins() {
        if [crate::schema::APP, OPERATOR].contains(&login) {
            works("act", act_for(client, TENANT_A).await)?;
        }
        for table in ["connector_configs", "connector_secrets"] {
            let sql = format!("select from jobforge.{table}");
            refused(&format!("{login}: {sql}"), client.query(&sql, &[]).await, &[DENIED])?;
        }
    }
    Ok(())
}

/// The sealed secrets of one config that this operator is given, by tenant.
async fn sealed(site: &Site, config: &str) -> Result<Vec<(Uuid, String, Vec<u8>)>, String> {
    let sql =
        "select tenant_id, name, sealed from jobforge.list_sealed_secrets('k2', 1000) where config = $1";
    let rows = works("list what is sealed", site.operator.query(sql, &[&config]).await)?;
    Ok(rows.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect())
}

async fn reseal(site: &Site, config: &str, was: &(Uuid, String, Vec<u8>)) -> Result<bool, Error> {
    let sql = "select jobforge.reseal_secret($1, $2, $3, $4, 'k2', decode(repeat('00', 40), 'hex'))";
    site.operator.query_one(sql, &[&was.0, &config, &was.1, &was.2]).await.map(|row| row.get(0))
}

async fn operators_reseal_what_did_not_change(site: &Site) -> Verdict {
    for tenant in [TENANT_A, TENANT_B] {
        works("set", set(&site.app, tenant, "resealed", "x").await)?;
    }
    let found = sealed(site, "resealed").await?;
    same("sealed", found.iter().map(|s| s.0).collect::<Vec<_>>(), vec![TENANT_A, TENANT_B])?;
    let sql = "update jobforge.connector_secrets set sealed = decode(repeat('11', 40), 'hex')
               where config = 'resealed' and name = 'by_key' and tenant_id = $1";
    works("somebody sets another", site.admin.execute(sql, &[&TENANT_B]).await)?;
    same("what is as it was", works("reseal", reseal(site, "resealed", &found[0]).await)?, true)?;
    same("what changed meanwhile", works("reseal", reseal(site, "resealed", &found[1]).await)?, false)?;
    let left = sealed(site, "resealed").await?;
    same("left", left.iter().map(|s| s.0).collect::<Vec<_>>(), vec![TENANT_B])?;
    for (key, bytes) in [("not a key", 40), ("k2", 10), ("k2", 9000)] {
        let sql = "select jobforge.reseal_secret($1, 'resealed', 'by_key', $2, $3, decode(repeat('00', $4), 'hex'))";
        let answer = site.operator.query(sql, &[&TENANT_B, &left[0].2, &key, &bytes]).await;
        refused(key, answer, &["JF001 secret_malformed"])?;
    }
    Ok(())
}

/// No login of the tests is a bound operator: the trusted one is bound for a moment.
async fn a_bound_operator_reseals_only_its_tenants(site: &Site) -> Verdict {
    for tenant in [TENANT_A, TENANT_B] {
        works("set", set(&site.app, tenant, "bound", "x").await)?;
    }
    let all = sealed(site, "bound").await?;
    let bind = |tenant: &str| {
        format!("update jobforge.logins set tenant_id = {tenant} where role_name = '{OPERATOR}'")
    };
    works("bind", site.admin.batch_execute(&bind(&format!("'{TENANT_A}'"))).await)?;
    let found = async {
        let tenants: Vec<Uuid> = sealed(site, "bound").await?.into_iter().map(|s| s.0).collect();
        same("sealed", tenants, vec![TENANT_A])?;
        same("another tenant's", works("reseal", reseal(site, "bound", &all[1]).await)?, false)
    };
    let found = found.await;
    works("trust again", site.admin.batch_execute(&bind("null")).await)?;
    found
}

async fn counts_are_of_the_jobs_tenant(site: &Site) -> Verdict {
    store_rows(site).await?;
    let [of_a, of_b] = site.held_in("connector_counts").await?;
    for job in [&of_a, &of_b] {
        let arguments: [&(dyn tokio_postgres::types::ToSql + Sync); 4] =
            [&job.lease_id, &job.tenant_id, &job.id, &job.fence];
        let sql =
            "select jobs from jobforge.count_jobs($1, $2, $3, $4, 'queue') where key = 'connector_counts'";
        let row = works("count jobs", site.worker.query_one(sql, &arguments).await)?;
        same("jobs", row.get::<_, i64>(0), 1)?;
        let sql = "select coalesce(sum(enqueued), 0)::bigint
                   from jobforge.count_flow($1, $2, $3, $4, 'day', now() - interval '1 day', now() + interval '1 day')";
        let row = works("count flow", site.worker.query_one(sql, &arguments).await)?;
        let stored =
            "select coalesce(sum(enqueued), 0)::bigint from jobforge.tenant_stats where tenant_id = $1
                      and at > now() - interval '1 day'";
        let stored = works("look", site.admin.query_one(stored, &[&job.tenant_id]).await)?;
        same("flow", row.get::<_, i64>(0), stored.get::<_, i64>(0))?;
    }
    Ok(())
}
