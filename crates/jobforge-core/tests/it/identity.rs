//! Keys, whom a call is made for, what is written down of it, and what a server asks for its callers.

use std::time::Duration;

use jiff::Timestamp;
use jobforge_core::rpc::{
    as_actor, cancel_job, complete_job, create_api_key, find_api_key, finished_jobs, has_keys, list_api_keys,
    list_audit, list_jobs, list_logs, list_system_audit, record_audit, revoke_api_key, set_actor,
    touch_api_keys, upsert_tenant,
};
use jobforge_core::{
    Actor, AuditFilter, Code, Error, JobFilter, KeyScope, Level, LogLine, LogPosition, LogsRequest, NewKey,
    Role, Subject, Tenant,
};
use jobforge_testkit::{APP, OPERATOR, Pooler, TENANT_A, TENANT_B};

use crate::story::{Story, json, noop, refused, unknown_job};

fn key(id: &str, scope: KeyScope) -> NewKey {
    NewKey {
        id: id.to_owned(),
        secret_sha256: [7; 32],
        scope,
        name: "till".to_owned(),
        expires_at: None,
        author: Some("ann".to_owned()),
        only_first: false,
    }
}

fn actor(credential: &str) -> Actor {
    Actor { credential: credential.to_owned(), request_id: Some("r-1".to_owned()) }
}

#[tokio::test]
async fn a_key_lives_from_its_making_to_its_end() {
    let story = Story::begin().await;
    let operator = &story.operator;
    assert!(!has_keys(operator).await.unwrap());
    let first = NewKey { only_first: true, ..key("first0000000", KeyScope::SuperAdmin) };
    let made = create_api_key(operator, &first).await.unwrap();
    assert_eq!((made.role, made.tenant_id, made.created_by.as_str()), (Role::SuperAdmin, None, "ann"));
    let again = NewKey { only_first: true, ..key("again0000000", KeyScope::SuperAdmin) };
    let late = refused(create_api_key(operator, &again).await);
    assert_eq!(late, (Code::WrongState, "keys_exist".to_owned()));
    assert!(has_keys(operator).await.unwrap());

    for scope in [
        KeyScope::TenantAdmin(TENANT_A),
        KeyScope::TenantViewer(TENANT_A),
        KeyScope::Producer(TENANT_A),
        KeyScope::Worker(Some(TENANT_A)),
        KeyScope::Worker(None),
    ] {
        let id = format!("{}000000000000", scope.role().as_str().replace('_', "")).split_at(12).0.to_owned();
        let id = if scope == KeyScope::Worker(None) { "workerofall0".to_owned() } else { id };
        let expires_at = Some(Timestamp::now() + Duration::from_secs(3600));
        create_api_key(operator, &NewKey { expires_at, ..key(&id, scope) }).await.unwrap();
        let found = find_api_key(operator, &id).await.unwrap().unwrap();
        assert_eq!(
            (found.scope, found.secret_sha256, found.expired, found.revoked),
            (scope, [7; 32], false, false)
        );
        assert!(found.expires_at.is_some() && !format!("{found:?}").contains("7, 7"), "{found:?}");
    }
    assert_eq!(find_api_key(operator, "nosuchkey000").await.unwrap(), None);
    assert_eq!(find_api_key(operator, "with\0nul0000").await.unwrap(), None);

    let of_a = list_api_keys(operator, Some(TENANT_A), 2, None).await.unwrap();
    let rest = list_api_keys(operator, Some(TENANT_A), 10, Some(&of_a[1].id)).await.unwrap();
    assert_eq!((of_a.len(), rest.len()), (2, 2));
    let used = Timestamp::from_microsecond(Timestamp::now().as_microsecond() - 1_000_000).unwrap();
    assert_eq!(touch_api_keys(operator, &[("producer0000".to_owned(), used)]).await.unwrap(), 1);
    assert!(revoke_api_key(operator, "producer0000", Some("bob"), Some(TENANT_A)).await.unwrap());
    assert!(!revoke_api_key(operator, "producer0000", None, None).await.unwrap());
    let unknown = refused(revoke_api_key(operator, "workerofall0", None, Some(TENANT_A)).await);
    assert_eq!(unknown, (Code::NotFound, "api_key_unknown".to_owned()));
    for (given, repeated) in
        [("nosuchkey000", true), ("secretOfSomeKey", false), ("jf_nosuchkey000_canary", false)]
    {
        let told = revoke_api_key(operator, given, None, None).await.unwrap_err();
        assert_eq!(told.to_string().contains(given), repeated, "{told}");
    }
    let all = list_api_keys(operator, None, 100, None).await.unwrap();
    let revoked = all.iter().find(|key| key.id == "producer0000").unwrap();
    assert_eq!((revoked.last_used_at, revoked.revoked_by.as_deref()), (Some(used), Some("bob")));
    assert!(find_api_key(operator, "producer0000").await.unwrap().unwrap().revoked);
}

