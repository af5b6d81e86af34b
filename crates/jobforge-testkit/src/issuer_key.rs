//! Keys of an issuer of tokens: made for one test, published as issuers do.

use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::{KeyPair as RsaKeyPair, KeySize};
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use serde_json::Value;

use crate::or_fail::OrFail;

/// A key that an issuer signs tokens with.
pub struct IssuerKey {
    id: String,
    algorithm: Algorithm,
    /// The private half, to sign what no issuer would.
    pub private: EncodingKey,
    /// The public half as everybody can have it: DER, as PKCS #1 for RSA and as a point for ECDSA.
    pub public: Vec<u8>,
}

impl IssuerKey {
    /// A new key for ES256.
    pub fn es256(id: &str) -> IssuerKey {
        let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
        let pkcs8 = EcdsaKeyPair::generate_pkcs8(algorithm, &SystemRandom::new()).or_fail("make a P-256 key");
        let pair = EcdsaKeyPair::from_pkcs8(algorithm, pkcs8.as_ref()).or_fail("read a P-256 key");
        IssuerKey {
            id: id.to_owned(),
            algorithm: Algorithm::ES256,
            private: EncodingKey::from_ec_der(pkcs8.as_ref()),
            public: pair.public_key().as_ref().to_vec(),
        }
    }

    /// A new key for RS256.
    pub fn rs256(id: &str) -> IssuerKey {
        let pair = RsaKeyPair::generate(KeySize::Rsa2048).or_fail("make an RSA key");
        let pkcs8: Pkcs8V1Der<'_> = pair.as_der().or_fail("write an RSA key");
        IssuerKey {
            id: id.to_owned(),
            algorithm: Algorithm::RS256,
            // PKCS #1 is what PKCS #8 wraps in 26 bytes.
            private: EncodingKey::from_rsa_der(&pkcs8.as_ref()[26..]),
            public: pair.public_key().as_ref().to_vec(),
        }
    }

    /// The public half as an issuer publishes it.
    pub fn jwk(&self) -> Value {
        let mut jwk = Jwk::from_encoding_key(&self.private, self.algorithm).or_fail("write a JWK");
        jwk.common.key_id = Some(self.id.clone());
        serde_json::to_value(jwk).or_fail("write a JWK")
    }

    /// A token with these claims, as the issuer would sign it.
    pub fn sign(&self, claims: &Value) -> String {
        self.sign_as(&self.header(self.algorithm), claims)
    }

    /// A token with this head, whatever the issuer would say to it.
    pub fn sign_as(&self, header: &Header, claims: &Value) -> String {
        encode(header, claims, &self.private).or_fail("sign a token")
    }

    /// A token by somebody who knows these bytes and says that they are this key, as the secret of an HMAC.
    pub fn forge_with(&self, bytes: &[u8], claims: &Value) -> String {
        let secret = EncodingKey::from_secret(bytes);
        encode(&self.header(Algorithm::HS256), claims, &secret).or_fail("sign a token")
    }

    /// The head of a token that names this key and an algorithm.
    pub fn header(&self, algorithm: Algorithm) -> Header {
        Header { kid: Some(self.id.clone()), ..Header::new(algorithm) }
    }
}
