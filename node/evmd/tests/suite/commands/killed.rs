//! Tests that a command that is killed at any time leaves the keyring either unchanged or completely changed.

use std::{
    collections::BTreeSet,
    path::Path,
    process::{Command, Stdio},
};

/// Number of killed commands.
const ROUNDS: u32 = 40;

fn keys(home: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_evmd"));
    command.arg("keys").args(args).args(["--keyring-backend", "test", "--home"]).arg(home);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    command
}

fn names(home: &Path) -> BTreeSet<String> {
    let output = keys(home, &["list", "-n", "-o", "json"]).output().unwrap();
    assert!(output.status.success(), "the keyring is damaged");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn killed_command_leaves_a_valid_keyring() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path();
    // The kills are spread over 1.5 times the duration of this command.
    let begun = std::time::Instant::now();
    assert!(keys(home, &["add", "first"]).status().unwrap().success());
    let duration = begun.elapsed();
    let mut before = names(home);
    let mut stored = 0;
    for round in 0..ROUNDS {
        let name = format!("key{round}");
        let mut child = keys(home, &["add", &name]).spawn().unwrap();
        let fraction = f64::from(round * 7 % ROUNDS) / f64::from(ROUNDS) * 1.5;
        std::thread::park_timeout(duration.mul_f64(fraction));
        child.kill().unwrap();
        child.wait().unwrap();
        let after = names(home);
        let added: Vec<_> = after.difference(&before).collect();
        assert!(before.is_subset(&after) && added.iter().all(|added| **added == name));
        stored += added.len();
        before = after;
    }
    println!("{stored} of {ROUNDS} killed commands had stored their key");
    // The next change removes leftover temporary files.
    assert!(keys(home, &["add", "last"]).status().unwrap().success());
    let files = std::fs::read_dir(home.join("keyring-test")).unwrap();
    assert_eq!(files.count(), 2, "only the keyring and its lock remain");
}
