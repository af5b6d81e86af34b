//! Hears notifications: there is work, a job of ours is canceled, a sentinel looks.
//!
//! A listener counts only once it has heard a test from another session: behind a pooler LISTEN succeeds and
//! hears nothing but, at times, itself. While none hears, the claim loop looks for itself each second.
//!
//! Postgres wakes every session that listens for whatever is said in its database, and where jobs come one at a time the second
//! one woken is in the way of the first. So the listener rests while the connection that claims hears for itself, has shown
//! it, and nothing runs for long: a handler that blocks the worker's runtime must not keep a request to cancel from being heard.

use std::time::{Duration, Instant};

use jobforge_core::Error;
use jobforge_core::connect::Backoff;
use jobforge_core::listen::{CANCEL, Listener, TICK, WAKE};
use tokio::time::{sleep, sleep_until, timeout};
use uuid::Uuid;

use crate::engine::Engine;
use crate::link::{told, within};

/// How long a way that lets no notifications through is left alone.
const DEAF_PAUSE: Duration = Duration::from_secs(30);

/// What a worker listens to.
pub(crate) const CHANNELS: [&str; 3] = [WAKE, CANCEL, TICK];

/// How often a listener that rests sees whether anything runs. What does so twice is not quick.
const GLANCE: Duration = Duration::from_millis(250);
/// How long it does not rest after something ran for long.
const ALERT: Duration = Duration::from_secs(10);

/// How long a claimer that listens for itself may take to go round before it counts as deaf to what was said here.
const HEAD_START: Duration = Duration::from_millis(50);

/// Where listeners test themselves, and how long one may take to hear.
const TEST: &str = "jobforge_test";
const TEST_PATIENCE: Duration = Duration::from_secs(1);

/// Listens for ever, over as many connections as it takes.
pub(crate) async fn listen(engine: &Engine) {
    let mut backoff = Backoff::new();
    loop {
        let answer = hear(engine, &mut backoff).await;
        if engine.ear.set_hears(false) {
            // Whoever sleeps must learn that nobody will wake it.
            engine.wake.notify_one();
        }
        match answer {
            Ok(()) => {
                tracing::warn!(
                    worker_id = engine.worker_id(),
                    "no notifications arrive: polling each second"
                );
                sleep(DEAF_PAUSE).await;
            }
            Err(error) => {
                tracing::warn!(worker_id = engine.worker_id(), error = told(&error), "the listener is lost");
                sleep(backoff.next_delay()).await;
            }
        }
    }
}

/// Listens on one connection until it is lost; returns without an error when it is deaf.
async fn hear(engine: &Engine, backoff: &mut Backoff) -> Result<(), Error> {
    let url = engine.config.direct_url.as_ref().unwrap_or(&engine.config.database_url);
    let patience = engine.config.call_timeout;
    let mut listener = within(patience, "listen", Listener::connect(url, &[])).await?;
    let mut heard = false;
    loop {
        engine.config.faults.hit("prove").await;
        if !within(patience + TEST_PATIENCE * 2, "listen", is_heard(engine, &mut listener, url)).await? {
            if heard {
                // A way that let notifications through once leads to a server that nobody talks to any more.
                return Err(Error::Closed { operation: "listen" });
            }
            // A session of a pooler's, which goes to others now. That it stays as it is costs them little: tests are rare.
            let _ = within(patience, "unlisten", listener.rest()).await;
            return Ok(());
        }
        if !std::mem::replace(&mut heard, true) {
            within(patience, "listen", listener.resume(&CHANNELS)).await?;
        }
        if !engine.ear.hears() {
            engine.ear.set_hears(true);
            // What was said before nobody heard.
            engine.wake.notify_one();
            engine.beat_now.notify_one();
        }
        backoff.reset();
        let mut alert_until = Instant::now();
        while attend(engine, &mut listener, alert_until).await? == Attended::Spared {
            let why = rest(engine, &mut listener).await?;
            if why == Rested::Doubted {
                break;
            } else if why == Rested::Busy {
                alert_until = Instant::now() + ALERT;
            }
        }
    }
}

