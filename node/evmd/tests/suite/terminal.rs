//! Tests the lines that a running node logs about blocks, transactions and calls, read from the file of `--log-file`,
//! and tests `evmd status --watch`.

use crate::{common::wait_until, start_safety::run};
use alloy_dyn_abi::DynSolValue;
use alloy_primitives::{Address, Bytes, U256, address, hex, keccak256};
use chain::DEV_ACCOUNTS;
use serde_json::{Value, json};
use std::{
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};
use tempfile::TempDir;
use testkit::NodeProcess;

const PROGRAM: &str = env!("CARGO_BIN_EXE_evmd");
const CONSOLE: Address = address!("000000000000000000636F6e736F6c652e6c6f67");
/// Code that reverts with its input as the revert data.
const REVERTER: [u8; 7] = hex!("365f5f37365ffd");
/// The gas limit of all transactions in these tests: 200,000.
const GAS: &str = "0x30d40";

/// A node that logs to a file.
struct Logged {
    node: NodeProcess,
    file: PathBuf,
    _folder: TempDir,
}

impl Logged {
    fn start(init: &[&str], options: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().join("home");
        let (code, _, error) = run(&home, init);
        assert_eq!(code, 0, "{error}");
        let file = folder.path().join("node.log");
        let options = [options, &["--log-file", file.to_str().unwrap()]].concat();
        let node = NodeProcess::start(Path::new(PROGRAM), &home, &options);
        Self { node, file, _folder: folder }
    }

    fn lines(&self) -> Vec<String> {
        fs::read_to_string(&self.file).unwrap().lines().map(str::to_owned).collect()
    }

    /// Waits for a line with all of these parts, and returns it.
    fn line(&self, parts: &[&str]) -> String {
        let mut found = None;
        wait_until(&format!("a line has {parts:?}"), || {
            let has_all = |line: &String| parts.iter().all(|part| line.contains(part));
            found = self.lines().into_iter().find(has_all);
            found.is_some()
        });
        found.unwrap()
    }

    async fn call(&self, method: &str, params: Value) -> Value {
        self.node.endpoints().call(method, params).await
    }

    /// Sends a transaction from the first development account, and returns its hash.
    async fn send(&self, to: Option<Address>, data: &[u8]) -> String {
        let data = Bytes::copy_from_slice(data);
        let mut tx = json!({ "from": DEV_ACCOUNTS[0].address, "data": data, "gas": GAS });
        if let Some(to) = to {
            tx["to"] = json!(to);
        }
        let hash = self.call("eth_sendTransaction", json!([tx])).await;
        hash.as_str().unwrap().to_owned()
    }

    /// Creates a contract with this code.
    async fn create(&self, code: &[u8]) -> Address {
        let size = u8::try_from(code.len()).unwrap();
        let init = [&[0x60, size, 0x80, 0x60, 9, 0x5f, 0x39, 0x5f, 0xf3], code].concat();
        let hash = self.send(None, &init).await;
        let receipt = self.call("eth_getTransactionReceipt", json!([hash])).await;
        let contract = serde_json::from_value(receipt["contractAddress"].clone()).unwrap();
        self.line(&["INFO tx: ", &hash, &format!("created {contract}, gas ")]);
        contract
    }
}

/// Returns code that passes its input to the console.
fn logger() -> Vec<u8> {
    let copy_input = hex!("365f5f37");
    let (arguments, call) = (hex!("5f5f365f73"), hex!("5afa00"));
    [&copy_input[..], &arguments, CONSOLE.as_slice(), &call].concat()
}

/// Returns the ABI encoding of a call's input or of an error.
fn encoded(signature: &str, values: Vec<DynSolValue>) -> Vec<u8> {
    [&keccak256(signature)[..4], &DynSolValue::Tuple(values).abi_encode_params()].concat()
}

fn message(text: &str, number: u64) -> Vec<u8> {
    let number = DynSolValue::Uint(U256::from(number), 256);
    encoded("log(string,uint256)", vec![text.to_owned().into(), number])
}

