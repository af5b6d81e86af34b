//! Keys and the audit log: keys are the system's and their hashes one function's; what was done is told to whom it
//! concerns, under the login that did it, whatever that login says of itself.

use tokio_postgres::{Client, Error};
use uuid::Uuid;

use super::rows::{STORED, store_rows};
use super::verdict::{DENIED, Verdict, none, refused, same, works};
use super::{Site, probes};
use crate::schema::calls::{act_for, enqueue_with};
use crate::schema::{APP, NOOP, ONLY_A, OPERATOR, TENANT_A, TENANT_B};

probes![
    keys_are_made_found_used_and_revoked,
    nobody_selects_keys,
    sessions_begin_are_found_and_end,
    a_bound_operator_has_only_its_tenants_sessions,
    the_hash_is_told_by_one_function,
    a_key_of_another_tenant_is_not_revoked,
    a_bound_operator_has_only_its_tenants_keys,
    a_bound_operator_waits_and_audits_only_for_its_tenant,
    an_audit_log_is_a_tenants_own,
    a_login_is_told_whatever_it_says_of_itself,
    logs_are_a_tenants_own,
    waiters_are_told_of_their_own_tenants_job,
];

/// The hash of every key here, and how an answer would show it.
const HASH: &str = "decode(repeat('ca', 32), 'hex')";
const HASH_HEX: &str = "cacacacaca";

async fn make(site: &Site, id: &str, tenant: Uuid) -> Result<String, Error> {
    let sql =
        format!("select k::text from jobforge.create_api_key($1, {HASH}, 'tenant_admin', $2, 'probe') as k");
    site.operator.query_one(&sql, &[&id, &tenant]).await.map(|row| row.get(0))
}

async fn revoke(site: &Site, id: &str, tenant: Option<Uuid>) -> Result<bool, Error> {
    let sql = "select jobforge.revoke_api_key($1, p_tenant_id => $2)";
    site.operator.query_one(sql, &[&id, &tenant]).await.map(|row| row.get(0))
}

async fn found(site: &Site, id: &str) -> Result<Option<bool>, String> {
    let sql = "select revoked from jobforge.find_api_key($1)";
    Ok(works("find", site.operator.query_opt(sql, &[&id]).await)?.map(|row| row.get(0)))
}

async fn listed(site: &Site, tenant: Option<Uuid>, like: &str) -> Result<Vec<String>, String> {
    let sql = "select id from jobforge.list_api_keys($1, 1000) where id like $2";
    let rows = works("list", site.operator.query(sql, &[&tenant, &like]).await)?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
}

/// No login of the tests is a bound operator: the trusted one is bound to tenant A for a moment.
async fn bound(site: &Site, what: impl Future<Output = Verdict>) -> Verdict {
    let bind = |tenant: &str| {
        format!("update jobforge.logins set tenant_id = {tenant} where role_name = '{OPERATOR}'")
    };
    works("bind", site.admin.batch_execute(&bind(&format!("'{TENANT_A}'"))).await)?;
    let found = what.await;
    works("trust again", site.admin.batch_execute(&bind("null")).await)?;
    found
}

async fn keys_are_made_found_used_and_revoked(site: &Site) -> Verdict {
    works("make", make(site, "probeserved0", TENANT_A).await)?;
    same("found", found(site, "probeserved0").await?, Some(false))?;
    same("listed", listed(site, Some(TENANT_A), "probeserved_").await?, vec!["probeserved0".to_owned()])?;
    let touch = "select jobforge.touch_api_keys(array['probeserved0'], array[jobforge.clock()])";
    same("touched", works("touch", site.operator.query_one(touch, &[]).await)?.get::<_, i32>(0), 1)?;
    let any = "select jobforge.has_keys()";
    same("keys", works("has_keys", site.operator.query_one(any, &[]).await)?.get(0), true)?;
    same("revoked", works("revoke", revoke(site, "probeserved0", None).await)?, true)?;
    same("found", found(site, "probeserved0").await?, Some(true))
}

async fn nobody_selects_keys(site: &Site) -> Verdict {
    works("make", make(site, "probehidden0", TENANT_A).await)?;
    for (login, client) in site.logins() {
        for sql in [
            "select from jobforge.api_keys",
            "select secret_sha256 from jobforge.api_keys",
            "select from jobforge.sessions",
        ] {
            refused(&format!("{login}: {sql}"), client.query(sql, &[]).await, &[DENIED])?;
        }
    }
    Ok(())
}

