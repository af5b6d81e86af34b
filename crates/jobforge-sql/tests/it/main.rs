//! The SQL functions, driven as the login roles that call them in production.
mod dead_letters;
mod explain;
mod identity;
mod isolation;
mod isolation_mutants;
mod model;
mod model_mutants;
mod plans;
mod races;
mod redaction;
mod refusals;
mod reports;
mod retention;
mod schema;
mod stats;
