//! Compares REST responses with expected JSON and with JSON-RPC.

use super::served::Served;
use crate::common::{
    FEE_CAP,
    signed::{any, coins, signed, slower_market},
    transfer,
};
use alloy_primitives::{Address, hex};
use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use chain::DEV_ACCOUNTS;
use keys::{Bech32Kind, bech32};
use prost::Message;
use proto::cosmos::{
    evm::vm::v1::{ExtensionOptionsEthereumTx, MsgEthereumTx},
    tx::v1beta1::{AuthInfo, Fee, TxBody, TxRaw},
};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

const ALICE: &str = "cosmos17w0adeg64ky0daxwd2ugyuneellmjgnxramjtq";
const ALICE_HEX: &str = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266";
const BALANCE: &str = "10000000000000000000000";
/// An address that is never used.
const UNUSED: &str = "0x00000000000000000000000000000000000000aa";

fn error(code: u32, message: &str) -> Value {
    json!({ "code": code, "message": message, "details": [] })
}

#[tokio::test(flavor = "multi_thread")]
async fn accounts_and_addresses_equal_the_genesis() {
    let served = Served::start().await;
    for (family, zero) in [("cosmos", json!("0")), ("chain", json!(0))] {
        let account = json!({
            "@type": "/cosmos.auth.v1beta1.BaseAccount",
            "address": ALICE, "pub_key": null, "account_number": zero, "sequence": zero,
        });
        let at = |rest: &str| format!("/{family}/auth/v1beta1/{rest}");
        for address in [ALICE, ALICE_HEX, &ALICE_HEX[2..]] {
            let response = served.get(&at(&format!("accounts/{address}"))).await;
            assert_eq!(response, json!({ "account": account }));
        }
        let mut info = account.clone();
        info.as_object_mut().unwrap().remove("@type");
        let response = served.get(&at(&format!("account_info/{ALICE}"))).await;
        assert_eq!(response, json!({ "info": info }));
        assert_eq!(served.get(&at("bech32")).await, json!({ "bech32_prefix": "cosmos" }));
        let bytes = BASE64.encode(DEV_ACCOUNTS[0].address);
        let response = served.get(&at(&format!("bech32/{ALICE}"))).await;
        assert_eq!(response, json!({ "address_bytes": bytes }));
        let escaped = bytes.replace('/', "_").replace('+', "-");
        let response = served.get(&at(&format!("bech32/{escaped}"))).await;
        assert_eq!(response, json!({ "address_string": ALICE }));
        let params = served.get(&at("params")).await;
        let limit = &params["params"]["tx_sig_limit"];
        assert_eq!(*limit, if family == "chain" { json!(7) } else { json!("7") });
    }
    let gov = json!({
        "@type": "/cosmos.auth.v1beta1.ModuleAccount",
        "base_account": {
            "address": "cosmos10d07y265gmmuvt4z0w9aw880jnsr700j6zn9kn",
            "pub_key": null, "account_number": "0", "sequence": "0",
        },
        "name": "gov",
        "permissions": ["burner"],
    });
    let response = served.get("/cosmos/auth/v1beta1/module_accounts/gov").await;
    assert_eq!(response, json!({ "account": gov }));
    let response = served.get("/cosmos/auth/v1beta1/module_accounts").await;
    assert_eq!(response["accounts"][3], gov);
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn accounts_are_listed_page_by_page() {
    let served = Served::start().await;
    let mut addresses: Vec<Address> = DEV_ACCOUNTS.iter().map(|dev| dev.address).collect();
    let list = |query: String| {
        let served = &served;
        async move {
            let response = served.get(&format!("/cosmos/auth/v1beta1/accounts?{query}")).await;
            let accounts = response["accounts"].as_array().unwrap().clone();
            let address = |account: &Value| account["address"].as_str().unwrap().to_owned();
            let found: Vec<_> = accounts.iter().map(address).collect();
            let next = &response["pagination"]["next_key"];
            assert!(next.is_string() || next.is_null());
            (found, next.as_str().unwrap_or_default().to_owned())
        }
    };
    let (all, end) = list(String::new()).await;
    assert_eq!(end, "");
    addresses.sort_unstable();
    let wanted = addresses.iter().map(|address| bech32("cosmos", *address));
    assert!(wanted.clone().all(|address| all.contains(&address)), "{all:?}");
    let (mut paged, mut key) = list("pagination.limit=4".to_owned()).await;
    while !key.is_empty() {
        let escaped = key.replace('+', "%2B").replace('/', "%2F").replace('=', "%3D");
        let (more, next) = list(format!("pagination.limit=4&pagination.key={escaped}")).await;
        paged.extend(more);
        key = next;
    }
    assert_eq!(paged, all);
    for (query, total) in [("", all.len()), ("?pagination.limit=4", 0)] {
        let response = served.get(&format!("/cosmos/auth/v1beta1/accounts{query}")).await;
        assert_eq!(response["pagination"]["total"], total.to_string(), "{query}");
    }
    let counted = "/cosmos/auth/v1beta1/accounts?pagination.limit=4&pagination.count_total=true";
    assert_eq!(served.get(counted).await["pagination"]["total"], all.len().to_string());
    let (skipped, _) = list("pagination.offset=3&pagination.limit=2".to_owned()).await;
    assert_eq!(skipped, all[3..5]);
    assert_eq!(list("pagination.limit=1001".to_owned()).await, (all.clone(), String::new()));
    // Parameters may have JSON names, and a flag may have any of Go's spellings of true.
    let named = "/cosmos/auth/v1beta1/accounts?pagination.limit=4&pagination.countTotal=1";
    assert_eq!(served.get(named).await, served.get(counted).await);
    for query in ["limit=1", "pagination.total=1", "pagination.reverse=true", "pagination.key=AA"] {
        let (status, body) = served.ask(&format!("/cosmos/auth/v1beta1/accounts?{query}")).await;
        assert_eq!((status, &body["code"]), (400, &json!(3)), "{query}: {body}");
    }
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn balances_and_evm_state_equal_the_genesis() {
    let served = Served::start().await;
    let coin = json!({ "denom": "atest", "amount": BALANCE });
    for name in ["balances", "spendable_balances"] {
        let path = format!("/cosmos/bank/v1beta1/{name}/{ALICE}");
        let page = json!({ "next_key": null, "total": "1" });
        let response = served.get(&path).await;
        assert_eq!(response, json!({ "balances": [coin], "pagination": page }));
        let response = served.get(&format!("{path}?pagination.limit=9")).await;
        let page = json!({ "next_key": null, "total": "0" });
        assert_eq!(response, json!({ "balances": [coin], "pagination": page }));
        let response = served.get(&format!("{path}/by_denom?denom=atest")).await;
        assert_eq!(response, json!({ "balance": coin }));
        let response = served.get(&format!("{path}/by_denom?denom=other")).await;
        assert_eq!(response["balance"]["amount"], "0");
    }
    let empty = served.get(&format!("/cosmos/bank/v1beta1/balances/{UNUSED}")).await;
    assert_eq!(empty["balances"], json!([]));
    let hash = "0xc5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470";
    let response = served.get(&format!("/cosmos/evm/vm/v1/account/{ALICE_HEX}")).await;
    assert_eq!(response, json!({ "balance": BALANCE, "code_hash": hash, "nonce": "0" }));
    let response = served.get(&format!("/cosmos/evm/vm/v1/cosmos_account/{ALICE_HEX}")).await;
    let expected = json!({ "cosmos_address": ALICE, "sequence": "0", "account_number": "0" });
    assert_eq!(response, expected);
    let validator = "cosmosvalcons17w0adeg64ky0daxwd2ugyuneellmjgnxj6umtj";
    let response = served.get(&format!("/cosmos/evm/vm/v1/validator_account/{validator}")).await;
    assert_eq!(response["account_address"], ALICE);
    let response = served.get(&format!("/cosmos/evm/vm/v1/balances/{ALICE_HEX}")).await;
    assert_eq!(response, json!({ "balance": BALANCE }));
    let response = served.get(&format!("/cosmos/evm/vm/v1/storage/{ALICE_HEX}/0x0")).await;
    assert_eq!(response, json!({ "value": format!("0x{:064x}", 0) }));
    let code =
        served.get("/cosmos/evm/vm/v1/codes/0x0000F90827F1C53a10cb7A02335B175320002935").await;
    assert!(BASE64.decode(code["code"].as_str().unwrap()).unwrap().len() > 50);
    let permissionless =
        json!({ "access_type": "ACCESS_TYPE_PERMISSIONLESS", "access_control_list": [] });
    let response = served.get("/cosmos/evm/vm/v1/params").await;
    let expected = json!({
        "evm_denom": "atest", "extra_eips": [], "allow_unprotected_txs": false, "evm_channels": [],
        "access_control": { "create": permissionless, "call": permissionless },
        "active_static_precompiles": [],
    });
    assert_eq!(response, json!({ "params": expected }));
    let block = served.node.wait_for("eth_getBlockByNumber", json!(["0x1", false])).await;
    let (_, response) = served.ask_at("/cosmos/evm/vm/v1/base_fee", Some("1")).await;
    let wei = u64::from_str_radix(&block["baseFeePerGas"].as_str().unwrap()[2..], 16).unwrap();
    assert_eq!(response, json!({ "base_fee": wei.to_string() }));
    served.stop().await;
}

/// The SDK writes decimals with a decimal point and 64-bit integers as strings.
#[tokio::test(flavor = "multi_thread")]
async fn the_fee_market_under_cosmos_has_the_shape_of_the_sdk() {
    let served = Served::start().await;
    let at = |rest: &str| format!("/cosmos/evm/feemarket/v1/{rest}");
    let (_, response) = served.ask_at(&at("params"), Some("1")).await;
    let params = json!({
        "no_base_fee": false, "base_fee_change_denominator": 8, "elasticity_multiplier": 2,
        "enable_height": "0", "base_fee": "875000000.000000000000000000",
        "min_gas_price": "0.000000000000000000", "min_gas_multiplier": "0.500000000000000000",
    });
    assert_eq!(response, json!({ "params": params }));
    let (_, response) = served.ask_at(&at("base_fee"), Some("1")).await;
    assert_eq!(response, json!({ "base_fee": "875000000.000000000000000000" }));
    let (_, response) = served.ask_at(&at("block_gas"), Some("1")).await;
    assert_eq!(response, json!({ "gas": "0" }));
    // The order of the fields is fixed, and the result equals that of JSON-RPC.
    let head = format!("GET {} HTTP/1.1\r\nx-cosmos-block-height: 1\r\n", at("params"));
    let (_, text) = served.raw(&head, "").await;
    assert!(text.starts_with("{\"params\":{\"no_base_fee\":false,"), "{text}");
    let rpc = served.node.call("evmd_feemarketParams", json!(["0x1"])).await;
    assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), rpc);
    served.stop().await;
}

