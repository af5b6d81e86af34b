//! What a caller has already, by `If-None-Match`.

use axum::http::{HeaderMap, header};

/// Whether the caller has this state: compared weakly, because an answer may be compressed on its way.
pub(crate) fn is_known(headers: &HeaderMap, tag: &str) -> bool {
    let given = headers.get_all(header::IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    given.flat_map(|value| value.split(',')).map(str::trim).any(|known| {
        known == "*"
            || known.strip_prefix("W/").unwrap_or(known).strip_prefix('"').and_then(|t| t.strip_suffix('"'))
                == Some(tag)
    })
}
