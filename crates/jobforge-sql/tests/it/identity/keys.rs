//! Keys: made, found, used, expired, revoked; and the first of them.

use std::future::poll_fn;
use std::time::Duration;

use jobforge_testkit::Session;
use tokio_postgres::{AsyncMessage, NoTls, Row};
use uuid::Uuid;

use crate::races::stage::{Stage, refusal};
use crate::schema::{OPERATOR, TENANT_A, TENANT_B};

const HASH: &str = "sha256('secret')";

/// Generous, because it only passes when a story fails.
const PATIENCE: Duration = Duration::from_secs(30);

async fn make(session: &Session, arguments: &str) -> Result<Vec<Row>, tokio_postgres::Error> {
    let sql = format!("select * from jobforge.create_api_key({arguments})");
    session.query(&sql, &[]).await
}

async fn made(stage: &Stage, id: &str, rest: &str) {
    make(&stage.operator, &format!("'{id}', {HASH}, {rest}")).await.unwrap();
}

/// `expired`, `revoked` of a key.
async fn state(stage: &Stage, id: &str) -> (bool, bool) {
    let sql = "select expired, revoked from jobforge.find_api_key($1)";
    let row = stage.operator.client().query_one(sql, &[&id]).await.unwrap();
    (row.get(0), row.get(1))
}

async fn revoke(stage: &Stage, id: &str) -> bool {
    let sql = "select jobforge.revoke_api_key($1, 'ann')";
    stage.operator.client().query_one(sql, &[&id]).await.unwrap().get(0)
}

#[tokio::test]
async fn a_key_is_told_as_it_was_made_and_found_by_its_hash() {
    let stage = Stage::set().await;
    let arguments = format!(
        "'abc234def567', {HASH}, 'producer', '{TENANT_A}', 'till', jobforge.clock() + interval '1 hour', 'ann'"
    );
    let row = make(&stage.operator, &arguments).await.unwrap().remove(0);
    let texts = |names: &[&str]| -> Vec<String> { names.iter().map(|name| row.get(*name)).collect() };
    assert_eq!(texts(&["id", "role", "name", "created_by"]), ["abc234def567", "producer", "till", "ann"]);
    assert_eq!(row.get::<_, Uuid>("tenant_id"), TENANT_A);
    let hash = "select secret_sha256 = sha256('secret') from jobforge.find_api_key('abc234def567')";
    assert!(stage.operator.client().query_one(hash, &[]).await.unwrap().get::<_, bool>(0));
    let unknown = "select from jobforge.find_api_key('nosuchkey000')";
    assert!(stage.operator.query(unknown, &[]).await.unwrap().is_empty());
    made(&stage, "namelessauth", "'worker'").await;
    let author = "select created_by from jobforge.list_api_keys() where id = 'namelessauth'";
    let row = stage.operator.client().query_one(author, &[]).await.unwrap();
    assert_eq!(row.get::<_, String>(0), OPERATOR, "who is not named is the login");
}

#[tokio::test]
async fn what_is_no_key_is_refused_and_not_stored() {
    let stage = Stage::set().await;
    made(&stage, "taken0000000", "'worker'").await;
    let nobody = Uuid::from_u128(0xdead);
    for (arguments, wanted) in [
        (format!("null, {HASH}, 'worker'"), "JF001 key_id_malformed"),
        (format!("'short', {HASH}, 'worker'"), "JF001 key_id_malformed"),
        (format!("'UPPERCASE000', {HASH}, 'worker'"), "JF001 key_id_malformed"),
        (format!("'with_under00', {HASH}, 'worker'"), "JF001 key_id_malformed"),
        ("'good00000000', null, 'worker'".to_owned(), "JF001 secret_hash_malformed"),
        ("'good00000000', 'the secret itself', 'worker'".to_owned(), "JF001 secret_hash_malformed"),
        (format!("'good00000000', {HASH}, null"), "JF001 key_role_unknown"),
        (format!("'good00000000', {HASH}, 'root'"), "JF001 key_role_unknown"),
        (format!("'good00000000', {HASH}, 'super_admin', '{TENANT_A}'"), "JF001 key_tenant_given"),
        (format!("'good00000000', {HASH}, 'tenant_admin'"), "JF001 key_tenant_missing"),
        (format!("'good00000000', {HASH}, 'tenant_viewer'"), "JF001 key_tenant_missing"),
        (format!("'good00000000', {HASH}, 'producer'"), "JF001 key_tenant_missing"),
        (format!("'good00000000', {HASH}, 'producer', '{nobody}'"), "JF007 tenant_unknown"),
        (format!("'good00000000', {HASH}, 'worker', p_name => repeat('x', 201)"), "JF001 name_length"),
        (format!("'good00000000', {HASH}, 'worker', p_author => ''"), "JF001 author_length"),
        (format!("'good00000000', {HASH}, 'worker', p_author => repeat('x', 256)"), "JF001 author_length"),
        (
            format!("'good00000000', {HASH}, 'worker', p_expires_at => jobforge.clock()"),
            "JF001 expiry_in_the_past",
        ),
        (format!("'taken0000000', {HASH}, 'worker'"), "JF008 api_key_exists"),
    ] {
        assert_eq!(refusal(make(&stage.operator, &arguments).await), wanted, "{arguments}");
    }
    assert_eq!(stage.count("select count(*) from jobforge.api_keys").await, 1);
    assert_eq!(
        stage.count("select count(*) from jobforge.audit_log where subject_kind = 'api_key'").await,
        1
    );
    for (rest, author) in [("'good00000000'", "''"), ("'nosuchkey000'", "null")] {
        let answer =
            stage.operator.query(&format!("select jobforge.revoke_api_key({rest}, {author})"), &[]).await;
        let wanted = if author == "''" { "JF001 author_length" } else { "JF007 api_key_unknown" };
        assert_eq!(refusal(answer), wanted);
    }
    let limit = stage.operator.query("select jobforge.list_api_keys(p_limit => 0)", &[]).await;
    assert_eq!(refusal(limit), "JF001 limit_out_of_range");
}

