//! Tells the database how jobs ended, in groups, on a connection of its own.
//!
//! A group goes off when it is full, when nothing more is at hand, or after a few milliseconds. What gets no
//! answer is sent again until the lease is known to be gone.

use std::sync::Arc;
use std::time::Duration;

use jobforge_core::connect::Backoff;
use jobforge_core::{Code, Error, rpc};
use tokio::time::{Instant, sleep, sleep_until};
use tokio_postgres::Client;

use crate::apart::{AGAIN, is_locked};
use crate::bundle::{Bundle, Call};
use crate::engine::{Engine, Finished, Inboxes};
use crate::flights::{Flights, Landed};
use crate::holdings::BeatList;
use crate::job::{Lease, Life};
use crate::link::{Link, told, within};
use crate::notes::{MOST_WAITING, Speech};

/// The reporter of one worker.
pub(crate) struct Reporter {
    engine: Arc<Engine>,
    flights: Flights,
    inboxes: Inboxes,
    /// What jobs said. It is told before their ends, after which nobody may tell more of them.
    speech: Speech,
    group: Vec<Finished>,
    /// Ends of jobs of which something is not told yet.
    behind: Vec<Finished>,
    bundles: Vec<Bundle>,
    /// When to try again to close leases, if somebody held one of their jobs locked.
    close_at: Option<Instant>,
    backoff: Backoff,
}

impl Reporter {
    pub(crate) fn new(engine: Arc<Engine>, inboxes: Inboxes, link: Link) -> Reporter {
        Reporter {
            flights: Flights::new(engine.clone(), link),
            engine,
            inboxes,
            speech: Speech::default(),
            group: Vec::new(),
            behind: Vec::new(),
            bundles: Vec::new(),
            close_at: None,
            backoff: Backoff::new(),
        }
    }

    /// Runs until the last call, and then until everything is told or its lease is gone.
    pub(crate) async fn run(mut self) {
        loop {
            let told = self.round().await;
            self.settle();
            match told {
                Ok(()) => self.backoff.reset(),
                Err(error) => self.pause(&error).await,
            }
            if self.engine.last_call.is_cancelled() && self.is_over() {
                return;
            }
        }
    }

    async fn round(&mut self) -> Result<(), Error> {
        self.wait().await?;
        self.gather().await?;
        self.ask_rules().await?;
        self.say().await?;
        self.bundle();
        match self.has_nothing_to_tell() {
            // The groups under way are not waited for: the next one may go beside them.
            true => Ok(()),
            false if self.goes_ahead() => self.launch().await,
            false => self.tell().await,
        }
    }

    /// Returns when there is something to tell or to try again; with an error when a group is back that was not told. What is
    /// due comes last: jobs that say more than can be told keep it due all the time, and outcomes must be taken in all the same.
    async fn wait(&mut self) -> Result<(), Error> {
        let most = self.engine.config.report_group;
        let engine = self.engine.clone();
        let due = self.due();
        if !self.group.is_empty() {
            return Ok(());
        }
        tokio::select! {
            biased;
            _ = self.inboxes.endings.recv_many(&mut self.group, most) => {}
            Some(landed) = self.flights.land() => return self.take_back(landed),
            note = self.inboxes.notes.recv() => {
                if let Some(note) = note {
                    self.speech.gather(note);
                }
            }
            () = engine.report_now.notified() => {}
            () = last_call(&engine) => {}
            () = at(due) => {}
        }
        Ok(())
    }

    /// Fills the group while more work is at hand or a group is under way; with nothing else to do an outcome goes off at
    /// once.
    async fn gather(&mut self) -> Result<(), Error> {
        let most = self.engine.config.report_group;
        let until = Instant::now() + self.engine.config.report_delay;
        while !self.group.is_empty() && self.group.len() < most {
            let room = most - self.group.len();
            let flows = self.engine.buffer.level().flows;
            if self.inboxes.endings.is_empty() && self.flights.is_empty() && !flows {
                break;
            }
            // What is too small to go beside another waits for it.
            let goes =
                self.flights.is_empty() || (self.is_large(self.group.len()) && self.flights.has_room());
            tokio::select! {
                biased;
                _ = self.inboxes.endings.recv_many(&mut self.group, room) => {}
                Some(landed) = self.flights.land() => self.take_back(landed)?,
                () = sleep_until(until), if goes => break,
            }
        }
        self.hear();
        Ok(())
    }