/// Under `/chain/`, a decimal is written as its value times 10^18, and integers are JSON numbers.
#[tokio::test(flavor = "multi_thread")]
async fn the_fee_market_under_chain_has_scaled_decimals_and_plain_integers() {
    let served = Served::start().await;
    let at = |rest: &str| format!("/chain/feemarket/v1/{rest}");
    let (_, response) = served.ask_at(&at("params"), Some("1")).await;
    let params = json!({
        "no_base_fee": false, "base_fee_change_denominator": 8, "elasticity_multiplier": 2,
        "enable_height": 0, "base_fee": "875000000000000000000000000",
        "min_gas_price": "0", "min_gas_multiplier": "500000000000000000",
    });
    assert_eq!(response, json!({ "params": params }));
    let (_, response) = served.ask_at(&at("base_fee"), Some("1")).await;
    assert_eq!(response, json!({ "base_fee": "875000000000000000000000000" }));
    let (_, response) = served.ask_at(&at("block_gas"), Some("1")).await;
    assert_eq!(response, json!({ "gas": 0 }));
    let supply = served.get("/chain/bank/v1beta1/supply").await;
    assert_eq!(supply["pagination"], json!({ "next_key": null, "total": 1 }));
    let account = served.get(&format!("/chain/evm/v1/account/{ALICE_HEX}")).await;
    assert_eq!((&account["nonce"], &account["balance"]), (&json!(0), &json!(BALANCE)));
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn transactions_are_broadcast_and_shown_in_blocks() {
    let served = Served::start().await;
    let to = Address::repeat_byte(0x77);
    let raw = transfer(0, 0, to);
    let body = json!({ "tx_bytes": BASE64.encode(&raw), "mode": "BROADCAST_MODE_SYNC" });
    let (status, response) = served.post("/cosmos/tx/v1beta1/txs", &body.to_string()).await;
    assert_eq!(status, 200, "{response}");
    let accepted = &response["tx_response"];
    assert_eq!((&accepted["code"], &accepted["raw_log"]), (&json!(0), &json!("")));
    let hash = accepted["txhash"].as_str().unwrap().to_owned();
    let receipt = served.node.wait_for("eth_getTransactionReceipt", json!([hash])).await;
    let height = u64::from_str_radix(&receipt["blockNumber"].as_str().unwrap()[2..], 16).unwrap();
    for text in [hash.as_str(), &hash[2..].to_uppercase()] {
        let mined = served.get(&format!("/cosmos/tx/v1beta1/txs/{text}")).await;
        let message = &mined["tx"]["body"]["messages"][0];
        assert_eq!(message["@type"], "/cosmos.evm.vm.v1.MsgEthereumTx");
        assert_eq!(message["raw"], hex::encode_prefixed(&raw));
        let result = &mined["tx_response"];
        assert_eq!((&result["code"], &result["gas_used"]), (&json!(0), &json!("21000")));
        assert_eq!(
            (&result["height"], &result["txhash"]),
            (&json!(height.to_string()), &json!(hash))
        );
        let kinds = [0, 1, 2].map(|at| result["events"][at]["type"].as_str().unwrap());
        assert_eq!(kinds, ["tx", "ethereum_tx", "ethereum_tx"]);
        assert_eq!(result["tx"]["@type"], "/cosmos.tx.v1beta1.Tx");
    }
    let (_, again) = served.post("/cosmos/tx/v1beta1/txs", &body.to_string()).await;
    assert_eq!(
        (&again["tx_response"]["code"], &again["tx_response"]["codespace"]),
        (&json!(3), &json!("sdk"))
    );
    let junk = json!({ "tx_bytes": "AQ==", "mode": "BROADCAST_MODE_SYNC" });
    let (_, junk) = served.post("/cosmos/tx/v1beta1/txs", &junk.to_string()).await;
    assert_eq!(junk["tx_response"]["code"], 2, "{junk}");
    // An incomplete body is refused, even if the received part is valid.
    let head = "POST /cosmos/tx/v1beta1/txs HTTP/1.1\r\nTransfer-Encoding: chunked\r\n";
    let (status, broken) =
        served.raw(head, &format!("{:x}\r\n{body}\r\nno size\r\n", body.to_string().len())).await;
    assert!(status == 400 && broken.contains("cannot read the request body"), "{status} {broken}");

    // Block numbers select the states before and after the transaction.
    let path = format!("/cosmos/auth/v1beta1/accounts/{ALICE}");
    let (_, before) = served.ask_at(&path, Some(&(height - 1).to_string())).await;
    let (_, after) = served.ask_at(&path, Some(&height.to_string())).await;
    let gateway = format!("Grpc-Metadata-X-Cosmos-Block-Height: {}\r\n", height - 1);
    let (_, by_gateway) = served.raw(&format!("GET {path} HTTP/1.1\r\n{gateway}"), "").await;
    assert_eq!(serde_json::from_str::<Value>(&by_gateway).unwrap(), before);
    let contrary = format!("GET {path} HTTP/1.1\r\n{gateway}x-cosmos-block-height: {height}\r\n");
    assert_eq!(served.raw(&contrary, "").await.0, 400, "the heights contradict each other");
    assert_eq!(before["account"]["sequence"], "0");
    assert_eq!(after["account"]["sequence"], "1");
    let block = served.get(&format!("/cosmos/base/tendermint/v1beta1/blocks/{height}")).await;
    assert_eq!(block["block"]["header"]["height"], height.to_string());
    assert_eq!(block["block"]["header"]["chain_id"], "262144");
    // A block contains the transaction as a `TxRaw`, as in the SDK.
    let tx_raw = BASE64.decode(block["block"]["data"]["txs"][0].as_str().unwrap()).unwrap();
    let decoded = json!({ "tx_bytes": BASE64.encode(&tx_raw) }).to_string();
    let (_, decoded) = served.post("/cosmos/tx/v1beta1/decode", &decoded).await;
    let message = &decoded["tx"]["body"]["messages"][0];
    assert_eq!(message["raw"], json!(format!("0x{}", hex::encode(&raw))), "{decoded}");
    let block_hash = hex::decode(receipt["blockHash"].as_str().unwrap()).unwrap();
    assert_eq!(block["block_id"]["hash"], BASE64.encode(block_hash));
    let commit = json!({
        "height": (height - 1).to_string(), "round": 0,
        "block_id": block["block"]["header"]["last_block_id"], "signatures": [],
    });
    for name in ["block", "sdk_block"] {
        assert_eq!(block[name]["evidence"], json!({ "evidence": [] }), "{name}");
        assert_eq!(block[name]["last_commit"], commit, "{name}");
    }
    let time = block["sdk_block"]["header"]["time"].as_str().unwrap();
    assert!(time.ends_with('Z'), "{time}");
    let latest = served.get("/cosmos/base/tendermint/v1beta1/blocks/latest").await;
    assert!(
        latest["block"]["header"]["height"].as_str().unwrap().parse::<u64>().unwrap() >= height
    );
    let syncing = served.get("/cosmos/base/tendermint/v1beta1/syncing").await;
    assert_eq!(syncing, json!({ "syncing": false }));
    let info = served.get("/cosmos/base/tendermint/v1beta1/node_info").await;
    assert_eq!(info["default_node_info"]["network"], "262144");
    let status = served.comet("status", json!({})).await["node_info"].take();
    for name in ["version", "protocol_version", "network", "moniker"] {
        assert_eq!(info["default_node_info"][name], status[name], "{name}");
    }
    let version = json!({
        "name": "evmd", "app_name": "evmd", "version": env!("CARGO_PKG_VERSION"),
        "git_commit": "", "build_tags": "", "go_version": "", "build_deps": [],
        "cosmos_sdk_version": "v0.53.4",
    });
    assert_eq!(info["application_version"], version);
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn transactions_in_blocks_are_decoded_and_encoded_to_the_same_bytes() {
    let served = Served::start().await;
    let raw = hex::encode_prefixed(transfer(1, 0, Address::repeat_byte(0x77)));
    let hash = served.node.call("eth_sendRawTransaction", json!([raw])).await;
    let receipt = served.node.wait_for("eth_getTransactionReceipt", json!([hash])).await;
    let height = u64::from_str_radix(&receipt["blockNumber"].as_str().unwrap()[2..], 16).unwrap();
    let proposal = slower_market("1500000000000000000");
    let sent = signed(0, 0, vec![any(&proposal)]);
    let mined = served.mined(&sent).await;
    let post = async |path: &str, body: Value| {
        let (status, response) = served.post(path, &body.to_string()).await;
        assert_eq!(status, 200, "{path}: {response}");
        response
    };
    let mut encoded = Value::Null;
    for height in [height.to_string(), mined["height"].as_str().unwrap().to_owned()] {
        let block = served.get(&format!("/cosmos/tx/v1beta1/txs/block/{height}")).await;
        let bytes = &block["block"]["data"]["txs"][0];
        let all = block["block"]["data"]["txs"].as_array().unwrap().len();
        let limited = format!("/cosmos/tx/v1beta1/txs/block/{height}?pagination.limit=1");
        let limited = served.get(&limited).await;
        assert_eq!(limited["pagination"]["total"], all.to_string(), "the total is not limited");
        let decoded = post("/cosmos/tx/v1beta1/decode", json!({ "tx_bytes": bytes })).await;
        assert_eq!(decoded["tx"], block["txs"][0], "{height}");
        encoded = post("/cosmos/tx/v1beta1/encode", decoded.clone()).await;
        assert_eq!(post("/cosmos/tx/v1beta1/decode", encoded.clone()).await, decoded, "{height}");
    }
    assert_eq!(encoded["tx_bytes"], BASE64.encode(&sent), "the decimals are also encoded");
    served.stop().await;
}

/// The error names the reason, and other queries are still served.
#[tokio::test(flavor = "multi_thread")]
async fn ethereum_chain_refuses_queries_of_native_chains() {
    let served = Served::with_ethereum_rules().await;
    for path in ["bank/v1beta1/supply", "bank/v1beta1/supply/by_denom", "evm/vm/v1/min_gas_price"] {
        let (status, response) = served.ask(&format!("/cosmos/{path}")).await;
        assert_eq!((status, &response["code"]), (400, &json!(9)), "{response}");
        assert!(response["message"].as_str().unwrap().contains("Ethereum's rules"), "{response}");
    }
    let set = served.get("/cosmos/base/tendermint/v1beta1/validatorsets/latest").await;
    let producer = Bech32Kind::Consensus.address("cosmos", Address::repeat_byte(0x11));
    assert_eq!(set["validators"][0]["address"], producer);
    let limited = "/cosmos/base/tendermint/v1beta1/validatorsets/latest?pagination.limit=1";
    assert_eq!(served.get(limited).await["pagination"]["total"], "1");
    let status = served.get("/cosmos/base/node/v1beta1/status").await;
    assert_eq!(status["height"], "0");
    served.stop().await;
}

/// Wraps an Ethereum transaction of account 0 in the SDK's envelope, with this fee.
fn enveloped(raw: &[u8], fee: u64, memo: &str) -> String {
    let message = MsgEthereumTx { from: DEV_ACCOUNTS[0].address.to_vec(), raw: raw.to_vec() };
    let body = TxBody {
        messages: vec![any(&message)],
        extension_options: vec![any(&ExtensionOptionsEthereumTx {})],
        memo: memo.to_owned(),
        ..TxBody::default()
    };
    let fee = Fee { amount: coins(fee), gas_limit: 21_000, ..Fee::default() };
    let tx = TxRaw {
        body_bytes: body.encode_to_vec(),
        auth_info_bytes: AuthInfo { signer_infos: Vec::new(), fee: Some(fee) }.encode_to_vec(),
        signatures: Vec::new(),
    };
    let bytes = BASE64.encode(tx.encode_to_vec());
    json!({ "tx_bytes": bytes, "mode": "BROADCAST_MODE_SYNC" }).to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn enveloped_ethereum_transaction_keeps_its_hash() {
    let served = Served::start().await;
    let raw = transfer(0, 0, Address::repeat_byte(0x77));
    let fee = 21_000 * u64::try_from(FEE_CAP).unwrap();
    for (body, code) in [
        (enveloped(&raw, fee - 1, ""), 18),
        (enveloped(&raw, fee, "a memo"), 18),
        (enveloped(&raw[1..], fee, ""), 2),
    ] {
        let (_, response) = served.post("/cosmos/tx/v1beta1/txs", &body).await;
        let result = &response["tx_response"];
        assert_eq!((&result["codespace"], &result["code"]), (&json!("sdk"), &json!(code)));
        assert_ne!(result["raw_log"], "", "{response}");
        // The response to a refused transaction contains the SDK's hash.
        let sent: Value = serde_json::from_str(&body).unwrap();
        let sent = BASE64.decode(sent["tx_bytes"].as_str().unwrap()).unwrap();
        assert_eq!(result["txhash"], hex::encode_upper(Sha256::digest(sent)));
    }
    let body = enveloped(&raw, fee, "");
    let (status, response) = served.post("/cosmos/tx/v1beta1/txs", &body).await;
    let result = &response["tx_response"];
    assert_eq!((status, &result["code"]), (200, &json!(0)), "{response}");
    // The response to an accepted transaction contains the Ethereum hash, by which JSON-RPC finds the transaction.
    let hash = hex::encode_prefixed(alloy_primitives::keccak256(&raw));
    assert_eq!(result["txhash"], hash);
    let receipt = served.node.wait_for("eth_getTransactionReceipt", json!([hash])).await;
    assert_eq!((&receipt["status"], &receipt["type"]), (&json!("0x1"), &json!("0x2")));
    let found = served.get(&format!("/cosmos/tx/v1beta1/txs/{hash}")).await;
    assert_eq!(found["tx"]["body"]["messages"][0]["raw"], hex::encode_prefixed(&raw));
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_requests_have_an_error_text() {
    let served = Served::start().await;
    let unused = bech32("cosmos", UNUSED.parse().unwrap());
    let missing =
        format!("rpc error: code = NotFound desc = account {unused} not found: key not found");
    let (status, response) = served.ask(&format!("/cosmos/auth/v1beta1/accounts/{UNUSED}")).await;
    assert_eq!((status, response), (404, error(5, &missing)));
    for (path, status, code) in [
        ("/cosmos/auth/v1beta1/accounts/cosmos1xyz", 400, 3),
        ("/cosmos/auth/v1beta1/accounts/osmo1qqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqq", 400, 3),
        ("/cosmos/auth/v1beta1/accounts/0x12", 400, 3),
        ("/cosmos/auth/v1beta1/accounts/%ff", 400, 3),
        ("/cosmos/auth/v1beta1/params?x=1", 400, 3),
        ("/cosmos/auth/v1beta1/module_accounts/nothing", 404, 5),
        ("/cosmos/auth/v1beta1/bech32/AAAA", 400, 3),
        ("/cosmos/evm/vm/v1/storage/0x00000000000000000000000000000000000000aa/zz", 400, 3),
        ("/cosmos/tx/v1beta1/txs/12", 400, 3),
        (
            "/cosmos/tx/v1beta1/txs/0x1111111111111111111111111111111111111111111111111111111111111111",
            404,
            5,
        ),
        ("/cosmos/base/tendermint/v1beta1/blocks/999999", 400, 3),
        ("/cosmos/base/tendermint/v1beta1/blocks/x", 400, 3),
        ("/cosmos/nothing", 501, 12),
        ("/", 501, 12),
    ] {
        let (found, response) = served.ask(path).await;
        assert_eq!((found, response["code"].as_u64()), (status, Some(code)), "{path}: {response}");
        assert!(response["details"].is_array() && response["message"].is_string(), "{response}");
    }
    for height in ["999999999", "-1", "x", "99999999999999999999999"] {
        let (status, response) = served.ask_at("/cosmos/evm/vm/v1/base_fee", Some(height)).await;
        assert_eq!((status, &response["code"]), (400, &json!(3)), "{height}: {response}");
    }
    for body in
        ["", "{", "{\"tx_bytes\":7}", "{\"x\":1}", "{\"tx_bytes\":\"\"}", "{\"mode\":\"NOW\"}"]
    {
        let (status, response) = served.post("/cosmos/tx/v1beta1/txs", body).await;
        assert_eq!((status, &response["code"]), (400, &json!(3)), "{body}: {response}");
    }
    let (status, _) = served.post("/cosmos/tx/v1beta1/txs", &" ".repeat(200_000)).await;
    assert_eq!(status, 413);
    let not_served = (501, error(12, "Not Implemented"));
    assert_eq!(served.ask("/cosmos/nothing").await, not_served);
    assert_eq!(served.post("/cosmos/auth/v1beta1/params", "{}").await, not_served);
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn document_describes_operations_with_distinct_ids() {
    let served = Served::start().await;
    let description = served.get("/openapi.json").await;
    assert_eq!(description["openapi"], "3.1.0");
    let paths = description["paths"].as_object().unwrap();
    let account = &paths["/chain/auth/v1beta1/accounts/{address}"]["get"];
    assert_eq!(account["summary"], "An account.");
    let schema = &description["components"]["schemas"]["cosmos.bank.v1beta1.QueryBalanceResponse"];
    assert!(schema["properties"]["balance"].is_object(), "{schema}");
    let mut ids: Vec<_> = paths
        .values()
        .flat_map(|item| item.as_object().unwrap().values())
        .map(|operation| operation["operationId"].as_str().unwrap())
        .collect();
    let count = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), count, "each operation has its own id");
    let (status, page) = served.raw("GET /swagger/ HTTP/1.1\r\n", "").await;
    assert_eq!(status, 200);
    assert!(page.contains("swagger-ui"), "{page}");
    served.stop().await;
}