/// The table itself holds what the function refuses: whoever gets around the one meets the other.
#[tokio::test]
async fn a_role_without_its_tenant_is_not_stored_by_anybody() {
    let stage = Stage::set().await;
    for (role, tenant, rule) in [
        ("super_admin", format!("'{TENANT_A}'"), "api_keys_role_fits_tenant"),
        ("tenant_admin", "null".to_owned(), "api_keys_role_fits_tenant"),
        ("producer", "null".to_owned(), "api_keys_role_fits_tenant"),
        ("root", "null".to_owned(), "api_keys_role_known"),
    ] {
        let sql = format!(
            "insert into jobforge.api_keys (id, secret_sha256, role, tenant_id, created_at, created_by)
             values ('meddled00000', sha256('x'), '{role}', {tenant}, now(), 'x')"
        );
        let error = stage.admin.batch_execute(&sql).await.unwrap_err();
        assert!(
            [Some(rule), Some("api_keys_role_fits_tenant")]
                .contains(&error.as_db_error().unwrap().constraint()),
            "{role} {tenant}: {error:?}"
        );
    }
}

#[tokio::test]
async fn a_revoked_key_is_told_to_all_who_listen_and_stays_revoked() {
    let stage = Stage::set().await;
    made(&stage, "revoked00000", &format!("'tenant_admin', '{TENANT_A}'")).await;
    let url = stage.db.url_as(OPERATOR, None);
    let (listener, mut connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
    let (heard_at, mut heard) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Some(Ok(message)) = poll_fn(|cx| connection.poll_message(cx)).await {
            if let AsyncMessage::Notification(told) = message {
                heard_at.send(format!("{} {}", told.channel(), told.payload())).unwrap();
            }
        }
    });
    listener.batch_execute("listen jobforge_keys").await.unwrap();
    assert_eq!(state(&stage, "revoked00000").await, (false, false));
    for first in [true, false] {
        assert_eq!(revoke(&stage, "revoked00000").await, first);
        // The server that missed the first is told again.
        let told = tokio::time::timeout(PATIENCE, heard.recv()).await.expect("nobody was told");
        assert_eq!(told.unwrap(), "jobforge_keys revoked00000");
        assert_eq!(state(&stage, "revoked00000").await, (false, true));
    }
    let sql = "select count(*) from jobforge.audit_log where action = 'revoke_api_key' and tenant_id = '11111111-1111-1111-1111-111111111111'
               and subject_id = 'revoked00000' and detail ->> 'author' = 'ann'";
    assert_eq!(stage.count(sql).await, 1, "revoked once");
    let by = "select revoked_by from jobforge.list_api_keys($1) where id = 'revoked00000'";
    let row = stage.operator.client().query_one(by, &[&TENANT_A]).await.unwrap();
    assert_eq!(row.get::<_, String>(0), "ann");
}

#[tokio::test]
async fn a_key_expires_by_the_databases_clock() {
    let stage = Stage::set().await;
    made(&stage, "expires00000", "'super_admin', p_expires_at => jobforge.clock() + interval '10 seconds'")
        .await;
    stage.lose(9.9).await;
    assert_eq!(state(&stage, "expires00000").await, (false, false));
    stage.lose(0.1).await;
    assert_eq!(state(&stage, "expires00000").await, (true, false));
}

/// The last use of each key, in seconds from now.
async fn used(stage: &Stage, id: &str) -> Option<f64> {
    let sql = "select extract(epoch from last_used_at - jobforge.clock())::float8 from jobforge.list_api_keys() where id = $1";
    stage.operator.client().query_one(sql, &[&id]).await.unwrap().get(0)
}

async fn touch(session: &Session, ids: &str, at: &str) -> Result<i32, tokio_postgres::Error> {
    let sql = format!("select jobforge.touch_api_keys({ids}, {at})");
    session.client().query_one(&sql, &[]).await.map(|row| row.get(0))
}