#[test]
fn a_role_and_a_tenant_that_do_not_go_together_are_no_scope() {
    for role in [Role::SuperAdmin, Role::TenantAdmin, Role::TenantViewer, Role::Producer, Role::Worker] {
        assert_eq!(Role::parse(role.as_str()), Some(role));
        for tenant in [None, Some(TENANT_A)] {
            let fits = match role {
                Role::SuperAdmin => tenant.is_none(),
                Role::Worker => true,
                _ => tenant.is_some(),
            };
            let scope = KeyScope::of(role, tenant);
            assert_eq!(scope.map(|scope| (scope.role(), scope.tenant())), fits.then_some((role, tenant)));
        }
    }
    assert_eq!(Role::parse("root"), None);
}

#[tokio::test]
async fn a_call_is_written_down_for_whom_it_was_made() {
    let story = Story::begin().await;
    let id = story.enqueue(&noop()).await.id;
    let ann = actor("key jf_ann (tenant_admin)");
    let canceled =
        as_actor(&story.app, &ann, cancel_job(&story.app, TENANT_A, id, Some("why"))).await.unwrap();
    assert_eq!(canceled.status, "canceled");
    let filter = AuditFilter {
        subject_kind: Some("job".to_owned()),
        subject_id: Some(id.to_string()),
        ..AuditFilter::default()
    };
    let page = list_audit(&story.app, TENANT_A, &filter).await.unwrap();
    let [entry] = &page.entries[..] else { panic!("one entry was expected: {page:?}") };
    assert_eq!((entry.action.as_str(), entry.actor.as_str(), entry.job_id), ("cancel", APP, Some(id)));
    assert_eq!(entry.credential.as_deref(), Some("key jf_ann (tenant_admin)"));
    assert_eq!((entry.request_id.as_deref(), entry.tenant_id), (Some("r-1"), TENANT_A));
    assert!(entry.detail.get().contains("why") && page.complete && page.next_cursor.is_none());

    // What is said of one call is not said of the next on the same connection.
    let other = story.enqueue(&noop()).await.id;
    cancel_job(&story.app, TENANT_A, other, None).await.unwrap();
    let filter = AuditFilter { subject_id: Some(other.to_string()), ..filter };
    let page = list_audit(&story.app, TENANT_A, &filter).await.unwrap();
    assert_eq!((&page.entries[0].credential, &page.entries[0].request_id), (&None, &None));
    let by_b = list_audit(&story.app, TENANT_B, &AuditFilter::default()).await.unwrap();
    assert!(by_b.entries.iter().all(|entry| entry.tenant_id == TENANT_B));
}

#[tokio::test]
async fn a_refused_call_leaves_nothing_behind_and_the_connection_free() {
    let story = Story::begin().await;
    let unknown = unknown_job().id;
    let answer = as_actor(&story.app, &actor("ann"), cancel_job(&story.app, TENANT_A, unknown, None)).await;
    assert_eq!(refused(answer), (Code::NotFound, "job_unknown".to_owned()));
    let id = story.enqueue(&noop()).await.id;
    as_actor(&story.app, &actor("bob"), cancel_job(&story.app, TENANT_A, id, None)).await.unwrap();
    for (who, deeds) in [("ann", 0), ("bob", 1)] {
        let filter = AuditFilter { actor: Some(who.to_owned()), ..AuditFilter::default() };
        assert_eq!(list_audit(&story.app, TENANT_A, &filter).await.unwrap().entries.len(), deeds, "{who}");
    }
    // What never reaches the database is refused all the same, and its transaction ended.
    let eve = actor("eve");
    let local = as_actor(&story.app, &eve, async { Err::<(), _>(Error::Closed { operation: "eve" }) }).await;
    assert!(matches!(local, Err(Error::Closed { .. })));
    assert_eq!(open_transactions(&story).await, 0);
}

async fn open_transactions(story: &Story) -> i64 {
    let sql = "select count(*) from pg_stat_activity
               where state like 'idle in transaction%' and datname = current_database()";
    story.db.connect_super().await.query_one(sql, &[]).await.unwrap().get(0)
}

