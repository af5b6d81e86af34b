//! Keeps leases alive from a thread of its own, with a runtime and a connection of its own: whatever
//! handlers do to the worker's runtime, beats go on.
//!
//! The same thread watches the local deadline (a lease that no beat confirmed in time stops its handlers)
//! and the listener, so that a request to cancel is heard too.

use std::io;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use futures_util::future::join_all;
use jobforge_core::connect::Backoff;
use jobforge_core::{Beat, Code, Error, rpc};
use tokio::runtime;
use tokio::time::{self, MissedTickBehavior, interval_at, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::engine::Engine;
use crate::holdings::BeatList;
use crate::job::{Life, Stop};
use crate::link::{Link, told, within};
use crate::listener::listen;
use crate::supervise::Heart;

/// Starts the thread.
pub(crate) fn start(engine: Arc<Engine>) -> io::Result<Heart> {
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    let (over, ended) = (CancellationToken::new(), CancellationToken::new());
    let (is_over, tells) = (over.clone(), ended.clone().drop_guard());
    let body = move || {
        // However it ends.
        let _tells = tells;
        runtime.block_on(async {
            tokio::select! {
                () = is_over.cancelled() => {}
                () = beat(&engine) => {}
                () = watch_deadlines(&engine) => {}
                () = listen(&engine) => {}
            }
        });
    };
    let thread = thread::Builder::new().name("jobforge-heartbeat".to_owned()).spawn(body)?;
    Ok(Heart { over, ended, thread: Some(thread) })
}

/// Beats at a fixed rate, whenever somebody asks, and again soon after a beat that failed.
async fn beat(engine: &Engine) {
    let mut link = Link::new(&engine.config);
    let mut backoff = Backoff::new();
    let every = engine.config.heartbeat_interval();
    // A lease that was just made needs no beat yet.
    let mut ticks = interval_at(time::Instant::now() + every, every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            () = engine.beat_now.notified() => {}
        }
        engine.config.faults.hit("beat").await;
        while let Err(error) = beat_all(engine, &mut link).await {
            tracing::warn!(worker_id = engine.worker_id(), error = told(&error), "a beat failed");
            sleep(backoff.next_delay()).await;
        }
        backoff.reset();
    }
}

/// One beat for every lease that needs one; the first failure that is worth another try is returned.
async fn beat_all(engine: &Engine, link: &mut Link) -> Result<(), Error> {
    let lists = engine.holdings.beats();
    if lists.is_empty() {
        return Ok(());
    }
    let client = link.client().await?;
    let patience = engine.config.call_timeout.min(engine.config.heartbeat_interval());
    let sent = Instant::now();
    let calls = lists.iter().map(|list| {
        let call = rpc::heartbeat(&*client, list.lease.id, Some(&list.jobs), list.through);
        within(patience, "heartbeat", call)
    });
    let answers = join_all(calls).await;
    let mut failed = Ok(());
    for (list, answer) in lists.iter().zip(answers) {
        link.heed(&answer);
        match answer {
            Ok(beat) => take_in(engine, list, &beat, sent),
            Err(error) if error.code() == Some(Code::LeaseLost) => {
                tracing::warn!(worker_id = engine.worker_id(), lease_id = %list.lease.id, "a lease is lost");
                engine.holdings.lose(&list.lease);
                engine.clear_doubtful();
            }
            Err(error) => failed = Err(error),
        }
    }
    failed
}

fn take_in(engine: &Engine, list: &BeatList, beat: &Beat, sent: Instant) {
    list.lease.renew(sent + engine.config.lease());
    if list.lease.life() == Life::Overdue {
        // It lived through the silence: what was interrupted on it can be given back.
        list.lease.set_life(Life::Live);
        engine.report_now.notify_one();
    }
    engine.holdings.stop(&list.lease, &beat.canceled, Stop::Canceled);
    engine.holdings.stop(&list.lease, &beat.lost, Stop::Lost);
}

/// Stops the handlers of a lease whose end comes near without a confirmed beat.
async fn watch_deadlines(engine: &Engine) {
    let margin = engine.config.margin();
    loop {
        let Some(deadline) = engine.holdings.next_deadline(margin) else {
            engine.holdings.adopted.notified().await;
            continue;
        };
        sleep_until(deadline.into()).await;
        let overdue = engine.holdings.stop_overdue(Instant::now(), margin);
        for lease in &overdue {
            tracing::warn!(
                worker_id = engine.worker_id(),
                lease_id = %lease.id,
                "no beat was confirmed in time: the handlers are stopped"
            );
        }
        if !overdue.is_empty() {
            engine.clear_doubtful();
            engine.beat_now.notify_one();
        }
    }
}
