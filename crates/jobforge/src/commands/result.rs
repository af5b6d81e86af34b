//! `jobforge jobs result`: a job's result, wherever it is stored.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use jobforge_artifacts::{ArtifactRef, fetch};
use jobforge_core::rpc::get_job;
use serde_json::json;
use tokio_postgres::Client;
use uuid::Uuid;

use crate::config::Config;
use crate::failure::Usage;
use crate::output::{Output, print};
use crate::target::Target;

/// Whose result, and the file for it.
pub(crate) struct Asked {
    pub(crate) tenant: Uuid,
    pub(crate) id: Uuid,
    pub(crate) out: Option<PathBuf>,
}

pub(crate) async fn run(
    config: &Config,
    target: &Target,
    client: &Client,
    asked: Asked,
    output: Output,
) -> Result<()> {
    let Asked { tenant, id, out } = asked;
    let job = get_job(client, tenant, id).await?;
    let Some(result) = job.result else { bail!("job {id} has no result: it is {}", job.status) };
    let result = match (config.artifacts.open(target.artifacts_dir())?, ArtifactRef::in_row(&result)) {
        (_, Ok(None)) => result,
        (Some(store), _) => fetch(&*store, tenant, result).await?,
        (None, _) => return Err(Usage::new("the result is in an artifact store: set artifacts.url").into()),
    };
    let text = result.get();
    let Some(file) = out else {
        return print(text).context("cannot write to stdout");
    };
    fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
    let json = json!({ "id": id, "bytes": text.len(), "file": file });
    output.answer(&json, || format!("wrote {} bytes to {}", text.len(), file.display()))
}
