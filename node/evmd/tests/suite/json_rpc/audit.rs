//! Calls every method with too few, too many or mistyped parameters, and with blocks that do not exist. None of these
//! calls may cause an internal error.

use crate::client::Node;
use rpc::methods;
use rpc_eth::method::Method;
use serde_json::{Value, json};

/// Codes of errors that a request can cause. -32603 is not among them, because it is an internal error.
const CLIENT_ERRORS: [i64; 4] = [-32602, -32000, -32005, 3];

async fn node_with_all_namespaces() -> Node {
    Node::native_with(|config| {
        let names = methods().map(|method| method.namespace().to_owned());
        config.json_rpc.api = names.collect();
        config.json_rpc.api.dedup();
    })
    .await
}

/// Returns a valid value for a parameter with this name.
fn valid_value(name: &str) -> Value {
    match name {
        "address" => json!("0x0000000000000000000000000000000000000000"),
        "hash" | "parent" | "startHash" => json!(format!("0x{:064x}", 7)),
        "block" | "newest" | "from" | "to" | "bound" => json!("0x0"),
        "full" | "enabled" => json!(false),
        "index" | "slot" | "id" | "count" | "bucketBlocks" | "nonce" | "page" | "pageSize"
        | "start" | "txIndex" | "limit" | "seconds" | "timestamp" | "balance" | "value"
        | "baseFee" => {
            json!("0x1")
        }
        "data" | "code" | "dump" | "rlp" | "signature" | "startKey" => json!("0x"),
        "slots" => json!(["0x0"]),
        "types" => json!(["trace"]),
        "calls" | "traceAddress" | "bundles" => json!([]),
        "slots by address" => json!({ "0x0000000000000000000000000000000000000000": [] }),
        "passphrase" | "key" => json!("secret"),
        "payload" => json!({ "blockStateCalls": [{}] }),
        "attributes" => json!({
            "timestamp": "0x1",
            "prevRandao": valid_value("hash"),
            "suggestedFeeRecipient": valid_value("address"),
        }),
        "filter" | "transaction" | "typedData" => json!({}),
        other => panic!("no value is known for the parameter {other}"),
    }
}

/// Returns the parameters that have no default.
fn required(method: &Method) -> impl Iterator<Item = &'static str> {
    method.parameters.iter().copied().filter(|parameter| !parameter.contains(" = "))
}

fn first_valid_params(method: &Method, count: usize) -> Vec<Value> {
    required(method).take(count).map(valid_value).collect()
}

/// Required parameters that may be `null`, as in geth: the method, and the index of the parameter.
const NULLABLE: [(&str, usize); 9] = [
    ("debug_accountRange", 1),
    ("eth_getBlockByNumber", 1),
    ("eth_getBlockByHash", 1),
    ("eth_getProof", 1),
    ("eth_getLogs", 0),
    ("eth_newFilter", 0),
    ("eth_getFilterChanges", 0),
    ("eth_getFilterLogs", 0),
    ("eth_uninstallFilter", 0),
];

#[tokio::test(flavor = "multi_thread")]
async fn every_method_refuses_missing_and_extra_parameters() {
    let node = node_with_all_namespaces().await;
    for method in methods() {
        let name = method.name;
        let max_params = method.parameters.len();
        let (code, message) = node.fail(name, json!({ "x": 1 })).await;
        assert_eq!((code, message.as_str()), (-32602, "non-array args"), "{name}");
        let too_many = Value::from(vec![Value::Null; max_params + 1]);
        let (code, message) = node.fail(name, too_many).await;
        let wanted = format!("too many arguments, want at most {max_params}");
        assert_eq!((code, message), (-32602, wanted), "{name}");
        for missing in 0..required(method).count() {
            let params = first_valid_params(method, missing);
            let wanted = format!("missing value for required argument {missing}");
            let (code, message) = node.fail(name, json!(params)).await;
            assert_eq!((code, &message), (-32602, &wanted), "{name} {params:?}");
            if NULLABLE.contains(&(name, missing)) {
                continue;
            }
            let with_null = Value::from([params, vec![Value::Null]].concat());
            let (code, message) = node.fail(name, with_null.clone()).await;
            assert_eq!((code, message), (-32602, wanted), "{name} {with_null}");
        }
    }
    node.stop().await;
}

