//! Reads a PNG of one QR code from standard input and prints its text: the story of jobs without code holds the
//! connector's images against a reader of its own.

use std::error::Error;
use std::io::{Cursor, Read, Write, stdin, stdout};

fn main() -> Result<(), Box<dyn Error>> {
    let mut png = Vec::new();
    stdin().read_to_end(&mut png)?;
    stdout().write_all(decode(png)?.as_bytes())?;
    Ok(())
}

fn decode(png: Vec<u8>) -> Result<String, Box<dyn Error>> {
    let mut decoder = png::Decoder::new(Cursor::new(png));
    // One byte a pixel, whatever the file has.
    decoder.set_transformations(png::Transformations::normalize_to_color8());
    let mut reader = decoder.read_info()?;
    let mut pixels = vec![0; reader.output_buffer_size().ok_or("the image is too large")?];
    let frame = reader.next_frame(&mut pixels)?;
    if frame.color_type != png::ColorType::Grayscale {
        return Err("the image is not in shades of grey".into());
    }
    let (width, height) = (usize::try_from(frame.width)?, usize::try_from(frame.height)?);
    let mut prepared = rqrr::PreparedImage::prepare_from_greyscale(width, height, |x, y| {
        pixels.get(y * frame.line_size + x).copied().unwrap_or(u8::MAX)
    });
    let grids = prepared.detect_grids();
    let [code] = grids.as_slice() else {
        return Err(format!("{} codes in the image, not one", grids.len()).into());
    };
    Ok(code.decode()?.1)
}
