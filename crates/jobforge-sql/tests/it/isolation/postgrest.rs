//! Behind PostgREST one login serves everybody: the tenant is the one in the verified token, and nothing that a caller can
//! write besides it names another.
//!
//! Each request is played as PostgREST sends it: a transaction that sets the role and the request's settings, the function
//! before the request, the request itself.

use serde_json::{Value, json};
use tokio_postgres::types::Json;
use tokio_postgres::{Client, Error};
use uuid::Uuid;

use super::rows::{READABLE, STORED, store_rows};
use super::verdict::{DENIED, Verdict, refused, same, works};
use super::{Site, probes};
use crate::schema::{ANON, GATE, NOOP, OPERATOR_GATE, TENANT_A, TENANT_B, WEB, WORKER_GATE, connect_as};

probes![
    a_request_acts_for_the_tenant_of_its_token,
    a_request_without_a_sound_claim_is_refused,
    a_claim_that_users_edit_is_not_believed,
    headers_and_cookies_name_no_tenant,
    an_argument_names_no_other_tenant,
    without_the_gate_there_is_nothing,
    nothing_is_left_for_the_next_request,
    a_request_without_a_token_gets_nothing,
    a_bound_gate_serves_one_tenant,
    an_unregistered_gate_serves_nobody,
    a_gate_that_can_become_more_serves_nobody,
    the_gates_function_called_as_a_request_changes_nothing,
    a_gate_of_an_application_with_schemas_of_its_own_is_closed_too,
];

/// What PostgREST knows of a request.
struct Request {
    role: &'static str,
    claims: String,
    headers: Value,
    gate: bool,
}

/// A caller with a token that has these claims.
fn with(claims: &Value) -> Request {
    Request { role: WEB, claims: claims.to_string(), headers: json!({}), gate: true }
}

/// A token of the issuer for a tenant.
fn token(tenant: Uuid) -> Value {
    json!({ "role": WEB, "sub": "somebody", "app_metadata": { "tenant_id": tenant } })
}

impl Request {
    /// Begins the transaction, up to the request itself; an error has rolled it back.
    async fn open(&self, gate: &Client) -> Result<(), Error> {
        self.open_to(gate, "read write").await
    }

    async fn open_to(&self, gate: &Client, mode: &str) -> Result<(), Error> {
        gate.batch_execute(&format!("begin isolation level read committed {mode}")).await?;
        let set = "select set_config('search_path', '\"jobforge\", \"public\"', true), set_config('role', $1, true),
            set_config('request.jwt.claims', $2, true), set_config('request.method', 'POST', true),
            set_config('request.path', '/rpc/enqueue_job', true), set_config('request.headers', $3, true),
            set_config('request.cookies', '{\"tenant_id\": \"22222222-2222-2222-2222-222222222222\"}', true)";
        let mut opened =
            gate.execute(set, &[&self.role, &self.claims, &self.headers.to_string()]).await.map(drop);
        if opened.is_ok() && self.gate {
            opened = gate.execute("select \"jobforge\".\"pre_request\"()", &[]).await.map(drop);
        }
        if opened.is_err() {
            gate.batch_execute("rollback").await?;
        }
        opened
    }

    /// The request and the end of its transaction.
    async fn ask<T>(
        &self,
        gate: &Client,
        request: impl AsyncFnOnce(&Client) -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.open(gate).await?;
        end(gate, request(gate).await).await
    }

