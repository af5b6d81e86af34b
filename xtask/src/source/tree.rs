//! The repository as a map from path to text. Rules judge this map and nothing else, so that a test can feed
//! them a repository of two lines.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use anyhow::{Context, Result};

/// Build output, dependencies and databases: never ours to judge, and large.
const SKIPPED_DIRS: [&str; 5] = ["target", "node_modules", "results", "dist", "__pycache__"];

/// Hidden directories that belong to the repository; all others (`.git`, `.jobforge`) do not.
const HIDDEN_DIRS: [&str; 3] = [".cargo", ".ci", ".config"];

/// Every file of the repository, keyed by its path with forward slashes.
#[derive(Default)]
pub(crate) struct Tree {
    files: BTreeMap<String, String>,
}

impl Tree {
    pub(crate) fn load(root: &Path) -> Result<Self> {
        let mut tree = Self::default();
        tree.read_dir(root, "")?;
        Ok(tree)
    }

    #[cfg(test)]
    pub(crate) fn of(files: &[(&str, &str)]) -> Self {
        Self { files: files.iter().map(|(path, text)| ((*path).into(), (*text).into())).collect() }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files.iter().map(|(path, text)| (path.as_str(), text.as_str()))
    }

    /// The files below a directory, which is given with its slash.
    pub(crate) fn under<'a>(&'a self, dir: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.iter().filter(move |(path, _)| path.starts_with(dir))
    }

    pub(crate) fn get(&self, path: &str) -> Option<&str> {
        self.files.get(path).map(String::as_str)
    }

    /// Whether a file or directory of this name is there.
    pub(crate) fn has_path(&self, path: &str) -> bool {
        let path = path.trim_end_matches('/');
        self.files.contains_key(path) || self.under(&format!("{path}/")).next().is_some()
    }

    fn read_dir(&mut self, dir: &Path, prefix: &str) -> Result<()> {
        for entry in fs::read_dir(dir).with_context(|| format!("list {}", dir.display()))? {
            let entry = entry.with_context(|| format!("list {}", dir.display()))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = format!("{prefix}{name}");
            let kind = entry.file_type().with_context(|| format!("look at {path}"))?;
            if kind.is_dir() && is_ours(&name) {
                self.read_dir(&entry.path(), &format!("{path}/"))?;
            } else if kind.is_file() {
                match fs::read(entry.path()) {
                    // A picture or an archive has a name to judge, but no text.
                    Ok(bytes) => drop(self.files.insert(path, String::from_utf8(bytes).unwrap_or_default())),
                    // An editor's or a compiler's temporary file, gone since the directory was listed.
                    Err(error) if error.kind() == ErrorKind::NotFound => {}
                    Err(error) => return Err(error).with_context(|| format!("read {path}")),
                }
            }
        }
        Ok(())
    }
}

fn is_ours(dir: &str) -> bool {
    !SKIPPED_DIRS.contains(&dir) && (!dir.starts_with('.') || HIDDEN_DIRS.contains(&dir))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_repository_is_read_without_build_output() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("repository");
        let tree = Tree::load(root).expect("readable repository");
        assert!(tree.get("xtask/src/source/tree.rs").is_some());
        assert!(tree.has_path("xtask/src"));
        assert!(tree.iter().all(|(path, _)| !path.starts_with("target/") && !path.starts_with(".git/")));
    }
}
