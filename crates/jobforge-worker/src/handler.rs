//! Handlers by job type. A handler takes its arguments typed; here they lose their type, so that one map can
//! hold them all.

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde::de::DeserializeOwned;

use crate::context::Context;
use crate::outcome::HandlerResult;

/// What runs a job whose payload is an `A`: any function or closure of this shape.
pub trait Handler<A>: Send + Sync + 'static {
    /// Does the work.
    fn call(&self, context: Context, payload: A) -> BoxFuture<'static, HandlerResult>;
}

impl<A, F, W> Handler<A> for F
where
    F: Fn(Context, A) -> W + Send + Sync + 'static,
    W: Future<Output = HandlerResult> + Send + 'static,
{
    fn call(&self, context: Context, payload: A) -> BoxFuture<'static, HandlerResult> {
        Box::pin(self(context, payload))
    }
}

/// The handlers of a worker.
#[derive(Clone, Default)]
pub(crate) struct Registry {
    handlers: HashMap<String, Erased>,
}

/// Decodes the payload, then gives the future that does the work.
pub(crate) type Erased = Arc<dyn Fn(Context) -> Result<Work, serde_json::Error> + Send + Sync>;

/// A handler at work on one job.
pub(crate) type Work = BoxFuture<'static, HandlerResult>;

impl Registry {
    /// Adds a handler; a later one for the same type replaces it.
    pub(crate) fn add<A>(&mut self, job_type: String, handler: impl Handler<A>)
    where
        A: DeserializeOwned + Send + 'static,
    {
        let erased = move |context: Context| {
            let arguments = serde_json::from_str(context.payload().get())?;
            Ok(handler.call(context, arguments))
        };
        self.handlers.insert(job_type, Arc::new(erased));
    }

    pub(crate) fn get(&self, job_type: &str) -> Option<&Erased> {
        self.handlers.get(job_type)
    }

    /// Forgets all but the handlers of these types.
    pub(crate) fn keep(&mut self, types: &[String]) {
        self.handlers.retain(|job_type, _| types.contains(job_type));
    }

    /// The types in a fixed order.
    pub(crate) fn types(&self) -> Vec<String> {
        let mut types: Vec<_> = self.handlers.keys().cloned().collect();
        types.sort();
        types
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.types()).finish()
    }
}
