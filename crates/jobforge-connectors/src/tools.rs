//! What the handlers of the HTTP connectors work with.

use std::future::Future;
use std::sync::Arc;

use jobforge_core::Payload;
use jobforge_worker::{Context, HandlerResult, Outcome, WorkerBuilder};

use crate::configs::ConnectorConfigs;
use crate::egress::Egress;
use crate::schema::Schema;
use crate::{http, webhook};

/// What the handlers share.
pub(crate) struct Tools {
    pub(crate) egress: Egress,
    pub(crate) configs: Arc<dyn ConnectorConfigs>,
    pub(crate) http_schema: Schema,
    pub(crate) webhook_schema: Schema,
}

/// Adds the handlers of `connector.http.request` and `connector.webhook.deliver` to a worker.
#[must_use]
pub fn register(builder: WorkerBuilder, egress: Egress, configs: Arc<dyn ConnectorConfigs>) -> WorkerBuilder {
    let (http_schema, webhook_schema) = (Schema::new(http::schema()), Schema::new(webhook::schema()));
    let tools = Arc::new(Tools { egress, configs, http_schema, webhook_schema });
    let hooks = tools.clone();
    builder
        .handle(http::KEY, move |context: Context, payload: Payload| {
            let tools = tools.clone();
            async move { until_told(&context, http::request(context.clone(), payload, &tools)).await }
        })
        .handle(webhook::KEY, move |context: Context, payload: Payload| {
            let tools = hooks.clone();
            async move { until_told(&context, webhook::deliver(context.clone(), payload, &tools)).await }
        })
}

/// Gives up the request when the job is to stop: nobody waits for the answer any more.
async fn until_told(context: &Context, work: impl Future<Output = HandlerResult>) -> HandlerResult {
    tokio::select! {
        biased;
        () = context.cancellation().cancelled() => {
            Ok(Outcome::Cancel { reason: "told to stop while it waited for an answer".to_owned() })
        }
        result = work => result,
    }
}
