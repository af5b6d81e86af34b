//! What applications do: enqueue with and without keys, cancel, retry, redrive, reschedule.

use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::KINDS;
use super::machine::{Job, Lock, SECOND, Status, Track};
use super::run::{Outcome, Run, Step};

const PLAIN: &str = "select id, existing from jobforge.enqueue_job($1, $2, '{\"n\": 0}')";
const FULL: &str = "select id, existing from jobforge.enqueue_job($1, $2, $3::text::jsonb, p_priority => $4,
    p_run_at => 'epoch'::timestamptz + $5::bigint * interval '1 microsecond', p_idempotency_key => $6,
    p_dedupe_key => $7, p_concurrency_key => $8)";

/// What an enqueue asks for.
struct Wish {
    tenant: Uuid,
    kind: usize,
    payload: usize,
    priority: i32,
    run_at: i64,
    key: Option<usize>,
    dedupe: Option<usize>,
    concurrency: Option<usize>,
}

impl Run {
    pub(crate) async fn enqueue(&mut self, track: Track, tenant: Uuid) -> Outcome {
        let kind = usize::from(self.dice.chance(30));
        let now = self.machine.now;
        if self.dice.chance(40) {
            let answer = self.wires[track].ask(PLAIN, &[&tenant, &KINDS[kind]]).await?;
            let (payload, priority) = (0, 100);
            let (key, dedupe, concurrency) = (None, None, None);
            let wish = Wish { tenant, kind, payload, priority, run_at: now, key, dedupe, concurrency };
            return self.enqueued(track, &wish, answer[0].get(0), answer[0].get(1));
        }
        let late = if self.dice.chance(30) { self.dice.below(10) } else { 0 };
        let wish = Wish {
            tenant,
            kind,
            payload: usize::from(self.dice.chance(5)),
            priority: [10, 100, 100, 900][self.dice.below(4)],
            run_at: now + i64::try_from(late).expect("seconds") * SECOND,
            // Keys are for ever, so new ones must come up for there to be a race for one.
            key: self.dice.chance(50).then(|| self.counts.steps / 200 * 3 + self.dice.below(3)),
            dedupe: self.dice.chance(50).then(|| self.dice.below(12)),
            concurrency: self.dice.chance(25).then(|| self.dice.below(3)),
        };
        if wish.dedupe.is_some_and(|key| self.machine.is_taken(track, &Lock::Dedupe(tenant, key))) {
            return Ok(Step::Skipped);
        }
        let waits = wish.key.is_some_and(|key| self.machine.is_taken(track, &Lock::Key(tenant, kind, key)));
        let (payload, [key, dedupe, concurrency]) = (
            format!("{{\"n\": {}}}", wish.payload),
            [(wish.key, 'k'), (wish.dedupe, 'd'), (wish.concurrency, 'c')]
                .map(|(key, sort)| key.map(|key| format!("{sort}{key}"))),
        );
        let params: [&(dyn ToSql + Sync); 8] =
            [&tenant, &KINDS[kind], &payload, &wish.priority, &wish.run_at, &key, &dedupe, &concurrency];
        let wire = &mut self.wires[track];
        let answer =
            if waits { wire.ask_briefly(FULL, &params).await } else { wire.ask(FULL, &params).await };
        if waits {
            // Another transaction's key: this one waits for its end, and gives up at its lock timeout.
            self.counts.blocked += 1;
            return self.foreseen(answer, "55P03");
        }
        let kept = wish.key.and_then(|key| self.machine.key(track, (tenant, kind, key)));
        if kept.is_some_and(|(_, payload)| payload != wish.payload) {
            return self.foreseen(answer, "JF004 key_reused_with_other_payload");
        }
        let answer = answer?;
        self.enqueued(track, &wish, answer[0].get(0), answer[0].get(1))
    }

    fn enqueued(&mut self, track: Track, wish: &Wish, id: Uuid, existing: bool) -> Outcome {
        let key = wish.key.map(|key| (wish.tenant, wish.kind, key));
        let kept = key.and_then(|key| self.machine.key(track, key)).map(|(job, _)| job);
        let twin = wish.dedupe.and_then(|dedupe| self.machine.twin(track, wish.tenant, dedupe));
        let there = kept.or(twin);
        if existing != there.is_some() || there.is_some_and(|there| there != id) {
            return Err(format!("enqueue answered {id} existing {existing}, and {there:?} is there"));
        }
        if let (Some(key), None) = (key, kept) {
            self.machine.change(track).keys.insert(key, (id, wish.payload));
            self.machine.lock(track, Lock::Key(key.0, key.1, key.2));
        }
        if existing {
            return Ok(Step::Done);
        }
        if self.machine.jobs(track).any(|(known, _)| known == id) {
            return Err(format!("the id {id} was made twice"));
        }
        let now = self.machine.now;
        let job = Job {
            tenant: wish.tenant,
            kind: wish.kind,
            priority: wish.priority,
            status: Status::Queued,
            fence: 0,
            failures: 0,
            deaths: 0,
            lease: None,
            run_at: wish.run_at,
            spread: 0,
            ready: wish.run_at <= now,
            cancel: false,
            dedupe: wish.dedupe,
            key: wish.concurrency,
            attempts: Default::default(),
        };
        self.machine.put(track, id, job);
        self.known.push((wish.tenant, id));
        Ok(Step::Done)
    }

