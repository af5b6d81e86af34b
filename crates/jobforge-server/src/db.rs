//! The logins' pools: a small one for each, and small ones apart for calls that may wait.

use std::time::Duration;

use deadpool_postgres::{Manager, ManagerConfig, Pool, RecyclingMethod, Runtime};
use jobforge_core::{Error, connect};
use tokio::sync::OwnedSemaphorePermit;
use tokio_postgres::NoTls;
use uuid::Uuid;

use crate::config::ServerConfig;
use crate::lent::Lent;
use crate::problem::Problem;
use crate::shares::Shares;

/// Connections for tenants' calls that may wait for somebody else's transaction; one tenant takes half of them at most.
pub(crate) const PATIENT: usize = 8;
/// The same for operators' calls, and for workers'.
const PATIENT_OTHERS: usize = 4;

/// The logins' pools.
#[derive(Debug)]
pub(crate) struct Db {
    tenant: Pool,
    /// The same login, apart: who waits here keeps nobody else waiting.
    patient: Pool,
    shares: Shares,
    operator: Pool,
    /// The same for the operator's login, with which keys are looked up.
    patient_operator: Pool,
    worker: Option<Pool>,
    /// The same for the worker's login, with which work is claimed.
    patient_worker: Option<Pool>,
    /// How long a call may take.
    limit: Duration,
}

impl Db {
    pub(crate) fn new(config: &ServerConfig) -> Result<Db, Error> {
        let limit = config.call_timeout;
        let pool = |url: &str| pool(url, config.connections, limit);
        let patient = |url: &str| self::pool(url, PATIENT_OTHERS, limit);
        Ok(Db {
            tenant: pool(&config.tenant_url)?,
            patient: self::pool(&config.tenant_url, PATIENT, limit)?,
            shares: Shares::new(PATIENT / 2),
            operator: pool(&config.operator_url)?,
            patient_operator: patient(&config.operator_url)?,
            worker: config.worker_url.as_deref().map(pool).transpose()?,
            patient_worker: config.worker_url.as_deref().map(patient).transpose()?,
            limit,
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
        let always = [&self.tenant, &self.patient, &self.operator, &self.patient_operator];
        for pool in always.into_iter().chain(&self.worker).chain(&self.patient_worker) {
            pool.close();
        }
    }

    async fn lend_worker(&self, pool: Option<&Pool>) -> Result<Lent, Problem> {
        match pool {
            Some(pool) => self.lend(pool, None).await,
            None => Err(Problem::forbidden(
                "no_worker_login",
                "this server has no worker login: set server.worker_url",
            )),
        }
    }

    async fn lend(&self, pool: &Pool, place: Option<OwnedSemaphorePermit>) -> Result<Lent, Problem> {
        match pool.get().await {
            Ok(object) => Ok(Lent::new(object, self.limit, place)),
            Err(error) => {
                tracing::warn!(error = &error as &dyn std::error::Error, "no connection to the database");
                Err(Problem::unavailable("no connection to the database is to be had now; try again"))
            }
        }
    }
}

/// How long somebody waits for a connection.
fn patience(limit: Duration) -> Duration {
    limit.min(Duration::from_secs(5))
}

fn pool(url: &str, most: usize, limit: Duration) -> Result<Pool, Error> {
    let settings = ManagerConfig { recycling_method: RecyclingMethod::Fast };
    let manager = Manager::from_config(connect::config(url)?, NoTls, settings);
    let patience = Some(patience(limit));
    Pool::builder(manager)
        .max_size(most)
        .runtime(Runtime::Tokio1)
        .wait_timeout(patience)
        .create_timeout(patience)
        .recycle_timeout(patience)
        .build()
        .map_err(|_| Error::Closed { operation: "connect" })
}
