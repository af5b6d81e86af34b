//! How to reach a private cluster.

use std::fmt;
use std::path::{Path, PathBuf};

/// Where a running cluster listens, with the superuser's password.
#[derive(Clone, PartialEq, Eq)]
pub struct Address {
    port: u16,
    socket_dir: PathBuf,
    password: String,
}

impl Address {
    pub(crate) fn new(port: u16, socket_dir: &Path, password: String) -> Address {
        Address { port, socket_dir: socket_dir.to_owned(), password }
    }

    /// The TCP port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The directory of the unix socket, open to the server's user and root only.
    pub fn socket_dir(&self) -> &Path {
        &self.socket_dir
    }

    /// `postgres://` URL of the superuser over TCP, with its password.
    pub fn superuser_url(&self, dbname: &str) -> String {
        self.url_as("postgres", Some(&self.password), dbname)
    }

    /// `postgres://` URL of any role: over TCP with its password, or without one over the unix socket,
    /// where the server trusts whoever may open it.
    pub fn url_as(&self, role: &str, password: Option<&str>, dbname: &str) -> String {
        let (role, dbname, port) = (percent_encoded(role), percent_encoded(dbname), self.port);
        match password {
            Some(password) => {
                format!("postgres://{role}:{}@127.0.0.1:{port}/{dbname}", percent_encoded(password))
            }
            None => {
                let socket_dir = percent_encoded(&self.socket_dir.to_string_lossy());
                format!("postgres://{role}@{socket_dir}:{port}/{dbname}")
            }
        }
    }
}

/// The password stays out of logs.
impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Address")
            .field("port", &self.port)
            .field("socket_dir", &self.socket_dir)
            .finish_non_exhaustive()
    }
}

fn percent_encoded(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}
