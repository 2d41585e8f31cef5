//! Field names in request objects are case-insensitive. Hashes, data and quantities require the prefix `0x`, and
//! addresses are accepted in any format. Errors name the field.

use super::explorer::{every_fork, serve_with};
use crate::{client::Node, common::native_home};
use alloy_primitives::{Address, B256};
use keys::bech32;
use serde_json::{Value, json};

const CONTRACT: Address = Address::repeat_byte(0xcc);

/// Returns code that executes these instructions and returns the value that they push.
fn returning(instructions: &str) -> String {
    format!("0x{instructions}60005260206000f3")
}

fn word(number: u64) -> Value {
    json!(format!("0x{number:064x}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn field_names_are_accepted_in_any_case() {
    let node = every_fork().await;
    let contract = CONTRACT.to_string();
    // The code of the overrides returns the block number, the first word of the input, and slot 7, respectively.
    let number = json!({ contract.clone(): { "CODE": returning("43") } });
    let input = json!({ contract.clone(): { "Code": returning("600035") } });
    let slot = json!({
        contract.clone(): { "code": returning("600754"), "STATEDIFF": { word(7).as_str().unwrap(): word(9) } },
    });
    let call = json!({ "TO": contract, "Data": word(5) });
    for (params, expected) in [
        (json!([call, "latest", number, { "NUMBER": "0x63" }]), word(0x63)),
        (json!([call, { "blocknumber": "0x5" }, number]), word(5)),
        (json!([call, "latest", input]), word(5)),
        (json!([call, "latest", slot]), word(9)),
    ] {
        assert_eq!(node.call("eth_call", params.clone()).await, expected, "{params}");
    }
    // This block is selected by its hash, and is not the newest one.
    let block = node.call("eth_getBlockByNumber", json!(["0x2", false])).await;
    let logs = node.call("eth_getLogs", json!([{ "blockhash": block["hash"] }])).await;
    assert_eq!(logs, node.call("eth_getLogs", json!([{ "blockHash": block["hash"] }])).await);
    assert_eq!(logs[0]["blockNumber"], "0x2", "{logs}");
    let conflicting = json!([{ "BlockHash": block["hash"], "FROMBLOCK": "0x1" }]);
    assert_eq!(node.fail("eth_getLogs", conflicting).await.0, -32602);
    let no_match =
        json!([{ "fromblock": "0x2", "TOBLOCK": "0x2", "TOPICS": [B256::repeat_byte(9)] }]);
    assert_eq!(node.call("eth_getLogs", no_match).await, json!([]));
    let by_hash = json!([contract, { "BLOCKHASH": block["hash"] }]);
    assert_eq!(node.call("eth_getBalance", by_hash).await, "0x0");
    let simulated = json!([{ "BLOCKSTATECALLS": [{ "STATEOVERRIDES": input, "CALLS": [call] }] }]);
    let simulated = node.call("eth_simulateV1", simulated).await;
    assert_eq!(simulated[0]["calls"][0]["returnData"], word(5));
    let options = json!({ "TRACER": "callTracer", "TracerConfig": { "ONLYTOPCALL": true } });
    let traced = node.call("debug_traceCall", json!([call, "latest", options])).await;
    assert_eq!((&traced["type"], &traced["to"]), (&json!("CALL"), &json!(CONTRACT)), "{traced}");
    let options = json!({ "STATEOVERRIDES": input, "DISABLESTACK": true, "tracer": null });
    let traced = node.call("debug_traceCall", json!([call, "latest", options])).await;
    assert_eq!(traced["returnValue"], word(5), "{traced}");
    assert!(traced["structLogs"][0].get("stack").is_none(), "{traced}");
    let filter = json!([{ "FROMBLOCK": "0x3", "toblock": "0x3", "COUNT": 1 }]);
    let traces = node.call("trace_filter", filter).await;
    assert_eq!((traces.as_array().unwrap().len(), &traces[0]["blockNumber"]), (1, &json!(3)));
    node.stop().await;
}

/// Replaces `?` in the parameters with a value; returns them first with the prefix `0x`, then without it.
fn with_and_without_prefix(template: &Value, bare: &str) -> [Value; 2] {
    let filled = |text: String| {
        let text = template.to_string().replace('?', &text);
        serde_json::from_str(&text).unwrap()
    };
    [filled(format!("0x{bare}")), filled(bare.to_owned())]
}

#[tokio::test(flavor = "multi_thread")]
async fn hashes_data_and_quantities_need_their_prefix() {
    let folder = tempfile::tempdir().unwrap();
    let home = native_home(folder.path());
    let node = serve_with(folder, home, |config| {
        config.json_rpc.api.push("testing".to_owned());
    })
    .await;
    let (hash, to) = (format!("{:064x}", 7), CONTRACT);
    let called = |field: &str, value: Value| json!([{ "to": to, field: value }]);
    let overridden = |field: &str, value: Value| json!([{ "to": to }, "latest", { to.to_string(): { field: value } }]);
    let block = |field: &str, value: Value| json!([{ "to": to }, "latest", {}, { field: value }]);
    let authorization = |field: &str| {
        let mut whole = json!({
            "chainId": "0x0", "address": to, "nonce": "0x0", "yParity": "0x0", "r": "0x1", "s": "0x1",
        });
        whole[field] = json!("?");
        called("authorizationList", json!([whole]))
    };
    let built = |field: &str| {
        let mut attributes =
            json!({ "timestamp": "0x1", "prevRandao": word(1), "suggestedFeeRecipient": to });
        attributes[field] = json!("?");
        json!([word(1), attributes])
    };
    let withdrawal =
        json!([{ "index": "?", "validatorIndex": "0x1", "address": to, "amount": "0x1" }]);
    let hash = hash.as_str();
    for (method, template, bare) in [
        ("eth_getBlockByHash", json!(["?", false]), hash),
        ("eth_getBlockByNumber", json!(["?", false]), "7"),
        ("eth_getBalance", json!([to, "?"]), hash),
        ("eth_getBalance", json!([to, { "blockHash": "?" }]), hash),
        ("eth_getBalance", json!([to, { "blockNumber": "?" }]), "0"),
        ("eth_getStorageAt", json!([to, "?"]), "7"),
        ("eth_getStorageAt", json!([to, "?"]), hash),
        ("eth_getProof", json!([to, ["?"]]), hash),
        ("eth_getStorageValues", json!([{ to.to_string(): ["?"] }]), hash),
        ("eth_getLogs", json!([{ "topics": ["?"] }]), hash),
        ("eth_getLogs", json!([{ "blockHash": "?" }]), hash),
        ("eth_getLogs", json!([{ "fromBlock": "?" }]), "0"),
        ("eth_sendRawTransaction", json!(["?"]), "02c0"),
        ("web3_sha3", json!(["?"]), "00"),
        ("debug_storageRangeAt", json!(["latest", 0, to, "?", 1]), "00"),
        ("debug_intermediateRoots", json!(["?"]), hash),
        ("debug_getModifiedAccountsByHash", json!(["?"]), hash),
        ("debug_accountRange", json!(["latest", "?"]), "00"),
        ("eth_call", called("gas", json!("?")), "ffff"),
        ("eth_call", called("value", json!("?")), "0"),
        ("eth_call", called("data", json!("?")), "00"),
        ("eth_call", called("input", json!("?")), "00"),
        ("eth_call", called("nonce", json!("?")), "0"),
        ("eth_call", called("maxFeePerGas", json!("?")), "0"),
        ("eth_call", called("blobVersionedHashes", json!(["?"])), hash),
        ("eth_call", called("accessList", json!([{ "address": to, "storageKeys": ["?"] }])), hash),
        ("eth_call", authorization("chainId"), "0"),
        ("eth_call", authorization("nonce"), "0"),
        ("eth_call", authorization("yParity"), "0"),
        ("eth_call", authorization("r"), "1"),
        ("eth_call", overridden("balance", json!("?")), "7"),
        ("eth_call", overridden("nonce", json!("?")), "7"),
        ("eth_call", overridden("code", json!("?")), "00"),
        ("eth_call", overridden("state", json!({ "?": word(1) })), hash),
        ("eth_call", overridden("stateDiff", json!({ word(1).as_str().unwrap(): "?" })), hash),
        ("eth_call", block("time", json!("?")), "7"),
        ("eth_call", block("prevRandao", json!("?")), hash),
        ("eth_call", block("random", json!("?")), hash),
        ("eth_call", block("baseFeePerGas", json!("?")), "7"),
        ("eth_call", block("withdrawals", withdrawal), "1"),
        ("testing_buildBlockV1", built("timestamp"), "1"),
        ("testing_buildBlockV1", built("prevRandao"), hash),
        ("testing_buildBlockV1", built("parentBeaconBlockRoot"), hash),
    ] {
        let [prefixed, unprefixed] = with_and_without_prefix(&template, bare);
        let (code, message) = node.fail(method, unprefixed.clone()).await;
        assert_eq!(code, -32602, "{method} {unprefixed}: {message}");
        assert!(message.contains("without 0x prefix"), "{method} {unprefixed}: {message}");
        let response = node.response(method, prefixed.clone()).await;
        assert_ne!(response["error"]["code"], -32602, "{method} {prefixed}: {response}");
    }
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn addresses_are_accepted_in_every_format_in_all_fields() {
    let node = every_fork().await;
    let hex = format!("{CONTRACT:x}");
    let forms = [format!("0x{hex}"), hex.clone(), hex.to_uppercase(), bech32("cosmos", CONTRACT)];
    let code = returning("43");
    for form in &forms {
        let call = json!({ "from": form, "to": form });
        let listed = json!({ "to": form, "accessList": [{ "address": form, "storageKeys": [] }] });
        let overrides = json!({ form: { "code": code } });
        for (method, params) in [
            ("eth_getBalance", json!([form])),
            ("eth_getAccount", json!([form])),
            ("eth_getLogs", json!([{ "address": form }])),
            ("eth_getLogs", json!([{ "address": [form] }])),
            ("eth_getStorageValues", json!([{ form: [word(0)] }])),
            ("eth_call", json!([listed])),
            ("trace_filter", json!([{ "fromAddress": [form], "fromBlock": "latest" }])),
            ("debug_storageRangeAt", json!(["latest", 0, form, "0x", 1])),
        ] {
            let response = node.response(method, params.clone()).await;
            assert!(response.get("error").is_none(), "{method} {params}: {response}");
        }
        let number = node.call("eth_call", json!([call, "0x5", overrides])).await;
        assert_eq!(number, word(5), "{form}");
    }
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_of_overrides_name_the_field() {
    let node = Node::native().await;
    let to = CONTRACT.to_string();
    let call = json!({ "to": to });
    let of = |overrides: Value| json!([call, "latest", overrides]);
    let state = |field: &str, value: Value| of(json!({ to.clone(): { field: value } }));
    let named = |field: &str, reason: &str| format!("invalid argument 2: {to}: {field}: {reason}");
    for (params, expected) in [
        (of(json!([])), "invalid argument 2: must be an object, got a list".to_owned()),
        (of(json!("0x")), "invalid argument 2: must be an object, got a string".to_owned()),
        (
            of(json!({ to.clone(): 7 })),
            format!("invalid argument 2: {to}: must be an object, got a number"),
        ),
        (state("balance", json!(7)), named("balance", "must be a string, got integer `7`")),
        (state("balance", json!("7")), named("balance", "hex string without 0x prefix")),
        (state("nonce", json!("0x10000000000000000")), named("nonce", "hex number > 64 bits")),
        (state("code", json!("0x1")), named("code", "hex string of odd length")),
        (state("code", json!([])), named("code", "must be a string, got a list")),
        (state("state", json!([])), named("state", "must be an object, got a list")),
        (
            state("stateDiff", json!({ "0x1": word(1) })),
            named("stateDiff", "0x1: hex string of odd length"),
        ),
        (
            state("stateDiff", json!({ word(1).as_str().unwrap(): "0x01" })),
            named(
                "stateDiff",
                &format!(
                    "{}: hex string has length 2, want 64 for a hash",
                    word(1).as_str().unwrap()
                ),
            ),
        ),
        (
            of(json!({ to.clone(): {}, to.to_lowercase(): {} })),
            format!("invalid argument 2: account {to} is overridden twice"),
        ),
        (
            json!([call, "latest", {}, { "time": [] }]),
            "invalid argument 3: time: must be a string, got a list".to_owned(),
        ),
        (
            json!([{ "accessList": [{ "address": to }] }]),
            "invalid argument 0: accessList: 0: missing required field 'storageKeys'".to_owned(),
        ),
    ] {
        let (code, message) = node.fail("eth_call", params.clone()).await;
        assert_eq!((code, message), (-32602, expected), "{params}");
    }
    assert_eq!(node.call("eth_call", of(json!({ to.clone(): null }))).await, "0x");
    node.stop().await;
}
