use serde_json::{Value, json};

use super::*;

fn request(payload: &Value) -> QrRequest {
    serde_json::from_value(payload.clone()).unwrap()
}

fn drawn(payload: &Value) -> QrImage {
    draw(&request(payload)).unwrap()
}

/// What a reader of the image sees.
fn read_back(image: &QrImage) -> String {
    let png = STANDARD.decode(&image.png_base64).unwrap();
    let mut reader = png::Decoder::new(std::io::Cursor::new(png)).read_info().unwrap();
    let info = reader.info();
    assert_eq!((info.width, info.height), (image.width, image.height));
    assert_eq!((info.bit_depth, info.color_type), (png::BitDepth::One, png::ColorType::Grayscale));
    let mut bytes = vec![0; reader.output_buffer_size().unwrap()];
    let frame = reader.next_frame(&mut bytes).unwrap();
    // Around the code a reader needs white, which a picture without a border leaves to its surroundings.
    let (width, around) = (image.width as usize, 40);
    let size = width + 2 * around;
    let mut prepared = rqrr::PreparedImage::prepare_from_greyscale(size, size, |x, y| {
        let inside = |at: usize| at.checked_sub(around).filter(|at| *at < width);
        match inside(x).zip(inside(y)) {
            Some((x, y)) if bytes[y * frame.line_size + x / 8] >> (7 - x % 8) & 1 == 0 => 0,
            _ => 255,
        }
    });
    let grids = prepared.detect_grids();
    let (meta, text) = grids[0].decode().unwrap();
    assert_eq!((meta.version.0, meta.ecc_level), (usize::try_from(image.version).unwrap(), 0), "level M");
    text
}

#[test]
fn what_is_read_back_is_the_text() {
    for text in ["https://example.org/a?b=c", "Größe 42 € – 漢字 🦀", "0123456789", "A", &"ä".repeat(1000)]
    {
        for border in [0, 4] {
            let image = drawn(&json!({ "text": text, "border": border }));
            assert_eq!((read_back(&image).as_str(), image.text.as_str()), (text, text));
        }
    }
}

#[test]
fn a_module_has_ten_pixels_and_the_border_is_counted_in_modules() {
    let width = |payload| drawn(&payload).width;
    assert_eq!(drawn(&json!({ "text": "A" })).version, 1);
    assert_eq!(width(json!({ "text": "A" })), (21 + 8) * 10);
    assert_eq!(width(json!({ "text": "A", "border": 0 })), 210);
    assert_eq!(width(json!({ "text": "A", "border": 1 })), 230);
}

#[test]
fn a_tagged_content_keeps_the_order_of_its_list() {
    let image = drawn(&json!({ "tagged": { "prefix": "DOC1", "fields": [
        { "name": "z", "value": "last=first" },
        { "name": "h", "hash": "" },
        { "name": "a", "value": "" },
    ]}}));
    let wanted = "DOC1|z=last=first|h=4OYMIQUY7QOBJGX36TEJS35ZEQT24QPEMSNZGTFESWMRW6CSXBKQ|a=";
    assert_eq!((image.text.as_str(), read_back(&image).as_str()), (wanted, wanted));
}

#[test]
fn a_tagged_content_of_names_goes_in_their_order_and_its_hashes_follow() {
    let image = drawn(&json!({ "tagged": {
        "prefix": "P", "fields": { "b": "2", "a": "1" }, "hash": { "y": "", "x": "" },
    }}));
    let empty = "4OYMIQUY7QOBJGX36TEJS35ZEQT24QPEMSNZGTFESWMRW6CSXBKQ";
    assert_eq!(image.text, format!("P|a=1|b=2|x={empty}|y={empty}"));
    assert_eq!(read_back(&image), image.text);
}

#[test]
fn what_cannot_be_drawn_is_refused_with_its_reason() {
    let tagged = |fields: Value| json!({ "tagged": { "prefix": "P", "fields": fields } });
    for (payload, told) in [
        (json!({}), "either a text or a tagged"),
        (json!({ "text": "a", "tagged": { "prefix": "P", "fields": {} } }), "either a text or a tagged"),
        (json!({ "text": "" }), "empty"),
        (json!({ "text": "a", "border": 41 }), "at most 40"),
        (json!({ "text": "x".repeat(2332) }), "2332 bytes"),
        (json!({ "tagged": { "prefix": "P|x", "fields": {} } }), "the prefix"),
        (json!({ "tagged": { "prefix": "", "fields": {} } }), "is empty"),
        (tagged(json!({ "a": "x|y=z" })), "a of the tagged content has a bar"),
        (tagged(json!({ "a": "x\ny" })), "line break"),
        (tagged(json!({ "a=b": "x" })), "equals sign"),
        (tagged(json!([{ "name": "a" }])), "either a value or a hash"),
        (tagged(json!([{ "name": "a", "value": "x", "hash": "y" }])), "either a value or a hash"),
    ] {
        let error = draw(&request(&payload)).unwrap_err().to_string();
        assert!(error.contains(told), "{payload}: {error}");
    }
    assert!(draw(&request(&json!({ "text": "x".repeat(2331) }))).is_ok());
}

/// The schema takes what the handler takes, but for lengths in bytes, which it cannot tell.
#[test]
fn the_schema_and_the_handler_agree() {
    let schema: Value = serde_json::from_str(schema()).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let agree = |payload: Value| {
        let taken = serde_json::from_value::<QrRequest>(payload.clone()).is_ok_and(|r| draw(&r).is_ok());
        assert_eq!(validator.is_valid(&payload), taken, "{payload}");
        taken
    };
    for payload in [
        json!({ "text": "a" }),
        json!({ "text": "a", "border": 0 }),
        json!({ "tagged": { "prefix": "P", "fields": { "a": "b" }, "hash": { "c": "|" } } }),
        json!({ "tagged": { "prefix": "P", "fields": [{ "name": "a", "hash": "|" }] } }),
    ] {
        assert!(agree(payload));
    }
    for payload in [
        json!({}),
        json!({ "text": 1 }),
        json!({ "text": "" }),
        json!({ "text": "a", "other": 1 }),
        json!({ "text": "a", "border": -1 }),
        json!({ "text": "a", "border": 41 }),
        json!({ "tagged": { "fields": {} } }),
        json!({ "tagged": { "prefix": "P|", "fields": {} } }),
        json!({ "tagged": { "prefix": "P", "fields": { "a": 1 } } }),
        json!({ "tagged": { "prefix": "P", "fields": { "a": "|" } } }),
        json!({ "tagged": { "prefix": "P", "fields": [{ "name": "a" }] } }),
        json!({ "tagged": { "prefix": "P", "fields": [{ "name": "a", "value": "", "x": 1 }] } }),
        json!([]),
    ] {
        assert!(!agree(payload));
    }
}
