//! Sealing everything anew with the first key, so that an old one can be thrown away.

use jobforge_core::{Error, SealedSecret, rpc};
use serde::Serialize;
use tokio_postgres::GenericClient;
use uuid::Uuid;

use super::seal::{SealError, SealKeys, Sealed, SecretPlace};

/// Secrets of one look.
const PAGE: i32 = 200;

/// What was done.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Resealed {
    /// The key that everything is sealed with now, except what did not open.
    pub key_id: String,
    /// Sealed anew.
    pub resealed: u64,
    /// Changed by somebody else meanwhile, and left to them.
    pub changed: u64,
    /// What does not open with the keys at hand.
    pub unopened: Vec<Unopened>,
}

/// A secret that stays as it was.
#[derive(Clone, Debug, Serialize)]
pub struct Unopened {
    /// Whose it is.
    pub tenant_id: Uuid,
    /// The config it belongs to.
    pub config: String,
    /// Its name.
    pub secret: String,
    /// The key it names.
    pub key_id: String,
    /// What is wrong.
    pub error: String,
}

/// Why nothing more was sealed anew; what was done so far stays, and the next run goes on.
#[derive(Debug, thiserror::Error)]
pub enum ResealError {
    /// The keys cannot seal.
    #[error("secrets cannot be sealed anew")]
    Seal(#[from] SealError),
    /// The database did not answer, or refused.
    #[error("secrets cannot be sealed anew")]
    Database(#[from] Error),
}

/// Seals everything anew that is not sealed with the first key, as an operator. What does not open is told
/// and stays.
pub async fn reseal<C: GenericClient>(c: &C, keys: &SealKeys) -> Result<Resealed, ResealError> {
    let key_id = keys.sealing_id()?.to_owned();
    let mut done = Resealed { key_id, ..Resealed::default() };
    let mut last: Option<SealedSecret> = None;
    loop {
        let page = rpc::list_sealed_secrets(c, &done.key_id, PAGE, last.as_ref()).await?;
        if page.is_empty() {
            return Ok(done);
        }
        for secret in &page {
            reseal_one(c, keys, secret, &mut done).await?;
        }
        last = page.into_iter().next_back();
    }
}

async fn reseal_one<C: GenericClient>(
    c: &C,
    keys: &SealKeys,
    was: &SealedSecret,
    done: &mut Resealed,
) -> Result<(), ResealError> {
    let place = SecretPlace { tenant: was.tenant_id, config: &was.config, secret: &was.name };
    match keys.open(place, &Sealed { key_id: was.key_id.clone(), bytes: was.bytes.clone() }) {
        Ok(value) => {
            let Sealed { key_id, bytes } = keys.seal(place, &value)?;
            let put = rpc::reseal_secret(c, was, &key_id, &bytes).await?;
            *(if put { &mut done.resealed } else { &mut done.changed }) += 1;
        }
        Err(error) => done.unopened.push(Unopened {
            tenant_id: was.tenant_id,
            config: was.config.clone(),
            secret: was.name.clone(),
            key_id: was.key_id.clone(),
            error: error.to_string(),
        }),
    }
    Ok(())
}
