//! One connection of a run, with its statements prepared once.

use std::collections::HashMap;

use jobforge_testkit::TestDb;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Row, Statement};
use uuid::Uuid;

use crate::schema::{APP, OPERATOR, TENANT_A, TENANT_B, WORKER, connect_as, told};

/// What a connection is for. Applications act for one tenant; two of them share tenant A.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    App(Uuid),
    Worker(usize),
    Operator,
}

pub(crate) const PARTS: [Part; 7] = [
    Part::App(TENANT_A),
    Part::App(TENANT_B),
    Part::App(TENANT_A),
    Part::Worker(0),
    Part::Worker(1),
    Part::Worker(0),
    Part::Operator,
];

/// A statement's answer: rows, or a refusal as `code reason`.
pub(crate) type Answer = Result<Vec<Row>, String>;

pub(crate) struct Wire {
    client: Client,
    prepared: HashMap<String, Statement>,
}

impl Wire {
    /// `patience` is a statement's timeout: nothing here waits for long, except in a faulty database. It is no timeout of
    /// locks: at a commit that notifies, every database of the server is waited for.
    pub(crate) async fn open(db: &TestDb, part: Part, patience: &str) -> Wire {
        let login = match part {
            Part::App(_) => APP,
            Part::Worker(_) => WORKER,
            Part::Operator => OPERATOR,
        };
        let client = connect_as(db, login).await;
        // With a seed of its own the server's chance, too, is the same in every throw of a run.
        let mut set = format!("set statement_timeout = '{patience}'; select setseed(0.5)");
        if let Part::App(tenant) = part {
            set.push_str(&format!("; set app.tenant_id = '{tenant}'"));
        }
        client.batch_execute(&set).await.expect("a session's settings are set");
        Wire { client, prepared: HashMap::new() }
    }

    pub(crate) fn over(client: Client) -> Wire {
        Wire { client, prepared: HashMap::new() }
    }

    pub(crate) async fn ask(&mut self, sql: &str, params: &[&(dyn ToSql + Sync)]) -> Answer {
        if !self.prepared.contains_key(sql) {
            let statement = self.client.prepare(sql).await.map_err(|e| told(&e))?;
            self.prepared.insert(sql.to_owned(), statement);
        }
        let answer = self.client.query(&self.prepared[sql], params).await;
        if answer.is_err() {
            // The error comes before the server has let go of the locks; the next answer comes after it.
            self.say("").await;
        }
        answer.map_err(|error| match error.as_db_error() {
            Some(db) if db.code().code().starts_with("JF") || db.code().code() == "55P03" => {
                format!("{} {}", db.code().code(), db.detail().unwrap_or("")).trim_end().to_owned()
            }
            _ => told(&error),
        })
    }

    /// The same where a wait for one of the others is foreseen: it ends at once, with 55P03.
    pub(crate) async fn ask_briefly(&mut self, sql: &str, params: &[&(dyn ToSql + Sync)]) -> Answer {
        self.say("set lock_timeout = '10ms'").await;
        let answer = self.ask(sql, params).await;
        // In a transaction that failed it cannot be set, and the rollback does it.
        let _ = self.client.batch_execute("set lock_timeout = 0").await;
        answer
    }

    /// `begin`, `commit`, `rollback`, or nothing.
    pub(crate) async fn say(&self, word: &str) {
        self.client.batch_execute(word).await.expect("a transaction begins and ends");
    }
}
