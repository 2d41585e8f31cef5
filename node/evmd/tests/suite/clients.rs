//! Runs client libraries of wallets and explorers (viem, ethers, web3.py) against a node. `.ci/clients` installs
//! them; they are found through `NODE_PATH` and `PYTHONPATH`.

use crate::client::{MAX_WAIT, Node};
use crate::common::{native_home, producing};
use alloy_primitives::{hex, keccak256};
use chain::DEV_ACCOUNTS;
use std::{path::Path, time::Duration};
use tokio::process::Command;

/// Long enough that the base fee, which decreases with each empty block, and the suggested priority fee stay above the
/// pool's minimum while a script runs.
const BLOCK_TIME: Duration = Duration::from_millis(200);

/// Returns the init code of a contract. Called without input, the contract stores 1 in slot 0 and logs `Stored(42)`;
/// with input, it reverts with `nope`.
fn contract() -> Vec<u8> {
    let mut code = hex!("36603c57602a6000527f").to_vec();
    code.extend(keccak256("Stored(uint256)"));
    code.extend(hex!("60206000a1600160005500"));
    assert!(code.len() < 0x3c);
    code.resize(0x3c, 0);
    code.extend(hex!("5b6064604b60003960646000fd"));
    assert!(code.len() <= 0x4b);
    code.resize(0x4b, 0);
    code.extend(hex!("08c379a0"));
    for word in [0x20, 4] {
        code.extend([0; 31]);
        code.push(word);
    }
    code.extend(b"nope");
    code.extend([0; 28]);
    let init = [0x60, code.len() as u8, 0x80, 0x60, 0x09, 0x3d, 0x39, 0x3d, 0xf3];
    [&init[..], &code].concat()
}

/// Runs a script, whose output must end with `ok`.
async fn run(program: &str, script: &str, account: usize) {
    let folder = tempfile::tempdir().unwrap();
    let home = native_home(folder.path());
    let node = Node::start(folder, home, producing(Some(BLOCK_TIME))).await;
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients").join(script);
    let child = Command::new(program)
        .arg(path)
        .arg(format!("http://{}", node.json_rpc))
        .arg(format!("ws://{}", node.web_socket))
        .arg(DEV_ACCOUNTS[account].private_key.to_string())
        .arg(hex::encode_prefixed(contract()))
        .kill_on_drop(true)
        .output();
    let output = tokio::time::timeout(MAX_WAIT, child).await.expect("it ends").unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{script}\n{stdout}\n{stderr}");
    assert!(stdout.trim_end().ends_with("ok"), "{script}\n{stdout}\n{stderr}");
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs viem and ws: run .ci/clients"]
async fn viem_works_with_a_node() {
    run("node", "viem.cjs", 0).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs ethers: run .ci/clients"]
async fn ethers_works_with_a_node() {
    run("node", "ethers.cjs", 1).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs web3.py: run .ci/clients"]
async fn web3_py_works_with_a_node() {
    run("python3", "web3_py.py", 2).await;
}
