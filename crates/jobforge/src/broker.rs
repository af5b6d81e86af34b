//! The broker without which a server is not ready, looked at over a connection that is kept.

use std::sync::Arc;

use anyhow::Result;
use jobforge_server::{BrokerAnswer, BrokerCheck};
use jobforge_worker::Probe;

use crate::config::Config;

/// What a server's readiness asks, where the settings require the broker.
pub(crate) fn broker_check(config: &Config) -> Result<Option<Arc<dyn BrokerCheck>>> {
    let broker = config.required_broker()?;
    Ok(broker.map(|broker| Arc::new(ByProbe(Probe::new(broker))) as _))
}

#[derive(Debug)]
struct ByProbe(Probe);

impl BrokerCheck for ByProbe {
    fn answers(&self) -> BrokerAnswer<'_> {
        Box::pin(self.0.answers())
    }
}
