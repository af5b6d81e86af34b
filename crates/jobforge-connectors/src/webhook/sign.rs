//! Signatures over the bytes that are sent: as Standard Webhooks writes them, and as plain hexadecimal.

use std::fmt::Write as _;

use base64::Engine;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use hmac::{Hmac, KeyInit, Mac};
use secrecy::{ExposeSecret, SecretSlice, SecretString};
use sha2::Sha256;

const PREFIX: &str = "whsec_";
/// As Standard Webhooks asks for.
const KEY_BYTES: std::ops::RangeInclusive<usize> = 24..=64;
/// Secrets are typed and copied; the padding gets lost.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// One live signing secret.
#[derive(Debug)]
pub(super) struct SigningKey(SecretSlice<u8>);

impl SigningKey {
    /// Reads `whsec_<base64>`; the error says what is wrong and never repeats the secret.
    pub(super) fn parse(secret: &SecretString) -> Result<SigningKey, &'static str> {
        let encoded = secret.expose_secret().strip_prefix(PREFIX).ok_or("it does not start with whsec_")?;
        let key = BASE64.decode(encoded).map_err(|_| "it is no Base64 after whsec_")?;
        if !KEY_BYTES.contains(&key.len()) {
            return Err("its key has not 24 to 64 bytes");
        }
        Ok(SigningKey(key.into()))
    }

    /// `v1,<base64>` over id, time and body.
    pub(super) fn standard(&self, id: &str, timestamp: i64, body: &[u8]) -> String {
        let head = format!("{id}.{timestamp}.");
        format!("v1,{}", BASE64.encode(self.tag(&[head.as_bytes(), body])))
    }

    /// `sha256=<hex>` over the body alone.
    pub(super) fn plain(&self, body: &[u8]) -> String {
        let mut text = "sha256=".to_owned();
        for byte in self.tag(&[body]) {
            // Writing to a string does not fail.
            let _ = write!(text, "{byte:02x}");
        }
        text
    }

    fn tag(&self, parts: &[&[u8]]) -> Vec<u8> {
        // A key of any length is taken.
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(self.0.expose_secret()) else { return Vec::new() };
        parts.iter().for_each(|part| mac.update(part));
        mac.finalize().into_bytes().to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &str) -> Result<SigningKey, &'static str> {
        SigningKey::parse(&SecretString::from(text))
    }

    #[test]
    fn the_example_of_the_standard_is_signed_as_it_says() {
        let key = key("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let body = br#"{"test": 2432232314}"#;
        let signed = key.standard("msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, body);
        assert_eq!(signed, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn secrets_that_are_none_are_refused_without_repeating_them() {
        for bad in ["MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_????", "whsec_c2hvcnQ=", "whsec_", ""] {
            assert!(key(bad).is_err(), "{bad}");
        }
        assert!(key(&format!("whsec_{}", "A".repeat(88))).is_err(), "66 bytes");
        assert!(key("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwAA").is_ok(), "without its padding");
        assert!(!format!("{:?}", key("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")).contains("Mf"));
    }
}
