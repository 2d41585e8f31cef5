//! Compares the results of the `trace_` methods with the state of a chain and with the tracers of `debug_`.

use super::explorer::{busy, every_fork, serve, serve_with};
use crate::{
    client::Node,
    common::{CHAIN_ID, FEE_CAP, native_home, sign, transfer},
};
use alloy_consensus::TxEip1559;
use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
use chain::DEV_ACCOUNTS;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// An account that only receives transfers.
const RECEIVER: Address = Address::repeat_byte(0xee);
/// Code that increments slot 0 and returns the new value.
const COUNTER: [u8; 18] =
    [0x60, 0, 0x54, 0x60, 1, 0x01, 0x80, 0x60, 0, 0x55, 0x60, 0, 0x52, 0x60, 32, 0x60, 0, 0xf3];
/// Code that calls an account without code with a megabyte of input, in an endless loop.
const LARGE_INPUT: [u8; 21] = [
    0x5b, 0x60, 0, 0x60, 0, 0x62, 0x10, 0, 0, 0x60, 0, 0x60, 0, 0x60, 0xff, 0x5a, 0xf1, 0x50, 0x60,
    0, 0x56,
];
/// Code that calls the identity precompile with half a megabyte of input, in an endless loop.
const ECHO: [u8; 19] =
    [0x5b, 0x60, 0, 0x60, 0, 0x62, 0x08, 0, 0, 0x60, 0, 0x60, 4, 0x5a, 0xfa, 0x50, 0x60, 0, 0x56];
/// Code that calls an account without code with a hundred kilobytes of memory for its output, in an endless loop.
const LARGE_OUTPUT: [u8; 21] = [
    0x5b, 0x62, 0x01, 0x90, 0, 0x60, 0, 0x60, 0, 0x60, 0, 0x60, 0, 0x60, 0xff, 0x5a, 0xf1, 0x50,
    0x60, 0, 0x56,
];
/// Code that expands its memory to a hundred kilobytes, and writes to it in an endless loop.
const LARGE_MEMORY: [u8; 16] =
    [0x60, 0, 0x62, 0x01, 0x90, 0, 0x53, 0x5b, 0x60, 0, 0x60, 0, 0x53, 0x60, 7, 0x56];

async fn native() -> Node {
    let folder = tempfile::tempdir().unwrap();
    let home = native_home(folder.path());
    serve(folder, home).await
}

fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap_or_else(|| panic!("not a list: {value}"))
}

fn number(value: &Value) -> U256 {
    value.as_str().unwrap_or_else(|| panic!("not a quantity: {value}")).parse().unwrap()
}

/// Reads all blocks of the chain.
async fn blocks(node: &Node) -> Vec<Value> {
    let head = number(&node.call("eth_blockNumber", json!([])).await).to::<u64>();
    let mut blocks = Vec::new();
    for number in 0..=head {
        let number = format!("{number:#x}");
        blocks.push(node.call("eth_getBlockByNumber", json!([number, true])).await);
    }
    blocks
}

