//! A log line as one JSON object. The same ten names stand in every line, with null where they do not apply; what
//! else a line carries is in `fields`. So whoever reads them needs one schema.

use std::error::Error;
use std::fmt;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// The format.
pub(super) struct JsonLines;

impl<S, N> FormatEvent<S, N> for JsonLines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut line = Line::new(Timestamp::now(), event.metadata());
        event.record(&mut line);
        let text = serde_json::to_string(&line).map_err(|_| fmt::Error)?;
        writeln!(writer, "{text}")
    }
}

/// One line, in the order in which it is written.
#[derive(Serialize)]
struct Line {
    timestamp: String,
    level: &'static str,
    worker_id: Value,
    trace_id: Value,
    job_id: Value,
    job_type: Value,
    tenant_id: Value,
    attempt_no: Value,
    message: Value,
    duration_ms: Value,
    fields: Map<String, Value>,
}

impl Line {
    fn new(at: Timestamp, metadata: &tracing::Metadata<'static>) -> Line {
        let target = ("target".to_owned(), metadata.target().into());
        Line {
            timestamp: format!("{at:.6}"),
            level: metadata.level().as_str(),
            worker_id: Value::Null,
            trace_id: Value::Null,
            job_id: Value::Null,
            job_type: Value::Null,
            tenant_id: Value::Null,
            attempt_no: Value::Null,
            message: Value::Null,
            duration_ms: Value::Null,
            fields: Map::from_iter([target]),
        }
    }

    fn put(&mut self, field: &Field, value: Value) {
        let place = match field.name() {
            "worker_id" => &mut self.worker_id,
            "trace_id" => &mut self.trace_id,
            "job_id" => &mut self.job_id,
            "job_type" => &mut self.job_type,
            "tenant_id" => &mut self.tenant_id,
            "attempt_no" => &mut self.attempt_no,
            "message" => &mut self.message,
            "duration_ms" => &mut self.duration_ms,
            name => {
                self.fields.insert(name.to_owned(), value);
                return;
            }
        };
        *place = value;
    }
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put(field, format!("{value:?}").into());
    }

    /// With its causes, as on a terminal.
    fn record_error(&mut self, field: &Field, value: &(dyn Error + 'static)) {
        let mut texts = vec![value.to_string()];
        let mut cause = value.source();
        while let Some(error) = cause {
            texts.push(error.to_string());
            cause = error.source();
        }
        texts.dedup();
        self.put(field, texts.join(": ").into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, value.into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value.into());
    }
}