async fn begin(site: &Site, id: &str, key: &str) -> Result<bool, Error> {
    let sql = "select jobforge.create_session(sha256($1::text::bytea), $2) > jobforge.clock()";
    site.operator.query_one(sql, &[&id, &key]).await.map(|row| row.get(0))
}

async fn session(site: &Site, id: &str) -> Result<Option<Uuid>, String> {
    let sql = "select tenant_id from jobforge.find_session(sha256($1::text::bytea))";
    Ok(works("find_session", site.operator.query_opt(sql, &[&id]).await)?.and_then(|row| row.get(0)))
}

async fn end(site: &Site, id: &str) -> Result<bool, String> {
    let sql = "select jobforge.end_session(sha256($1::text::bytea))";
    Ok(works("end_session", site.operator.query_one(sql, &[&id]).await)?.get(0))
}

async fn sessions_begin_are_found_and_end(site: &Site) -> Verdict {
    works("make", make(site, "probesession", TENANT_A).await)?;
    for id in ["ended", "revoked"] {
        same("begun", works("create_session", begin(site, id, "probesession").await)?, true)?;
        same("whose", session(site, id).await?, Some(TENANT_A))?;
    }
    same("ended", (end(site, "ended").await?, end(site, "ended").await?), (true, false))?;
    same("after its end", session(site, "ended").await?, None)?;
    works("revoke", revoke(site, "probesession", None).await)?;
    same("after its key", session(site, "revoked").await?, None)?;
    refused("of a revoked key", begin(site, "late", "probesession").await, &["JF007 api_key_unknown"])
}

async fn a_bound_operator_has_only_its_tenants_sessions(site: &Site) -> Verdict {
    for (id, tenant) in [("probesessna0", TENANT_A), ("probesessnb0", TENANT_B)] {
        works("make", make(site, id, tenant).await)?;
        works("create_session", begin(site, id, id).await)?;
    }
    bound(site, async {
        same("found of A", session(site, "probesessna0").await?, Some(TENANT_A))?;
        same("found of B", session(site, "probesessnb0").await?, None)?;
        same("ended of B", end(site, "probesessnb0").await?, false)?;
        refused("begun of B", begin(site, "other", "probesessnb0").await, &["JF007 api_key_unknown"])
    })
    .await?;
    same("B's session", session(site, "probesessnb0").await?, Some(TENANT_B))
}

/// Whatever else an operator can ask, and what is written down beside.
async fn the_hash_is_told_by_one_function(site: &Site) -> Verdict {
    let mut told = vec![("create", works("make", make(site, "probehashed0", TENANT_A).await)?)];
    works("revoke", revoke(site, "probehashed0", None).await)?;
    for (what, sql) in [
        (
            "list",
            "select string_agg(k::text, ' ') from jobforge.list_api_keys() as k where id = 'probehashed0'",
        ),
        (
            "audit",
            "select string_agg(a::text, ' ') from jobforge.list_system_audit(p_subject_kind => 'api_key',
               p_limit => 1000) as a where subject_id = 'probehashed0'",
        ),
        ("find", "select string_agg(k::text, ' ') from jobforge.find_api_key('probehashed0') as k"),
    ] {
        told.push((what, works(what, site.operator.query_one(sql, &[]).await)?.get(0)));
    }
    let named = told.iter().filter(|(_, text)| text.contains("probehashed0")).count();
    same("answers that name the key", named, 4)?;
    let tell: Vec<&str> =
        told.iter().filter(|(_, text)| text.contains(HASH_HEX)).map(|(what, _)| *what).collect();
    same("answers with the hash", tell, vec!["find"])
}

async fn a_key_of_another_tenant_is_not_revoked(site: &Site) -> Verdict {
    works("make", make(site, "probeothers0", TENANT_B).await)?;
    let answer = revoke(site, "probeothers0", Some(TENANT_A)).await;
    refused("another tenant's key", answer, &["JF007 api_key_unknown"])?;
    same("another tenant's key", found(site, "probeothers0").await?, Some(false))?;
    same("listed", listed(site, Some(TENANT_A), "probeothers_").await?, vec![])?;
    same("its own", works("revoke", revoke(site, "probeothers0", Some(TENANT_B)).await)?, true)
}

