//! `connector.qr.generate`: a text as a QR code, as PNG.

mod content;
mod image;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jobforge_worker::{Context, HandlerResult, Outcome};
use serde::{Deserialize, Serialize};

pub use content::{Field, Fields, Tagged};

use crate::failure::permanent;

/// The job type.
pub const TYPE: &str = "connector.qr.generate";
/// Modules around the code unless told otherwise: what the standard asks for.
const BORDER: u8 = 4;
const MAX_BORDER: u8 = 40;

/// The payload's JSON Schema.
pub fn schema() -> &'static str {
    include_str!("schema.json")
}

/// What a job is given: a text, or a tagged content that becomes one.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QrRequest {
    /// The text as it is.
    pub text: Option<String>,
    /// The text put together from a prefix and fields.
    pub tagged: Option<Tagged>,
    /// How many modules stay white around the code.
    #[serde(default = "border")]
    pub border: u8,
}

/// The code, and what is in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QrImage {
    /// The PNG in base64.
    pub png_base64: String,
    /// Its width in pixels.
    pub width: u32,
    /// Its height in pixels.
    pub height: u32,
    /// The code's version, 1 to 40: how large it is.
    pub version: i16,
    /// The text in it.
    pub text: String,
}

/// Why no code can be made; no retry mends it.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum QrError {
    /// Neither a text nor a tagged content, or both.
    #[error("a QR code is made of either a text or a tagged content")]
    OneOfTwo,
    /// There is nothing to show.
    #[error("the text of a QR code is empty")]
    Empty,
    /// A part of the tagged content would be read as more than one.
    #[error("{part} of the tagged content {what}")]
    Tagged {
        /// Which part.
        part: String,
        /// What is wrong with it.
        what: &'static str,
    },
    /// The border is too wide.
    #[error("a border of {border} modules is too wide: at most {MAX_BORDER}")]
    Border {
        /// What was asked for.
        border: u8,
    },
    /// It does not fit into the largest code.
    #[error("the text has {bytes} bytes and does not fit into a QR code: at most 2331 at error level M")]
    TooLong {
        /// How long it is.
        bytes: usize,
    },
    /// The encoder failed.
    #[error("the QR code cannot be made: {0}")]
    Encoder(String),
}

/// The handler.
pub async fn generate(_: Context, request: QrRequest) -> HandlerResult {
    Ok(Outcome::complete(&draw(&request).map_err(permanent)?)?)
}

/// Makes the code.
pub fn draw(request: &QrRequest) -> Result<QrImage, QrError> {
    if request.border > MAX_BORDER {
        return Err(QrError::Border { border: request.border });
    }
    let text = match (&request.text, &request.tagged) {
        (Some(text), None) => text.clone(),
        (None, Some(tagged)) => tagged.text()?,
        _ => return Err(QrError::OneOfTwo),
    };
    if text.is_empty() {
        return Err(QrError::Empty);
    }
    let image::Drawn { png, pixels, version } = image::draw(&text, request.border)?;
    Ok(QrImage { png_base64: STANDARD.encode(png), width: pixels, height: pixels, version, text })
}

fn border() -> u8 {
    BORDER
}

#[cfg(test)]
mod tests;
