//! Compares the OpenRPC document of `rpc.discover` with the served methods and with recorded requests.

use crate::client::Node;
use serde_json::{Value, json};
use std::path::Path;

/// Returns whether a value has one of the types that a schema allows.
fn conforms(schema: &Value, value: &Value) -> bool {
    let kinds = match &schema["type"] {
        Value::String(kind) => vec![kind.as_str()],
        Value::Array(kinds) => kinds.iter().map(|kind| kind.as_str().unwrap()).collect(),
        _ => return true,
    };
    let is_kind = |kind: &&str| match *kind {
        "string" => value.is_string(),
        "integer" => value.is_u64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "object" => value.is_object(),
        "array" => value.is_array(),
        kind => panic!("unknown type {kind}"),
    };
    let mut items = value.as_array().into_iter().flatten();
    kinds.iter().any(is_kind) && items.all(|item| conforms(&schema["items"], item))
}

#[tokio::test(flavor = "multi_thread")]
async fn openrpc_document_describes_the_served_methods() {
    let node = Node::native_with(|config| {
        config.json_rpc.api = rpc::namespaces().into_iter().map(str::to_owned).collect();
    })
    .await;
    let document = node.call("rpc.discover", json!([])).await;
    assert_eq!(document, node.call("rpc_discover", json!([])).await);
    let methods = document["methods"].as_array().unwrap();
    let described = |name: &str| methods.iter().find(|method| method["name"] == name);
    for name in rpc::methods().map(|method| method.name) {
        assert!(described(name).is_some(), "{name}");
    }
    for method in [
        "rpc.discover",
        "eth_coinbase",
        "eth_callMany",
        "eth_getAccount",
        "debug_storageRangeAt",
        "debug_accountRange",
        "debug_intermediateRoots",
        "debug_getModifiedAccountsByNumber",
        "debug_getModifiedAccountsByHash",
        "debug_executionWitness",
        "personal_listAccounts",
    ] {
        assert!(described(method).is_some(), "{method}");
    }
    // The requests of the recorded conversations conform to the document.
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/rpc_io");
    let mut requests = 0;
    for file in std::fs::read_dir(folder).unwrap() {
        let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
        for request in text.lines().filter_map(|line| line.strip_prefix(">> ")) {
            let request: Value = serde_json::from_str(request).unwrap();
            let (name, params) = (request["method"].as_str().unwrap(), &request["params"]);
            let method = described(name).unwrap_or_else(|| panic!("{name}"));
            let parameters = method["params"].as_array().unwrap();
            let values = params.as_array().unwrap();
            for (parameter, value) in parameters.iter().zip(values) {
                let optional = parameter["required"] == false && value.is_null();
                assert!(
                    optional || conforms(&parameter["schema"], value),
                    "{name}: {parameter} {value}"
                );
            }
            requests += 1;
        }
    }
    assert!(requests > 20, "{requests}");
    node.stop().await;
    // By default, the document omits `personal` and `debug`, except the methods that are served nevertheless.
    let node = Node::native().await;
    let document = node.call("rpc.discover", json!([])).await;
    let names: Vec<_> =
        document["methods"].as_array().unwrap().iter().map(|method| &method["name"]).collect();
    assert!(names.contains(&&json!("personal_listAccounts")));
    assert!(
        !names.contains(&&json!("personal_sign")) && !names.contains(&&json!("debug_traceCall"))
    );
    node.stop().await;
}
