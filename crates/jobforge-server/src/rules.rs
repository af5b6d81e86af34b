//! What definitions say of payloads, asked for now and then and compiled once.
//!
//! A schema that was changed through this server holds at once, one that was changed elsewhere within two seconds;
//! the worker looks again before every run.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use jobforge_core::schema::{Problem as Fault, Schema, SchemaCache};
use jobforge_core::{DefinitionRules, Error, NewJob, rpc};
use serde_json::value::RawValue;

use crate::db::Db;
use crate::problem::Problem;

/// How long an answer is believed.
const FRESH: Duration = Duration::from_secs(2);
/// The most types remembered: whoever asks for types that do not exist fills no memory.
const MOST: usize = 10_000;

/// Of a definition's key.
const LONGEST: usize = 128;

/// The schemas of types, as far as they were asked for.
#[derive(Default)]
pub(crate) struct Rules {
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    types: HashMap<String, (Option<Arc<Schema>>, Instant)>,
    compiled: SchemaCache,
    /// How often something was forgotten: an answer that was under way meanwhile may be the old one.
    forgotten: u64,
}

impl Rules {
    /// Refuses a job whose payload does not fit its type's schema, with all that is wrong with it.
    pub(crate) async fn check(&self, db: &Db, job: &NewJob) -> Result<(), Problem> {
        if let Some(None) = self.schema(&job.job_type) {
            return Ok(());
        }
        let payloads = std::iter::once((job.job_type.as_str(), &*job.payload));
        match Box::pin(self.checked(db, payloads)).await?.pop() {
            Some(problem) => problem.map_or(Ok(()), Err),
            None => Ok(()),
        }
    }

    /// The refusal of each of these payloads that does not fit its type's schema.
    pub(crate) async fn checked<'a>(
        &self,
        db: &Db,
        payloads: impl Iterator<Item = (&'a str, &'a RawValue)> + Clone,
    ) -> Result<Vec<Option<Problem>>, Problem> {
        let misfits = self.misfits(db, payloads.clone()).await?;
        let refusal = |(misfit, (job_type, _)): (Option<Vec<Fault>>, (&str, _))| {
            let job_type = job_type.to_owned();
            misfit.map(|problems| Problem::from(Error::Invalid { job_type, problems }))
        };
        Ok(misfits.into_iter().zip(payloads).map(refusal).collect())
    }

    /// What is wrong with each of these payloads, by their types' schemas.
    pub(crate) async fn misfits<'a>(
        &self,
        db: &Db,
        payloads: impl Iterator<Item = (&'a str, &'a RawValue)> + Clone,
    ) -> Result<Vec<Option<Vec<Fault>>>, Problem> {
        let keys = payloads.clone().map(|(job_type, _)| job_type).filter(|key| can_be_known(key));
        let unknown = keys.filter(|key| self.schema(key).is_none());
        let mut missing: Vec<String> = unknown.map(str::to_owned).collect();
        missing.sort_unstable();
        missing.dedup();
        if !missing.is_empty() {
            self.learn(db, &missing).await?;
        }
        let judge = |(job_type, payload): (&str, &RawValue)| {
            self.schema(job_type)??.validate_text(payload.get()).err()
        };
        Ok(payloads.map(judge).collect())
    }

    /// Forgets a type: its definition was changed.
    pub(crate) fn forget(&self, job_type: &str) {
        let mut known = self.known();
        known.forgotten += 1;
        known.types.remove(job_type);
    }

    /// The schema of a type: `None` when it is not known, `Some(None)` when there is none.
    fn schema(&self, job_type: &str) -> Option<Option<Arc<Schema>>> {
        let known = self.known();
        known.types.get(job_type).filter(|(_, at)| at.elapsed() < FRESH).map(|(schema, _)| schema.clone())
    }

    /// Asks until nothing was forgotten meanwhile.
    async fn learn(&self, db: &Db, types: &[String]) -> Result<(), Problem> {
        loop {
            let (asked, forgotten) = (Instant::now(), self.known().forgotten);
            let client = db.tenant().await?;
            let rules = client.call(async |c| rpc::definition_rules(c, types).await).await?;
            let mut known = self.known();
            if known.forgotten == forgotten {
                known.keep(asked, types, &rules);
                return Ok(());
            }
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a definition can have this key. What cannot is not asked for, nor remembered, however long it is.
fn can_be_known(key: &str) -> bool {
    key.len() <= LONGEST && !key.contains('\0')
}

impl Known {
    fn keep(&mut self, asked: Instant, types: &[String], rules: &[DefinitionRules]) {
        if self.types.len() + types.len() > MOST {
            self.types.clear();
        }
        for job_type in types {
            let rule =
                rules.iter().find(|rule| rule.key == *job_type).and_then(|rule| rule.arg_schema.as_ref());
            // A schema that cannot be compiled was stored by other means; the worker refuses its jobs.
            let schema = rule.and_then(|text| self.compiled.get(text.get()).ok());
            self.types.insert(job_type.clone(), (schema, asked));
        }
        // What a newer schema took the place of.
        self.compiled.sweep();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_lives_no_longer_than_it_holds() {
        let told = |schema: &str| DefinitionRules {
            key: "a.b".to_owned(),
            updated_at: jiff::Timestamp::UNIX_EPOCH,
            arg_schema: Some(serde_json::from_str(schema).unwrap()),
            redact: Vec::new(),
        };
        let (mut known, types) = (Known::default(), ["a.b".to_owned()]);
        let mut keep = |schema: &str| {
            known.keep(Instant::now(), &types, &[told(schema)]);
            Arc::downgrade(known.types["a.b"].0.as_ref().unwrap())
        };
        let first = keep(r#"{"type": "string"}"#);
        let second = keep(r#"{"type": "number"}"#);
        assert!(first.upgrade().is_none() && second.upgrade().is_some());
        assert!(second.ptr_eq(&keep(r#"{"type": "number"}"#)), "compiled once");
    }

    #[test]
    fn what_cannot_be_a_key_is_not_remembered() {
        assert!(can_be_known("mail.send") && can_be_known(&"x".repeat(128)));
        assert!(!can_be_known(&"x".repeat(129)) && !can_be_known("mail\0"));
    }
}
