//! Tests the web pages of a node in the test's process: contents, hostile data, limits, and a browser. With
//! `EVMD_TEST_REPLICA=1`, the pages are those of a replica, except in tests of development methods and of the mempool.

mod browser;
mod hostile;
mod site;

use crate::{client::is_replica, development::PROGRAM, start_safety::run};
use chain::DEV_ACCOUNTS;
use serde_json::{Value, json};
use site::Site;
use std::{net::TcpListener, path::Path};
use testkit::{Endpoints, NodeProcess, exchange_with_head};

/// A response of the pages server.
struct Page {
    status: u16,
    head: String,
    body: String,
}

/// Requests a path from the pages server.
async fn get(endpoints: &Endpoints, path: &str) -> Page {
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    let (status, head, body) = exchange_with_head(endpoints.pages, request.as_bytes()).await;
    Page { status, head, body }
}

async fn send(node: &NodeProcess, tx: Value) -> String {
    let hash = node.endpoints().call("eth_sendTransaction", json!([tx])).await;
    hash.as_str().unwrap().to_owned()
}

/// Returns the HTML of a page that must exist.
async fn shown(endpoints: &Endpoints, path: &str) -> String {
    let Page { status, body, .. } = get(endpoints, path).await;
    assert_eq!(status, 200, "{path}: {body}");
    body
}

#[tokio::test]
async fn pages_show_blocks_transactions_and_addresses() {
    let folder = tempfile::tempdir().unwrap();
    let (site, [created, called, sent]) = Site::filled(folder.path()).await;
    let endpoints = site.endpoints();
    let dashboard = get(&endpoints, "/").await;
    assert!(dashboard.head.to_lowercase().contains("content-security-policy: default-src 'none'"));
    let kind = if is_replica() { "replica" } else { "development chain" };
    for text in ["Chain 262144", kind, "Stages of the pipeline", "execute"] {
        assert!(dashboard.body.contains(text), "{text}");
    }
    assert!(shown(&endpoints, "/live").await.starts_with("<dl class=\"figures\">"));
    assert!(shown(&endpoints, "/blocks").await.contains("href=\"/block/3\""));
    let block = shown(&endpoints, "/block/3").await;
    assert!(block.contains(&sent) && block.contains("rel=\"prev\""));
    assert!(!block.contains("rel=\"next\""));
    let page = shown(&endpoints, &format!("/tx/{created}")).await;
    assert!(page.contains("Transfer(address,address,uint256)") && page.contains("<dd>7</dd>"));
    let page = shown(&endpoints, &format!("/tx/{called}")).await;
    assert!(page.contains("transfer(address,uint256)") && page.contains("Success"));
    let execution = shown(&endpoints, &format!("/tx/{sent}/execution")).await;
    for text in ["Refund", "Calls", "State changes", "+1)", "Balance", "gas 21,000"] {
        assert!(execution.contains(text), "{text}: {execution}");
    }
    let account = DEV_ACCOUNTS[0].address;
    let by_hex = shown(&endpoints, &format!("/address/{account}")).await;
    let by_bech32 = keys::bech32("cosmos", account);
    assert_eq!(shown(&endpoints, &format!("/address/{by_bech32}")).await, by_hex);
    for hash in [&created, &called, &sent] {
        assert!(by_hex.contains(hash.as_str()), "{hash}");
    }
    let receipt = endpoints.call("eth_getTransactionReceipt", json!([created])).await;
    let contract = receipt["contractAddress"].as_str().unwrap();
    let logs = shown(&endpoints, &format!("/address/{contract}?logs=1")).await;
    assert!(logs.contains(&created) && logs.contains("Transfer(address,address,uint256)"));
}

#[tokio::test]
async fn waiting_transactions_have_pages() {
    let folder = tempfile::tempdir().unwrap();
    let node = NodeProcess::start(Path::new(PROGRAM), &folder.path().join("home"), &[]);
    let endpoints = node.endpoints();
    endpoints.call("evm_mine", json!([])).await;
    endpoints.call("evm_setAutomine", json!([false])).await;
    let (from, to) = (DEV_ACCOUNTS[0].address, DEV_ACCOUNTS[1].address);
    let high = "0x2540be400";
    let next = send(&node, json!({ "from": from, "to": to, "maxFeePerGas": high })).await;
    let later = send(&node, json!({ "from": from, "to": to, "nonce": "0x9" })).await;
    let low = json!({ "from": to, "to": from, "maxFeePerGas": "0x3b9aca00", "maxPriorityFeePerGas": "0x0" });
    let low = send(&node, low).await;
    endpoints.call("anvil_setNextBlockBaseFeePerGas", json!(["0x77359400"])).await;
    for (hash, status) in [
        (&next, "It can be in the next block."),
        (&later, "It waits for a transaction of the same sender with a lower nonce."),
        (&low, "It waits until the base fee is at most its maximum price."),
    ] {
        let page = shown(&endpoints, &format!("/tx/{hash}")).await;
        assert!(page.contains(status), "{status}: {page}");
    }
    let dashboard = shown(&endpoints, "/").await;
    assert!(dashboard.contains("below the base fee"), "{dashboard}");
    endpoints.call("evm_mine", json!([])).await;
    assert!(shown(&endpoints, &format!("/tx/{next}")).await.contains("Success"));
}

