//! Runs the tools of contract developers against a plain `evmd start`. Each test runs a script in the folder `clients`.
//! `.ci/clients` installs the tools, and a script fails if its tool is missing.

use crate::development::PROGRAM;
use rustix::process::{Pid, Signal, kill_process_group};
use std::{path::Path, process::Stdio, time::Duration};
use testkit::NodeProcess;
use tokio::process::Command;

/// Maximum time of a suite. The slowest one takes 45 s on two busy cores.
const MAX_SUITE: Duration = Duration::from_secs(900);

/// The process group of a suite. Dropping this value kills the processes.
struct Group(Pid);

impl Drop for Group {
    fn drop(&mut self) {
        // The call fails if all processes have ended.
        let _ = kill_process_group(self.0, Signal::KILL);
    }
}

/// Runs a script with the addresses of a new node. The script must exit with 0, which means that all of its tests pass.
async fn run(program: &str, script: &str) {
    let folder = tempfile::tempdir().unwrap();
    let node = NodeProcess::start(Path::new(PROGRAM), &folder.path().join("home"), &[]);
    let endpoints = node.endpoints();
    let addresses =
        [format!("http://{}", endpoints.json_rpc), format!("ws://{}", endpoints.web_socket)];
    run_script(program, script, &addresses).await;
}

/// Runs a script in the folder `clients`. The script must exit with 0, which means that all of its tests pass.
pub(crate) async fn run_script(program: &str, script: &str, arguments: &[String]) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients").join(script);
    let child = Command::new(program)
        .arg(path)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .unwrap();
    let id = i32::try_from(child.id().unwrap()).unwrap();
    let _group = Group(Pid::from_raw(id).unwrap());
    let output = tokio::time::timeout(MAX_SUITE, child.wait_with_output()).await;
    let output =
        output.unwrap_or_else(|_| panic!("{script} ran longer than {MAX_SUITE:?}")).unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{script}\n{printed}\n{errors}");
    println!("{script}\n{printed}");
}

#[tokio::test]
#[ignore = "needs Hardhat and solc: run .ci/clients"]
async fn hardhat_suite_passes() {
    run("bash", "hardhat/run").await;
}

#[tokio::test]
#[ignore = "needs forge, cast and solc: run .ci/clients"]
async fn foundry_suite_passes() {
    run("bash", "foundry/run").await;
}

#[tokio::test]
#[ignore = "needs viem and solc: run .ci/clients"]
async fn viem_test_client_suite_passes() {
    run("node", "viem_test_client.cjs").await;
}

#[tokio::test]
#[ignore = "needs ethers and solc: run .ci/clients"]
async fn ethers_signer_suite_passes() {
    run("node", "ethers_signer.cjs").await;
}

#[tokio::test]
#[ignore = "needs web3.js and solc: run .ci/clients"]
async fn web3_js_suite_passes() {
    run("node", "web3_js.cjs").await;
}

#[tokio::test]
#[ignore = "needs web3.py and pytest: run .ci/clients"]
async fn web3_py_module_suite_passes() {
    run("python3", "web3_py_modules/run.py").await;
}