    /// `POST /rpc/enqueue_job`: the body's fields are the function's arguments.
    async fn enqueue(&self, gate: &Client, tenant: Uuid) -> Result<Uuid, Error> {
        let sql = "with pgrst_source as (
              select pgrst_call.* from (select $1::json as json_data) pgrst_payload,
              lateral (select p_tenant_id, p_type, p_queue from json_to_record(pgrst_payload.json_data)
                as _(p_tenant_id uuid, p_type text, p_queue text)) pgrst_body,
              lateral jobforge.enqueue_job(p_tenant_id := pgrst_body.p_tenant_id, p_type := pgrst_body.p_type,
                p_queue := pgrst_body.p_queue) pgrst_call)
            select id from pgrst_source";
        let body = Json(json!({ "p_tenant_id": tenant, "p_type": NOOP, "p_queue": "postgrest" }));
        self.ask(gate, async |gate| gate.query_one(sql, &[&body]).await.map(|row| row.get(0))).await
    }

    /// `GET /jobs?select=tenant_id`, of each table that a tenant may read: whose rows there are.
    async fn read(&self, gate: &Client) -> Result<Vec<Uuid>, Error> {
        let mut whose = Vec::new();
        for table in READABLE {
            let sql = format!("select tenant_id from \"jobforge\".\"{table}\"");
            // A GET is made in a transaction that can only read.
            self.open_to(gate, "read only").await?;
            let rows = end(gate, gate.query(&sql, &[]).await).await?;
            whose.extend(rows.iter().map(|row| row.get::<_, Uuid>(0)));
        }
        whose.sort_unstable();
        whose.dedup();
        Ok(whose)
    }
}

async fn end<T>(gate: &Client, answer: Result<T, Error>) -> Result<T, Error> {
    gate.batch_execute(if answer.is_ok() { "commit" } else { "rollback" }).await?;
    answer
}

async fn a_request_acts_for_the_tenant_of_its_token(site: &Site) -> Verdict {
    store_rows(site).await?;
    for tenant in [TENANT_A, TENANT_B] {
        let request = with(&token(tenant));
        let id = works("enqueue", request.enqueue(&site.gate, tenant).await)?;
        let sql = "select tenant_id from jobforge.jobs where id = $1";
        let row = works("look", site.admin.query_one(sql, &[&id]).await)?;
        same("the job's tenant", row.get::<_, Uuid>(0), tenant)?;
        same("whose rows are read", works("read", request.read(&site.gate).await)?, vec![tenant])?;
    }
    // As a token may spell it.
    let shouted = json!({ "app_metadata": { "tenant_id": "aBCDEF00-1111-1111-1111-111111111111" } });
    refused("an unknown tenant", with(&shouted).open(&site.gate).await, &["JF007 tenant_unknown"])
}

async fn a_request_without_a_sound_claim_is_refused(site: &Site) -> Verdict {
    let (missing, malformed): (&[&str], &[&str]) = (&["JF009 claim_missing"], &["JF009 claim_malformed"]);
    for (claims, wanted) in [
        (json!({}), missing),
        (json!({ "role": WEB }), missing),
        (json!({ "tenant_id": TENANT_A }), missing),
        (json!({ "app_metadata": {} }), missing),
        (json!({ "app_metadata": null }), missing),
        (json!({ "app_metadata": TENANT_A }), missing),
        (json!({ "app_metadata": [{ "tenant_id": TENANT_A }] }), missing),
        (json!({ "app_metadata": { "tenant_id": null } }), missing),
        (json!([{ "app_metadata": { "tenant_id": TENANT_A } }]), missing),
        (json!({ "app_metadata": { "tenant_id": "" } }), malformed),
        (json!({ "app_metadata": { "tenant_id": "null" } }), malformed),
        (json!({ "app_metadata": { "tenant_id": 1 } }), malformed),
        (json!({ "app_metadata": { "tenant_id": true } }), malformed),
        (json!({ "app_metadata": { "tenant_id": [TENANT_A] } }), malformed),
        (json!({ "app_metadata": { "tenant_id": { "id": TENANT_A } } }), malformed),
        (json!({ "app_metadata": { "tenant_id": format!("{{{TENANT_A}}}") } }), malformed),
        (json!({ "app_metadata": { "tenant_id": format!("{TENANT_A} ") } }), malformed),
        (json!({ "app_metadata": { "tenant_id": format!("{TENANT_A}\n{TENANT_B}") } }), malformed),
        (json!({ "app_metadata": { "tenant_id": "x' or 1=1 --" } }), malformed),
        (json!({ "app_metadata": { "tenant_id": Uuid::from_u128(0xdead) } }), &["JF007 tenant_unknown"]),
    ] {
        refused(&claims.to_string(), with(&claims).open(&site.gate).await, wanted)?;
    }
    for (text, wanted) in
        [("", missing), ("null", missing), ("\"x\"", missing), ("{", malformed), ("x", malformed)]
    {
        let request = Request { claims: text.to_owned(), ..with(&json!({})) };
        refused(text, request.open(&site.gate).await, wanted)?;
    }
    // A connection on which no request ever set any claims.
    let fresh = connect_as(&site.db, GATE).await;
    works("a role", fresh.batch_execute(&format!("begin; set local role {WEB}")).await)?;
    refused("no claims at all", fresh.execute("select jobforge.pre_request()", &[]).await, missing)
}

