//! First starts, later starts, and starts beside a running server.

use std::fs;

use jobforge_postgres::{Cluster, Durability, Settings};

use crate::{connect, mode, open_dir, setting, settings, start};

#[tokio::test]
async fn a_second_start_finds_data_port_and_password_again() {
    let dir = open_dir();
    let data_dir = dir.path().join("pg");
    let mut first = start(&data_dir);
    let url = first.superuser_url("postgres");
    connect(&first).await.batch_execute("create table kept as select 42 as answer").await.unwrap();
    first.stop().unwrap();
    assert!(Cluster::running(&data_dir).unwrap().is_none());

    let second = start(&data_dir);
    assert_eq!(second.superuser_url("postgres"), url);
    let answer: i32 = connect(&second).await.query_one("select answer from kept", &[]).await.unwrap().get(0);
    assert_eq!(answer, 42);
}

#[tokio::test]
async fn a_running_server_is_reused_and_left_alone() {
    let dir = open_dir();
    let data_dir = dir.path().join("pg");
    let owner = start(&data_dir);
    let guest = start(&data_dir);
    assert!(owner.owned() && !guest.owned());
    assert_eq!((owner.pid(), owner.port()), (guest.pid(), guest.port()));
    drop(guest);
    connect(&owner).await;
    assert_eq!(Cluster::running(&data_dir).unwrap().as_ref(), Some(owner.address()));
}

#[tokio::test]
async fn drop_stops_the_server_unless_it_is_left_running() {
    let dir = open_dir();
    let data_dir = dir.path().join("pg");
    drop(start(&data_dir));
    assert!(!Cluster::stop_data_dir(&data_dir).unwrap());
    let mut left = start(&data_dir);
    left.leave_running();
    drop(left);
    assert!(Cluster::stop_data_dir(&data_dir).unwrap());
    assert!(!Cluster::stop_data_dir(&data_dir).unwrap());
}

#[tokio::test]
async fn settings_reach_the_server() {
    let dir = open_dir();
    let mut wanted = settings(&dir.path().join("pg"));
    wanted.max_connections = 17;
    wanted.server_settings.push(("work_mem".to_owned(), "9MB".to_owned()));
    let cluster = Cluster::start(wanted.clone()).unwrap();
    assert_eq!(setting(&cluster, "max_connections").await, "17");
    assert_eq!(setting(&cluster, "work_mem").await, "9MB");
    assert_eq!(setting(&cluster, "fsync").await, "off");
    assert_eq!(setting(&cluster, "synchronous_commit").await, "on");
    assert_eq!(setting(&cluster, "listen_addresses").await, "127.0.0.1");
    assert_eq!(setting(&cluster, "server_encoding").await, "UTF8");
    drop(cluster);
    let cluster = Cluster::start(Settings { durability: Durability::Durable, ..wanted }).unwrap();
    assert_eq!(setting(&cluster, "fsync").await, "on");
}

#[tokio::test]
async fn files_are_closed_to_others_and_a_wrong_password_is_refused() {
    let dir = open_dir();
    let data_dir = dir.path().join("pg");
    let cluster = start(&data_dir);
    assert_eq!(mode(data_dir.clone()), 0o700);
    assert_eq!(mode(data_dir.join("socket")), 0o700);
    assert_eq!(mode(data_dir.join("password")), 0o600);
    assert_eq!(mode(data_dir.join("server.log")), 0o600);
    let url = format!("postgres://postgres:wrong@127.0.0.1:{}/postgres", cluster.port());
    let refused = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.err().unwrap();
    assert_eq!(refused.code().unwrap().code(), "28P01");
}

#[tokio::test]
async fn a_long_path_gets_its_socket_elsewhere() {
    let dir = open_dir();
    let runtime = open_dir();
    let data_dir = dir.path().join("x".repeat(100));
    let mut wanted = settings(&data_dir);
    wanted.runtime_dir = runtime.path().to_owned();
    let cluster = Cluster::start(wanted).unwrap();
    assert!(setting(&cluster, "unix_socket_directories").await.starts_with(runtime.path().to_str().unwrap()));
    let socket_dir = fs::read_dir(runtime.path()).unwrap().next().unwrap().unwrap();
    assert_eq!(mode(socket_dir.path()), 0o700);
}

#[tokio::test]
async fn any_role_comes_in_over_the_socket_without_a_password() {
    let dir = open_dir();
    let cluster = start(&dir.path().join("pg"));
    connect(&cluster).await.batch_execute("create role \"a b\" login").await.unwrap();
    let url = cluster.address().url_as("a b", None, "postgres");
    let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    let role: String = client.query_one("select current_user::text", &[]).await.unwrap().get(0);
    assert_eq!(role, "a b");
}

#[tokio::test]
async fn texts_are_unicode_in_the_order_of_their_bytes() {
    let dir = open_dir();
    let cluster = start(&dir.path().join("pg"));
    let row =
        connect(&cluster).await.query_one("select 'Z' < 'a', lower('\u{c4}') = '\u{e4}'", &[]).await.unwrap();
    let knows_letters = settings(dir.path()).binaries.version.major >= 17;
    assert_eq!((row.get(0), row.get(1)), (true, knows_letters));
}

/// As root this runs itself again where there is hardly any shared memory.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn little_shared_memory_is_enough() {
    use std::process::Command;

    use nix::sys::statvfs::statvfs;
    use nix::unistd::geteuid;

    const NAME: &str = "start::little_shared_memory_is_enough";
    const LITTLE: &str = "mount -t tmpfs -o size=16m none /dev/shm && exec \"$0\" --exact \"$1\"";
    let unshared = |command: &[&str]| Command::new("unshare").arg("--mount").args(command).status();
    let size = statvfs("/dev/shm").map_or(u64::MAX, |shm| shm.fragment_size() * shm.blocks());
    // A container has 64 MiB, which is little, too.
    if size >= 256 * 1024 * 1024 {
        // Elsewhere nobody may take it away.
        if geteuid().is_root() && unshared(&["true"]).is_ok_and(|status| status.success()) {
            let program = std::env::current_exe().unwrap();
            assert!(unshared(&["sh", "-c", LITTLE, program.to_str().unwrap(), NAME]).unwrap().success());
        }
        return;
    }
    let dir = open_dir();
    let cluster = start(&dir.path().join("pg"));
    assert_eq!(setting(&cluster, "dynamic_shared_memory_type").await, "mmap");
}
