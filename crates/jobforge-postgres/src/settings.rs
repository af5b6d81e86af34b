//! How a private cluster is to be run.

use std::path::PathBuf;

use crate::binaries::Binaries;

/// What the caller decides about a cluster.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where the cluster lives: data, password, port, log and (if short enough) the socket.
    pub data_dir: PathBuf,
    /// The server to run.
    pub binaries: Binaries,
    /// Whether data must survive a crash of the machine.
    pub durability: Durability,
    /// The TCP port on 127.0.0.1; `None` takes the one used last, or a free one.
    pub port: Option<u16>,
    /// The server's `max_connections`.
    pub max_connections: u16,
    /// Further server settings, e.g. `("log_statement", "all")`; they win over ours.
    pub server_settings: Vec<(String, String)>,
    /// Where the socket directory goes when `data_dir` is too long a path for a socket.
    pub runtime_dir: PathBuf,
}

/// Whether data must survive a crash of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// Postgres' own defaults.
    Durable,
    /// No fsync. A killed server still keeps every commit; a machine that loses power may not.
    Unsafe,
}

impl Settings {
    /// Durable, a free port, 100 connections, `/tmp` for sockets with a long path.
    pub fn new(data_dir: impl Into<PathBuf>, binaries: Binaries) -> Settings {
        Settings {
            data_dir: data_dir.into(),
            binaries,
            durability: Durability::Durable,
            port: None,
            max_connections: 100,
            server_settings: Vec::new(),
            runtime_dir: PathBuf::from("/tmp"),
        }
    }

    /// The server's command-line settings, later ones winning.
    pub(crate) fn server_arguments(&self) -> Vec<String> {
        let mut settings = vec![
            ("listen_addresses".to_owned(), "127.0.0.1".to_owned()),
            ("max_connections".to_owned(), self.max_connections.to_string()),
            // The log is one file that this crate reads back when a start fails.
            ("logging_collector".to_owned(), "off".to_owned()),
            ("log_destination".to_owned(), "stderr".to_owned()),
        ];
        if has_little_shared_memory() {
            settings.push(("dynamic_shared_memory_type".to_owned(), "mmap".to_owned()));
        }
        if self.durability == Durability::Unsafe {
            // synchronous_commit stays on: without it a killed server would forget commits, and tests
            // that kill the server would see losses that the real setting does not have.
            for name in ["fsync", "full_page_writes"] {
                settings.push((name.to_owned(), "off".to_owned()));
            }
        }
        settings.extend(self.server_settings.iter().cloned());
        settings.into_iter().flat_map(|(name, value)| ["-c".to_owned(), format!("{name}={value}")]).collect()
    }
}

/// Containers give 64 MiB of it unless told otherwise, and a query that wants more fails; files do as well.
#[cfg(target_os = "linux")]
fn has_little_shared_memory() -> bool {
    const LITTLE: u64 = 256 * 1024 * 1024;
    let size =
        nix::sys::statvfs::statvfs("/dev/shm").map(|shm| shm.fragment_size().saturating_mul(shm.blocks()));
    size.is_ok_and(|size| size < LITTLE)
}

#[cfg(not(target_os = "linux"))]
fn has_little_shared_memory() -> bool {
    false
}
