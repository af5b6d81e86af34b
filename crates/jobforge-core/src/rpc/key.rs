//! API keys: `jf_<id>_<secret>`, known to the database by their id and the SHA-256 of their secret.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tokio_postgres::types::Type;
use tokio_postgres::{GenericClient, Row};
use uuid::Uuid;

use super::wire::{Columns, clean};
use crate::error::Error;

/// What a key lets its holder do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Everything, for every tenant, which it names.
    SuperAdmin,
    /// Everything of one tenant.
    TenantAdmin,
    /// Looks at one tenant.
    TenantViewer,
    /// Enqueues for one tenant.
    Producer,
    /// Runs jobs, of one tenant or of all.
    Worker,
}

const ROLES: [(Role, &str); 5] = [
    (Role::SuperAdmin, "super_admin"),
    (Role::TenantAdmin, "tenant_admin"),
    (Role::TenantViewer, "tenant_viewer"),
    (Role::Producer, "producer"),
    (Role::Worker, "worker"),
];

impl Role {
    /// As the database knows it.
    pub fn as_str(self) -> &'static str {
        ROLES.iter().find(|(role, _)| *role == self).map_or("", |(_, text)| text)
    }

    /// The role of this name, if there is one.
    pub fn parse(text: &str) -> Option<Role> {
        ROLES.iter().find(|(_, known)| *known == text).map(|(role, _)| *role)
    }

    fn read(operation: &'static str, text: &str) -> Result<Role, Error> {
        Role::parse(text).ok_or_else(|| Error::shape(operation, format_args!("role {text}")))
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What a key may do, and for whom: there is no other way to put the two together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KeyScope {
    /// Everything, for every tenant.
    SuperAdmin,
    /// Everything of this tenant.
    TenantAdmin(Uuid),
    /// Looks at this tenant.
    TenantViewer(Uuid),
    /// Enqueues for this tenant.
    Producer(Uuid),
    /// Runs jobs of this tenant, or of all.
    Worker(Option<Uuid>),
}

impl KeyScope {
    /// The scope of a role and a tenant, where the two go together.
    pub fn of(role: Role, tenant: Option<Uuid>) -> Option<KeyScope> {
        match (role, tenant) {
            (Role::SuperAdmin, None) => Some(KeyScope::SuperAdmin),
            (Role::TenantAdmin, Some(tenant)) => Some(KeyScope::TenantAdmin(tenant)),
            (Role::TenantViewer, Some(tenant)) => Some(KeyScope::TenantViewer(tenant)),
            (Role::Producer, Some(tenant)) => Some(KeyScope::Producer(tenant)),
            (Role::Worker, tenant) => Some(KeyScope::Worker(tenant)),
            _ => None,
        }
    }

    /// What it may do.
    pub fn role(self) -> Role {
        match self {
            KeyScope::SuperAdmin => Role::SuperAdmin,
            KeyScope::TenantAdmin(_) => Role::TenantAdmin,
            KeyScope::TenantViewer(_) => Role::TenantViewer,
            KeyScope::Producer(_) => Role::Producer,
            KeyScope::Worker(_) => Role::Worker,
        }
    }

    /// Whose it is; a super-admin's and a worker's of all are nobody's.
    pub fn tenant(self) -> Option<Uuid> {
        match self {
            KeyScope::SuperAdmin => None,
            KeyScope::TenantAdmin(tenant) | KeyScope::TenantViewer(tenant) | KeyScope::Producer(tenant) => {
                Some(tenant)
            }
            KeyScope::Worker(tenant) => tenant,
        }
    }

    pub(super) fn read(operation: &'static str, columns: &mut Columns<'_>) -> Result<KeyScope, Error> {
        let role = Role::read(operation, columns.take()?)?;
        let tenant = columns.take()?;
        KeyScope::of(role, tenant)
            .ok_or_else(|| Error::shape(operation, format_args!("role {role} with tenant {tenant:?}")))
    }
}

/// A key to be made known. Whoever makes it draws its id and secret and shows the secret once.
#[derive(Clone, Debug)]
pub struct NewKey {
    /// 12 small letters and digits.
    pub id: String,
    /// Of its secret.
    pub secret_sha256: [u8; 32],
    /// What it may do, and for whom.
    pub scope: KeyScope,
    /// What people call it.
    pub name: String,
    /// When it ends by itself.
    pub expires_at: Option<Timestamp>,
    /// Who makes it; the database's login where nobody is named.
    pub author: Option<String>,
    /// Only as the first one: refused once any key was ever made.
    pub only_first: bool,
}

/// A key as it may be shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ApiKey {
    /// Its public id.
    pub id: String,
    /// What it may do.
    pub role: Role,
    /// Whose it is.
    pub tenant_id: Option<Uuid>,
    /// What people call it.
    pub name: String,
    /// When it was made.
    pub created_at: Timestamp,
    /// By whom.
    pub created_by: String,
    /// When it ends by itself.
    pub expires_at: Option<Timestamp>,
    /// When it was used last, as far as that was noted.
    pub last_used_at: Option<Timestamp>,
    /// When it was revoked.
    pub revoked_at: Option<Timestamp>,
    /// By whom.
    pub revoked_by: Option<String>,
}

