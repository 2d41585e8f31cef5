//! Tests the environment variable that forces a backend. A test must not change the environment of its own
//! process, which other tests share, so this program runs itself as a child process.

use secp256k1_batch_recovery::{BACKEND_VARIABLE, Backend};
use std::process::Command;

/// Returns the output of a process that detects its backend with the variable set to `name`.
fn detected_with(name: &str) -> String {
    let itself = std::env::current_exe().expect("the path of this test");
    let output = Command::new(itself)
        .args(["--exact", "prints_the_detected_backend", "--nocapture"])
        .env(BACKEND_VARIABLE, name)
        .output()
        .expect("the child process runs");
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn prints_the_detected_backend() {
    match Backend::detect() {
        Ok(backend) => println!("uses {backend}."),
        Err(error) => println!("refuses: {error}"),
    }
}

#[test]
fn every_available_backend_can_be_forced() {
    for backend in Backend::available() {
        let output = detected_with(backend.name());
        assert!(output.contains(&format!("uses {backend}.")), "{output}");
    }
}

#[test]
fn an_unknown_backend_is_refused_by_name() {
    let output = detected_with("sse9");
    assert!(output.contains("refuses: EVMD_VERIFY_BACKEND=sse9: no such backend"), "{output}");
    assert!(output.contains("use one of: scalar"), "{output}");
}