async fn a_bound_operator_has_only_its_tenants_keys(site: &Site) -> Verdict {
    for (id, tenant) in [("probebounda0", TENANT_A), ("probeboundb0", TENANT_B)] {
        works("make", make(site, id, tenant).await)?;
    }
    let super_admin =
        format!("select jobforge.create_api_key('probebounds0', {HASH}, 'super_admin', p_name => 'probe')");
    bound(site, async {
        same("found of A", found(site, "probebounda0").await?, Some(false))?;
        same("found of B", found(site, "probeboundb0").await?, None)?;
        same("listed", listed(site, None, "probebound__").await?, vec!["probebounda0".to_owned()])?;
        same("listed of B", listed(site, Some(TENANT_B), "probebound__").await?, vec![])?;
        refused("revoke", revoke(site, "probeboundb0", None).await, &["JF007 api_key_unknown"])?;
        refused("for B", make(site, "probeboundc0", TENANT_B).await, &["JF009 login_not_bound"])?;
        let answer = site.operator.query(&super_admin, &[]).await;
        refused("a super-admin", answer, &["JF009 login_not_bound"])?;
        let touch = "select jobforge.touch_api_keys(array['probebounda0', 'probeboundb0'],
                       array[jobforge.clock(), jobforge.clock()])";
        same("touched", works("touch", site.operator.query_one(touch, &[]).await)?.get::<_, i32>(0), 1)
    })
    .await?;
    same("B's key", found(site, "probeboundb0").await?, Some(false))
}

async fn a_bound_operator_waits_and_audits_only_for_its_tenant(site: &Site) -> Verdict {
    store_rows(site).await?;
    let over = format!(
        "select tenant_id from jobforge.finished_jobs(array['{TENANT_A}', '{TENANT_B}']::uuid[], array['{OVER}', '{OVER}']::uuid[])"
    );
    store_finished(site).await?;
    let finished = async || -> Result<Vec<Uuid>, String> {
        let rows = works("finished_jobs", site.operator.query(&over, &[]).await)?;
        let mut tenants: Vec<Uuid> = rows.iter().map(|row| row.get(0)).collect();
        tenants.sort_unstable();
        Ok(tenants)
    };
    same("for a trusted one", finished().await?, vec![TENANT_A, TENANT_B])?;
    bound(site, async {
        same("for a bound one", finished().await?, vec![TENANT_A])?;
        for tenant in ["null".to_owned(), format!("'{TENANT_B}'")] {
            for sql in [
                format!("select jobforge.list_system_audit({tenant})"),
                format!("select jobforge.record_audit({tenant}, 'probe')"),
            ] {
                refused(&sql, site.operator.query(&sql, &[]).await, &["JF009 login_not_bound"])?;
            }
        }
        let own = format!("select jobforge.list_system_audit('{TENANT_A}')");
        works("its own", site.operator.query(&own, &[]).await).map(drop)
    })
    .await
}

/// A job of each tenant that is over, of the same id.
const OVER: &str = "01900000-0000-7000-8000-0000000000aa";

async fn store_finished(site: &Site) -> Verdict {
    for (tenant, status) in [(TENANT_A, "succeeded"), (TENANT_B, "canceled")] {
        let sql = format!(
            "insert into jobforge.job_history (tenant_id, id, run_at, created_at, finished_at, fence, failures, deaths,
               max_attempts, priority, status, retention, queue, type, payload, source)
             select '{tenant}', '{OVER}', now(), now(), now(), 1, 0, 0, 5, 100, '{status}', 'week', 'over', 'test.noop', '{{}}',
               'manual'
             where not exists (select from jobforge.job_history h where h.tenant_id = '{tenant}' and h.id = '{OVER}')"
        );
        works("store a finished job", site.admin.batch_execute(&sql).await)?;
    }
    Ok(())
}

/// The ids of a tenant's entries, as `list_audit` tells them.
async fn audited(client: &Client, tenant: Uuid) -> Result<Vec<Uuid>, String> {
    works("act", act_for(client, tenant).await)?;
    let sql = "select id from jobforge.list_audit($1, p_limit => 1000) where id is not null";
    let rows = works("list_audit", client.query(sql, &[&tenant]).await)?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
}

