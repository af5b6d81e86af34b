//! `jobforge openapi`: the description of the HTTP API, for generators of clients.

use std::process::ExitCode;

use anyhow::Result;

use crate::output::print;

pub(crate) fn run() -> Result<ExitCode> {
    print(&jobforge_server::document())?;
    Ok(ExitCode::SUCCESS)
}