    /// Takes in what jobs said. After their outcomes, because a job's notes were put in before its outcome; and no more than may
    /// have been there then, for jobs may go on talking.
    fn hear(&mut self) {
        for _ in 0..MOST_WAITING {
            let Ok(note) = self.inboxes.notes.try_recv() else { return };
            self.speech.gather(note);
        }
    }

    /// When there is something to do without anything new.
    fn due(&self) -> Option<Instant> {
        let bundles = self.bundles.iter().filter_map(due).min();
        let close = (!self.closable().is_empty()).then(|| self.close_at.unwrap_or_else(Instant::now));
        let free = self.engine.holdings.next_freeing().map(Instant::from_std);
        [bundles, self.speech.due(), close, free].into_iter().flatten().min()
    }

    /// Tells what jobs said. On an error their ends wait, too.
    async fn say(&mut self) -> Result<(), Error> {
        self.speech.forget_lost();
        if self.speech.due().is_none_or(|due| due > Instant::now()) {
            return Ok(());
        }
        let client = self.flights.link().client().await?;
        let answer = self.speech.tell(&client, self.engine.config.call_timeout).await;
        self.flights.link().heed(&answer);
        answer
    }

    /// Asks what definitions say of payloads, if a job waits for that to start.
    async fn ask_rules(&mut self) -> Result<(), Error> {
        if !self.engine.rules.take_wanted() {
            return Ok(());
        }
        let back = self.make_room().await;
        let asked = std::time::Instant::now();
        let types = &self.engine.registration.types;
        let link = self.flights.link();
        let answer = match link.client().await {
            Ok(client) => {
                let call = rpc::definition_rules(&*client, types);
                within(self.engine.config.call_timeout, "definition_rules", call).await
            }
            Err(error) => Err(error),
        };
        link.heed(&answer);
        match answer {
            Ok(rules) => self.engine.rules.learn(asked, rules),
            Err(error) => {
                tracing::warn!(error = told(&error), "the definitions' rules are not renewed");
                self.engine.rules.keep(asked);
            }
        }
        back
    }

    /// Sorts the group by lease.
    fn bundle(&mut self) {
        let behind = std::mem::take(&mut self.behind);
        for finished in behind.into_iter().chain(self.group.drain(..)) {
            if self.speech.holds(&finished.job) {
                self.behind.push(finished);
                continue;
            }
            let lease = &finished.job.lease;
            // Nearly always the first one.
            let at = self.bundles.iter().position(|bundle| bundle.goes_with(lease, false));
            let at = at.unwrap_or_else(|| {
                self.bundles.push(Bundle::new(lease.clone()));
                self.bundles.len() - 1
            });
            self.bundles[at].add(finished, &self.engine);
        }
    }

    /// Whether one group is all there is to tell: then the next one need not wait for it. A small one goes alone, or is what
    /// somebody held locked.
    fn goes_ahead(&self) -> bool {
        let mut due = self.bundles.iter().filter(|bundle| is_due(bundle));
        let (Some(bundle), None) = (due.next(), due.next()) else { return false };
        let goes = self.is_large(bundle.len()) || bundle.is_set_aside() || self.flights.is_empty();
        goes && bundle.lease.life() == Life::Live
    }

    fn is_large(&self, outcomes: usize) -> bool {
        outcomes >= self.engine.config.report_group.div_ceil(2)
    }

    async fn launch(&mut self) -> Result<(), Error> {
        let (group, rest) = std::mem::take(&mut self.bundles).into_iter().partition::<Vec<_>, _>(is_due);
        self.bundles = rest;
        let back = self.make_room().await;
        group.into_iter().for_each(|bundle| self.flights.launch(bundle));
        back
    }