/// Users write their own `user_metadata`.
async fn a_claim_that_users_edit_is_not_believed(site: &Site) -> Verdict {
    let own =
        json!({ "user_metadata": { "tenant_id": TENANT_B, "app_metadata": { "tenant_id": TENANT_B } } });
    refused("user_metadata alone", with(&own).open(&site.gate).await, &["JF009 claim_missing"])?;
    store_rows(site).await?;
    let mut both = token(TENANT_A);
    both["user_metadata"] = json!({ "tenant_id": TENANT_B });
    both["tenant_id"] = json!(TENANT_B);
    same("whose rows are read", works("read", with(&both).read(&site.gate).await)?, vec![TENANT_A])?;
    let foreign = with(&both).enqueue(&site.gate, TENANT_B).await;
    refused("user_metadata beside", foreign, &["JF009 tenant_mismatch"])
}

fn headers() -> Value {
    json!({ "x-tenant-id": TENANT_B, "app.tenant_id": TENANT_B, "tenant_id": TENANT_B,
        "prefer": format!("params=single-object, app.tenant_id={TENANT_B}"),
        "request.jwt.claims": token(TENANT_B).to_string() })
}

async fn headers_and_cookies_name_no_tenant(site: &Site) -> Verdict {
    store_rows(site).await?;
    for claims in ["{}", ""] {
        let bare = Request { claims: claims.to_owned(), headers: headers(), ..with(&json!({})) };
        refused("headers alone", bare.open(&site.gate).await, &["JF009 claim_missing"])?;
    }
    let request = Request { headers: headers(), ..with(&token(TENANT_A)) };
    same("whose rows are read", works("read", request.read(&site.gate).await)?, vec![TENANT_A])?;
    refused("headers beside", request.enqueue(&site.gate, TENANT_B).await, &["JF009 tenant_mismatch"])
}

async fn an_argument_names_no_other_tenant(site: &Site) -> Verdict {
    store_rows(site).await?;
    let request = with(&token(TENANT_A));
    for call in [
        format!("select * from jobforge.enqueue_jobs('{TENANT_B}', '{{{NOOP}}}', '{{\"{{}}\"}}')"),
        format!("select * from jobforge.get_job('{TENANT_B}', '{STORED}')"),
        format!("select * from jobforge.list_jobs('{TENANT_B}')"),
        format!("select * from jobforge.list_attempts('{TENANT_B}', '{STORED}')"),
        format!("select * from jobforge.cancel_job('{TENANT_B}', '{STORED}')"),
        format!("select * from jobforge.retry_job('{TENANT_B}', '{STORED}')"),
        format!("select * from jobforge.reschedule_job('{TENANT_B}', '{STORED}', now())"),
    ] {
        let answer = request.ask(&site.gate, async |gate| gate.query(&call, &[]).await).await;
        refused(&call, answer, &["JF009 tenant_mismatch"])?;
    }
    // Nor does a caller's token open what belongs to workers and operators.
    for call in
        ["select * from jobforge.list_workers()", "select jobforge.resign('x')", "select jobforge.look('w1')"]
    {
        let answer = request.ask(&site.gate, async |gate| gate.query(call, &[]).await).await;
        refused(call, answer, &[DENIED])?;
    }
    Ok(())
}