/// Returns JSON texts that are invalid for almost every parameter, including numbers out of range.
fn invalid_values() -> Vec<String> {
    let long = |digits: usize| format!("\"0x{}\"", "f".repeat(digits));
    let mut texts: Vec<String> = [
        "-1",
        "1.5",
        "1e400",
        "123456789012345678901234567890",
        "true",
        "[]",
        "[[[]]]",
        "[null]",
        "[7]",
        "{}",
        "{\"x\":{}}",
        "{\"blockNumber\":7}",
        "{\"blockHash\":\"0x7\",\"blockNumber\":\"0x7\"}",
        "{\"tracer\":[]}",
        "{\"fromBlock\":\"0x7\",\"toBlock\":\"0x1\"}",
        "{\"address\":{},\"topics\":7}",
        "{\"from\":7,\"to\":[],\"data\":\"0x1\"}",
        "{\"0x\":{\"balance\":\"0x\"}}",
        "{\"blockStateCalls\":[7]}",
        "\"\"",
        "\"0x\"",
        "\"0xzz\"",
        "\"0x07\"",
        "\"latestt\"",
        "\"\\u0000\\ud83d\\ude00\"",
        "\"0xffffffffffffffff\"",
        "\"0x10000000000000000\"",
    ]
    .map(str::to_owned)
    .into();
    texts.extend([40, 63, 64, 65, 20_000].map(long));
    texts
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_parameters_are_never_internal_errors() {
    let node = node_with_all_namespaces().await;
    for method in methods() {
        for at in 0..method.parameters.len() {
            let before = first_valid_params(method, at);
            // Optional parameters before this one are `null`.
            let before =
                before.iter().map(Value::to_string).chain(std::iter::repeat("null".into()));
            let before: Vec<String> = before.take(at).collect();
            for text in invalid_values() {
                let params = [before.as_slice(), std::slice::from_ref(&text)].concat().join(",");
                let name = method.name;
                let call = format!(
                    "{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"{name}\",\"params\":[{params}]}}"
                );
                let response = node.post(&call).await;
                let shown: String = params.chars().take(100).collect();
                let Some(error) = response.get("error") else {
                    assert!(response.get("result").is_some(), "{name} {shown}: {response}");
                    continue;
                };
                let code = error["code"].as_i64().unwrap();
                assert!(CLIENT_ERRORS.contains(&code), "{name} {shown}: {response}");
                let message = error["message"].as_str().unwrap();
                assert!(!message.is_empty() && message.len() < 1000, "{name} {shown}: {response}");
            }
        }
    }
    assert_eq!(node.call("eth_chainId", json!([])).await, "0x40000", "requests are still served");
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_blocks_are_null_or_an_error_of_the_client() {
    let node = node_with_all_namespaces().await;
    let unknown = format!("0x{:064x}", 7);
    for method in methods() {
        let Some(at) = method.parameters.iter().position(|name| name.starts_with("block")) else {
            continue;
        };
        if method.parameters[at].starts_with("blockOverrides") {
            continue;
        }
        let before = first_valid_params(method, at);
        for block in ["newest", "Latest", "0x", "12", "0x8000000000000000", "-0x1"] {
            let params = [before.clone(), vec![json!(block)]].concat();
            let (code, message) = node.fail(method.name, json!(params)).await;
            assert_eq!(code, -32602, "{} {block}: {message}", method.name);
            let wanted = format!("invalid argument {at}: ");
            assert!(message.starts_with(&wanted), "{} {block}: {message}", method.name);
        }
        // These are a future block and an unknown hash. The hash is invalid if the method expects a number.
        for block in ["0xffffff", unknown.as_str()] {
            let after: Vec<_> = required(method).skip(before.len() + 1).map(valid_value).collect();
            let params = [before.clone(), vec![json!(block)], after].concat();
            let response = node.response(method.name, json!(params)).await;
            let code = response["error"]["code"].as_i64();
            let is_null = response.get("result") == Some(&Value::Null);
            assert!(
                is_null || [Some(-32000), Some(-32602)].contains(&code),
                "{} {block}: {response}",
                method.name
            );
        }
    }
    node.stop().await;
}
