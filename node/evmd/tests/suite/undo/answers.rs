//! Compares the responses of two nodes with the same chain to every kind of read.

use super::traffic::Rules;
use alloy_primitives::{Address, B256};
use serde_json::{Value, json};
use testkit::{Endpoints, exchange};

/// Number of calls in a batch. The limit of the nodes under test is 100.
const BATCH: usize = 80;
/// Call data, without a selector, with which the contracts store 1 in slot 2 and emit a log.
const CALL_DATA: &str = "0x0000000000000000000000000000000000000000000000000000000000000002\
                         0000000000000000000000000000000000000000000000000000000000000001";

/// Two nodes with the same chain, and the addresses whose data is compared.
pub(super) struct Twins<'a> {
    pub(super) ours: &'a Endpoints,
    pub(super) theirs: &'a Endpoints,
    pub(super) rules: Rules,
    pub(super) head: u64,
    pub(super) addresses: &'a [Address],
}

impl Twins<'_> {
    /// Compares the responses about these blocks, and those about the whole chain.
    pub(super) async fn compare(&self, numbers: &[u64]) {
        self.compare_calls(&self.of_chain()).await;
        for path in paths(self.addresses) {
            self.compare_paths(&path, None).await;
        }
        for number in numbers {
            let tag = json!(format!("{number:#x}"));
            let block = self.ours.call("eth_getBlockByNumber", json!([tag, false])).await;
            self.compare_calls(&self.of_block(&block)).await;
            self.compare_calls(&of_transactions(&block)).await;
            // A request at height 0 reads the newest block.
            for path in paths(&self.addresses[..1]).into_iter().filter(|_| *number > 0) {
                self.compare_paths(&path, Some(*number)).await;
            }
        }
    }

    async fn compare_calls(&self, calls: &[(&str, Value)]) {
        for calls in calls.chunks(BATCH) {
            let numbered = calls.iter().enumerate().map(|(id, (method, params))| {
                json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
            });
            let batch = Value::from_iter(numbered).to_string();
            let (ours, theirs) = (self.ours.post(&batch).await, self.theirs.post(&batch).await);
            let [ours, theirs] = [&ours, &theirs].map(|responses| responses.as_array().unwrap());
            assert_eq!((ours.len(), theirs.len()), (calls.len(), calls.len()));
            for ((call, ours), theirs) in calls.iter().zip(ours).zip(theirs) {
                assert!(ours.get("error").is_none(), "{call:?}: {ours}");
                assert_eq!(ours, theirs, "{call:?}");
            }
        }
    }

    async fn compare_paths(&self, path: &str, height: Option<u64>) {
        let height = height.map(|height| format!("x-cosmos-block-height: {height}\r\n"));
        let height = height.unwrap_or_default();
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{height}\r\n");
        let ours = exchange(self.ours.rest, request.as_bytes()).await;
        assert_eq!(ours, exchange(self.theirs.rest, request.as_bytes()).await, "{path} {height}");
        assert!([200, 400, 404, 501].contains(&ours.0), "{path} {height}: {ours:?}");
    }

    fn of_chain(&self) -> Vec<(&'static str, Value)> {
        let percentiles = json!([0, 12.5, 50, 99, 100]);
        let topics: Vec<_> = (0..5).map(|slot| B256::with_last_byte(slot).to_string()).collect();
        let all = |name: &str, value: Value| json!([{ "fromBlock": "0x0", name: value }]);
        let mut calls = vec![
            ("eth_blockNumber", json!([])),
            ("eth_gasPrice", json!([])),
            ("eth_maxPriorityFeePerGas", json!([])),
            ("eth_blobBaseFee", json!([])),
            ("eth_config", json!([])),
            ("eth_feeHistory", json!(["0x400", "latest", percentiles])),
            ("eth_feeHistory", json!(["0x7", "latest", [10, 90]])),
            ("eth_getLogs", all("address", json!(self.addresses))),
            ("eth_getLogs", all("topics", json!([topics[..2]]))),
            ("eth_getLogs", all("topics", json!([topics[3]]))),
            ("evmd_feeQuantiles", json!(["0x0", format!("{:#x}", self.head), "0x10", percentiles])),
            ("debug_accountRange", json!(["latest", "0x", 100, false, false, false])),
        ];
        if self.rules == Rules::Native {
            calls.push(("evmd_feemarketParams", json!([])));
        }
        for address in self.addresses {
            calls.push(("ots_searchTransactionsBefore", json!([address, 0, 25])));
            calls.push(("ots_searchTransactionsAfter", json!([address, 0, 25])));
            calls.push(("ots_getContractCreator", json!([address])));
        }
        calls
    }

    /// Returns calls about a block, its header, and the state after it.
    fn of_block(&self, block: &Value) -> Vec<(&'static str, Value)> {
        let (number, hash) = (&block["number"], &block["hash"]);
        let tracer = |name: &str| json!([number, { "tracer": name }]);
        let mut calls = vec![
            ("eth_getBlockByNumber", json!([number, true])),
            ("eth_getBlockByHash", json!([hash, true])),
            ("eth_getHeaderByHash", json!([hash])),
            ("eth_getBlockReceipts", json!([hash])),
            ("eth_getLogs", json!([{ "blockHash": hash }])),
            ("eth_feeHistory", json!(["0x10", number, [25, 75]])),
            ("debug_getRawBlock", json!([number])),
            ("debug_getRawReceipts", json!([number])),
            ("ots_getBlockDetails", json!([number])),
            ("trace_block", json!([number])),
            ("eth_getStorageValues", {
                let slots: Vec<_> =
                    (0..5).map(|slot| B256::with_last_byte(slot).to_string()).collect();
                let of_all =
                    self.addresses.iter().map(|address| (address.to_string(), json!(slots)));
                json!([Value::from_iter(of_all), number])
            }),
        ];
        if number != "0x0" {
            let parent = &block["parentHash"];
            calls.push(("debug_traceBlockByNumber", tracer("callTracer")));
            calls.push(("debug_traceBlockByNumber", tracer("prestateTracer")));
            calls.push(("debug_getModifiedAccountsByHash", json!([parent, hash])));
            calls.push(("debug_executionWitness", json!([number])));
        }
        for address in self.addresses {
            let call = json!({ "to": address, "data": CALL_DATA });
            calls.push(("eth_getBalance", json!([address, number])));
            calls.push(("eth_getTransactionCount", json!([address, number])));
            calls.push(("eth_getCode", json!([address, { "blockHash": hash }])));
            calls.push(("eth_getProof", json!([address, ["0x0", "0x2"], number])));
            calls.push(("eth_call", json!([call, number])));
            calls.push(("eth_estimateGas", json!([call, number])));
        }
        calls
    }
}

