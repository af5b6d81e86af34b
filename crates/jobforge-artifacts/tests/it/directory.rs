//! A directory: closed to others, written whole, read only as it was written.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use jobforge_artifacts::{Artifact, ArtifactError, ArtifactStore, Artifacts, Limits, Place, PlaceError};
use jobforge_testkit::{TENANT_A, TENANT_B};

use crate::{in_directory, limits};

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// Where tenant A's object is.
fn file(dir: &Path, artifact: &Artifact) -> PathBuf {
    let hex = artifact.reference().id().hex();
    dir.join("artifacts").join(TENANT_A.to_string()).join(&hex[..2]).join(hex)
}

#[tokio::test]
async fn what_is_written_is_read_by_its_tenant_alone() {
    let dir = tempfile::tempdir().unwrap();
    let store = in_directory(dir.path());
    let artifact = Artifact::of("a large text");
    let reference = artifact.reference();
    for _ in 0..2 {
        store.put(TENANT_A, artifact.clone()).await.unwrap();
    }
    assert_eq!(store.get(TENANT_A, reference).await.unwrap(), "a large text");
    assert!(matches!(store.get(TENANT_B, reference).await, Err(ArtifactError::Missing { .. })));
    let file = file(dir.path(), &artifact);
    assert_eq!((mode(&dir.path().join("artifacts")), mode(&file)), (0o700, 0o600));
    // What a write that was cut off left behind goes with the object.
    let cut_off = PathBuf::from(format!("{}#1", file.display()));
    fs::write(&cut_off, "a lar").unwrap();
    store.delete(TENANT_B, reference.id()).await.unwrap();
    assert!(file.exists());
    for _ in 0..2 {
        store.delete(TENANT_A, reference.id()).await.unwrap();
    }
    assert!(!file.exists() && !cut_off.exists());
    assert!(matches!(store.get(TENANT_A, reference).await, Err(ArtifactError::Missing { .. })));
}

#[tokio::test]
async fn what_was_altered_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let store = in_directory(dir.path());
    let artifact = Artifact::of("a large text");
    store.put(TENANT_A, artifact.clone()).await.unwrap();
    for (text, told) in
        [("A large text", "SHA-256"), ("a larger text", "13 bytes instead of 12"), ("", "0 bytes")]
    {
        fs::write(file(dir.path(), &artifact), text).unwrap();
        match store.get(TENANT_A, artifact.reference()).await {
            Err(ArtifactError::Altered { detail, .. }) => assert!(detail.contains(told), "{detail}"),
            other => panic!("{text}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn what_is_too_large_is_neither_written_nor_read() {
    let dir = tempfile::tempdir().unwrap();
    let place = Place::Directory(dir.path().join("artifacts"));
    let small = ArtifactStore::open(&place, Limits { max_bytes: 4, ..limits() }).unwrap();
    let artifact = Artifact::of("12345");
    let reference = artifact.reference();
    let is_too_large = |error| matches!(error, ArtifactError::TooLarge { bytes: 5, max: 4 });
    assert!(small.put(TENANT_A, artifact.clone()).await.is_err_and(is_too_large));
    assert!(!file(dir.path(), &artifact).exists());
    in_directory(dir.path()).put(TENANT_A, artifact).await.unwrap();
    assert!(small.get(TENANT_A, reference).await.is_err_and(is_too_large));
}

/// A volume that is not mounted holds everything again in a moment: nothing is missing for good.
#[tokio::test]
async fn a_directory_that_is_away_is_no_missing_object() {
    let dir = tempfile::tempdir().unwrap();
    let store = in_directory(dir.path());
    let artifact = Artifact::of("a large text");
    store.put(TENANT_A, artifact.clone()).await.unwrap();
    fs::rename(dir.path().join("artifacts"), dir.path().join("away")).unwrap();
    let error = store.get(TENANT_A, artifact.reference()).await.unwrap_err();
    assert!(error.is_transient(), "{error:?}");
    assert!(store.delete(TENANT_A, artifact.reference().id()).await.is_err());
}

#[test]
fn a_directory_that_others_may_enter_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let opened = ArtifactStore::open(&Place::Directory(dir.path().to_owned()), limits());
    assert!(matches!(opened, Err(PlaceError::Directory { .. })));
}
