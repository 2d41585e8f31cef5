//! Tests pages with contents that are made to harm the reader of a page, or the node.

use super::{
    get, shown,
    site::{Site, call, number_of},
};
use crate::{
    common::{frames::Frames, transfer},
    development::PROGRAM,
    start_safety::run,
};
use alloy_consensus::TxEip1559;
use alloy_primitives::{TxKind, hex};
use chain::DEV_ACCOUNTS;
use serde_json::{Value, json};
use std::{fs, path::Path};
use testkit::{Endpoints, NodeProcess};

/// Maximum length of any page in bytes.
const MAX_PAGE_BYTES: usize = 512 * 1024;
/// Calls the precompile at 4 until little gas is left: `PUSH0 x4, PUSH1 4, GAS, STATICCALL, POP` in a loop.
const MANY_CALLS: [u8; 21] = hex!("5b5f5f5f5f60045afa5061c3505a1161000057005b");

#[tokio::test]
async fn revert_reasons_are_shown_as_text() {
    let folder = tempfile::tempdir().unwrap();
    let (mut site, _) = Site::filled(folder.path()).await;
    let endpoints = site.endpoints();
    // The contract reverts with Error(text). The text is a script and a mark that reverses the direction of text.
    let reason = "<script>alert(1)</script>\u{202e}";
    let mut data = vec![0x08, 0xc3, 0x79, 0xa0];
    data.extend([0; 31]);
    data.push(0x20);
    data.extend([0; 31]);
    data.push(reason.len() as u8);
    data.extend(reason.as_bytes());
    data.resize(4 + 96, 0);
    let code = [&hex!("6064600c5f3960645ffd0000")[..], &data].concat();
    let contract = site.deploy(&code).await;
    let failed = site.send(call(TxKind::Call(contract), [])).await;
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
async fn pages_of_large_inputs_and_many_calls_are_short() {
    let folder = tempfile::tempdir().unwrap();
    let (mut site, _) = Site::filled(folder.path()).await;
    let endpoints = site.endpoints();
    let input = call(TxKind::Call(DEV_ACCOUNTS[1].address), vec![0xff; 100_000]);
    let large = site.send(TxEip1559 { gas_limit: 5_000_000, ..input }).await;
    assert!(shown(&endpoints, &format!("/tx/{large}")).await.len() < 64 * 1024);
    let contract = site.deploy(&MANY_CALLS).await;
    let many = TxEip1559 { gas_limit: 30_000_000, ..call(TxKind::Call(contract), []) };
    let many = site.send(many).await;
    let receipt = endpoints.call("eth_getTransactionReceipt", json!([many])).await;
    assert_eq!(receipt["status"], "0x1", "{receipt}");
    let execution = get(&endpoints, &format!("/tx/{many}/execution")).await;
    assert!(execution.body.len() < MAX_PAGE_BYTES, "{}", execution.body.len());
    // A slow machine may reach the time limit first.
    let is_limited =
        execution.body.contains("first 1,000 calls") || [422, 503].contains(&execution.status);
    assert!(is_limited, "{}: {}", execution.status, execution.body);
}

#[tokio::test]
async fn block_and_address_with_many_transactions_are_shown_in_pages() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("home");
    create_home_without_gas_limit(&home);
    let (to, txs) = (DEV_ACCOUNTS[1].address, 120);
    assert_eq!(add_large_block(&home, 0, txs).await, 1);
    let site = Site::of_home(&home, &["--no-produce"]).await;
    let endpoints = site.endpoints();
    for (page, rows) in [(1, 50), (2, 50), (3, 20), (4, 20), (0, 50)] {
        let body = shown(&endpoints, &format!("/block/1?page={page}")).await;
        assert_eq!(body.matches("href=\"/tx/").count(), rows, "page {page}");
    }
    // Each transaction is on exactly one of the pages of the address.
    let (mut seen, mut path) = (Vec::new(), Some(format!("/address/{to}")));
    while let Some(current) = path.take() {
        let (hashes, next) = page_of_address(&endpoints, &current).await;
        seen.extend(hashes);
        path = next;
    }
    assert_eq!(seen.len() as u64, txs);
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len() as u64, txs);
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

/// Number of transactions in each block of the test with large blocks.
const TXS: u64 = 20_000;
/// Number of large blocks in the default run and, with `EVMD_LONG_TESTS`, in the long one (ten million transactions).
const LARGE_BLOCKS: u64 = 2;
const LARGE_BLOCKS_LONG: u64 = 500;

