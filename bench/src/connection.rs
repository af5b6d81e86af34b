//! Connections of the harness and of the raw-SQL limit.

use anyhow::{Context, Result};
use futures_util::StreamExt;
use futures_util::stream::poll_fn;
use tokio::sync::mpsc;
use tokio_postgres::{AsyncMessage, Client, NoTls};

/// Connects and drives the connection in the background. It ends when the client is dropped, or when the
/// database is dropped under it, which is how each pass ends.
pub async fn connect(url: &str) -> Result<Client> {
    let (client, connection) =
        tokio_postgres::connect(url, NoTls).await.context("connecting to the bench's Postgres")?;
    tokio::spawn(connection);
    Ok(client)
}

/// As [`connect`], handing on a wake-up for each notification.
pub async fn connect_listening(url: &str) -> Result<(Client, mpsc::UnboundedReceiver<()>)> {
    let (client, mut connection) =
        tokio_postgres::connect(url, NoTls).await.context("connecting to the bench's Postgres")?;
    let (wake, woken) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        let mut messages = poll_fn(move |context| connection.poll_message(context));
        while let Some(Ok(message)) = messages.next().await {
            if matches!(message, AsyncMessage::Notification(_)) && wake.send(()).is_err() {
                return;
            }
        }
    });
    Ok((client, woken))
}
