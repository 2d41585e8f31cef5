//! Contents that were made to harm the reader of a page, or the node.

use super::{filled, get, send, shown};
use crate::development::PROGRAM;
use chain::DEV_ACCOUNTS;
use serde_json::json;
use std::path::Path;
use testkit::NodeProcess;

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
    let mut seen = Vec::new();
    let mut path = format!("/address/{to}");
    loop {
        let body = shown(&endpoints, &path).await;
        let hashes = body.split("href=\"/tx/").skip(1).map(|rest| rest[..66].to_owned());
        seen.extend(hashes);
        let Some(rest) = body.split(&format!("href=\"/address/{to}?before=")).nth(1) else { break };
        path = format!("/address/{to}?before={}", rest.split('"').next().unwrap());
    }
    assert_eq!(seen.len(), txs);
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), txs);
}