/// What a caller's key is checked by.
#[derive(Clone, PartialEq, Eq)]
pub struct FoundKey {
    /// Its public id.
    pub id: String,
    /// Of its secret: to be compared in constant time.
    pub secret_sha256: [u8; 32],
    /// What it may do, and for whom.
    pub scope: KeyScope,
    /// When it ends by itself.
    pub expires_at: Option<Timestamp>,
    /// Whether that time has come, by the database's clock.
    pub expired: bool,
    /// Whether it was revoked.
    pub revoked: bool,
}

/// Without the hash.
impl fmt::Debug for FoundKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FoundKey")
            .field("id", &self.id)
            .field("scope", &self.scope)
            .field("expires_at", &self.expires_at)
            .field("expired", &self.expired)
            .field("revoked", &self.revoked)
            .finish_non_exhaustive()
    }
}

/// Where a server listens for keys that were revoked: the payload is the key's id.
pub const KEYS_CHANNEL: &str = "jobforge_keys";

/// Makes a key known.
pub async fn create_api_key<C: GenericClient>(c: &C, key: &NewKey) -> Result<ApiKey, Error> {
    const OPERATION: &str = "create_api_key";
    let row = c
        .query_typed_one(
            "select k.id, k.role, k.tenant_id, k.name, k.created_at, k.created_by, k.expires_at, k.last_used_at,
               k.revoked_at, k.revoked_by
             from jobforge.create_api_key(p_id => $1, p_secret_sha256 => $2, p_role => $3, p_tenant_id => $4,
               p_name => $5, p_expires_at => $6, p_author => $7, p_only_first => $8) as k",
            &[
                (&clean(&key.id), Type::TEXT),
                (&key.secret_sha256.as_slice(), Type::BYTEA),
                (&key.scope.role().as_str(), Type::TEXT),
                (&key.scope.tenant(), Type::UUID),
                (&clean(&key.name), Type::TEXT),
                (&key.expires_at, Type::TIMESTAMPTZ),
                (&key.author.as_deref().map(clean), Type::TEXT),
                (&key.only_first, Type::BOOL),
            ],
        )
        .await
        .map_err(|error| Error::call(OPERATION, error))?;
    read_key(OPERATION, &row)
}

/// What the key of this id is checked by; `None` where there is none.
pub async fn find_api_key<C: GenericClient>(c: &C, id: &str) -> Result<Option<FoundKey>, Error> {
    const OPERATION: &str = "find_api_key";
    let row = c
        .query_typed_opt(
            "select k.id, k.secret_sha256, k.role, k.tenant_id, k.expires_at, k.expired, k.revoked
             from jobforge.find_api_key(p_id => $1) as k",
            &[(&clean(id), Type::TEXT)],
        )
        .await
        .map_err(|error| Error::call(OPERATION, error))?;
    row.map(|row| {
        let mut columns = Columns::of(OPERATION, &row);
        let id = columns.take()?;
        let hash: &[u8] = columns.take()?;
        Ok(FoundKey {
            id,
            secret_sha256: hash
                .try_into()
                .map_err(|_| Error::shape(OPERATION, format_args!("a hash of {} bytes", hash.len())))?,
            scope: KeyScope::read(OPERATION, &mut columns)?,
            expires_at: columns.take()?,
            expired: columns.take()?,
            revoked: columns.take()?,
        })
    })
    .transpose()
}

