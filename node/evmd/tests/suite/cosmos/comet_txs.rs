//! Broadcasts and searches transactions over CometBFT's RPC, lists unconfirmed ones, and sends ABCI queries.

use super::{
    comet::{RECEIVER, signed_send},
    grpc::Client,
    served::{FORKING, Served},
};
use crate::{
    client::MAX_WAIT,
    common::{native_home, producing, signed::address_of, transfer},
};
use alloy_primitives::hex;
use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use keys::bech32;
use prost::Message;
use proto::cosmos::bank::v1beta1::{QueryBalanceRequest, QueryBalanceResponse};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::sync::Arc;
use tokio::task::JoinSet;

#[tokio::test(flavor = "multi_thread")]
async fn transactions_are_sent_and_found() {
    let served = Served::start().await;
    let (raw, next, third) = (signed_send(0), signed_send(1), signed_send(2));
    let hash = |raw: &[u8]| hex::encode_upper(Sha256::digest(raw));
    let sent = served.comet("broadcast_tx_sync", json!({ "tx": BASE64.encode(&raw) })).await;
    assert_eq!((&sent["code"], &sent["hash"]), (&json!(0), &json!(hash(&raw))), "{sent}");
    let sent = served.comet("broadcast_tx_async", json!([BASE64.encode(&next)])).await;
    assert_eq!(sent["hash"], json!(hash(&next)));
    let uri = format!("/broadcast_tx_commit?tx=0x{}", hex::encode(&third));
    let (status, committed) = served.comet_get(&uri).await;
    let committed = &committed["result"];
    assert_eq!((status, &committed["check_tx"]["code"]), (200, &json!(0)), "{committed}");
    assert_eq!(
        (&committed["hash"], &committed["tx_result"]["code"]),
        (&json!(hash(&third)), &json!(0))
    );
    // All transactions are mined now. The third is compared with REST.
    let by_hash = json!({ "hash": BASE64.encode(Sha256::digest(&third)), "prove": true });
    let found = served.comet("tx", by_hash).await;
    let rest = served.get(&format!("/cosmos/tx/v1beta1/txs/{}", hash(&third))).await;
    assert_eq!(found["height"], rest["tx_response"]["height"]);
    assert_eq!(
        (&found["height"], &found["tx"]),
        (&committed["height"], &json!(BASE64.encode(&third)))
    );
    assert_eq!(found["tx_result"], committed["tx_result"]);
    assert_eq!(found["tx_result"]["events"], rest["tx_response"]["events"]);
    let (_, by_uri) = served.comet_get(&format!("/tx?hash=0x{}", hash(&third))).await;
    assert_eq!(by_uri["result"], found);
    let query = format!("message.sender='{}'", address_of(0));
    let search = |rest: Value| {
        let mut params = json!({ "query": query, "prove": false });
        params.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        served.comet("tx_search", params)
    };
    let list = search(json!({ "order_by": "desc", "per_page": "2" })).await;
    assert_eq!((&list["total_count"], &list["txs"][0]), (&json!("3"), &found));
    assert_eq!(list["txs"].as_array().unwrap().len(), 2);
    let list = search(json!({ "page": 2, "per_page": 2 })).await;
    assert_eq!(list["txs"], json!([found]));
    // Both methods refuse a used sequence.
    for method in ["broadcast_tx_sync", "broadcast_tx_commit"] {
        let refused = served.comet(method, json!({ "tx": BASE64.encode(&raw) })).await;
        let checked = refused.get("check_tx").unwrap_or(&refused);
        assert_eq!(
            (&checked["code"], &checked["codespace"]),
            (&json!(32), &json!("sdk")),
            "{refused}"
        );
        assert_eq!(refused["hash"], json!(hash(&raw)));
    }
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ethereum_transaction_is_returned_in_its_envelope() {
    let served = Served::start().await;
    let (hash, number) = served.mine_transfer(0).await;
    let bytes = BASE64.encode(hex::decode(&hash).unwrap());
    let found = served.comet("tx", json!({ "hash": bytes })).await;
    assert_eq!((&found["hash"], &found["height"]), (&json!(hash), &json!(number.to_string())));
    let block = served.comet("block", json!({ "height": number })).await;
    assert_eq!(block["block"]["data"]["txs"][0], found["tx"]);
    let decoding = json!({ "tx_bytes": found["tx"] }).to_string();
    let (_, decoded) = served.post("/cosmos/tx/v1beta1/decode", &decoding).await;
    let rest = served.get(&format!("/cosmos/tx/v1beta1/txs/{hash}")).await;
    assert_eq!(decoded["tx"], rest["tx"]);
    // Both forms can be broadcast, and are refused because the transaction is mined.
    for tx in [found["tx"].clone(), json!(BASE64.encode(transfer(1, 0, RECEIVER)))] {
        let again = served.comet("broadcast_tx_sync", json!({ "tx": tx })).await;
        assert_ne!(again["code"], 0, "{again}");
    }
    let raw = transfer(1, 1, RECEIVER);
    let sent = served.comet("broadcast_tx_commit", json!({ "tx": BASE64.encode(raw) })).await;
    assert_eq!(sent["tx_result"]["gas_used"], "21000", "{sent}");
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn abci_queries_return_the_responses_of_modules() {
    const PATH: &str = "/cosmos.bank.v1beta1.Query/Balance";
    let served = Served::start().await;
    let mined = served.mined(&signed_send(0)).await;
    let height: i64 = mined["height"].as_str().unwrap().parse().unwrap();
    let request =
        QueryBalanceRequest { address: bech32("cosmos", RECEIVER), denom: "atest".to_owned() };
    let data = hex::encode(request.encode_to_vec());
    let ask = |params: Value| served.comet("abci_query", params);
    for (height, amount) in [(height - 1, "0"), (height, "7")] {
        let given = json!({ "path": PATH, "data": data, "height": height.to_string() });
        let response = ask(given).await["response"].take();
        assert_eq!(
            (&response["code"], &response["height"]),
            (&json!(0), &json!(height.to_string()))
        );
        let value = BASE64.decode(response["value"].as_str().unwrap()).unwrap();
        let decoded = QueryBalanceResponse::decode(value.as_slice()).unwrap();
        assert_eq!(decoded.balance.unwrap().amount, amount);
        let uri =
            format!("/abci_query?path=%22{PATH}%22&data=0x{data}&height={height}&prove=false");
        assert_eq!(served.comet_get(&uri).await.1["result"]["response"], response);
    }
    // Without a height, the newest block is read. The value equals the gRPC response.
    let response = ask(json!({ "path": PATH, "data": data })).await["response"].take();
    assert!(response["height"].as_str().unwrap().parse::<i64>().unwrap() >= height);
    let mut grpc = Client::connect(&served).await;
    let message = grpc.bytes(&PATH[1..], request.encode_to_vec()).await.unwrap();
    assert_eq!(response["value"], json!(BASE64.encode(message)));
    let missing = "/cosmos.auth.v1beta1.Query/Account";
    let unknown = QueryBalanceRequest { address: address_of(0).replace('1', "2"), ..request };
    let unused = hex::encode([&[0x0a, 42][..], format!("0x{:040x}", 0xaa).as_bytes()].concat());
    for (path, data, height, code, log) in [
        (missing, unused.as_str(), 0, 22, "rpc error: code = NotFound desc = account cosmos1"),
        (PATH, &*hex::encode(unknown.encode_to_vec()), 0, 18, "rpc error: code = InvalidArgument"),
        ("/store/bank/key", "", 0, 6, "unknown query path: unknown request"),
        ("no path", "", 0, 6, "unknown query path: unknown request"),
        ("", "", 0, 6, "unknown query path: unknown request"),
        (PATH, &data, 1_000_000_000, 26, "cannot query with height in the future"),
        (PATH, &data, -1, 26, "cannot query with height < 0: invalid height"),
    ] {
        let given = json!({ "path": path, "data": data, "height": height });
        let response = ask(given).await["response"].take();
        assert_eq!((&response["code"], &response["codespace"]), (&json!(code), &json!("sdk")));
        let text = response["log"].as_str().unwrap();
        assert!(text.starts_with(log), "{response}");
        assert_eq!(text.matches("key not found").count(), usize::from(code == 22), "{text}");
        assert_eq!(response["value"], Value::Null);
    }
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unconfirmed_transactions_are_counted_and_listed() {
    let folder = tempfile::tempdir().unwrap();
    let opening = FORKING.lock().await;
    let home = native_home(folder.path());
    drop(opening);
    let served = Served::on(folder, home, producing(None)).await;
    let (raw, ether) = (signed_send(0), transfer(1, 5, RECEIVER));
    for tx in [&raw[..], &ether] {
        let sent = served.comet("broadcast_tx_sync", json!([BASE64.encode(tx)])).await;
        assert_eq!(sent["code"], 0, "{sent}");
    }
    let waiting = served.comet("num_unconfirmed_txs", json!({})).await;
    // In the pool, a Cosmos transaction is one byte longer, because it starts with its type byte.
    let bytes = (raw.len() + 1 + ether.len()).to_string();
    assert_eq!((&waiting["total"], &waiting["total_bytes"]), (&json!("2"), &json!(bytes)));
    let listed = served.comet("unconfirmed_txs", json!({ "limit": "1000" })).await;
    assert_eq!((&listed["txs"], &listed["n_txs"]), (&json!([BASE64.encode(&raw)]), &json!("1")));
    assert_eq!(listed["total"], "2");
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_broadcast_commits_are_limited() {
    let served = Arc::new(Served::start().await);
    // Transactions behind a nonce gap are not included in a block.
    let mut waiting = JoinSet::new();
    for nonce in 5..21 {
        let served = Arc::clone(&served);
        let params = json!([BASE64.encode(transfer(1, nonce, RECEIVER))]);
        waiting.spawn(async move { served.comet("broadcast_tx_commit", params).await });
    }
    // Until all permits are in use, the error is that the parameter `tx` is missing.
    let refused = async {
        loop {
            let (_, text) = served.comet_error("broadcast_tx_commit", json!({})).await;
            if text != "parameter tx is missing" {
                return text;
            }
        }
    };
    let text = tokio::time::timeout(MAX_WAIT, refused).await.expect("a refusal");
    assert!(text.starts_with("16 calls are waiting for a block: "), "{text}");
    // Other calls are answered in the meantime, and a client that disconnects releases its permit.
    served.comet("status", json!({})).await;
    waiting.shutdown().await;
    let released =
        async { while served.comet_error("broadcast_tx_commit", json!({})).await.1 == text {} };
    tokio::time::timeout(MAX_WAIT, released).await.expect("a free permit");
    Arc::into_inner(served).expect("no other owner").stop().await;
}
