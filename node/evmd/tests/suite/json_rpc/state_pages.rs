//! Compares `debug_storageRangeAt`, `debug_accountRange` and `debug_getModifiedAccountsBy*` with the methods that read
//! one account or slot.

use super::explorer::{every_fork, serve_with};
use crate::{
    client::Node,
    common::{CHAIN_ID, FEE_CAP, native_home, sign, transfer},
};
use alloy_consensus::TxEip1559;
use alloy_primitives::{Address, B256, Bytes, TxKind, U256, keccak256};
use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use chain::DEV_ACCOUNTS;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The last block of the chain of [`every_fork`]. The node adds empty blocks.
const HEAD: u64 = 41;

/// Returns [`HEAD`] in hex.
fn head() -> String {
    format!("{HEAD:#x}")
}

fn contract() -> Address {
    DEV_ACCOUNTS[0].address.create(0)
}

fn word(number: u64) -> B256 {
    U256::from(number).into()
}

#[tokio::test(flavor = "multi_thread")]
async fn storage_range_is_that_before_the_transaction() {
    let node = every_fork().await;
    // The first transaction of block n stores n modulo 3 in slot 0; block 1 deploys the contract.
    let hash = keccak256(B256::ZERO);
    for block in 2..=HEAD {
        for (index, number) in [(0, block - 1), (1, block)] {
            let id = if block % 2 == 0 {
                json!(format!("{block:#x}"))
            } else {
                node.call("eth_getBlockByNumber", json!([format!("{block:#x}"), false])).await["hash"].clone()
            };
            let params = json!([id, index, contract(), "0x", 10]);
            let range = node.call("debug_storageRangeAt", params).await;
            let value = if number == 1 { 0 } else { number % 3 };
            let expected = match value {
                0 => json!({ "storage": null, "nextKey": null }),
                value => json!({
                    "storage": { hash.to_string(): { "key": B256::ZERO, "value": word(value) } },
                    "nextKey": null,
                }),
            };
            assert_eq!(range, expected, "block {block} before transaction {index}");
        }
    }
    let without_storage = json!(["latest", 0, Address::repeat_byte(0xee), "0x", 10]);
    let empty = json!({ "storage": null, "nextKey": null });
    assert_eq!(node.call("debug_storageRangeAt", without_storage).await, empty);
    for (params, code, text) in [
        (
            json!(["latest", 2, contract(), "0x", 1]),
            -32000,
            "transaction index 2 out of range for block 0x",
        ),
        (json!(["earliest", 0, contract(), "0x", 1]), -32000, "no transaction in genesis"),
        (json!(["0xffff", 0, contract(), "0x", 1]), -32000, "block #65535 not found"),
        (
            json!(["latest", 0, contract(), format!("0x{}", "00".repeat(33)), 1]),
            -32602,
            "start key must have at most 32",
        ),
    ] {
        let (found, message) = node.fail("debug_storageRangeAt", params.clone()).await;
        assert!(found == code && message.starts_with(text), "{params}: {found} {message}");
    }
    node.stop().await;
}

/// Code that stores the block number in as many slots as the input states, starting at slot 1.
const FILL: &str = "6000355b8015601357438155600190036003565b00";

/// Starts a native node and deploys a contract with this code; also returns the contract's address.
async fn native_contract(code: &str) -> (Node, Address) {
    let folder = tempfile::tempdir().unwrap();
    let home = native_home(folder.path());
    let node = serve_with(folder, home, |_| ()).await;
    let length = code.len() / 2;
    let init = format!("60{length:02x}80600b6000396000f3{code}");
    let init: Bytes = format!("0x{init}").parse().unwrap();
    send(&node, 0, 0, TxKind::Create, init).await;
    (node, contract())
}

/// Sends a transaction and waits for its receipt.
async fn send(node: &Node, from: usize, nonce: u64, to: TxKind, input: Bytes) -> Value {
    let tx = TxEip1559 {
        chain_id: CHAIN_ID,
        nonce,
        gas_limit: 15_000_000,
        max_fee_per_gas: FEE_CAP,
        to,
        input,
        ..TxEip1559::default()
    };
    let raw = sign(from, tx);
    let receipt = node.call("eth_sendRawTransactionSync", json!([raw, 30_000])).await;
    assert_eq!(receipt["status"], "0x1", "{receipt}");
    receipt
}

