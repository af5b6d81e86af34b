//! The tables against the model: the jobs that a step touched, and now and then everything.

use std::collections::BTreeMap;

use tokio_postgres::Row;
use uuid::Uuid;

use super::machine::{Job, MAX_ATTEMPTS, MAX_DEATHS, Machine, Micros};
use super::track::Wire;

const COLUMNS: &str =
    "id, status, fence, failures, deaths::integer, (extract(epoch from run_at) * 1000000)::bigint";

/// Watches one database over a run.
pub(crate) struct Checker {
    admin: Wire,
    /// The highest fence seen of each job: it never goes down.
    fences: BTreeMap<Uuid, i32>,
}

struct Found {
    over: bool,
    ready: bool,
    cancel: bool,
    status: String,
    numbers: [i32; 3],
    lease: Option<Uuid>,
    run_at: Micros,
}

impl Found {
    fn of(row: &Row) -> (Uuid, Found) {
        let found = Found {
            status: row.get(1),
            numbers: [row.get(2), row.get(3), row.get(4)],
            run_at: row.get(5),
            over: row.get(6),
            lease: row.get(7),
            ready: row.get(8),
            cancel: row.get(9),
        };
        (row.get(0), found)
    }
}

impl Checker {
    pub(crate) fn new(admin: Wire) -> Checker {
        Checker { admin, fences: BTreeMap::new() }
    }

    /// Compares the jobs that a commit changed, and settles what chance decided.
    pub(crate) async fn touched(&mut self, machine: &mut Machine, ids: &[Uuid]) -> Result<(), String> {
        if ids.is_empty() {
            return Ok(());
        }
        let sql = format!(
            "select {COLUMNS}, false, lease_id, ready and lease_id is null, cancel_at is not null from jobforge.jobs
               where (tenant_id, id) in (select * from unnest($1::uuid[], $2::uuid[]))
             union all select {COLUMNS}, true, null, false, false from jobforge.job_history
               where retention = 'week' and (tenant_id, id) in (select * from unnest($1, $2))"
        );
        let tenants: Vec<Uuid> = ids.iter().map(|id| machine.committed.jobs[id].tenant).collect();
        let rows = self.admin.ask(&sql, &[&tenants, &ids]).await?;
        if rows.len() != ids.len() {
            return Err(format!("{} jobs stand in {} places: {ids:?}", ids.len(), rows.len()));
        }
        for row in &rows {
            let (id, found) = Found::of(row);
            let job = machine.committed.jobs.get_mut(&id).ok_or_else(|| format!("{id} is not known"))?;
            self.compare(id, job, &found)?;
        }
        Ok(())
    }

    fn compare(&mut self, id: Uuid, job: &mut Job, found: &Found) -> Result<(), String> {
        if job.spread > 0 && (job.run_at..=job.run_at + job.spread).contains(&found.run_at) {
            (job.run_at, job.spread) = (found.run_at, 0);
        }
        let live = !job.status.is_over();
        let told = (found.status.as_str(), found.over, found.numbers, found.lease, found.run_at);
        let wanted = (job.status.name(), !live, [job.fence, job.failures, job.deaths], job.lease, job.run_at);
        if told != wanted || (live && (found.ready, found.cancel) != (job.ready, job.cancel)) {
            return Err(format!(
                "job {id} is {told:?} ready {} cancel {}, and should be {job:?}",
                found.ready, found.cancel
            ));
        }
        if job.status.lives() && (job.failures >= MAX_ATTEMPTS || job.deaths >= MAX_DEATHS) {
            return Err(format!("job {id} lives on after its last attempt: {job:?}"));
        }
        let last = self.fences.insert(id, job.fence).unwrap_or(0);
        if last > job.fence { Err(format!("the fence of {id} fell from {last}")) } else { Ok(()) }
    }

    /// Compares everything, and looks for states that no sweep would find.
    pub(crate) async fn everything(&mut self, machine: &mut Machine) -> Result<(), String> {
        let sql = "select (select count(*) from jobforge.jobs) + (select count(*) from jobforge.job_history)";
        let rows = self.admin.ask(sql, &[]).await?;
        let all: Vec<Uuid> = machine.committed.jobs.keys().copied().collect();
        if rows[0].get::<_, i64>(0) != i64::try_from(all.len()).expect("a count") {
            return Err("there are jobs that nobody was told of, or told ones are missing".to_owned());
        }
        self.touched(machine, &all).await?;
        self.leases(machine).await?;
        self.keys(machine).await?;
        let orphans = "select
            (select count(*) from jobforge.jobs j where j.status = 'running'
               and not exists (select from jobforge.leases l where l.id = j.lease_id)),
            (select count(*) from jobforge.jobs j join jobforge.lease_claims c on c.lease_id = j.lease_id
               where j.id = any (c.job_ids)),
            (select count(*) from jobforge.jobs j where j.status = 'running'),
            (select count(*) from jobforge.attempts a
               where not exists (select from jobforge.jobs j where j.tenant_id = a.tenant_id and j.id = a.job_id))";
        let row = &self.admin.ask(orphans, &[]).await?[0];
        let [stray, listed, running, notes] = [0, 1, 2, 3].map(|n| row.get::<_, i64>(n));
        if stray > 0 || listed < running || notes > 0 {
            return Err(format!(
                "{stray} run on no lease, {} are on no claim's list, {notes} attempts have no job",
                running - listed
            ));
        }
        Ok(())
    }

    async fn leases(&mut self, machine: &Machine) -> Result<(), String> {
        let sql =
            "select id, (extract(epoch from expires_at) * 1000000)::bigint from jobforge.leases order by id";
        let rows = self.admin.ask(sql, &[]).await?;
        let found: BTreeMap<Uuid, Micros> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
        let leases = machine.committed.leases.iter();
        let wanted: BTreeMap<Uuid, Micros> =
            leases.filter_map(|(id, lease)| Some((*id, lease.as_ref()?.expires))).collect();
        if found == wanted { Ok(()) } else { Err(format!("leases are {found:?} and should be {wanted:?}")) }
    }

    async fn keys(&mut self, machine: &Machine) -> Result<(), String> {
        let sql = "select tenant_id, type, key, job_id from jobforge.idempotency_keys";
        let rows = self.admin.ask(sql, &[]).await?;
        let mut found: Vec<(Uuid, String, String, Uuid)> =
            rows.iter().map(|row| (row.get(0), row.get(1), row.get(2), row.get(3))).collect();
        let keys = machine.committed.keys.iter();
        let mut wanted: Vec<_> = keys
            .map(|((tenant, kind, key), (job, _))| {
                (*tenant, super::KINDS[*kind].to_owned(), format!("k{key}"), *job)
            })
            .collect();
        found.sort();
        wanted.sort();
        if found == wanted { Ok(()) } else { Err(format!("keys are {found:?} and should be {wanted:?}")) }
    }
}
