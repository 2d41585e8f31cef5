//! Contents that were made to harm the reader of a page, or the node.

use super::{filled, get, send, shown};
use crate::{
    common::{GENESIS_TIME, frames::Frames, transfer},
    development::PROGRAM,
};
use chain::{DEV_ACCOUNTS, Genesis};
use home::Home;
use serde_json::{Value, json};
use std::{fs, path::Path};
use testkit::{Endpoints, NodeProcess};

/// Maximum length of any page in bytes.
const MAX_PAGE_BYTES: usize = 512 * 1024;
/// Calls the precompile at 4 until little gas is left: `PUSH0 x5, PUSH1 4, GAS, STATICCALL, POP` in a loop.
const MANY_CALLS: &str = "0x5b5f5f5f5f60045afa5061c3505a1161000057005b";

#[tokio::test]
async fn reasons_of_contracts_are_text() {
    let folder = tempfile::tempdir().unwrap();
    let (node, _) = filled(&folder.path().join("home")).await;
    let endpoints = node.endpoints();
    let contract = DEV_ACCOUNTS[5].address;
    // Reverts with Error("<script>alert(1)</script>" and a mark that reverses the direction of text).
    let reason = "<script>alert(1)</script>\u{202e}";
    let mut data = vec![0x08, 0xc3, 0x79, 0xa0];
    data.extend([0; 31]);
    data.push(0x20);
    data.extend([0; 31]);
    data.push(reason.len() as u8);
    data.extend(reason.as_bytes());
    data.resize(4 + 96, 0);
    let code = format!("0x6064600c5f3960645ffd{}{}", "0000", alloy_primitives::hex::encode(&data));
    endpoints.call("anvil_setCode", json!([contract, code])).await;
    let tx = json!({ "from": DEV_ACCOUNTS[0].address, "to": contract, "gas": "0x186a0" });
    let failed = send(&node, tx).await;
    let page = shown(&endpoints, &format!("/tx/{failed}")).await;
    assert!(page.contains("Failed"), "{page}");
    for list in ["/block/latest".to_owned(), format!("/address/{contract}")] {
        let page = shown(&endpoints, &list).await;
        assert!(page.contains("<span class=\"bad\">failed</span>"), "{list}: {page}");
    }
    assert!(!shown(&endpoints, "/block/3").await.contains("failed"));
    let execution = shown(&endpoints, &format!("/tx/{failed}/execution")).await;
    assert!(execution.contains("&lt;script&gt;alert(1)&lt;/script&gt;\\u{202e}"), "{execution}");
    assert!(!execution.contains("<script>alert") && !execution.contains('\u{202e}'));
}

#[tokio::test]
async fn large_inputs_and_many_calls_make_short_pages() {
    let folder = tempfile::tempdir().unwrap();
    let (node, _) = filled(&folder.path().join("home")).await;
    let endpoints = node.endpoints();
    let from = DEV_ACCOUNTS[0].address;
    let input = format!("0x{}", "ff".repeat(100_000));
    let large = json!({ "from": from, "to": DEV_ACCOUNTS[1].address, "data": input });
    let large = send(&node, large).await;
    assert!(shown(&endpoints, &format!("/tx/{large}")).await.len() < 64 * 1024);
    let contract = DEV_ACCOUNTS[6].address;
    endpoints.call("anvil_setCode", json!([contract, MANY_CALLS])).await;
    let many = send(&node, json!({ "from": from, "to": contract, "gas": "0x1c9c380" })).await;
    let receipt = endpoints.call("eth_getTransactionReceipt", json!([many])).await;
    assert_eq!(receipt["status"], "0x1", "{receipt}");
    let execution = get(&endpoints, &format!("/tx/{many}/execution")).await;
    assert!(execution.body.len() < MAX_PAGE_BYTES, "{}", execution.body.len());
    // A slow machine may reach the limit of time first.
    let is_limited =
        execution.body.contains("first 1,000 calls") || [422, 503].contains(&execution.status);
    assert!(is_limited, "{}: {}", execution.status, execution.body);
}