#[tokio::test(flavor = "multi_thread")]
async fn storage_pages_contain_every_slot_once() {
    let (node, contract) = native_contract(FILL).await;
    let slots = 300_u64;
    let receipt = send(&node, 0, 1, TxKind::Call(contract), word(slots).to_vec().into()).await;
    let (block, value) = (receipt["blockNumber"].clone(), &receipt["blockNumber"]);
    let value = word(u64::from_str_radix(&value.as_str().unwrap()[2..], 16).unwrap());
    // All slots exist before this transaction, which is in a later block.
    let next =
        send(&node, 1, 0, TxKind::Call(Address::ZERO), Bytes::new()).await["blockNumber"].clone();
    let expected: BTreeMap<String, Value> = (1..=slots)
        .map(|slot| {
            let entry = json!({ "key": word(slot), "value": value });
            (keccak256(word(slot)).to_string(), entry)
        })
        .collect();
    for limit in [1_u64, 7, 100, slots - 1, slots, slots + 1] {
        let (mut start, mut found, mut pages) = ("0x".to_owned(), BTreeMap::new(), 0);
        loop {
            let params = json!([next, 0, contract, start, limit]);
            let page = node.call("debug_storageRangeAt", params).await;
            let storage = page["storage"].as_object().unwrap();
            assert!(storage.len() as u64 <= limit, "{limit}");
            found.extend(storage.clone());
            pages += 1;
            match page["nextKey"].as_str() {
                Some(next) => start = next.to_owned(),
                None => break,
            }
            if limit == 1 && pages == 3 {
                break;
            }
        }
        if limit > 1 {
            assert_eq!(found, expected, "pages of {limit}");
            assert_eq!(pages, slots.div_ceil(limit), "pages of {limit}");
        }
    }
    // A page limited to 0 slots returns the first key as `nextKey`. A page that starts at a key contains that key.
    let page = node.call("debug_storageRangeAt", json!([next, 0, contract, "0x", 0])).await;
    let first = expected.keys().next().unwrap();
    assert_eq!(page, json!({ "storage": {}, "nextKey": first }));
    let page = node.call("debug_storageRangeAt", json!([next, 0, contract, first, 1])).await;
    assert_eq!(page["storage"].as_object().unwrap().keys().next(), Some(first));
    // Before the transaction that fills it, the contract has no slots.
    let before = node.call("debug_storageRangeAt", json!([block, 0, contract, "0x", 5])).await;
    assert_eq!(before, json!({ "storage": null, "nextKey": null }));
    node.stop().await;
}

