//! URLs as they may be shown.

/// A URL whose password is hidden, wherever it stands. What may be read in two ways is hidden in both.
pub(crate) fn redact(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return "***".to_owned() };
    // A password may have any character, a question mark or an @ too.
    let (login, rest) = rest.rsplit_once('@').map_or((None, rest), |(login, rest)| (Some(login), rest));
    let login = match login.map(|login| login.split_once(':').ok_or(login)) {
        Some(Ok((user, _))) => format!("{}:***@", user_or_stars(user)),
        Some(Err(user)) => format!("{}@", user_or_stars(user)),
        None => String::new(),
    };
    let (place, parameters) = rest.split_once('?').unwrap_or((rest, ""));
    let hide = |pair: &str| match pair.split_once('=') {
        Some((name, _)) if name.contains("password") => format!("{name}=***"),
        _ => pair.to_owned(),
    };
    let parameters: Vec<String> = parameters.split('&').filter(|pair| !pair.is_empty()).map(hide).collect();
    let mark = if parameters.is_empty() { "" } else { "?" };
    format!("{scheme}://{login}{place}{mark}{}", parameters.join("&"))
}

fn user_or_stars(user: &str) -> &str {
    let is_plain = |c: char| c.is_alphanumeric() || "_.-%".contains(c);
    if user.chars().all(is_plain) { user } else { "***" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_hidden() {
        assert_eq!(redact("postgres://app:se:cr%40et@db/x"), "postgres://app:***@db/x");
        assert_eq!(redact("postgres://app@db/x?password=secret&a=1"), "postgres://app@db/x?password=***&a=1");
        assert_eq!(redact("host=db password=secret"), "***");
        assert_eq!(redact("postgres://app:what?4@db/x?a=1"), "postgres://app:***@db/x?a=1");
        assert_eq!(redact("postgres://app:w@a?t@db/x"), "postgres://app:***@db/x");
        for url in [
            "postgres://app@db/x?password=se@cret",
            "postgres://db/x?password=se@cret",
            "postgres://db/x?password=se:c@r",
        ] {
            let told = redact(url);
            assert!(!told.contains("se"), "{told}");
        }
        assert_eq!(redact("postgres://db/x"), "postgres://db/x");
    }
}
