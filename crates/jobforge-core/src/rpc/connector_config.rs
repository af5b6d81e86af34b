//! Connector configs: a tenant sets them up, a worker finds one for the job it runs.

use std::collections::BTreeMap;
use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio_postgres::types::Type;
use tokio_postgres::{GenericClient, Row};
use uuid::Uuid;

use super::job::{JobRef, Payload};
use super::wire::{Columns, Json, clean};
use crate::error::Error;

/// A connector config as its readers may see it: of secrets only that they are there.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ConnectorConfig {
    /// Its name.
    pub name: String,
    /// Its settings, a JSON object.
    #[cfg_attr(feature = "openapi", schema(value_type = serde_json::Value))]
    pub settings: Payload,
    /// Its secrets, by name.
    pub secrets: Vec<ConnectorSecret>,
    /// Since when jobs may not use it.
    pub disabled_at: Option<Timestamp>,
    /// Why.
    pub disabled_reason: Option<String>,
    /// Since when it is there.
    pub created_at: Timestamp,
    /// When it was last changed.
    pub updated_at: Timestamp,
    /// By whose hand.
    pub updated_by: String,
}

/// That a secret is there, and how its value is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ConnectorSecret {
    /// Its name.
    pub name: String,
    /// How its value is kept.
    pub kind: SecretKind,
    /// With which key it is sealed.
    pub key_id: Option<String>,
}

/// How a secret's value is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum SecretKind {
    /// In the environment of the worker.
    Env,
    /// Sealed, in the database.
    Sealed,
}

/// A secret as the database keeps it.
#[derive(Clone, PartialEq, Eq)]
pub enum StoredSecret {
    /// A variable of the worker's environment.
    Env(String),
    /// Bytes that only this key opens.
    Sealed {
        /// The key's id.
        key_id: String,
        /// The bytes.
        bytes: Vec<u8>,
    },
}

/// What is to be set of a connector config; what is not named stays.
#[derive(Clone, Debug, Default)]
pub struct ConnectorChange {
    /// Of which one; it is made if it is not there.
    pub name: String,
    /// Settings to set, a JSON object; a null removes one.
    pub settings: Option<Payload>,
    /// Secrets to set; `None` removes one.
    pub secrets: BTreeMap<String, Option<StoredSecret>>,
    /// By whose hand; without, the login.
    pub updated_by: Option<String>,
}

/// A connector config as a worker finds it.
#[derive(Clone, Debug)]
pub struct FoundConfig {
    /// Its settings, a JSON object.
    pub settings: Payload,
    /// Why jobs may not use it, if they may not.
    pub disabled_reason: Option<String>,
    /// Its secrets as they are stored.
    pub secrets: BTreeMap<String, StoredSecret>,
}

/// Makes a connector config or changes it.
pub async fn upsert_connector_config<C: GenericClient>(
    c: &C,
    tenant: Uuid,
    change: &ConnectorChange,
) -> Result<ConnectorConfig, Error> {
    const OPERATION: &str = "upsert_connector_config";
    let secrets = json!(change.secrets).to_string();
    let row = c
        .query_typed_one(
            "with t as materialized (select set_config('app.tenant_id', $1::text, true) as tenant)
             select c.name, c.settings, c.secrets, c.disabled_at, c.disabled_reason, c.created_at, c.updated_at, c.updated_by
             from t cross join lateral jobforge.upsert_connector_config(p_tenant_id => t.tenant::uuid, p_name => $2,
               p_settings => $3, p_secrets => $4, p_updated_by => $5) as c",
            &[
                (&tenant, Type::UUID),
                (&clean(&change.name), Type::TEXT),
                (&change.settings.as_ref().map(Json::from), Type::JSONB),
                (&Json(&secrets), Type::JSONB),
                (&change.updated_by.as_deref().map(clean), Type::TEXT),
            ],
        )
        .await
        .map_err(|error| Error::call(OPERATION, error))?;
    read_config(OPERATION, &row)
}

/// One connector config.
pub async fn get_connector_config<C: GenericClient>(
    c: &C,
    tenant: Uuid,
    name: &str,
) -> Result<ConnectorConfig, Error> {
    const OPERATION: &str = "get_connector_config";
    let row = c
        .query_typed_one(
            "with t as materialized (select set_config('app.tenant_id', $1::text, true) as tenant)
             select c.name, c.settings, c.secrets, c.disabled_at, c.disabled_reason, c.created_at, c.updated_at, c.updated_by
             from t cross join lateral jobforge.get_connector_config(p_tenant_id => t.tenant::uuid, p_name => $2) as c",
            &[(&tenant, Type::UUID), (&clean(name), Type::TEXT)],
        )
        .await
        .map_err(|error| Error::call(OPERATION, error))?;
    read_config(OPERATION, &row)
}

/// A page of the tenant's connector configs, in the order of their names.
pub async fn list_connector_configs<C: GenericClient>(
    c: &C,
    tenant: Uuid,
    limit: i32,
    after: Option<&str>,
) -> Result<Vec<ConnectorConfig>, Error> {
    const OPERATION: &str = "list_connector_configs";
    let rows = c
        .query_typed(
            "with t as materialized (select set_config('app.tenant_id', $1::text, true) as tenant)
             select c.name, c.settings, c.secrets, c.disabled_at, c.disabled_reason, c.created_at, c.updated_at, c.updated_by
             from t cross join lateral jobforge.list_connector_configs(p_tenant_id => t.tenant::uuid, p_limit => $2,
               p_after => $3) as c",
            &[(&tenant, Type::UUID), (&limit, Type::INT4), (&after.map(clean), Type::TEXT)],
        )
        .await
        .map_err(|error| Error::call(OPERATION, error))?;
    rows.iter().map(|row| read_config(OPERATION, row)).collect()
}

