//! Claims. Which tenant's turn it is, the model leaves to the database; that the answer is right, it checks.

use std::collections::BTreeSet;

use tokio_postgres::Row;
use uuid::Uuid;

use super::KINDS;
use super::machine::{Job, Lease, Lock, Micros, SECOND, Status, Track};
use super::run::{Holding, Outcome, Run, Step};

const CLAIM: &str = "select lease_id, solo, claim_no, tenant_id, id, fence, failures, deaths::integer
    from jobforge.claim_jobs($1, '{default}', array[$2], $3, $4, $5, $6, p_quick => $7)";

struct Asked {
    worker: usize,
    kind: usize,
    limit: usize,
    window: usize,
    seconds: Micros,
    /// The lease it goes onto, if that exists.
    onto: Option<Lease>,
}

fn place(id: Uuid, job: &Job) -> (i32, Micros, Uuid) {
    (job.priority, job.run_at, id)
}

impl Run {
    pub(crate) async fn claim(&mut self, track: Track, worker: usize) -> Outcome {
        let old = self.dice.chance(75).then(|| self.dice.pick(&self.leases).copied()).flatten();
        let lease =
            old.filter(|id| self.machine.lease(track, *id).is_some_and(|l| !l.solo && l.worker == worker));
        if lease.is_some_and(|id| self.machine.is_taken(track, &Lock::LeaseEnd(id))) {
            return Ok(Step::Skipped);
        }
        let asked = Asked {
            worker,
            kind: usize::from(self.dice.chance(30)),
            limit: 1 + self.dice.below(5),
            window: 1 + self.dice.below(3),
            seconds: [10, 20, 40][self.dice.below(3)],
            onto: lease.and_then(|id| self.machine.lease(track, id).cloned()),
        };
        // A wider window is written to the lease, as a beat is.
        let widened = asked.onto.clone().filter(|lease| lease.window < asked.window);
        if let (Some(id), Some(_)) = (lease, &widened)
            && self.machine.is_taken(track, &Lock::LeaseBeat(id))
        {
            return Ok(Step::Skipped);
        }
        let (limit, window) =
            (i32::try_from(asked.limit).expect("few"), i32::try_from(asked.window).expect("few"));
        let seconds = i32::try_from(asked.seconds).expect("few");
        // Nobody may see a difference.
        let quick = self.dice.chance(50);
        let answer = self.wires[track]
            .ask(
                CLAIM,
                &[&["w1", "w2"][worker], &KINDS[asked.kind], &limit, &lease, &seconds, &window, &quick],
            )
            .await;
        if let Some(id) = lease
            && self.machine.living(track, id).is_none()
        {
            return self.foreseen(answer, "JF006 lease_lost");
        }
        if let Some(id) = lease {
            self.machine.lock(track, Lock::LeaseShare(id));
        }
        let rows = answer?;
        if let (Some(id), Some(old)) = (lease, widened) {
            self.machine.lock(track, Lock::LeaseBeat(id));
            self.machine.change(track).leases.insert(id, Some(Lease { window: asked.window, ..old }));
        }
        self.promote(track);
        let (_, rows) = rows.split_last().ok_or("a claim without a last row")?;
        self.check_claim(track, &asked, rows)?;
        self.taken(track, &asked, rows);
        Ok(Step::Done)
    }

    /// A claim makes all due work ready, whosever it is, except what others lock.
    fn promote(&mut self, track: Track) {
        let now = self.machine.now;
        let due = |job: &Job| job.status == Status::Queued && !job.ready && job.run_at <= now;
        let ids: Vec<Uuid> = self.machine.jobs(track).filter(|(_, job)| due(job)).map(|(id, _)| id).collect();
        for id in ids {
            if !self.machine.is_taken(track, &Lock::Job(id)) {
                self.machine.edit(track, id, |job| job.ready = true);
            }
        }
    }