#[tokio::test]
async fn fees_and_searches_are_answered() {
    let folder = tempfile::tempdir().unwrap();
    let (site, [created, ..]) = Site::filled(folder.path()).await;
    let endpoints = site.endpoints();
    let fees = shown(&endpoints, "/fees?cap=1.5&blocks=1000").await;
    for text in
        ["base_fee_change_denominator", "value=\"1.5\"", "Last 5,000 blocks", "of 4 moments"]
    {
        assert!(fees.to_lowercase().contains(&text.to_lowercase()), "{text}: {fees}");
    }
    let account = DEV_ACCOUNTS[0].address;
    // If one letter has the other case, the checksum is wrong.
    let wrong = account.to_string().replacen('F', "f", 1);
    assert_ne!(wrong, account.to_string());
    for (text, path) in [
        ("2".to_owned(), "/block/2".to_owned()),
        ("0x2".to_owned(), "/block/2".to_owned()),
        ("proposal+4".to_owned(), "/governance/4".to_owned()),
        (created.clone(), format!("/tx/{created}")),
        (account.to_string(), format!("/address/{account}")),
        (keys::bech32("cosmos", account), format!("/address/{account}")),
        (wrong.clone(), format!("/address/{wrong}")),
    ] {
        let found = get(&endpoints, &format!("/search?q={text}")).await;
        assert_eq!(found.status, 303, "{text}");
        assert!(found.head.contains(&format!("location: {path}\r\n")), "{text}: {}", found.head);
    }
    let warning = "do not match its checksum";
    assert!(shown(&endpoints, &format!("/address/{wrong}")).await.contains(warning));
    assert!(!shown(&endpoints, &format!("/address/{account}")).await.contains(warning));
    for (path, status) in [
        ("/block/%ff", 400),
        ("/search?q=", 400),
        ("/search?q=%3Cscript%3E", 400),
        (&*format!("/search?q=0x{}", "1".repeat(64)), 404),
        ("/block/4", 404),
        ("/block/18446744073709551616", 400),
        ("/tx/0x12", 400),
        (&*format!("/tx/0x{}", "1".repeat(64)), 404),
        ("/address/0x12", 400),
        ("/address/0x0000000000000000000000000000000000000001?before=x", 400),
        ("/governance/1", 404),
        ("/governance/x", 400),
        ("/fees?cap=-1", 400),
        ("/fees?blocks=x", 400),
        ("/nothing", 404),
    ] {
        let found = get(&endpoints, path).await;
        assert_eq!(found.status, status, "{path}: {}", found.body);
        assert!(!found.body.contains("<script>"), "{path}: {}", found.body);
        assert!(found.head.contains("content-security-policy: default-src 'none'"), "{path}");
    }
}

#[tokio::test]
async fn browsers_find_the_pages_at_every_http_address() {
    let folder = tempfile::tempdir().unwrap();
    let site = Site::empty(folder.path()).await;
    let endpoints = site.endpoints();
    let link = format!("http://{}/", endpoints.pages);
    for address in [endpoints.json_rpc, endpoints.rest, endpoints.comet, endpoints.metrics] {
        let ask = |accept: &str| {
            format!(
                "GET / HTTP/1.1\r\nHost: localhost\r\nAccept: {accept}\r\nConnection: close\r\n\r\n"
            )
        };
        let (_, body) = testkit::exchange(address, ask("text/html,*/*").as_bytes()).await;
        assert!(body.contains(&link), "{address}: {body}");
        let (_, body) = testkit::exchange(address, ask("*/*").as_bytes()).await;
        assert!(!body.contains(&link), "{address}: {body}");
    }
}

#[tokio::test]
async fn address_that_was_set_and_is_in_use_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let others = Endpoints::unused().options();
    let mut options: Vec<&str> = vec!["start", "--quiet"];
    let pages = others.iter().position(|option| option == "--pages.address").unwrap();
    options.extend(others[..pages].iter().map(String::as_str));
    options.extend(["--pages.address", &address]);
    let (code, _, err) = run(&folder.path().join("home"), &options);
    assert_eq!(code, 1, "{err}");
    assert!(err.contains("web pages") && err.contains("--pages.address"), "{err}");
}
