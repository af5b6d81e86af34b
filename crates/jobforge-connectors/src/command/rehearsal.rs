//! Whether commands can be kept apart from each other here: told by a supervisor that does everything but start
//! a program.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use super::order::{Apart, Event, Limits, Namespaces, Order, Status, WorkDirectory, receive, send};
use super::run::NAME;

/// Generous, because it only passes where something is badly wrong.
const PATIENCE: Duration = Duration::from_secs(30);

/// An error says what is missing.
pub(super) fn rehearse(supervisor: &Path, room: PathBuf) -> Result<(), String> {
    let order = Order {
        program: "/".to_owned(),
        args: Vec::new(),
        variables: Vec::new(),
        directory: WorkDirectory::Private,
        room,
        stdin: None,
        user: None,
        limits: Limits::default(),
        namespaces: Namespaces::Require,
        apart: Some(Apart { private_tmp: true }),
        rehearsal: true,
    };
    match play(supervisor, &order) {
        Ok(Event::Ended(Status::Code(0))) => Ok(()),
        Ok(Event::Refused { why, .. }) => Err(why),
        Ok(Event::Ended(_) | Event::Started { .. }) => Err("the rehearsal ended early".to_owned()),
        Err(error) => Err(format!("cannot hear from the supervisor {}: {error}", supervisor.display())),
    }
}

/// The last thing that the supervisor tells.
fn play(supervisor: &Path, order: &Order) -> io::Result<Event> {
    let (mut ours, theirs) = UnixStream::pair()?;
    ours.set_read_timeout(Some(PATIENCE))?;
    let mut supervisor = Command::new(supervisor)
        .arg0(NAME)
        .arg("rehearsal")
        .env_clear()
        .current_dir("/")
        .process_group(0)
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    let heard = send(&mut ours, order).and_then(|()| receive(&mut ours)).and_then(|event| match event {
        Event::Started { .. } => receive(&mut ours),
        event => Ok(event),
    });
    // It ends by itself once nobody is there to talk to.
    drop(ours);
    supervisor.wait()?;
    heard
}
