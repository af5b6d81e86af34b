//! Who waits for work over HTTP is woken when there is some: one listening connection for all of a server's long polls.
//!
//! Whoever waits has said so to the database (`sleep_worker`), so enqueues notify. Once a second the server looks for
//! what no notification tells, work that falls due, as one of the sleepers does for all. A notification is a hint: while
//! none can be heard, those who wait look for themselves.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use jobforge_core::connect::Backoff;
use jobforge_core::listen::{Listener, WAKE};
use jobforge_core::{Error, rpc};
use tokio::sync::{Notify, Semaphore, watch};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::db::Db;

/// How often somebody looks, and how often those who hear nothing claim.
const LOOK: Duration = Duration::from_secs(1);
/// How often those who hear claim all the same.
const FLOOR: Duration = Duration::from_secs(25);
/// How long a way that lets no notifications through is left alone.
const DEAF_PAUSE: Duration = Duration::from_secs(30);
/// How long a connection may take to be made and tested.
const PATIENCE: Duration = Duration::from_secs(10);
/// How many of those who are woken claim at a time: the others' requests need connections too.
const AT_ONCE: usize = 4;

/// The long polls of a server and what wakes them.
pub(crate) struct Wakes(Arc<Ear>);

struct Ear {
    url: Option<String>,
    db: Arc<Db>,
    /// The server as a sleeper among workers.
    name: String,
    ending: CancellationToken,
    woken: watch::Sender<u64>,
    hears: AtomicBool,
    waiting: AtomicUsize,
    needed: Notify,
    at_once: Semaphore,
}

/// Somebody who waits.
pub(crate) struct Waiting {
    ear: Arc<Ear>,
    woken: watch::Receiver<u64>,
}

impl Wakes {
    /// Listens on this way, from the first time that somebody waits until the server ends.
    pub(crate) fn start(url: Option<String>, db: Arc<Db>, ending: CancellationToken) -> Wakes {
        let ear = Arc::new(Ear {
            url,
            db,
            name: format!("server:{}", Uuid::new_v4()),
            ending,
            woken: watch::Sender::new(0),
            hears: AtomicBool::new(false),
            waiting: AtomicUsize::new(0),
            needed: Notify::new(),
            at_once: Semaphore::new(AT_ONCE),
        });
        let listening = ear.clone();
        tokio::spawn(async move {
            let ending = listening.ending.clone();
            ending.run_until_cancelled(listening.listen()).await
        });
        Wakes(ear)
    }

    /// From now on no wake-up is missed.
    pub(crate) fn wait(&self) -> Waiting {
        self.0.waiting.fetch_add(1, Ordering::Relaxed);
        self.0.needed.notify_one();
        Waiting { ear: self.0.clone(), woken: self.0.woken.subscribe() }
    }
}

impl Waiting {
    /// Returns when there may be work: somebody said so, or it is time to look.
    pub(crate) async fn woken(&mut self) {
        let pause = if self.ear.hears.load(Ordering::Relaxed) { FLOOR } else { LOOK };
        tokio::select! {
            _ = self.woken.changed() => {}
            () = sleep(pause) => {}
        }
    }

    /// Does this when it is its turn among those who were woken.
    pub(crate) async fn in_turn<T>(&self, claim: impl Future<Output = T>) -> T {
        // Never closed; without a permit it would only be early.
        let _permit = self.ear.at_once.acquire().await;
        claim.await
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.ear.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Ear {
    /// Listens for ever, over as many connections as it takes.
    async fn listen(&self) {
        let Some(url) = &self.url else { return };
        let mut backoff = Backoff::new();
        let mut lost = false;
        loop {
            self.needed.notified().await;
            if self.waiting.load(Ordering::Relaxed) == 0 {
                continue;
            }
            // Whoever waits goes on being a reason to listen.
            self.needed.notify_one();
            let answer = self.hear(url, &mut backoff).await;
            // Once: the next tries fail for the same reason.
            let told = lost && !self.hears.swap(false, Ordering::Relaxed);
            lost = answer.is_err();
            self.wake();
            match answer {
                Ok(()) => {
                    tracing::warn!("no notifications arrive: long polls look each second; set direct_url");
                    sleep(DEAF_PAUSE).await;
                }
                Err(error) => {
                    if !told {
                        tracing::warn!(
                            error = &error as &dyn std::error::Error,
                            "the listener for work is lost"
                        );
                    }
                    sleep(backoff.next_delay().min(LOOK)).await;
                }
            }
        }
    }

    /// Listens on one connection until it is lost; returns without an error when it is deaf.
    async fn hear(&self, url: &str, backoff: &mut Backoff) -> Result<(), Error> {
        let mut demotions = self.db.outage.demotions();
        let prove = async {
            let mut listener = Listener::connect(url, &[]).await?;
            if listener.test_from(url).await? {
                listener.resume(&[WAKE]).await?;
                return Ok(Some(listener));
            }
            listener.rest().await?;
            Ok(None)
        };
        let late = |_| Err(Error::Timeout { operation: "listen", after: PATIENCE });
        let Some(mut listener) = timeout(PATIENCE, prove).await.unwrap_or_else(late)? else { return Ok(()) };
        backoff.reset();
        self.hears.store(true, Ordering::Relaxed);
        // What was said before nobody heard.
        self.wake();
        let mut look = tokio::time::interval(LOOK);
        look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                notification = listener.next() => {
                    if notification?.channel == WAKE {
                        self.wake();
                    }
                }
                _ = look.tick() => self.look().await?,
                _ = demotions.changed() => return Err(Error::ReadOnly),
            }
        }
    }

    /// Looks for all sleepers, if nobody else does: what it finds is told by a notification. An error when the database is
    /// lost: what broke this connection may have silenced the listener's.
    async fn look(&self) -> Result<(), Error> {
        if self.waiting.load(Ordering::Relaxed) == 0 {
            return Ok(());
        }
        let look = async {
            let Ok(client) = self.db.worker().await else {
                // Without a turn among many requests nothing is known of the database.
                return if self.db.outage.is_on() {
                    Err(Error::Closed { operation: "look" })
                } else {
                    Ok(())
                };
            };
            client.attempt(async |c| rpc::look(c, &self.name).await).await.map(drop)
        };
        let late = |_| Err(Error::Timeout { operation: "look", after: PATIENCE });
        match timeout(PATIENCE, look).await.unwrap_or_else(late) {
            Err(error) if error.is_connection() => Err(error),
            Err(error) => {
                tracing::warn!(error = &error as &dyn std::error::Error, "no look for due work");
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }

    fn wake(&self) {
        self.woken.send_modify(|times| *times += 1);
    }
}
