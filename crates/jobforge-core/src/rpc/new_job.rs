//! A job to be enqueued, and what its enqueue is answered.

use jiff::Timestamp;
use serde::Serialize;
use serde_json::value::to_raw_value;
use uuid::Uuid;

use super::job::Payload;
use super::payload;
use crate::artifact::ArtifactRef;
use crate::error::{Code, Error};

/// The most characters of all tags of a job, as JSON.
const MAX_TAGS: usize = 2000;
/// The beginning of the year 1: further back lie times that this program can tell and Postgres cannot read. Which of the others a
/// job may have, the database says by its own clock.
const EARLIEST: Timestamp = Timestamp::constant(-62_135_596_800, 0);

/// A job to be made. What is `None` comes from the type's definition.
#[derive(Clone, Debug)]
pub struct NewJob {
    /// The key of the job's definition.
    pub job_type: String,
    /// What the job is given.
    pub payload: Payload,
    /// The queue it waits in.
    pub queue: Option<String>,
    /// Smaller is sooner; 0 to 9 are for operators.
    pub priority: Option<i32>,
    /// Not before; the past means now.
    pub run_at: Option<Timestamp>,
    /// The same key again is answered with the first job.
    pub idempotency_key: Option<String>,
    /// A living job of the same key is the answer instead of a new one.
    pub dedupe_key: Option<String>,
    /// An id of the client's own, version 7 and of today.
    pub id: Option<Uuid>,
    /// How often it may fail.
    pub max_attempts: Option<i32>,
    /// What ties it to other jobs and to a caller's records.
    pub correlation_id: Option<String>,
    /// The W3C trace context of the caller.
    pub traceparent: Option<String>,
    /// Labels.
    pub tags: Vec<String>,
    /// `manual`, `event`, `schedule`, `system` or `workflow`.
    pub source: Option<String>,
    /// What in the source made it, e.g. a trigger's name.
    pub source_ref: Option<String>,
    /// Of jobs with the same key only so many run at once as their definition says (one).
    pub concurrency_key: Option<String>,
    /// Who asked for it, e.g. a user or a credential; the same for all jobs of a batch.
    pub created_by: Option<String>,
}

impl NewJob {
    /// A job of this type with this payload and the definition's defaults.
    pub fn new<T: Serialize + ?Sized>(job_type: impl Into<String>, payload: &T) -> Result<NewJob, Error> {
        let job_type = job_type.into();
        match to_raw_value(payload) {
            Ok(payload) => Ok(NewJob::raw(job_type, payload)),
            Err(source) => Err(Error::Payload { job_type, source }),
        }
    }

    /// A job whose payload is JSON text already.
    pub fn raw(job_type: impl Into<String>, payload: Payload) -> NewJob {
        NewJob {
            job_type: job_type.into(),
            payload,
            queue: None,
            priority: None,
            run_at: None,
            idempotency_key: None,
            dedupe_key: None,
            id: None,
            max_attempts: None,
            correlation_id: None,
            traceparent: None,
            tags: Vec::new(),
            source: None,
            source_ref: None,
            concurrency_key: None,
            created_by: None,
        }
    }

    /// Lets it run beside no more jobs of the same key than its definition says.
    #[must_use]
    pub fn concurrency_key(mut self, key: impl Into<String>) -> NewJob {
        self.concurrency_key = Some(key.into());
        self
    }

    /// Says who asked for it.
    #[must_use]
    pub fn created_by(mut self, who: impl Into<String>) -> NewJob {
        self.created_by = Some(who.into());
        self
    }

    /// Puts it into this queue.
    #[must_use]
    pub fn queue(mut self, queue: impl Into<String>) -> NewJob {
        self.queue = Some(queue.into());
        self
    }

    /// Gives it this priority.
    #[must_use]
    pub fn priority(mut self, priority: i32) -> NewJob {
        self.priority = Some(priority);
        self
    }

    /// Runs it not before this time.
    #[must_use]
    pub fn run_at(mut self, run_at: Timestamp) -> NewJob {
        self.run_at = Some(run_at);
        self
    }

    /// Makes it once for this key.
    #[must_use]
    pub fn idempotency_key(mut self, key: impl Into<String>) -> NewJob {
        self.idempotency_key = Some(key.into());
        self
    }

    /// Makes it only while no job of this key lives.
    #[must_use]
    pub fn dedupe_key(mut self, key: impl Into<String>) -> NewJob {
        self.dedupe_key = Some(key.into());
        self
    }

    /// Gives it this id.
    #[must_use]
    pub fn id(mut self, id: Uuid) -> NewJob {
        self.id = Some(id);
        self
    }

    /// Lets it fail this often.
    #[must_use]
    pub fn max_attempts(mut self, max_attempts: i32) -> NewJob {
        self.max_attempts = Some(max_attempts);
        self
    }

