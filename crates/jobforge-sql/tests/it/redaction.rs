//! What a definition redacts is seen by its workers and by nobody else; and which schemas definitions may have.

#![allow(clippy::unwrap_used, reason = "a failed step fails the story, wherever it is")]

mod cases;
mod leaks;
mod patches;
mod schemas;

use tokio_postgres::Client;

use crate::schema::NOOP;

/// Stands at a redacted place and must be found nowhere else.
const CANARY: &str = "canary-4111-1111";

/// Gives the test type these rules; both are SQL, e.g. `'{/a}'` and `null`.
async fn rule(operator: &Client, redact: &str, schema: &str) -> Result<(), tokio_postgres::Error> {
    let sql = format!(
        "select jobforge.upsert_definition('{NOOP}', p_redact => {redact}, p_arg_schema => {schema})"
    );
    operator.query(&sql, &[]).await.map(drop)
}
