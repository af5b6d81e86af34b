//! The programs that this worker runs as jobs: its file of commands, loaded or refused as a whole.

use std::path::Path;

use anyhow::{Context, Result};
use jobforge_connectors::command::{CommandFile, Commands, Problem, WorkerEnvironment, sweep_orphans};
use jobforge_core::Definition;
use jobforge_core::connect::connect;
use jobforge_core::rpc::upsert_definition;
use jobforge_worker::{WorkerBuilder, WorkerConfig};

use crate::failure::Usage;

/// The file that `jobforge dev` picks up.
const HERE: &str = "commands.toml";

/// What the worker's file names; nothing without a file.
pub(crate) struct Programs(Option<Commands>);

impl Programs {
    /// Reads the file, and prepares this process for being a worker with commands.
    pub(crate) fn load(file: Option<&Path>) -> Result<Programs> {
        let Some(path) = file else { return Ok(Programs(None)) };
        let commands = read(path).map_err(|problems| {
            let problems: Vec<String> = problems.iter().map(|problem| format!("  {problem}")).collect();
            Usage::new(format!("the commands in {} cannot be used:\n{}", path.display(), problems.join("\n")))
        })?;
        for warning in commands.warnings() {
            tracing::warn!(command = warning.path, "{}", warning.problem);
        }
        // A command of the same user must not find the database's password in this process's environment.
        #[cfg(target_os = "linux")]
        nix::sys::prctl::set_dumpable(false).context("cannot keep this process's memory to itself")?;
        let killed = sweep_orphans();
        if killed > 0 {
            tracing::warn!(killed, "processes of commands whose worker is gone were killed");
        }
        let left = commands.remove_leftovers();
        if left > 0 {
            tracing::warn!(left, "directories of commands whose worker is gone were removed");
        }
        Ok(Programs(Some(commands)))
    }

    /// `./commands.toml`, if it is there.
    pub(crate) fn found_here() -> Option<&'static Path> {
        let path = Path::new(HERE);
        path.exists().then_some(path)
    }

    /// A command that is told to stop needs its grace before its handler is dropped.
    pub(crate) fn heed(&self, config: WorkerConfig) -> WorkerConfig {
        let Programs(Some(commands)) = self else { return config };
        WorkerConfig { stop_grace: config.stop_grace + commands.file().longest_grace(), ..config }
    }

    pub(crate) fn handle(&self, worker: WorkerBuilder) -> WorkerBuilder {
        match self {
            Programs(Some(commands)) => commands.handle(worker),
            Programs(None) => worker,
        }
    }

    /// Makes a definition of each key, so that a development server takes its jobs at once. What an earlier
    /// start or somebody else defined stays as it is.
    pub(crate) async fn define(&self, operator: &str) -> Result<()> {
        let Programs(Some(commands)) = self else { return Ok(()) };
        let (client, connection) = connect(operator).await?;
        tokio::spawn(connection);
        for key in commands.file().keys() {
            upsert_definition(&client, &Definition::new(key)).await?;
        }
        Ok(())
    }
}

/// The commands of a file, or everything that is wrong with it, or with having them here.
pub(crate) fn read(path: &Path) -> Result<Commands, Vec<Problem>> {
    let commands = Commands::new(CommandFile::load(path, &WorkerEnvironment)?);
    let problems = commands.problems();
    if problems.is_empty() { Ok(commands) } else { Err(problems) }
}
