//! What a job writes and that it is done are committed together, so it happens once however often the job
//! is tried: `transactional_completion`, on the database of `JOBFORGE_DATABASE_URL`, which has a table
//! `shipments (number text)`. Runs what is due, then ends.

use std::env;
use std::error::Error;

use jobforge_core::connect::connect;
use jobforge_core::rpc;
use jobforge_worker::{Context, HandlerResult, JobType, Outcome, Worker, WorkerConfig};
use tokio_postgres::types::Type;

#[derive(serde::Deserialize)]
struct Ship {
    order: String,
}

impl JobType for Ship {
    const TYPE: &'static str = "order.ship";
}

async fn ship(context: Context, job: Ship) -> HandlerResult {
    // A real worker takes the connection from a pool.
    let (mut client, connection) = connect(&env::var("JOBFORGE_DATABASE_URL")?).await?;
    tokio::spawn(connection);
    let transaction = client.transaction().await?;
    let sql = "insert into shipments (number) values ($1)";
    transaction.query_typed(sql, &[(&job.order, Type::TEXT)]).await?;
    // If another worker has the job by now, this is an error, and nothing is shipped here.
    rpc::complete_job(&transaction, context.lease(), context.job_ref(), None).await?;
    transaction.commit().await?;
    Ok(Outcome::AlreadyReported)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let database_url = env::var("JOBFORGE_DATABASE_URL")?;
    let config = WorkerConfig { database_url, ..WorkerConfig::default() };
    let worker = Worker::builder(config).handle_job(ship).build()?;
    let stats = worker.run_once(100).await?;
    println!("shipped {}", stats.completed);
    Ok(())
}