/// A configuration that forgets `db-pre-request` is closed, not open.
async fn without_the_gate_there_is_nothing(site: &Site) -> Verdict {
    store_rows(site).await?;
    let request = Request { gate: false, headers: headers(), ..with(&token(TENANT_A)) };
    same("rows", works("read", request.read(&site.gate).await)?, vec![])?;
    refused("enqueue", request.enqueue(&site.gate, TENANT_A).await, &["JF009 tenant_mismatch"])
}

async fn nothing_is_left_for_the_next_request(site: &Site) -> Verdict {
    store_rows(site).await?;
    let next = Request { gate: false, ..with(&json!({})) };
    for ending in ["commit", "rollback"] {
        works("a request", with(&token(TENANT_A)).open(&site.gate).await)?;
        works(ending, site.gate.batch_execute(ending).await)?;
        same("rows for the next request", works("read", next.read(&site.gate).await)?, vec![])?;
        let left = "select coalesce(current_setting('app.tenant_id', true), '') || current_setting('role')
                    || coalesce(current_setting('request.jwt.claims', true), '')";
        let row = works("look", site.gate.query_one(left, &[]).await)?;
        same("what is left of the request", row.get::<_, String>(0), "none".to_owned())?;
    }
    let refused_one = with(&json!({ "app_metadata": { "tenant_id": Uuid::from_u128(0xdead) } }));
    refused("a refused request", refused_one.open(&site.gate).await, &["JF007 tenant_unknown"])?;
    same("rows after a refused one", works("read", next.read(&site.gate).await)?, vec![])?;
    same("another tenant's", works("read", with(&token(TENANT_B)).read(&site.gate).await)?, vec![TENANT_B])
}

/// Neither the role for callers without a token nor the login itself may anything, whatever the claims say.
async fn a_request_without_a_token_gets_nothing(site: &Site) -> Verdict {
    for role in [ANON, "none"] {
        for gate in [true, false] {
            let request = Request { role, gate, ..with(&token(TENANT_A)) };
            refused(role, request.enqueue(&site.gate, TENANT_A).await, &[DENIED])?;
            refused(role, request.read(&site.gate).await, &[DENIED])?;
        }
    }
    for role in ["jf_operator", "jf_worker", "jf_fn", "jf_sys", "jf_owner", "postgres"] {
        let request = Request { role, ..with(&token(TENANT_A)) };
        refused(role, request.open(&site.gate).await, &[DENIED])?;
    }
    Ok(())
}

/// A login of its own for each tenant's PostgREST: then a token of another tenant is of no use.
async fn a_bound_gate_serves_one_tenant(site: &Site) -> Verdict {
    store_rows(site).await?;
    let bind = "select jobforge.bind_login($1, $2)";
    works("bind the gate", site.operator.query(bind, &[&GATE, &TENANT_A]).await)?;
    let found = async {
        same("its own", works("read", with(&token(TENANT_A)).read(&site.gate).await)?, vec![TENANT_A])?;
        refused("another's", with(&token(TENANT_B)).open(&site.gate).await, &["JF009 login_not_bound"])
    };
    let found = found.await;
    works("trust it again", site.operator.query("select jobforge.bind_login($1)", &[&GATE]).await)?;
    found
}