    /// Waits until one more group can go.
    async fn make_room(&mut self) -> Result<(), Error> {
        match self.flights.has_room() {
            true => Ok(()),
            false => self.flights.land().await.map_or(Ok(()), |landed| self.take_back(landed)),
        }
    }

    /// What of a group was not told is told again.
    fn take_back(&mut self, Landed { bundle, answer }: Landed) -> Result<(), Error> {
        let set_aside = bundle.is_set_aside();
        match self.bundles.iter_mut().find(|own| own.goes_with(&bundle.lease, set_aside)) {
            Some(own) => own.merge(bundle),
            None => self.bundles.push(bundle),
        }
        self.settle();
        answer
    }

    fn has_nothing_to_tell(&self) -> bool {
        !self.bundles.iter().any(is_due) && self.to_close().is_empty() && self.to_free().is_empty()
    }

    /// Tells everything that is at hand, and waits for the answers.
    async fn tell(&mut self) -> Result<(), Error> {
        while let Some(landed) = self.flights.land().await {
            self.take_back(landed)?;
        }
        if self.has_nothing_to_tell() {
            return Ok(());
        }
        let client = self.flights.link().client().await?;
        let answer = self.tell_on(&client).await;
        self.flights.link().heed(&answer);
        answer
    }

    async fn tell_on(&mut self, client: &Client) -> Result<(), Error> {
        let patience = self.engine.config.call_timeout;
        let call = Call { client, patience, engine: &self.engine };
        self.engine.config.faults.hit("report").await;
        // What somebody held locked may be so still, and takes its time.
        self.bundles.sort_by_key(Bundle::is_set_aside);
        for bundle in self.bundles.iter_mut().filter(|bundle| is_due(bundle)) {
            match bundle.lease.life() {
                Life::Live => bundle.send(call).await?,
                // Whether it lives the next beat tells.
                Life::Overdue => {}
                Life::Lost => bundle.drop_all(&self.engine),
            }
        }
        self.settle();
        for known in self.to_free() {
            self.free(client, &known).await?;
        }
        for lease in self.to_close() {
            self.close(client, &lease).await?;
        }
        Ok(())
    }

    /// Whether nothing is at hand or under way that a lease is needed for.
    fn is_told(&self) -> bool {
        let at_hand = self.group.len() + self.behind.len() + self.bundles.len();
        at_hand == 0 && self.speech.is_empty() && self.flights.is_empty() && self.inboxes.endings.is_empty()
    }

    /// Leases that are not needed any more: at the end all of them, with what slots never gave back.
    fn closable(&self) -> Vec<Arc<Lease>> {
        match self.engine.last_call.is_cancelled() && self.is_told() {
            true => self.engine.holdings.leases(),
            false => self.engine.holdings.closable(),
        }
    }

    fn to_close(&self) -> Vec<Arc<Lease>> {
        match self.close_at.is_some_and(|at| at > Instant::now()) {
            true => Vec::new(),
            false => self.closable(),
        }
    }

    /// Ends a lease that is not needed any more; jobs on it that this worker never heard of go back.
    async fn close(&mut self, client: &Client, lease: &Lease) -> Result<(), Error> {
        let patience = self.engine.config.call_timeout;
        let close = async {
            // A last beat says what is settled, or the database would look for each job since the one before.
            if let Some(beat) = self.engine.holdings.beat_of(lease) {
                rpc::heartbeat(client, lease.id, Some(&beat.jobs), beat.through).await?;
            }
            rpc::close_lease(client, lease.id).await
        };
        match within(patience, "release_jobs", close).await {
            Err(error) if is_locked(&error) => {
                self.close_at = Some(Instant::now() + AGAIN);
                return Ok(());
            }
            Err(error) if error.is_transient() => return Err(error),
            // Its claim may still be under way in the database, though nobody waits for its answer.
            Err(error) if error.code() == Some(Code::LeaseLost) && self.may_come(lease) => {
                self.close_at = Some(Instant::now() + AGAIN);
                return Ok(());
            }
            Err(error) if error.code() == Some(Code::LeaseLost) => {}
            Err(error) => {
                tracing::error!(lease_id = %lease.id, error = told(&error), "a lease cannot be closed");
            }
            Ok(()) => {}
        }
        self.engine.holdings.forget(lease);
        // What came back from it, or the next suspect, may be had now.
        self.engine.wake.notify_one();
        Ok(())
    }

