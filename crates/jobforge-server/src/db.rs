//! Connections lent to requests: a small pool for each login.
//!
//! A connection goes back only through [`Lent::done`], with the answer it gave. A request that is dropped in the
//! middle of a call takes its connection along: nobody else shall read its answer.

use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::{
    Connect, Hook, HookError, Manager, ManagerConfig, Object, Pool, PoolError, RecyclingMethod, Runtime,
    TimeoutType,
};
use jobforge_core::{Error, connect};
use tokio::task::JoinHandle;
use tokio_postgres::{Client, Config};

use crate::config::ServerConfig;
use crate::outage::{Outage, Tries};
use crate::problem::Problem;

/// Connections for calls that may wait for somebody else's transaction.
pub(crate) const PATIENT: usize = 8;

/// The logins' pools.
#[derive(Debug)]
pub(crate) struct Db {
    tenant: Source,
    /// The same login, apart: who waits here keeps nobody else waiting.
    patient: Source,
    operator: Source,
    worker: Option<Source>,
    pub(crate) outage: Arc<Outage>,
}

/// A connection for one request.
pub(crate) struct Lent {
    object: Option<Object>,
    outage: Arc<Outage>,
    /// Counts it among those that work.
    _lent: Arc<()>,
}

impl Db {
    pub(crate) fn new(config: &ServerConfig) -> Result<Db, Error> {
        let outage = Arc::new(Outage::new());
        let pool = |url: &str, most: usize| -> Result<Source, Error> {
            let pool = pool(url, most, config, &outage)?;
            Ok(Source { pool, tries: Tries::default(), lent: Arc::default() })
        };
        let most = config.connections;
        Ok(Db {
            tenant: pool(&config.tenant_url, most)?,
            patient: pool(&config.tenant_url, PATIENT)?,
            operator: pool(&config.operator_url, most)?,
            worker: config.worker_url.as_deref().map(|url| pool(url, most)).transpose()?,
            outage,
        })
    }

    /// As the login that acts for tenants.
    pub(crate) async fn tenant(&self) -> Result<Lent, Problem> {
        self.lend(&self.tenant).await
    }

    /// As the login that acts for tenants, for a call that may wait long.
    pub(crate) async fn patient(&self) -> Result<Lent, Problem> {
        self.lend(&self.patient).await
    }

    /// As the login that operates.
    pub(crate) async fn operator(&self) -> Result<Lent, Problem> {
        self.lend(&self.operator).await
    }

    /// As the login that works.
    pub(crate) async fn worker(&self) -> Result<Lent, Problem> {
        match &self.worker {
            Some(source) => self.lend(source).await,
            None => Err(Problem::forbidden(
                "no_worker_login",
                "this server has no worker login: set server.worker_url",
            )),
        }
    }

    /// Ends all connections that nobody uses; those in use end when they come back.
    pub(crate) fn close(&self) {
        self.pools().for_each(Pool::close);
    }

    /// Ends those connections that nobody uses and nobody may use any more.
    pub(crate) fn drop_stale(&self) {
        for pool in self.pools() {
            pool.retain(|_, metrics| !self.outage.is_stale(metrics.created));
        }
    }

    fn pools(&self) -> impl Iterator<Item = &Pool> {
        let always = [&self.tenant, &self.patient, &self.operator];
        always.into_iter().chain(self.worker.as_ref()).map(|source| &source.pool)
    }

    async fn lend(&self, source: &Source) -> Result<Lent, Problem> {
        let none = || Problem::unavailable("no connection to the database is to be had now; try again");
        let began = source.tries.begin(self.outage.demoted()).ok_or_else(none)?;
        let error = match source.pool.get().await {
            Ok(object) => {
                source.tries.succeeded();
                let (outage, lent) = (self.outage.clone(), source.lent.clone());
                return Ok(Lent { object: Some(object), outage, _lent: lent });
            }
            Err(error) => error,
        };
        // Who waits in vain for a turn says nothing of the database, unless that is away.
        if !matches!(error, PoolError::Timeout(TimeoutType::Wait)) {
            // Where there are connections that work, one more that is not to be had keeps nobody from them.
            if Arc::strong_count(&source.lent) == 1 && source.pool.status().available == 0 {
                source.tries.failed(began);
            }
            self.outage.begin(&error);
        } else if !self.outage.is_on() {
            tracing::warn!(error = &error as &dyn std::error::Error, "all connections are in use");
        }
        Err(none())
    }
}

/// A login's connections.
#[derive(Debug)]
struct Source {
    pool: Pool,
    tries: Tries,
    /// Held by each connection that is lent.
    lent: Arc<()>,
}

impl Lent {
    /// Gives the connection back and tells the answer as a caller gets it.
    pub(crate) fn done<T>(self, answer: Result<T, Error>) -> Result<T, Problem> {
        self.settle(answer).map_err(Problem::from)
    }

    /// Gives the connection back, unless the answer shows that it broke.
    pub(crate) fn settle<T>(mut self, answer: Result<T, Error>) -> Result<T, Error> {
        let object = self.object.take();
        self.outage.heed(&answer);
        if answer.as_ref().is_err_and(Error::is_connection)
            && let Some(object) = object
        {
            drop(Object::take(object));
        }
        answer
    }

    /// The client, for a transaction.
    pub(crate) fn client(&mut self) -> Result<&mut Client, Error> {
        let object = self.object.as_mut().ok_or(Error::Closed { operation: "lend" })?;
        Ok(object)
    }
}

impl Deref for Lent {
    type Target = Client;

    fn deref(&self) -> &Client {
        match &self.object {
            Some(object) => object,
            None => unreachable!("a connection is there until it is given back"),
        }
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if let Some(object) = self.object.take() {
            drop(Object::take(object));
        }
    }
}

fn pool(url: &str, most: usize, config: &ServerConfig, outage: &Arc<Outage>) -> Result<Pool, Error> {
    let settings = ManagerConfig { recycling_method: RecyclingMethod::Fast };
    let manager = Manager::from_connect(connect::config(url)?, Reach, settings);
    let patience = Some(config.call_timeout.min(Duration::from_secs(5)));
    let outage = outage.clone();
    let fresh = Hook::sync_fn(move |_, metrics| match outage.is_stale(metrics.created) {
        true => Err(HookError::message("its server takes no writes")),
        false => Ok(()),
    });
    Pool::builder(manager)
        .max_size(most)
        .runtime(Runtime::Tokio1)
        .wait_timeout(patience)
        .create_timeout(patience)
        .recycle_timeout(patience)
        .pre_recycle(fresh)
        .build()
        .map_err(|_| Error::Closed { operation: "connect" })
}

/// Connections of a pool, made like all others.
struct Reach;

type Connecting<'a> =
    Pin<Box<dyn Future<Output = Result<(Client, JoinHandle<()>), tokio_postgres::Error>> + Send + 'a>>;

impl Connect for Reach {
    fn connect(&self, config: &Config) -> Connecting<'_> {
        let config = config.clone();
        Box::pin(async move {
            let (client, connection) = connect::reach(&config).await?;
            // How a connection ended, the calls on it tell.
            let driver = tokio::spawn(async move {
                let _ = connection.await;
            });
            Ok((client, driver))
        })
    }
}