/// Deletes a connector config with its secrets; false where there was none.
pub async fn delete_connector_config<C: GenericClient>(
    c: &C,
    tenant: Uuid,
    name: &str,
) -> Result<bool, Error> {
    const OPERATION: &str = "delete_connector_config";
    let row = c
        .query_typed_one(
            "with t as materialized (select set_config('app.tenant_id', $1::text, true) as tenant)
             select jobforge.delete_connector_config(p_tenant_id => t.tenant::uuid, p_name => $2) from t",
            &[(&tenant, Type::UUID), (&clean(name), Type::TEXT)],
        )
        .await
        .map_err(|error| Error::call(OPERATION, error))?;
    Columns::of(OPERATION, &row).take()
}

/// Lets jobs use a connector config again; false where it was not disabled.
pub async fn enable_connector_config<C: GenericClient>(
    c: &C,
    tenant: Uuid,
    name: &str,
) -> Result<bool, Error> {
    const OPERATION: &str = "enable_connector_config";
    let row = c
        .query_typed_one(
            "with t as materialized (select set_config('app.tenant_id', $1::text, true) as tenant)
             select jobforge.enable_connector_config(p_tenant_id => t.tenant::uuid, p_name => $2) from t",
            &[(&tenant, Type::UUID), (&clean(name), Type::TEXT)],
        )
        .await
        .map_err(|error| Error::call(OPERATION, error))?;
    Columns::of(OPERATION, &row).take()
}

/// The connector config of the tenant whose job a worker runs; `None` where there is none of this name.
pub async fn find_connector_config<C: GenericClient>(
    c: &C,
    lease: Uuid,
    job: JobRef,
    name: &str,
) -> Result<Option<FoundConfig>, Error> {
    const OPERATION: &str = "find_connector_config";
    let row = c
        .query_typed_opt(
            "select f.settings, f.disabled_reason, f.secret_names, f.envs, f.key_ids, f.sealed
             from jobforge.find_connector_config(p_lease_id => $1, p_tenant_id => $2, p_job_id => $3, p_fence => $4,
               p_name => $5) as f",
            &[
                (&lease, Type::UUID),
                (&job.tenant_id, Type::UUID),
                (&job.id, Type::UUID),
                (&job.fence, Type::INT4),
                (&clean(name), Type::TEXT),
            ],
        )
        .await
        .map_err(|error| Error::call(OPERATION, error))?;
    row.map(|row| read_found(OPERATION, &row)).transpose()
}

/// Takes a connector config out of use; false where it was disabled before.
pub async fn disable_connector_config<C: GenericClient>(
    c: &C,
    lease: Uuid,
    job: JobRef,
    name: &str,
    reason: &str,
) -> Result<bool, Error> {
    const OPERATION: &str = "disable_connector_config";
    let row = c
        .query_typed_one(
            "select jobforge.disable_connector_config(p_lease_id => $1, p_tenant_id => $2, p_job_id => $3,
               p_fence => $4, p_name => $5, p_reason => $6)",
            &[
                (&lease, Type::UUID),
                (&job.tenant_id, Type::UUID),
                (&job.id, Type::UUID),
                (&job.fence, Type::INT4),
                (&clean(name), Type::TEXT),
                (&clean(reason), Type::TEXT),
            ],
        )
        .await
        .map_err(|error| Error::call(OPERATION, error))?;
    Columns::of(OPERATION, &row).take()
}

impl Serialize for StoredSecret {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            StoredSecret::Env(name) => json!({ "env": name }),
            StoredSecret::Sealed { key_id, bytes } => {
                json!({ "key_id": key_id, "sealed": STANDARD.encode(bytes) })
            }
        }
        .serialize(serializer)
    }
}

/// Without the bytes: they open with the key.
impl fmt::Debug for StoredSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoredSecret::Env(name) => write!(f, "Env({name})"),
            StoredSecret::Sealed { key_id, .. } => write!(f, "Sealed({key_id}: ***)"),
        }
    }
}

fn read_config(operation: &'static str, row: &Row) -> Result<ConnectorConfig, Error> {
    let mut columns = Columns::of(operation, row);
    Ok(ConnectorConfig {
        name: columns.take()?,
        settings: columns.json()?,
        secrets: serde_json::from_str(columns.json()?.get())
            .map_err(|error| Error::shape(operation, error))?,
        disabled_at: columns.take()?,
        disabled_reason: columns.take()?,
        created_at: columns.take()?,
        updated_at: columns.take()?,
        updated_by: columns.take()?,
    })
}

fn read_found(operation: &'static str, row: &Row) -> Result<FoundConfig, Error> {
    let mut columns = Columns::of(operation, row);
    let (settings, disabled_reason) = (columns.json()?, columns.take()?);
    let names: Option<Vec<String>> = columns.take()?;
    let envs: Option<Vec<Option<String>>> = columns.take()?;
    let key_ids: Option<Vec<Option<String>>> = columns.take()?;
    let sealed: Option<Vec<Option<Vec<u8>>>> = columns.take()?;
    let kept =
        envs.into_iter().flatten().zip(key_ids.into_iter().flatten().zip(sealed.into_iter().flatten()));
    let read = |(name, (env, sealed))| match (env, sealed) {
        (Some(env), (None, None)) => Ok((name, StoredSecret::Env(env))),
        (None, (Some(key_id), Some(bytes))) => Ok((name, StoredSecret::Sealed { key_id, bytes })),
        _ => Err(Error::shape(operation, format_args!("secret {name} is neither a reference nor sealed"))),
    };
    let secrets = names.into_iter().flatten().zip(kept).map(read).collect::<Result<_, Error>>()?;
    Ok(FoundConfig { settings, disabled_reason, secrets })
}
