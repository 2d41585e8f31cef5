//! Commands whose reader has gone, as in `evmd ... | true`: their errors and exit codes are their own.

use crate::common::native_home;
use std::{
    io::Write,
    path::Path,
    process::{Command, ExitStatus, Stdio},
};

/// Exit status and standard error of a command whose standard output is a pipe without a reader.
fn unread(home: &Path, args: &[&str]) -> (ExitStatus, String) {
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
fn an_error_after_unread_output_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("home");
    drop(native_home(&home));
    let bad = folder.path().join("bad.rlp");
    std::fs::write(&bad, b"hello").unwrap();
    let bad = bad.to_str().unwrap();
    for output in ["text", "json"] {
        let (status, error) = unread(&home, &["import", bad, "-o", output]);
        assert_eq!(status.code(), Some(1), "{error}");
        assert!(error.contains("error: ") && error.contains("bad.rlp"), "{error}");
    }
    // A report of failed checks.
    let none = folder.path().join("none");
    let (status, error) = unread(&none, &["doctor"]);
    assert!(status.code() == Some(1) && error.contains("error: "), "{error}");
}

#[test]
fn a_command_that_succeeds_ends_with_0_unread_too() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("home");
    for args in [&["init"][..], &["config", "show"], &["import", "/dev/null"], &["export", "-"]] {
        let (status, error) = unread(&home, args);
        // There is no block to export.
        let expected = if args[0] == "export" { Some(1) } else { Some(0) };
        assert_eq!(status.code(), expected, "{args:?}: {error}");
    }
}

/// What reads lines until there are no more would never end behind `head`.
#[test]
fn a_command_that_answers_lines_ends_when_its_reader_has_gone() {
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
        // The pipe breaks when the process has ended.
        let lines = line.repeat(1_000);
        while input.write_all(lines.as_bytes()).is_ok() {}
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{command}: {output:?}");
    }
}
