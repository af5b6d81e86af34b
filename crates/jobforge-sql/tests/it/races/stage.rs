//! What every story about a race stands on: a database whose clock stands, one session per actor, and a look
//! at a job wherever it is.
//!
//! Time only moves when a story says so, and in two ways: it *passes*, with a leader that shows signs of life,
//! or it is *lost*, as in an outage, when nobody does.

use jobforge_testkit::{Session, TestDb};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Error};
use uuid::Uuid;

use crate::schema::calls::{ClaimOptions, Held, act_for, claim_with, enqueue_many};
use crate::schema::{APP, NOOP, OPERATOR, QUEUE, TENANT_A, WORKER, migrated, told};

/// The actors of a story. `rival` is a second worker's session, `other` a second application's.
pub(crate) struct Stage {
    pub(crate) db: TestDb,
    pub(crate) app: Session,
    pub(crate) other: Session,
    pub(crate) worker: Session,
    pub(crate) rival: Session,
    pub(crate) operator: Session,
    pub(crate) admin: Client,
    pub(crate) term: i64,
}

/// A job as it stands in the tables; `over` tells the history from the live table.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Seen {
    pub(crate) status: String,
    pub(crate) over: bool,
    pub(crate) fence: i32,
    pub(crate) failures: i32,
    pub(crate) deaths: i32,
    pub(crate) ready: bool,
    pub(crate) leased: bool,
    pub(crate) run_at: f64,
}

impl Seen {
    /// The status with the counts `fence/failures/deaths`: what most stories end with.
    pub(crate) fn told(&self) -> String {
        format!("{} {}/{}/{}", self.status, self.fence, self.failures, self.deaths)
    }
}

impl Stage {
    pub(crate) async fn set() -> Stage {
        Stage::on(migrated().await).await
    }

    /// The same on a database that is there, e.g. one with a mutation.
    pub(crate) async fn on(db: TestDb) -> Stage {
        db.advance_clock(0.0).await;
        let as_login = async |login| db.session_at(&db.url_as(login, None)).await;
        let (app, other) = (as_login(APP).await, as_login(APP).await);
        let (worker, rival, operator) =
            (as_login(WORKER).await, as_login(WORKER).await, as_login(OPERATOR).await);
        for session in [&app, &other] {
            act_for(session.client(), TENANT_A).await.unwrap();
        }
        let admin = db.connect_super().await;
        let mut stage = Stage { app, other, worker, rival, operator, admin, term: 0, db };
        stage.term = stage.lead("leader").await.expect("nobody leads yet");
        stage
    }

    /// A further application's session, acting for tenant A.
    pub(crate) async fn an_app(&self) -> Session {
        let session = self.db.session_at(&self.db.url_as(APP, None)).await;
        act_for(session.client(), TENANT_A).await.unwrap();
        session
    }

    /// A further worker's session.
    pub(crate) async fn a_worker(&self) -> Session {
        self.db.session_at(&self.db.url_as(WORKER, None)).await
    }

    /// Time passes while a leader lives: no gap in its signs of life is long enough for an outage.
    pub(crate) async fn pass(&self, seconds: f64) {
        let mut left = seconds;
        while left > 0.0 {
            self.lose(left.min(4.0)).await;
            self.lead("leader").await;
            left -= 4.0;
        }
    }

    /// Time goes by without any sign of life.
    pub(crate) async fn lose(&self, seconds: f64) {
        let sql = "update jobforge_test.clock set at = at + make_interval(secs => $1)";
        self.admin.execute(sql, &[&seconds]).await.unwrap();
    }

    /// Asks for the leadership; the term if it was given.
    pub(crate) async fn lead(&self, holder: &str) -> Option<i64> {
        let sql = "select term, leads from jobforge.lead($1)";
        let row = self.operator.client().query_one(sql, &[&holder]).await.unwrap();
        row.get::<_, bool>(1).then(|| row.get(0))
    }

    /// Reaps under the term of this story: leases taken back, jobs given back free, deaths counted.
    pub(crate) async fn reap(&self) -> (i32, i32, i32) {
        reap(&self.operator, self.term, 100).await.unwrap()
    }

    /// Enqueues this many jobs of tenant A, one after the other.
    pub(crate) async fn jobs(&self, count: i32) -> Vec<Uuid> {
        enqueue_many(self.app.client(), TENANT_A, NOOP, count).await.unwrap()
    }

    pub(crate) async fn job(&self) -> Uuid {
        self.jobs(1).await[0]
    }

    /// Worker `w1` claims on a new lease with a window of its own.
    pub(crate) async fn claim_in(&self, limit: i32, window: i32) -> Vec<Held> {
        let o = ClaimOptions { window: Some(window), ..ClaimOptions::default() };
        claim_with(self.worker.client(), "w1", limit, o).await.unwrap().jobs
    }

