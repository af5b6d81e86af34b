//! Hints from a RabbitMQ broker, beside those of Postgres: each message says that there may be work.
//!
//! Nothing depends on them. A broker that is away costs one warning and the time until the next look; a
//! message that is none is counted and forgotten.

mod dial;
mod listener;
mod probe;
mod publisher;

use std::fmt;
use std::time::Duration;

use lapin::options::ExchangeDeclareOptions;
use lapin::types::{FieldTable, ShortString};
use lapin::uri::{AMQPScheme, AMQPUri};
use lapin::{Channel, Connection, ConnectionProperties, ExchangeKind};
use serde::{Deserialize, Serialize};
use tokio::time::timeout;
use uuid::Uuid;

pub(crate) use listener::hear_hints;
pub use probe::Probe;
pub use publisher::Publisher;

/// How long a broker may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often both sides say that they live, unless the URL says otherwise.
const HEARTBEAT_SECONDS: u16 = 15;

/// Where hints come from and go to.
#[derive(Clone)]
pub struct Broker {
    uri: AMQPUri,
    exchange: ShortString,
    routing_key: ShortString,
}

/// Why a broker cannot be named so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BrokerError {
    /// The parser's own message may repeat the URL, and so its password.
    #[error("the broker's URL is not of the form amqp://user:password@host:port/vhost")]
    Url,
    /// The client is built without TLS, and must not send a password in the clear where somebody asked for it.
    #[error("amqps:// is not supported: reach the broker by amqp:// over a private network or a tunnel")]
    Tls,
    /// AMQP knows no longer names, and the empty one has a meaning of its own.
    #[error("the broker's {0} must have 1 to 255 bytes")]
    Name(&'static str),
}

impl Broker {
    /// The exchange unless told otherwise.
    pub const EXCHANGE: &'static str = "jobforge";
    /// The routing key unless told otherwise.
    pub const ROUTING_KEY: &'static str = "jobs.trigger";

    /// The broker at `amqp://user:password@host:port/vhost`.
    pub fn new(url: &str) -> Result<Broker, BrokerError> {
        let mut uri: AMQPUri = url.parse().map_err(|_| BrokerError::Url)?;
        if uri.scheme == AMQPScheme::AMQPS {
            return Err(BrokerError::Tls);
        }
        uri.query.heartbeat.get_or_insert(HEARTBEAT_SECONDS);
        Ok(Broker { uri, exchange: Broker::EXCHANGE.into(), routing_key: Broker::ROUTING_KEY.into() })
    }

    /// With another exchange: a durable one of type topic, made if it is not there.
    pub fn exchange(self, name: &str) -> Result<Broker, BrokerError> {
        Ok(Broker { exchange: named("exchange", name)?, ..self })
    }

    /// With another routing key.
    pub fn routing_key(self, key: &str) -> Result<Broker, BrokerError> {
        Ok(Broker { routing_key: named("routing key", key)?, ..self })
    }

    /// A connection that has the exchange; `who` is its name in the broker's lists.
    async fn open(&self, who: &str) -> Result<(Connection, Channel), Away> {
        answered(async {
            let properties = ConnectionProperties::default().with_connection_name(who.into());
            let connection = dial::dial(self.uri.clone(), properties).await?;
            let channel = connection.create_channel().await?;
            self.declare_exchange(&channel).await?;
            Ok((connection, channel))
        })
        .await
    }

    /// Returns when the broker has answered that the exchange is there.
    async fn declare_exchange(&self, channel: &Channel) -> Result<(), Away> {
        let durable = ExchangeDeclareOptions { durable: true, ..ExchangeDeclareOptions::default() };
        let kind = ExchangeKind::Topic;
        channel.exchange_declare(self.exchange.clone(), kind, durable, FieldTable::default()).await?;
        Ok(())
    }
}

/// Says where it is, never with which password.
impl fmt::Debug for Broker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Broker({self})")
    }
}

impl fmt::Display for Broker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let AMQPUri { scheme, authority, .. } = &self.uri;
        write!(f, "{scheme}://{}:{}", authority.host, authority.port)
    }
}

/// A message: there may be work, for instance this job.
#[derive(Debug, Serialize, Deserialize)]
struct Hint {
    job_id: Uuid,
}

/// Why a broker does not serve now.
#[derive(Debug, thiserror::Error)]
enum Away {
    #[error(transparent)]
    Failed(#[from] lapin::Error),
    #[error("no answer within {0:?}")]
    Silent(Duration),
    #[error("the broker ended the subscription")]
    Ended,
}

/// A step that the broker must answer in time.
async fn answered<T>(step: impl Future<Output = Result<T, Away>>) -> Result<T, Away> {
    within(PATIENCE, step).await
}

/// The same in this time.
async fn within<T>(patience: Duration, step: impl Future<Output = Result<T, Away>>) -> Result<T, Away> {
    timeout(patience, step).await.unwrap_or(Err(Away::Silent(patience)))
}

fn named(what: &'static str, name: &str) -> Result<ShortString, BrokerError> {
    let name = Some(name).filter(|name| !name.is_empty()).ok_or(BrokerError::Name(what))?;
    ShortString::try_new(name).map_err(|_| BrokerError::Name(what))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_that_is_none_is_refused_without_being_repeated() {
        for url in ["", "amqp", "http://a:secret@b", "amqp://a:secret@b:port"] {
            let error = Broker::new(url).unwrap_err();
            assert_eq!(error, BrokerError::Url, "{url}");
            assert!(!error.to_string().contains("secret"));
        }
    }

    #[test]
    fn tls_is_refused_rather_than_left_out() {
        assert_eq!(Broker::new("amqps://a:secret@b").unwrap_err(), BrokerError::Tls);
    }

    #[test]
    fn names_that_amqp_cannot_carry_are_refused() {
        let broker = Broker::new("amqp://localhost").unwrap();
        assert_eq!(broker.clone().exchange("").unwrap_err(), BrokerError::Name("exchange"));
        assert_eq!(broker.routing_key(&"x".repeat(256)).unwrap_err(), BrokerError::Name("routing key"));
    }

    #[test]
    fn no_text_of_a_broker_holds_its_password() {
        let broker = Broker::new("amqp://user:secret@broker.example:5673/jobs").unwrap();
        assert_eq!(broker.to_string(), "amqp://broker.example:5673");
        assert!(!format!("{broker:?}").contains("secret"));
    }
}
