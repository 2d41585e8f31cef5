//! Tests the report of a mapped file that cannot be read (`platform::sigbus`) with a home folder.

use crate::Home;
use chain::Genesis;
use std::{
    fs::File,
    os::unix::process::ExitStatusExt,
    path::Path,
    process::{Command, Stdio},
};

/// Set for a child process: the home folder whose chain it truncates.
const CHILD_HOME: &str = "EVMD_TEST_SIGBUS_HOME";

/// Runs in the child process of the test below; does nothing in an ordinary test run.
#[test]
fn child_reads_a_truncated_file() {
    let Some(home) = std::env::var_os(CHILD_HOME) else { return };
    let path = Path::new(&home);
    let home = Home::open(path).expect("a home");
    let data = File::options().write(true).open(home.chain.path().join("data.mdb"));
    data.and_then(|file| file.set_len(8192)).expect("truncated");
    let head = home.chain.reader().and_then(|blocks| blocks.head());
    println!("still there: {head:?}");
}

#[test]
fn a_file_that_is_truncated_while_in_use_is_reported() {
    let folder = tempfile::tempdir().expect("a folder");
    drop(Home::init(folder.path(), &Genesis::native_dev(1_700_000_000)).expect("a chain"));
    let child = Command::new(std::env::current_exe().expect("a path"))
        .args(["--exact", "sigbus_tests::child_reads_a_truncated_file", "--nocapture"])
        .env(CHILD_HOME, folder.path())
        .stdin(Stdio::null())
        .output()
        .expect("a child");
    let text = String::from_utf8_lossy(&child.stderr);
    assert_eq!(child.status.signal(), Some(libc::SIGBUS), "{:?} {text}", child.status);
    for part in ["SIGBUS", "truncated", "evmd doctor", &folder.path().display().to_string()] {
        assert!(text.contains(part), "{text}");
    }
}
