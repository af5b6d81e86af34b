//! The SQL files, embedded.

use include_dir::{Dir, include_dir};
use sha2::{Digest, Sha256};

static MIGRATIONS: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../../sql/migrations");
static FUNCTIONS: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../../sql/functions");

/// All SQL files of this program, in the order of their names.
pub(super) struct Source {
    pub(super) migrations: Vec<File>,
    pub(super) functions: Vec<File>,
}

/// One SQL file.
#[derive(Clone, Debug)]
pub(super) struct File {
    /// Without the ending, e.g. `0001_roles`.
    pub(super) name: &'static str,
    /// The number it starts with.
    pub(super) version: i32,
    /// Whom what it makes shall belong to, from its first line `-- owner: ROLE`.
    pub(super) owner: Option<&'static str>,
    pub(super) sql: &'static str,
    pub(super) sha256: String,
}

impl Source {
    pub(super) fn embedded() -> Source {
        Source { migrations: files(&MIGRATIONS), functions: files(&FUNCTIONS) }
    }

    pub(super) fn hash(&self) -> String {
        let mut hash = Sha256::new();
        for file in self.migrations.iter().chain(&self.functions) {
            hash.update(file.name);
            hash.update([0]);
            hash.update(&file.sha256);
        }
        hex(&hash.finalize())
    }
}

fn files(dir: &'static Dir<'static>) -> Vec<File> {
    let mut files: Vec<File> = dir.files().filter_map(file).collect();
    files.sort_by_key(|file| file.name);
    files
}

/// `None` for what is no numbered SQL file; a test makes sure that there is no such file.
fn file(file: &'static include_dir::File<'static>) -> Option<File> {
    let name = file.path().file_name()?.to_str()?.strip_suffix(".sql")?;
    let sql = file.contents_utf8()?;
    Some(File {
        name,
        version: name.split_once('_')?.0.parse().ok()?,
        owner: sql.lines().next().and_then(|line| line.strip_prefix("-- owner: ")).map(str::trim),
        sql,
        sha256: hex(&Sha256::digest(sql)),
    })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_is_taken_and_numbered_without_gap() {
        let source = Source::embedded();
        assert_eq!(source.migrations.len(), MIGRATIONS.files().count());
        assert_eq!(source.functions.len(), FUNCTIONS.files().count());
        let versions: Vec<i32> = source.migrations.iter().map(|file| file.version).collect();
        let expected: Vec<i32> = (1..).take(versions.len()).collect();
        assert_eq!(versions, expected);
    }

    #[test]
    fn owners_are_roles_of_ours() {
        let source = Source::embedded();
        for file in source.migrations.iter().chain(&source.functions) {
            let known = file.owner.is_none_or(|owner| ["jf_owner", "jf_fn", "jf_sys"].contains(&owner));
            assert!(known, "{}: {:?}", file.name, file.owner);
        }
        assert!(source.functions.iter().all(|file| file.owner.is_some()));
    }

    #[test]
    fn hashes_are_sha256() {
        assert_eq!(
            hex(&Sha256::digest("abc")),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
    }
}
