//! Chores of this repository that need more than a line of shell: `cargo xtask tidy`, `cargo xtask snapshot`.

mod snapshot;
mod source;
mod tidy;

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let result = match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["tidy"] => tidy::run(repository_root()),
        ["snapshot"] => snapshot::write(repository_root()),
        ["snapshot", "--check"] => snapshot::check(repository_root()),
        _ => {
            eprintln!("usage: cargo xtask tidy | snapshot [--check]");
            return ExitCode::from(2);
        }
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn repository_root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask/ lies inside the repository")
}
