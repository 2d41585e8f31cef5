//! Tests `debug_trace*`: with every tracer, the traces of a block equal those of its transactions, and the options of
//! tracers have the same effect as in geth.

use super::native::CONTRACT;
use crate::{
    client::Node,
    common::{sign, transfer, unsigned},
};
use alloy_primitives::{Address, Bytes, TxKind, U256, keccak256};
use chain::DEV_ACCOUNTS;
use serde_json::{Value, json};

/// Maximum number of attempts to get several transactions into one block.
const TRIES: u64 = 200;
/// The recipient of the transfers, an existing account.
const RECEIVER: Address = DEV_ACCOUNTS[9].address;

fn call_of(from: usize, nonce: u64, to: TxKind, input: impl Into<Bytes>) -> Bytes {
    sign(from, unsigned(nonce, to, input))
}

/// Code that emits an empty log and reverts.
const LOG_AND_REVERT: [u8; 10] = [0x60, 0, 0x60, 0, 0xa0, 0x60, 0, 0x60, 0, 0xfd];

/// Returns init code that deploys this code.
fn deploying(code: &[u8]) -> Bytes {
    let init = [0x60, code.len() as u8, 0x80, 0x60, 0x09, 0x3d, 0x39, 0x3d, 0xf3];
    [&init[..], code].concat().into()
}

/// Returns code that emits an empty log, calls each of these addresses without input, and emits another empty log.
fn logging_around(calls: &[Address]) -> Bytes {
    const LOG: [u8; 5] = [0x60, 0, 0x60, 0, 0xa0];
    let call = |to: &Address| {
        let zeros = [0x60_u8, 0].repeat(5);
        [&zeros[..], &[0x73], to.as_slice(), &[0x5a, 0xf1, 0x50]].concat()
    };
    let calls: Vec<u8> = calls.iter().flat_map(call).collect();
    [&LOG[..], &calls, &LOG, &[0x00]].concat().into()
}

/// Starts a node with tracing enabled.
async fn tracing() -> Node {
    Node::native_with(|config| config.json_rpc.api.push("debug".to_owned())).await
}

/// Deploys a contract from account 1; returns its address and the hash of the transaction.
async fn created(node: &Node, nonce: u64, init: impl Into<Bytes>) -> (Address, Value) {
    let create = call_of(1, nonce, TxKind::Create, init);
    let hash = node.call("eth_sendRawTransaction", json!([create])).await;
    let receipt = node.wait_for("eth_getTransactionReceipt", json!([hash])).await;
    (serde_json::from_value(receipt["contractAddress"].clone()).unwrap(), hash)
}

/// Sends `N` transactions for each nonce until one block contains all `N`; returns their receipts.
async fn in_one_block<const N: usize>(node: &Node, raw: impl Fn(u64) -> [Bytes; N]) -> [Value; N] {
    for nonce in 0..TRIES {
        let calls = raw(nonce).map(|raw| {
            json!({ "jsonrpc": "2.0", "id": 1, "method": "eth_sendRawTransaction", "params": [raw] })
        });
        let sent = node.post(&json!(calls.as_slice()).to_string()).await;
        let mut receipts = [const { Value::Null }; N];
        for (receipt, sent) in receipts.iter_mut().zip(sent.as_array().unwrap()) {
            let hash = &sent["result"];
            *receipt = node.wait_for("eth_getTransactionReceipt", json!([hash])).await;
        }
        if receipts.iter().all(|receipt| receipt["blockHash"] == receipts[0]["blockHash"]) {
            return receipts;
        }
    }
    panic!("no block contains {N} transactions that were sent together");
}

/// Starts a node with a block that contains a transfer, a call that emits a log, and a call that reverts. Also returns
/// their receipts, in this order.
async fn traced() -> (Node, [Value; 3]) {
    let node = tracing().await;
    let (contract, _) = created(&node, 0, CONTRACT.to_vec()).await;
    let receipts = in_one_block(&node, |nonce| {
        [
            transfer(2, nonce, RECEIVER),
            call_of(3, nonce, TxKind::Call(contract), []),
            call_of(4, nonce, TxKind::Call(contract), [1, 2, 3, 4, 5]),
        ]
    })
    .await;
    (node, receipts)
}

