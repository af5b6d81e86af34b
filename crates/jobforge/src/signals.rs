//! An orderly end: the first Ctrl-C or SIGTERM asks for it, the second one does not wait. A terminal that is closed
//! (SIGHUP) asks for it, too.

use std::ptr;

use anyhow::{Context, Result};
use nix::errno::Errno;
use nix::libc;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals that end a process.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    /// Unless it was ignored from the start, as under `nohup`.
    hangup: Option<Signal>,
}

impl Signals {
    /// From now on the signals are waited for, instead of ending the process.
    pub(crate) fn listen() -> Result<Signals> {
        let listen = |kind| signal(kind).context("cannot listen for signals");
        let hears_hangup = !hangup_is_ignored().context("cannot look at SIGHUP")?;
        Ok(Signals {
            hangup: hears_hangup.then(|| listen(SignalKind::hangup())).transpose()?,
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
        })
    }

    /// Returns with the next signal.
    pub(crate) async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            Some(_) = async { self.hangup.as_mut()?.recv().await } => {
                // A terminal that is closed may say so more than once.
                self.hangup = None;
            }
        }
    }

    /// Runs an orderly end, or what must not keep the process from one; `None` if a signal came meanwhile. It begins even where
    /// the signal came before: a second call of an orderly end counts on the first one.
    pub(crate) async fn unless_repeated<T>(&mut self, under_way: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            done = under_way => Some(done),
            () = self.next() => None,
        }
    }
}

/// Whether this process was started with SIGHUP ignored.
fn hangup_is_ignored() -> nix::Result<bool> {
    // SAFETY: an action of zeros is a valid one to be overwritten.
    #[allow(unsafe_code)]
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: nothing is installed: without a new action the call only tells the present one.
    #[allow(unsafe_code)]
    let looked = unsafe { libc::sigaction(libc::SIGHUP, ptr::null(), &raw mut action) };
    Errno::result(looked)?;
    Ok(action.sa_sigaction == libc::SIG_IGN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_a_signal_breaks_off_was_begun() {
        let mut signals = Signals::listen().unwrap();
        let mut beside = Signals::listen().unwrap();
        // Often enough that no luck decides.
        for _ in 0..64 {
            nix::sys::signal::raise(nix::sys::signal::SIGTERM).unwrap();
            beside.next().await;
            let mut begun = false;
            let under_way = async {
                begun = true;
                std::future::pending::<()>().await;
            };
            assert!(signals.unless_repeated(under_way).await.is_none());
            assert!(begun);
        }
    }
}
