//! Reports of workers: current ones, and ones that come too late or carry an old fence.

use uuid::Uuid;

use super::machine::{End, Job, Lock, SECOND, Status, Track};
use super::run::{Holding, Outcome, Run, Step};

/// A batch's columns.
struct Batch {
    lease: Uuid,
    rows: Vec<Holding>,
    tenants: Vec<Uuid>,
    ids: Vec<Uuid>,
    fences: Vec<i32>,
}

impl Run {
    /// A holding, mostly one that is still good, and up to two more of its lease; none if a report on them would wait.
    fn some_batch(&mut self, track: Track, most: usize) -> Option<Batch> {
        let good = self.dice.chance(70);
        let owns = |run: &Run, h: &Holding| {
            run.machine
                .job(track, h.job)
                .is_some_and(|job| job.lease == Some(h.lease) && job.fence == h.fence)
        };
        let from: Vec<Holding> = self.holdings.iter().filter(|h| !good || owns(self, h)).copied().collect();
        let mut first = *self.dice.pick(&from)?;
        if first.fence > 1 && self.dice.chance(15) {
            first.fence -= 1;
        }
        let mut rows = vec![first];
        while rows.len() < most && self.dice.chance(50) {
            let others: Vec<Holding> = self
                .holdings
                .iter()
                .filter(|h| h.lease == first.lease && rows.iter().all(|row| row.job != h.job))
                .copied()
                .collect();
            match self.dice.pick(&others) {
                Some(other) => rows.push(*other),
                None => break,
            }
        }
        let locked = |h: &Holding| self.machine.is_taken(track, &Lock::Job(h.job));
        if rows.iter().any(locked) || self.machine.is_taken(track, &Lock::LeaseEnd(first.lease)) {
            return None;
        }
        if self.machine.lease(track, first.lease).is_some() {
            self.machine.lock(track, Lock::LeaseShare(first.lease));
        }
        let tenants = rows.iter().map(|h| h.tenant).collect();
        let (ids, fences) = rows.iter().map(|h| (h.job, h.fence)).unzip();
        Some(Batch { lease: first.lease, rows, tenants, ids, fences })
    }

    /// The job, if this report on it is good.
    fn owned(&self, track: Track, h: &Holding) -> Option<&Job> {
        self.machine.living(track, h.lease)?;
        self.machine.job(track, h.job).filter(|job| job.lease == Some(h.lease) && job.fence == h.fence)
    }

