//! The section `[egress]`: where requests may go, and how long and large they may be.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use jobforge_connectors::egress::{EgressPolicy, EgressSettings, IpNet, parse_nets};
use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use uuid::Uuid;

type TenantNets = BTreeMap<Uuid, Vec<IpNet>>;

const LARGEST_BODY: usize = 16 * 1024 * 1024;

/// The section as it is written.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct EgressSection {
    pub(crate) allow: Vec<String>,
    pub(crate) deny: Vec<String>,
    #[serde(deserialize_with = "one_or_many")]
    pub(crate) ports: Vec<u16>,
    pub(crate) connect_timeout_seconds: u64,
    pub(crate) read_timeout_seconds: u64,
    pub(crate) max_timeout_seconds: u64,
    pub(crate) max_body_bytes: usize,
    pub(crate) ca_file: Option<PathBuf>,
    #[serde(default)]
    pub(crate) tenants: BTreeMap<Uuid, Vec<String>>,
}

impl EgressSection {
    /// Refuses what cannot work, without reading any file.
    pub(super) fn validate(&self) -> Result<()> {
        let timeouts = [self.connect_timeout_seconds, self.read_timeout_seconds, self.max_timeout_seconds];
        if !timeouts.iter().all(|seconds| (1..=3600).contains(seconds)) {
            bail!("the timeouts of egress must be 1 to 3600 seconds");
        }
        if self.max_body_bytes > LARGEST_BODY {
            bail!("egress.max_body_bytes must be at most {LARGEST_BODY}");
        }
        if self.ports.contains(&0) {
            bail!("egress.ports must be 1 to 65535");
        }
        self.policy()?;
        self.tenant_nets().map(drop)
    }

    /// What an egress client is made of.
    pub(crate) fn settings(&self) -> Result<EgressSettings> {
        let read = |path: &PathBuf| {
            std::fs::read(path).with_context(|| format!("egress.ca_file {} cannot be read", path.display()))
        };
        Ok(EgressSettings {
            policy: self.policy()?,
            tenants: self.tenant_nets()?,
            connect_timeout: Duration::from_secs(self.connect_timeout_seconds),
            read_timeout: Duration::from_secs(self.read_timeout_seconds),
            max_timeout: Duration::from_secs(self.max_timeout_seconds),
            max_body_bytes: self.max_body_bytes,
            authorities: self.ca_file.as_ref().map(read).transpose()?,
        })
    }

    fn policy(&self) -> Result<EgressPolicy> {
        let nets = |name: &str, texts: &[String]| {
            parse_nets(texts).map_err(|error| anyhow!("egress.{name}: {error}"))
        };
        let (allow, deny) = (nets("allow", &self.allow)?, nets("deny", &self.deny)?);
        Ok(EgressPolicy { allow, deny, ports: self.ports.clone() })
    }

    fn tenant_nets(&self) -> Result<TenantNets> {
        let nets = |(tenant, texts): (&Uuid, &Vec<String>)| match parse_nets(texts) {
            Ok(nets) => Ok((*tenant, nets)),
            Err(error) => bail!("egress.tenants.{tenant}: {error}"),
        };
        self.tenants.iter().map(nets).collect()
    }
}

/// In the environment a single port is a number, not a list of one.
fn one_or_many<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u16>, D::Error> {
    struct Ports;

    impl<'de> Visitor<'de> for Ports {
        type Value = Vec<u16>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("ports, separated by commas")
        }

        fn visit_i64<E: Error>(self, port: i64) -> Result<Vec<u16>, E> {
            u16::try_from(port).map(|port| vec![port]).map_err(|_| E::custom(format!("{port} is no port")))
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut ports: A) -> Result<Vec<u16>, A::Error> {
            let mut read = Vec::new();
            while let Some(port) = ports.next_element()? {
                read.push(port);
            }
            Ok(read)
        }
    }

    from.deserialize_any(Ports)
}
