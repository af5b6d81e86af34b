//! The directory a cluster lives in: what is where, and who may touch it now.

use std::fs::{self, File, OpenOptions};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;
use std::net::TcpListener;
use std::ops::Range;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use uuid::Uuid;

use crate::error::{Error, IoContext};
use crate::server_user::ServerUser;

/// The paths of one cluster.
#[derive(Debug, Clone)]
pub(crate) struct Home {
    root: PathBuf,
}

/// Held while a cluster is started or stopped; released on drop.
#[derive(Debug)]
pub(crate) struct HomeLock {
    _lock: Flock<File>,
}

impl Home {
    /// The home in an existing directory.
    pub(crate) fn open(data_dir: &Path) -> Result<Home, Error> {
        Ok(Home { root: fs::canonicalize(data_dir).at("open the data directory", data_dir)? })
    }

    /// The home in a directory that is made if need be.
    pub(crate) fn create(data_dir: &Path) -> Result<Home, Error> {
        fs::create_dir_all(data_dir).at("create the data directory", data_dir)?;
        let home = Home::open(data_dir)?;
        home.refuse_foreign()?;
        Ok(home)
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Postgres' own data directory.
    pub(crate) fn pgdata(&self) -> PathBuf {
        self.root.join("pgdata")
    }

    /// Where initdb works until it is done: a half-made cluster never has the real name. Each has a name of its own, since
    /// an initdb that outlived whoever started it goes on writing.
    pub(crate) fn unfinished_pgdata(&self) -> PathBuf {
        self.root.join(format!("{UNFINISHED}{}", Uuid::new_v4().simple()))
    }

    /// Removes what earlier starts left half-made, as far as it can be: a later start finds the rest.
    pub(crate) fn remove_unfinished(&self) {
        let entries = fs::read_dir(&self.root).into_iter().flatten().flatten();
        for entry in entries.filter(|entry| is_unfinished(&entry.file_name().to_string_lossy())) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }

    pub(crate) fn log_file(&self) -> PathBuf {
        self.root.join("server.log")
    }

    pub(crate) fn password_file(&self) -> PathBuf {
        self.root.join("password")
    }

    /// Waits for the exclusive right to start or stop the cluster.
    pub(crate) fn lock(&self) -> Result<HomeLock, Error> {
        // The lock is on the directory itself, so there is no lock file to be left behind or lost.
        let mut file = File::open(&self.root).at("open the data directory", &self.root)?;
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            file = match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
                Ok(lock) => return Ok(HomeLock { _lock: lock }),
                Err((file, Errno::EWOULDBLOCK | Errno::EINTR)) => file,
                Err((_, errno)) => return Err(errno).at("lock the data directory", &self.root),
            };
            if Instant::now() > deadline {
                return Err(Error::Locked(self.root.clone()));
            }
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// The superuser's password, made at the first start.
    pub(crate) fn password(&self, user: &ServerUser) -> Result<String, Error> {
        let path = self.password_file();
        if !path.exists() {
            let password = format!("{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple());
            write_private(&path, &password)?;
        }
        user.take(&path, 0o600)?;
        self.saved_password()
    }

    /// The password of an earlier start.
    pub(crate) fn saved_password(&self) -> Result<String, Error> {
        let path = self.password_file();
        Ok(fs::read_to_string(&path).at("read the password in", &path)?.trim().to_owned())
    }

    /// The port of the last start when it is still free, else any free one.
    pub(crate) fn free_port(&self) -> Result<u16, Error> {
        let remembered: Option<u16> =
            fs::read_to_string(self.port_file()).ok().and_then(|text| text.trim().parse().ok());
        let is_free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
        if let Some(port) = remembered.filter(is_free) {
            return Ok(port);
        }
        let first = u16::from_be_bytes([Uuid::new_v4().as_bytes()[0], Uuid::new_v4().as_bytes()[1]]);
        let span = SERVER_PORTS.end - SERVER_PORTS.start;
        let candidates = (0..span).map(|step| SERVER_PORTS.start + (first % span + step) % span);
        let none = || std::io::Error::from(std::io::ErrorKind::AddrInUse);
        candidates.take(1000).find(is_free).ok_or_else(none).at("find a free port for", &self.root)
    }

    /// Keeps the port for the next start, so that saved connection strings stay right.
    pub(crate) fn remember_port(&self, port: u16) -> Result<(), Error> {
        fs::write(self.port_file(), port.to_string()).at("write", self.port_file())
    }

    /// Makes the directory of the unix socket, closed to everybody but the server's user (and root).
    pub(crate) fn socket_dir(&self, runtime_dir: &Path, user: &ServerUser) -> Result<PathBuf, Error> {
        let inside = self.root.join("socket");
        let dir = if inside.as_os_str().len() <= LONGEST_SOCKET_DIR {
            inside
        } else {
            let mut hasher = DefaultHasher::new();
            self.root.hash(&mut hasher);
            runtime_dir.join(format!("jobforge-{}-{:x}", user.uid(), hasher.finish()))
        };
        match fs::DirBuilder::new().mode(0o700).create(&dir) {
            Ok(()) => user.take(&dir, 0o700)?,
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error).at("create the socket directory", &dir),
        }
        // In a shared directory such as /tmp another user may have made it first, to listen in.
        let meta = fs::symlink_metadata(&dir).at("look at", &dir)?;
        if !meta.is_dir() || meta.uid() != user.uid() || meta.mode() & 0o077 != 0 {
            return Err(Error::SocketDirectory(dir));
        }
        Ok(dir)
    }

    fn port_file(&self) -> PathBuf {
        self.root.join("port")
    }

    /// A wrong path must not get its owner and mode changed: only an empty directory or one of ours is taken.
    fn refuse_foreign(&self) -> Result<(), Error> {
        const OURS: [&str; 5] = ["pgdata", "password", "port", "server.log", "socket"];
        if self.pgdata().is_dir() {
            return Ok(());
        }
        let entries = fs::read_dir(&self.root).at("list", &self.root)?;
        let foreign = |name: &str| !OURS.contains(&name) && !is_unfinished(name);
        if entries.flatten().any(|entry| foreign(&entry.file_name().to_string_lossy())) {
            return Err(Error::ForeignDirectory(self.root.clone()));
        }
        Ok(())
    }
}

/// How the names of half-made clusters begin; nothing or an id follows.
const UNFINISHED: &str = "pgdata.new";

/// Whether we made it: what somebody else put beside it under a name like these is theirs.
fn is_unfinished(name: &str) -> bool {
    let is_id = |id: &str| id.len() == 32 && id.bytes().all(|c| matches!(c, b'0'..=b'9' | b'a'..=b'f'));
    name.strip_prefix(UNFINISHED).is_some_and(|id| id.is_empty() || is_id(id))
}

/// Below the range from which systems give ports to outgoing connections: while a server is down, no
/// connection of somebody else can take its port.
const SERVER_PORTS: Range<u16> = 20_000..32_000;

/// The path of a socket must stay below 104 bytes on macOS (108 on Linux); `/.s.PGSQL.65535` is added.
const LONGEST_SOCKET_DIR: usize = 103 - "/.s.PGSQL.65535".len();

fn write_private(path: &Path, text: &str) -> Result<(), Error> {
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .at("write", path)
}
