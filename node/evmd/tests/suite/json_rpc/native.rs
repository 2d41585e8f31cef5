//! Sends the requests of a wallet to a node with a development chain.

use crate::{
    client::{Node, is_replica},
    common::{CHAIN_ID, FEE_CAP, producing, sign, transfer},
};
use alloy_consensus::TxEip1559;
use alloy_primitives::{Address, B256, Bytes, TxKind, U256, hex, keccak256};
use chain::{CREATE2_DEPLOYER, DEV_ACCOUNTS, ExtraPrecompile, Genesis, MULTICALL3, SAFE_FACTORY};
use home::Home;
use keys::bech32;
use serde_json::{Value, json};
use std::time::Duration;

/// Init code of a contract. Without input, the contract stores 1 in slot 0 and emits a log with data 42 and topic 7.
/// With input, it reverts with four zero bytes.
pub(crate) const CONTRACT: [u8; 37] = hex!(
    "601c8060093d393df3"
    "36601657602a600052600760206000a1600160005500"
    "5b60046000fd"
);

async fn send(node: &Node, raw: &Bytes) -> Value {
    let hash = node.call("eth_sendRawTransaction", json!([raw])).await;
    assert_eq!(hash, json!(keccak256(raw)));
    node.wait_for("eth_getTransactionReceipt", json!([hash])).await
}