    fn verdict(&mut self, track: Track, h: &Holding) -> &'static str {
        let verdict = match self.machine.job(track, h.job) {
            _ if self.owned(track, h).is_some() => return "done",
            None => "unknown",
            Some(job) if job.was_reported(h.fence) => "already",
            Some(_) => "stale",
        };
        self.counts.stale += 1;
        verdict
    }

    pub(crate) async fn complete(&mut self, track: Track) -> Outcome {
        let Some(batch) = self.some_batch(track, 3) else { return Ok(Step::Skipped) };
        let sql = "select verdict from jobforge.complete_jobs($1, $2, $3, $4) order by at";
        let rows =
            self.wires[track].ask(sql, &[&batch.lease, &batch.tenants, &batch.ids, &batch.fences]).await?;
        for (h, row) in batch.rows.iter().zip(&rows) {
            let (told, wanted): (String, _) = (row.get(0), self.verdict(track, h));
            if told != wanted {
                return Err(format!("complete of {h:?} is {told}, and should be {wanted}"));
            }
            let on_lease = self.machine.job(track, h.job).is_some_and(|job| job.lease == Some(h.lease));
            if wanted == "done" {
                self.machine.edit(track, h.job, Job::complete);
            } else if on_lease {
                self.machine.lock(track, Lock::Job(h.job));
            }
        }
        Ok(Step::Done)
    }

    pub(crate) async fn fail(&mut self, track: Track) -> Outcome {
        let Some(batch) = self.some_batch(track, 3) else { return Ok(Step::Skipped) };
        let often = End::Retryable;
        let ends = [often, often, often, often, often, often, End::Permanent, End::Canceled];
        let end = ends[self.dice.below(ends.len())];
        let class = match end {
            End::Permanent => "permanent",
            End::Canceled => "canceled",
            _ => "retryable",
        };
        let (classes, errors) = (vec![class; batch.rows.len()], vec!["no"; batch.rows.len()]);
        let sql = "select verdict, status, (extract(epoch from run_at) * 1000000)::bigint
                   from jobforge.fail_jobs($1, $2, $3, $4, $5, $6) order by at";
        let rows = self.wires[track]
            .ask(sql, &[&batch.lease, &batch.tenants, &batch.ids, &batch.fences, &classes, &errors])
            .await?;
        let now = self.machine.now;
        for (h, row) in batch.rows.iter().zip(&rows) {
            let (told, wanted): (String, _) = (row.get(0), self.verdict(track, h));
            if told != wanted {
                return Err(format!("fail of {h:?} is {told}, and should be {wanted}"));
            }
            if wanted != "done" {
                continue;
            }
            self.machine.edit(track, h.job, |job| job.settle(end, now));
            let job = self.machine.job(track, h.job).expect("it was just changed").clone();
            let (status, run_at): (Option<String>, Option<i64>) = (row.get(1), row.get(2));
            if status.as_deref() != Some(job.status.name()) {
                return Err(format!("{class} made {status:?} of {job:?}"));
            }
            if job.status == Status::Queued {
                let run_at = run_at.ok_or("a retry without a time")?;
                if !(job.run_at..=job.run_at + job.spread).contains(&run_at) {
                    return Err(format!("the retry comes {} µs from now: {job:?}", run_at - now));
                }
                self.machine.edit(track, h.job, |job| (job.run_at, job.spread) = (run_at, 0));
            }
        }
        Ok(Step::Done)
    }

    pub(crate) async fn snooze(&mut self, track: Track) -> Outcome {
        let Some(batch) = self.some_batch(track, 1) else { return Ok(Step::Skipped) };
        let h = batch.rows[0];
        let seconds = self.dice.below(15);
        let sql = "select jobforge.snooze_job($1, $2, $3, $4, $5::integer)";
        let whole = i32::try_from(seconds).expect("few");
        let answer = self.wires[track].ask(sql, &[&h.lease, &h.tenant, &h.job, &h.fence, &whole]).await;
        let verdict = self.verdict(track, &h);
        let canceled = self.owned(track, &h).is_some_and(|job| job.cancel);
        match (verdict, canceled) {
            ("done", true) => return self.foreseen(answer, "JF008 cancel_requested"),
            ("done", false) => answer?,
            ("unknown", _) => return self.foreseen(answer, "JF007 job_unknown"),
            _ => return self.foreseen(answer, "JF006 fence_stale"),
        };
        let until = self.machine.now + i64::from(whole) * SECOND;
        self.machine.edit(track, h.job, |job| job.snooze(until));
        Ok(Step::Done)
    }

    pub(crate) async fn release(&mut self, track: Track) -> Outcome {
        let Some(batch) = self.some_batch(track, 3) else { return Ok(Step::Skipped) };
        let sql = "select verdict from jobforge.release_jobs($1, $2, $3, $4) order by at";
        let rows =
            self.wires[track].ask(sql, &[&batch.lease, &batch.tenants, &batch.ids, &batch.fences]).await?;
        for (h, row) in batch.rows.iter().zip(&rows) {
            let (told, wanted): (String, _) = (row.get(0), self.verdict(track, h));
            if told != wanted {
                return Err(format!("release of {h:?} is {told}, and should be {wanted}"));
            }
            if wanted == "done" {
                self.machine.edit(track, h.job, Job::requeue);
            }
        }
        Ok(Step::Done)
    }
}