    /// Ties it to other records.
    #[must_use]
    pub fn correlation_id(mut self, correlation_id: impl Into<String>) -> NewJob {
        self.correlation_id = Some(correlation_id.into());
        self
    }

    /// Continues this trace.
    #[must_use]
    pub fn traceparent(mut self, traceparent: impl Into<String>) -> NewJob {
        self.traceparent = Some(traceparent.into());
        self
    }

    /// Labels it.
    #[must_use]
    pub fn tags<T: Into<String>>(mut self, tags: impl IntoIterator<Item = T>) -> NewJob {
        self.tags = tags.into_iter().map(Into::into).collect();
        self
    }

    /// Says what kind of thing made it.
    #[must_use]
    pub fn source(mut self, source: impl Into<String>) -> NewJob {
        self.source = Some(source.into());
        self
    }

    /// Says what made it.
    #[must_use]
    pub fn source_ref(mut self, source_ref: impl Into<String>) -> NewJob {
        self.source_ref = Some(source_ref.into());
        self
    }

    /// Whether it leaves everything but type, payload and author to its definition.
    pub(crate) fn is_plain(&self) -> bool {
        let NewJob { job_type: _, payload: _, queue, priority, run_at, idempotency_key, dedupe_key, .. } =
            self;
        let NewJob {
            id,
            max_attempts,
            correlation_id,
            traceparent,
            tags,
            source,
            source_ref,
            concurrency_key,
            ..
        } = self;
        queue.is_none()
            && priority.is_none()
            && run_at.is_none()
            && idempotency_key.is_none()
            && dedupe_key.is_none()
            && id.is_none()
            && max_attempts.is_none()
            && correlation_id.is_none()
            && traceparent.is_none()
            && tags.is_empty()
            && source.is_none()
            && source_ref.is_none()
            && concurrency_key.is_none()
    }

    /// Whether its enqueue may have to wait for another transaction: by a key of its own or of the client's making.
    pub fn is_keyed(&self) -> bool {
        self.idempotency_key.is_some() || self.dedupe_key.is_some() || self.id.is_some()
    }

    /// Why this job cannot even be sent.
    pub(crate) fn problem(&self) -> Option<Refusal> {
        let texts = [
            Some(&self.job_type),
            self.queue.as_ref(),
            self.idempotency_key.as_ref(),
            self.dedupe_key.as_ref(),
            self.correlation_id.as_ref(),
            self.traceparent.as_ref(),
            self.source.as_ref(),
            self.source_ref.as_ref(),
            self.concurrency_key.as_ref(),
            self.created_by.as_ref(),
        ];
        if texts.into_iter().flatten().chain(&self.tags).any(|text| text.contains('\0')) {
            return Some(Refusal { code: Code::InvalidArgument, reason: "text_nul".to_owned() });
        }
        // Postgres cannot even read it, and would refuse the whole batch.
        if self.run_at.is_some_and(|at| at < EARLIEST) {
            return Some(Refusal { code: Code::InvalidArgument, reason: "run_at_out_of_range".to_owned() });
        }
        // With their quotes alone they are longer than the database keeps.
        if self.tags.iter().map(|tag| tag.len() + 2).sum::<usize>() > MAX_TAGS {
            return Some(Refusal { code: Code::InvalidArgument, reason: "tags_malformed".to_owned() });
        }
        let malformed = || ArtifactRef::in_payload(&self.payload).err().map(|_| "artifact_malformed");
        let reason = payload::problem(self.payload.get(), payload::MAX_PAYLOAD).or_else(malformed)?;
        Some(Refusal { code: Code::PayloadInvalid, reason: reason.to_owned() })
    }
}

/// A job that is enqueued.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Enqueued {
    /// The job.
    pub id: Uuid,
    /// Its status; an existing job may be in any.
    pub status: String,
    /// Whether a key led to a job that was there before.
    pub existing: bool,
    /// When it runs.
    pub run_at: Timestamp,
}

/// Why one job of a batch was not made; its neighbours go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The class of the refusal.
    pub code: Code,
    /// The stable reason, e.g. `unknown_definition`.
    pub reason: String,
}

impl Refusal {
    pub(crate) fn into_error(self, operation: &'static str, subject: &str) -> Error {
        let message = format!("{subject}: {}", self.reason.replace('_', " "));
        Error::Refused { operation, code: self.code, reason: self.reason, message }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_that_the_database_would_refuse_for_their_length_are_not_sent() {
        let with = |tags: Vec<String>| NewJob { tags, ..NewJob::new("a.b", &()).unwrap() }.problem();
        assert_eq!(with(vec!["x".repeat(900), "y".repeat(900)]), None);
        for tags in [vec!["x".repeat(2000)], vec![String::new(); 1001]] {
            assert_eq!(with(tags).unwrap().reason, "tags_malformed");
        }
    }
}
