//! What goes on between requests: hearing of revoked keys, noting which were used, noticing a server that takes no writes.

use std::sync::Arc;
use std::time::Duration;

use jobforge_core::listen::Listener;
use jobforge_core::{Error, connect, rpc};

use crate::app::App;

/// How long after a lost connection the next one is tried.
const RECONNECT: Duration = Duration::from_secs(1);
/// How often uses are noted.
const NOTE: Duration = Duration::from_secs(5);

/// Begins; ends with the app.
pub(crate) fn start(app: &Arc<App>) {
    let app = app.clone();
    tokio::spawn(async move {
        tokio::select! {
            () = hear(&app) => {}
            () = note(&app) => {}
            () = drop_stale(&app) => {}
            () = app.stopped() => {}
        }
    });
}

/// Notes when keys were used last, all since the last time at once. What cannot be noted is lost: it is a hint.
pub(crate) async fn note_uses(app: &App) {
    let used = app.keys.take_used();
    if used.is_empty() {
        return;
    }
    let Ok(client) = app.db.operator().await else { return };
    if let Err(error) = client.attempt(async |c| rpc::touch_api_keys(c, &used).await).await
        && !error.is_connection()
    {
        tracing::warn!(error = &error as &dyn std::error::Error, "the use of keys is not noted");
    }
}

/// Notices a server that was demoted and left running even where nobody writes: readers would be told old things.
async fn check_writable(app: &App) {
    let Ok(client) = app.db.operator().await else { return };
    // What it means is heeded there.
    let _ = client.attempt(async |c| connect::check_writable(c).await).await;
}

async fn note(app: &App) {
    app.opened.cancelled().await;
    loop {
        tokio::time::sleep(NOTE).await;
        check_writable(app).await;
        note_uses(app).await;
        app.tidy();
    }
}

/// Ends connections to a server that was found to take no writes, though nobody asks for them.
async fn drop_stale(app: &App) {
    let mut demotions = app.db.outage.demotions();
    while demotions.changed().await.is_ok() {
        app.db.drop_stale();
    }
}

async fn hear(app: &App) {
    app.opened.cancelled().await;
    let mut hears = true;
    loop {
        if let Err(error) = hear_until_lost(app, &mut hears).await
            && std::mem::take(&mut hears)
        {
            // Once: the next tries fail for the same reason.
            tracing::warn!(error = &error as &dyn std::error::Error, "revoked keys are not heard of at once");
        }
        forget_all(app);
        tokio::time::sleep(RECONNECT).await;
    }
}

async fn hear_until_lost(app: &App, hears: &mut bool) -> Result<(), Error> {
    let url = app.config.direct_url.as_ref().unwrap_or(&app.config.operator_url);
    let mut demotions = app.db.outage.demotions();
    let mut listener = Listener::connect(url, &[rpc::KEYS_CHANNEL]).await?;
    *hears = true;
    // What was revoked before is not heard any more.
    forget_all(app);
    loop {
        let heard = tokio::select! {
            heard = listener.next() => heard?,
            _ = demotions.changed() => return Err(Error::ReadOnly),
        };
        app.keys.forget(&heard.payload);
        app.sessions.forget(&heard.payload);
    }
}

fn forget_all(app: &App) {
    app.keys.forget_all();
    app.sessions.forget_all();
}