    fn check_claim(&self, track: Track, asked: &Asked, rows: &[Row]) -> Result<(), String> {
        let now = self.machine.now;
        let to_be_had = |id: Uuid, job: &Job| {
            job.kind == asked.kind && job.is_due(now) && !self.machine.is_taken(track, &Lock::Job(id))
        };
        let free: Vec<(Uuid, &Job)> =
            self.machine.jobs(track).filter(|(id, job)| to_be_had(*id, job)).collect();
        let solo: Vec<Uuid> = rows.iter().filter(|row| row.get(1)).map(|row| row.get(4)).collect();
        let taken: BTreeSet<Uuid> =
            rows.iter().filter(|row| !row.get::<_, bool>(1)).map(|row| row.get(4)).collect();
        if self.machine.rules.hold(asked.kind) || free.iter().any(|(_, job)| job.key.is_some()) {
            self.check_limits(track, &free, rows, asked)?;
        } else {
            if taken.len() + solo.len() != rows.len() {
                return Err("claim gave a job twice".to_owned());
            }
            self.check_all_is_taken(track, asked, &free, (&solo, taken.len()))?;
        }
        let ordinary: Vec<_> = free.iter().filter(|(_, job)| job.deaths < 2 && job.key.is_none()).collect();
        for row in rows {
            let (id, fence): (Uuid, i32) = (row.get(4), row.get(5));
            let Some((_, job)) = free.iter().find(|(free, _)| *free == id) else {
                return Err(format!(
                    "claim gave {id}, which is not to be had: {:?}",
                    self.machine.job(track, id)
                ));
            };
            if fence != job.fence + 1
                || (row.get::<_, i32>(6), row.get::<_, i32>(7)) != (job.failures, job.deaths)
            {
                return Err(format!("claim numbered {id} {fence}, after {job:?}"));
            }
        }
        // Of each tenant the first ones: no job that stays stands before one that was taken.
        for (id, job) in ordinary.iter().filter(|(id, _)| !taken.contains(id)) {
            let overtakes = |(other, taken_job): &&&(Uuid, &Job)| {
                taken.contains(other)
                    && taken_job.tenant == job.tenant
                    && place(*other, taken_job) > place(*id, job)
            };
            if let Some(other) = ordinary.iter().find(overtakes) {
                return Err(format!("claim gave {} before {id}", other.0));
            }
        }
        Ok(())
    }

    /// Where nothing is held back, a claim takes the suspect, if it may, and then all that it has room for.
    fn check_all_is_taken(
        &self,
        track: Track,
        asked: &Asked,
        free: &[(Uuid, &Job)],
        (solo, taken): (&[Uuid], usize),
    ) -> Result<(), String> {
        let suspect = free.iter().filter(|(_, job)| job.deaths >= 2).min_by_key(|(id, job)| place(*id, job));
        let busy = self.has_one_on_trial(track, asked);
        let wanted: Option<Uuid> = if busy { None } else { suspect.map(|(id, _)| *id) };
        if solo != wanted.into_iter().collect::<Vec<_>>() {
            return Err(format!(
                "claim gave the suspects {solo:?} and not {wanted:?} (one on trial: {busy})"
            ));
        }
        let ordinary = free.iter().filter(|(_, job)| job.deaths < 2).count();
        let most = ordinary.min(asked.limit - solo.len());
        if taken != most {
            return Err(format!("claim gave {taken} of {most} jobs"));
        }
        Ok(())
    }

    fn has_one_on_trial(&self, track: Track, asked: &Asked) -> bool {
        let now = self.machine.now;
        let on_trial =
            |(_, lease): &(Uuid, Lease)| lease.solo && lease.worker == asked.worker && lease.expires > now;
        self.machine.leases(track).iter().any(on_trial)
    }

