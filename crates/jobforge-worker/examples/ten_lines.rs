//! The smallest worker there is: `JOBFORGE_DATABASE_URL=… cargo run --example ten_lines`.

use jobforge_worker::{Context, JobType, Outcome, Worker, WorkerConfig};

#[derive(serde::Deserialize)]
struct SendMail {
    to: String,
}

impl JobType for SendMail {
    const TYPE: &'static str = "mail.send";
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let database_url = std::env::var("JOBFORGE_DATABASE_URL")?;
    let worker = Worker::builder(WorkerConfig { database_url, ..WorkerConfig::default() })
        .handle_job(|_: Context, mail: SendMail| async move {
            println!("a mail goes to {}", mail.to);
            Ok(Outcome::done())
        })
        .build()?;
    let running = worker.start().await?;
    tokio::signal::ctrl_c().await?;
    running.shutdown().await;
    Ok(())
}
