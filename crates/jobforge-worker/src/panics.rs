//! Panics of handlers are caught and told with the job, redacted. The process's own panic hook would print their
//! message before that, as it is.

use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Makes the process print the place of a handler's panic and not its message, which may hold what the job's
/// definition redacts. Other panics are printed as before, also those of tasks that a handler spawned.
pub fn hush_handler_panics() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if INSIDE.get() {
            let place = panic.location().map(ToString::to_string).unwrap_or_default();
            tracing::error!(place, "a handler panicked");
        } else {
            before(panic);
        }
    }));
}

/// Runs a handler's code.
pub(crate) fn inside<T>(code: impl FnOnce() -> T) -> T {
    let _inside = Inside(INSIDE.replace(true));
    code()
}

/// What it was before, put back also while a panic unwinds.
struct Inside(bool);

impl Drop for Inside {
    fn drop(&mut self) {
        INSIDE.set(self.0);
    }
}

/// A handler's future, each step of which is its code.
pub(crate) struct Handling<F>(pub(crate) F);

impl<F: Future + Unpin> Future for Handling<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        inside(|| Pin::new(&mut self.0).poll(cx))
    }
}
