//! `debug_traceBlock*`: a block's traces are those of its transactions, under each tracer.

use crate::{
    client::Node,
    common::{CHAIN_ID, FEE_CAP, sign, transfer},
    native::CONTRACT,
};
use alloy_consensus::TxEip1559;
use alloy_primitives::{Address, Bytes, TxKind};
use node::chain::DEV_ACCOUNTS;
use serde_json::{Value, json};

/// Times three transactions are sent until one block holds them all.
const TRIES: u64 = 200;
/// Where the transfers go: somebody who is there before.
const RECEIVER: Address = DEV_ACCOUNTS[9].address;

fn call_of(from: usize, nonce: u64, to: TxKind, input: impl Into<Bytes>) -> Bytes {
    sign(
        from,
        TxEip1559 {
            chain_id: CHAIN_ID,
            nonce,
            gas_limit: 200_000,
            max_fee_per_gas: FEE_CAP,
            to,
            input: input.into(),
            ..TxEip1559::default()
        },
    )
}

/// A node with a block of a transfer, a call that logs, and one that reverts: its receipts, in
/// this order.
async fn traced() -> (Node, [Value; 3]) {
    let node = Node::native_with(|config| config.json_rpc.api.push("debug".to_owned())).await;
    let create = call_of(1, 0, TxKind::Create, CONTRACT.to_vec());
    let hash = node.call("eth_sendRawTransaction", json!([create])).await;
    let receipt = node.wait_for("eth_getTransactionReceipt", json!([hash])).await;
    let contract: Address = serde_json::from_value(receipt["contractAddress"].clone()).unwrap();
    for nonce in 0..TRIES {
        let raw = [
            transfer(2, nonce, RECEIVER),
            call_of(3, nonce, TxKind::Call(contract), []),
            call_of(4, nonce, TxKind::Call(contract), [1, 2, 3, 4, 5]),
        ];
        let calls = raw.map(|raw| {
            json!({ "jsonrpc": "2.0", "id": 1, "method": "eth_sendRawTransaction", "params": [raw] })
        });
        let sent = node.post(&json!(calls).to_string()).await;
        let receipt = async |at: usize| {
            let hash = sent[at]["result"].clone();
            node.wait_for("eth_getTransactionReceipt", json!([hash])).await
        };
        let receipts = [receipt(0).await, receipt(1).await, receipt(2).await];
        if receipts.iter().all(|receipt| receipt["blockHash"] == receipts[0]["blockHash"]) {
            return (node, receipts);
        }
    }
    panic!("no block has taken three transactions sent together");
}

/// Looks at the traces of the transfer, the call that logs, and the one that reverts.
type Look = fn([&Value; 3]);

/// Every tracer, with what its traces must say.
fn tracers() -> Vec<(Value, Look)> {
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
        }),
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
                    "tracerConfig": { "callTracer": null, "4byteTracer": {} } }),
            |[plain, _, reverts]| {
                assert_eq!(plain["callTracer"]["gasUsed"], "0x5208");
                assert_eq!(reverts["4byteTracer"], json!({ "0x01020304-1": 1 }));
            },
        ),
        (json!({ "tracer": "noopTracer" }), |traces| {
            assert_eq!(traces, [&json!({}); 3]);
        }),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_blocks_traces_are_those_of_its_transactions() {
    let (node, receipts) = traced().await;
    let (number, hash) = (&receipts[0]["blockNumber"], &receipts[0]["blockHash"]);
    let rlp = node.call("debug_getRawBlock", json!([number])).await;
    assert_eq!(node.call("debug_getBlockRlp", json!([number])).await, rlp);
    let header = node.call("debug_getRawHeader", json!(["0x1"])).await;
    assert_eq!(node.call("debug_getHeaderRlp", json!([1])).await, header);
    let block = node.call("eth_getBlockByHash", json!([hash, false])).await;
    for (options, look) in tracers() {
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
        look([of(&receipts[0]), of(&receipts[1]), of(&receipts[2])]);
    }
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_traced_is_refused() {
    let node = Node::native_with(|config| config.json_rpc.api.push("debug".to_owned())).await;
    let block = node.wait_for("eth_getBlockByNumber", json!(["0x1", false])).await;
    let (hash, none) = (&block["hash"], format!("0x{:064x}", 7));
    for tracer in ["callTracer", "prestateTracer", "noopTracer"] {
        let traces =
            node.call("debug_traceBlockByNumber", json!(["0x1", { "tracer": tracer }])).await;
        assert_eq!(traces, json!([]), "an empty block has no traces");
    }
    let not_found = format!("block {none} not found");
    for (method, params, code, text) in [
        ("debug_traceBlockByNumber", json!([]), -32602, "missing value for required argument 0"),
        ("debug_traceBlockByNumber", json!([1]), -32602, "invalid argument 0"),
        ("debug_traceBlockByNumber", json!(["newest"]), -32602, "invalid argument 0"),
        ("debug_traceBlockByNumber", json!([hash]), -32602, "invalid argument 0"),
        (
            "debug_traceBlockByNumber",
            json!(["0x1", []]),
            -32602,
            "invalid argument 1: not an object",
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
