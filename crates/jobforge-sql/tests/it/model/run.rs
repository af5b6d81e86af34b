//! A run: dice choose who does what, in or outside of a transaction that stays open for some steps, and after
//! every commit the tables must be as the model says.

use jobforge_testkit::TestDb;
use uuid::Uuid;

use super::check::Checker;
use super::dice::Dice;
use super::machine::{Machine, Micros, SECOND, Track};
use super::track::{Answer, PARTS, Part, Wire};

/// A claim that was handed out: what a report on it must carry. Old ones are kept, for reports that come too late.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Holding {
    pub(crate) lease: Uuid,
    pub(crate) tenant: Uuid,
    pub(crate) job: Uuid,
    pub(crate) fence: i32,
}

pub(crate) struct Run {
    pub(crate) machine: Machine,
    pub(crate) dice: Dice,
    pub(crate) wires: Vec<Wire>,
    pub(crate) holdings: Vec<Holding>,
    /// Every id that was ever told, also in transactions that were rolled back.
    pub(crate) known: Vec<(Uuid, Uuid)>,
    pub(crate) leases: Vec<Uuid>,
    pub(crate) term: i64,
    pub(crate) counts: Counts,
    clock: Wire,
    checker: Checker,
}

/// How often something happened: a run in which nothing is refused or rolled back proves little.
#[derive(Default, Debug, Clone, Copy)]
pub(crate) struct Counts {
    pub(crate) steps: usize,
    pub(crate) claimed: usize,
    pub(crate) refused: usize,
    pub(crate) stale: usize,
    pub(crate) commits: usize,
    pub(crate) rollbacks: usize,
    pub(crate) reaped: usize,
    pub(crate) ruled: usize,
    pub(crate) blocked: usize,
    pub(crate) skipped: usize,
}

/// What a step was: done, refused by the server as foreseen, or not taken because it would wait for a lock.
#[derive(PartialEq, Eq)]
pub(crate) enum Step {
    Done,
    Refused,
    Skipped,
}

pub(crate) type Outcome = Result<Step, String>;

impl Run {
    pub(crate) async fn new(db: &TestDb, seed: u64, patience: &str) -> Run {
        db.advance_clock(0.0).await;
        let mut wires = Vec::new();
        for part in PARTS {
            wires.push(Wire::open(db, part, patience).await);
        }
        for kind in super::KINDS {
            let sql = "select jobforge.upsert_definition($1, p_max_attempts => 3, p_max_deaths => 3)";
            wires[6].ask(sql, &[&kind]).await.expect("the definitions of a run");
        }
        let clock = Wire::over(db.connect_super().await);
        let checker = Checker::new(Wire::over(db.connect_super().await));
        let mut run = Run {
            machine: Machine::default(),
            dice: Dice::of(seed),
            wires,
            holdings: Vec::new(),
            known: Vec::new(),
            leases: Vec::new(),
            term: 0,
            counts: Counts::default(),
            clock,
            checker,
        };
        run.lose(0).await.expect("the clock stands");
        run.lead().await.expect("nobody leads yet");
        run
    }

    /// Takes this many steps; the first divergence ends the run and tells what, where and after how many steps.
    pub(crate) async fn take(&mut self, steps: usize) -> Result<Counts, String> {
        for step in 1..=steps {
            self.counts.steps = step;
            let done = self.step().await;
            done.map_err(|what| format!("step {step}: {what}"))?;
            if step % 50 == 0 || step == steps {
                self.checker
                    .everything(&mut self.machine)
                    .await
                    .map_err(|what| format!("after step {step}: {what}"))?;
            }
        }
        Ok(self.counts)
    }