    /// Whether a lease of which no answer told may come to be, and be closed then. At the end nobody is there to wait for it.
    fn may_come(&self, lease: &Lease) -> bool {
        let waits = !self.engine.last_call.is_cancelled();
        waits && lease.is_unheard() && lease.good_until() > std::time::Instant::now()
    }

    fn to_free(&self) -> Vec<BeatList> {
        self.engine.holdings.to_free()
    }

    /// Gives back what this worker never heard of, on a lease that it still needs for what it knows. And once more with the
    /// next beats: a claim whose answer is lost may come late.
    async fn free(&mut self, client: &Client, known: &BeatList) -> Result<(), Error> {
        let lease = &known.lease;
        let call = rpc::release_others(client, lease.id, &known.jobs);
        let answer = within(self.engine.config.call_timeout, "release_others", call).await;
        let again = if answer.as_ref().is_err_and(is_locked) {
            AGAIN
        } else {
            self.engine.config.heartbeat_interval()
        };
        self.engine.holdings.free_again(lease, std::time::Instant::now() + again);
        match answer {
            Ok(freed) if freed > 0 => {
                tracing::info!(lease_id = %lease.id, freed, "jobs of a claim whose answer was lost went back");
                self.engine.wake.notify_one();
                Ok(())
            }
            // A lease that is gone the next beat notices.
            Ok(_) => Ok(()),
            Err(error) if error.is_connection() => Err(error),
            Err(error) => {
                tracing::debug!(lease_id = %lease.id, error = told(&error), "nothing went back yet");
                Ok(())
            }
        }
    }

    /// Lets jobs start in the place of those that were settled.
    fn settle(&mut self) {
        for bundle in &mut self.bundles {
            let started = std::mem::take(&mut bundle.settled).started;
            if started > 0 {
                self.engine.buffer.settle(&bundle.lease, started);
            }
        }
        self.bundles.retain(|bundle| !bundle.is_empty());
        self.engine.holdings.sweep();
        self.engine.told.notify_one();
    }

    async fn pause(&mut self, error: &Error) {
        tracing::warn!(
            worker_id = self.engine.worker_id(),
            error = told(error),
            "reports wait for the database"
        );
        sleep(self.backoff.next_delay()).await;
        // Leases may have been lost meanwhile, whether or not the database answers.
        self.hear();
        self.speech.forget_lost();
        self.bundle();
        for bundle in self.bundles.iter_mut().filter(|bundle| bundle.lease.life() == Life::Lost) {
            bundle.drop_all(&self.engine);
        }
        self.settle();
    }

    fn is_over(&self) -> bool {
        self.is_told() && self.engine.holdings.leases().is_empty()
    }
}

/// When a group is to be sent, or dropped; of one whose lease is overdue the next beat tells whether it lives.
fn due(bundle: &Bundle) -> Option<Instant> {
    match bundle.lease.life() {
        Life::Live => Some(bundle.due()),
        Life::Overdue => None,
        Life::Lost => Some(Instant::now()),
    }
}

fn is_due(bundle: &Bundle) -> bool {
    due(bundle).is_some_and(|due| due <= Instant::now())
}

/// The last call, heard once more each moment: what hangs on a beat may be decided by then.
async fn last_call(engine: &Engine) {
    engine.last_call.cancelled().await;
    sleep(Duration::from_millis(20)).await;
}

/// That moment; without one, never. One that is past costs no turn of the clock.
async fn at(moment: Option<Instant>) {
    match moment {
        Some(moment) if moment <= Instant::now() => {}
        Some(moment) => sleep_until(moment).await,
        None => std::future::pending().await,
    }
}
