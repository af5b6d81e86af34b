//! The five roles and what each may.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What a credential may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Everything, for every tenant, which it names with each request.
    SuperAdmin,
    /// Everything of one tenant, its keys and connectors too.
    TenantAdmin,
    /// Looks at everything of one tenant.
    TenantViewer,
    /// Enqueues for one tenant and follows single jobs.
    Producer,
    /// Runs jobs, of one tenant or of all.
    Worker,
}

/// What a route asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Right {
    /// Follow single jobs whose id is known.
    Look,
    /// Look at everything of a tenant.
    Read,
    /// Enqueue.
    Enqueue,
    /// Cancel, retry, redrive, pause.
    Operate,
    /// A tenant's keys and connectors.
    Administer,
    /// Claim jobs and report on them.
    Work,
    /// Definitions, tenants, everything that belongs to nobody.
    Super,
}

impl Role {
    /// Every role.
    pub const ALL: [Role; 5] =
        [Role::SuperAdmin, Role::TenantAdmin, Role::TenantViewer, Role::Producer, Role::Worker];

    /// Its name, the same in the database.
    pub fn as_str(self) -> &'static str {
        match self {
            Role::SuperAdmin => "super_admin",
            Role::TenantAdmin => "tenant_admin",
            Role::TenantViewer => "tenant_viewer",
            Role::Producer => "producer",
            Role::Worker => "worker",
        }
    }

    /// Whether it has a right. Not even a super-admin works: a worker's calls span tenants.
    pub fn may(self, right: Right) -> bool {
        match self {
            Role::SuperAdmin => right != Right::Work,
            Role::TenantAdmin => !matches!(right, Right::Work | Right::Super),
            Role::TenantViewer => matches!(right, Right::Look | Right::Read),
            Role::Producer => matches!(right, Right::Look | Right::Enqueue),
            Role::Worker => right == Right::Work,
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Role {
    type Err = ();

    fn from_str(text: &str) -> Result<Role, ()> {
        Role::ALL.into_iter().find(|role| role.as_str() == text).ok_or(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_role_has_just_its_rights() {
        let rights = |role: Role| {
            let all = [
                Right::Look,
                Right::Read,
                Right::Enqueue,
                Right::Operate,
                Right::Administer,
                Right::Work,
                Right::Super,
            ];
            all.into_iter().filter(|right| role.may(*right)).collect::<Vec<_>>()
        };
        assert_eq!(rights(Role::Producer), [Right::Look, Right::Enqueue]);
        assert_eq!(rights(Role::TenantViewer), [Right::Look, Right::Read]);
        assert_eq!(rights(Role::Worker), [Right::Work]);
        assert!(!Role::TenantAdmin.may(Right::Super) && Role::TenantAdmin.may(Right::Administer));
        assert!(Role::SuperAdmin.may(Right::Super) && !Role::SuperAdmin.may(Right::Work));
    }
}
