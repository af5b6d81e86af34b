//! The code as an image: one bit a pixel, ten pixels a module.

use qrcode::types::QrError as EncoderError;
use qrcode::{Color, EcLevel, QrCode, Version};

use super::QrError;

const MODULE: usize = 10;

/// A square image.
pub(super) struct Drawn {
    pub(super) png: Vec<u8>,
    pub(super) pixels: u32,
    pub(super) version: i16,
}

pub(super) fn draw(text: &str, border: u8) -> Result<Drawn, QrError> {
    let code = QrCode::with_error_correction_level(text, EcLevel::M).map_err(|error| match error {
        EncoderError::DataTooLong => QrError::TooLong { bytes: text.len() },
        other => QrError::Encoder(other.to_string()),
    })?;
    let version = match code.version() {
        Version::Normal(version) | Version::Micro(version) => version,
    };
    let (modules, border, colors) = (code.width(), usize::from(border), code.to_colors());
    let pixels = (modules + 2 * border) * MODULE;
    let inside = |at: usize| at.checked_sub(border).filter(|at| *at < modules);
    let is_dark = |x: usize, y: usize| {
        inside(x).zip(inside(y)).is_some_and(|(x, y)| colors[y * modules + x] == Color::Dark)
    };
    // In grey of one bit a set bit is white.
    let byte = |y: usize, from: usize| {
        (from..from + 8).fold(0_u8, |byte, x| byte << 1 | u8::from(x < pixels && !is_dark(x / MODULE, y)))
    };
    let row = |y: usize| (0..pixels).step_by(8).map(|from| byte(y, from)).collect::<Vec<u8>>();
    let data: Vec<u8> = (0..modules + 2 * border).flat_map(|y| row(y).repeat(MODULE)).collect();
    let pixels = u32::try_from(pixels).map_err(|error| QrError::Encoder(error.to_string()))?;
    let png = encode(pixels, &data).map_err(|error| QrError::Encoder(error.to_string()))?;
    Ok(Drawn { png, pixels, version })
}

fn encode(pixels: u32, data: &[u8]) -> Result<Vec<u8>, png::EncodingError> {
    let mut png = Vec::new();
    let mut encoder = png::Encoder::new(&mut png, pixels, pixels);
    encoder.set_color(png::ColorType::Grayscale);
    encoder.set_depth(png::BitDepth::One);
    let mut writer = encoder.write_header()?;
    writer.write_image_data(data)?;
    writer.finish()?;
    Ok(png)
}
