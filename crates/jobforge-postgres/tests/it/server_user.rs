//! Root runs the server as somebody else; everybody else as themselves.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use jobforge_postgres::{Cluster, Error};
use nix::unistd::{User, geteuid};

use crate::{connect, open_dir, settings, start};

/// The server writes its pid file itself.
fn uid_of_server(data_dir: &Path) -> u32 {
    fs::metadata(data_dir.join("pgdata/postmaster.pid")).unwrap().uid()
}

#[tokio::test]
async fn root_runs_the_server_as_another_user() {
    if !geteuid().is_root() {
        return;
    }
    let dir = open_dir();
    let data_dir = dir.path().join("pg");
    let cluster = start(&data_dir);
    assert_ne!(uid_of_server(&data_dir), 0);
    assert_eq!(uid_of_server(&data_dir), fs::metadata(&data_dir).unwrap().uid());
    connect(&cluster).await;
}

/// As root this runs itself again as `nobody`.
#[tokio::test]
async fn others_run_the_server_as_themselves() {
    const NAME: &str = "server_user::others_run_the_server_as_themselves";
    let dir = open_dir();
    if geteuid().is_root() {
        let nobody = User::from_name("nobody").unwrap().unwrap();
        let program = dir.path().join("it");
        fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
        let status = Command::new(program)
            .args(["--exact", NAME])
            .current_dir("/")
            .uid(nobody.uid.as_raw())
            .gid(nobody.gid.as_raw())
            .status();
        assert!(status.unwrap().success());
        return;
    }
    let data_dir = dir.path().join("pg");
    let cluster = start(&data_dir);
    assert_eq!(uid_of_server(&data_dir), geteuid().as_raw());
    connect(&cluster).await;
}

#[test]
fn a_directory_closed_to_the_servers_user_is_refused() {
    if !geteuid().is_root() {
        return;
    }
    let dir = open_dir();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o700)).unwrap();
    let error = Cluster::start(settings(&dir.path().join("pg"))).unwrap_err();
    assert!(matches!(error, Error::Unreachable { .. }));
    assert!(error.to_string().contains("use a data directory such as /var/lib/jobforge"), "{error}");
}