/// Reads the accounts on all pages. The flags omit code, omit storage, and include accounts with unknown addresses.
async fn dump(node: &Node, block: &str, limit: u64, flags: [bool; 3]) -> BTreeMap<String, Value> {
    let (mut start, mut accounts) = ("0x".to_owned(), BTreeMap::new());
    let [no_code, no_storage, incompletes] = flags;
    loop {
        let params = json!([block, start, limit, no_code, no_storage, incompletes]);
        let page = node.call("debug_accountRange", params).await;
        let header = node.call("eth_getBlockByNumber", json!([block, false])).await;
        assert_eq!(format!("0x{}", page["root"].as_str().unwrap()), header["stateRoot"]);
        let found = page["accounts"].as_object().unwrap();
        assert!(found.len() as u64 <= limit);
        accounts.extend(found.clone());
        match page["next"].as_str() {
            Some(next) => start = Bytes::from(BASE64.decode(next).unwrap()).to_string(),
            None => return accounts,
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn account_pages_contain_the_whole_state() {
    let node = every_fork().await;
    for block in ["0x0", "0x1", "0x8", &head()] {
        let accounts = dump(&node, block, 256, [false; 3]).await;
        for limit in [1, 3, 1000] {
            assert_eq!(dump(&node, block, limit.min(256), [false; 3]).await, accounts, "{block}");
        }
        assert!(accounts.contains_key(&DEV_ACCOUNTS[0].address.to_checksum(None)));
        assert_eq!(accounts.contains_key(&contract().to_checksum(None)), block != "0x0");
        for (address, account) in &accounts {
            let proof = node.call("eth_getProof", json!([address, [], block])).await;
            let quantity = |value: &Value| value.as_str().unwrap().parse::<U256>().unwrap();
            assert_eq!(account["balance"], quantity(&proof["balance"]).to_string());
            assert_eq!(account["nonce"], quantity(&proof["nonce"]).to::<u64>());
            assert_eq!(account["root"], proof["storageHash"]);
            assert_eq!(account["codeHash"], proof["codeHash"]);
            let known: Address = address.parse().unwrap();
            assert_eq!(account["key"], json!(keccak256(known)));
            let code = node.call("eth_getCode", json!([address, block])).await;
            assert_eq!(account.get("code").unwrap_or(&json!("0x")), &code, "{address}");
            for (slot, value) in account["storage"].as_object().into_iter().flatten() {
                let stored = node.call("eth_getStorageAt", json!([address, slot, block])).await;
                let padded = format!("0x{:0>64}", value.as_str().unwrap());
                assert_eq!(stored, padded, "{address} {slot}");
            }
        }
        let bare = dump(&node, block, 256, [true, true, false]).await;
        assert!(bare.values().all(|account| account.get("code").is_none()));
        assert!(bare.values().all(|account| account.get("storage").is_none()));
        assert_eq!(bare.len(), accounts.len());
    }
    let (latest, contract) =
        (dump(&node, &head(), 256, [false; 3]).await, contract().to_checksum(None));
    assert_eq!(
        latest[&contract]["storage"],
        json!({ B256::ZERO.to_string(): "02" }),
        "41 modulo 3"
    );
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn modified_accounts_are_those_that_changed() {
    let node = every_fork().await;
    let all: Vec<String> =
        dump(&node, &head(), 256, [true, true, false]).await.into_keys().collect();
    let hash = async |number: u64| {
        let block = node.call("eth_getBlockByNumber", json!([format!("{number:#x}"), false])).await;
        block["hash"].clone()
    };
    for (start, end) in [(0, 1), (1, 2), (6, 8), (0, HEAD), (20, 33), (HEAD - 1, HEAD)] {
        let mut expected = Vec::new();
        for address in &all {
            let [before, after] =
                [start, end].map(|number| json!([address, format!("{number:#x}")]));
            let before = node.call("eth_getAccount", before).await;
            let after = node.call("eth_getAccount", after).await;
            if before != after && !after.is_null() {
                expected.push(address.parse::<Address>().unwrap());
            }
        }
        expected.sort_by_key(|address| keccak256(address.as_slice()));
        let by_number = "debug_getModifiedAccountsByNumber";
        let found = node.call(by_number, json!([start, end])).await;
        assert_eq!(found, json!(expected), "{start} to {end}");
        let quantities = json!([format!("{start:#x}"), format!("{end:#x}")]);
        assert_eq!(node.call(by_number, quantities).await, found);
        let hashes = json!([hash(start).await, hash(end).await]);
        assert_eq!(node.call("debug_getModifiedAccountsByHash", hashes).await, found);
        if start + 1 == end {
            assert_eq!(node.call(by_number, json!([end])).await, found);
            let hashes = json!([hash(end).await]);
            assert_eq!(node.call("debug_getModifiedAccountsByHash", hashes).await, found);
        }
    }
    let (unknown, first) = (B256::repeat_byte(9), hash(0).await);
    for (method, params, text) in [
        ("Number", json!([1_000_000]), "start block f4240 not found".to_owned()),
        ("Number", json!([1, 1_000_000]), "end block 1000000 not found".to_owned()),
        ("Number", json!([0]), "block 0 has no parent".to_owned()),
        (
            "Number",
            json!([3, 3]),
            "start block height (3) must be less than end block height (3)".to_owned(),
        ),
        ("Hash", json!([unknown]), format!("start block {unknown:x} not found")),
        ("Hash", json!([first, unknown]), format!("end block {unknown:x} not found")),
        ("Hash", json!([first]), "block 0 has no parent".to_owned()),
    ] {
        let method = format!("debug_getModifiedAccountsBy{method}");
        assert_eq!(node.fail(&method, params.clone()).await, (-32000, text), "{method} {params}");
    }
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn accounts_outside_the_transactions_of_a_block_are_not_modified() {
    let (node, contract) = native_contract(FILL).await;
    let filled = send(&node, 0, 1, TxKind::Call(contract), word(2).to_vec().into()).await;
    let raw = transfer(1, 0, Address::repeat_byte(0x77));
    let paid = node.call("eth_sendRawTransactionSync", json!([raw, 30_000])).await;
    let number = |receipt: &Value| receipt["blockNumber"].clone();
    let modified = node.call("debug_getModifiedAccountsByNumber", json!([number(&paid)])).await;
    let modified = modified.as_array().unwrap();
    assert!(modified.contains(&json!(DEV_ACCOUNTS[1].address)), "{modified:?}");
    assert!(modified.contains(&json!(Address::repeat_byte(0x77))), "{modified:?}");
    assert!(
        !modified.contains(&json!(contract)) && !modified.contains(&json!(DEV_ACCOUNTS[0].address))
    );
    let modified = node.call("debug_getModifiedAccountsByNumber", json!([number(&filled)])).await;
    assert!(modified.as_array().unwrap().contains(&json!(contract)), "{modified}");
    node.stop().await;
}
