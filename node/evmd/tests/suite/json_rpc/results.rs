//! The results of methods conform to the schemas in `rpc.discover`.

use super::explorer::busy;
use crate::{
    client::{Node, is_replica},
    common::{fixtures, transfer},
};
use alloy_primitives::Address;
use boon::{Compiler, SchemaIndex, Schemas};
use chain::DEV_ACCOUNTS;
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

/// The URL of the document for the schema compiler.
const URL: &str = "http://localhost/openrpc.json";

/// Methods whose results need a keyring, or a chain that follows Ethereum's rules.
const NOT_CALLED: [&str; 12] = [
    "eth_sendTransaction",
    "eth_sign",
    "eth_signTransaction",
    "eth_signTypedData",
    "eth_signTypedData_v4",
    "personal_importRawKey",
    "personal_lockAccount",
    "personal_newAccount",
    "personal_sendTransaction",
    "personal_sign",
    "personal_unlockAccount",
    "testing_buildBlockV1",
];

/// Validates results and records their methods.
struct Checker {
    schemas: Schemas,
    of_method: BTreeMap<String, SchemaIndex>,
    checked: BTreeSet<String>,
    violations: Vec<String>,
}

impl Checker {
    /// Uses the document of a node that serves all namespaces.
    async fn new() -> Self {
        let node = Node::native_with(|config| {
            config.json_rpc.api = rpc::namespaces().into_iter().map(str::to_owned).collect();
        })
        .await;
        let document = node.call("rpc.discover", json!([])).await;
        node.stop().await;
        let mut compiler = Compiler::new();
        compiler.add_resource(URL, document.clone()).unwrap();
        let mut schemas = Schemas::new();
        let methods = document["methods"].as_array().unwrap().iter().enumerate();
        let of_method = methods.map(|(index, method)| {
            let pointer = format!("{URL}#/methods/{index}/result/schema");
            let compiled = compiler.compile(&pointer, &mut schemas);
            let compiled = compiled.unwrap_or_else(|error| panic!("{pointer}: {error:#}"));
            (method["name"].as_str().unwrap().to_owned(), compiled)
        });
        let of_method = of_method.collect();
        Self { schemas, of_method, checked: BTreeSet::new(), violations: Vec::new() }
    }

    fn check(&mut self, method: &str, result: &Value) {
        self.checked.insert(method.to_owned());
        let schema = self.of_method.get(method).unwrap_or_else(|| panic!("{method}"));
        if let Err(error) = self.schemas.validate(result, *schema) {
            self.violations.push(format!("{method}: {error:#}\n{result:.1000}"));
        }
    }

    /// Validates the results in a file of recorded conversations.
    fn check_file(&mut self, file: &Path) {
        let text = std::fs::read_to_string(file).unwrap();
        let mut method = String::new();
        for line in text.lines() {
            if let Some(call) = line.strip_prefix(">> ") {
                let call: Value = serde_json::from_str(call).unwrap();
                method = call["method"].as_str().unwrap().to_owned();
            } else if let Some(response) = line.strip_prefix("<< ") {
                let response: Value = serde_json::from_str(response).unwrap();
                if let Some(result) = response.get("result") {
                    self.check(&method, result);
                }
            }
        }
    }

    async fn call(&mut self, node: &Node, method: &str, params: Value) -> Value {
        let result = node.call(method, params).await;
        self.check(method, &result);
        result
    }

    fn assert_valid(&self) {
        assert!(self.violations.is_empty(), "{}", self.violations.join("\n"));
    }
}

fn files(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, into);
        } else if path.extension().is_some_and(|extension| extension == "io") {
            into.push(path);
        }
    }
}

