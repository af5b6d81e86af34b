//! The run directory: what the test processes of one checkout share, and how it goes away again.
//!
//! nextest runs every test in a process of its own and may kill it, so no process can be trusted to
//! clean up. Three locked files (`flock`, which the system releases with the process) do it instead:
//!
//! - `users` is held shared by every test process for its whole life;
//! - `gate` is held exclusively while a cluster or a template is made, and while everything is removed;
//! - `watchdog` is held by the one watchdog process (`watchdog.sh`).
//!
//! When nobody has held `users` for five seconds, the watchdog takes the gate, looks once more, stops
//! every server below the directory and deletes the data. A process that comes just then waits at the
//! gate and starts afresh. The three files stay: deleting a locked file would let two processes hold
//! "the same" lock.

use std::env;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use jobforge_postgres::{Binaries, Search, cache_dir};
use nix::fcntl::{Flock, FlockArg};
use nix::unistd::geteuid;

use crate::or_fail::OrFail;

/// The directory of this checkout and user, e.g. `/tmp/jobforge-test-0-8c1f...`.
pub fn run_dir() -> PathBuf {
    let mut hasher = DefaultHasher::new();
    env!("CARGO_MANIFEST_DIR").hash(&mut hasher);
    env::temp_dir().join(format!("jobforge-test-{}-{:016x}", geteuid(), hasher.finish()))
}

/// Membership of this process in the run; it ends with the process.
#[derive(Debug)]
pub(crate) struct Run {
    dir: PathBuf,
    _user: Flock<File>,
}

/// The exclusive right to make something in the run directory.
#[derive(Debug)]
pub(crate) struct Gate {
    _lock: Flock<File>,
}

impl Run {
    /// Joins the run, once per process. Blocks while another process is making or removing things.
    pub(crate) fn join() -> &'static Run {
        static RUN: OnceLock<Run> = OnceLock::new();
        RUN.get_or_init(|| {
            let dir = create_run_dir();
            let gate = lock(&dir, "gate", FlockArg::LockExclusive);
            let user = lock(&dir, "users", FlockArg::LockShared);
            ensure_watchdog(&dir);
            drop(gate);
            Run { dir, _user: user }
        })
    }

    /// Waits for the gate.
    pub(crate) fn gate(&self) -> Gate {
        Gate { _lock: lock(&self.dir, "gate", FlockArg::LockExclusive) }
    }

    /// The data directory of the shared cluster.
    pub(crate) fn shared_data_dir(&self) -> PathBuf {
        self.dir.join("clusters/shared")
    }

    /// A data directory for one test alone.
    pub(crate) fn private_data_dir(&self) -> PathBuf {
        let id = uuid::Uuid::new_v4().simple().to_string();
        self.dir.join("clusters").join(&id[..12])
    }
}

/// The newest Postgres installed on this machine, else one that was fetched, or the one `JOBFORGE_PG_BIN` names.
pub(crate) fn binaries() -> Binaries {
    let explicit = env::var_os("JOBFORGE_PG_BIN").map(PathBuf::from);
    let cache_dir = cache_dir(env::var_os("HOME").as_deref());
    Search { explicit, path: env::var_os("PATH"), cache_dir, ..Search::default() }
        .find()
        .or_fail("find a Postgres for the tests")
}

/// Made by us and writable by us alone; open to search, because root runs the server as another user.
fn create_run_dir() -> PathBuf {
    let dir = run_dir();
    match DirBuilder::new().mode(0o711).create(&dir) {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
        made => made.or_fail("create the run directory of the tests"),
    }
    let meta = fs::symlink_metadata(&dir).or_fail("look at the run directory of the tests");
    let ours = meta.is_dir() && meta.uid() == geteuid().as_raw();
    assert!(ours, "the run directory {} belongs to somebody else", dir.display());
    for path in [dir.clone(), dir.join("clusters")] {
        fs::create_dir_all(&path).or_fail("create the run directory of the tests");
        let open = fs::Permissions::from_mode(0o711);
        fs::set_permissions(&path, open).or_fail("open the run directory of the tests");
    }
    dir
}

fn open_lock_file(dir: &Path, name: &str) -> File {
    let path = dir.join(name);
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path);
    file.or_fail("open a lock file of the tests")
}

fn lock(dir: &Path, name: &str, how: FlockArg) -> Flock<File> {
    let mut file = open_lock_file(dir, name);
    loop {
        file = match Flock::lock(file, how) {
            Ok(lock) => return lock,
            Err((file, nix::Error::EINTR)) => file,
            Err((_, error)) => panic!("cannot lock {}/{name}: {error}", dir.display()),
        };
    }
}

/// Starts a watchdog unless one lives. It takes the lock itself, on its standard input; if this look at
/// the lock makes it give up, this process starts the next one.
fn ensure_watchdog(dir: &Path) {
    match Flock::lock(open_lock_file(dir, "watchdog"), FlockArg::LockExclusiveNonblock) {
        Ok(free) => drop(free),
        Err(_) => return,
    }
    // Through a shell that ends at once, so that the watchdog is nobody's child to wait for. A background
    // command loses its standard input, hence the detour over descriptor 7.
    let launched = Command::new("/bin/sh")
        .args(["-c", r#"exec 7<&0; "$@" <&7 7<&- &"#, "sh"])
        .args(["/bin/sh", "-c", include_str!("watchdog.sh"), "jobforge-test-watchdog"])
        .arg(dir)
        .stdin(Stdio::from(open_lock_file(dir, "watchdog")))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .current_dir("/")
        .process_group(0)
        .status()
        .or_fail("start the watchdog of the tests");
    assert!(launched.success(), "cannot start the watchdog of the tests: {launched}");
}
