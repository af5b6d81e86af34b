//! The server's sealing, with the keys of this process's environment.

use std::fmt;

use jobforge_connectors::configs::{SealError as KeyError, SealKeys, Sealed, SecretPlace};
use jobforge_core::StoredSecret;
use jobforge_server::{SealError, SealPlace, Sealer};
use secrecy::SecretString;

/// Seals with these keys; without any, it says so when something is to be sealed.
pub(crate) struct KeySealer(pub(crate) SealKeys);

impl fmt::Debug for KeySealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeySealer")
    }
}

impl Sealer for KeySealer {
    fn seal(&self, place: SealPlace<'_>, secret: &SecretString) -> Result<StoredSecret, SealError> {
        let SealPlace { tenant, config, name } = place;
        let told = |error: KeyError| match error {
            unfit @ KeyError::Length { .. } => SealError::Unfit(unfit.to_string()),
            other => SealError::Unavailable(other.to_string()),
        };
        let Sealed { key_id, bytes } =
            self.0.seal(SecretPlace { tenant, config, secret: name }, secret).map_err(told)?;
        Ok(StoredSecret::Sealed { key_id, bytes })
    }
}

#[cfg(test)]
mod tests {
    use jobforge_connectors::configs::new_key;
    use secrecy::ExposeSecret;
    use uuid::Uuid;

    use super::*;

    const PLACE: SealPlace<'static> = SealPlace { tenant: Uuid::nil(), config: "mail", name: "token" };

    #[test]
    fn what_is_sealed_opens_at_its_place_and_what_cannot_be_is_told_apart() {
        let (_, key) = new_key().unwrap();
        let sealer = KeySealer(SealKeys::parse(&key).unwrap());
        let StoredSecret::Sealed { key_id, bytes } =
            sealer.seal(PLACE, &SecretString::from("canary")).unwrap()
        else {
            panic!("not sealed")
        };
        let place = SecretPlace { tenant: Uuid::nil(), config: "mail", secret: "token" };
        let opened = sealer.0.open(place, &Sealed { key_id, bytes }).unwrap();
        assert_eq!(opened.expose_secret(), "canary");
        let empty = sealer.seal(PLACE, &SecretString::default());
        assert!(matches!(empty, Err(SealError::Unfit(_))), "{empty:?}");
        let keyless = KeySealer(SealKeys::default()).seal(PLACE, &SecretString::from("canary"));
        assert!(matches!(keyless, Err(SealError::Unavailable(_))), "{keyless:?}");
    }
}
