//! Tests that commands whose standard output was closed by the reader, as in `evmd ... | true`, end with their own
//! errors and exit codes.

use crate::common::native_home;
use std::{
    io::Write,
    path::Path,
    process::{Command, ExitStatus, Stdio},
};

/// Returns the exit status and standard error of a command whose standard output is a pipe without a reader.
fn run_unread(home: &Path, args: &[&str]) -> (ExitStatus, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_evmd"))
        .args(args)
        .arg("--home")
        .arg(home)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    (output.status, String::from_utf8(output.stderr).unwrap())
}

#[test]
fn error_after_a_closed_output_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("home");
    drop(native_home(&home));
    let invalid = folder.path().join("invalid.rlp");
    std::fs::write(&invalid, b"hello").unwrap();
    let invalid = invalid.to_str().unwrap();
    for output in ["text", "json"] {
        let (status, error) = run_unread(&home, &["import", invalid, "-o", output]);
        assert_eq!(status.code(), Some(1), "{error}");
        assert!(error.contains("error: ") && error.contains("invalid.rlp"), "{error}");
    }
    // `doctor` reports failed checks.
    let none = folder.path().join("none");
    let (status, error) = run_unread(&none, &["doctor"]);
    assert!(status.code() == Some(1) && error.contains("error: "), "{error}");
}

#[test]
fn successful_command_ends_with_0_after_a_closed_output() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("home");
    for args in [&["init"][..], &["config", "show"], &["import", "/dev/null"], &["export", "-"]] {
        let (status, error) = run_unread(&home, args);
        // There is no block to export.
        let expected = if args[0] == "export" { Some(1) } else { Some(0) };
        assert_eq!(status.code(), expected, "{args:?}: {error}");
    }
}

/// Otherwise, `yes 0x02 | evmd debug recover | head` would never end.
#[test]
fn line_command_ends_when_its_output_is_closed() {
    for (command, line) in [("recover", "0x02\n"), ("basefee", "{}\n")] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_evmd"))
            .args(["debug", command])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let mut input = child.stdin.take().unwrap();
        // Writing fails after the process has ended.
        let lines = line.repeat(1_000);
        while input.write_all(lines.as_bytes()).is_ok() {}
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{command}: {output:?}");
    }
}
