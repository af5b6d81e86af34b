//! Fetches Postgres by npm into the cache where JobForge looks for it, and prints the directory of its binaries.
//! `scripts/setup` runs it where nothing can be installed.

use std::env;
use std::process::ExitCode;

use jobforge_postgres::{Error, Means, Package};

fn main() -> ExitCode {
    match fetch() {
        Ok(dir) => {
            println!("{dir}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{}", told(&error));
            ExitCode::FAILURE
        }
    }
}

fn fetch() -> Result<String, Error> {
    let (path, home) = (env::var_os("PATH"), env::var_os("HOME"));
    let means = Means::of(Package::of_this_machine(), path.as_deref(), home.as_deref())?;
    Ok(means.fetch()?.dir.display().to_string())
}

/// The failure and what it came of.
fn told(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
