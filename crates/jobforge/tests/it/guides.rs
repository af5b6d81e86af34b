//! Every example in README, guides and error pages runs: the story that walks them, on the executable under test.

use std::path::Path;
use std::process::Command;

#[test]
fn every_example_in_the_documents_runs() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let told = Command::new("python3")
        .args(["-B", "acceptance/22_guides.py"])
        .current_dir(root)
        .env("ACCEPTANCE_JOBFORGE", env!("CARGO_BIN_EXE_jobforge"))
        .output()
        .unwrap();
    assert!(
        told.status.success(),
        "{}{}",
        String::from_utf8_lossy(&told.stdout),
        String::from_utf8_lossy(&told.stderr)
    );
}