/// A request that is given up on its way is done all the same, or not at all; nothing stays open.
#[tokio::test]
async fn a_call_that_is_dropped_on_its_way_ends_with_its_commit_or_did_not_begin() {
    let story = Story::begin().await;
    let id = story.enqueue(&noop()).await.id;
    let ann = actor("ann");
    for (polls, done) in [(1, false), (2, true)] {
        let mut call = Box::pin(as_actor(&story.app, &ann, cancel_job(&story.app, TENANT_A, id, None)));
        for _ in 0..polls {
            let answered = std::future::poll_fn(|cx| std::task::Poll::Ready(call.as_mut().poll(cx))).await;
            assert!(answered.is_pending(), "it was answered before it was sent");
            // Statements of one connection are answered in their order: by now it has begun.
            story.app.batch_execute("select 1").await.unwrap();
        }
        drop(call);
        let page = list_audit(&story.app, TENANT_A, &AuditFilter::default()).await.unwrap();
        let by_ann = page.entries.iter().any(|entry| entry.credential.as_deref() == Some("ann"));
        assert_eq!(by_ann, done, "{polls}");
        assert_eq!(open_transactions(&story).await, 0, "{polls}");
    }
}

/// Three callers over two sessions: whoever comes next on a session is not taken for who was there before.
#[tokio::test]
async fn behind_a_pooler_each_call_is_its_own_actors() {
    let story = Story::begin().await;
    let pooler = Pooler::start(&story.db, APP).await;
    let clients = [pooler.connect().await, pooler.connect().await, pooler.connect().await];
    let mut deeds = Vec::new();
    for round in 0..10 {
        let calls = clients.iter().enumerate().map(async |(n, client)| {
            let id = story.enqueue(&noop()).await.id;
            let who = (n > 0).then(|| format!("caller {n} in round {round}"));
            match &who {
                Some(who) => {
                    as_actor(client, &actor(who), cancel_job(client, TENANT_A, id, None)).await.unwrap()
                }
                None => cancel_job(client, TENANT_A, id, None).await.unwrap(),
            };
            (id, who)
        });
        deeds.extend(futures_util::future::join_all(calls).await);
    }
    let filter = AuditFilter { subject_kind: Some("job".to_owned()), limit: 1000, ..AuditFilter::default() };
    let page = list_audit(&story.app, TENANT_A, &filter).await.unwrap();
    let mut told: Vec<_> =
        page.entries.into_iter().map(|entry| (entry.job_id.unwrap(), entry.credential)).collect();
    told.sort();
    deeds.sort();
    assert_eq!(told, deeds);
}

