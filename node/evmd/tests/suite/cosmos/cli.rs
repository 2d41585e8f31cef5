//! Compares the output of `evmd query`, which uses REST, with expected text.

use super::served::{FORKING, Served};
use crate::client::Node;
use crate::common::transfer;
use alloy_primitives::{Address, hex};
use serde_json::{Value, json};
use std::process::{Command, Output, Stdio};

const ALICE: &str = "cosmos17w0adeg64ky0daxwd2ugyuneellmjgnxramjtq";
const ALICE_HEX: &str = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266";

/// Runs `evmd query`; returns exit code, standard output and standard error.
async fn query(served: &Served, args: &str) -> (i32, String, String) {
    let node = format!("http://{}", served.node.rest);
    let output = evmd(&format!("query {args} --node {node}")).await;
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

/// Runs `evmd` until it exits.
async fn evmd(args: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_evmd"));
    command.args(args.split(' ')).env_remove("EVMD_HOME");
    let run = move || {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let starting = FORKING.blocking_lock();
        let child = command.spawn().unwrap();
        drop(starting);
        child.wait_with_output().unwrap()
    };
    tokio::task::spawn_blocking(run).await.unwrap()
}

/// Returns the standard output of a query, which must succeed.
async fn output(served: &Served, args: &str) -> String {
    let (code, out, err) = query(served, args).await;
    assert_eq!(code, 0, "{args}: {err}");
    out
}

#[tokio::test(flavor = "multi_thread")]
async fn query_output_equals_the_recorded_one() {
    let served = Served::start().await;
    served.node.wait_for("eth_getBlockByNumber", json!(["0x1", false])).await;
    let account = format!(
        "account:\n  type: /cosmos.auth.v1beta1.BaseAccount\n  value:\n    account_number: \"0\"\n    \
         address: {ALICE}\n    public_key: null\n    sequence: \"0\"\n"
    );
    for address in [ALICE, ALICE_HEX] {
        assert_eq!(output(&served, &format!("auth account {address}")).await, account);
    }
    let compact = format!(
        "{{\"account\":{{\"type\":\"/cosmos.auth.v1beta1.BaseAccount\",\"value\":{{\
         \"account_number\":\"0\",\"address\":\"{ALICE}\",\"public_key\":null,\"sequence\":\"0\"}}}}}}\n"
    );
    assert_eq!(output(&served, &format!("auth account {ALICE} -o json --height 1")).await, compact);
    let module = output(&served, "auth module-account gov").await;
    assert!(module.contains("    name: gov\n    permissions:\n    - burner\n"), "{module}");
    let all: Value = serde_json::from_str(&output(&served, "auth accounts -o json").await).unwrap();
    assert!(all["accounts"].as_array().unwrap().len() >= 10);
    assert!(output(&served, "auth module-accounts").await.contains("name: fee_collector"));
    assert!(output(&served, "auth params").await.contains("tx_sig_limit: \"7\""));
    assert_eq!(
        output(&served, &format!("bank balances {ALICE}")).await,
        "balances:\n- amount: \"10000000000000000000000\"\n  denom: atest\n\
         pagination:\n  next_key: null\n  total: \"1\"\n"
    );
    assert_eq!(
        output(&served, &format!("bank balances {ALICE} --denom atest -o json")).await,
        "{\"balance\":{\"denom\":\"atest\",\"amount\":\"10000000000000000000000\"}}\n"
    );
    let hash = "0xc5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470";
    assert_eq!(
        output(&served, &format!("evm account {ALICE_HEX}")).await,
        format!("balance: \"10000000000000000000000\"\ncode_hash: \"{hash}\"\nnonce: \"0\"\n")
    );
    let slot = format!("{{\"value\":\"0x{:064x}\"}}\n", 0);
    assert_eq!(output(&served, &format!("evm storage {ALICE_HEX} 0x0 -o json")).await, slot);
    assert_eq!(output(&served, &format!("evm code {ALICE_HEX}")).await, "code: null\n");
    assert!(output(&served, "evm params").await.contains("  evm_denom: atest\n"));
    assert_eq!(output(&served, "evm base-fee --height 1").await, "base_fee: \"875000000\"\n");
    let block = output(&served, "block 1").await;
    assert!(block.contains("    chain_id: \"262144\"\n"), "{block}");
    let other = output(&served, "block --height 2").await;
    assert!(other.contains("    height: \"2\"\n"), "{other}");
    let (code, _, err) = query(&served, "block 1 --height 2").await;
    assert!(code == 2 && err.contains("cannot be used with '--height"), "{err}");
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn transactions_are_found_and_missing_items_are_errors() {
    let served = Served::start().await;
    let raw = transfer(0, 0, Address::repeat_byte(0x77));
    let hash =
        served.node.call("eth_sendRawTransaction", json!([hex::encode_prefixed(&raw)])).await;
    served.node.wait_for("eth_getTransactionReceipt", json!([hash])).await;
    let tx = output(&served, &format!("tx {}", hash.as_str().unwrap())).await;
    assert!(tx.contains("tx_response:\n  code: 0\n"), "{tx}");
    for (args, reason) in [
        (
            "tx 12",
            "rpc error: code = InvalidArgument desc = invalid hash: expected 64 hex digits, got 2",
        ),
        ("auth account cosmos1xyz", "rpc error: code = InvalidArgument desc = invalid address: "),
        (
            "auth account 0x00000000000000000000000000000000000000aa",
            "rpc error: code = NotFound desc = ",
        ),
        ("block 999999", "rpc error: code = InvalidArgument desc = block 999999 does not exist"),
    ] {
        let (code, out, err) = query(&served, args).await;
        assert_eq!((code, out.as_str()), (1, ""), "{args}: {err}");
        assert!(err.starts_with(&format!("error: {reason}")), "{err}");
        assert_eq!(err.lines().count(), 1, "{err}");
    }
    served.stop().await;
}

/// Returns the standard error of a command, which must fail.
async fn error_of(args: String) -> String {
    let output = evmd(&args).await;
    assert!(!output.status.success());
    String::from_utf8(output.stderr).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn scheme_tcp_is_another_name_of_http() {
    let served = Served::start().await;
    let node = format!("tcp://{}", served.node.rest);
    let (code, _, err) = query(&served, "block 1").await;
    assert_eq!(code, 0, "{err}");
    let error = error_of(format!("query block latest-1 --node {node}")).await;
    assert!(error.contains("latest, safe or finalized"), "{error}");
    served.stop().await;
}

/// `evmd status` obtains the metrics address over JSON-RPC if the node serves `evmd_endpoints`.
#[tokio::test(flavor = "multi_thread")]
async fn status_without_the_namespace_evmd_names_the_remedies() {
    let node = Node::native_with(|config| config.json_rpc.api = vec!["eth".to_owned()]).await;
    for address in [node.rest, node.json_rpc] {
        let error = error_of(format!("status --node http://{address}")).await;
        let reason = "does not serve the namespace evmd, which names the address of metrics: give that address, such as \
                      --node http://127.0.0.1:26660, or start the node with evmd in json-rpc.api (--json-rpc.api)";
        assert!(error.contains(reason), "{address}: {error}");
    }
    node.stop().await;
}

#[test]
fn addresses_are_converted_without_a_node() {
    // The lock prevents other tests from opening a home folder until these short-lived processes have ended.
    let _starting = FORKING.blocking_lock();
    let home = tempfile::tempdir().unwrap();
    for (name, from, to) in [("0x-to-bech32", ALICE_HEX, ALICE), ("bech32-to-0x", ALICE, ALICE_HEX)]
    {
        let mut command = Command::new(env!("CARGO_BIN_EXE_evmd"));
        let output =
            command.args(["q", "evm", name, from, "--home"]).arg(home.path()).output().unwrap();
        assert_eq!(String::from_utf8(output.stdout).unwrap(), format!("{to}\n"));
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_evmd"));
    let output = command.args(["q", "block", "--node", "127.0.0.1:1"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.starts_with("error: no node responds at 127.0.0.1:1 (--node)"), "{error}");
}
