//! What definitions say of payloads, as the worker knows it: asked for at the start, and again when a job is to run
//! and the answer is older than five seconds. A type that says nothing costs two loads of atomics.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use jobforge_core::DefinitionRules;
use jobforge_core::schema::{Problem, Schema, SchemaCache};
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::outcome::HandlerError;
use crate::redact::{Path, Redactor};

/// How old an answer may be when a job starts by it, in milliseconds.
const GOOD_FOR: u64 = 5000;

/// The rules of a worker's types.
#[derive(Debug)]
pub(crate) struct Rules {
    began: Instant,
    /// When the last answer was asked for, in milliseconds since `began`.
    asked: AtomicU64,
    /// Whether any type has rules.
    any: AtomicBool,
    table: RwLock<HashMap<String, Arc<Rule>>>,
    cache: Mutex<SchemaCache>,
    wanted: AtomicBool,
    /// Counts the answers.
    answers: watch::Sender<u64>,
}

/// What a type says of its payloads.
#[derive(Debug)]
pub(crate) struct Rule {
    schema: Option<Result<Arc<Schema>, Vec<Problem>>>,
    paths: Vec<Path>,
}

impl Rules {
    pub(crate) fn new() -> Rules {
        Rules {
            began: Instant::now(),
            asked: AtomicU64::new(0),
            any: AtomicBool::new(false),
            table: RwLock::default(),
            cache: Mutex::default(),
            wanted: AtomicBool::new(false),
            answers: watch::Sender::new(0),
        }
    }

    /// The rule for a job that starts now. Waits, at most for `patience`, while what is known is too old; `ask` makes
    /// somebody ask. Without an answer the old rules hold for another while: there is no database to report to either.
    pub(crate) async fn of(
        &self,
        job_type: &str,
        now: Instant,
        patience: Duration,
        ask: impl Fn(),
    ) -> Option<Arc<Rule>> {
        if self.millis(now) > self.asked.load(Ordering::Acquire) + GOOD_FOR {
            let mut answers = self.answers.subscribe();
            self.wanted.store(true, Ordering::Release);
            ask();
            if timeout(patience, answers.changed()).await.is_err() {
                self.keep(now);
            }
        }
        if !self.any.load(Ordering::Acquire) {
            return None;
        }
        self.table.read().unwrap_or_else(PoisonError::into_inner).get(job_type).cloned()
    }

    /// Whether somebody waits for an answer; the next one to be asked is told no.
    pub(crate) fn take_wanted(&self) -> bool {
        // Nearly always nobody does: a look before the exchange.
        self.wanted.load(Ordering::Acquire) && self.wanted.swap(false, Ordering::AcqRel)
    }

    /// What the database answered to a question of this time.
    pub(crate) fn learn(&self, asked: Instant, answer: Vec<DefinitionRules>) {
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        let table: HashMap<_, _> = answer
            .into_iter()
            .map(|rules| {
                let schema = rules.arg_schema.map(|schema| cache.get(schema.get()));
                let paths = rules.redact.iter().map(|path| Path::parse(path)).collect();
                (rules.key, Arc::new(Rule { schema, paths }))
            })
            .collect();
        let any = !table.is_empty();
        *self.table.write().unwrap_or_else(PoisonError::into_inner) = table;
        cache.sweep();
        self.any.store(any, Ordering::Release);
        self.keep(asked);
    }

    /// What is known holds as if it had been asked for at this time.
    pub(crate) fn keep(&self, asked: Instant) {
        self.asked.fetch_max(self.millis(asked), Ordering::AcqRel);
        self.answers.send_modify(|answers| *answers += 1);
    }

    fn millis(&self, now: Instant) -> u64 {
        u64::try_from(now.saturating_duration_since(self.began).as_millis()).unwrap_or(u64::MAX)
    }
}

impl Rule {
    /// Refuses a payload that does not fit, for good. A schema that cannot be used is nobody's payload's fault.
    pub(crate) fn check(&self, payload: &str) -> Result<(), HandlerError> {
        let told =
            |problems: &[Problem]| problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
        match &self.schema {
            None => Ok(()),
            Some(Ok(schema)) => schema.validate_text(payload).map_err(|problems| {
                HandlerError::new(format!("JF003 the payload does not fit its schema: {}", told(&problems)))
                    .permanent()
            }),
            Some(Err(problems)) => {
                Err(HandlerError::new(format!("the type's schema cannot be used: {}", told(problems))))
            }
        }
    }

    /// Keeps what stands at the redacted places of a payload from being said; none where none are named.
    pub(crate) fn redactor(&self, payload: &str) -> Option<Redactor> {
        if self.paths.is_empty() {
            return None;
        }
        let payload = serde_json::from_str(payload).unwrap_or(Value::Null);
        Some(Redactor::hide(&payload, &self.paths))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOMENT: Duration = Duration::from_millis(20);

    fn answer(schema: &str) -> Vec<DefinitionRules> {
        let arg_schema = serde_json::from_str(schema).unwrap();
        let updated_at = jiff::Timestamp::UNIX_EPOCH;
        vec![DefinitionRules { key: "ruled".to_owned(), updated_at, arg_schema, redact: Vec::new() }]
    }

    #[tokio::test]
    async fn only_a_job_that_starts_later_than_five_seconds_asks() {
        let rules = Rules::new();
        rules.learn(rules.began, answer("false"));
        let later = rules.began + Duration::from_millis(GOOD_FOR);
        let asked = || panic!("what is known is good");
        assert!(rules.of("ruled", later, MOMENT, asked).await.unwrap().check("1").is_err());
        assert!(rules.of("other", later, MOMENT, asked).await.is_none());
        assert!(!rules.take_wanted(), "an idle worker asks nothing");

        let later = later + Duration::from_millis(1);
        let learn = || {
            assert!(rules.take_wanted() && !rules.take_wanted());
            rules.learn(later, answer("true"));
        };
        assert!(rules.of("ruled", later, MOMENT, learn).await.unwrap().check("1").is_ok());
        assert!(rules.of("ruled", later, MOMENT, asked).await.is_some(), "and then it is good again");
    }

    #[tokio::test]
    async fn without_an_answer_the_old_rules_hold() {
        let rules = Rules::new();
        rules.learn(rules.began, answer("false"));
        let later = rules.began + Duration::from_secs(60);
        assert!(rules.of("ruled", later, MOMENT, || {}).await.unwrap().check("1").is_err());
        let asked = || panic!("not everybody waits for a database that is away");
        assert!(rules.of("ruled", later, MOMENT, asked).await.is_some());
    }
}