#[tokio::test]
async fn a_server_notes_its_own_deeds_and_an_operator_reads_all() {
    let story = Story::begin().await;
    let root = actor("key jf_root (super_admin)");
    let subject = Subject::new("job", unknown_job().id.to_string());
    let detail = json(r#"{"path":"/jobs"}"#);
    let note = record_audit(&story.operator, Some(TENANT_A), "act_for", Some(&subject), &detail);
    as_actor(&story.operator, &root, note).await.unwrap();
    let change = Tenant { weight: Some(9), ..Tenant::new(TENANT_B) };
    as_actor(&story.operator, &root, upsert_tenant(&story.operator, &change)).await.unwrap();
    record_audit(&story.operator, None, "start", None, &json("{}")).await.unwrap();
    let filter = AuditFilter { actor: Some(root.credential.clone()), limit: 1, ..AuditFilter::default() };
    let first = list_system_audit(&story.operator, None, &filter).await.unwrap();
    let next = AuditFilter { cursor: first.next_cursor.clone(), ..filter.clone() };
    let second = list_system_audit(&story.operator, None, &next).await.unwrap();
    let told: Vec<_> =
        [&first.entries[0], &second.entries[0]].map(|e| (e.tenant_id, e.action.as_str())).to_vec();
    assert_eq!(told, [(TENANT_B, "upsert_tenant"), (TENANT_A, "act_for")]);
    assert_eq!(second.entries[0].detail.get().replace(' ', ""), r#"{"path":"/jobs"}"#);
    let of_a = list_system_audit(&story.operator, Some(TENANT_A), &filter).await.unwrap();
    assert_eq!((of_a.entries.len(), of_a.entries[0].subject_id.as_ref()), (1, Some(&subject.id)));
    let system = AuditFilter { actor: Some(OPERATOR.to_owned()), ..AuditFilter::default() };
    let page = list_system_audit(&story.operator, Some(uuid::Uuid::nil()), &system).await.unwrap();
    assert_eq!(page.entries[0].action, "start");
    let bad = record_audit(&story.operator, None, "Not an action", None, &detail).await;
    assert_eq!(refused(bad), (Code::InvalidArgument, "action_malformed".to_owned()));
}

/// That a super-admin acts for a tenant is noted with what he does, or neither is there.
#[tokio::test]
async fn joined_calls_are_one_deed() {
    let story = Story::begin().await;
    let operator = &story.operator;
    let detail = json("{}");
    let id = story.enqueue(&noop()).await.id;
    for (who, job, done) in [("ann", unknown_job().id, false), ("bob", id, true)] {
        let note = record_audit(operator, Some(TENANT_A), "act_for", None, &detail);
        let both = futures_util::future::try_join(note, cancel_job(operator, TENANT_A, job, None));
        assert_eq!(as_actor(operator, &actor(who), both).await.is_ok(), done, "{who}");
        let filter = AuditFilter { actor: Some(who.to_owned()), ..AuditFilter::default() };
        let page = list_audit(operator, TENANT_A, &filter).await.unwrap();
        let mut told: Vec<_> = page.entries.iter().map(|entry| entry.action.as_str()).collect();
        told.sort_unstable();
        assert_eq!(told, if done { vec!["act_for", "cancel"] } else { vec![] });
    }
}

/// In a transaction of the caller's own.
#[tokio::test]
async fn an_actor_is_that_of_the_rest_of_its_transaction() {
    let mut story = Story::begin().await;
    let (first, second) = (story.enqueue(&noop()).await.id, story.enqueue(&noop()).await.id);
    let transaction = story.app.transaction().await.unwrap();
    set_actor(&transaction, &Actor { credential: "ann".to_owned(), request_id: None }).await.unwrap();
    for id in [first, second] {
        cancel_job(&transaction, TENANT_A, id, None).await.unwrap();
    }
    transaction.commit().await.unwrap();
    let filter = AuditFilter { actor: Some("ann".to_owned()), ..AuditFilter::default() };
    let page = list_audit(&story.app, TENANT_A, &filter).await.unwrap();
    assert_eq!(page.entries.len(), 2);
    assert!(page.entries.iter().all(|entry| entry.request_id.is_none()));
}

#[tokio::test]
async fn logs_are_read_in_pages_and_waiters_asked_for_together() {
    let story = Story::begin().await;
    let running = story.running().await;
    let lines: Vec<LogLine> =
        (1..=3).map(|n| LogLine { level: Level::Warn, message: format!("line {n}") }).collect();
    jobforge_core::rpc::append_log(&story.worker, running.lease_id, running.job, &lines).await.unwrap();
    let id = running.job.id;
    let request = LogsRequest { limit: 2, ..LogsRequest::default() };
    let page = list_logs(&story.app, TENANT_A, id, request).await.unwrap();
    assert_eq!((page.len(), page[1].position()), (2, LogPosition { number: 1, line: 2 }));
    let rest = LogsRequest { after: Some(page[1].position()), number: Some(1), ..request };
    let rest = list_logs(&story.app, TENANT_A, id, rest).await.unwrap();
    assert_eq!((rest[0].message.as_str(), rest[0].level.as_str(), rest.len()), ("line 3", "warn", 1));
    let unknown = refused(list_logs(&story.app, TENANT_A, unknown_job().id, request).await);
    assert_eq!(unknown, (Code::NotFound, "job_unknown".to_owned()));

    let asked = [(TENANT_A, id), (TENANT_B, id)];
    assert_eq!(finished_jobs(&story.operator, &asked).await.unwrap(), []);
    complete_job(&story.worker, running.lease_id, running.job, None).await.unwrap();
    let over = finished_jobs(&story.operator, &asked).await.unwrap();
    assert_eq!(over.len(), 1);
    assert_eq!((over[0].tenant_id, over[0].id, over[0].status.as_str()), (TENANT_A, id, "succeeded"));
    let none = refused(finished_jobs(&story.operator, &[]).await);
    assert_eq!(none, (Code::InvalidArgument, "batch_size".to_owned()));
}

#[tokio::test]
async fn jobs_are_listed_by_label_and_payload() {
    let story = Story::begin().await;
    let job = noop().tags(["eu"]);
    let labelled = story.enqueue(&job).await.id;
    let by_payload = jobforge_core::NewJob::raw(jobforge_testkit::NOOP, json(r#"{"order":{"id":7}}"#));
    let ordered = story.enqueue(&by_payload).await.id;
    let tag = JobFilter { tag: Some("eu".to_owned()), ..JobFilter::default() };
    let payload = JobFilter { payload: Some(json(r#"{"order":{"id":7}}"#)), ..JobFilter::default() };
    for (filter, wanted) in [(tag, labelled), (payload, ordered)] {
        let page = list_jobs(&story.app, TENANT_A, &filter).await.unwrap();
        assert_eq!(page.jobs.iter().map(|job| job.id).collect::<Vec<_>>(), [wanted]);
    }
}
