//! The command line of `jobforge connectors`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Debug, Args)]
pub(crate) struct ConnectorsArgs {
    #[command(subcommand)]
    pub(crate) action: ConnectorsAction,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConnectorsAction {
    /// Make a connector config, or change it; what is not given stays
    Set(ConnectorsSetArgs),
    /// List the tenant's connector configs in the order of their names
    List {
        /// The most configs
        #[arg(long, default_value_t = 100, value_name = "N")]
        limit: i32,
        /// Those after this one
        #[arg(long, value_name = "NAME")]
        after: Option<String>,
    },
    /// Show a connector config; of its secrets only that they are there
    Show {
        /// The config
        name: String,
    },
    /// Delete a connector config with its secrets
    Delete {
        /// The config
        name: String,
    },
    /// Let jobs use a connector config again that was disabled
    Enable {
        /// The config
        name: String,
    },
    /// Seal all secrets of all tenants anew with the first key of JOBFORGE_SEAL_KEYS
    Reseal,
    /// Print a new key for JOBFORGE_SEAL_KEYS; needs no database
    NewKey,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    jobforge connectors set mail --setting host=smtp.example.org --setting port=587\n  \
    jobforge connectors set mail --secret token=env:JOBFORGE_SECRET_MAIL\n  \
    pass show mail | jobforge connectors set mail --secret-stdin token\n\n\
    A secret given by --secret-stdin is sealed with the first key of JOBFORGE_SEAL_KEYS before it is sent.")]
pub(crate) struct ConnectorsSetArgs {
    /// The config
    pub(crate) name: String,
    /// A setting: its value is JSON, or else a text; null removes it
    #[arg(long = "setting", value_name = "NAME=VALUE")]
    pub(crate) settings: Vec<String>,
    /// Settings from a file: a JSON object
    #[arg(long, value_name = "FILE")]
    pub(crate) settings_file: Option<PathBuf>,
    /// A secret that the worker finds in its environment
    #[arg(long = "secret", value_name = "NAME=env:VARIABLE")]
    pub(crate) secrets: Vec<String>,
    /// A secret whose value is read from stdin, without the line break at its end
    #[arg(long, value_name = "NAME")]
    pub(crate) secret_stdin: Option<String>,
    /// Remove this secret
    #[arg(long = "remove-secret", value_name = "NAME")]
    pub(crate) removed: Vec<String>,
}
