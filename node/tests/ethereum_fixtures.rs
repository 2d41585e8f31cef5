//! Conformance: fixtures in the format of execution-spec-tests, and whole chains.
//!
//! `EVMD_FIXTURES=DIR cargo test --release -p node --test ethereum_fixtures` runs every state test,
//! blockchain test and chain (`chain.rlp` beside `genesis.json`) found under DIR. Without the
//! variable a small sample written by this project runs.

#[allow(clippy::unwrap_used, reason = "a broken fixture must stop the test")]
mod fixtures;

use std::path::{Path, PathBuf};

#[test]
fn ethereum_fixtures() {
    let root = std::env::var_os("EVMD_FIXTURES").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/samples"),
        PathBuf::from,
    );
    let report = fixtures::run(&root);
    println!("{report}");
    assert!(report.passed() > 0, "no fixtures under {}", root.display());
    assert_eq!(report.failed(), 0, "see the list above and docs/conformance.md");
}
