//! What a code means: the pages of `docs/errors`.

use axum::http::header;
use axum::response::{IntoResponse, Response};

use crate::extract::Place;
use crate::problem::{ErrorCode, Problem};

macro_rules! pages {
    ($($code:literal),*) => {
        &[$(($code, include_str!(concat!("../../../../docs/errors/", $code, ".md")))),*]
    };
}

const PAGES: &[(&str, &str)] = pages![
    "JF001", "JF002", "JF003", "JF004", "JF005", "JF006", "JF007", "JF008", "JF009", "JF101", "JF102",
    "JF103", "JF104", "JF105", "JF106", "JF107"
];

/// The page of a code, as every refusal's `type` names it.
pub(crate) async fn page(Place(code): Place<String>) -> Result<Response, Problem> {
    let page = PAGES.iter().find(|(known, _)| *known == code);
    let (_, text) =
        page.ok_or_else(|| Problem::new(ErrorCode::NoRoute, "code_unknown", "there is no such code"))?;
    Ok(([(header::CONTENT_TYPE, "text/markdown; charset=utf-8")], *text).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_is_served_and_every_code_has_one() {
        let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/errors");
        let names = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name());
        let mut written: Vec<String> = names.map(|name| name.to_str().unwrap().replace(".md", "")).collect();
        written.sort_unstable();
        let served: Vec<&str> = PAGES.iter().map(|(code, _)| *code).collect();
        assert_eq!(served, written);
        assert!(ErrorCode::OWN.iter().all(|code| served.contains(&code.as_str())));
        assert!(PAGES.iter().all(|(code, text)| text.starts_with(&format!("# {code} "))));
    }
}