/// A page of keys in the order of their ids, those after `after`: a tenant's, or, without one, all.
pub async fn list_api_keys<C: GenericClient>(
    c: &C,
    tenant: Option<Uuid>,
    limit: i32,
    after: Option<&str>,
) -> Result<Vec<ApiKey>, Error> {
    const OPERATION: &str = "list_api_keys";
    let rows = c
        .query_typed(
            "select k.id, k.role, k.tenant_id, k.name, k.created_at, k.created_by, k.expires_at, k.last_used_at,
               k.revoked_at, k.revoked_by
             from jobforge.list_api_keys(p_tenant_id => $1, p_limit => $2, p_after => $3) as k",
            &[(&tenant, Type::UUID), (&limit, Type::INT4), (&after.map(clean), Type::TEXT)],
        )
        .await
        .map_err(|error| Error::call(OPERATION, error))?;
    rows.iter().map(|row| read_key(OPERATION, row)).collect()
}

/// Ends a key for good and tells the servers; false where it was revoked before. With a tenant, only a key of that
/// tenant is known.
pub async fn revoke_api_key<C: GenericClient>(
    c: &C,
    id: &str,
    author: Option<&str>,
    tenant: Option<Uuid>,
) -> Result<bool, Error> {
    const OPERATION: &str = "revoke_api_key";
    let row = c
        .query_typed_one(
            "select jobforge.revoke_api_key(p_id => $1, p_author => $2, p_tenant_id => $3)",
            &[(&clean(id), Type::TEXT), (&author.map(clean), Type::TEXT), (&tenant, Type::UUID)],
        )
        .await
        .map_err(|error| Error::call(OPERATION, error))?;
    Columns::of(OPERATION, &row).take()
}

/// Notes when keys were used last, never backwards; tells how many changed.
pub async fn touch_api_keys<C: GenericClient>(c: &C, uses: &[(String, Timestamp)]) -> Result<i32, Error> {
    const OPERATION: &str = "touch_api_keys";
    let (ids, times): (Vec<&str>, Vec<Timestamp>) = uses.iter().map(|(id, at)| (id.as_str(), *at)).unzip();
    let row = c
        .query_typed_one(
            "select jobforge.touch_api_keys(p_ids => $1, p_at => $2)",
            &[(&ids, Type::TEXT_ARRAY), (&times, Type::TIMESTAMPTZ_ARRAY)],
        )
        .await
        .map_err(|error| Error::call(OPERATION, error))?;
    Columns::of(OPERATION, &row).take()
}

/// Whether any key was ever made: until then a server gives out a token for the first one.
pub async fn has_keys<C: GenericClient>(c: &C) -> Result<bool, Error> {
    const OPERATION: &str = "has_keys";
    let row = c
        .query_typed_one("select jobforge.has_keys()", &[])
        .await
        .map_err(|error| Error::call(OPERATION, error))?;
    Columns::of(OPERATION, &row).take()
}

fn read_key(operation: &'static str, row: &Row) -> Result<ApiKey, Error> {
    let mut columns = Columns::of(operation, row);
    Ok(ApiKey {
        id: columns.take()?,
        role: Role::read(operation, columns.take()?)?,
        tenant_id: columns.take()?,
        name: columns.take()?,
        created_at: columns.take()?,
        created_by: columns.take()?,
        expires_at: columns.take()?,
        last_used_at: columns.take()?,
        revoked_at: columns.take()?,
        revoked_by: columns.take()?,
    })
}
