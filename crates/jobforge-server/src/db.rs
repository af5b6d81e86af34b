//! The logins' pools: a small one for each, and small ones apart for calls that may wait.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::{
    Connect, Hook, HookError, Manager, ManagerConfig, Pool, PoolError, RecyclingMethod, Runtime, TimeoutType,
};
use jobforge_core::{Error, connect};
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::JoinHandle;
use tokio_postgres::{Client, Config};
use uuid::Uuid;

use crate::config::ServerConfig;
use crate::lent::{Lent, Terms};
use crate::outage::{Outage, Tries};
use crate::problem::Problem;
use crate::shares::Shares;

/// Connections for tenants' calls that may wait for somebody else's transaction; one tenant takes half of them at most.
pub(crate) const PATIENT: usize = 8;
/// The same for operators' calls, and for workers'.
const PATIENT_OTHERS: usize = 4;

/// The logins' pools.
#[derive(Debug)]
pub(crate) struct Db {
    tenant: Source,
    /// The same login, apart: who waits here keeps nobody else waiting.
    patient: Source,
    shares: Shares,
    operator: Source,
    /// The same for the operator's login, with which keys are looked up.
    patient_operator: Source,
    worker: Option<Source>,
    /// The same for the worker's login, with which work is claimed.
    patient_worker: Option<Source>,
    /// How long a call may take.
    limit: Duration,
    /// Whether calls can be canceled: not where a pooler stands between.
    cancels: bool,
    pub(crate) outage: Arc<Outage>,
}

/// A login's connections.
#[derive(Debug)]
struct Source {
    pool: Pool,
    tries: Tries,
    /// Held by each connection that is lent.
    lent: Arc<()>,
}

impl Db {
    pub(crate) fn new(config: &ServerConfig) -> Result<Db, Error> {
        let (limit, outage) = (config.call_timeout, Arc::new(Outage::new()));
        let source = |url: &str, most: usize| -> Result<Source, Error> {
            let pool = pool(url, most, limit, &outage)?;
            Ok(Source { pool, tries: Tries::default(), lent: Arc::default() })
        };
        let pool = |url: &str| source(url, config.connections);
        let patient = |url: &str| source(url, PATIENT_OTHERS);
        Ok(Db {
            tenant: pool(&config.tenant_url)?,
            patient: source(&config.tenant_url, PATIENT)?,
            shares: Shares::new(PATIENT / 2),
            operator: pool(&config.operator_url)?,
            patient_operator: patient(&config.operator_url)?,
            worker: config.worker_url.as_deref().map(pool).transpose()?,
            patient_worker: config.worker_url.as_deref().map(patient).transpose()?,
            limit,
            cancels: config.direct_url.is_none(),
            outage,
        })
    }

    /// As the login that acts for tenants.
    pub(crate) async fn tenant(&self) -> Result<Lent, Problem> {
        self.lend(&self.tenant, None).await
    }

    /// As the login that acts for tenants, for a call that may wait for a lock.
    pub(crate) async fn patient(&self, tenant: Uuid) -> Result<Lent, Problem> {
        let Some(place) = self.shares.place(tenant, patience(self.limit)).await else {
            return Err(Problem::late(
                "too many calls of this tenant wait for others' transactions; try again",
            ));
        };
        self.lend(&self.patient, Some(place)).await
    }

    /// As the login that operates.
    pub(crate) async fn operator(&self) -> Result<Lent, Problem> {
        self.lend(&self.operator, None).await
    }

    /// As the login that operates, for a call that may wait for a lock.
    pub(crate) async fn patient_operator(&self) -> Result<Lent, Problem> {
        self.lend(&self.patient_operator, None).await
    }

    /// As the login that works.
    pub(crate) async fn worker(&self) -> Result<Lent, Problem> {
        self.lend_worker(self.worker.as_ref()).await
    }

    /// As the login that works, for a call that may wait for a lock.
    pub(crate) async fn patient_worker(&self) -> Result<Lent, Problem> {
        self.lend_worker(self.patient_worker.as_ref()).await
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
        let always = [&self.tenant, &self.patient, &self.operator, &self.patient_operator];
        always.into_iter().chain(&self.worker).chain(&self.patient_worker).map(|source| &source.pool)
    }

    async fn lend_worker(&self, source: Option<&Source>) -> Result<Lent, Problem> {
        match source {
            Some(source) => self.lend(source, None).await,
            None => Err(Problem::forbidden(
                "no_worker_login",
                "this server has no worker login: set server.worker_url",
            )),
        }
    }

    async fn lend(&self, source: &Source, place: Option<OwnedSemaphorePermit>) -> Result<Lent, Problem> {
        let none = || Problem::unavailable("no connection to the database is to be had now; try again");
        let began = source.tries.begin(self.outage.demoted()).ok_or_else(none)?;
        let error = match source.pool.get().await {
            Ok(object) => {
                source.tries.succeeded();
                let terms = Terms {
                    limit: self.limit,
                    cancels: self.cancels,
                    outage: self.outage.clone(),
                    _lent: source.lent.clone(),
                };
                return Ok(Lent::new(object, place, terms));
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

/// How long somebody waits for a connection.
fn patience(limit: Duration) -> Duration {
    limit.min(Duration::from_secs(5))
}

fn pool(url: &str, most: usize, limit: Duration, outage: &Arc<Outage>) -> Result<Pool, Error> {
    let settings = ManagerConfig { recycling_method: RecyclingMethod::Fast };
    let manager = Manager::from_connect(connect::config(url)?, Reach, settings);
    let patience = Some(patience(limit));
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
