//! What happens to leases: the beat, the end by the worker itself, and the reaper.

use uuid::Uuid;

use super::machine::{End, Job, Lease, Lock, Status, Track};
use super::run::{Holding, Outcome, Run, Step};

impl Run {
    /// A lease of late, if nobody else is ending it.
    fn some_lease(&mut self, track: Track) -> Option<Uuid> {
        let id = *self.dice.pick(&self.leases)?;
        (!self.machine.is_taken(track, &Lock::LeaseEnd(id))).then_some(id)
    }

    pub(crate) async fn beat(&mut self, track: Track) -> Outcome {
        let Some(id) = self.some_lease(track) else { return Ok(Step::Skipped) };
        let lease = self.machine.living(track, id).cloned();
        let worker = lease.as_ref().map_or(0, |lease| lease.worker);
        if lease.is_some()
            && [Lock::LeaseBeat(id), Lock::Worker(worker)]
                .iter()
                .any(|lock| self.machine.is_taken(track, lock))
        {
            return Ok(Step::Skipped);
        }
        // A worker that knows all that is on its lease says so: one list takes the place of its claims'.
        let through = self.machine.claims(track, id).into_keys().next_back().filter(|_| self.dice.chance(50));
        let told: Vec<Holding> = match through {
            Some(_) => self.all_held(track, id),
            None => self.holdings.iter().filter(|h| h.lease == id).copied().collect(),
        };
        let tenants: Vec<Uuid> = told.iter().map(|h| h.tenant).collect();
        let (ids, fences): (Vec<Uuid>, Vec<i32>) = told.iter().map(|h| (h.job, h.fence)).unzip();
        let sql = "select id, problem from jobforge.heartbeat($1, $2, $3, $4, $5)";
        let answer = self.wires[track].ask(sql, &[&id, &tenants, &ids, &fences, &through]).await;
        let Some(lease) = lease else { return self.foreseen(answer, "JF006 lease_lost") };
        let mut found: Vec<(Uuid, String)> =
            answer?[1..].iter().map(|row| (row.get(0), row.get(1))).collect();
        let mut wanted = Vec::new();
        for h in &told {
            let job = self.machine.job(track, h.job);
            match job.filter(|job| job.lease == Some(id) && job.fence == h.fence) {
                None => wanted.push((h.job, "lost".to_owned())),
                Some(job) if job.cancel => wanted.push((h.job, "canceled".to_owned())),
                Some(_) => {}
            }
        }
        found.sort();
        wanted.sort();
        if found != wanted {
            return Err(format!("beat told {found:?}, and should tell {wanted:?}"));
        }
        self.machine.lock(track, Lock::LeaseBeat(id));
        self.machine.lock(track, Lock::Worker(worker));
        if let Some(through) = through {
            let before = self.machine.claims(track, id).into_keys().map(|number| ((id, number), None));
            let claims = &mut self.machine.change(track).claims;
            claims.extend(before);
            claims.insert((id, through), Some(ids));
        }
        let expires = self.machine.now + lease.ttl;
        self.machine.change(track).leases.insert(id, Some(Lease { expires, ..lease }));
        Ok(Step::Done)
    }

    fn all_held(&self, track: Track, lease: Uuid) -> Vec<Holding> {
        let holding = |id: Uuid| {
            let job = self.machine.job(track, id)?;
            Some(Holding { lease, tenant: job.tenant, job: id, fence: job.fence })
        };
        self.machine.held(track, lease).into_iter().filter_map(holding).collect()
    }

    /// Whether others hold anything that the end of this lease must wait for.
    fn lease_is_busy(&self, track: Track, id: Uuid) -> bool {
        [Lock::LeaseShare(id), Lock::LeaseBeat(id), Lock::LeaseEnd(id)]
            .iter()
            .any(|lock| self.machine.is_taken(track, lock))
    }

    fn jobs_are_locked(&self, track: Track, lease: Uuid) -> bool {
        self.machine.held(track, lease).iter().any(|id| self.machine.is_taken(track, &Lock::Job(*id)))
    }

    fn end_lease(&mut self, track: Track, id: Uuid) {
        self.machine.lock(track, Lock::LeaseEnd(id));
        self.machine.change(track).leases.insert(id, None);
    }

    pub(crate) async fn release_lease(&mut self, track: Track) -> Outcome {
        let Some(id) = self.some_lease(track) else { return Ok(Step::Skipped) };
        if self.lease_is_busy(track, id) || self.jobs_are_locked(track, id) {
            return Ok(Step::Skipped);
        }
        let answer = self.wires[track].ask("select at from jobforge.release_jobs($1)", &[&id]).await;
        if self.machine.living(track, id).is_none() {
            return self.foreseen(answer, "JF006 lease_lost");
        }
        answer?;
        for job in self.machine.held(track, id) {
            self.machine.edit(track, job, Job::requeue);
        }
        self.end_lease(track, id);
        Ok(Step::Done)
    }

    pub(crate) async fn reap(&mut self, track: Track) -> Outcome {
        let now = self.machine.now;
        let lapsed: Vec<(Uuid, Lease)> = self
            .machine
            .leases(track)
            .into_iter()
            .filter(|(id, lease)| lease.expires <= now && !self.lease_is_busy(track, *id))
            .collect();
        if lapsed.iter().any(|(id, _)| self.jobs_are_locked(track, *id)) {
            return Ok(Step::Skipped);
        }
        let term = self.term;
        let sql = "select leases, free, deaths from jobforge.reap($1, 1000)";
        let answer = self.wires[track].ask(sql, &[&term]).await?;
        let (mut free, mut deaths) = (0, 0);
        for (id, lease) in &lapsed {
            for (at, job) in self.machine.held(track, *id).into_iter().enumerate() {
                if at < lease.window {
                    deaths += 1;
                    self.machine.edit(track, job, |job| job.settle(End::Lost, now));
                } else {
                    self.machine.edit(track, job, Job::requeue);
                    let status = self.machine.job(track, job).map(|job| job.status);
                    free += i32::from(status == Some(Status::Queued));
                }
            }
            self.end_lease(track, *id);
        }
        let wanted = [i32::try_from(lapsed.len()).expect("few"), free, deaths];
        let told = [0, 1, 2].map(|n| answer[0].get::<_, i32>(n));
        if told != wanted {
            return Err(format!("reap told {told:?}, and should tell {wanted:?}"));
        }
        self.counts.reaped += lapsed.len();
        Ok(Step::Done)
    }
}
