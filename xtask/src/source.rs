//! Reading the repository's files just well enough to judge them: no parser, only the lexing that keeps
//! a rule from mistaking a comment or a string for code.

pub(crate) mod rust;
pub(crate) mod sql;
mod tree;

pub(crate) use tree::Tree;

/// The 1-based line of a byte offset.
pub(crate) fn line_of(text: &str, offset: usize) -> usize {
    text.as_bytes()[..offset].iter().filter(|byte| **byte == b'\n').count() + 1
}

/// Whether `word` stands in `text` as a whole identifier.
pub(crate) fn has_word(text: &str, word: &str) -> bool {
    words_at(text, word).next().is_some()
}

/// The byte offsets at which `word` stands in `text` as a whole identifier.
pub(crate) fn words_at<'a>(text: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    let bytes = text.as_bytes();
    text.match_indices(word).map(|(at, _)| at).filter(move |&at| {
        let before = at.checked_sub(1).map(|index| bytes[index]);
        let after = bytes.get(at + word.len()).copied();
        !before.is_some_and(is_word_byte) && !after.is_some_and(is_word_byte)
    })
}

/// Bytes that continue an identifier; every byte of a non-ASCII character counts as one.
pub(crate) fn is_word_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

/// The identifier at the start of `text`, perhaps empty.
pub(crate) fn leading_word(text: &str) -> &str {
    let end = text.bytes().position(|byte| !is_word_byte(byte)).unwrap_or(text.len());
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_whole_or_it_is_not_there() {
        assert!(has_word("select jobforge.claim_jobs(1)", "claim_jobs"));
        assert!(!has_word("claim_jobs_solo", "claim_jobs"));
        assert!(!has_word("reclaim_jobs", "claim_jobs"));
    }

    #[test]
    fn lines_count_from_one() {
        assert_eq!(line_of("a\nb", 0), 1);
        assert_eq!(line_of("a\nb", 2), 2);
    }
}