fn quantity(value: &Value) -> U256 {
    value.as_str().unwrap().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn transfer_is_shown_by_all_methods() {
    let node = Node::native().await;
    let (from, to) = (DEV_ACCOUNTS[0].address, Address::repeat_byte(0x77));
    assert_eq!(node.call("eth_getTransactionCount", json!([from, "pending"])).await, "0x0");
    let raw = transfer(0, 0, to);
    let receipt = send(&node, &raw).await;
    let (number, hash) = (receipt["blockNumber"].clone(), receipt["transactionHash"].clone());
    assert_eq!(receipt["status"], "0x1");
    assert_eq!(receipt["from"], json!(from));
    assert_eq!(receipt["to"], json!(to));
    assert_eq!(receipt["contractAddress"], Value::Null);
    assert_eq!(node.call("eth_getBalance", json!([to, number])).await, "0x1");
    assert_eq!(node.call("eth_getBalance", json!([to, "earliest"])).await, "0x0");
    assert_eq!(node.call("eth_getTransactionCount", json!([from, "latest"])).await, "0x1");
    let tx = node.call("eth_getTransactionByHash", json!([hash])).await;
    assert_eq!((&tx["hash"], &tx["blockNumber"]), (&hash, &number));
    let index = tx["transactionIndex"].clone();
    let same = node.call("eth_getTransactionByBlockNumberAndIndex", json!([number, index])).await;
    assert_eq!(same, tx);
    let block = node.call("eth_getBlockByNumber", json!([number, true])).await;
    assert_eq!(block["transactions"][0], tx);
    let brief = node.call("eth_getBlockByHash", json!([block["hash"], false])).await;
    assert_eq!(brief["transactions"], json!([hash]));
    assert_eq!(node.call("eth_getBlockReceipts", json!([number])).await, json!([receipt]));
    let count = node.call("eth_getBlockTransactionCountByNumber", json!([number])).await;
    assert_eq!(count, "0x1");
    let base_fee = quantity(&block["baseFeePerGas"]);
    let price = quantity(&receipt["effectiveGasPrice"]);
    assert_eq!(price, base_fee + U256::from(1_000_000_000));
    let history = node.call("eth_feeHistory", json!(["0x1", number, [0, 100]])).await;
    assert_eq!(history["reward"], json!([["0x3b9aca00", "0x3b9aca00"]]));
    assert_eq!(history["baseFeePerGas"][0], block["baseFeePerGas"]);
    // All transactions fitted into the block, so no priority fee was needed.
    let priority_fee = quantity(&node.call("eth_maxPriorityFeePerGas", json!([])).await);
    assert!(priority_fee < U256::from(1_000_000_000), "{priority_fee}");
    let again = node.fail("eth_sendRawTransaction", json!([raw])).await;
    assert_eq!(again.0, -32000);
    assert!(again.1.starts_with("nonce too low"), "{}", again.1);
    node.stop().await;
}

/// Computes rewards as geth defines them: sorts receipts by priority fee, and sums their gas up to each percentile.
pub(crate) fn naive_rewards(block: &Value, receipts: &Value, percentiles: &[f64]) -> Vec<U256> {
    let base_fee = quantity(&block["baseFeePerGas"]);
    let mut priority_fees: Vec<_> = receipts
        .as_array()
        .unwrap()
        .iter()
        .map(|receipt| {
            let priority_fee = quantity(&receipt["effectiveGasPrice"]) - base_fee;
            (priority_fee, quantity(&receipt["gasUsed"]).to::<u64>())
        })
        .collect();
    priority_fees.sort_unstable();
    let gas: u64 = priority_fees.iter().map(|(_, gas)| gas).sum();
    percentiles
        .iter()
        .map(|percentile| {
            let threshold = (gas as f64 * percentile / 100.0) as u64;
            let mut sum = 0;
            let reached = priority_fees.iter().find(|(_, gas)| {
                sum += gas;
                sum >= threshold
            });
            reached.map_or(U256::ZERO, |(priority_fee, _)| *priority_fee)
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn fee_history_equals_the_receipts() {
    let node = Node::native().await;
    let mut last = Value::Null;
    for nonce in 0..20_u64 {
        for sender in 3..6 {
            // Some priority fees are equal. The gas varies with the length of the input.
            let priority_fee = u128::from((nonce * 7 + sender as u64) % 5) * 100_000_000;
            let raw = sign(
                sender,
                TxEip1559 {
                    chain_id: CHAIN_ID,
                    nonce,
                    gas_limit: 60_000,
                    max_fee_per_gas: FEE_CAP,
                    max_priority_fee_per_gas: priority_fee,
                    to: TxKind::Call(Address::ZERO),
                    input: vec![1; (nonce % 4) as usize * 100].into(),
                    ..TxEip1559::default()
                },
            );
            last = node.call("eth_sendRawTransaction", json!([raw])).await;
        }
    }
    let receipt = node.wait_for("eth_getTransactionReceipt", json!([last])).await;
    let newest = quantity(&receipt["blockNumber"]).to::<u64>();
    let percentiles = [0.0, 12.5, 33.3, 50.0, 99.9, 100.0];
    let params = json!([newest + 100, receipt["blockNumber"], percentiles]);
    let history = node.call("eth_feeHistory", params).await;
    assert_eq!(history["oldestBlock"], "0x0", "the count is capped at the existing blocks");
    assert_eq!(history["baseFeePerGas"].as_array().unwrap().len() as u64, newest + 2);
    let mut rewarded = 0;
    for number in 0..=newest {
        let tag = format!("{number:#x}");
        let block = node.call("eth_getBlockByNumber", json!([tag, false])).await;
        let receipts = node.call("eth_getBlockReceipts", json!([tag])).await;
        let index = usize::try_from(number).unwrap();
        let rewards = history["reward"][index].as_array().unwrap();
        let rewards: Vec<_> = rewards.iter().map(quantity).collect();
        assert_eq!(rewards, naive_rewards(&block, &receipts, &percentiles), "block {number}");
        assert_eq!(history["baseFeePerGas"][index], block["baseFeePerGas"]);
        rewarded += usize::from(!receipts.as_array().unwrap().is_empty());
    }
    assert!(rewarded > 0, "no block has transactions");
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn contracts_of_the_development_genesis_work() {
    let node = Node::native().await;
    let salt = B256::repeat_byte(7);
    for (nonce, deployer) in [(0, CREATE2_DEPLOYER), (1, SAFE_FACTORY)] {
        let created = deployer.create2(salt, keccak256(CONTRACT));
        let deployment = TxEip1559 {
            chain_id: CHAIN_ID,
            nonce,
            gas_limit: 200_000,
            max_fee_per_gas: FEE_CAP,
            to: TxKind::Call(deployer),
            input: [salt.as_slice(), &CONTRACT].concat().into(),
            ..TxEip1559::default()
        };
        let receipt = send(&node, &sign(1, deployment)).await;
        assert_eq!(receipt["status"], "0x1");
        let code = node.call("eth_getCode", json!([created])).await;
        assert_eq!(code, json!(Bytes::from(CONTRACT[9..].to_vec())));
    }
    // getChainId()
    let call = json!({ "to": MULTICALL3, "data": "0x3408e470" });
    let chain = node.call("eth_call", json!([call])).await;
    assert_eq!(quantity(&chain), U256::from(CHAIN_ID));
    node.stop().await;
}

/// The input of the RIP-7212 precompile: a digest, its secp256r1 signature, and the public key.
const P256: [u8; 160] = hex!(
    "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"
    "072c84f6a7988b6f5ba6660610319a9b71fb13fa2216178bcb58b05a62eb17d7"
    "e17576d12060fd070a908367d92b158e6923d934c8c2bb1dd8be1a4f6713ef5f"
    "d802780a395a1d3080258947a2a666b79bb1665cce2a4ed59c6864fb507cdd94"
    "8e300b8d8e8fdc3308d06e8addb39a6067349db0df3bdec3aeb6b1740d24d246"
);

/// Returns the call data of `bech32ToHex(string)` with the address of the first development account.
fn bech32_to_hex() -> Bytes {
    let text = bech32("cosmos", DEV_ACCOUNTS[0].address);
    let mut input = hex!("e6df461e").to_vec();
    input.extend(B256::with_last_byte(32));
    input.extend(B256::with_last_byte(u8::try_from(text.len()).unwrap()));
    input.extend(text.as_bytes());
    input.resize(input.len().next_multiple_of(32) + 4, 0);
    input.into()
}

#[tokio::test(flavor = "multi_thread")]
async fn precompiles_exist_if_parameters_list_them() {
    let [p256, bech32] =
        [ExtraPrecompile::P256, ExtraPrecompile::Bech32].map(|extra| extra.address());
    let plain = Genesis::native_dev(0).to_json();
    let listed = format!("\"active_static_precompiles\":[\"{p256}\",\"{bech32}\"]");
    let compact: Value = serde_json::from_str(&plain).unwrap();
    let listed = compact.to_string().replace("\"active_static_precompiles\":[]", &listed);
    for (genesis, exist) in [(plain, false), (listed, true)] {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::init(folder.path(), &Genesis::from_json(&genesis).unwrap()).unwrap();
        let options = producing(Some(Duration::from_millis(5)));
        let node = Node::start(folder, home, options).await;
        let call = async |to: Address, input: Bytes| {
            let call = json!({ "to": to, "input": input });
            let output = node.call("eth_call", json!([call])).await;
            let gas = node.call("eth_estimateGas", json!([call])).await;
            let list = node.call("eth_createAccessList", json!([call])).await;
            assert_eq!(list["accessList"], json!([]), "the access list is empty");
            (output, quantity(&gas) > U256::from(27_000))
        };
        let signed = call(p256, P256.to_vec().into()).await;
        let account = call(bech32, bech32_to_hex()).await;
        if exist {
            assert_eq!(signed.0, json!(B256::with_last_byte(1)));
            assert_eq!(account, (json!(DEV_ACCOUNTS[0].address.into_word()), true));
        } else {
            assert_eq!((signed.0, account.0), (json!("0x"), json!("0x")));
        }
        let mut forged = P256;
        forged[40] ^= 1;
        assert_eq!(call(p256, forged.to_vec().into()).await.0, "0x");
        node.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn contract_is_deployed_and_called_and_emits_logs() {
    let node = Node::native().await;
    let plain = TxEip1559 {
        chain_id: CHAIN_ID,
        gas_limit: 200_000,
        max_fee_per_gas: FEE_CAP,
        to: TxKind::Create,
        input: Bytes::from(CONTRACT.to_vec()),
        ..TxEip1559::default()
    };
    let receipt = send(&node, &sign(1, plain.clone())).await;
    let contract: Address = receipt["contractAddress"].as_str().unwrap().parse().unwrap();
    assert_eq!(contract, DEV_ACCOUNTS[1].address.create(0));
    let code = node.call("eth_getCode", json!([contract])).await;
    assert_eq!(code, json!(Bytes::from(CONTRACT[9..].to_vec())));
    let call = TxEip1559 { nonce: 1, to: TxKind::Call(contract), input: Bytes::new(), ..plain };
    let receipt = send(&node, &sign(1, call)).await;
    assert_eq!(receipt["logs"][0]["data"], json!(format!("0x{:064x}", 42)));
    let number = &receipt["blockNumber"];
    let one = format!("0x{:064x}", 1);
    assert_eq!(node.call("eth_getStorageAt", json!([contract, "0x0"])).await, one);
    assert_eq!(
        node.call("eth_getStorageAt", json!([contract, "0x0", "earliest"])).await.as_str(),
        Some(format!("0x{:064x}", 0).as_str())
    );
    let filter = json!({ "fromBlock": "earliest", "address": contract, "topics": [format!("0x{:064x}", 7)] });
    assert_eq!(node.call("eth_getLogs", json!([filter])).await, receipt["logs"]);
    let filter = json!({ "fromBlock": number, "toBlock": number, "topics": [[one]] });
    assert_eq!(node.call("eth_getLogs", json!([filter])).await, json!([]));
    // At least half of the gas limit of 200,000 is charged; the estimate is only the gas that the call uses.
    assert_eq!(receipt["gasUsed"], json!("0x186a0"));
    let gas = node.call("eth_estimateGas", json!([{ "to": contract }])).await;
    assert!((U256::from(22_000)..U256::from(60_000)).contains(&quantity(&gas)), "{gas}");
    let response = node.response("eth_call", json!([{ "to": contract, "input": "0x01" }])).await;
    assert_eq!(response["error"]["code"], 3);
    assert_eq!(response["error"]["data"], "0x00000000");
    assert_eq!(response["error"]["message"], "execution reverted");
    // This code reverts with Error("x").
    let to = "0x00000000000000000000000000000000000c0de0";
    let code = "0x6308c379a060e01b5f5260206004526001602452607860f81b60445260645ffd";
    let call = json!([{ "to": to }, "latest", { to: { "code": code } }]);
    let expected = (3, "execution reverted: x".to_owned());
    assert_eq!(node.fail("eth_call", call.clone()).await, expected);
    let list = node.call("eth_createAccessList", call).await;
    assert_eq!(list["error"], "execution reverted");
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn queued_transaction_is_served_and_mined_when_its_gap_closes() {
    let node = Node::native_with(|config| config.json_rpc.api.push("debug".to_owned())).await;
    let sender = DEV_ACCOUNTS[2].address;
    let gapped = transfer(2, 1, Address::ZERO);
    let hash = node.call("eth_sendRawTransaction", json!([gapped])).await;
    let tx = node.call("eth_getTransactionByHash", json!([hash])).await;
    assert_eq!(
        (&tx["hash"], &tx["blockNumber"], &tx["from"]),
        (&hash, &Value::Null, &json!(sender))
    );
    assert_eq!(tx["gasPrice"], tx["maxFeePerGas"]);
    assert_eq!(node.call("debug_getRawTransaction", json!([hash])).await, json!(gapped));
    assert_eq!(node.call("eth_getTransactionReceipt", json!([hash])).await, Value::Null);
    assert_eq!(node.call("eth_getTransactionCount", json!([sender, "pending"])).await, "0x0");
    send(&node, &transfer(2, 0, Address::ZERO)).await;
    node.wait_for("eth_getTransactionReceipt", json!([hash])).await;
    assert_eq!(node.call("eth_getTransactionCount", json!([sender, "pending"])).await, "0x2");
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn batch_uses_one_block() {
    let node = Node::native().await;
    let calls = |id: usize| json!({ "jsonrpc": "2.0", "id": id, "method": "eth_blockNumber" });
    let batch = Value::from((0..100).map(calls).collect::<Vec<_>>()).to_string();
    let mut seen = Vec::new();
    // The chain advances between batches, which shows that it could have advanced within one.
    while seen.len() < 3 {
        let responses = node.post(&batch).await;
        let responses = responses.as_array().unwrap();
        assert_eq!(responses.len(), 100);
        assert!(responses.iter().all(|response| response["result"] == responses[0]["result"]));
        if seen.last() != Some(&responses[0]["result"]) {
            seen.push(responses[0]["result"].clone());
        }
    }
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn addresses_are_accepted_as_hex_and_bech32() {
    let node = Node::native().await;
    let bech32 = keys::bech32("cosmos", DEV_ACCOUNTS[0].address);
    let hex = node.call("eth_getBalance", json!([DEV_ACCOUNTS[0].address, "earliest"])).await;
    assert_eq!(node.call("eth_getBalance", json!([bech32, "earliest"])).await, hex);
    let (code, message) = node.fail("eth_getBalance", json!([format!("{bech32}q")])).await;
    assert!(code == -32602 && message.contains("checksum"), "{message}");
    // Hex digits are accepted in either case.
    let any_case = DEV_ACCOUNTS[0].address.to_checksum(None).replace('F', "f");
    for address in [any_case.clone(), any_case[2..].to_owned()] {
        assert_eq!(node.call("eth_getBalance", json!([address, "earliest"])).await, hex);
        let call = json!({ "from": address, "to": address });
        assert_eq!(node.call("eth_call", json!([call, "earliest"])).await, "0x");
        assert_eq!(node.call("eth_getLogs", json!([{ "address": address }])).await, json!([]));
        let overrides = json!({ &address: { "balance": "0x1" } });
        assert_eq!(node.call("eth_call", json!([call, "earliest", overrides])).await, "0x");
        node.call("eth_getProof", json!([address, [], "earliest"])).await;
    }
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn websocket_is_served_on_both_ports() {
    let node = Node::native().await;
    let call = r#"{"jsonrpc":"2.0","id":7,"method":"net_version"}"#;
    for address in [node.json_rpc, node.web_socket] {
        let response = node.call_over_websocket(address, call).await;
        assert_eq!(response, json!({ "jsonrpc": "2.0", "id": 7, "result": "262144" }));
    }
    node.stop().await;
}

/// Returns a response without the lag fields, which only a replica's response contains.
fn without_lag(text: &str) -> Value {
    let mut response: Value = serde_json::from_str(text).unwrap();
    let fields = response.as_object_mut().unwrap();
    let lag = [fields.remove("lagBlocks"), fields.remove("lagMs")];
    assert!(lag.iter().all(|lag| lag.is_some() == is_replica()), "{text}");
    response
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_health_and_status_are_served() {
    let node = Node::native().await;
    node.call("eth_chainId", json!([])).await;
    node.fail("eth_unknown", json!([])).await;
    let (status, metrics) = node.get("/metrics").await;
    assert_eq!(status, 200);
    for sample in [
        "evmd_rpc_call_duration_seconds_count{method=\"eth_chainId\"} 1",
        "evmd_rpc_errors_total{method=\"unknown\",code=\"-32601\"} 1",
        "evmd_ring_capacity_batches{ring=\"raw\"}",
        "evmd_stage_items_received_total{stage=\"commit\"}",
        "evmd_storage_used_bytes{environment=\"index\"}",
    ] {
        assert!(metrics.contains(sample), "{sample}\n{metrics}");
    }
    let (status, health) = node.get("/health").await;
    let health: Value = serde_json::from_str(&health).unwrap();
    assert_eq!((status, &health["healthy"]), (200, &json!(true)));
    let (status, ready) = node.get("/ready").await;
    let expected = json!({ "ready": true, "healthy": true, "stopping": false, "behind": false });
    assert_eq!((status, without_lag(&ready)), (200, expected));
    let (status, body) = node.get("/status").await;
    let body: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((status, &body["chainId"], &body["rules"]), (200, &json!(262144), &json!("native")));
    assert_eq!(node.get("/nothing").await.0, 404);
    // While the node shuts down, it is healthy but not ready for requests.
    node.pipeline.stop();
    let (status, ready) = node.get("/ready").await;
    let expected = json!({ "ready": false, "healthy": true, "stopping": true, "behind": false });
    assert_eq!((status, without_lag(&ready)), (503, expected));
    node.stop().await;
}
