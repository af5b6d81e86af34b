//! An S3-compatible server: the same as a directory, over HTTP.

use jobforge_artifacts::{Artifact, ArtifactError, Artifacts};
use jobforge_testkit::{TENANT_A, TENANT_B};

use crate::server::{Moody, Moto, store_at};

#[tokio::test]
async fn a_bucket_keeps_contents_by_tenant_and_an_altered_one_is_refused() {
    let moto = Moto::start().await;
    let store = store_at(moto.port);
    let artifact = Artifact::of("a large text");
    let reference = artifact.reference();
    for _ in 0..2 {
        store.put(TENANT_A, artifact.clone()).await.unwrap();
    }
    assert_eq!(store.get(TENANT_A, reference).await.unwrap(), "a large text");
    assert!(matches!(store.get(TENANT_B, reference).await, Err(ArtifactError::Missing { .. })));
    let hex = reference.id().hex();
    let key = format!("/some/prefix/{TENANT_A}/{}/{hex}", &hex[..2]);
    for (text, told) in [("A large text", "SHA-256"), ("a larger text", "13 bytes")] {
        let put = moto.request("PUT", &key, text).await;
        assert!(put.starts_with("HTTP/1.1 200"), "{put}");
        match store.get(TENANT_A, reference).await {
            Err(ArtifactError::Altered { detail, .. }) => assert!(detail.contains(told), "{detail}"),
            other => panic!("{text}: {other:?}"),
        }
    }
    for _ in 0..2 {
        store.delete(TENANT_A, reference.id()).await.unwrap();
    }
    assert!(matches!(store.get(TENANT_A, reference).await, Err(ArtifactError::Missing { .. })));
    // Without the bucket nothing is known of any object.
    let gone = moto.request("DELETE", "", "").await;
    assert!(gone.starts_with("HTTP/1.1 204"), "{gone}");
    let error = store.get(TENANT_A, reference).await.unwrap_err();
    assert!(error.is_transient(), "{error:?}");
    assert!(store.put(TENANT_A, artifact).await.is_err());
}

#[tokio::test]
async fn a_server_that_fails_is_told_apart_from_a_missing_object() {
    let moody = Moody::start().await;
    let store = store_at(moody.port);
    let artifact = Artifact::of("a large text");
    let reference = artifact.reference();
    moody.set_broken(true);
    for error in [
        store.put(TENANT_A, artifact.clone()).await.unwrap_err(),
        store.get(TENANT_A, reference).await.unwrap_err(),
        store.delete(TENANT_A, reference.id()).await.unwrap_err(),
    ] {
        assert!(error.is_transient(), "{error:?}");
    }
    moody.set_broken(false);
    store.put(TENANT_A, artifact).await.unwrap();
    assert_eq!(store.get(TENANT_A, reference).await.unwrap(), "a large text");
}