    async fn step(&mut self) -> Result<(), String> {
        if self.dice.chance(6) {
            return self.let_time_go().await;
        }
        // Ids begin with the time and leases end in its order: with one time for each step they, too, are the same
        // in every throw of a run.
        self.lose(1000).await?;
        let track = self.dice.below(PARTS.len());
        let mut open = self.machine.open.contains_key(&track);
        if !open && self.dice.chance(30) {
            self.wires[track].say("begin").await;
            self.machine.change(track);
            open = true;
        }
        let step = self.act(track).await.map_err(|what| format!("{:?} {what}", PARTS[track]))?;
        if step == Step::Skipped {
            self.counts.skipped += 1;
        }
        if !open && step == Step::Skipped {
            self.machine.end(track, false);
            return Ok(());
        }
        if !open {
            return self.end(track, step == Step::Done).await;
        }
        if step == Step::Refused {
            self.wires[track].say("rollback").await;
            self.end(track, false).await
        } else if self.dice.chance(35) {
            let commit = self.dice.chance(75);
            self.wires[track].say(if commit { "commit" } else { "rollback" }).await;
            self.end(track, commit).await
        } else {
            Ok(())
        }
    }

    async fn act(&mut self, track: Track) -> Outcome {
        let die = self.dice.below(100);
        match PARTS[track] {
            Part::App(tenant) => match die {
                0..=54 => self.enqueue(track, tenant).await,
                55..=69 => self.cancel(track, tenant).await,
                70..=77 => self.retry(track, tenant).await,
                78..=84 => self.redrive(track, tenant).await,
                _ => self.reschedule(track, tenant).await,
            },
            Part::Worker(worker) => match die {
                0..=34 => self.claim(track, worker).await,
                35..=44 => self.beat(track).await,
                45..=58 => self.complete(track).await,
                59..=81 => self.fail(track).await,
                82..=88 => self.snooze(track).await,
                89..=96 => self.release(track).await,
                _ => self.release_lease(track).await,
            },
            Part::Operator if die < 25 => self.rule(track).await,
            Part::Operator => self.reap(track).await,
        }
    }

    async fn end(&mut self, track: Track, commit: bool) -> Result<(), String> {
        if commit {
            self.counts.commits += 1;
        } else {
            self.counts.rollbacks += 1;
        }
        let touched = self.machine.end(track, commit);
        self.checker.touched(&mut self.machine, &touched).await
    }

    async fn let_time_go(&mut self) -> Result<(), String> {
        if self.machine.open.is_empty() && self.dice.chance(10) {
            return self.outage().await;
        }
        let rounds = if self.dice.chance(15) { 8 } else { 1 };
        for _ in 0..rounds {
            let most = if rounds > 1 { 4 } else { 1 + self.dice.below(4) };
            self.lose(i64::try_from(most).expect("seconds") * SECOND).await?;
            self.lead().await?;
        }
        Ok(())
    }

    /// Nobody shows a sign of life for a minute: leases that were alive at its start get one TTL more.
    async fn outage(&mut self) -> Result<(), String> {
        self.lead().await?;
        let before = self.machine.now;
        self.lose(60 * SECOND).await?;
        self.lead().await?;
        let now = self.machine.now;
        for lease in self.machine.committed.leases.values_mut().flatten() {
            if lease.expires > before {
                lease.expires = lease.expires.max(now + lease.ttl);
            }
        }
        Ok(())
    }

    pub(crate) async fn lose(&mut self, micros: Micros) -> Result<(), String> {
        let sql = "update jobforge_test.clock set at = at + $1::bigint * interval '1 microsecond'
                   returning (extract(epoch from at) * 1000000)::bigint";
        self.machine.now = self.clock.ask(sql, &[&micros]).await?[0].get(0);
        Ok(())
    }

    async fn lead(&mut self) -> Result<(), String> {
        self.term = self.clock.ask("select term from jobforge.lead('model')", &[]).await?[0].get(0);
        Ok(())
    }

    /// A refusal that was foreseen, or the divergence.
    pub(crate) fn foreseen(&mut self, answer: Answer, refusal: &str) -> Outcome {
        match answer {
            Err(told) if told == refusal => {
                self.counts.refused += 1;
                Ok(Step::Refused)
            }
            Err(told) => Err(format!("was refused with {told}, not with {refusal}")),
            Ok(_) => Err(format!("was not refused with {refusal}")),
        }
    }
}