/// Returns the key of an account in a response.
fn key(address: Address) -> String {
    json!(address).as_str().unwrap().to_owned()
}

fn number(value: &Value) -> U256 {
    value.as_str().unwrap_or_else(|| panic!("not a quantity: {value}")).parse().unwrap()
}

/// Returns the logs of a frame and of all frames inside it, sorted by index.
fn logs_of(frame: &Value) -> Vec<Value> {
    let mut logs = frame["logs"].as_array().cloned().unwrap_or_default();
    for call in frame["calls"].as_array().into_iter().flatten() {
        logs.extend(logs_of(call));
    }
    logs.sort_by_key(|log| number(&log["index"]));
    logs
}

fn positions(frame: &Value) -> Vec<&Value> {
    frame["logs"].as_array().into_iter().flatten().map(|log| &log["position"]).collect()
}

/// Checks the traces of the transfer, the call that emits a log, and the one that reverts.
type Check = fn([&Value; 3]);

/// Returns every tracer, each with a check of its traces.
fn tracers() -> Vec<(Value, Check)> {
    vec![
        (json!({}), |[plain, logs, reverts]| {
            let empty =
                json!({ "gas": 21000, "failed": false, "returnValue": "0x", "structLogs": [] });
            assert_eq!(*plain, empty);
            let steps = logs["structLogs"].as_array().unwrap();
            assert!(steps.iter().any(|step| step["op"] == "LOG1"), "{logs}");
            assert!(steps.iter().all(|step| step["stack"].is_array()), "{logs}");
            assert_eq!(reverts["failed"], true);
            assert_eq!(reverts["returnValue"], "0x00000000");
        }),
        (json!({ "disableStack": true, "disableStorage": true, "enableMemory": true }), |traces| {
            let steps = traces[1]["structLogs"].as_array().unwrap();
            let bare = |step: &Value| step.get("stack").is_none() && step.get("storage").is_none();
            assert!(steps.iter().all(bare), "{}", traces[1]);
            assert!(steps.iter().any(|step| step.get("memory").is_some()), "{}", traces[1]);
        }),
        (json!({ "tracer": "callTracer" }), |[plain, logs, reverts]| {
            assert_eq!((&plain["type"], &plain["gasUsed"]), (&json!("CALL"), &json!("0x5208")));
            assert_eq!(plain["from"], json!(DEV_ACCOUNTS[2].address));
            assert_eq!((&plain["to"], &plain["value"]), (&json!(RECEIVER), &json!("0x1")));
            assert!(logs.get("error").is_none() && logs.get("logs").is_none(), "{logs}");
            assert_eq!(reverts["error"], "execution reverted");
            assert_eq!(reverts["output"], "0x00000000");
        }),
        (json!({ "tracer": "callTracer", "tracerConfig": { "withLog": true } }), |traces| {
            assert_eq!(traces[1]["logs"][0]["topics"][0], json!(format!("0x{:064x}", 7)));
            assert_eq!(traces[1]["logs"][0]["data"], json!(format!("0x{:064x}", 42)));
        }),
        (json!({ "tracer": "prestateTracer" }), |[plain, logs, _]| {
            let sender = json!(DEV_ACCOUNTS[2].address);
            assert!(plain[sender.as_str().unwrap()]["balance"].is_string(), "{plain}");
            assert!(plain[json!(RECEIVER).as_str().unwrap()].is_object(), "{plain}");
            let code = |account: &Value| account.get("code").is_some();
            assert_eq!(logs.as_object().unwrap().values().filter(|a| code(a)).count(), 1, "{logs}");
            for account in logs.as_object().unwrap().values() {
                let code = account.get("code").map(|code| code.as_str().unwrap());
                let hash = code.map(|code| json!(keccak256(code.parse::<Bytes>().unwrap())));
                assert_eq!(account.get("codeHash"), hash.as_ref(), "{account}");
            }
        }),
        (
            json!({ "tracer": "prestateTracer", "tracerConfig": { "disableCode": true } }),
            |traces| {
                let accounts = || traces[1].as_object().unwrap().values();
                let having =
                    |field: &str| accounts().filter(|account| account.get(field).is_some()).count();
                assert_eq!((having("code"), having("codeHash")), (0, 1), "{}", traces[1]);
            },
        ),
        (json!({ "tracer": "prestateTracer", "tracerConfig": { "diffMode": true } }), |traces| {
            let sender = json!(DEV_ACCOUNTS[2].address);
            let (pre, post) = (&traces[0]["pre"], &traces[0]["post"]);
            let balance = |side: &Value| side[sender.as_str().unwrap()]["balance"].clone();
            assert!(balance(pre).is_string() && balance(pre) != balance(post), "{}", traces[0]);
        }),
        (json!({ "tracer": "4byteTracer" }), |[plain, _, reverts]| {
            assert_eq!((plain, reverts), (&json!({}), &json!({ "0x01020304-1": 1 })));
        }),
        (json!({ "tracer": "flatCallTracer" }), |[plain, _, reverts]| {
            assert_eq!((&plain[0]["type"], &plain[0]["subtraces"]), (&json!("call"), &json!(0)));
            assert_eq!(plain[0]["action"]["to"], json!(RECEIVER));
            assert_eq!(reverts[0]["error"], "execution reverted");
        }),
        (
            json!({ "tracer": "flatCallTracer", "tracerConfig": { "convertParityErrors": true } }),
            |[_, _, reverts]| assert_eq!(reverts[0]["error"], "Reverted"),
        ),
        (
            json!({ "tracer": "muxTracer",
                    "tracerConfig": { "callTracer": null, "4byteTracer": {},
                                      "flatCallTracer": null, "prestateTracer": null } }),
            |[plain, logs, reverts]| {
                assert_eq!(plain["callTracer"]["gasUsed"], "0x5208");
                assert_eq!(plain["flatCallTracer"][0]["result"]["gasUsed"], "0x5208");
                assert_eq!(reverts["4byteTracer"], json!({ "0x01020304-1": 1 }));
                assert_eq!(reverts["flatCallTracer"][0]["error"], "execution reverted");
                let accounts = logs["prestateTracer"].as_object().unwrap().values();
                let hashes = accounts.filter(|account| account.get("codeHash").is_some());
                assert_eq!(hashes.count(), 1, "{logs}");
            },
        ),
        (json!({ "tracer": "noopTracer" }), |traces| {
            assert_eq!(traces, [&json!({}); 3]);
        }),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn block_traces_equal_those_of_its_transactions() {
    let (node, receipts) = traced().await;
    let (number, hash) = (&receipts[0]["blockNumber"], &receipts[0]["blockHash"]);
    let rlp = node.call("debug_getRawBlock", json!([number])).await;
    assert_eq!(node.call("debug_getBlockRlp", json!([number])).await, rlp);
    let header = node.call("debug_getRawHeader", json!(["0x1"])).await;
    assert_eq!(node.call("debug_getHeaderRlp", json!([1])).await, header);
    let block = node.call("eth_getBlockByHash", json!([hash, false])).await;
    for (options, check) in tracers() {
        let traces = node.call("debug_traceBlockByNumber", json!([number, options])).await;
        let by_hash = node.call("debug_traceBlockByHash", json!([hash, options])).await;
        assert_eq!(by_hash, traces, "{options}");
        let by_rlp = node.call("debug_traceBlock", json!([rlp, options])).await;
        assert_eq!(by_rlp, traces, "{options}");
        let mut alone = Vec::new();
        for tx in block["transactions"].as_array().unwrap() {
            let result = node.call("debug_traceTransaction", json!([tx, options])).await;
            alone.push(json!({ "txHash": tx, "result": result }));
        }
        assert_eq!(traces, json!(alone), "{options}");
        let of = |receipt: &Value| {
            let hash = &receipt["transactionHash"];
            let traces = traces.as_array().unwrap();
            &traces.iter().find(|trace| trace["txHash"] == *hash).unwrap()["result"]
        };
        check([of(&receipts[0]), of(&receipts[1]), of(&receipts[2])]);
    }
    node.stop().await;
}

/// The indices of logs equal those in the receipts, even if other logs were reverted or inner calls are omitted.
#[tokio::test(flavor = "multi_thread")]
async fn traced_logs_have_their_index_in_the_block() {
    let node = tracing().await;
    let (contract, _) = created(&node, 0, CONTRACT.to_vec()).await;
    let (reverting, _) = created(&node, 1, deploying(&LOG_AND_REVERT)).await;
    let init = logging_around(&[reverting, contract]);
    let receipts = in_one_block(&node, |nonce| {
        [
            call_of(2, nonce, TxKind::Create, init.clone()),
            call_of(3, nonce, TxKind::Create, init.clone()),
            call_of(4, nonce, TxKind::Call(reverting), []),
        ]
    })
    .await;
    let trace = async |receipt: &Value, options: Value| {
        let params = json!([receipt["transactionHash"], options]);
        node.call("debug_traceTransaction", params).await
    };
    let mut last = 0;
    for receipt in &receipts {
        let with_log = json!({ "withLog": true });
        let whole = json!({ "tracer": "callTracer", "tracerConfig": with_log });
        let frame = trace(receipt, whole).await;
        let traced_logs = logs_of(&frame);
        let logs = receipt["logs"].as_array().unwrap();
        assert_eq!(traced_logs.len(), logs.len(), "{frame}");
        for (traced_log, log) in traced_logs.iter().zip(logs) {
            assert_eq!(traced_log["index"], log["logIndex"], "{frame}");
            for field in ["address", "topics", "data"] {
                assert_eq!(traced_log[field], log[field], "{frame}");
            }
            last = last.max(number(&log["logIndex"]).to::<u64>());
        }
        let top = json!({ "withLog": true, "onlyTopCall": true });
        let alone = json!({ "tracer": "callTracer", "tracerConfig": top });
        let alone = trace(receipt, alone).await;
        let mut expected = frame.clone();
        expected.as_object_mut().unwrap().remove("calls");
        for log in expected.get_mut("logs").and_then(Value::as_array_mut).into_iter().flatten() {
            log["position"] = json!("0x0");
        }
        assert_eq!(alone, expected);
        for (config, expected) in [(with_log, &frame), (top, &alone)] {
            let mux = json!({ "tracer": "muxTracer", "tracerConfig": { "callTracer": config } });
            assert_eq!(trace(receipt, mux).await["callTracer"], *expected);
        }
    }
    assert_eq!(last, 5, "two transactions with three logs each");
    let options = json!({ "tracer": "callTracer", "tracerConfig": { "withLog": true } });
    let frame = trace(&receipts[0], options.clone()).await;
    assert_eq!(positions(&frame), ["0x0", "0x2"], "{frame}");
    assert_eq!(frame["calls"][0]["error"], "execution reverted");
    assert_eq!(positions(&frame["calls"][1]), ["0x0"]);
    // A traced call is not part of a block, so its first log has index 0.
    let params = json!([{ "to": contract }, receipts[0]["blockNumber"], options]);
    let frame = node.call("debug_traceCall", params).await;
    assert_eq!(logs_of(&frame)[0]["index"], "0x0", "{frame}");
    node.stop().await;
}

/// The options determine whether the trace of a creation contains the new account.
#[tokio::test(flavor = "multi_thread")]
async fn prestate_tracer_can_return_code_hashes() {
    let node = tracing().await;
    let (contract, hash) = created(&node, 0, CONTRACT.to_vec()).await;
    let (code, key) = (&CONTRACT[9..], key(contract));
    let prestate = async |config: Value| {
        let options = json!({ "tracer": "prestateTracer", "tracerConfig": config });
        node.call("debug_traceTransaction", json!([hash, options])).await
    };
    for disable_code in [false, true] {
        let trace = prestate(json!({ "diffMode": true, "disableCode": disable_code })).await;
        assert!(trace["pre"].get(&key).is_none(), "{trace}");
        let mut expected = json!({ "nonce": 1, "codeHash": keccak256(code) });
        if !disable_code {
            expected["code"] = json!(Bytes::from(code.to_vec()));
        }
        assert_eq!(trace["post"][&key], expected, "{trace}");
    }
    let trace = prestate(json!({})).await;
    assert!(trace.get(&key).is_none(), "{trace}");
    let trace = prestate(json!({ "includeEmpty": true })).await;
    assert_eq!(trace[&key], json!({ "balance": "0x0" }), "{trace}");
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_instruction_has_the_name_of_geth() {
    let node = tracing().await;
    let (call, code) = (json!({ "to": RECEIVER, "gas": "0x10000" }), json!({ "code": "0xfe" }));
    let overrides = json!({ RECEIVER.to_string(): code });
    let wanted = "invalid opcode: INVALID";
    for method in ["eth_call", "eth_estimateGas"] {
        let (code, message) = node.fail(method, json!([call, "latest", overrides])).await;
        assert_eq!((code, message.as_str()), (-32000, wanted), "{method}");
    }
    let trace = async |mut options: Value| {
        options["stateOverrides"] = overrides.clone();
        node.call("debug_traceCall", json!([call, "latest", options])).await
    };
    assert_eq!(trace(json!({ "tracer": "callTracer" })).await["error"], wanted);
    assert_eq!(trace(json!({ "tracer": "flatCallTracer" })).await[0]["error"], wanted);
    let parity = json!({ "convertParityErrors": true });
    let parity = trace(json!({ "tracer": "flatCallTracer", "tracerConfig": parity })).await;
    assert_eq!(parity[0]["error"], "Bad instruction");
    node.stop().await;
}

/// A call can be traced before each transaction of a block, or after all of them.
#[tokio::test(flavor = "multi_thread")]
async fn call_can_be_traced_within_a_block() {
    let node = tracing().await;
    let transfers = |nonce| [2, 3, 4].map(|from| transfer(from, nonce, RECEIVER));
    let receipts = in_one_block(&node, transfers).await;
    let block = number(&receipts[0]["blockNumber"]).to::<u64>();
    let parent = json!([RECEIVER, format!("{:#x}", block - 1)]);
    let before = number(&node.call("eth_getBalance", parent).await);
    let block = format!("{block:#x}");
    let balance = async |index: Value| {
        let options = json!({ "tracer": "prestateTracer", "txIndex": index });
        let trace = node.call("debug_traceCall", json!([{ "to": RECEIVER }, block, options])).await;
        number(&trace[key(RECEIVER)]["balance"])
    };
    for (more, index) in (0_u64..).zip([json!("0x0"), json!("0x1"), json!("0x2"), Value::Null]) {
        assert_eq!(balance(index).await, before + U256::from(more));
    }
    // The call runs in the environment of the block, with the overrides.
    let code = json!({ RECEIVER.to_string(): { "code": "0x4360005260206000f3" } });
    for (overrides, seen) in
        [(json!({}), block.as_str()), (json!({ "number": "0x7777" }), "0x7777")]
    {
        let options = json!({ "tracer": "callTracer", "txIndex": "0x1", "stateOverrides": code,
                              "blockOverrides": overrides });
        let trace = node.call("debug_traceCall", json!([{ "to": RECEIVER }, block, options])).await;
        assert_eq!(number(&trace["output"]), number(&json!(seen)), "{trace}");
    }
    let options = json!({ "tracer": "callTracer", "txIndex": "0x3" });
    let (code, message) = node.fail("debug_traceCall", json!([{}, block, options])).await;
    let hash = receipts[0]["blockHash"].as_str().unwrap();
    let wanted = format!("transaction index 3 out of range for block {hash}");
    assert_eq!((code, message), (-32000, wanted));
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_trace_requests_are_refused() {
    let node = tracing().await;
    let block = node.wait_for("eth_getBlockByNumber", json!(["0x1", false])).await;
    let (hash, none) = (&block["hash"], format!("0x{:064x}", 7));
    for tracer in ["callTracer", "prestateTracer", "noopTracer"] {
        let traces =
            node.call("debug_traceBlockByNumber", json!(["0x1", { "tracer": tracer }])).await;
        assert_eq!(traces, json!([]), "an empty block has no traces");
    }
    let beginning = json!([{}, "0x1", { "tracer": "callTracer", "txIndex": "0x0" }]);
    assert_eq!(node.call("debug_traceCall", beginning).await["type"], "CREATE");
    assert_eq!(node.call("debug_getBadBlocks", json!([])).await, json!([]));
    let not_found = format!("block {none} not found");
    let contrary = json!({ "diffMode": true, "includeEmpty": true });
    let mux = json!({ "tracer": "muxTracer", "tracerConfig": { "prestateTracer": contrary } });
    let contrary = json!({ "tracer": "prestateTracer", "tracerConfig": contrary });
    let not_both = "cannot use diffMode with includeEmpty";
    let on_pending = "tracing on top of pending is not supported";
    let at = |index: Value| json!({ "txIndex": index });
    let beyond = format!("transaction index 1 out of range for block {}", hash.as_str().unwrap());
    for (method, params, code, text) in [
        ("debug_traceBlockByNumber", json!([]), -32602, "missing value for required argument 0"),
        ("debug_traceBlockByNumber", json!([1]), -32602, "invalid argument 0"),
        ("debug_traceBlockByNumber", json!(["newest"]), -32602, "invalid argument 0"),
        ("debug_traceBlockByNumber", json!([hash]), -32602, "invalid argument 0"),
        (
            "debug_traceBlockByNumber",
            json!(["0x1", []]),
            -32602,
            "invalid argument 1: must be an object, got a list",
        ),
        ("debug_traceBlockByNumber", json!(["0x1", { "tracer": 7 }]), -32602, "invalid argument 1"),
        ("debug_traceBlockByNumber", json!(["0x1", {}, 1]), -32602, "too many arguments"),
        ("debug_traceBlockByNumber", json!(["0x0"]), -32000, "genesis is not traceable"),
        ("debug_traceBlockByNumber", json!(["0xffffff"]), -32000, "block #16777215 not found"),
        ("debug_traceBlockByHash", json!([]), -32602, "missing value for required argument 0"),
        ("debug_traceBlockByHash", json!(["latest"]), -32602, "invalid argument 0"),
        ("debug_traceBlockByHash", json!([none]), -32000, not_found.as_str()),
        ("debug_traceBlock", json!(["0x"]), -32602, "invalid argument 0"),
        ("debug_traceBlock", json!(["0xc0"]), -32602, "invalid argument 0"),
        ("debug_traceTransaction", json!([none]), -32000, "transaction not found"),
        ("debug_traceBlockByNumber", json!(["0x1", contrary]), -32000, not_both),
        ("debug_traceCall", json!([{}, "latest", contrary]), -32000, not_both),
        ("debug_traceCall", json!([{}, "latest", mux]), -32000, not_both),
        ("debug_traceCall", json!([{}, "pending"]), -32000, on_pending),
        ("debug_traceCall", json!([{}, { "blockNumber": "pending" }]), -32000, on_pending),
        ("debug_traceCall", json!([{}, "0xffffff"]), -32000, "block #16777215 not found"),
        ("debug_traceCall", json!([{}, none]), -32000, not_found.as_str()),
        ("debug_traceCall", json!([{}, { "blockHash": none }]), -32000, not_found.as_str()),
        (
            "debug_traceCall",
            json!([{}, "0x0", at(json!("0x0"))]),
            -32000,
            "no transaction in genesis",
        ),
        ("debug_traceCall", json!([{}, "0x1", at(json!("0x1"))]), -32000, beyond.as_str()),
        ("debug_traceCall", json!([{}, "0x1", at(json!(1))]), -32602, "invalid argument 2"),
    ] {
        let (found, message) = node.fail(method, params.clone()).await;
        assert_eq!(found, code, "{method} {params}: {message}");
        assert!(message.starts_with(text), "{method} {params}: {message}");
    }
    for tracer in ["noSuchTracer", "{ result: function() {} }"] {
        for params in [json!(["0x1", { "tracer": tracer }]), json!([hash, { "tracer": tracer }])] {
            let method = match params[0].as_str().unwrap().len() {
                66 => "debug_traceBlockByHash",
                _ => "debug_traceBlockByNumber",
            };
            let (code, message) = node.fail(method, params.clone()).await;
            assert_eq!(code, -32000, "{params}: {message}");
        }
    }
    node.stop().await;
}