#[tokio::test]
async fn development_chain_prints_transactions_failures_and_messages() {
    let node = Logged::start(&["init", "--dev"], &[]);
    let sender = DEV_ACCOUNTS[0].address.to_string();
    let logger = node.create(&logger()).await;
    let reverter = node.create(&REVERTER).await;
    let block = node.line(&["INFO block: 1 0x", " 1 tx, gas "]);
    assert!(block.contains("%), base fee ") && block.contains("gwei, priority fee "), "{block}");

    let hash = node.send(Some(logger), &message("answer: %d!", 42)).await;
    node.line(&["INFO console: answer: 42!"]);
    let line = node.line(&["INFO tx: ", &hash]);
    let callee = format!("{sender} -> {logger} 0xb60e72cc, gas ");
    assert!(line.contains(&callee), "{line}");

    let not_owner = encoded("Error(string)", vec!["not owner".to_owned().into()]);
    let hash = node.send(Some(reverter), &not_owner).await;
    node.line(&[
        "INFO tx: ",
        &hash,
        &format!("-> {reverter} 0x08c379a0 reverted: not owner, gas "),
    ]);
    let hash = node.send(Some(reverter), &[0xab, 0xcd, 0xef, 1]).await;
    node.line(&["INFO tx: ", &hash, " reverted: custom error 0xabcdef01, gas "]);
    // INVALID uses up all gas.
    let invalid = node.create(&[0xfe]).await;
    let hash = node.send(Some(invalid), &[]).await;
    node.line(&["INFO tx: ", &hash, " failed: invalid opcode: INVALID, gas 200000"]);
}

#[tokio::test]
async fn development_chain_prints_messages_and_failures_of_calls() {
    let node = Logged::start(&["init", "--dev"], &[]);
    let sender = DEV_ACCOUNTS[0].address;
    let (logger, reverter) = (node.create(&logger()).await, node.create(&REVERTER).await);
    let request = |to: Address, data: Vec<u8>| json!([{ "from": sender, "to": to, "data": Bytes::from(data) }]);
    node.call("eth_call", request(logger, message("called", 1))).await;
    node.line(&["INFO console: called 1"]);
    node.call("eth_estimateGas", request(logger, message("estimated", 2))).await;
    node.line(&["INFO console: estimated 2"]);

    let code = DynSolValue::Uint(U256::from(0x12), 256);
    for (method, data, reason) in [
        (
            "eth_call",
            encoded("Error(string)", vec!["two\nlines".to_owned().into()]),
            "reverted: two\\nlines",
        ),
        (
            "eth_estimateGas",
            encoded("Panic(uint256)", vec![code]),
            "reverted: division or modulo by zero",
        ),
        ("eth_sendTransaction", vec![], "reverted without a reason"),
    ] {
        node.node.endpoints().fail(method, request(reverter, data)).await;
        let line = format!("INFO call: {method} {sender} -> {reverter} {reason}");
        assert!(node.line(&[&line]).ends_with(reason));
    }
    let poor = json!([{ "from": Address::repeat_byte(9), "to": sender, "value": "0x1" }]);
    node.node.endpoints().fail("eth_call", poor).await;
    node.line(&["INFO call: eth_call ", " refused: ", "insufficient funds"]);
    // At this price, the sender cannot pay for the gas limit with which an estimate starts.
    let price = "0x21e19e0c9bab2400000";
    let mut priced = request(logger, message("priced", 3));
    priced[0]["gasPrice"] = json!(price);
    node.node.endpoints().response("eth_estimateGas", priced).await;
    node.line(&["INFO console: priced 3"]);
}

#[tokio::test]
async fn undone_blocks_are_printed() {
    let node = Logged::start(&["init", "--dev"], &[]);
    let snapshot = node.call("evm_snapshot", json!([])).await;
    node.call("anvil_mine", json!([3])).await;
    node.line(&["INFO block: 3 0x"]);
    node.call("evm_revert", json!([snapshot])).await;
    node.line(&["INFO block: 3 blocks undone, the head is block 0"]);
    node.call("evm_mine", json!([])).await;
    wait_until("block 1 is printed again", || {
        node.lines().iter().filter(|line| line.contains("INFO block: 1 0x")).count() == 2
    });
}

