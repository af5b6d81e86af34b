//! An order and the job that ships it are committed together, or neither is:
//! `transactional_enqueue <tenant> <order>`, on the database of `JOBFORGE_DATABASE_URL`, which has a table
//! `orders (number text primary key)`.

use std::env;
use std::error::Error;

use jobforge_core::connect::connect;
use jobforge_core::{JobType, rpc};
use tokio_postgres::types::Type;
use uuid::Uuid;

#[derive(serde::Serialize)]
struct Ship {
    order: String,
}

impl JobType for Ship {
    const TYPE: &'static str = "order.ship";
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args().skip(1);
    let mut next = || arguments.next().ok_or("usage: transactional_enqueue <tenant> <order>");
    let (tenant, order): (Uuid, String) = (next()?.parse()?, next()?);
    let (mut client, connection) = connect(&env::var("JOBFORGE_DATABASE_URL")?).await?;
    tokio::spawn(connection);

    let transaction = client.transaction().await?;
    let job = rpc::enqueue_job(&transaction, tenant, &Ship { order: order.clone() }.into_job()?).await?;
    // An order that is there already is refused here, and its second shipment with it.
    let sql = "insert into orders (number) values ($1)";
    transaction.query_typed(sql, &[(&order, Type::TEXT)]).await?;
    transaction.commit().await?;
    println!("{}", job.id);
    Ok(())
}
