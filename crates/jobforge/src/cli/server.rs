//! The command line of the HTTP API: the server, its keys, its description.

use std::net::SocketAddr;

use clap::{Args, Subcommand, ValueEnum};
use jiff::{SignedDuration, Timestamp};
use jobforge_core::Role;

#[derive(Debug, Args)]
#[command(
    after_help = "Logins: --database-url is that of tenants' calls; server.operator_url and server.worker_url in the\n\
    settings are the others. Beside a running `jobforge dev` its own logins are used."
)]
pub(crate) struct ServeArgs {
    /// The address and port to listen on [default: server.listen]
    #[arg(long, value_name = "ADDR")]
    pub(crate) listen: Option<SocketAddr>,
}

#[derive(Debug, Args)]
pub(crate) struct KeysArgs {
    #[command(subcommand)]
    pub(crate) action: KeysAction,
}

#[derive(Debug, Subcommand)]
pub(crate) enum KeysAction {
    /// List keys in the order of their ids, without their secrets: with --tenant that tenant's, else all
    List {
        /// The most keys
        #[arg(long, default_value_t = 100, value_name = "N")]
        limit: i32,
        /// Those after this one
        #[arg(long, value_name = "ID")]
        after: Option<String>,
    },
    /// Make a key and print it: the only time that anybody sees it
    Create(KeysCreateArgs),
    /// End a key for good; every server refuses it within seconds
    Revoke {
        /// The key's id, what stands between jf_ and the next underscore, or the whole key
        id: String,
        /// Who does it [default: the system's user@host]
        #[arg(long = "as", value_name = "NAME")]
        author: Option<String>,
    },
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    jobforge keys create producer --name shop --tenant 11111111-1111-1111-1111-111111111111\n  \
    jobforge keys create worker --name 'workers of all tenants'\n  \
    jobforge keys create super_admin --name ann --for 12h\n\n\
    The roles of a tenant need --tenant; a worker's key without it is of all tenants; a super-admin's has none.")]
pub(crate) struct KeysCreateArgs {
    /// What its holder may do
    #[arg(value_enum)]
    pub(crate) role: RoleArg,
    /// What people call it
    #[arg(long, default_value = "", hide_default_value = true)]
    pub(crate) name: String,
    /// It ends by itself this long from now by this machine's clock, e.g. 12h
    #[arg(long = "for", value_name = "DURATION", conflicts_with = "until")]
    pub(crate) length: Option<SignedDuration>,
    /// It ends by itself at this time, e.g. 2030-01-31T08:00:00Z
    #[arg(long, value_name = "TIME")]
    pub(crate) until: Option<Timestamp>,
    /// Who makes it [default: the system's user@host]
    #[arg(long = "as", value_name = "NAME")]
    pub(crate) author: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum RoleArg {
    /// Everything, for every tenant
    SuperAdmin,
    /// Everything of one tenant
    TenantAdmin,
    /// Looks at one tenant
    TenantViewer,
    /// Enqueues for one tenant and follows its jobs
    Producer,
    /// Runs jobs
    Worker,
}

impl From<RoleArg> for Role {
    fn from(role: RoleArg) -> Role {
        match role {
            RoleArg::SuperAdmin => Role::SuperAdmin,
            RoleArg::TenantAdmin => Role::TenantAdmin,
            RoleArg::TenantViewer => Role::TenantViewer,
            RoleArg::Producer => Role::Producer,
            RoleArg::Worker => Role::Worker,
        }
    }
}
