//! What worker and supervisor say to each other over a socket: one order, then words; events come back.
//!
//! Secrets travel here, and so neither in an argument nor in an environment that others could read.

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// Everything the supervisor needs to know.
#[derive(Serialize, Deserialize)]
pub(super) struct Order {
    pub(super) program: String,
    pub(super) args: Vec<String>,
    pub(super) variables: Vec<(String, String)>,
    pub(super) directory: WorkDirectory,
    /// What is made for this attempt is made in here, and removed with it. It lies beside those of others.
    pub(super) room: PathBuf,
    pub(super) stdin: Option<String>,
    pub(super) user: Option<UserIds>,
    pub(super) limits: Limits,
    pub(super) namespaces: Namespaces,
    /// How much of the file system it does not share; nothing where it sees it as everybody does.
    pub(super) apart: Option<Apart>,
    /// Whether to do everything but start the program, to see whether it would be possible.
    pub(super) rehearsal: bool,
}

impl Order {
    /// Where the program runs.
    pub(super) fn place(&self) -> PathBuf {
        match &self.directory {
            WorkDirectory::Private => private_directory(&self.room),
            WorkDirectory::Fixed(path) => path.clone(),
        }
    }

    pub(super) fn has_own_tmp(&self) -> bool {
        self.apart.is_some_and(|apart| apart.private_tmp)
    }
}

/// Where in its room an attempt's private directory is.
pub(super) fn private_directory(room: &Path) -> PathBuf {
    room.join("work")
}

/// Where the program runs.
#[derive(Serialize, Deserialize, Debug, Clone, PartialEq, Eq)]
pub(super) enum WorkDirectory {
    /// In its room: made for this attempt, closed to others, removed after it.
    Private,
    Fixed(PathBuf),
}

/// A file system in which the rooms of others cannot be seen.
#[derive(Serialize, Deserialize, Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Apart {
    /// Whether the directories for temporary files are its own too.
    pub(super) private_tmp: bool,
}

/// As whom the program runs.
#[derive(Serialize, Deserialize, Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct UserIds {
    pub(super) uid: u32,
    pub(super) gid: u32,
}

/// What the program may use, in the kernel's units.
#[derive(Serialize, Deserialize, Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Limits {
    pub(super) memory_bytes: Option<u64>,
    pub(super) cpu_seconds: Option<u64>,
    pub(super) open_files: Option<u64>,
    pub(super) processes: Option<u64>,
    pub(super) file_bytes: Option<u64>,
}

/// Whether commands run in namespaces of their own: nothing can outlive them, and they do not see each other.
#[derive(Serialize, Deserialize, Debug, Clone, Copy, Default, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Namespaces {
    /// Where the kernel allows it.
    #[default]
    Auto,
    /// A worker that cannot have them does not start.
    Require,
    /// Never.
    Off,
}

/// What the supervisor tells.
#[derive(Serialize, Deserialize, Debug, Clone, PartialEq, Eq)]
pub(super) enum Event {
    /// The program runs.
    Started { pid: i32 },
    /// The program did not start.
    Refused { why: String, permanent: bool },
    /// The program ended, and nothing it started lives any more.
    Ended(Status),
}

/// How a program ended.
#[derive(Serialize, Deserialize, Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Status {
    Code(i32),
    Signal(i32),
}

/// What the worker may say after its order; that it is gone, the socket's end says.
pub(super) const TERMINATE: u8 = b'T';
pub(super) const KILL: u8 = b'K';

/// The most a message may have: a payload in JSON within JSON, and room.
pub(super) const MOST: usize = 4 * 1024 * 1024;

/// A message with its length before it.
pub(super) fn encode<T: Serialize>(message: &T) -> io::Result<Vec<u8>> {
    let body = serde_json::to_vec(message)?;
    let length = u32::try_from(body.len()).map_err(io::Error::other)?;
    let mut bytes = length.to_le_bytes().to_vec();
    bytes.extend(body);
    Ok(bytes)
}

/// Sends a message and waits until it is on its way.
pub(super) fn send<T: Serialize>(to: &mut impl Write, message: &T) -> io::Result<()> {
    to.write_all(&encode(message)?)
}

/// Waits for a message and reads exactly that.
pub(super) fn receive<T: for<'a> Deserialize<'a>>(from: &mut impl Read) -> io::Result<T> {
    let mut length = [0; 4];
    from.read_exact(&mut length)?;
    let length = usize::try_from(u32::from_le_bytes(length)).map_err(io::Error::other)?;
    if length > MOST {
        return Err(io::Error::other("the message is too long"));
    }
    let mut body = vec![0; length];
    from.read_exact(&mut body)?;
    Ok(serde_json::from_slice(&body)?)
}