#[tokio::test]
async fn busy_chain_has_one_summary_per_second() {
    let node = Logged::start(&["init"], &["--block-time", "1ms"]);
    node.line(&["INFO block: 1 0x"]);
    let busy = |line: &&String| line.contains(" blocks, ") && line.contains(" tx/s, ");
    wait_until("three summaries", || node.lines().iter().filter(busy).count() >= 3);
    let lines = node.lines();
    let head = node.call("eth_blockNumber", json!([])).await;
    assert!(lines.len() < 40, "{} lines at block {head}: {lines:?}", lines.len());
}

#[tokio::test]
async fn other_chains_print_blocks_only() {
    let node = Logged::start(&["init"], &[]);
    node.line(&["INFO block: 1 0x", " 0 txs, gas 0 (0.00%), "]);
    let call = json!([{ "to": CONSOLE, "data": Bytes::from(message("unseen", 1)) }]);
    node.call("eth_call", call).await;
    let poor = json!([{ "from": Address::repeat_byte(9), "to": CONSOLE, "value": "0x1" }]);
    node.node.endpoints().fail("eth_call", poor).await;
    node.line(&["INFO block: 2 0x"]);
    for line in node.lines() {
        assert!(!["tx: ", "console: ", "call: "].iter().any(|part| line.contains(part)), "{line}");
    }
}

#[tokio::test]
async fn json_has_the_figures_as_fields() {
    let node = Logged::start(&["init", "--dev"], &["--log", "json"]);
    let hash = node.send(Some(Address::repeat_byte(7)), &[]).await;
    let line: Value = serde_json::from_str(&node.line(&[r#""target":"block""#])).unwrap();
    assert_eq!(
        (&line["number"], &line["txs"], &line["level"]),
        (&json!(1), &json!(1), &json!("INFO"))
    );
    for field in ["gas_used", "gas_limit", "base_fee_wei", "priority_fee_wei", "block_timestamp"] {
        assert!(line[field].is_u64(), "{field}: {line}");
    }
    let line: Value = serde_json::from_str(&node.line(&[r#""target":"tx""#])).unwrap();
    assert_eq!(line["hash"], hash);
    // A native chain charges at least half of the gas limit.
    assert_eq!((&line["status"], &line["gas_used"]), (&json!("success"), &json!(100_000)));
    for line in node.lines() {
        serde_json::from_str::<Value>(&line).unwrap();
    }
}

#[tokio::test]
async fn options_select_levels() {
    let node = Logged::start(&["init", "--dev"], &["-q"]);
    node.send(Some(Address::repeat_byte(7)), &[]).await;
    assert_eq!(node.lines(), Vec::<String>::new());
    drop(node);
    let node = Logged::start(&["init", "--dev"], &["-vv"]);
    node.line(&["DEBUG evmd::cli: the self-test of signature recovery"]);
    let (code, _, error) = run(Path::new("unused"), &["start", "-v", "-q"]);
    assert_eq!(code, 2, "{error}");
    let (code, _, error) =
        run(Path::new("unused"), &["start", "--log-file", "/no/such/folder/log"]);
    assert_eq!(code, 1);
    assert!(error.contains("--log-file: cannot open /no/such/folder/log"), "{error}");
}

#[tokio::test]
async fn status_watch_ends_when_its_reader_closes_the_pipe() {
    let node = Logged::start(&["init", "--dev"], &[]);
    let url = format!("http://{}", node.node.endpoints().metrics);
    for (format, begin) in [("text", "chain  "), ("json", "{")] {
        let mut watch = Command::new(PROGRAM)
            .args(["status", "--watch", "-o", format, "--node", &url])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(watch.stdout.take().unwrap()).lines().map(Result::unwrap);
        assert_eq!(lines.filter(|line| line.starts_with(begin)).take(2).count(), 2);
        // The pipe is now closed.
        assert!(watch.wait().unwrap().success());
    }
}