async fn an_unregistered_gate_serves_nobody(site: &Site) -> Verdict {
    let forget = format!("delete from jobforge.logins where role_name = '{GATE}'");
    works("forget the gate", site.admin.batch_execute(&forget).await)?;
    let found = refused("a token", with(&token(TENANT_A)).open(&site.gate).await, &["JF009 login_not_bound"]);
    works("trust it again", site.operator.query("select jobforge.bind_login($1)", &[&GATE]).await)?;
    found
}

/// Whether a caller is an operator is asked of the session's login, which here is everybody's.
async fn a_gate_that_can_become_more_serves_nobody(site: &Site) -> Verdict {
    for login in [OPERATOR_GATE, WORKER_GATE] {
        let gate = connect_as(&site.db, login).await;
        let request = with(&token(TENANT_A));
        refused(login, request.open(&gate).await, &["JF009 login_too_powerful"])?;
    }
    Ok(())
}

async fn the_gates_function_called_as_a_request_changes_nothing(site: &Site) -> Verdict {
    store_rows(site).await?;
    let request = Request { headers: headers(), ..with(&token(TENANT_A)) };
    let twice = async |gate: &Client| {
        gate.execute("select jobforge.pre_request()", &[]).await?;
        gate.query_one("select current_setting('app.tenant_id')", &[])
            .await
            .map(|row| row.get::<_, String>(0))
    };
    same("the tenant", works("call", request.ask(&site.gate, twice).await)?, TENANT_A.to_string())?;
    let inner = "select jobforge.claimed_tenant('{\"app_metadata\": {\"tenant_id\": \"22222222-2222-2222-2222-222222222222\"}}')";
    let answer = request.ask(&site.gate, async |gate| gate.execute(inner, &[]).await).await;
    refused("what it is made of", answer, &[DENIED])
}

/// The guide's function for a PostgREST that serves more than JobForge: it lets requests without a tenant pass, to what is
/// the application's own.
async fn a_gate_of_an_application_with_schemas_of_its_own_is_closed_too(site: &Site) -> Verdict {
    let guide = include_str!("../../../../../docs/guides/postgrest.md");
    let own = guide.split("```sql superuser").find(|block| block.contains("function api.pre_request()"));
    let own = own.and_then(|block| block.split("```").next()).ok_or("the guide has no function for this")?;
    let setup = format!(
        "create schema if not exists api; grant usage on schema api to {WEB}, {ANON}; {own}
         grant execute on function api.pre_request() to {WEB}, {ANON}"
    );
    works("make the application's own", site.admin.batch_execute(&setup).await)?;
    store_rows(site).await?;
    let ask = async |request: &Request, sql: &str| {
        let open =
            Request { gate: false, claims: request.claims.clone(), headers: headers(), role: request.role };
        open.ask(&site.gate, async |gate| {
            gate.execute("select api.pre_request()", &[]).await?;
            gate.query(sql, &[]).await.map(|rows| rows.iter().map(|row| row.get(0)).collect::<Vec<Uuid>>())
        })
        .await
    };
    let rows = "select distinct tenant_id from jobforge.jobs";
    same("a token's", works("read", ask(&with(&token(TENANT_A)), rows).await)?, vec![TENANT_A])?;
    let bare = with(&json!({ "user_metadata": { "tenant_id": TENANT_B } }));
    same("one without a tenant", works("read", ask(&bare, rows).await)?, vec![])?;
    let enqueue = format!("select id from jobforge.enqueue_job('{TENANT_B}', '{NOOP}')");
    refused("an enqueue without a tenant", ask(&bare, &enqueue).await, &["JF009 tenant_mismatch"])?;
    let anon = Request { role: ANON, ..with(&json!({})) };
    same(
        "the application's own",
        works("ask", ask(&anon, "select gen_random_uuid() where false").await)?,
        vec![],
    )?;
    refused("no token", ask(&anon, rows).await, &[DENIED])?;
    let malformed = with(&json!({ "app_metadata": { "tenant_id": 1 } }));
    refused("a malformed claim", ask(&malformed, rows).await, &["JF009 claim_malformed"])
}
