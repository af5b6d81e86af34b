//! What the stories share: a database, a worker with the connectors, and everything that was logged.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use jobforge_connectors::configs::{ConnectorConfigs, DatabaseConfigs, SealKeys, SecretEnv};
use jobforge_connectors::{connectors, register_generators};
use jobforge_core::{Definition, Job, NewJob, rpc};
use jobforge_testkit::{NOOP, TENANT_A, TestDb, WORKER};
use jobforge_worker::{Context, HandlerResult, Outcome, Worker, WorkerConfig, WorkerHandle};
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};
use tokio_postgres::Client;
use uuid::Uuid;

/// Generous, because it only passes when a test fails.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Story {
    pub(crate) db: TestDb,
    pub(crate) app: Client,
    pub(crate) operator: Client,
    pub(crate) logged: Logged,
}

impl Story {
    pub(crate) async fn begin() -> Story {
        let logged = Logged::default();
        let lines = logged.clone();
        let subscriber = tracing_subscriber::fmt().with_ansi(false).with_max_level(tracing::Level::TRACE);
        let _ = subscriber.with_writer(move || lines.clone()).try_init();
        let db = TestDb::new().await;
        let (app, operator) = (db.as_app().await, db.as_operator().await);
        for connector in connectors() {
            // Without its schema: the handler itself must judge what it is given.
            let definition = Definition { arg_schema: None, ..connector.definition() };
            rpc::upsert_definition(&operator, &definition).await.unwrap();
        }
        Story { db, app, operator, logged }
    }

    /// A worker whose handler of [`NOOP`] tells the config that its payload names, secrets by their length.
    pub(crate) async fn work(&self, keys: &str) -> WorkerHandle {
        let configs = Arc::new(DatabaseConfigs::new(seal_keys(keys), secret_env()));
        let tell = move |ctx: Context, name: String| {
            let configs = configs.clone();
            async move { tell_config(&configs, &ctx, &name).await }
        };
        let config =
            WorkerConfig { database_url: self.db.url_as(WORKER, None), slots: 2, ..WorkerConfig::default() };
        let builder = register_generators(Worker::builder(config)).handle(NOOP, tell);
        builder.build().unwrap().start().await.unwrap()
    }

    pub(crate) async fn enqueue(&self, tenant: Uuid, job_type: &str, payload: &Value) -> Uuid {
        let job = NewJob { max_attempts: Some(1), ..NewJob::new(job_type, payload).unwrap() };
        rpc::enqueue_job(&self.app, tenant, &job).await.unwrap().id
    }

    /// The job once it is over.
    pub(crate) async fn ended(&self, tenant: Uuid, id: Uuid) -> Job {
        eventually("the job is over", async || {
            let job = rpc::get_job(&self.app, tenant, id).await.unwrap();
            ["succeeded", "failed", "dead"].contains(&job.status.as_str()).then_some(job)
        })
        .await
    }

    /// Runs one job of tenant A to its end: how it ended, and its result or error.
    pub(crate) async fn run(&self, job_type: &str, payload: &Value) -> (String, Value) {
        let id = self.enqueue(TENANT_A, job_type, payload).await;
        let job = self.ended(TENANT_A, id).await;
        let told = match &job.result {
            Some(result) => serde_json::from_str(result.get()).unwrap(),
            None => json!(job.error),
        };
        (job.status, told)
    }

    /// Every row of every table, as text.
    pub(crate) async fn dump(&self) -> String {
        let admin = self.db.connect_super().await;
        let tables = "select c.oid::regclass::text from pg_class c
            where c.relnamespace = 'jobforge'::regnamespace and c.relkind in ('r', 'p')";
        let mut dump = String::new();
        for row in admin.query(tables, &[]).await.unwrap() {
            let table: String = row.get(0);
            let sql = format!("select coalesce(string_agg(t::text, E'\\n'), '') from {table} t");
            dump.push_str(admin.query_one(&sql, &[]).await.unwrap().get(0));
        }
        dump
    }
}

async fn tell_config(configs: &DatabaseConfigs, ctx: &Context, name: &str) -> HandlerResult {
    if let Some(name) = name.strip_prefix("disable ") {
        configs.disable(ctx, name, "answers 410").await?;
        return Ok(Outcome::done());
    }
    match configs.find(ctx, name).await {
        Ok(None) => Ok(Outcome::complete(&"no such config")?),
        Ok(Some(found)) => {
            ctx.log(jobforge_worker::Level::Info, format!("found {found:?}")).await;
            let lengths = found.secrets.iter().map(|(name, value)| (name, value.expose_secret().len()));
            let secrets: serde_json::Map<String, Value> =
                lengths.map(|(name, length)| (name.clone(), json!(length))).collect();
            Ok(Outcome::complete(&json!({ "settings": found.settings, "secrets": secrets }))?)
        }
        Err(error) => Err(error.into_handler_error()),
    }
}

pub(crate) fn seal_keys(text: &str) -> SealKeys {
    SealKeys::parse(&SecretString::from(text)).unwrap()
}

/// An environment in which every variable is set, and only some may be named.
fn secret_env() -> SecretEnv {
    let value = |name: &str| Some(SecretString::from(format!("canary-of-{name}")));
    SecretEnv::new(&["JOBFORGE_SECRET_*".to_owned()], value).unwrap()
}

/// Asks again and again until the answer is there.
pub(crate) async fn eventually<T>(what: &str, ask: impl AsyncFn() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(answer) = ask().await {
            return answer;
        }
        assert!(Instant::now() < deadline, "not within {PATIENCE:?}: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Everything that this process logged, at every level.
#[derive(Clone, Default)]
pub(crate) struct Logged(Arc<Mutex<Vec<u8>>>);

impl Logged {
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap()).into_owned()
    }
}

impl Write for Logged {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