#[tokio::test]
async fn the_last_use_goes_neither_back_nor_ahead_of_the_clock() {
    let stage = Stage::set().await;
    for id in ["used00000000", "used00000001"] {
        made(&stage, id, "'worker'").await;
    }
    let ago = |seconds: i32| format!("jobforge.clock() - interval '{seconds} seconds'");
    let several = format!("array[{}, {}, {}]", ago(30), ago(20), ago(40));
    let ids = "array['used00000000', 'used00000000', 'nosuchkey000']";
    assert_eq!(touch(&stage.operator, ids, &several).await.unwrap(), 1);
    assert_eq!(used(&stage, "used00000000").await, Some(-20.0), "of two uses the later");
    assert_eq!(used(&stage, "used00000001").await, None);
    let one = "array['used00000000']";
    assert_eq!(touch(&stage.operator, one, &format!("array[{}]", ago(25))).await.unwrap(), 0);
    assert_eq!(used(&stage, "used00000000").await, Some(-20.0), "an earlier one comes late");
    assert_eq!(touch(&stage.operator, one, &format!("array[{}]", ago(-500))).await.unwrap(), 1);
    assert_eq!(used(&stage, "used00000000").await, Some(0.0), "another clock is ahead");
    for (ids, at, wanted) in [
        ("'{}'", "'{}'", "JF001 batch_size"),
        ("array['used00000000']", "'{}'", "JF001 columns_differ"),
        ("array['used00000000']", "null", "JF001 columns_differ"),
    ] {
        assert_eq!(refusal(touch(&stage.operator, ids, at).await), wanted);
    }
}

/// Two servers that note the same keys in different orders would wait for each other.
#[tokio::test]
async fn uses_are_noted_in_the_order_of_ids() {
    let stage = Stage::set().await;
    // Stored the other way round, so that neither the table's order nor the caller's is that of the ids.
    for id in ["order0000002", "order0000001"] {
        made(&stage, id, "'worker'").await;
    }
    stage.operator.begin().await;
    let hold = "select jobforge.revoke_api_key('order0000001')";
    stage.operator.query(hold, &[]).await.unwrap();
    let server = stage.db.session_at(&stage.db.url_as(OPERATOR, None)).await;
    let sql = "select jobforge.touch_api_keys('{order0000002,order0000001}', array[jobforge.clock(), jobforge.clock()])";
    let waits = server.spawn_blocked(sql, vec![]).await;
    let free = "select id from jobforge.api_keys where id like 'order%' for no key update skip locked";
    let row = stage.admin.query_one(free, &[]).await.unwrap();
    assert_eq!(row.get::<_, String>(0), "order0000002", "the second is not taken before the first");
    stage.operator.commit().await;
    assert_eq!(waits.finish().await.1.unwrap()[0].get::<_, i32>(0), 2);
}

#[tokio::test]
async fn of_two_servers_one_makes_the_first_key() {
    let stage = Stage::set().await;
    let has = "select jobforge.has_keys()::integer::bigint";
    assert_eq!(stage.count(has).await, 0);
    let first = |id: &str| {
        format!("select * from jobforge.create_api_key('{id}', {HASH}, 'super_admin', p_only_first => true)")
    };
    stage.operator.begin().await;
    stage.operator.query(&first("first0000000"), &[]).await.unwrap();
    let second = stage.db.session_at(&stage.db.url_as(OPERATOR, None)).await;
    let second = second.spawn_blocked(&first("second000000"), vec![]).await;
    stage.operator.commit().await;
    assert_eq!(refusal(second.finish().await.1), "JF008 keys_exist");
    assert!(revoke(&stage, "first0000000").await);
    assert_eq!(stage.count(has).await, 1, "a revoked key opens the door to nobody");
    assert_eq!(refusal(stage.operator.query(&first("third0000000"), &[]).await), "JF008 keys_exist");
    made(&stage, "ordinary0000", "'super_admin'").await;
}

#[tokio::test]
async fn keys_are_listed_in_pages() {
    let stage = Stage::set().await;
    for (id, rest) in [
        ("page00000003", format!("'producer', '{TENANT_A}'")),
        ("page00000001", format!("'producer', '{TENANT_A}'")),
        ("page00000002", format!("'worker', '{TENANT_B}'")),
        ("page00000004", "'super_admin'".to_owned()),
    ] {
        made(&stage, id, &rest).await;
    }
    let list = async |arguments: &str| -> Vec<String> {
        let sql = format!("select right(id, 1) from jobforge.list_api_keys({arguments})");
        stage.operator.query(&sql, &[]).await.unwrap().iter().map(|row| row.get(0)).collect()
    };
    assert_eq!(list("p_limit => 3").await, ["1", "2", "3"]);
    assert_eq!(list("p_limit => 3, p_after => 'page00000003'").await, ["4"]);
    assert_eq!(list(&format!("'{TENANT_A}'")).await, ["1", "3"]);
    assert_eq!(list(&format!("'{TENANT_A}', p_after => 'page00000001'")).await, ["3"]);
}