    /// Where limits hold: what was taken fits them, together with all that runs as far as it can be seen; and where
    /// nobody else is at work and something fits, something is taken.
    fn check_limits(
        &self,
        track: Track,
        free: &[(Uuid, &Job)],
        rows: &[Row],
        asked: &Asked,
    ) -> Result<(), String> {
        let taken: BTreeSet<Uuid> = rows.iter().map(|row| row.get(4)).collect();
        let jobs: Vec<&Job> = free.iter().filter(|(id, _)| taken.contains(id)).map(|(_, job)| *job).collect();
        let solo = rows.iter().filter(|row| row.get(1)).count();
        if jobs.len() != rows.len() || rows.len() > asked.limit || solo > 1 {
            return Err(format!("claim gave {} jobs, {solo} of them suspects, or one twice", rows.len()));
        }
        let rules = &self.machine.rules;
        let runs = |new: &dyn Fn(&Job) -> bool| {
            let more = jobs.iter().filter(|job| new(job)).count();
            (more, self.machine.running(track, new) + more)
        };
        for job in &jobs {
            if rules.paused.contains(&job.tenant) {
                return Err(format!("claim gave a paused tenant's job: {job:?}"));
            }
            let of_key = |other: &Job| other.tenant == job.tenant && other.key == job.key;
            if job.key.is_some() && runs(&of_key).1 > 1 {
                return Err(format!("claim gave a second job of a key: {job:?}"));
            }
        }
        for (tenant, most) in &rules.tenants {
            let (more, all) = runs(&|job: &Job| job.tenant == *tenant);
            if more > 0 && all > *most {
                return Err(format!("claim gave {more} jobs of {tenant}: {all} run under a limit of {most}"));
            }
        }
        if let Some(most) = rules.kinds.get(&asked.kind) {
            let (more, all) = runs(&|job: &Job| job.kind == asked.kind);
            if more > 0 && all > *most {
                return Err(format!("claim gave {more} jobs: {all} run under their type's limit of {most}"));
            }
        }
        let fits = |job: &Job| {
            let full = |most: Option<&usize>, of: &dyn Fn(&Job) -> bool| {
                most.is_some_and(|most| self.machine.running(track, of) >= *most)
            };
            job.deaths < 2
                && !rules.paused.contains(&job.tenant)
                && !full(rules.tenants.get(&job.tenant), &|other| other.tenant == job.tenant)
                && !full(rules.kinds.get(&job.kind), &|other| other.kind == job.kind)
                && !full(job.key.map(|_| &1), &|other| other.tenant == job.tenant && other.key == job.key)
        };
        let alone = self.machine.open.keys().all(|other| *other == track);
        match free.iter().find(|(_, job)| fits(job)) {
            Some((id, job)) if alone && rows.is_empty() => {
                Err(format!("claim gave nothing, though {id} could start: {job:?}"))
            }
            _ => Ok(()),
        }
    }

    fn taken(&mut self, track: Track, asked: &Asked, rows: &[Row]) {
        let now = self.machine.now;
        let ttl = asked.onto.as_ref().map_or(asked.seconds * SECOND, |lease| lease.ttl);
        let new = |solo| {
            let window = if solo { 1 } else { asked.window };
            Lease { worker: asked.worker, window, ttl, solo, expires: now + ttl }
        };
        for row in rows {
            let (lease, solo, number): (Uuid, bool, i64) = (row.get(0), row.get(1), row.get(2));
            let (tenant, id, fence): (Uuid, Uuid, i32) = (row.get(3), row.get(4), row.get(5));
            if self.machine.lease(track, lease).is_none() {
                self.machine.change(track).leases.insert(lease, Some(new(solo)));
                self.leases.push(lease);
            }
            self.machine.edit(track, id, |job| {
                (job.status, job.ready, job.lease, job.fence) = (Status::Running, false, Some(lease), fence);
            });
            let claims = &mut self.machine.change(track).claims;
            claims
                .entry((lease, number))
                .or_insert_with(|| Some(Vec::new()))
                .get_or_insert_default()
                .push(id);
            self.holdings.push(Holding { lease, tenant, job: id, fence });
            self.counts.claimed += 1;
        }
        // What is remembered of the past is bounded; reports that come too late need no more.
        let old = self.holdings.len().saturating_sub(80);
        self.holdings.drain(..old);
        let old = self.leases.len().saturating_sub(12);
        self.leases.drain(..old);
    }
}