/// Returns calls that refer to a transaction, its block or a contract.
fn calls_about(hash: &Value, receipt: &Value, contract: Address) -> Vec<(&'static str, Value)> {
    let (number, block) = (&receipt["blockNumber"], &receipt["blockHash"]);
    let index = &receipt["transactionIndex"];
    let call = json!({ "from": receipt["from"], "to": contract, "gas": "0x493e0" });
    let types = json!(["trace", "vmTrace", "stateDiff"]);
    let raw = transfer(4, 1_000, Address::ZERO);
    let mut calls = vec![
        ("eth_call", json!([call, "latest"])),
        ("eth_callMany", json!([[{ "transactions": [call, call] }]])),
        ("eth_createAccessList", json!([call, "latest"])),
        ("eth_estimateGas", json!([call, "latest"])),
        ("eth_feeHistory", json!(["0x5", "latest", [10, 50]])),
        ("eth_feeHistory", json!(["0x5", "latest"])),
        ("eth_fillTransaction", json!([call])),
        ("eth_getAccount", json!([contract, "latest"])),
        ("eth_getBalance", json!([contract, "latest"])),
        ("eth_getBlockByHash", json!([block, true])),
        ("eth_getBlockByHash", json!([block, false])),
        ("eth_getBlockByNumber", json!([number, true])),
        ("eth_getBlockByNumber", json!(["pending", true])),
        ("eth_getBlockByNumber", json!(["0xffffffff", false])),
        ("eth_getBlockReceipts", json!([number])),
        ("eth_getBlockTransactionCountByHash", json!([block])),
        ("eth_getBlockTransactionCountByNumber", json!([number])),
        ("eth_getCode", json!([contract, "latest"])),
        ("eth_getHeaderByHash", json!([block])),
        ("eth_getHeaderByNumber", json!([number])),
        ("eth_getLogs", json!([{ "fromBlock": "0x0" }])),
        ("eth_getProof", json!([contract, ["0x0"], "latest"])),
        ("eth_getRawTransactionByBlockHashAndIndex", json!([block, index])),
        ("eth_getRawTransactionByBlockNumberAndIndex", json!([number, index])),
        ("eth_getRawTransactionByHash", json!([hash])),
        ("eth_getStorageAt", json!([contract, "0x0", "latest"])),
        ("eth_getStorageValues", json!([{ contract.to_string(): [block] }, "latest"])),
        ("eth_getTransactionByBlockHashAndIndex", json!([block, index])),
        ("eth_getTransactionByBlockNumberAndIndex", json!([number, index])),
        ("eth_getTransactionByHash", json!([hash])),
        ("eth_getTransactionBySenderAndNonce", json!([receipt["from"], "0x0"])),
        ("eth_getTransactionCount", json!([receipt["from"], "latest"])),
        ("eth_getTransactionLogs", json!([hash])),
        ("eth_getTransactionReceipt", json!([hash])),
        ("eth_getUncleByBlockHashAndIndex", json!([block, "0x0"])),
        ("eth_getUncleByBlockNumberAndIndex", json!([number, "0x0"])),
        ("eth_getUncleCountByBlockHash", json!([block])),
        ("eth_getUncleCountByBlockNumber", json!([number])),
        (
            "eth_simulateV1",
            json!([
                { "blockStateCalls": [{ "calls": [call] }], "returnFullTransactions": true },
                "latest"
            ]),
        ),
        ("web3_sha3", json!(["0x01"])),
        ("debug_accountRange", json!([number, "0x", 10])),
        ("debug_executionWitness", json!([number])),
        ("debug_getBlockRlp", json!([number])),
        ("debug_getHeaderRlp", json!([number])),
        ("debug_getModifiedAccountsByHash", json!([block])),
        ("debug_getModifiedAccountsByNumber", json!([number])),
        ("debug_getRawBlock", json!([number])),
        ("debug_getRawHeader", json!([number])),
        ("debug_getRawReceipts", json!([number])),
        ("debug_getRawTransaction", json!([hash])),
        ("debug_intermediateRoots", json!([block])),
        ("debug_storageRangeAt", json!([block, 0, contract, "0x", 10])),
        ("trace_block", json!([number])),
        ("trace_call", json!([call, types, "latest"])),
        ("trace_callMany", json!([[[call, types]], "latest"])),
        ("trace_filter", json!([{ "fromBlock": number, "toBlock": number }])),
        ("trace_get", json!([hash, ["0x0"]])),
        ("trace_rawTransaction", json!([raw, types])),
        ("trace_replayBlockTransactions", json!([number, types])),
        ("trace_replayTransaction", json!([hash, types])),
        ("trace_transaction", json!([hash])),
        ("ots_getBlockDetails", json!([number])),
        ("ots_getBlockDetailsByHash", json!([block])),
        ("ots_getBlockTransactions", json!([number, 0, 10])),
        ("ots_getContractCreator", json!([contract])),
        ("ots_getInternalOperations", json!([hash])),
        ("ots_getTransactionBySenderAndNonce", json!([receipt["from"], 0])),
        ("ots_getTransactionError", json!([hash])),
        ("ots_hasCode", json!([contract, "latest"])),
        ("ots_searchTransactionsAfter", json!([contract, 0, 10])),
        ("ots_searchTransactionsBefore", json!([contract, 0, 10])),
        ("ots_traceTransaction", json!([hash])),
        ("erigon_getHeaderByNumber", json!([number])),
        ("evmd_feeQuantiles", json!(["0x0", "latest", "0x5", [10, 50]])),
        ("evmd_blockEvents", json!([number])),
    ];
    let with_log = json!({ "withLog": true });
    for options in [
        json!({ "enableMemory": true, "enableReturnData": true }),
        json!({ "tracer": "callTracer", "tracerConfig": with_log }),
        json!({ "tracer": "prestateTracer" }),
        json!({ "tracer": "prestateTracer", "tracerConfig": { "diffMode": true } }),
        json!({ "tracer": "4byteTracer" }),
        json!({ "tracer": "flatCallTracer" }),
        json!({ "tracer": "noopTracer" }),
        json!({ "tracer": "muxTracer", "tracerConfig": { "callTracer": null, "4byteTracer": null } }),
    ] {
        calls.push(("debug_traceTransaction", json!([hash, options])));
        calls.push(("debug_traceBlockByHash", json!([block, options])));
        calls.push(("debug_traceBlockByNumber", json!([number, options])));
        calls.push(("debug_traceCall", json!([call, "latest", options])));
    }
    calls
}

