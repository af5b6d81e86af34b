//! Seeing the plans of statements that run inside functions: `auto_explain` tells each as a notice of the session that
//! runs it. It is loaded by the superuser, who then becomes the login: the plans are those the login gets.

use jobforge_testkit::TestDb;
use serde_json::Value;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio_postgres::types::ToSql;
use tokio_postgres::{AsyncMessage, Client, NoTls, Row};

use super::shape::{Scan, scans};
use crate::schema::told;

pub(crate) struct Watched {
    client: Client,
    login: String,
    notices: UnboundedReceiver<String>,
}

/// What a call did: its rows, and every scan of every statement within it.
pub(crate) struct Seen {
    pub(crate) rows: Vec<Row>,
    pub(crate) scans: Vec<Scan>,
    /// Pages touched by the whole call.
    pub(crate) pages: u64,
}

const BEGIN_TO_WATCH: &str = "
    load 'auto_explain';
    set auto_explain.log_level = notice;
    set auto_explain.log_format = json;
    set auto_explain.log_analyze = on;
    set auto_explain.log_timing = off;
    set auto_explain.log_buffers = on;
    set auto_explain.log_nested_statements = on;";

impl Watched {
    /// A fresh session, so that no plan of an earlier state is cached in it.
    pub(crate) async fn login(db: &TestDb, login: &str) -> Watched {
        let url = db.url_as("postgres", None);
        let (client, mut connection) =
            tokio_postgres::connect(&url, NoTls).await.expect("connect to be watched");
        let (sender, notices) = unbounded_channel();
        tokio::spawn(async move {
            while let Some(Ok(message)) = std::future::poll_fn(|cx| connection.poll_message(cx)).await {
                if let AsyncMessage::Notice(notice) = message {
                    let _ = sender.send(notice.message().to_owned());
                }
            }
        });
        let sql = format!("{BEGIN_TO_WATCH} set session authorization {login};");
        client.batch_execute(&sql).await.expect("load auto_explain");
        Watched { client, login: login.to_owned(), notices }
    }

    /// Runs statements without looking.
    pub(crate) async fn run(&self, sql: &str) {
        self.client.batch_execute(sql).await.unwrap_or_else(|e| panic!("cannot run {sql}: {}", told(&e)));
    }

    /// Runs one statement and tells all plans within it. A connection hands out messages in the order of their coming:
    /// when the answer is there, so are the notices.
    pub(crate) async fn call(&mut self, sql: &str, params: &[&(dyn ToSql + Sync)]) -> Seen {
        // The plan of the call itself comes last, because it ends last; planning it is not counted.
        let statement =
            self.client.prepare(sql).await.unwrap_or_else(|e| panic!("cannot prepare {sql}: {}", told(&e)));
        self.watching(true).await;
        let rows = self.client.query(&statement, params).await;
        self.watching(false).await;
        let rows = rows.unwrap_or_else(|e| panic!("cannot run {sql}: {}", told(&e)));
        let (mut found, mut pages) = (Vec::new(), 0);
        while let Ok(notice) = self.notices.try_recv() {
            let Some(start) = notice.find('{') else { continue };
            let told: Value = serde_json::from_str(&notice[start..]).expect("auto_explain tells JSON");
            pages = told["Plan"]["Shared Hit Blocks"].as_u64().unwrap_or(0)
                + told["Plan"]["Shared Read Blocks"].as_u64().unwrap_or(0);
            found.extend(scans(&told));
        }
        assert!(!found.is_empty(), "auto_explain told nothing of {sql}");
        Seen { rows, scans: found, pages }
    }

    /// Only a superuser may switch it.
    async fn watching(&self, on: bool) {
        let (ms, login) = (if on { 0 } else { -1 }, &self.login);
        let sql = format!(
            "reset session authorization; set auto_explain.log_min_duration = {ms}; set session authorization {login}"
        );
        self.client.batch_execute(&sql).await.expect("switch auto_explain");
    }
}
