//! Making a new cluster, and refusing one that the binaries cannot read.

use std::fs;
use std::process::Stdio;

use crate::error::{Error, IoContext};
use crate::home::Home;
use crate::server_user::ServerUser;
use crate::settings::{Durability, Settings};

/// Runs initdb when there is no cluster yet; otherwise checks that its major version fits.
pub(crate) fn prepare(home: &Home, user: &ServerUser, settings: &Settings) -> Result<(), Error> {
    home.remove_unfinished();
    if !home.pgdata().exists() {
        return initdb(home, user, settings);
    }
    let path = home.pgdata().join("PG_VERSION");
    let text = fs::read_to_string(&path).at("read the version in", &path)?;
    let have = settings.binaries.version.major;
    match text.trim().parse::<u32>() {
        Ok(found) if found == have => Ok(()),
        // Before Postgres 10 the file held two numbers; no such data can be read either.
        found => Err(Error::WrongMajor {
            data_dir: home.root().to_owned(),
            found: found.unwrap_or_default(),
            have,
        }),
    }
}

fn initdb(home: &Home, user: &ServerUser, settings: &Settings) -> Result<(), Error> {
    let unfinished = home.unfinished_pgdata();
    let mut command = user.command(settings.binaries.dir.join("initdb"));
    command
        .args(["--username=postgres", "--encoding=UTF8", "--locale=C", "--no-instructions"])
        .args(["--auth-local=trust", "--auth-host=scram-sha-256"])
        .arg("--pgdata")
        .arg(&unfinished)
        .arg("--pwfile")
        .arg(home.password_file())
        .current_dir(home.root())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    // Letters beyond ASCII are letters there, too, and the order stays that of the bytes.
    if settings.binaries.version.major >= 17 {
        command.args(["--locale-provider=builtin", "--builtin-locale=C.UTF-8"]);
    }
    if settings.durability == Durability::Unsafe {
        command.arg("--no-sync");
    }
    let output = command.output().at("run", settings.binaries.dir.join("initdb"))?;
    if !output.status.success() {
        let output = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(Error::Initdb { data_dir: home.root().to_owned(), output });
    }
    fs::rename(&unfinished, home.pgdata()).at("put in place", home.pgdata())
}