    /// A job of the tenant that nobody else locks, and what is known of it; mostly one that is not over.
    fn some_job(&mut self, track: Track, tenant: Uuid) -> Option<(Uuid, Option<Job>)> {
        let live = self.dice.chance(85);
        let ids: Vec<Uuid> = if live {
            let jobs = self.machine.jobs(track);
            jobs.filter(|(_, job)| job.tenant == tenant && !job.status.is_over()).map(|(id, _)| id).collect()
        } else {
            self.known.iter().filter(|(whose, _)| *whose == tenant).map(|(_, id)| *id).collect()
        };
        let id = *self.dice.pick(&ids)?;
        let free = !self.machine.is_taken(track, &Lock::Job(id));
        free.then(|| (id, self.machine.job(track, id).cloned()))
    }

    pub(crate) async fn cancel(&mut self, track: Track, tenant: Uuid) -> Outcome {
        let Some((id, job)) = self.some_job(track, tenant) else { return Ok(Step::Skipped) };
        let sql = "select status, cancel_requested from jobforge.cancel_job($1, $2)";
        let answer = self.wires[track].ask(sql, &[&tenant, &id]).await;
        let Some(job) = job else { return self.foreseen(answer, "JF007 job_unknown") };
        if job.status.is_over() {
            return self.foreseen(answer, &format!("JF008 job_{}", job.status.name()));
        }
        let rows = answer?;
        let asked = job.status == Status::Running;
        if rows[0].get::<_, bool>(1) != asked {
            return Err(format!("cancel of {job:?} answered {}", rows[0].get::<_, String>(0)));
        }
        self.machine.edit(track, id, |job| {
            if asked {
                job.cancel = true;
            } else {
                job.status = Status::Canceled;
                job.ready = false;
            }
        });
        Ok(Step::Done)
    }

    pub(crate) async fn retry(&mut self, track: Track, tenant: Uuid) -> Outcome {
        let Some((id, job)) = self.some_job(track, tenant) else { return Ok(Step::Skipped) };
        let dedupe = job.as_ref().and_then(|job| job.dedupe);
        if dedupe.is_some_and(|key| self.machine.is_taken(track, &Lock::Dedupe(tenant, key))) {
            return Ok(Step::Skipped);
        }
        let answer =
            self.wires[track].ask("select status from jobforge.retry_job($1, $2)", &[&tenant, &id]).await;
        let Some(job) = job else { return self.foreseen(answer, "JF007 job_unknown") };
        match job.status {
            Status::Running | Status::Succeeded | Status::Canceled => {
                return self.foreseen(answer, &format!("JF008 job_{}", job.status.name()));
            }
            Status::Failed | Status::Dead
                if dedupe.is_some_and(|key| self.machine.twin(track, tenant, key).is_some()) =>
            {
                return self.foreseen(answer, "JF008 dedupe_twin_alive");
            }
            _ => answer?,
        };
        let now = self.machine.now;
        self.machine.edit(track, id, |job| {
            if job.status != Status::Queued {
                (job.failures, job.deaths) = (0, 0);
            }
            (job.status, job.ready, job.run_at, job.spread) = (Status::Queued, true, now, 0);
        });
        Ok(Step::Done)
    }

    pub(crate) async fn redrive(&mut self, track: Track, tenant: Uuid) -> Outcome {
        let Some((id, job)) = self.some_job(track, tenant) else { return Ok(Step::Skipped) };
        let dedupe = job.as_ref().and_then(|job| job.dedupe);
        if dedupe.is_some_and(|key| self.machine.is_taken(track, &Lock::Dedupe(tenant, key))) {
            return Ok(Step::Skipped);
        }
        let sql = "select concat_ws(' ', verdict, error_code, error_reason) from jobforge.redrive_jobs($1, array[$2::uuid])
                   where id is not null";
        let rows = self.wires[track].ask(sql, &[&tenant, &id]).await?;
        let wanted = match &job {
            None => "skipped JF007 job_unknown".to_owned(),
            Some(job) if !matches!(job.status, Status::Failed | Status::Dead) => {
                format!("skipped JF008 job_{}", job.status.name())
            }
            Some(_) if dedupe.is_some_and(|key| self.machine.twin(track, tenant, key).is_some()) => {
                "skipped JF008 dedupe_twin_alive".to_owned()
            }
            Some(_) => "redriven".to_owned(),
        };
        let told: String = rows[0].get(0);
        if told != wanted {
            return Err(format!("redrive of {job:?} answered {told} instead of {wanted}"));
        }
        let now = self.machine.now;
        if told == "redriven" {
            self.machine.edit(track, id, |job| {
                (job.failures, job.deaths) = (0, 0);
                (job.status, job.ready, job.run_at, job.spread) = (Status::Queued, true, now, 0);
            });
        }
        Ok(Step::Done)
    }

    pub(crate) async fn reschedule(&mut self, track: Track, tenant: Uuid) -> Outcome {
        let Some((id, job)) = self.some_job(track, tenant) else { return Ok(Step::Skipped) };
        let now = self.machine.now;
        let run_at = now + (i64::try_from(self.dice.below(20)).expect("seconds") - 5) * SECOND;
        let sql = "select run_at from jobforge.reschedule_job($1, $2,
            'epoch'::timestamptz + $3::bigint * interval '1 microsecond')";
        let answer = self.wires[track].ask(sql, &[&tenant, &id, &run_at]).await;
        let Some(job) = job else { return self.foreseen(answer, "JF007 job_unknown") };
        if job.status != Status::Queued {
            return self.foreseen(answer, &format!("JF008 job_{}", job.status.name()));
        }
        answer?;
        self.machine.edit(track, id, |job| {
            (job.run_at, job.spread, job.ready) = (run_at.max(now), 0, run_at <= now);
        });
        Ok(Step::Done)
    }
}