/// Creates a home with a native chain without a gas limit, and with the key that signs its blocks.
fn create_home_without_gas_limit(home: &Path) {
    let template = home.with_file_name("template");
    assert_eq!(run(&template, &["init"]).0, 0);
    let genesis = fs::read_to_string(template.join("genesis.json")).unwrap();
    let mut genesis: Value = serde_json::from_str(&genesis).unwrap();
    genesis["config"]["evmd"]["maxGas"] = json!(-1);
    let file = home.with_file_name("genesis.json");
    fs::write(&file, genesis.to_string()).unwrap();
    let (code, _, error) = run(home, &["init", "--genesis", file.to_str().unwrap()]);
    assert_eq!(code, 0, "{error}");
    fs::copy(template.join("producer.key"), home.join("producer.key")).unwrap();
    let settings = "[mempool]\naccept-without-production = true\naccount-slots = 30000\n";
    fs::write(home.join("config.toml"), settings).unwrap();
}

/// Adds a block with `txs` transfers of one account to another, and returns its number.
async fn add_large_block(home: &Path, first_nonce: u64, txs: u64) -> u64 {
    // Without production, the node collects the transactions of one block.
    let mut node = NodeProcess::start(Path::new(PROGRAM), home, &["--no-produce"]);
    let head = number_of(&node.endpoints().call("eth_blockNumber", json!([])).await);
    let mut client = Frames::connect(node.endpoints().ingest);
    let mut responses = client.twin();
    let to = DEV_ACCOUNTS[1].address;
    let nonces = first_nonce..first_nonce + txs;
    let raw: Vec<_> = nonces.map(|nonce| transfer(0, nonce, to)).collect();
    let sending = std::thread::spawn(move || {
        client.send(raw.iter().map(AsRef::as_ref)).unwrap();
    });
    for _ in 0..txs {
        responses.response().unwrap().unwrap();
    }
    sending.join().unwrap();
    node.stop();
    let mut node = NodeProcess::start(Path::new(PROGRAM), home, &["--block-time", "50ms"]);
    let number = head + 1;
    let mined = json!([format!("{number:#x}"), false]);
    let block = node.endpoints().wait_for("eth_getBlockByNumber", mined).await;
    assert_eq!(block["transactions"].as_array().unwrap().len() as u64, txs);
    node.stop();
    number
}

#[tokio::test(flavor = "multi_thread")]
async fn address_with_many_transactions_in_large_blocks_has_short_pages() {
    let long = std::env::var_os("EVMD_LONG_TESTS").is_some();
    let blocks = if long { LARGE_BLOCKS_LONG } else { LARGE_BLOCKS };
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("home");
    create_home_without_gas_limit(&home);
    let mut numbers = Vec::new();
    for block in 0..blocks {
        numbers.push(add_large_block(&home, block * TXS, TXS).await);
    }
    let site = Site::of_home(&home, &["--no-produce"]).await;
    let endpoints = site.endpoints();
    let mut hashes = Vec::new();
    for number in &numbers {
        let params = json!([format!("{number:#x}"), false]);
        let block = endpoints.call("eth_getBlockByNumber", params).await;
        let txs = block["transactions"].as_array().unwrap();
        hashes.push(txs.iter().map(|hash| hash.as_str().unwrap().to_owned()).collect::<Vec<_>>());
        for (page, rows) in [(1, 50), (200, 50), (400, 50), (401, 50), (u64::MAX, 50)] {
            let body = shown(&endpoints, &format!("/block/{number}?page={page}")).await;
            assert_eq!(body.matches("href=\"/tx/").count(), rows, "page {page}");
            assert!(body.len() < MAX_PAGE_BYTES, "page {page}: {} bytes", body.len());
        }
    }
    let all: Vec<&String> = hashes.iter().flatten().rev().collect();
    // The newest transactions, those around the border of two blocks, those in the middle of the chain, and the oldest.
    let [first, middle] = [numbers[0], numbers[numbers.len() / 2]];
    let size = TXS as usize;
    let middle_at = (numbers.len() - 1 - numbers.len() / 2) * size;
    for (path, at) in [
        (String::new(), 0),
        (format!("?before={first}.{size}"), all.len() - size),
        (format!("?before={middle}.{}", size / 2), middle_at + size / 2),
        (format!("?before={middle}.10"), middle_at + size - 10),
        (format!("?before={first}.30"), all.len() - 30),
    ] {
        for account in [0, 1] {
            let path = format!("/address/{}{path}", DEV_ACCOUNTS[account].address);
            let (newest, next) = page_of_address(&endpoints, &path).await;
            assert_eq!(newest.iter().collect::<Vec<_>>(), all[at..at + 25], "{path}");
            let (older, _) = page_of_address(&endpoints, &next.unwrap()).await;
            let end = all.len().min(at + 50);
            assert_eq!(older.iter().collect::<Vec<_>>(), all[at + 25..end], "{path}");
        }
    }
    // The fee recipient's account changes in each block, and no transaction names it.
    let block = endpoints.call("eth_getBlockByNumber", json!([format!("{first:#x}"), false])).await;
    let miner = block["miner"].as_str().unwrap();
    let (none, _) = page_of_address(&endpoints, &format!("/address/{miner}")).await;
    assert!(none.is_empty(), "{none:?}");
    assert!(shown(&endpoints, &format!("/tx/{}", all[0])).await.len() < MAX_PAGE_BYTES);
}
