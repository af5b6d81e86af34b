//! What a command sees of the file system: all of it but the rooms of others and, unless the file says
//! otherwise, the directories of temporary files, which are its own. Built by the process that becomes the
//! program, in a mount namespace that ends with it, so that nothing of it is left or seen elsewhere.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::sys::stat::{Mode, umask};

use super::directory::{TEMPORARY, own_tmp};
use super::order::{Order, WorkDirectory};

const NOTHING: Option<&str> = None;

/// Which step failed, and how.
type Step<T> = Result<T, (&'static str, Errno)>;

/// What is to be seen, and what not.
pub(super) struct View {
    room: PathBuf,
    /// The private directory in the room.
    own: Option<PathBuf>,
    private_tmp: bool,
    /// What the file names: it stays to be seen in a directory that is not.
    named: Vec<PathBuf>,
}

impl View {
    pub(super) fn of(order: &Order) -> Option<View> {
        let apart = order.apart?;
        let own = (order.directory == WorkDirectory::Private).then(|| order.place());
        let named = vec![PathBuf::from(&order.program), order.place()];
        Some(View { room: order.room.clone(), own, private_tmp: apart.private_tmp, named })
    }

    /// Changes what this process sees, for good.
    pub(super) fn enter(&self) -> Step<()> {
        leave_others_alone()?;
        // Who drops to another user passes through what is made here.
        let mask = umask(Mode::from_bits_truncate(0o022));
        let temporary = self.open_temporary()?;
        self.hide_rooms().map_err(failed("cannot hide the directories of other commands"))?;
        self.cover(temporary).map_err(failed("cannot have a /tmp of its own"))?;
        umask(mask);
        show_own_processes().map_err(|errno| ("cannot have a /proc of its own", errno))
    }

    /// Its own directories for temporary files, opened while they can be found.
    fn open_temporary(&self) -> Step<Vec<(PathBuf, OwnedFd)>> {
        let mut found: Vec<(PathBuf, OwnedFd)> = Vec::new();
        for (target, name) in TEMPORARY.into_iter().filter(|_| self.private_tmp) {
            // One may be a link to the other, or not be there at all.
            let Ok(target) = fs::canonicalize(target) else { continue };
            if found.iter().all(|(known, _)| *known != target) {
                let own = pin(&own_tmp(&self.room, name));
                found.push((target, own.map_err(|errno| ("cannot open its own /tmp", errno))?));
            }
        }
        Ok(found)
    }

    fn hide_rooms(&self) -> io::Result<()> {
        let own = self.own.as_ref().map(|path| Ok::<_, Errno>((path, pin(path)?))).transpose()?;
        let rooms = self.room.parent().unwrap_or(&self.room);
        let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
        mount(Some("tmpfs"), rooms, Some("tmpfs"), flags, Some("mode=0711,size=1m"))?;
        if let Some((path, pinned)) = own {
            fs::create_dir_all(path)?;
            bind(&pinned, path)?;
        }
        Ok(())
    }

    /// Puts its own directories where everybody's are, and in them what the file names.
    fn cover(&self, temporary: Vec<(PathBuf, OwnedFd)>) -> io::Result<()> {
        let covered: Vec<PathBuf> = temporary.iter().map(|(target, _)| target.clone()).collect();
        let mut kept: Vec<(PathBuf, OwnedFd)> = Vec::new();
        for path in &self.named {
            for name in names_within(path, &covered) {
                // What is not there, the start of the program tells.
                kept.extend(pin(path).ok().map(|pinned| (name, pinned)));
            }
        }
        for (target, own) in temporary {
            bind(&own, &target)?;
        }
        // A directory comes before what lies in it, which then is there already.
        kept.sort_by_key(|(path, _)| path.components().count());
        kept.into_iter().try_for_each(|(path, pinned)| keep(&path, &pinned))
    }
}

/// Shows only this namespace's processes in `/proc`, as far as that is allowed.
pub(super) fn show_own_processes_if_allowed() {
    if leave_others_alone().is_ok() {
        let _ = show_own_processes();
    }
}

/// A mount namespace from which nothing gets out.
fn leave_others_alone() -> Step<()> {
    unshare(CloneFlags::CLONE_NEWNS).map_err(|errno| ("cannot have a mount namespace", errno))?;
    let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
    mount(NOTHING, "/", NOTHING, private, NOTHING)
        .map_err(|errno| ("cannot keep its mounts to itself", errno))
}

fn show_own_processes() -> nix::Result<()> {
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    mount(Some("proc"), "/proc", Some("proc"), flags, NOTHING)
}

/// The names of a path that lie within what is covered: as it was given, and as it is without links.
fn names_within(path: &Path, covered: &[PathBuf]) -> Vec<PathBuf> {
    let within = |name: &Path| {
        let covers = |cover: &Path| name != cover && name.starts_with(cover);
        let plain = !name.components().any(|part| part == Component::ParentDir);
        let known = TEMPORARY.iter().map(|(cover, _)| Path::new(*cover));
        plain && covered.iter().map(PathBuf::as_path).chain(known).any(covers)
    };
    let mut names = vec![path.to_owned()];
    names.extend(fs::canonicalize(path).ok().filter(|real| real != path));
    names.retain(|name| within(name));
    names
}

/// Shows what was pinned under a name that is not there any more.
fn keep(path: &Path, pinned: &OwnedFd) -> io::Result<()> {
    let wanted = fs::metadata(through(pinned))?;
    match fs::metadata(path) {
        Ok(found) if (found.dev(), found.ino()) == (wanted.dev(), wanted.ino()) => return Ok(()),
        Ok(_) => {}
        Err(_) if wanted.is_dir() => fs::create_dir_all(path)?,
        Err(_) => {
            path.parent().map_or(Ok(()), fs::create_dir_all)?;
            fs::File::create_new(path)?;
        }
    }
    Ok(bind(pinned, path)?)
}

/// Holds on to a path, whatever covers it later.
fn pin(path: &Path) -> nix::Result<OwnedFd> {
    open(path, OFlag::O_PATH | OFlag::O_CLOEXEC, Mode::empty())
}

fn bind(pinned: &OwnedFd, to: &Path) -> nix::Result<()> {
    mount(Some(&through(pinned)), to, NOTHING, MsFlags::MS_BIND | MsFlags::MS_REC, NOTHING)
}

fn through(pinned: &OwnedFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", pinned.as_raw_fd()))
}

fn failed(step: &'static str) -> impl Fn(io::Error) -> (&'static str, Errno) {
    move |error| (step, error.raw_os_error().map_or(Errno::EINVAL, Errno::from_raw))
}
