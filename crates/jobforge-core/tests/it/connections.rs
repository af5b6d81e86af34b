//! Connections: what they refuse, and what they notice.

use jobforge_core::connect::{check_writable, connect, connect_with, drive, with_connection};
use jobforge_core::listen::{self, Listener, WAKE};
use jobforge_core::preflight::{self, Unfit};
use jobforge_core::rpc::{as_actor, bound_to, list_workers};
use jobforge_core::{Actor, Error, migrate};
use jobforge_testkit::{APP, FaultProxy, Mode, OPERATOR, PASSWORD, TENANT_A, TestDb, WORKER};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::story::Story;

#[tokio::test]
async fn a_listener_hears_itself_and_keeps_what_it_heard_meanwhile() {
    let story = Story::begin().await;
    let mut listener = Listener::connect(&story.db.url_as(WORKER, None), &["other"]).await.unwrap();
    story.app.batch_execute("notify other, 'one'; notify jobforge_test, 'not mine'").await.unwrap();
    assert!(listener.test().await.unwrap());
    assert_eq!(listener.next().await.unwrap().payload, "one");
    assert!(listener.test().await.unwrap());
}

#[tokio::test]
async fn a_listener_notices_that_its_connection_ended() {
    let story = Story::begin().await;
    let mut listener = Listener::connect(&story.db.url_as(WORKER, None), &[]).await.unwrap();
    let end = "select pg_terminate_backend(pid) from pg_stat_activity
               where usename = 'jf_test_worker' and datname = current_database()";
    story.db.connect_super().await.query(end, &[]).await.unwrap();
    for _ in 0..2 {
        let error = listener.next().await.unwrap_err();
        assert!(error.is_connection() && error.is_transient(), "{error:?}");
    }
    assert!(listener.test().await.unwrap_err().is_connection());
    let error = list_workers(&story.worker, 1).await.unwrap_err();
    assert!(error.is_connection(), "{error:?}");
}

#[tokio::test]
async fn superusers_and_owners_are_not_fit_to_run() {
    let story = Story::begin().await;
    for fit in [&story.app, &story.worker, &story.operator] {
        preflight::check(fit).await.unwrap();
    }
    let admin = story.db.connect_super().await;
    let unfit = async |client: &tokio_postgres::Client| match preflight::check(client).await {
        Err(Error::Unfit(unfit)) => unfit,
        other => panic!("{other:?}"),
    };
    assert_eq!(unfit(&admin).await, Unfit::Superuser("postgres".to_owned()));
    let id = uuid::Uuid::new_v4().simple();
    let (owner, bypass) = (format!("owner_{id}"), format!("bypass_{id}"));
    let sql =
        format!("create role {owner} login; grant jf_owner to {owner}; create role {bypass} login bypassrls");
    admin.batch_execute(&sql).await.unwrap();
    assert_eq!(unfit(&story.db.connect_as(&owner).await).await, Unfit::Owner(owner.clone()));
    assert_eq!(unfit(&story.db.connect_as(&bypass).await).await, Unfit::BypassesRls(bypass.clone()));
    admin.batch_execute(&format!("drop role {owner}; drop role {bypass}")).await.unwrap();
}

#[tokio::test]
async fn a_read_only_server_is_refused() {
    let story = Story::begin().await;
    check_writable(&story.app).await.unwrap();
    story.app.batch_execute("set default_transaction_read_only = on").await.unwrap();
    let error = check_writable(&story.app).await.unwrap_err();
    assert!(error.is_connection(), "{error:?}");
    let write =
        jobforge_core::rpc::enqueue_job(&story.app, jobforge_testkit::TENANT_A, &crate::story::noop()).await;
    assert!(write.unwrap_err().is_connection());
    let url = story.db.url_as(APP, None) + "&options=-c%20default_transaction_read_only%3Don";
    assert!(connect(&url).await.is_err());
}

#[tokio::test]
async fn a_connection_that_cannot_be_made_says_where_without_the_password() {
    let nobody = "postgres://app:secret@127.0.0.1:1/jobs";
    let Err(error) = connect(nobody).await else { panic!("somebody listens on port 1") };
    assert!(error.is_connection());
    assert_eq!(error.to_string(), "no connection to 127.0.0.1:1/jobs as app");
    let Err(error) = connect("nonsense://").await else { panic!("not a URL") };
    assert!(matches!(error, Error::Url(_)) && !error.is_connection());
    let db = TestDb::blank().await;
    let Err(error) = connect(&db.url_as("no_such_role", Some("x"))).await else { panic!("no such role") };
    assert!(!error.is_connection() && !error.is_transient(), "{error:?}");
}

#[tokio::test]
async fn work_on_a_driven_connection_ends_with_its_error() {
    let story = Story::begin().await;
    let url = story.db.url_as(OPERATOR, None);
    let workers = with_connection(&url, async |client| list_workers(&client, 10).await).await.unwrap();
    assert_eq!(workers.len(), 1);
    let killed = with_connection(&url, async |client| {
        let _ = client.batch_execute("select pg_terminate_backend(pg_backend_pid())").await;
        list_workers(&client, 10).await
    });
    assert!(killed.await.unwrap_err().is_connection());
}

#[tokio::test]
async fn futures_may_move_between_threads() {
    fn movable<T: Send>(_: &T) {}
    movable(&migrate::up("postgres://nowhere"));
    movable(&migrate::plan("postgres://nowhere"));
    movable(&Listener::connect("postgres://nowhere", &[]));
}