/// Methods that are called without parameters.
const WITHOUT_PARAMETERS: [&str; 31] = [
    "eth_accounts",
    "eth_baseFee",
    "eth_blobBaseFee",
    "eth_blockNumber",
    "eth_capabilities",
    "eth_chainId",
    "eth_coinbase",
    "eth_config",
    "eth_gasPrice",
    "eth_maxPriorityFeePerGas",
    "eth_pendingTransactions",
    "eth_protocolVersion",
    "eth_syncing",
    "net_listening",
    "net_peerCount",
    "net_version",
    "rpc.discover",
    "rpc_discover",
    "rpc_modules",
    "web3_clientVersion",
    "txpool_content",
    "txpool_inspect",
    "txpool_status",
    "debug_getBadBlocks",
    "ots_getApiLevel",
    "evmd_endpoints",
    "evmd_feemarketBaseFee",
    "evmd_feemarketBlockGas",
    "evmd_feemarketParams",
    "evmd_pipeline",
    "personal_listAccounts",
];

#[tokio::test(flavor = "multi_thread")]
async fn results_conform_to_the_openrpc_document() {
    let mut checker = Checker::new().await;
    let mut recorded = Vec::new();
    files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/rpc_io"), &mut recorded);
    assert!(recorded.len() >= 5);
    recorded.iter().for_each(|file| checker.check_file(file));
    checker.assert_valid();

    let (node, contract, hash) = busy().await;
    let receipt = node.wait_for("eth_getTransactionReceipt", json!([hash])).await;
    let mut filters = Vec::new();
    for (method, params) in [
        ("eth_newFilter", json!([{ "fromBlock": "0x0" }])),
        ("eth_newBlockFilter", json!([])),
        ("eth_newPendingTransactionFilter", json!([])),
        ("eth_newPendingTransactionFilter", json!([true])),
    ] {
        let is_refused = is_replica() && method == "eth_newPendingTransactionFilter";
        if !is_refused {
            filters.push(checker.call(&node, method, params).await);
        }
    }
    // One transaction waits behind a nonce gap, and one is mined.
    let waiting = transfer(0, 9, Address::ZERO);
    checker.call(&node, "eth_sendRawTransaction", json!([waiting])).await;
    let sent = transfer(0, 0, Address::ZERO);
    checker.call(&node, "eth_sendRawTransactionSync", json!([sent, 30_000])).await;
    let sender = DEV_ACCOUNTS[0].address;
    checker.call(&node, "txpool_contentFrom", json!([sender])).await;
    for (method, params) in calls_about(&hash, &receipt, contract) {
        checker.call(&node, method, params).await;
    }
    let rlp = node.call("debug_getRawBlock", json!([receipt["blockNumber"]])).await;
    checker.call(&node, "debug_traceBlock", json!([rlp])).await;
    for method in WITHOUT_PARAMETERS {
        checker.call(&node, method, json!([])).await;
    }
    for id in &filters {
        checker.call(&node, "eth_getFilterChanges", json!([id])).await;
    }
    checker.call(&node, "eth_getFilterLogs", json!([filters[0]])).await;
    checker.call(&node, "eth_uninstallFilter", json!([filters[0]])).await;
    node.stop().await;

    let node = Node::native_with(|config| config.json_rpc.api.push("personal".to_owned())).await;
    checker.call(&node, "personal_listWallets", json!([])).await;
    let signature = "0x9955af11969a2d2a7f860cb00e6a00cfa7c581f5df2dbe8ea16700b33f4b4b9b69f945012f7ea7d3febf11eb1b78e1adc2d1c14c2cf48b25000938cc1860c83e1c";
    let data = "0xaabbccdd11223344";
    checker.call(&node, "personal_ecRecover", json!([data, signature])).await;
    node.stop().await;

    let node = Node::development().await;
    // Replicas refuse this method, but a development node is never a replica.
    checker.call(&node, "eth_newPendingTransactionFilter", json!([])).await;
    for (method, params) in crate::development::calls() {
        checker.call(&node, method, params).await;
    }
    node.stop().await;

    checker.assert_valid();
    let known: BTreeSet<_> = rpc::methods().map(|method| method.name.to_owned()).collect();
    let not_checked: Vec<_> = known.difference(&checker.checked).collect();
    assert_eq!(not_checked, NOT_CALLED, "every other method must have a checked result");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs EVMD_FIXTURES: run .ci/fixtures"]
async fn recorded_results_conform_to_the_openrpc_document() {
    let mut checker = Checker::new().await;
    let mut recorded = Vec::new();
    files(&fixtures("execution-apis").join("tests"), &mut recorded);
    assert!(recorded.len() > 100, "{}", recorded.len());
    recorded.iter().for_each(|file| checker.check_file(file));
    checker.assert_valid();
    assert!(checker.checked.contains("testing_buildBlockV1"));
}

/// A schema that accepts everything would not detect errors.
#[tokio::test(flavor = "multi_thread")]
async fn schemas_reject_results_of_another_form() {
    let mut checker = Checker::new().await;
    for (method, result) in [
        ("eth_blockNumber", json!(7)),
        ("eth_blockNumber", json!("0x07")),
        ("eth_getBlockByNumber", json!({ "number": "0x1" })),
        ("eth_getBlockReceipts", json!([null])),
        ("eth_getLogs", json!([{}])),
        ("eth_getTransactionByHash", json!([])),
        (
            "eth_feeHistory",
            json!({ "oldestBlock": "0x0", "baseFeePerGas": [1], "gasUsedRatio": [] }),
        ),
        ("eth_syncing", json!({})),
        ("debug_traceTransaction", json!("0x")),
        ("trace_block", json!([{}])),
    ] {
        let before = checker.violations.len();
        checker.check(method, &result);
        assert_eq!(checker.violations.len(), before + 1, "{method} {result}");
    }
}
