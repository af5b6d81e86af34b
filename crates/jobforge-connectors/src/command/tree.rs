//! Finding processes in `/proc`: those that descend from one, and those that carry a mark in their environment.

use std::fs;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// The variable that marks every process of a run.
pub(super) const MARK: &str = "JOBFORGE_RUN";

/// Everything that descends from a process, as far as it can be seen now.
pub(super) fn descendants(of: Pid) -> Vec<Pid> {
    let parents: Vec<(i32, i32)> = processes().filter_map(|pid| Some((pid, parent(pid)?))).collect();
    let mut found = vec![of.as_raw()];
    let mut at = 0;
    while let Some(&next) = found.get(at) {
        found.extend(parents.iter().filter(|(_, parent)| *parent == next).map(|(pid, _)| *pid));
        at += 1;
    }
    found.into_iter().skip(1).map(Pid::from_raw).collect()
}

/// The mark of a run: which worker it belongs to, and which run it is.
pub(super) fn mark(run: &str) -> String {
    format!("{}.{run}", worker())
}

/// Kills what carries this mark: what a supervisor that was itself killed left behind. Tells how many.
pub(super) fn sweep(mark: &str) -> usize {
    kill_marked(|found| found == mark)
}

/// Kills what commands of workers that are gone left behind: processes with the mark of a worker of this
/// machine that does not run any more. Tells how many. For the start of a worker.
pub fn sweep_orphans() -> usize {
    kill_marked(|mark| match mark.split('.').collect::<Vec<_>>()[..] {
        [space, pid, began, _] => {
            // In another process namespace the same number is somebody else.
            let alive = || pid.parse().ok().and_then(start_time).is_some_and(|start| start == began);
            space == namespace() && !alive()
        }
        _ => false,
    })
}

fn kill_marked(is_meant: impl Fn(&str) -> bool) -> usize {
    let mut killed = std::collections::BTreeSet::new();
    // What forks while it is looked for is found the next time.
    loop {
        let found: Vec<i32> = processes()
            .filter(|pid| mark_of(*pid).is_some_and(|mark| is_meant(&mark)) && !killed.contains(pid))
            .collect();
        if found.is_empty() {
            return killed.len();
        }
        for pid in found {
            let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
            killed.insert(pid);
        }
    }
}

/// This worker: its process namespace, its number there, and when it began, since numbers are used again.
fn worker() -> String {
    let pid = std::process::id();
    let began = i32::try_from(pid).ok().and_then(start_time).unwrap_or_default();
    format!("{}.{pid}.{began}", namespace())
}

fn namespace() -> String {
    let link = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    link.to_string_lossy().chars().filter(char::is_ascii_digit).collect()
}

fn processes() -> impl Iterator<Item = i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

fn mark_of(pid: i32) -> Option<String> {
    let variables = fs::read(format!("/proc/{pid}/environ")).ok()?;
    let prefix = format!("{MARK}=");
    let found = variables.split(|byte| *byte == 0).find_map(|entry| entry.strip_prefix(prefix.as_bytes()))?;
    String::from_utf8(found.to_vec()).ok()
}

fn parent(pid: i32) -> Option<i32> {
    stat(pid, 1)?.parse().ok()
}

fn start_time(pid: i32) -> Option<String> {
    stat(pid, 19)
}

/// A field of the process's line, counted from its state. The name before may hold blanks and brackets.
fn stat(pid: i32, field: usize) -> Option<String> {
    let line = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    line.rsplit_once(") ")?.1.split(' ').nth(field).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_is_found_by_its_parent_and_a_mark_by_its_worker() {
        let run = mark("story");
        let sleeper =
            |mark: &str| std::process::Command::new("/bin/sleep").arg("600").env(MARK, mark).spawn().unwrap();
        let (mut ours, mut dead) = (sleeper(&run), sleeper(&format!("{}.1.0.story", namespace())));
        let mut other = sleeper("1.1.0.story");
        let pids = [&ours, &dead, &other].map(|child| Pid::from_raw(i32::try_from(child.id()).unwrap()));
        let found = descendants(Pid::this());
        assert!(pids.iter().all(|pid| found.contains(pid)), "{found:?}");

        // The fork is there before its environment is the new one.
        while pids.iter().any(|pid| mark_of(pid.as_raw()).is_none()) {
            std::thread::yield_now();
        }
        assert!(sweep_orphans() >= 1, "one of a worker that is gone");
        assert!(dead.wait().unwrap().code().is_none());
        assert!(ours.try_wait().unwrap().is_none() && other.try_wait().unwrap().is_none());
        assert_eq!(sweep(&run), 1);
        assert!(ours.wait().unwrap().code().is_none());
        other.kill().unwrap();
        other.wait().unwrap();
    }
}
