//! What is wrong with the settings, told without their values: a password may stand where it does not belong, or behind a
//! quote that is missing.

use config::ConfigError;

/// What is wrong and where: file, line and column, or the key.
pub(super) fn told(error: &ConfigError) -> String {
    let (what, key, place) = match error {
        ConfigError::FileParse { cause, uri } => (parser(&cause.to_string()), &None, uri),
        ConfigError::Type { origin, unexpected, expected, key } => {
            (format!("invalid type: {}, expected {expected}", kind(&unexpected.to_string())), key, origin)
        }
        ConfigError::At { error, origin, key } => (told(error), key, origin),
        ConfigError::Message(message) => return without_value(message),
        other => return other.to_string(),
    };
    let key = key.as_ref().map(|key| format!(" for key `{key}`")).unwrap_or_default();
    let place = place.as_ref().map(|place| format!(" in {place}")).unwrap_or_default();
    what + &key + &place
}

/// The first line says where, the last one what; those between show the file's own.
fn parser(shown: &str) -> String {
    match shown.trim_end().split_once('\n') {
        Some((place, rest)) => format!("{place}: {}", rest.lines().last().unwrap_or_default()),
        None => shown.to_owned(),
    }
}

/// Of ``string "secret"`` or ``integer `5` `` what comes before the value.
fn kind(unexpected: &str) -> &str {
    unexpected.split(['"', '`']).next().unwrap_or_default().trim_end()
}

/// A message of serde's, or of one of the settings' own readers.
fn without_value(message: &str) -> String {
    for start in ["invalid type: ", "invalid value: "] {
        let parts = message.strip_prefix(start).and_then(|rest| rest.rsplit_once(", expected "));
        if let Some((unexpected, expected)) = parts {
            return format!("{start}{}, expected {expected}", kind(unexpected));
        }
    }
    match message.split_once(" does not have variant constructor ") {
        Some((choice, _)) => format!("{choice} does not have this variant"),
        None => message.to_owned(),
    }
}
