//! Sessions: begun with a living key, over when they or their key are.

use crate::races::stage::{Stage, refusal};
use crate::schema::TENANT_A;

async fn stage_with(keys: &[(&str, &str)]) -> Stage {
    let stage = Stage::set().await;
    for (id, expires) in keys {
        let sql = format!(
            "select from jobforge.create_api_key('{id}', sha256('secret'), 'tenant_admin', '{TENANT_A}', p_expires_at => {expires})"
        );
        stage.operator.query(&sql, &[]).await.unwrap();
    }
    stage
}

async fn begin(stage: &Stage, arguments: &str) -> Result<String, tokio_postgres::Error> {
    let sql = format!("select (jobforge.create_session({arguments}) - jobforge.clock())::text");
    Ok(stage.operator.query(&sql, &[]).await?.remove(0).get(0))
}

async fn lives(stage: &Stage, id: &str) -> bool {
    let sql = format!("select from jobforge.find_session(sha256('{id}'))");
    !stage.operator.query(&sql, &[]).await.unwrap().is_empty()
}

#[tokio::test]
async fn what_is_no_session_is_refused_and_not_stored() {
    let stage = stage_with(&[("living000000", "null")]).await;
    begin(&stage, "sha256('taken'), 'living000000'").await.unwrap();
    for (arguments, wanted) in [
        ("null, 'living000000'", "JF001 session_hash_malformed"),
        ("'\\x00', 'living000000'", "JF001 session_hash_malformed"),
        ("sha256('a'), 'living000000', interval '59 seconds'", "JF001 lifetime_out_of_range"),
        ("sha256('a'), 'living000000', interval '8 days'", "JF001 lifetime_out_of_range"),
        ("sha256('a'), 'living000000', null", "JF001 lifetime_out_of_range"),
        ("sha256('a'), 'nosuchkey000'", "JF007 api_key_unknown"),
        ("sha256('a'), null", "JF007 api_key_unknown"),
        ("sha256('taken'), 'living000000'", "JF008 session_exists"),
    ] {
        assert_eq!(refusal(begin(&stage, arguments).await), wanted, "{arguments}");
    }
    assert_eq!(stage.count("select count(*) from jobforge.sessions").await, 1);
}

#[tokio::test]
async fn a_session_is_over_with_its_time_or_its_keys() {
    let stage =
        stage_with(&[("living000000", "null"), ("short0000000", "jobforge.clock() + interval '1 hour'")])
            .await;
    assert_eq!(begin(&stage, "sha256('day'), 'living000000', interval '1 day'").await.unwrap(), "1 day");
    assert_eq!(begin(&stage, "sha256('half'), 'living000000'").await.unwrap(), "12:00:00");
    assert_eq!(begin(&stage, "sha256('hour'), 'short0000000'").await.unwrap(), "01:00:00");
    for (seconds, wanted) in
        [(3599.0, [true; 3]), (1.0, [true, true, false]), (39_600.0, [true, false, false])]
    {
        stage.db.advance_clock(seconds).await;
        let alive = [lives(&stage, "day").await, lives(&stage, "half").await, lives(&stage, "hour").await];
        assert_eq!(alive, wanted);
    }
    begin(&stage, "sha256('next'), 'living000000'").await.unwrap();
    assert_eq!(
        stage.count("select count(*) from jobforge.sessions").await,
        2,
        "those that are over have left"
    );
    stage.operate("select jobforge.revoke_api_key('living000000')").await;
    assert!(!lives(&stage, "day").await && !lives(&stage, "next").await);
}

#[tokio::test]
async fn beginning_and_ending_are_written_down_without_the_hash() {
    let stage = stage_with(&[("living000000", "null")]).await;
    begin(&stage, "sha256('a'), 'living000000'").await.unwrap();
    stage.operate("select jobforge.end_session(sha256('a')), jobforge.end_session(sha256('a'))").await;
    let sql = "select string_agg(action, ' ' order by action), bool_or(a::text like '%' || encode(sha256('a'), 'hex') || '%')
        from jobforge.audit_log a where subject_id = 'living000000' and action like '%session'";
    let row = stage.db.connect_super().await.query_one(sql, &[]).await.unwrap();
    assert_eq!((row.get::<_, &str>(0), row.get::<_, bool>(1)), ("create_session end_session", false));
}
