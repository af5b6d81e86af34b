//! Where the scenarios take place: one installed database that is never worked in, and a copy of it for each.

use std::time::Duration;

use anyhow::{Context, Result};

use crate::cli::Plan;
use crate::connection::connect;
use crate::contenders::jobforge::JobForge;
use crate::contenders::{Bulk, Contender};
use crate::payload::{Payload, Size};
use crate::postgres_cpu::Postmaster;
use crate::server::{Database, Server};

/// The id of the row whose number an expression names: of this moment, and in the order of the numbers.
pub fn id_of(number: &str) -> String {
    format!(
        "(lpad(to_hex((extract(epoch from now()) * 1000)::bigint + ({number}) / 4096), 12, '0') || '7'
         || lpad(to_hex(({number}) % 4096), 3, '0') || '8000' || substr(md5(random()::text), 1, 12))::uuid"
    )
}

/// What all scenarios share.
pub struct Ground<'a> {
    pub server: &'a Server,
    pub plan: &'a Plan,
    pub postmaster: Option<Postmaster>,
    original: Database,
    installed: JobForge,
}

/// One copy, with JobForge in it and nobody connected between calls.
pub struct Site<'a> {
    pub ground: &'a Ground<'a>,
    pub database: Database,
    pub jobforge: JobForge,
}

impl<'a> Ground<'a> {
    pub async fn lay(server: &'a Server, plan: &'a Plan) -> Result<Self> {
        let original = server.fresh_database("jobforge_bench_growth".to_owned()).await?;
        let mut installed = JobForge::default();
        installed.prepare(&original.url).await?;
        let postmaster = Postmaster::find(server).await?;
        Ok(Self { server, plan, postmaster, original, installed })
    }

    pub async fn site(&'a self, name: &str) -> Result<Site<'a>> {
        let name = format!("jobforge_bench_growth_{}", name.replace('-', "_"));
        let database = self.server.copy_database(&self.original, &name).await?;
        let jobforge = self.installed.in_copy(&database.url);
        Ok(Site { ground: self, database, jobforge })
    }

    /// Jobs per second of the drain that everything is compared with, measured now.
    pub async fn plain_drain(&'a self) -> Result<f64> {
        let mut site = self.site("plain").await?;
        site.enqueue(self.plan.jobs).await?;
        site.settle().await?;
        let drained = site.drain(self.plan.jobs, Duration::ZERO).await?;
        site.clear().await?;
        Ok(drained.rate())
    }

    pub async fn clear(self) -> Result<()> {
        self.server.drop_database(&self.original).await
    }
}

impl Site<'_> {
    /// Statements of the superuser, past every function: only to lay out what a drain then meets.
    pub async fn lay_out(&self, statements: &str) -> Result<()> {
        let admin = connect(&self.database.url).await?;
        admin.batch_execute(statements).await.with_context(|| format!("laying out: {statements}"))
    }

    /// The one number that a query answers.
    pub async fn count(&self, query: &str) -> Result<i64> {
        let admin = connect(&self.database.url).await?;
        let row = admin.query_typed_one(query, &[]).await.with_context(|| format!("counting: {query}"))?;
        Ok(row.try_get(0)?)
    }

    /// Through the product's own bulk enqueue.
    pub async fn enqueue(&mut self, jobs: usize) -> Result<()> {
        self.jobforge.connect().await?;
        let method = self.jobforge.bulk_methods()[0];
        let payload = Payload::new(Size::Small);
        self.jobforge.enqueue_bulk(Bulk { method, jobs, payload: &payload }).await?;
        self.jobforge.disconnect().await
    }

    pub async fn settle(&self) -> Result<()> {
        self.ground.server.settle(&self.database).await
    }

    /// Left standing, its dead rows would keep autovacuum busy under the next one.
    pub async fn clear(self) -> Result<()> {
        self.ground.server.drop_database(&self.database).await
    }
}