async fn an_audit_log_is_a_tenants_own(site: &Site) -> Verdict {
    let mark = |tenant: Uuid, id: u128| {
        format!(
            "insert into jobforge.audit_log (tenant_id, id, at, actor, action)
             values ('{tenant}', '{}', now(), 'nobody', 'probe') on conflict do nothing;",
            Uuid::from_u128(id)
        )
    };
    let marks = mark(TENANT_A, 0xa1) + &mark(TENANT_B, 0xb1) + &mark(Uuid::nil(), 0x01);
    works("mark", site.admin.batch_execute(&marks).await)?;
    for client in [&site.app, &site.operator] {
        for (tenant, own, foreign) in [(TENANT_A, 0xa1, 0xb1), (TENANT_B, 0xb1, 0xa1)] {
            let seen = audited(client, tenant).await?;
            same("its own", seen.contains(&Uuid::from_u128(own)), true)?;
            let others = [foreign, 0x01].map(Uuid::from_u128);
            none("entries of others", &seen.iter().filter(|id| others.contains(id)).collect::<Vec<_>>())?;
        }
    }
    works("act", act_for(&site.only_a, TENANT_B).await)?;
    let foreign = "select jobforge.list_audit($1)";
    refused("another's", site.only_a.query(foreign, &[&TENANT_B]).await, &["JF009 login_not_bound"])?;
    let sql = "select count(distinct tenant_id) from jobforge.list_system_audit(p_actor => 'nobody') where action = 'probe'";
    let row = works("all", site.operator.query_one(sql, &[]).await)?;
    same("tenants in the system's", row.get::<_, i64>(0), 3)
}

/// A tenant's login can set anything: what it says stands beside it, and names nobody else.
async fn a_login_is_told_whatever_it_says_of_itself(site: &Site) -> Verdict {
    let (id, _) = works(
        "enqueue",
        enqueue_with(&site.only_a, TENANT_A, NOOP, "'{}', p_queue => 'identity_said'").await,
    )?;
    let say = format!(
        "begin; set local app.tenant_id = '{TENANT_A}'; set local app.actor = '{OPERATOR}';
         set local app.request_id = 'r-1'; select jobforge.cancel_job('{TENANT_A}', '{id}'); commit"
    );
    works("cancel", site.only_a.batch_execute(&say).await)?;
    let sql = "select actor, credential, request_id, subject_kind, subject_id from jobforge.list_audit($1, 'job', $2)
               where id is not null";
    works("act", act_for(&site.app, TENANT_A).await)?;
    let row = works("the audit", site.app.query_one(sql, &[&TENANT_A, &id.to_string()]).await)?;
    let told: Vec<Option<String>> = (0..5).map(|at| row.get(at)).collect();
    let wanted = [ONLY_A, OPERATOR, "r-1", "job", &id.to_string()].map(|text| Some(text.to_owned()));
    same("what is told", told, wanted.to_vec())
}

async fn logs_are_a_tenants_own(site: &Site) -> Verdict {
    store_rows(site).await?;
    let sql = "select message from jobforge.list_logs($1, $2::text::uuid)";
    for tenant in [TENANT_A, TENANT_B] {
        works("act", act_for(&site.app, tenant).await)?;
        let rows = works("list_logs", site.app.query(sql, &[&tenant, &STORED]).await)?;
        // One line beside the live job, one in the history.
        same("lines", rows.len(), 2)?;
    }
    let (id, _) = works("enqueue", enqueue_with(&site.app, TENANT_B, NOOP, "'{}', p_queue => 'logs'").await)?;
    works("act", act_for(&site.app, TENANT_A).await)?;
    let answer = site.app.query(sql, &[&TENANT_A, &id.to_string()]).await;
    refused("another tenant's job", answer, &["JF007 job_unknown"])
}

async fn waiters_are_told_of_their_own_tenants_job(site: &Site) -> Verdict {
    store_finished(site).await?;
    let sql = format!(
        "select status from jobforge.finished_jobs(array['{TENANT_B}']::uuid[], array['{OVER}']::uuid[])"
    );
    let row = works("finished_jobs", site.operator.query_one(&sql, &[]).await)?;
    same("the status", row.get::<_, String>(0), "canceled".to_owned())?;
    for (login, client) in site.logins() {
        if login != OPERATOR {
            refused(&format!("{login} asks"), client.query(&sql, &[]).await, &[DENIED])?;
        }
    }
    let [_, held] = site.held_in("identity_waits").await?;
    let sql = "select count(*) from jobforge.finished_jobs(array[$1::uuid], array[$2::uuid])";
    let row = works("finished_jobs", site.operator.query_one(sql, &[&TENANT_B, &held.id]).await)?;
    same(&format!("a job that runs, asked by {APP}'s server"), row.get::<_, i64>(0), 0)
}
