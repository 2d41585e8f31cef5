//! Tests commands that have no recorded session on a running node: simulating, waiting for a transaction, querying
//! block results, and drafting a proposal.

use crate::common::transfer;
use alloy_primitives::{Address, hex};
use serde_json::Value;
use std::{
    io::Write,
    path::Path,
    process::{Command, Stdio},
};
use testkit::NodeProcess;

const DEV_KEY: &str = "ac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80";
const RECEIVER: &str = "0x00000000000000000000000000000000000000aa";

/// Runs commands against the node of a home folder.
struct Commands<'a> {
    home: &'a Path,
}

impl Commands<'_> {
    /// Runs the space-separated words of `line`. Returns the exit code, standard output and standard error.
    fn run(&self, line: &str, input: &str) -> (i32, String, String) {
        let mut child = Command::new(env!("CARGO_BIN_EXE_evmd"))
            .args(line.split(' '))
            .env_remove("EVMD_NODE")
            .env("EVMD_HOME", self.home)
            .env("EVMD_KEYRING_BACKEND", "test")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // A command that reads no input may already have ended, in which case the write fails.
        drop(child.stdin.take().unwrap().write_all(input.as_bytes()));
        let output = child.wait_with_output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
    }

    fn succeed(&self, line: &str) -> String {
        let (code, out, err) = self.run(line, "");
        assert_eq!(code, 0, "{line}: {err}");
        out
    }

    fn json(&self, line: &str) -> Value {
        serde_json::from_str(&self.succeed(&format!("{line} -o json"))).unwrap()
    }
}

#[test]
fn transaction_is_simulated_sent_and_awaited() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("home");
    let commands = Commands { home: &home };
    let program = Path::new(env!("CARGO_BIN_EXE_evmd"));
    let _node = NodeProcess::start(program, &home, &["--block-time", "50ms"]);
    commands.succeed(&format!("keys unsafe-import-eth-key val {DEV_KEY}"));

    // An unsigned transaction is simulated with the signer in the file, and with the key of `--from`.
    let unsigned = format!("tx bank send val {RECEIVER} 7atest --gas 200000 --generate-only");
    let file = folder.path().join("tx.json");
    std::fs::write(&file, commands.succeed(&unsigned)).unwrap();
    for from in ["", " --from val"] {
        let simulated = commands.json(&format!("tx simulate {}{from}", file.display()));
        let gas: u64 = simulated["gas_info"]["gas_used"].as_str().unwrap().parse().unwrap();
        assert!((21_000..200_000).contains(&gas), "{simulated}");
    }
    std::fs::write(&file, r#"{"body":{"messages":[]}}"#).unwrap();
    let (code, _, err) = commands.run(&format!("tx simulate {}", file.display()), "");
    assert!(code == 1 && err.contains("no signer: name one with --from"), "{err}");

    let raw = hex::encode_prefixed(transfer(0, 0, Address::repeat_byte(0x77)));
    let sent = commands.json(&format!("tx evm raw {raw} -y"));
    let hash = sent["txhash"].as_str().unwrap();
    let mined = commands.json(&format!("query wait-tx {hash} --timeout 30s"));
    assert_eq!(mined["tx_response"]["code"], 0, "{mined}");
    let (code, out, err) = commands.run("query wait-tx -o json", &sent.to_string());
    assert_eq!((code, serde_json::from_str::<Value>(&out).unwrap()), (0, mined.clone()), "{err}");
    let other = "11".repeat(32);
    let (code, _, err) = commands.run(&format!("query wait-tx {other} --timeout 100ms"), "");
    let reason = format!("error: the transaction {other} was not mined within 100ms (--timeout)\n");
    assert_eq!((code, err), (1, reason));

    let height = mined["tx_response"]["height"].as_str().unwrap();
    let results = commands.json(&format!("query block-results {height}"));
    assert_eq!(results["height"], height);
    assert_eq!(results["txs_results"][0]["gas_used"], "21000", "{results}");
    assert!(commands.succeed("q block-results").contains("finalize_block_events:\n"));
    let (code, _, err) = commands.run("q block-results 999999999", "");
    assert!(code == 1 && err.contains("must be less than or equal to"), "{err}");
}

#[test]
fn draft_of_a_proposal_has_the_token_of_the_chain() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("home");
    let commands = Commands { home: &home };
    let file = folder.path().join("genesis.json");
    let genesis_path = file.display();
    commands.succeed(&format!("genesis add-genesis-account {RECEIVER} 5 --file {genesis_path}"));
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.contains("atest"), "{text}");
    std::fs::write(&file, text.replace("atest", "acoin")).unwrap();
    commands.succeed(&format!("init --genesis {genesis_path}"));
    let program = Path::new(env!("CARGO_BIN_EXE_evmd"));
    let node = NodeProcess::start(program, &home, &[]);
    let of_home = commands.succeed("tx gov draft-proposal");
    let url = format!("http://{}", node.endpoints().comet);
    let of_node = commands.succeed(&format!("tx gov draft-proposal --node {url}"));
    assert_eq!(of_home, of_node);
    let draft: Value = serde_json::from_str(&of_home).unwrap();
    assert_eq!(draft["deposit"], "10000000acoin");
    let authority = draft["messages"][0]["authority"].as_str().unwrap();
    assert_eq!(authority, "cosmos10d07y265gmmuvt4z0w9aw880jnsr700j6zn9kn");
}
