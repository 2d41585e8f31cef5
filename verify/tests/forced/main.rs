//! The environment variable that forces a backend. Only a new process sees a changed value, so this
//! test runs itself as a child process.

use secp256k1_batch_recovery::{BACKEND_VARIABLE, Backend};
use std::process::Command;

/// The backend that a process with the variable set to `name` detects.
fn detected_with(name: &str) -> String {
    let itself = std::env::current_exe().expect("the path of this test");
    let output = Command::new(itself)
        .args(["--exact", "prints_the_detected_backend", "--nocapture"])
        .env(BACKEND_VARIABLE, name)
        .output()
        .expect("a process");
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
        let said = detected_with(backend.name());
        assert!(said.contains(&format!("uses {backend}.")), "{said}");
    }
}

#[test]
fn an_unknown_backend_is_refused_by_name() {
    let said = detected_with("sse9");
    assert!(said.contains("refuses: EVMD_VERIFY_BACKEND=sse9: no such backend"), "{said}");
    assert!(said.contains("use one of: scalar"), "{said}");
}
