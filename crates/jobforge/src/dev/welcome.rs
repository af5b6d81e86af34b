//! What `jobforge dev` tells when everything runs: where it is, and what to try.

use anyhow::Result;
use jobforge_core::migrate::Report;
use serde_json::json;

use crate::config::redact;
use crate::demo::TENANT;
use crate::dev::home::quoted;
use crate::dev::roles::Urls;
use crate::dev::server::Ground;
use crate::output::{Output, say};

/// This machine's own addresses, which are open to the connectors here.
pub(crate) const LOOPBACK: [&str; 2] = ["127.0.0.0/8", "::1"];

/// What there is to tell of.
pub(crate) struct Welcome<'a> {
    pub(crate) ground: &'a Ground,
    pub(crate) urls: &'a Urls,
    pub(crate) report: &'a Report,
    /// Where the HTTP API is.
    pub(crate) url: &'a str,
    pub(crate) no_demo: bool,
}

impl Welcome<'_> {
    /// To programs on stdout, without passwords and keys; to people on stderr.
    pub(crate) fn tell(&self, output: Output) -> Result<()> {
        let home = &self.ground.home;
        if output.is_json() {
            let json = json!({
                "data_dir": home.dir(), "dev_file": home.dev_file(), "url": self.url,
                "database_url": redact(&self.urls.app), "tenant_id": TENANT,
            });
            return output.answer(&json, String::new);
        }
        say(&format!("{}\n{}", self.facts(), self.suggestions()));
        Ok(())
    }

    fn facts(&self) -> String {
        let schema = match (self.report.applied.len(), self.report.functions_changed.len()) {
            (0, 0) => "up to date".to_owned(),
            (files, functions) => format!("{files} migrations and {functions} files of functions applied"),
        };
        let jobs = match self.no_demo {
            true => "none until you enqueue some",
            false => "a few each second; --no-demo for none",
        };
        format!(
            "JobForge {} is ready.\n\
             \x20 HTTP      {url} (its routes: {url}/docs)\n\
             \x20 Postgres  {}\n\
             \x20 database  {}\n\
             \x20 schema    {schema}\n\
             \x20 tenant    demo, {TENANT}\n\
             \x20 jobs      {jobs}\n\
             \x20 egress    connectors may reach this machine too ({}), as `jobforge work` may not\n\
             \x20 details   {} (with password and keys; readable by you alone)\n",
            env!("CARGO_PKG_VERSION"),
            self.ground.server.description,
            redact(&self.urls.app),
            LOOPBACK.join(", "),
            self.ground.home.dev_file().display(),
            url = self.url,
        )
    }

    fn suggestions(&self) -> String {
        let home = &self.ground.home;
        let (dir, file) = (home.dir().display(), quoted(&home.dev_file()));
        let url = self.url;
        let [list, enqueue, doctor] = ["jobforge jobs list", "jobforge enqueue demo.echo", "jobforge doctor"]
            .map(|text| home.command(text));
        format!(
            "Try, in another terminal in this directory:\n\
             \x20 {list}\n\
             \x20 {enqueue} --payload '{{\"hello\": \"world\"}}'\n\
             \x20 {doctor}\n\
             \x20 curl {url}/api/v1/jobs -H \"Authorization: Bearer $(sed -n 's/.*\"tenant\": \"\\(.*\\)\".*/\\1/p' {file})\"\n\
             \x20 psql \"$(sed -n 's/.*\"database_url\": \"\\(.*\\)\".*/\\1/p' {file})\" \\\n\
             \x20   -c \"set app.tenant_id = '{TENANT}'\" -c 'select id, type, status from jobforge.jobs'\n\n\
             Ctrl-C stops everything; the data stays in {dir}.\n"
        )
    }
}
