//! What the stories about dead letters have in common: jobs that died in a certain way, and the calls.

use serde_json::Value;
use tokio_postgres::types::Json;
use tokio_postgres::{Client, Error, Row};
use uuid::Uuid;

use crate::races::stage::Stage;
use crate::schema::TENANT_A;
use crate::schema::calls::{Held, enqueue_with};

/// How a row of a redrive is told: `redriven`, or `skipped JF008 job_queued`.
pub(crate) type Told = (Uuid, String);

impl Stage {
    /// A dead letter of tenant A that failed with this error; `extra` are further arguments of its enqueue.
    pub(crate) async fn dead_with(&self, extra: &str, class: &str, error: &str) -> Uuid {
        self.tick().await;
        enqueue_with(self.app.client(), TENANT_A, "test.noop", extra).await.unwrap();
        let job = self.claim(1).await.remove(0);
        self.end(&job, class, error).await;
        job.id
    }

    /// A dead letter with nothing special about it.
    pub(crate) async fn dead(&self) -> Uuid {
        self.dead_with("'{\"n\": 1}'", "permanent", "told to fail").await
    }

    /// A moment goes by: ids of one moment are in no order.
    pub(crate) async fn tick(&self) {
        self.lose(0.001).await;
    }

    pub(crate) async fn end(&self, job: &Held, class: &str, error: &str) {
        let sql = "select status from jobforge.fail_job($1, $2, $3, $4, $5, $6)";
        let params: &[&(dyn tokio_postgres::types::ToSql + Sync)] =
            &[&job.lease_id, &job.tenant_id, &job.id, &job.fence, &class, &error];
        self.worker.query(sql, params).await.unwrap();
    }

    /// The whole row of a live job, to see that nothing of it changed.
    pub(crate) async fn row(&self, id: Uuid) -> Value {
        let sql = "select to_jsonb(j) from jobforge.jobs j where j.id = $1";
        self.admin.query_one(sql, &[&id]).await.unwrap().get(0)
    }

    /// A redrive of tenant A with these named arguments, e.g. `p_queue => 'default'`.
    pub(crate) async fn redrive(&self, arguments: &str) -> Vec<Told> {
        redrive(self.app.client(), arguments).await.unwrap()
    }

    /// An operation of tenant A: its id, status, matched, done and skipped.
    pub(crate) async fn start(&self, arguments: &str) -> Result<Uuid, Error> {
        let sql = format!("select id from jobforge.start_bulk('{TENANT_A}', {arguments})");
        self.app.client().query_one(&sql, &[]).await.map(|row| row.get(0))
    }

    /// `status done/skipped undone/kept` after a step.
    pub(crate) async fn step(&self, operation: Uuid, limit: i32) -> String {
        told(&self.call(STEP, operation, limit).await.unwrap())
    }

    /// The same after a step back.
    pub(crate) async fn undo(&self, operation: Uuid, limit: i32) -> Result<String, Error> {
        self.call(UNDO, operation, limit).await.map(|row| told(&row))
    }

    async fn call(&self, sql: &str, operation: Uuid, limit: i32) -> Result<Row, Error> {
        self.app.client().query_one(sql, &[&TENANT_A, &operation, &limit]).await
    }

    /// What became of each job of an operation, e.g. `skipped JF008 job_queued`.
    pub(crate) async fn results(&self, operation: Uuid) -> Vec<Told> {
        let sql =
            "select job_id, concat_ws(' ', verdict, nullif(error_code, ''), nullif(error_reason, '')) as told
                   from jobforge.list_bulk_results($1, $2)";
        let rows = self.app.query(sql, &[&TENANT_A, &operation]).await.unwrap();
        rows.iter().map(|row| (row.get(0), row.get(1))).collect()
    }
}

pub(crate) const STEP: &str =
    "select status, done, skipped, undone, kept from jobforge.step_bulk($1, $2, $3)";
pub(crate) const UNDO: &str =
    "select status, done, skipped, undone, kept from jobforge.undo_bulk($1, $2, $3)";

/// An operation's answer: `status done/skipped undone/kept`.
pub(crate) fn told(row: &Row) -> String {
    let count = |at: usize| row.get::<_, i64>(at);
    format!("{} {}/{} {}/{}", row.get::<_, String>(0), count(1), count(2), count(3), count(4))
}

/// What a redrive by hand calls; the ids are given.
pub(crate) const REDRIVE_IDS: &str =
    "select id, concat_ws(' ', verdict, nullif(error_code, ''), nullif(error_reason, '')) as told
     from jobforge.redrive_jobs($1, $2) where id is not null order by id";

pub(crate) async fn redrive(client: &Client, arguments: &str) -> Result<Vec<Told>, Error> {
    let sql = format!(
        "select id, concat_ws(' ', verdict, nullif(error_code, ''), nullif(error_reason, '')) as told
         from jobforge.redrive_jobs('{TENANT_A}', {arguments}) where id is not null order by id"
    );
    Ok(client.query(&sql, &[]).await?.iter().map(|row| (row.get(0), row.get(1))).collect())
}

/// `array['…'::uuid, …]` for a statement.
pub(crate) fn list(ids: &[Uuid]) -> String {
    let ids: Vec<String> = ids.iter().map(|id| format!("'{id}'")).collect();
    format!("array[{}]::uuid[]", ids.join(", "))
}

/// JSON for a parameter.
pub(crate) fn json(text: &str) -> Json<Value> {
    Json(serde_json::from_str(text).unwrap())
}