#[tokio::test]
async fn block_and_address_with_many_transactions_are_shown_in_pages() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("home");
    let node = NodeProcess::start(Path::new(PROGRAM), &home, &[]);
    let endpoints = node.endpoints();
    endpoints.call("evm_setAutomine", json!([false])).await;
    let (from, to) = (DEV_ACCOUNTS[0].address, DEV_ACCOUNTS[1].address);
    let txs = 120;
    for nonce in 0..txs {
        let tx = json!({ "from": from, "to": to, "gas": "0x5208", "nonce": format!("{nonce:#x}") });
        send(&node, tx).await;
    }
    endpoints.call("evm_mine", json!([])).await;
    for (page, rows) in [(1, 50), (2, 50), (3, 20), (4, 20), (0, 50)] {
        let body = shown(&endpoints, &format!("/block/1?page={page}")).await;
        assert_eq!(body.matches("href=\"/tx/").count(), rows, "page {page}");
    }
    // The pages of the address have each transaction once.
    let (mut seen, mut path) = (Vec::new(), Some(format!("/address/{to}")));
    while let Some(now) = path.take() {
        let (hashes, next) = page_of_address(&endpoints, &now).await;
        seen.extend(hashes);
        path = next;
    }
    assert_eq!(seen.len(), txs);
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), txs);
}

/// The hashes of the transactions on a page of an address, and the path of the next page.
async fn page_of_address(endpoints: &Endpoints, path: &str) -> (Vec<String>, Option<String>) {
    let body = shown(endpoints, path).await;
    assert!(body.len() < MAX_PAGE_BYTES, "{path}: {} bytes", body.len());
    let hashes = body.split("href=\"/tx/").skip(1).map(|rest| rest[..66].to_owned());
    let links = body.split("href=\"").map(|rest| rest.split('"').next().unwrap());
    let next = links.filter(|link| link.contains("?before=")).last();
    (hashes.collect(), next.map(str::to_owned))
}

/// A native chain whose first block has `count` transfers of one account to another.
async fn with_large_block(home: &Path, count: u64) -> NodeProcess {
    let mut file: Value =
        serde_json::from_str(&Genesis::native_dev(GENESIS_TIME).to_json()).unwrap();
    file["config"]["evmd"]["maxGas"] = json!(-1);
    drop(Home::init(home, &Genesis::from_json(&file.to_string()).unwrap()).unwrap());
    let settings = "[mempool]\naccept-without-production = true\naccount-slots = 30000\n";
    fs::write(home.join("config.toml"), settings).unwrap();
    // The transactions are collected before the first block.
    let mut node = NodeProcess::start(Path::new(PROGRAM), home, &["--no-produce"]);
    let mut client = Frames::connect(node.endpoints().ingest);
    let mut answers = client.twin();
    let to = DEV_ACCOUNTS[1].address;
    let raw: Vec<_> = (0..count).map(|nonce| transfer(0, nonce, to)).collect();
    let sending = std::thread::spawn(move || {
        client.send(raw.iter().map(AsRef::as_ref)).unwrap();
    });
    for _ in 0..count {
        answers.answer().unwrap().unwrap();
    }
    sending.join().unwrap();
    node.stop();
    NodeProcess::start(Path::new(PROGRAM), home, &["--block-time", "50ms"])
}

#[tokio::test(flavor = "multi_thread")]
async fn block_with_20_000_transactions_has_short_pages() {
    let count = 20_000;
    let folder = tempfile::tempdir().unwrap();
    let node = with_large_block(&folder.path().join("home"), count).await;
    let endpoints = node.endpoints();
    let first = endpoints.wait_for("eth_getBlockByNumber", json!(["0x1", false])).await;
    let txs = first["transactions"].as_array().unwrap();
    assert_eq!(txs.len() as u64, count);
    for (page, rows) in [(1, 50), (200, 50), (400, 50), (401, 50), (u64::MAX, 50)] {
        let body = shown(&endpoints, &format!("/block/1?page={page}")).await;
        assert_eq!(body.matches("href=\"/tx/").count(), rows, "page {page}");
        assert!(body.len() < MAX_PAGE_BYTES, "page {page}: {} bytes", body.len());
    }
    for account in [0, 1] {
        let address = DEV_ACCOUNTS[account].address;
        let (newest, next) = page_of_address(&endpoints, &format!("/address/{address}")).await;
        let hashes: Vec<_> = txs.iter().rev().take(50).map(|hash| hash.as_str().unwrap()).collect();
        assert_eq!(newest, &hashes[..25]);
        let (older, _) = page_of_address(&endpoints, &next.unwrap()).await;
        assert_eq!(older, &hashes[25..]);
    }
    // The fee recipient's account changes in each block, and no transaction names it.
    let miner = first["miner"].as_str().unwrap();
    let (none, _) = page_of_address(&endpoints, &format!("/address/{miner}")).await;
    assert!(none.is_empty(), "{none:?}");
    let last = txs.last().unwrap().as_str().unwrap();
    assert!(shown(&endpoints, &format!("/tx/{last}")).await.len() < MAX_PAGE_BYTES);
}