    pub(crate) async fn claim(&self, limit: i32) -> Vec<Held> {
        self.claim_in(limit, limit).await
    }

    /// A job of tenant A, claimed by `w1`.
    pub(crate) async fn running(&self) -> Held {
        self.job().await;
        self.claim(1).await.remove(0)
    }

    /// The one place where the job is; fails if it is in none or in two.
    pub(crate) async fn see(&self, id: Uuid) -> Seen {
        let sql = "select status, false, fence, failures, deaths::integer, ready, lease_id is not null,
                          extract(epoch from run_at)::float8 from jobforge.jobs where id = $1
                   union all
                   select status, true, fence, failures, deaths::integer, false, false,
                          extract(epoch from run_at)::float8 from jobforge.job_history where id = $1";
        let rows = self.admin.query(sql, &[&id]).await.unwrap();
        assert_eq!(rows.len(), 1, "job {id} must be in exactly one place");
        let row = &rows[0];
        Seen {
            status: row.get(0),
            over: row.get(1),
            fence: row.get(2),
            failures: row.get(3),
            deaths: row.get(4),
            ready: row.get(5),
            leased: row.get(6),
            run_at: row.get(7),
        }
    }

    /// The job's status with its counts, see [`Seen::told`].
    pub(crate) async fn told(&self, id: Uuid) -> String {
        self.see(id).await.told()
    }

    /// One value, read as superuser.
    pub(crate) async fn count(&self, sql: &str) -> i64 {
        self.admin.query_one(sql, &[]).await.unwrap().get(0)
    }

    /// What an operator says, in one statement.
    pub(crate) async fn operate(&self, sql: &str) {
        self.operator.run(sql).await;
    }

    /// Sets arguments of a tenant, e.g. `p_max_in_flight => 3`.
    pub(crate) async fn tenant(&self, tenant: Uuid, set: &str) {
        self.operate(&format!("select jobforge.upsert_tenant('{tenant}', {set})")).await;
    }

    /// The same of a definition.
    pub(crate) async fn definition(&self, key: &str, set: &str) {
        self.operate(&format!("select jobforge.upsert_definition('{key}', {set})")).await;
    }

    /// Changes rows behind the functions' back.
    pub(crate) async fn meddle(&self, sql: &str, params: &[&(dyn ToSql + Sync)]) {
        assert!(self.admin.execute(sql, params).await.unwrap() > 0, "nothing was changed by {sql}");
    }

    pub(crate) async fn now(&self) -> f64 {
        let sql = "select extract(epoch from jobforge.clock())::float8";
        self.admin.query_one(sql, &[]).await.unwrap().get(0)
    }
}

/// Reaps: leases, free, deaths.
pub(crate) async fn reap(operator: &Session, term: i64, limit: i32) -> Result<(i32, i32, i32), Error> {
    let sql = "select leases, free, deaths from jobforge.reap($1, $2)";
    let row = operator.client().query_one(sql, &[&term, &limit]).await?;
    Ok((row.get(0), row.get(1), row.get(2)))
}

/// How a refusal is told: its code and its reason, e.g. `JF006 term_over`.
pub(crate) fn refusal<T: std::fmt::Debug>(result: Result<T, Error>) -> String {
    let error = result.expect_err("this had to be refused");
    let error = error.as_db_error().unwrap_or_else(|| panic!("no refusal of the server: {}", told(&error)));
    format!("{} {}", error.code().code(), error.detail().unwrap_or(""))
}

/// A claim of `w2` from the queue and types of the tests.
pub(crate) async fn rival_claim(session: &Session, limit: i32) -> Vec<Held> {
    claim_with(session.client(), "w2", limit, ClaimOptions::default()).await.unwrap().jobs
}

/// The ids of claimed jobs, in claim order.
pub(crate) fn ids(jobs: &[Held]) -> Vec<Uuid> {
    jobs.iter().map(|job| job.id).collect()
}

/// A remembered position right behind a claimed job, as a claimer hands it to its next claim.
pub(crate) async fn mark_behind(stage: &Stage, job: &Held) -> serde_json::Value {
    let sql = "select run_at::text from jobforge.jobs where id = $1
               union all select run_at::text from jobforge.job_history where id = $1";
    let run_at: String = stage.admin.query_one(sql, &[&job.id]).await.unwrap().get(0);
    let mark = serde_json::json!({ "queue": QUEUE, "type": job.kind, "tenant_id": job.tenant_id,
        "priority": job.priority, "run_at": run_at, "id": job.id });
    serde_json::json!({ "turn": null, "marks": [mark] })
}
