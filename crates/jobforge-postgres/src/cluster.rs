//! A private Postgres cluster: started or reused, reached by URL, stopped.

use std::path::Path;
use std::process::Child;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::address::Address;
use crate::error::Error;
use crate::home::Home;
use crate::initdb;
use crate::launch::launch;
use crate::postmaster::{Postmaster, is_postmaster};
use crate::server_user::ServerUser;
use crate::settings::Settings;

/// How long a fast stop may take before it becomes an immediate one.
const STOP_SECONDS: u64 = 30;

/// A running private Postgres. Dropping it stops the server if this value started it.
#[derive(Debug)]
pub struct Cluster {
    settings: Settings,
    home: Home,
    address: Address,
    postmaster: Postmaster,
    /// The server as our child; kept so that it can be waited for.
    child: Option<Child>,
    owned: bool,
}

impl Cluster {
    /// Starts the cluster in `settings.data_dir`, making it first if need be. A server that runs there
    /// already is reused as it is, with the port and settings it has.
    pub fn start(settings: Settings) -> Result<Cluster, Error> {
        let home = Home::create(&settings.data_dir)?;
        let _lock = home.lock()?;
        let user = ServerUser::choose(&home.pgdata())?;
        user.require_reach(home.root())?;
        user.require_reach(&settings.binaries.dir.join("postgres"))?;
        user.take(home.root(), 0o700)?;
        let password = home.password(&user)?;
        initdb::prepare(&home, &user, &settings)?;
        if let Some(postmaster) = wait_for_running(&home)? {
            let address = address(&postmaster, password);
            return Ok(Cluster { settings, home, address, postmaster, child: None, owned: false });
        }
        let (child, postmaster) = launch(&home, &user, &settings)?;
        tracing::debug!(data_dir = %home.root().display(), port = postmaster.port, "Postgres started");
        let address = address(&postmaster, password);
        Ok(Cluster { settings, home, address, postmaster, child: Some(child), owned: true })
    }

    /// Stops the server of a data directory, whoever started it; `false` when none was running.
    pub fn stop_data_dir(data_dir: &Path) -> Result<bool, Error> {
        let home = Home::open(data_dir)?;
        let _lock = home.lock()?;
        match Postmaster::alive(&home.pgdata()) {
            Some(postmaster) => stop_server(&home, &postmaster, None).map(|()| true),
            None => Ok(false),
        }
    }

    /// The address of a server that runs in `data_dir`, without starting one.
    pub fn running(data_dir: &Path) -> Result<Option<Address>, Error> {
        if !data_dir.exists() {
            return Ok(None);
        }
        let home = Home::open(data_dir)?;
        match Postmaster::alive(&home.pgdata()).filter(Postmaster::accepts_connections) {
            Some(postmaster) => Ok(Some(address(&postmaster, home.saved_password()?))),
            None => Ok(None),
        }
    }

    /// How to reach it.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// `postgres://` URL of the superuser over TCP, with its password.
    pub fn superuser_url(&self, dbname: &str) -> String {
        self.address.superuser_url(dbname)
    }

    /// The TCP port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// The process id of the server.
    pub fn pid(&self) -> i32 {
        self.postmaster.pid
    }

    /// Whether this value started the server, and so stops it on drop.
    pub fn owned(&self) -> bool {
        self.owned
    }

    /// Lets the server outlive this value.
    pub fn leave_running(&mut self) {
        self.owned = false;
    }

    /// Stops the server: sessions are ended, data is flushed. Waits until it is gone.
    pub fn stop(&mut self) -> Result<(), Error> {
        let _lock = self.home.lock()?;
        stop_server(&self.home, &self.postmaster, self.child.as_mut())?;
        self.child = None;
        self.owned = false;
        Ok(())
    }

    /// Kills the server as a crash would, with no chance to clean up. [`Cluster::restart`] recovers it.
    pub fn kill(&mut self) -> Result<(), Error> {
        let _lock = self.home.lock()?;
        self.postmaster.signal(Signal::SIGKILL)?;
        if !wait_gone(&self.home, &self.postmaster, self.child.as_mut(), Duration::from_secs(STOP_SECONDS)) {
            return Err(not_stopped(&self.home));
        }
        self.child = None;
        self.owned = false;
        Ok(())
    }

    /// Starts the server again on the same port, after stopping it if it runs. The new server is owned.
    pub fn restart(&mut self) -> Result<(), Error> {
        let _lock = self.home.lock()?;
        if is_postmaster(self.postmaster.pid, &self.home.pgdata()) {
            stop_server(&self.home, &self.postmaster, self.child.as_mut())?;
        }
        let user = ServerUser::choose(&self.home.pgdata())?;
        let settings = Settings { port: Some(self.postmaster.port), ..self.settings.clone() };
        let (child, postmaster) = launch(&self.home, &user, &settings)?;
        (self.child, self.postmaster, self.owned) = (Some(child), postmaster, true);
        Ok(())
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if self.owned
            && let Err(error) = self.stop()
        {
            tracing::warn!(%error, "the private Postgres was not stopped");
        }
    }
}

fn address(postmaster: &Postmaster, password: String) -> Address {
    Address::new(postmaster.port, &postmaster.socket_dir, password)
}

/// A server of this home that is ready, waiting for one that is still coming up or going down.
fn wait_for_running(home: &Home) -> Result<Option<Postmaster>, Error> {
    let deadline = Instant::now() + Duration::from_secs(STOP_SECONDS);
    while let Some(postmaster) = Postmaster::alive(&home.pgdata()) {
        if postmaster.accepts_connections() {
            return Ok(Some(postmaster));
        }
        if Instant::now() > deadline {
            return Err(Error::TimedOut {
                data_dir: home.root().to_owned(),
                state: "ready",
                seconds: STOP_SECONDS,
                log_file: home.log_file(),
            });
        }
        thread::sleep(Duration::from_millis(20));
    }
    Ok(None)
}

/// Fast stop, then an immediate one if that takes too long.
fn stop_server(home: &Home, postmaster: &Postmaster, mut child: Option<&mut Child>) -> Result<(), Error> {
    for signal in [Signal::SIGINT, Signal::SIGQUIT] {
        if is_postmaster(postmaster.pid, &home.pgdata()) {
            postmaster.signal(signal)?;
        }
        if wait_gone(home, postmaster, child.as_deref_mut(), Duration::from_secs(STOP_SECONDS)) {
            return Ok(());
        }
    }
    Err(not_stopped(home))
}

/// Waits until the process is gone, taking the exit status of our own child so that no zombie stays.
fn wait_gone(home: &Home, postmaster: &Postmaster, mut child: Option<&mut Child>, limit: Duration) -> bool {
    let deadline = Instant::now() + limit;
    loop {
        let gone = match child.as_mut() {
            Some(child) => matches!(child.try_wait(), Ok(Some(_)) | Err(_)),
            None => !is_postmaster(postmaster.pid, &home.pgdata()),
        };
        if gone || Instant::now() > deadline {
            return gone;
        }
        thread::sleep(Duration::from_millis(10));
    }
}

fn not_stopped(home: &Home) -> Error {
    Error::TimedOut {
        data_dir: home.root().to_owned(),
        state: "stopped",
        seconds: STOP_SECONDS,
        log_file: home.log_file(),
    }
}
