//! The SQL files are part of the crate: a new one must be noticed, and only cargo watches whole folders.

fn main() {
    println!("cargo:rerun-if-changed=../../sql/migrations");
    println!("cargo:rerun-if-changed=../../sql/functions");
}
