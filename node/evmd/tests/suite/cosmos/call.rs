//! Compares calls and estimates over REST with those of JSON-RPC.

use super::served::Served;
use crate::{
    client::{Node, config},
    common::{native_home, producing},
};
use alloy_primitives::hex;
use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use chain::DEV_ACCOUNTS;
use serde_json::{Value, json};
use std::time::Duration;

/// A precompile that returns its input.
const IDENTITY: &str = "0x0000000000000000000000000000000000000004";
/// A contract that stores block hashes. It reverts if the input is not the number of a block with a stored hash.
const HISTORY: &str = "0x0000F90827F1C53a10cb7A02335B175320002935";
/// Code that runs until its gas is used up.
const ENDLESS: &str = "0x5b600056";
/// Code that returns the proposer of the block.
const PROPOSER: &str = "0x4160005260206000f3";

/// Calls a method with these arguments; returns status and response. `rest` contains the other query parameters.
async fn ask(served: &Served, method: &str, args: &Value, rest: &str) -> (u16, Value) {
    let args = BASE64.encode(args.to_string());
    let args = args.replace('+', "%2B").replace('/', "%2F").replace('=', "%3D");
    served.ask(&format!("/cosmos/evm/vm/v1/{method}?args={args}{rest}")).await
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_return_the_same_as_json_rpc() {
    let served = Served::start().await;
    let args = json!({ "to": IDENTITY, "data": "0x123456" });
    let (status, body) = ask(&served, "eth_call", &args, "").await;
    assert_eq!((status, &body["vm_error"]), (200, &json!("")), "{body}");
    let output = served.node.call("eth_call", json!([args, "latest"])).await;
    let ret = BASE64.decode(body["ret"].as_str().unwrap()).unwrap();
    assert_eq!((json!(hex::encode_prefixed(ret)), &output), (output.clone(), &json!("0x123456")));
    let transfer = json!({ "from": DEV_ACCOUNTS[0].address, "to": HISTORY, "value": "0x1" });
    for args in [args, json!({ "data": PROPOSER })] {
        let (_, body) = ask(&served, "estimate_gas", &args, "").await;
        let gas = served.node.call("eth_estimateGas", json!([args])).await;
        let gas = u64::from_str_radix(&gas.as_str().unwrap()[2..], 16).unwrap();
        assert_eq!(body["gas"], gas.to_string(), "{args}");
    }
    // A failed call returns a successful response, not an error.
    for (method, args) in
        [("eth_call", json!({ "to": HISTORY, "data": "0x01" })), ("estimate_gas", transfer)]
    {
        let (status, body) = ask(&served, method, &args, "").await;
        assert_eq!((status, &body["vm_error"]), (200, &json!("execution reverted")), "{body}");
    }
    let (_, body) = ask(&served, "eth_call", &json!({ "data": ENDLESS }), "&gas_cap=60000").await;
    assert_eq!((&body["vm_error"], &body["gas_used"]), (&json!("out of gas"), &json!("60000")));
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn call_can_override_the_proposer() {
    let served = Served::start().await;
    let proposer = DEV_ACCOUNTS[1].address;
    let bytes = BASE64.encode(proposer).replace('+', "%2B").replace('/', "%2F");
    let rest = format!("&proposer_address={}&chain_id=262144", bytes.replace('=', "%3D"));
    let (_, body) = ask(&served, "eth_call", &json!({ "data": PROPOSER }), &rest).await;
    let ret = BASE64.decode(body["ret"].as_str().unwrap()).unwrap();
    assert_eq!(ret[12..], proposer[..], "{body}");
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_calls_are_refused() {
    let served = Served::start().await;
    let call = json!({ "to": IDENTITY });
    let poor = json!({ "from": IDENTITY, "to": HISTORY, "value": "0x1" });
    for (method, args, rest, reason) in [
        ("eth_call", json!([]), "", "must be an object, got a list"),
        ("eth_call", json!({ "gas": 1 }), "", "invalid argument 0"),
        ("eth_call", json!({ "to": IDENTITY, "chainId": "0x1" }), "", "chainId does not match"),
        ("eth_call", call.clone(), "&chain_id=1", "chain_id must be 262144"),
        ("eth_call", call.clone(), "&chain_id=-1", "chain_id must be 262144"),
        ("eth_call", call.clone(), "&proposer_address=AAAA", "must have 20 bytes, got 3"),
        ("estimate_gas", call.clone(), "&gas_cap=20999", "at least 21000"),
        ("estimate_gas", json!({ "data": ENDLESS }), "&gas_cap=60000", "allowance (60000)"),
        ("eth_call", poor, "", "insufficient funds"),
    ] {
        let (status, body) = ask(&served, method, &args, rest).await;
        assert_eq!((status, &body["code"]), (400, &json!(3)), "{body}");
        assert!(body["message"].as_str().unwrap().contains(reason), "{reason}: {body}");
    }
    let (status, _) = served.ask("/cosmos/evm/vm/v1/eth_call").await;
    assert_eq!(status, 400, "the arguments are missing");
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn endless_call_is_aborted() {
    let folder = tempfile::tempdir().unwrap();
    let home = native_home(folder.path());
    let mut settings = config();
    settings.json_rpc.gas_cap = 0;
    settings.json_rpc.call_timeout_ms = 50;
    let options = producing(Some(Duration::from_millis(5)));
    let served = Served::with(Node::start_with(folder, home, options, settings).await).await;
    let (status, body) = ask(&served, "eth_call", &json!({ "data": ENDLESS }), "").await;
    assert_eq!((status, &body["code"]), (504, &json!(4)), "{body}");
    assert!(body["message"].as_str().unwrap().contains("timeout = 50ms"), "{body}");
    served.stop().await;
}
