//! Log lines to stderr: for people on a terminal, a JSON object per line elsewhere. Passwords and keys that this
//! process knows do not appear in them.

mod json_lines;

use std::io::{self, Write};
use std::sync::{LazyLock, PoisonError, RwLock};

use jobforge_worker::{Secrets, hush_handler_panics};
use tracing_subscriber::EnvFilter;

use self::json_lines::JsonLines;
use crate::cli::Command;
use crate::config::{LogFormat, Settings};
use crate::output::{Output, watched};

/// What is logged by the commands whose answer is what counts.
const QUIET: &str = "warn";

/// Starts logging; called once.
pub(crate) fn start(settings: &Settings, command: &Command, output: Output) {
    let config = &settings.config;
    let server = &config.server;
    let urls = [&config.database_url, &config.direct_url, &server.operator_url, &server.worker_url];
    urls.into_iter().flatten().for_each(|url| hide_password(url));
    hush_handler_panics();
    let log = &config.log;
    let talks = matches!(command, Command::Work(_) | Command::Schedule | Command::Serve(_));
    let chosen = settings.origin("log.filter") != "default";
    let filter = if talks || chosen { log.filter.as_str() } else { QUIET };
    let json = match log.format {
        LogFormat::Json => true,
        LogFormat::Text => false,
        LogFormat::Auto => talks && (output.is_json() || !watched()),
    };
    let builder = tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::builder().parse_lossy(with_quiet_clients(filter)))
        .with_writer(|| Clean(io::stderr()))
        // Told on stderr as well, and with a panic where nobody reads that.
        .log_internal_errors(false)
        .with_ansi(watched());
    if json {
        builder.event_format(JsonLines).init();
    } else {
        builder.with_target(false).init();
    }
}

/// What the clients of broker and database say of each try that fails is told once by whoever tries.
fn with_quiet_clients(filter: &str) -> String {
    let unnamed = ["lapin", "deadpool"].into_iter().filter(|client| !filter.contains(client));
    unnamed.fold(filter.to_owned(), |filter, client| format!("{filter},{client}=off"))
}

/// What is never printed.
static SECRETS: LazyLock<RwLock<Secrets>> = LazyLock::new(RwLock::default);

/// Keeps a value from being printed from now on.
pub(crate) fn hide(secret: &str) {
    SECRETS.write().unwrap_or_else(PoisonError::into_inner).add(secret);
}

/// Keeps the password of a database's URL from being printed from now on.
pub(crate) fn hide_password(url: &str) {
    let parsed = url.parse::<tokio_postgres::Config>().ok();
    let password = parsed.as_ref().and_then(tokio_postgres::Config::get_password);
    if let Some(password) = password.and_then(|password| std::str::from_utf8(password).ok()) {
        hide(password);
    }
}

/// A text as it may be printed.
pub(crate) fn clean(text: &str) -> String {
    SECRETS.read().unwrap_or_else(PoisonError::into_inner).redact(text).into_owned()
}

/// A way out that lets no secret through. Each line comes as one write.
struct Clean<W>(W);

impl<W: Write> Write for Clean<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.0.write_all(clean(&String::from_utf8_lossy(line)).as_bytes())?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hidden_value_does_not_come_out() {
        hide_password("postgres://app:log%40canary@db/x");
        let mut out = Clean(Vec::new());
        out.write_all("no connection to postgres://app:log%40canary@db with log@canary\n".as_bytes())
            .unwrap();
        let text = String::from_utf8(out.0).unwrap();
        assert_eq!(text, "no connection to postgres://app:[redacted]@db with [redacted]\n");
    }
}