/// Appends the type and depth of a frame and of its inner frames. Skips inner calls to precompiles without value.
fn flatten(frame: &Value, depth: usize, into: &mut Vec<(String, usize)>) {
    let kind = match frame["type"].as_str().unwrap() {
        "CREATE" | "CREATE2" => "create",
        "SELFDESTRUCT" => "suicide",
        _ => "call",
    };
    let to = frame["to"].as_str().map_or(Address::ZERO, |to| to.parse().unwrap());
    let is_precompile = to > Address::ZERO && to <= Address::with_last_byte(0x11);
    let has_value = frame.get("value").is_some_and(|value| !number(value).is_zero());
    if kind == "call" && is_precompile && !has_value && depth > 0 {
        return;
    }
    into.push((kind.to_owned(), depth));
    for inner in frame["calls"].as_array().into_iter().flatten() {
        flatten(inner, depth + 1, into);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn traces_equal_those_of_the_call_tracer() {
    let node = every_fork().await;
    assert!(check_calls(&node).await > 0, "the chain has blocks of proof of work");
    node.stop().await;
    let (node, ..) = busy().await;
    assert_eq!(check_calls(&node).await, 0);
    node.stop().await;
}

/// Checks the traces of each block; returns the number of blocks with a reward.
async fn check_calls(node: &Node) -> usize {
    let (mut all, mut rewarded) = (Vec::new(), 0);
    for block in blocks(node).await {
        let of_block = node.call("trace_block", json!([block["number"]])).await;
        let by_hash = json!([{ "blockHash": block["hash"] }]);
        assert_eq!(node.call("trace_block", by_hash).await, of_block);
        let mut rest = list(&of_block);
        let replayed = json!([block["number"], ["trace"]]);
        let replayed = node.call("trace_replayBlockTransactions", replayed).await;
        let txs = list(&block["transactions"]);
        assert_eq!(list(&replayed).len(), txs.len());
        for (tx, replayed) in txs.iter().zip(list(&replayed)) {
            let traces = node.call("trace_transaction", json!([tx["hash"]])).await;
            let (of_tx, others) = rest.split_at(list(&traces).len());
            assert_eq!(of_tx, list(&traces), "a block's traces include those of its transactions");
            rest = others;
            check_transaction(node, tx, of_tx, replayed).await;
        }
        rewarded += usize::from(!rest.is_empty());
        check_rewards(node, &block, rest).await;
        all.extend_from_slice(list(&of_block));
    }
    let filtered = node.call("trace_filter", json!([{ "fromBlock": "earliest" }])).await;
    assert_eq!(list(&filtered), all);
    check_filters(node, &all).await;
    rewarded
}

async fn check_transaction(node: &Node, tx: &Value, traces: &[Value], replayed: &Value) {
    let hash = &tx["hash"];
    let options = json!({ "tracer": "callTracer" });
    let frame = node.call("debug_traceTransaction", json!([hash, options])).await;
    let mut expected = Vec::new();
    flatten(&frame, 0, &mut expected);
    let shape = |trace: &Value| {
        (trace["type"].as_str().unwrap().to_owned(), list(&trace["traceAddress"]).len())
    };
    assert_eq!(traces.iter().map(shape).collect::<Vec<_>>(), expected, "{hash}");
    for trace in traces {
        assert_eq!(trace["transactionHash"], *hash);
        assert_eq!(trace["transactionPosition"], number(&tx["transactionIndex"]).to::<u64>());
        assert_eq!(trace["blockNumber"], number(&tx["blockNumber"]).to::<u64>());
        assert_eq!(trace["blockHash"], tx["blockHash"]);
        let address = &trace["traceAddress"];
        assert_eq!(node.call("trace_get", json!([hash, address])).await, *trace);
    }
    assert_eq!(traces[0]["action"]["from"], tx["from"]);
    assert_eq!(traces[0].get("error").is_some(), frame.get("error").is_some(), "{hash}");
    let alone = node.call("trace_replayTransaction", json!([hash, ["trace"]])).await;
    assert_eq!(replayed["transactionHash"], *hash);
    assert_eq!((&alone["stateDiff"], &alone["vmTrace"]), (&Value::Null, &Value::Null));
    for (trace, bare) in traces.iter().zip(list(&alone["trace"])) {
        for field in ["action", "type", "subtraces", "traceAddress", "result", "error"] {
            assert_eq!(trace.get(field), bare.get(field), "{hash} {field}");
        }
    }
    assert_eq!(replayed["trace"], alone["trace"]);
    assert_eq!(replayed["output"], alone["output"]);
}

async fn check_rewards(node: &Node, block: &Value, traces: &[Value]) {
    let details = node.call("ots_getBlockDetailsByHash", json!([block["hash"]])).await;
    let (mut miner, mut ommers) = (U256::ZERO, U256::ZERO);
    for trace in traces {
        assert_eq!((&trace["type"], &trace["transactionHash"]), (&json!("reward"), &Value::Null));
        let value = number(&trace["action"]["value"]);
        match trace["action"]["rewardType"].as_str() {
            Some("block") => {
                assert_eq!(trace["action"]["author"], block["miner"]);
                miner += value;
            }
            _ => ommers += value,
        }
    }
    if block["number"] != "0x0" {
        assert_eq!(miner, number(&details["issuance"]["blockReward"]));
        assert_eq!(ommers, number(&details["issuance"]["uncleReward"]));
    }
}

async fn check_filters(node: &Node, all: &[Value]) {
    let from = |trace: &Value| match trace["type"].as_str().unwrap() {
        "suicide" => trace["action"]["address"].clone(),
        _ => trace["action"]["from"].clone(),
    };
    let to = |trace: &Value| match trace["type"].as_str().unwrap() {
        "create" => trace["result"]["address"].clone(),
        "suicide" => trace["action"]["refundAddress"].clone(),
        "reward" => trace["action"]["author"].clone(),
        _ => trace["action"]["to"].clone(),
    };
    let depth = |trace: &&Value| list(&trace["traceAddress"]).len();
    let deepest = all.iter().max_by_key(depth).unwrap();
    let (sender, receiver) = (from(deepest), to(deepest));
    for (filter, (by_sender, by_receiver, union)) in [
        (json!({ "fromAddress": sender }), (true, false, false)),
        (json!({ "toAddress": [receiver] }), (false, true, false)),
        (json!({ "fromAddress": [sender], "toAddress": receiver }), (true, true, false)),
        (
            json!({ "fromAddress": [sender], "toAddress": [receiver], "mode": "union" }),
            (true, true, true),
        ),
    ] {
        let is_match = |trace: &&Value| {
            let (sent, received) = (from(trace) == sender, to(trace) == receiver);
            match union {
                true => sent || received,
                false => (sent || !by_sender) && (received || !by_receiver),
            }
        };
        let expected: Vec<_> = all.iter().filter(is_match).collect();
        assert!(!expected.is_empty(), "{filter}");
        let found = node.call("trace_filter", json!([filter])).await;
        assert_eq!(list(&found).iter().collect::<Vec<_>>(), expected, "{filter}");
        for (after, count) in [(0, 1), (1, 2), (expected.len() - 1, 9), (expected.len(), 1), (0, 0)]
        {
            let mut page = filter.clone();
            (page["after"], page["count"]) = (json!(after), json!(format!("{count:#x}")));
            let found = node.call("trace_filter", json!([page])).await;
            let wanted: Vec<_> = expected.iter().skip(after).take(count).copied().collect();
            assert_eq!(list(&found).iter().collect::<Vec<_>>(), wanted, "{page}");
        }
    }
    let last = all.last().unwrap()["blockNumber"].as_u64().unwrap();
    let range = json!({ "fromBlock": format!("{last:#x}"), "toBlock": "latest" });
    let found = node.call("trace_filter", json!([range])).await;
    let expected: Vec<_> = all.iter().filter(|trace| trace["blockNumber"] == last).collect();
    assert_eq!(list(&found).iter().collect::<Vec<_>>(), expected);
}

/// Identifies a value in a diff: an address, and `balance`, `nonce` or a slot.
type Field = (String, String);

/// Returns the values before and after a change, or `None` if there is no change.
fn change(delta: &Value) -> Option<(U256, U256)> {
    let delta = delta.as_object()?;
    let (kind, value) = delta.iter().next().unwrap();
    Some(match kind.as_str() {
        "*" => (number(&value["from"]), number(&value["to"])),
        "+" => (U256::ZERO, number(value)),
        "-" => (number(value), U256::ZERO),
        kind => panic!("no kind of change: {kind}"),
    })
}

async fn value_at(node: &Node, (address, field): &Field, block: &Value) -> U256 {
    let value = match field.as_str() {
        "balance" => node.call("eth_getBalance", json!([address, block])).await,
        "nonce" => node.call("eth_getTransactionCount", json!([address, block])).await,
        slot => node.call("eth_getStorageAt", json!([address, slot, block])).await,
    };
    number(&value)
}

/// Compares the values in the diffs of a block with the state before and after it; returns the number of values.
async fn check_diffs(node: &Node, parent: &Value, block: &Value) -> usize {
    let of_block = json!([block["number"], ["stateDiff"]]);
    let of_block = node.call("trace_replayBlockTransactions", of_block).await;
    let mut values: BTreeMap<Field, U256> = BTreeMap::new();
    for (replayed, tx) in list(&of_block).iter().zip(list(&block["transactions"])) {
        let diff = replayed["stateDiff"].as_object().unwrap();
        let nonce = &diff[tx["from"].as_str().unwrap()]["nonce"];
        assert!(change(nonce).is_some(), "the sender's nonce must change: {replayed}");
        for (address, account) in diff {
            let slots = account["storage"].as_object().unwrap();
            let slots = slots.iter().map(|(slot, delta)| (slot.as_str(), delta));
            let own = ["balance", "nonce"].map(|field| (field, &account[field]));
            for (field, delta) in own.into_iter().chain(slots) {
                let field = (address.clone(), field.to_owned());
                let Some((from, to)) = change(delta) else { continue };
                let before = match values.get(&field) {
                    Some(value) => *value,
                    None => value_at(node, &field, &parent["number"]).await,
                };
                assert_eq!(from, before, "{} {field:?}", tx["hash"]);
                values.insert(field, to);
            }
            if let Some(code) = account["code"].get("+") {
                let stored = node.call("eth_getCode", json!([address, block["number"]])).await;
                let destroyed = diff.contains_key(address) && stored == "0x";
                assert!(stored == *code || destroyed, "{address}: {code} {stored}");
            }
        }
    }
    // The block reward and withdrawals change balances after the last transaction.
    let is_paid = |address: &str| {
        let withdrawals = block["withdrawals"].as_array().into_iter().flatten();
        block["miner"] == *address || withdrawals.into_iter().any(|to| to["address"] == *address)
    };
    for (field, value) in &values {
        if !is_paid(&field.0) || field.1 != "balance" {
            assert_eq!(value_at(node, field, &block["number"]).await, *value, "{field:?}");
        }
    }
    values.len()
}

#[tokio::test(flavor = "multi_thread")]
async fn state_diffs_equal_the_state() {
    for node in [every_fork().await, busy().await.0] {
        let blocks = blocks(&node).await;
        let mut checked = 0;
        for pair in blocks.windows(2) {
            checked += check_diffs(&node, &pair[0], &pair[1]).await;
        }
        assert!(checked > 100, "{checked} values");
        node.stop().await;
    }
}

/// Deploys [`COUNTER`].
async fn counter(node: &Node) -> Address {
    let init = [&[0x60, 18, 0x80, 0x60, 0x09, 0x3d, 0x39, 0x3d, 0xf3], &COUNTER[..]].concat();
    let create = TxEip1559 {
        chain_id: CHAIN_ID,
        gas_limit: 200_000,
        max_fee_per_gas: FEE_CAP,
        input: init.into(),
        ..TxEip1559::default()
    };
    let hash = node.call("eth_sendRawTransaction", json!([sign(1, create)])).await;
    let receipt = node.wait_for("eth_getTransactionReceipt", json!([hash])).await;
    serde_json::from_value(receipt["contractAddress"].clone()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn trace_call_many_runs_calls_in_sequence() {
    let node = native().await;
    let contract = counter(&node).await;
    let call = json!({ "from": DEV_ACCOUNTS[2].address, "to": contract });
    let kinds = json!(["trace", "vmTrace", "stateDiff"]);
    let word = |value: u64| json!(B256::from(U256::from(value)));
    for _ in 0..2 {
        let alone = node.call("trace_call", json!([call, kinds])).await;
        assert_eq!(alone["output"], word(1), "a call does not change the state");
    }
    let many = json!([[[call, kinds], [call, ["trace"]], [call, []]], "latest"]);
    let many = node.call("trace_callMany", many).await;
    assert_eq!(
        list(&many).iter().map(|one| &one["output"]).collect::<Vec<_>>(),
        [&word(1), &word(2), &word(3)]
    );
    let diff = &many[0]["stateDiff"][json!(contract).as_str().unwrap()];
    let slot = &diff["storage"][word(0).as_str().unwrap()];
    assert_eq!(*slot, json!({ "*": { "from": word(0), "to": word(1) } }), "{diff}");
    let operations = list(&many[0]["vmTrace"]["ops"]);
    assert_eq!(operations.len(), 12, "one operation per instruction: {}", many[0]["vmTrace"]);
    assert_eq!(operations[6]["ex"]["store"], json!({ "key": "0x0", "val": "0x1" }));
    assert_eq!(many[0]["vmTrace"]["code"], json!(Bytes::from(COUNTER.to_vec())));
    assert_eq!(list(&many[1]["trace"])[0]["result"]["output"], word(2));
    let bare = json!({ "output": word(3), "stateDiff": null, "trace": [], "vmTrace": null });
    assert_eq!(many[2], bare);
    let overrides =
        json!({ contract.to_string(): { "stateDiff": { word(0).as_str().unwrap(): word(41) } } });
    let overridden = node.call("trace_call", json!([call, [], "latest", overrides])).await;
    assert_eq!(overridden["output"], word(42));
    // A call that fails is traced, and an invalid call is refused.
    let fails = json!({ "data": "0xfe", "gas": "0x10000" });
    let failed = node.call("trace_call", json!([fails, ["trace"]])).await;
    assert_eq!(failed["trace"][0]["error"], "Bad instruction", "{failed}");
    let poor = json!({ "from": RECEIVER, "to": contract, "value": "0x1" });
    let (code, message) = node.fail("trace_call", json!([poor, ["trace"]])).await;
    assert!(code == -32000 && message.contains("insufficient funds"), "{message}");
    let poor = json!([[[call, []], [poor, []]]]);
    let (code, message) = node.fail("trace_callMany", poor).await;
    assert!(code == -32000 && message.contains(&RECEIVER.to_string()), "{message}");
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn raw_transaction_can_be_traced() {
    let node = native().await;
    let raw = transfer(2, 0, RECEIVER);
    let tried = json!([raw, ["trace", "stateDiff"]]);
    let tried = node.call("trace_rawTransaction", tried).await;
    let received = &tried["stateDiff"][json!(RECEIVER).as_str().unwrap()];
    assert_eq!(received["balance"], json!({ "+": "0x1" }), "{tried}");
    assert_eq!(tried["trace"][0]["action"]["from"], json!(DEV_ACCOUNTS[2].address));
    assert_eq!(number(&node.call("eth_getBalance", json!([RECEIVER])).await), U256::ZERO);
    // The mined transaction has the same trace, and changes the recipient's balance in the same way.
    let hash = node.call("eth_sendRawTransaction", json!([raw])).await;
    assert_eq!(hash, json!(keccak256(&raw)));
    node.wait_for("eth_getTransactionReceipt", json!([hash])).await;
    let mined = node.call("trace_replayTransaction", json!([hash, ["trace", "stateDiff"]])).await;
    assert_eq!(mined["trace"], tried["trace"]);
    assert_eq!(&mined["stateDiff"][json!(RECEIVER).as_str().unwrap()], received);
    let foreign = TxEip1559 { chain_id: 1, gas_limit: 21_000, ..TxEip1559::default() };
    let foreign = json!([sign(2, foreign), ["trace"]]);
    let (code, message) = node.fail("trace_rawTransaction", foreign).await;
    let wanted = "invalid chain id for signer: have 1 want 262144";
    assert_eq!((code, message.as_str()), (-32000, wanted));
    for raw in ["0x", "0x02", "0x02c0"] {
        node.fail("trace_rawTransaction", json!([raw, ["trace"]])).await;
    }
    node.stop().await;
}

/// The beginning of the error of a tracer that would exceed its memory limit.
const TOO_LARGE: &str = "trace exceeds 268435456 bytes";

fn with_code(code: &[u8]) -> Value {
    json!({ RECEIVER.to_string(): { "code": Bytes::from(code.to_vec()) } })
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_of_a_tracer_is_limited() {
    let folder = tempfile::tempdir().unwrap();
    let home = native_home(folder.path());
    // On a busy machine, a debug build needs a long time to trace a quarter of a gigabyte.
    let node = serve_with(folder, home, |config| config.json_rpc.call_timeout_ms = 60_000).await;
    let call = json!({ "to": RECEIVER });
    for (code, options) in [
        (&LARGE_INPUT[..], json!({ "tracer": "callTracer" })),
        (&LARGE_INPUT[..], json!({ "tracer": "flatCallTracer" })),
        (&LARGE_INPUT[..], json!({ "tracer": "muxTracer", "tracerConfig": { "callTracer": {} } })),
        (&ECHO[..], json!({ "tracer": "prestateTracer" })),
        (&LARGE_MEMORY[..], json!({ "enableMemory": true })),
        (&LARGE_MEMORY[..], json!({})),
    ] {
        let mut options = options;
        options["stateOverrides"] = with_code(code);
        let (code, message) = node.fail("debug_traceCall", json!([call, "latest", options])).await;
        assert!(code == -32000 && message.starts_with(TOO_LARGE), "{options}: {message}");
    }
    for (code, kind) in [
        (&LARGE_INPUT[..], "trace"),
        (&LARGE_MEMORY[..], "vmTrace"),
        (&LARGE_OUTPUT[..], "vmTrace"),
        (&ECHO[..], "stateDiff"),
    ] {
        let traced = json!([call, [kind], "latest", with_code(code)]);
        let (code, message) = node.fail("trace_call", traced).await;
        assert!(code == -32000 && message.starts_with(TOO_LARGE), "{kind}: {message}");
    }
    // A tracer that uses little memory runs to completion.
    let gas = json!({ "to": RECEIVER, "gas": "0x30d40" });
    let params = json!([gas, "latest", { "limit": 3, "stateOverrides": with_code(&LARGE_MEMORY) }]);
    let trace = node.call("debug_traceCall", params).await;
    assert_eq!(list(&trace["structLogs"]).len(), 1, "`limit` is in bytes");
    for tracer in ["noopTracer", "4byteTracer", "prestateTracer"] {
        let options = json!({ "tracer": tracer, "stateOverrides": with_code(&LARGE_INPUT) });
        let gas = json!({ "to": RECEIVER, "gas": "0x4c4b40" });
        node.call("debug_traceCall", json!([gas, "latest", options])).await;
    }
    node.stop().await;
}

/// The response size limit applies even if the tracer stays within its memory limit.
#[tokio::test(flavor = "multi_thread")]
async fn size_of_a_trace_is_limited() {
    let folder = tempfile::tempdir().unwrap();
    let home = native_home(folder.path());
    let node =
        serve_with(folder, home, |config| config.json_rpc.max_response_bytes = 1_000_000).await;
    // The gas suffices for about a hundred calls.
    let call = json!({ "to": RECEIVER, "gas": "0x221a78" });
    let init = json!([{ "data": Bytes::from(LARGE_INPUT.to_vec()), "gas": "0x22a000" }, ["trace"]]);
    let options = json!({ "tracer": "callTracer", "stateOverrides": with_code(&LARGE_INPUT) });
    for (method, params) in [
        ("trace_call", json!([call, ["trace"], "latest", with_code(&LARGE_INPUT)])),
        ("trace_callMany", json!([[init, init]])),
        ("debug_traceCall", json!([call, "latest", options])),
    ] {
        let (code, message) = node.fail(method, params).await;
        let wanted = "response too large: at most 1000000 bytes";
        assert_eq!((code, message.as_str()), (-32003, wanted), "{method}");
    }
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_items_are_null_and_invalid_requests_are_refused() {
    let node = native().await;
    node.wait_for("eth_getBlockByNumber", json!(["0x1", false])).await;
    let none = json!(B256::repeat_byte(7));
    assert!(node.call("trace_block", json!(["0xffffff"])).await.is_null());
    assert!(node.call("trace_replayBlockTransactions", json!([none, []])).await.is_null());
    assert!(node.call("trace_transaction", json!([none])).await.is_null());
    assert!(node.call("trace_get", json!([none, []])).await.is_null());
    for block in ["0x0", "0x1"] {
        assert_eq!(node.call("trace_block", json!([block])).await, json!([]));
        let replayed = node.call("trace_replayBlockTransactions", json!([block, ["trace"]])).await;
        assert_eq!(replayed, json!([]));
    }
    let beyond = json!({ "fromBlock": "0xfffff0", "toBlock": "0xffffff" });
    assert_eq!(node.call("trace_filter", json!([beyond])).await, json!([]));
    for (method, params, code, text) in [
        ("trace_replayTransaction", json!([none, []]), -32000, "transaction not found"),
        ("trace_replayTransaction", json!([none]), -32602, "missing value for required argument 1"),
        ("trace_call", json!([{}, ["calls"]]), -32602, "invalid argument 1: no trace type"),
        ("trace_call", json!([{}, "trace"]), -32602, "invalid argument 1: not a list"),
        ("trace_callMany", json!([[[{}]]]), -32602, "invalid argument 0"),
        (
            "trace_filter",
            json!([{ "fromBlock": "0x2", "toBlock": "0x1" }]),
            -32602,
            "invalid block",
        ),
        ("trace_filter", json!([{ "fromAddress": "0x12" }]), -32602, "invalid argument 0"),
        ("trace_filter", json!([{ "mode": "xor" }]), -32602, "invalid argument 0"),
        ("trace_filter", json!([]), -32602, "missing value for required argument 0"),
    ] {
        let (found, message) = node.fail(method, params.clone()).await;
        assert_eq!(found, code, "{method} {params}: {message}");
        assert!(message.starts_with(text), "{method} {params}: {message}");
    }
    node.stop().await;
}
