//! Tests `evmd db inspect` on a running and on a stopped node.

use serde_json::Value;
use std::{path::Path, process::Command};
use testkit::NodeProcess;

fn inspect(home: &Path, more: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_evmd"));
    let output = command.args(["db", "inspect", "--home"]).arg(home).args(more).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Returns the number of rows of a table of the environment `chain`. The sizes of the tables must add up.
fn rows(home: &Path, table: &str) -> u64 {
    let shown: Value = serde_json::from_str(&inspect(home, &["-o", "json"])).unwrap();
    let chain = &shown["environments"][0];
    assert_eq!(chain["name"], "chain");
    let tables = chain["tables"].as_array().unwrap();
    let bytes: u64 = tables.iter().map(|table| table["bytes"].as_u64().unwrap()).sum();
    let sum = bytes + chain["otherBytes"].as_u64().unwrap();
    assert_eq!(sum, chain["usedBytes"].as_u64().unwrap());
    let found = tables.iter().find(|row| row["name"] == table).unwrap();
    found["rows"].as_u64().unwrap()
}

#[test]
fn tables_are_listed_with_rows_and_bytes_while_the_node_runs_or_is_stopped() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("home");
    let program = Path::new(env!("CARGO_BIN_EXE_evmd"));
    let mut node = NodeProcess::start(program, &home, &["--no-produce"]);
    assert_eq!(rows(&home, "headers"), 1);
    node.stop();
    assert_eq!(rows(&home, "headers"), 1);
    let text = inspect(&home, &[]);
    let lines: Vec<_> = text.lines().collect();
    assert!(lines[0].starts_with("environment  table"), "{text}");
    for name in ["chain        headers ", "index        accounts ", "index        (total) "] {
        assert!(lines.iter().any(|line| line.starts_with(name)), "{text}");
    }
}
