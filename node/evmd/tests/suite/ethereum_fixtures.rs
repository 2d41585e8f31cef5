//! Runs conformance fixtures in the format of execution-spec-tests, and imports whole chains.
//!
//! A small sample written by this project always runs. `.ci/fixtures` unpacks third-party fixtures. `cargo test -p evmd
//! --test suite third_party_fixtures -- --ignored` then runs a part of them, or all of them if `EVMD_LONG_TESTS` is
//! set: every state test, blockchain test, precompile test and chain (`chain.rlp` in a folder with `genesis.json`)
//! below `EVMD_FIXTURES`.

use crate::{common, fixtures};
use std::path::Path;

/// The default run takes one of this many files of each kind.
const SAMPLE_EVERY: usize = 25;

fn check(root: &Path, every: usize) {
    let report = fixtures::run(root, every);
    println!("{report}");
    assert!(report.passed() > 0, "no fixtures under {}", root.display());
    assert_eq!(report.failed(), 0, "see the list above and docs/conformance.md");
}

#[test]
fn own_fixtures_pass() {
    check(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/samples"), 1);
}

#[test]
#[ignore = "needs EVMD_FIXTURES: run .ci/fixtures"]
fn third_party_fixtures_pass() {
    let every = if std::env::var_os("EVMD_LONG_TESTS").is_some() { 1 } else { SAMPLE_EVERY };
    check(&common::fixtures(""), every);
}
