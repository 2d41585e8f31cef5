//! The option `timeout` limits the run time of every tracer, in every method that accepts a tracer.

use super::explorer::serve;
use crate::{
    client::Node,
    common::{native_home, transfer},
};
use alloy_primitives::Address;
use serde_json::{Value, json};

/// Code that loops until its gas is used up.
const LOOP: &str = "0x5b600056";
const LOOPER: &str = "0x00000000000000000000000000000000000c0de0";
const TIMEOUT: (i64, &str) = (-32000, "execution timeout");

fn tracers() -> Vec<Value> {
    let mux = json!({ "tracer": "muxTracer", "tracerConfig": { "callTracer": null } });
    let named = ["callTracer", "prestateTracer", "4byteTracer", "flatCallTracer", "noopTracer"];
    let named = named.map(|tracer| json!({ "tracer": tracer }));
    [vec![json!({}), mux], named.to_vec()].concat()
}

/// Sends a transaction to trace; returns all methods that accept a tracer, with the parameters before the options.
async fn methods(node: &Node) -> Vec<(&'static str, Vec<Value>)> {
    let hash = node.call("eth_sendRawTransaction", json!([transfer(0, 0, Address::ZERO)])).await;
    let receipt = node.wait_for("eth_getTransactionReceipt", json!([hash])).await;
    let (number, block) = (receipt["blockNumber"].clone(), receipt["blockHash"].clone());
    let rlp = node.call("debug_getRawBlock", json!([number])).await;
    let call = json!({ "from": receipt["from"], "to": Address::ZERO });
    vec![
        ("debug_traceTransaction", vec![hash]),
        ("debug_traceBlockByNumber", vec![number.clone()]),
        ("debug_traceBlockByHash", vec![block]),
        ("debug_traceBlock", vec![rlp]),
        ("debug_traceCall", vec![call, number]),
    ]
}

fn with_options(before: &[Value], options: &Value, more: Value) -> Value {
    let mut options = options.clone();
    options.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    before.iter().cloned().chain([options]).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_method_and_tracer_has_a_timeout() {
    let folder = tempfile::tempdir().unwrap();
    let home = native_home(folder.path());
    let node = serve(folder, home).await;
    for (method, before) in methods(&node).await {
        for tracer in tracers() {
            for duration in ["0s", "1ns", "-5s"] {
                let params = with_options(&before, &tracer, json!({ "timeout": duration }));
                let (code, message) = node.fail(method, params).await;
                assert_eq!((code, message.as_str()), TIMEOUT, "{method} {tracer} {duration}");
            }
            let untimed = node.call(method, with_options(&before, &tracer, json!({}))).await;
            let timed = json!({ "timeout": "1m0.5s" });
            let timed = node.call(method, with_options(&before, &tracer, timed)).await;
            assert_eq!(timed, untimed, "{method} {tracer}");
        }
        let params = with_options(&before, &json!({}), json!({ "timeout": "5" }));
        let (code, message) = node.fail(method, params).await;
        assert_eq!((code, message.as_str()), (-32000, r#"time: missing unit in duration "5""#));
    }
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn running_code_is_aborted() {
    let folder = tempfile::tempdir().unwrap();
    let home = native_home(folder.path());
    let node = serve(folder, home).await;
    // This sends a transaction. Otherwise, the newest block would be genesis, in which no transaction can be traced.
    methods(&node).await;
    let call = json!({ "to": LOOPER, "gas": "0x2faf080" });
    let options = json!({
        "tracer": "noopTracer", "timeout": "1ms", "stateOverrides": { LOOPER: { "code": LOOP } },
    });
    for more in [json!({}), json!({ "txIndex": "0x0" })] {
        let params = with_options(&[call.clone(), json!("latest")], &options, more);
        let (code, message) = node.fail("debug_traceCall", params).await;
        assert_eq!((code, message.as_str()), TIMEOUT);
    }
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn timeout_of_the_node_is_the_maximum() {
    let folder = tempfile::tempdir().unwrap();
    let home = native_home(folder.path());
    let change = |config: &mut config::Config| {
        config.json_rpc.gas_cap = 0;
        config.json_rpc.call_timeout_ms = 100;
    };
    let node = super::explorer::serve_with(folder, home, change).await;
    let call = json!({ "to": LOOPER, "gas": "0xffffffffffff" });
    let options = json!({
        "tracer": "noopTracer", "timeout": "1000h", "stateOverrides": { LOOPER: { "code": LOOP } },
    });
    let (code, message) = node.fail("debug_traceCall", json!([call, "latest", options])).await;
    assert_eq!((code, message.as_str()), (-32000, "execution aborted (timeout = 100ms)"));
    node.stop().await;
}
