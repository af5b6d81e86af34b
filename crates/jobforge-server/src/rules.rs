//! What definitions say of payloads, asked for now and then and compiled once.
//!
//! A changed schema holds here within two seconds; the worker looks again before every run.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use jobforge_core::schema::{Schema, SchemaCache};
use jobforge_core::{Error, NewJob, rpc};

use crate::db::Db;
use crate::problem::Problem;

/// How long an answer is believed.
const FRESH: Duration = Duration::from_secs(2);
/// The most types remembered: whoever asks for types that do not exist fills no memory.
const MOST: usize = 10_000;

/// The schemas of types, as far as they were asked for.
#[derive(Default)]
pub(crate) struct Rules {
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    types: HashMap<String, (Option<Arc<Schema>>, Instant)>,
    compiled: SchemaCache,
}

impl Rules {
    /// Refuses a job whose payload does not fit its type's schema, with all that is wrong with it.
    pub(crate) async fn check(&self, db: &Db, job: &NewJob) -> Result<(), Problem> {
        match self.checked(db, std::slice::from_ref(job)).await?.pop() {
            Some(problem) => problem.map_or(Ok(()), Err),
            None => Ok(()),
        }
    }

    /// What is wrong with each of these jobs.
    pub(crate) async fn checked(&self, db: &Db, jobs: &[NewJob]) -> Result<Vec<Option<Problem>>, Problem> {
        let mut missing: Vec<String> = jobs
            .iter()
            .filter(|job| self.schema(&job.job_type).is_none())
            .map(|job| job.job_type.clone())
            .collect();
        missing.sort_unstable();
        missing.dedup();
        if !missing.is_empty() {
            self.learn(db, &missing).await?;
        }
        Ok(jobs.iter().map(|job| self.judge(job)).collect())
    }

    fn judge(&self, job: &NewJob) -> Option<Problem> {
        let schema = self.schema(&job.job_type)??;
        let problems = schema.validate_text(job.payload.get()).err()?;
        Some(Problem::from(Error::Invalid { job_type: job.job_type.clone(), problems }))
    }

    /// The schema of a type: `None` when it is not known, `Some(None)` when there is none.
    fn schema(&self, job_type: &str) -> Option<Option<Arc<Schema>>> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.types.get(job_type).filter(|(_, at)| at.elapsed() < FRESH).map(|(schema, _)| schema.clone())
    }

    async fn learn(&self, db: &Db, types: &[String]) -> Result<(), Problem> {
        let asked = Instant::now();
        let client = db.tenant().await?;
        let rules = client.call(async |c| rpc::definition_rules(c, types).await).await?;
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.types.len() + types.len() > MOST {
            known.types.clear();
            known.compiled.sweep();
        }
        for job_type in types {
            let rule =
                rules.iter().find(|rule| rule.key == *job_type).and_then(|rule| rule.arg_schema.as_ref());
            // A schema that cannot be compiled was stored by other means; the worker refuses its jobs.
            let schema = rule.and_then(|text| known.compiled.get(text.get()).ok());
            known.types.insert(job_type.clone(), (schema, asked));
        }
        Ok(())
    }
}
