//! What each role may.

use jobforge_core::Role;

/// What a route asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Right {
    /// Follow single jobs whose id is known.
    Look,
    /// Look at everything of a tenant.
    Read,
    /// Enqueue.
    Enqueue,
    /// Cancel, retry, redrive.
    Operate,
    /// A tenant's keys and connectors.
    Administer,
    /// Claim jobs and report on them.
    Work,
    /// Definitions, tenants, everything that belongs to nobody.
    Super,
}

/// Whether a role has a right. Not even a super-admin works: a worker's calls span tenants.
pub fn may(role: Role, right: Right) -> bool {
    match role {
        Role::SuperAdmin => right != Right::Work,
        Role::TenantAdmin => !matches!(right, Right::Work | Right::Super),
        Role::TenantViewer => matches!(right, Right::Look | Right::Read),
        Role::Producer => matches!(right, Right::Look | Right::Enqueue),
        Role::Worker => right == Right::Work,
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
            all.into_iter().filter(|right| may(role, *right)).collect::<Vec<_>>()
        };
        assert_eq!(rights(Role::Producer), [Right::Look, Right::Enqueue]);
        assert_eq!(rights(Role::TenantViewer), [Right::Look, Right::Read]);
        assert_eq!(rights(Role::Worker), [Right::Work]);
        assert!(!may(Role::TenantAdmin, Right::Super) && may(Role::TenantAdmin, Right::Administer));
        assert!(may(Role::SuperAdmin, Right::Super) && !may(Role::SuperAdmin, Right::Work));
    }
}
