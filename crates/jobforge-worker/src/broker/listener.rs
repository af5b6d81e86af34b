//! The worker's side: a queue of its own on the broker, and what comes in it wakes the claim loop.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use jobforge_core::connect::Backoff;
use lapin::message::Delivery;
use lapin::options::{
    BasicAckOptions, BasicConsumeOptions, BasicQosOptions, QueueBindOptions, QueueDeclareOptions,
};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{Connection, Consumer};
use tokio::time::{sleep, sleep_until};

use super::{Away, Broker, Hint, answered};
use crate::engine::Engine;
use crate::stats::Counters;

/// How many messages are on their way at a time, and how many more wait at the broker: one hint is as good as
/// a thousand, so the oldest make room.
const PREFETCH: u16 = 64;
/// Hints closer together than this are one: whatever others enqueue, a worker does not claim more often.
const APART: Duration = Duration::from_millis(5);
/// A connection that lived this long was a good one: the next is tried at once.
const LASTING: Duration = Duration::from_secs(5);

/// Hears hints for ever, over as many connections as it takes.
pub(crate) async fn hear_hints(engine: Arc<Engine>, broker: Broker) {
    let (mut backoff, mut warned, mut connected_before) = (Backoff::new(), false, false);
    loop {
        let away = match answered(Subscription::open(&engine, &broker)).await {
            Ok(subscription) => {
                let worker_id = engine.worker_id();
                tracing::info!(worker_id, %broker, "the broker is {}", if warned { "back" } else { "there" });
                if connected_before {
                    Counters::add(&engine.counters.broker_reconnects, 1);
                }
                (warned, connected_before) = (false, true);
                let began = Instant::now();
                let away = subscription.heed(&engine).await;
                if began.elapsed() >= LASTING {
                    backoff.reset();
                }
                away
            }
            Err(away) => away,
        };
        if !warned {
            let worker_id = engine.worker_id();
            tracing::warn!(worker_id, %broker, error = %away, "the broker is away: jobs are found without its hints");
            warned = true;
        }
        sleep(backoff.next_delay()).await;
    }
}

/// A queue that lives as long as its connection.
struct Subscription {
    consumer: Consumer,
    /// Closed when dropped.
    _connection: Connection,
}

impl Subscription {
    async fn open(engine: &Engine, broker: &Broker) -> Result<Subscription, Away> {
        let (connection, channel) = broker.open(engine.worker_id()).await?;
        let mut bounded = FieldTable::default();
        bounded.insert("x-max-length".into(), AMQPValue::LongInt(i32::from(PREFETCH)));
        let own =
            QueueDeclareOptions { exclusive: true, auto_delete: true, ..QueueDeclareOptions::default() };
        let queue = channel.queue_declare("".into(), own, bounded).await?.name().clone();
        let (exchange, key) = (broker.exchange.clone(), broker.routing_key.clone());
        let (plain, none) = (QueueBindOptions::default(), FieldTable::default());
        channel.queue_bind(queue.clone(), exchange, key, plain, none.clone()).await?;
        channel.basic_qos(PREFETCH, BasicQosOptions::default()).await?;
        let consumer = channel.basic_consume(queue, "".into(), BasicConsumeOptions::default(), none).await?;
        Ok(Subscription { consumer, _connection: connection })
    }

    /// Wakes the claim loop for what comes, until the broker is away.
    async fn heed(mut self, engine: &Engine) -> Away {
        let _connected = Connected::say(&engine.counters.broker_connected);
        // What was said before nobody heard.
        let (mut hinted, mut wake_at) = (true, Instant::now());
        loop {
            tokio::select! {
                biased;
                () = sleep_until(wake_at.into()), if hinted => {
                    engine.wake.notify_one();
                    (hinted, wake_at) = (false, Instant::now() + APART);
                }
                delivery = self.consumer.next() => match receive(engine, delivery).await {
                    Ok(hint) => hinted |= hint,
                    Err(away) => return away,
                },
            }
        }
    }
}

/// Says that hints arrive as long as it lives: a worker that stops drops it in the middle.
struct Connected<'a>(&'a AtomicBool);

impl Connected<'_> {
    fn say(connected: &AtomicBool) -> Connected<'_> {
        connected.store(true, Ordering::Release);
        Connected(connected)
    }
}

impl Drop for Connected<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

/// Takes a message in; tells whether it is a hint.
async fn receive(engine: &Engine, delivery: Option<lapin::Result<Delivery>>) -> Result<bool, Away> {
    let delivery = delivery.ok_or(Away::Ended)??;
    let hint = serde_json::from_slice::<Hint>(&delivery.data);
    match &hint {
        Ok(Hint { job_id }) => {
            Counters::add(&engine.counters.broker_hints, 1);
            tracing::trace!(%job_id, "a hint came");
        }
        Err(error) => {
            Counters::add(&engine.counters.broker_malformed, 1);
            tracing::debug!(worker_id = engine.worker_id(), %error, "a message of the broker is no hint");
        }
    }
    delivery.ack(BasicAckOptions::default()).await?;
    Ok(hint.is_ok())
}