fn of_transactions(block: &Value) -> Vec<(&'static str, Value)> {
    let mut calls = Vec::new();
    for hash in block["transactions"].as_array().unwrap() {
        calls.push(("eth_getTransactionByHash", json!([hash])));
        calls.push(("eth_getRawTransactionByHash", json!([hash])));
        calls.push(("eth_getTransactionReceipt", json!([hash])));
        calls.push(("debug_traceTransaction", json!([hash])));
        calls.push(("trace_replayTransaction", json!([hash, ["trace", "stateDiff"]])));
    }
    calls
}

/// Returns paths of the Cosmos interfaces. A chain with Ethereum's rules serves only some of them.
fn paths(addresses: &[Address]) -> Vec<String> {
    let mut paths = vec![
        "/cosmos/bank/v1beta1/supply".to_owned(),
        "/cosmos/gov/v1/proposals".to_owned(),
        "/cosmos/evm/feemarket/v1/params".to_owned(),
        "/cosmos/evm/feemarket/v1/base_fee".to_owned(),
        "/cosmos/evm/feemarket/v1/block_gas".to_owned(),
    ];
    for id in 1..=2 {
        for part in ["", "/tally", "/votes", "/deposits"] {
            paths.push(format!("/cosmos/gov/v1/proposals/{id}{part}"));
        }
    }
    for address in addresses {
        paths.push(format!("/cosmos/evm/vm/v1/account/{address}"));
        paths.push(format!("/cosmos/evm/vm/v1/balances/{address}"));
    }
    paths
}
