//! Of many schedulers one leads, and another takes over when it goes.

use std::time::Duration;

use jobforge_scheduler::{Error, Role, Scheduler, SchedulerConfig};
use jobforge_testkit::{FaultProxy, Mode, OPERATOR, PASSWORD, TestDb};

use crate::{PATIENCE, config, leads, start, until};

#[tokio::test]
async fn of_two_schedulers_one_leads_and_the_other_takes_over_when_it_resigns() {
    let db = TestDb::new().await;
    // A lease that would outlast the test: only a resignation can end it.
    let slow = |holder| SchedulerConfig { lead_seconds: 600, ..config(&db, holder) };
    let first = start(slow("first")).await;
    until("the first leads", async || leads(&first)).await;
    let second = start(slow("second")).await;
    let client = db.connect_super().await;
    until("the second asked too", async || {
        let sql = "select count(*) from pg_stat_activity where datname = $1 and usename = $2";
        let connections: i64 = client.query_one(sql, &[&db.name(), &OPERATOR]).await.unwrap().get(0);
        // The first has two, one of them for its duties; the second one.
        connections >= 3
    })
    .await;
    assert_eq!((leads(&first), leads(&second)), (true, false));
    let Role::Leader { term } = first.role() else { panic!("the first does not lead") };
    first.shutdown().await;
    until(
        "the second leads under a later term",
        async || matches!(second.role(), Role::Leader { term: later } if later > term),
    )
    .await;
    second.shutdown().await;
}

#[tokio::test]
async fn another_takes_over_when_the_leader_is_cut_off() {
    let db = TestDb::new().await;
    let proxy = FaultProxy::start(db.cluster_port()).await;
    let cut_url = proxy.through(&db.url_as(OPERATOR, Some(PASSWORD)));
    let call_timeout = Duration::from_secs(1);
    let first = start(SchedulerConfig { database_url: cut_url, call_timeout, ..config(&db, "first") }).await;
    until("the first leads", async || leads(&first)).await;
    let second = start(config(&db, "second")).await;

    // No FIN, no RST: the first learns by itself that nobody answers.
    proxy.set_mode(Mode::Silence);
    until("the second leads", async || leads(&second)).await;
    until("the first follows", async || !leads(&first)).await;

    // Back on the line it does not take the leadership from a living leader.
    proxy.set_mode(Mode::Refuse);
    proxy.set_mode(Mode::Pass);
    second.shutdown().await;
    until("the first leads again once the second is gone", async || leads(&first)).await;
    first.shutdown().await;
}

#[tokio::test]
async fn a_leader_whose_term_is_over_is_refused_and_follows() {
    let db = TestDb::new().await;
    // It asks for the leadership once and then not for minutes, as if it were paused in between; its duties
    // wake up first.
    let paused =
        SchedulerConfig { lead_every: Duration::from_secs(300), lead_seconds: 600, ..config(&db, "paused") };
    let scheduler = start(paused).await;
    scheduler.settled().await;
    assert!(leads(&scheduler));
    let client = db.connect_super().await;
    let take = "update jobforge.leader set holder = 'other', term = term + 1, expires_at = now() + interval '1 hour'";
    client.execute(take, &[]).await.unwrap();
    until("the duties' refusal makes it follow", async || !leads(&scheduler)).await;
    let row = client.query_one("select holder, term from jobforge.leader", &[]).await.unwrap();
    assert_eq!((row.get::<_, String>(0), row.get::<_, i64>(1)), ("other".to_owned(), 2));
    scheduler.shutdown().await;
    let holder: String = client.query_one("select holder from jobforge.leader", &[]).await.unwrap().get(0);
    assert_eq!(holder, "other", "one that follows has nothing to resign from");
}

#[tokio::test]
async fn a_login_that_may_do_too_much_is_refused_at_once() {
    let db = TestDb::new().await;
    let mighty = SchedulerConfig { database_url: db.super_url(), ..config(&db, "mighty") };
    assert!(matches!(Scheduler::start(mighty).await, Err(Error::Unfit(_))));
    let nameless = SchedulerConfig { holder: String::new(), ..config(&db, "x") };
    assert!(matches!(Scheduler::start(nameless).await, Err(Error::Config(_))));
}

#[tokio::test]
async fn a_database_that_is_away_is_waited_for() {
    let db = TestDb::new().await;
    let proxy = FaultProxy::start(db.cluster_port()).await;
    proxy.set_mode(Mode::Refuse);
    let url = proxy.through(&db.url_as(OPERATOR, Some(PASSWORD)));
    let scheduler = start(SchedulerConfig { database_url: url, ..config(&db, "patient") }).await;
    assert!(!leads(&scheduler));
    proxy.set_mode(Mode::Pass);
    until("it leads once the database is there", async || leads(&scheduler)).await;
    scheduler.shutdown().await;
}

#[tokio::test]
async fn a_database_that_lets_one_in_and_says_nothing_more_is_waited_for() {
    let db = TestDb::new().await;
    let mut admin = db.connect_super().await;
    let lock = admin.transaction().await.unwrap();
    // Whoever asks what kind of login it has waits behind this, and nobody who logs in does.
    let alter = "set local allow_system_table_mods = on; alter view pg_catalog.pg_roles set (security_barrier = false)";
    lock.batch_execute(alter).await.unwrap();
    let hasty = SchedulerConfig { call_timeout: Duration::from_secs(1), ..config(&db, "patient") };
    let started = tokio::time::timeout(PATIENCE, start(hasty)).await;
    let scheduler = started.expect("the start waits without an end");
    assert!(!leads(&scheduler));
    lock.rollback().await.unwrap();
    until("it leads once the database answers", async || leads(&scheduler)).await;
    scheduler.shutdown().await;
}
