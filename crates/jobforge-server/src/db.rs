//! Connections lent to requests: a small pool for each login.
//!
//! A connection goes back only through [`Lent::done`], with the answer it gave. A request that is dropped in the
//! middle of a call takes its connection along: nobody else shall read its answer.

use std::ops::Deref;
use std::time::Duration;

use deadpool_postgres::{Manager, ManagerConfig, Object, Pool, RecyclingMethod, Runtime};
use jobforge_core::{Error, connect};
use tokio_postgres::{Client, NoTls};

use crate::config::ServerConfig;
use crate::problem::Problem;

/// Connections for calls that may wait for somebody else's transaction.
pub(crate) const PATIENT: usize = 8;

/// The logins' pools.
#[derive(Debug)]
pub(crate) struct Db {
    tenant: Pool,
    /// The same login, apart: who waits here keeps nobody else waiting.
    patient: Pool,
    operator: Pool,
    worker: Option<Pool>,
}

/// A connection for one request.
pub(crate) struct Lent(Option<Object>);

impl Db {
    pub(crate) fn new(config: &ServerConfig) -> Result<Db, Error> {
        let pool = |url: &str| pool(url, config.connections, config);
        Ok(Db {
            tenant: pool(&config.tenant_url)?,
            patient: self::pool(&config.tenant_url, PATIENT, config)?,
            operator: pool(&config.operator_url)?,
            worker: config.worker_url.as_deref().map(pool).transpose()?,
        })
    }

    /// As the login that acts for tenants.
    pub(crate) async fn tenant(&self) -> Result<Lent, Problem> {
        lend(&self.tenant).await
    }

    /// As the login that acts for tenants, for a call that may wait long.
    pub(crate) async fn patient(&self) -> Result<Lent, Problem> {
        lend(&self.patient).await
    }

    /// As the login that operates.
    pub(crate) async fn operator(&self) -> Result<Lent, Problem> {
        lend(&self.operator).await
    }

    /// As the login that works.
    pub(crate) async fn worker(&self) -> Result<Lent, Problem> {
        match &self.worker {
            Some(pool) => lend(pool).await,
            None => Err(Problem::forbidden(
                "no_worker_login",
                "this server has no worker login: set server.worker_url",
            )),
        }
    }

    /// Ends all connections that nobody uses; those in use end when they come back.
    pub(crate) fn close(&self) {
        let always = [&self.tenant, &self.patient, &self.operator];
        for pool in always.into_iter().chain(self.worker.as_ref()) {
            pool.close();
        }
    }
}

impl Lent {
    /// Gives the connection back and tells the answer as a caller gets it.
    pub(crate) fn done<T>(self, answer: Result<T, Error>) -> Result<T, Problem> {
        self.settle(answer).map_err(Problem::from)
    }

    /// Gives the connection back, unless the answer shows that it broke.
    pub(crate) fn settle<T>(mut self, answer: Result<T, Error>) -> Result<T, Error> {
        let object = self.0.take();
        if answer.as_ref().is_err_and(Error::is_connection)
            && let Some(object) = object
        {
            drop(Object::take(object));
        }
        answer
    }

    /// The client, for a transaction.
    pub(crate) fn client(&mut self) -> Result<&mut Client, Error> {
        let object = self.0.as_mut().ok_or(Error::Closed { operation: "lend" })?;
        Ok(object)
    }
}

impl Deref for Lent {
    type Target = Client;

    fn deref(&self) -> &Client {
        match &self.0 {
            Some(object) => object,
            None => unreachable!("a connection is there until it is given back"),
        }
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if let Some(object) = self.0.take() {
            drop(Object::take(object));
        }
    }
}

async fn lend(pool: &Pool) -> Result<Lent, Problem> {
    match pool.get().await {
        Ok(object) => Ok(Lent(Some(object))),
        Err(error) => {
            tracing::warn!(error = &error as &dyn std::error::Error, "no connection to the database");
            Err(Problem::unavailable("no connection to the database is to be had now; try again"))
        }
    }
}

fn pool(url: &str, most: usize, config: &ServerConfig) -> Result<Pool, Error> {
    let settings = ManagerConfig { recycling_method: RecyclingMethod::Fast };
    let manager = Manager::from_config(connect::config(url)?, NoTls, settings);
    let patience = Some(config.call_timeout.min(Duration::from_secs(5)));
    Pool::builder(manager)
        .max_size(most)
        .runtime(Runtime::Tokio1)
        .wait_timeout(patience)
        .create_timeout(patience)
        .recycle_timeout(patience)
        .build()
        .map_err(|_| Error::Closed { operation: "connect" })
}