#[derive(PartialEq, Eq)]
enum Attended {
    /// It should prove itself again.
    Doubted,
    /// The claimer heard what was said here.
    Spared,
}

/// Heeds what is said, as long as somebody has to.
async fn attend(engine: &Engine, listener: &mut Listener, alert_until: Instant) -> Result<Attended, Error> {
    // Work the claimer should have heard of: until when it may take, and the rounds it had made.
    let mut unsure: Option<(Instant, u64)> = None;
    loop {
        let check = unsure.map_or_else(Instant::now, |(until, _)| until);
        tokio::select! {
            said = listener.next() => {
                let said = said?;
                if said.channel == WAKE {
                    engine.config.faults.hit("hear").await;
                }
                if said.channel == WAKE && engine.ear.claimer_hears() {
                    unsure.get_or_insert_with(|| (Instant::now() + HEAD_START, engine.ear.rounds()));
                } else {
                    heed(engine, &said.channel, &said.payload);
                }
            }
            () = sleep_until(check.into()), if unsure.is_some() => {
                if unsure.take().is_some_and(|(_, rounds)| engine.ear.rounds() == rounds) {
                    engine.wake.notify_one();
                } else if engine.ear.claimer_suffices() && Instant::now() >= alert_until {
                    return Ok(Attended::Spared);
                }
            }
            () = engine.ear.doubted.notified() => return Ok(Attended::Doubted),
        }
    }
}

#[derive(PartialEq, Eq)]
enum Rested {
    Doubted,
    /// Something runs that is not quick.
    Busy,
    /// The claimer hears no more.
    Alone,
}

/// Listens to nothing until somebody has to; by then it listens again.
async fn rest(engine: &Engine, listener: &mut Listener) -> Result<Rested, Error> {
    let patience = engine.config.call_timeout;
    within(patience, "unlisten", listener.rest()).await?;
    let mut running = false;
    let why = loop {
        if !engine.ear.claimer_hears() {
            break Rested::Alone;
        }
        tokio::select! {
            // Said before it rested.
            said = listener.next() => said.map(|said| heed(engine, &said.channel, &said.payload))?,
            () = engine.ear.alone.notified() => {}
            () = engine.ear.doubted.notified() => break Rested::Doubted,
            () = sleep(GLANCE) => {
                let ran = std::mem::replace(&mut running, engine.stats().running > 0);
                if ran && running {
                    break Rested::Busy;
                }
            }
        }
    };
    engine.config.faults.hit("listen_again").await;
    within(patience, "listen", listener.resume(&CHANNELS)).await?;
    // What was said meanwhile may have reached nobody.
    engine.wake.notify_one();
    engine.beat_now.notify_one();
    Ok(why)
}

/// Whether the listener hears what another session says.
async fn is_heard(engine: &Engine, listener: &mut Listener, url: &str) -> Result<bool, Error> {
    Listener::speak(url).await?;
    let heard = async {
        loop {
            let notification = listener.next().await?;
            if notification.channel == TEST {
                return Ok::<(), Error>(());
            }
            heed(engine, &notification.channel, &notification.payload);
        }
    };
    match timeout(TEST_PATIENCE, heard).await {
        Ok(heard) => heard.map(|()| true),
        Err(_) => Ok(false),
    }
}

/// Does what was said.
pub(crate) fn heed(engine: &Engine, channel: &str, payload: &str) {
    match channel {
        WAKE => engine.wake.notify_one(),
        TICK => engine.ear.note_tick(),
        CANCEL => {
            let lease = Uuid::parse_str(payload);
            if lease.is_ok_and(|lease| engine.holdings.knows(lease)) {
                engine.beat_now.notify_one();
            }
        }
        _ => {}
    }
}