#[tokio::test]
async fn of_several_servers_the_one_that_takes_writes_is_used() {
    let db = TestDb::new().await;
    let real = db.url_as(APP, Some(PASSWORD));
    let place = format!("@127.0.0.1:{}/", db.cluster_port());
    let silent = FaultProxy::start(db.cluster_port()).await;
    silent.set_mode(Mode::Silence);
    let refusing = FaultProxy::start(db.cluster_port()).await;
    refusing.set_mode(Mode::Refuse);
    let hosts = |ports: &[u16]| {
        let hosts: Vec<String> = ports.iter().map(|port| format!("127.0.0.1:{port}")).collect();
        real.replace(&place, &format!("@{}/", hosts.join(",")))
    };
    let (silent, refusing, good) = (silent.port(), refusing.port(), db.cluster_port());
    for ports in [&[silent, good][..], &[refusing, good], &[silent, refusing, 1, good], &[good, silent]] {
        let (client, connection) =
            connect(&hosts(ports)).await.unwrap_or_else(|error| panic!("{ports:?}: {error:?}"));
        tokio::spawn(connection);
        check_writable(&client).await.unwrap();
    }
    let Err(nobody) = connect(&hosts(&[refusing, 1])).await else { panic!("nobody is there") };
    assert!(nobody.is_connection(), "{nobody:?}");
    // What a server says counts more than that another is away.
    let wrong = hosts(&[good, 1]).replace(&format!(":{PASSWORD}@"), ":wrong@");
    let Err(refused) = connect(&wrong).await else { panic!("a wrong password") };
    assert!(!refused.is_connection(), "{refused:?}");
}

#[tokio::test]
async fn whoever_requires_encryption_gets_no_connection_without_it() {
    let story = Story::begin().await;
    let url = story.db.url_as(APP, Some(PASSWORD));
    assert!(connect(&format!("{url}?sslmode=prefer")).await.is_ok());
    for required in ["sslmode=require", "sslmode=require&sslnegotiation=direct"] {
        let Err(refused) = connect(&format!("{url}?{required}")).await else { panic!("{required}") };
        assert!(matches!(refused, Error::Connect { .. }), "{refused:?}");
    }
}

#[tokio::test]
async fn an_address_without_a_name_will_do() {
    let story = Story::begin().await;
    let (port, name) = (story.db.cluster_port(), story.db.name());
    let address = format!("hostaddr=127.0.0.1 port={port} user={APP} password={PASSWORD} dbname={name}");
    assert!(connect(&address).await.is_ok());
}

/// A server, or what stands before it, that answers a question nobody asked.
#[tokio::test]
async fn a_connection_that_is_out_of_step_is_thrown_away() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = async {
        let (mut socket, _) = listener.accept().await.unwrap();
        let mut heard = [0; 1024];
        assert!(socket.read(&mut heard).await.unwrap() > 0);
        // Welcome, and ready for a question.
        socket.write_all(b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I").await.unwrap();
        assert!(socket.read(&mut heard).await.unwrap() > 0);
        // The end of a parsing that was not asked for.
        socket.write_all(b"1\0\0\0\x04").await.unwrap();
        let _ = socket.read(&mut heard).await;
    };
    let url = format!("postgres://somebody@127.0.0.1:{port}/db?target_session_attrs=any&sslmode=disable");
    let config = url.parse().unwrap();
    let caller = async {
        let (client, connection) = jobforge_core::connect::connect_with(&config).await.unwrap();
        jobforge_core::connect::drive(connection, async move { listen::on(&client, &[WAKE]).await }).await
    };
    let (answer, ()) = tokio::join!(caller, server);
    assert!(answer.unwrap_err().is_connection());
}

/// A session that is told to stop may do so at a transaction's begin, and would take what was sent behind it for itself.
#[tokio::test]
async fn a_call_for_somebody_is_not_made_where_its_transaction_did_not_begin() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!(
        "postgres://somebody@127.0.0.1:{}/db?target_session_attrs=any",
        listener.local_addr().unwrap().port()
    );
    let server = async {
        for _ in 0..2 {
            let (mut socket, _) = listener.accept().await.unwrap();
            let mut heard = [0; 1024];
            assert!(socket.read(&mut heard).await.unwrap() > 0);
            socket.write_all(b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I").await.unwrap();
            let length = socket.read(&mut heard).await.unwrap();
            assert_eq!(&heard[..length], b"Q\0\0\0\x0abegin\0");
            let refusal = b"SERROR\0VERROR\0C57014\0Mcanceling statement\0\0";
            let length = u8::try_from(refusal.len() + 4).unwrap();
            let answer = [b"E\0\0\0", &[length][..], refusal, b"Z\0\0\0\x05I"].concat();
            socket.write_all(&answer).await.unwrap();
            let length = socket.read(&mut heard).await.unwrap();
            assert_eq!(&heard[..length], b"Q\0\0\0\x0drollback\0", "nothing else is sent");
        }
    };
    let config: tokio_postgres::Config = url.parse().unwrap();
    let caller = async {
        let actor = Actor { credential: "key".to_owned(), request_id: None };
        let (client, connection) = connect_with(&config).await.unwrap();
        let named =
            drive(connection, async { as_actor(&client, &actor, list_workers(&client, 1)).await }).await;
        let (client, connection) = connect_with(&config).await.unwrap();
        let bound =
            drive(connection, async { bound_to(&client, Some(TENANT_A), list_workers(&client, 1)).await })
                .await;
        [named.is_err(), bound.is_err()]
    };
    let (refused, ()) = tokio::join!(caller, server);
    assert_eq!(refused, [true, true]);
}
