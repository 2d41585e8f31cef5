//! Tests replicas: what they serve, which sources they refuse, and what they do after a kill.

mod faults;
mod lag;
mod promotion;
mod sources;
mod tls;

use crate::{
    common::{frames::Frames, sign, signed, transfer, unsigned},
    development::PROGRAM,
    start_safety::run,
};
use alloy_consensus::TxEip1559;
use alloy_primitives::{B256, Bytes, TxKind, U256, keccak256};
use base64::{Engine, engine::general_purpose::STANDARD};
use chain::DEV_ACCOUNTS;
use serde_json::{Value, json};
use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
};
use testkit::{Endpoints, MAX_WAIT, NodeProcess, exchange, own_address};

/// Init code that stores 7 in slot 5 and emits a log with topic 9. The code of the contract returns 42.
const CONTRACT: &str =
    "0x6007600555600960005260096000a0600960006000a1600a6022600039600a6000f3602a60005260206000f3";
/// Block time of producers.
const BLOCK_TIME: &str = "150ms";

/// Creates the home folder of a producer, with a new chain.
fn producer_home(folder: &Path) -> PathBuf {
    let home = folder.join("producer");
    let (code, _, error) = run(&home, &["init"]);
    assert_eq!(code, 0, "{error}");
    home
}

/// Creates a home folder with the producer's genesis.
fn replica_home(producer: &Path, name: &str) -> PathBuf {
    let home = producer.with_file_name(name);
    let genesis = producer.join("genesis.json");
    let (code, _, error) = run(&home, &["init", "--genesis", genesis.to_str().unwrap()]);
    assert_eq!(code, 0, "{error}");
    home
}

fn produce(home: &Path) -> NodeProcess {
    let address = own_address().to_string();
    let options = ["--replication.address", &address, "--block-time", BLOCK_TIME];
    NodeProcess::start(Path::new(PROGRAM), home, &options)
}

fn url(source: &NodeProcess) -> String {
    format!("http://{}", source.endpoints().replication.unwrap())
}

/// Starts a node that follows the given sources.
fn follow(home: &Path, sources: &str, options: &[&str]) -> NodeProcess {
    let address = own_address().to_string();
    let mut all = vec!["--follow", sources, "--replication.address", &address];
    all.extend(options);
    NodeProcess::start(Path::new(PROGRAM), home, &all)
}

async fn head(endpoints: &Endpoints) -> u64 {
    let head = endpoints.call("eth_blockNumber", json!([])).await;
    u64::from_str_radix(&head.as_str().unwrap()[2..], 16).unwrap()
}

/// Waits until a node has the block with this number.
async fn reach(node: &NodeProcess, number: u64) {
    node.endpoints().wait_for("eth_getBlockByNumber", json!([format!("{number:#x}"), false])).await;
}

async fn http(address: SocketAddr, path: &str) -> Value {
    http_at(address, path, 0).await
}

/// Like [`http`], with the height for a Cosmos query; 0 means the newest block.
async fn http_at(address: SocketAddr, path: &str, height: u64) -> Value {
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nx-cosmos-block-height: {height}\r\n\r\n"
    );
    let (status, body) = exchange(address, request.as_bytes()).await;
    assert_eq!(status, 200, "{path}: {body}");
    serde_json::from_str(&body).unwrap()
}

/// Returns the links and the amounts of gas on a web page. Other text is omitted because it contains the age of blocks.
async fn page(endpoints: Endpoints, path: &str) -> Vec<String> {
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    let (status, body) = exchange(endpoints.pages, request.as_bytes()).await;
    assert_eq!(status, 200, "{path}: {body}");
    let parts = body.split('<').filter(|part| part.contains("href=\"/") || part.contains("gas"));
    parts.map(str::to_owned).collect()
}

async fn status(node: &NodeProcess) -> Value {
    http(node.endpoints().metrics, "/status").await["replica"].take()
}

/// Sends transfers, a contract creation, a Cosmos payment and a proposal. Returns the number of the head when all of
/// them are mined. `round` is the number of earlier calls of this function.
async fn use_chain(node: &NodeProcess, round: u64) -> u64 {
    let endpoints = node.endpoints();
    let mut client = Frames::connect(endpoints.ingest);
    let first = round * 40;
    let transfers = (first..first + 40).map(|nonce| transfer(1, nonce, DEV_ACCOUNTS[2].address));
    let creates = unsigned(round, TxKind::Create, CONTRACT.parse::<Bytes>().unwrap());
    let all: Vec<Bytes> = transfers.chain([sign(3, creates)]).collect();
    client.send(all.iter().map(AsRef::as_ref)).unwrap();
    for _ in &all {
        client.response().unwrap().unwrap();
    }
    let proposal = signed::any(&signed::slower_market("2000000000000000000000000000"));
    let payment = signed::send(0, &signed::address_of(4), 5);
    for (index, message) in [payment, proposal].into_iter().enumerate() {
        let tx = signed::signed(0, 2 * round + index as u64, vec![message]);
        let response = broadcast(node, tx).await;
        assert!(response.contains("\"code\":0"), "{response}");
    }
    let sent = U256::from(2 * round + 2);
    loop {
        let nonce = |account: usize| {
            let params = json!([DEV_ACCOUNTS[account].address, "latest"]);
            async move { endpoints.call("eth_getTransactionCount", params).await }
        };
        let nonces = [nonce(0).await, nonce(1).await, nonce(3).await];
        let mined = [sent, U256::from(first + 40), U256::from(round + 1)];
        if nonces == mined.map(|nonce| json!(format!("{nonce:#x}"))) {
            return head(&endpoints).await;
        }
        tokio::task::yield_now().await;
    }
}

/// Submits a Cosmos transaction over REST.
async fn broadcast(node: &NodeProcess, tx: Vec<u8>) -> String {
    let body = json!({ "tx_bytes": STANDARD.encode(tx), "mode": "BROADCAST_MODE_SYNC" });
    let body = body.to_string();
    let request = format!(
        "POST /cosmos/tx/v1beta1/txs HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: \
         application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let (status, response) = exchange(node.endpoints().rest, request.as_bytes()).await;
    assert_eq!(status, 200, "{response}");
    response
}

/// Returns the responses of a node about the blocks up to `last`, each with a description of the request.
async fn responses(node: &NodeProcess, last: u64) -> Vec<(String, Value)> {
    let endpoints = node.endpoints();
    let mut found = Vec::new();
    let tag = |number: u64| format!("{number:#x}");
    for number in 0..=last {
        for (method, params) in [
            ("eth_getBlockByNumber", json!([tag(number), true])),
            ("eth_getBlockReceipts", json!([tag(number)])),
            ("eth_feeHistory", json!(["0x1", tag(number), [50.0]])),
            ("evmd_feemarketParams", json!([tag(number)])),
        ] {
            let response = endpoints.response(method, params).await["result"].take();
            found.push((format!("{method} {number}"), response));
        }
        if number > 0 {
            let path = format!("/block_results?height={number}");
            found.push((path.clone(), http(endpoints.comet, &path).await["result"].take()));
        }
    }
    for account in DEV_ACCOUNTS {
        for (method, params) in [
            ("eth_getBalance", json!([account.address, tag(last)])),
            ("eth_getProof", json!([account.address, ["0x5"], tag(last)])),
        ] {
            found.push((
                format!("{method} {}", account.address),
                endpoints.call(method, params).await,
            ));
        }
    }
    // The pages of blocks that have a next block, and the page of a transaction's execution.
    for number in 1..last {
        let path = format!("/block/{number}");
        found.push((format!("page {path}"), json!(page(endpoints, &path).await)));
    }
    let sent = transfer(1, 0, DEV_ACCOUNTS[2].address);
    let path = format!("/tx/{}/execution", keccak256(&sent));
    found.push((format!("page {path}"), json!(page(endpoints, &path).await)));
    let contract = DEV_ACCOUNTS[3].address.create(0);
    for (method, params) in [
        ("eth_getCode", json!([contract, tag(last)])),
        ("eth_getStorageAt", json!([contract, "0x5", tag(last)])),
        ("eth_call", json!([{ "to": contract }, tag(last)])),
        ("eth_getLogs", json!([{ "fromBlock": "0x0", "toBlock": tag(last), "address": contract }])),
    ] {
        found.push((method.to_owned(), endpoints.call(method, params).await));
    }
    let proposals = "/cosmos/gov/v1/proposals";
    found.push((proposals.to_owned(), http_at(endpoints.rest, proposals, last).await));
    found
}

/// Checks that a node returns the expected responses.
async fn compare(expected: &[(String, Value)], node: &NodeProcess, last: u64) {
    for ((what, expected), (_, found)) in expected.iter().zip(responses(node, last).await) {
        assert_eq!(*expected, found, "{what}");
    }
}

/// Checks the data of a stopped node.
fn assert_sound(home: &Path) {
    let (_, out, error) = run(home, &["doctor", "-o", "json"]);
    let checks: Value = serde_json::from_str(&out).unwrap_or_else(|_| panic!("{out}{error}"));
    let failed = checks["checks"].as_array().unwrap().iter();
    let failed: Vec<_> = failed.filter(|check| check["result"] == "failed").collect();
    assert!(failed.is_empty(), "{failed:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn replicas_serve_the_data_of_their_source() {
    let folder = tempfile::tempdir().unwrap();
    let home = producer_home(folder.path());
    let producer = produce(&home);
    use_chain(&producer, 0).await;
    let homes = ["all", "sample", "execute"].map(|name| replica_home(&home, name));
    let mut replicas: Vec<_> = homes
        .iter()
        .zip(["all", "sample:3", "execute"])
        .map(|(home, verify)| follow(home, &url(&producer), &["--verify", verify]))
        .collect();
    // This replica follows another replica.
    let second_home = replica_home(&home, "second");
    replicas.push(follow(&second_home, &url(&replicas[0]), &[]));
    // More transactions are sent while the replicas follow.
    let last = use_chain(&producer, 1).await;
    for replica in &replicas {
        reach(replica, last).await;
    }
    let expected = responses(&producer, last).await;
    let has = |what: &str, text: &str| {
        let found = expected.iter().filter(|(name, _)| name.starts_with(what));
        assert!(
            found.into_iter().any(|(_, value)| value.to_string().contains(text)),
            "{what} {text}"
        );
    };
    has("eth_getCode", "602a60005260206000f3");
    has("eth_getStorageAt", "0000007");
    has("eth_call", "000002a");
    has("eth_getLogs", "0x0000000000000000000000000000000000000000000000000000000000000009");
    has("/cosmos/gov", "A slower fee market");
    has("/block_results", "submit_proposal");
    has("page /block/", "0x");
    has("page /tx/", "gas 21,000");
    for replica in &replicas {
        compare(&expected, replica, last).await;
        let status = status(replica).await;
        assert_eq!(status["refused"], json!([]), "{status}");
    }
    for (mut replica, home) in
        replicas.into_iter().zip([&homes[0], &homes[1], &homes[2], &second_home])
    {
        replica.stop();
        assert_sound(home);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_nodes_continue_at_their_heads() {
    let folder = tempfile::tempdir().unwrap();
    let home = producer_home(folder.path());
    let mut producer = produce(&home);
    let address = producer.endpoints().replication.unwrap().to_string();
    let replica_home = replica_home(&home, "replica");
    let mut replica = follow(&replica_home, &url(&producer), &[]);
    let mut last = 0;
    for round in 0..4 {
        if round % 2 == 0 {
            replica.kill();
            last = use_chain(&producer, round).await;
            replica = follow(&replica_home, &format!("http://{address}"), &[]);
        } else {
            last = use_chain(&producer, round).await;
            producer.kill();
            // Every block that the replica has is durable on the producer.
            let before = head(&replica.endpoints()).await;
            let options = ["--replication.address", &address, "--block-time", BLOCK_TIME];
            producer = NodeProcess::start(Path::new(PROGRAM), &home, &options);
            assert!(head(&producer.endpoints()).await >= before);
        }
    }
    reach(&replica, last).await;
    compare(&responses(&producer, last).await, &replica, last).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_follow_settings_are_refused_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let source = "http://127.0.0.1:9";
    let reject = |home: &Path, reason: &str| {
        let (code, _, error) = run(home, &["start", "--follow", source, "--port-offset", "1000"]);
        assert_eq!(code, 1, "{error}");
        assert!(error.contains(reason), "{error}");
    };
    let none = folder.path().join("none");
    reject(&none, "run `evmd init --genesis FILE` first");
    assert!(!none.join("chain").exists());
    let development = folder.path().join("development");
    assert_eq!(run(&development, &["init", "--dev"]).0, 0);
    reject(&development, "blocks of a development chain are not signed");
    let home = producer_home(folder.path());
    for (url, reason) in [("127.0.0.1:9", "must begin with http://"), ("http://", "invalid")] {
        let (code, _, error) = run(&home, &["start", "--follow", url, "--port-offset", "1000"]);
        assert_eq!(code, 1, "{error}");
        assert!(error.contains(reason), "{error}");
    }
    let keeps = ["start", "--follow", source, "--mempool.accept-without-production"];
    let (code, _, error) = run(&home, &keeps);
    assert_eq!(code, 1, "{error}");
    assert!(error.contains("forwards transactions to the producer"), "{error}");
    let (code, _, error) = run(&home, &["start", "--follow", source, "--verify", "some"]);
    assert_eq!(code, 2, "{error}");
    assert!(error.contains("must be all, execute, or sample:N"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn transactions_reach_the_producer_through_replicas() {
    let folder = tempfile::tempdir().unwrap();
    let home = producer_home(folder.path());
    let mut producer = produce(&home);
    let homes = ["first", "second"].map(|name| replica_home(&home, name));
    let first = follow(&homes[0], &url(&producer), &[]);
    let second = follow(&homes[1], &url(&first), &[]);
    reach(&second, 2).await;
    let to = DEV_ACCOUNTS[2].address;
    let endpoints = second.endpoints();
    let sent = endpoints.call("eth_sendRawTransaction", json!([transfer(1, 0, to)])).await;
    let receipt = endpoints.wait_for("eth_getTransactionReceipt", json!([sent])).await;
    assert_eq!(receipt["status"], "0x1");
    // This call also returns a receipt from the replica.
    let sync = json!([transfer(1, 1, to)]);
    let receipt = endpoints.call("eth_sendRawTransactionSync", sync).await;
    assert_eq!(receipt["status"], "0x1", "{receipt}");
    let batch: Vec<_> = (2..12)
        .map(|nonce| {
            let params = json!([transfer(1, nonce, to)]);
            json!({ "jsonrpc": "2.0", "id": nonce, "method": "eth_sendRawTransaction", "params": params })
        })
        .collect();
    let responses = endpoints.post(&json!(batch).to_string()).await;
    let hashes = responses.as_array().unwrap().iter().map(|response| response["result"].clone());
    for hash in hashes {
        endpoints.wait_for("eth_getTransactionReceipt", json!([hash])).await;
    }
    // The filled nonce comes after the pooled transactions, even if the replica does not have their block yet.
    for nonce in 12..20 {
        endpoints.call("eth_sendRawTransaction", json!([transfer(1, nonce, to)])).await;
        let request = json!([{ "from": DEV_ACCOUNTS[1].address, "to": to }]);
        let filled = endpoints.call("eth_fillTransaction", request).await;
        assert_eq!(filled["tx"]["nonce"], format!("{:#x}", nonce + 1), "{filled}");
    }
    // The Cosmos interfaces also forward transactions.
    let payment = signed::signed(0, 0, vec![signed::send(0, &signed::address_of(4), 5)]);
    let response = broadcast(&second, payment.clone()).await;
    assert!(response.contains("\"code\":0"), "{response}");
    // A replica returns the same errors as the producer.
    reach(&first, head(&producer.endpoints()).await + 1).await;
    for raw in [
        transfer(1, 0, to),
        sign(5, TxEip1559 { chain_id: 1, ..unsigned(0, TxKind::Call(to), Vec::new()) }),
        Bytes::from_static(&[2]),
    ] {
        let params = json!([raw]);
        let expected =
            producer.endpoints().response("eth_sendRawTransaction", params.clone()).await;
        assert_eq!(
            endpoints.response("eth_sendRawTransaction", params).await["error"],
            expected["error"]
        );
    }
    let [here, there] =
        [broadcast(&second, payment.clone()).await, broadcast(&producer, payment).await];
    assert_eq!(here, there);
    producer.kill();
    let params = json!([transfer(1, 20, to)]);
    loop {
        let (code, text) = endpoints.fail("eth_sendRawTransaction", params.clone()).await;
        assert_eq!(code, -32000, "{text}");
        if text.contains("no source of this replica is connected") {
            break;
        }
        tokio::task::yield_now().await;
    }
}

/// Otherwise, the replicas would forward a request to each other until its time limit.
#[tokio::test(flavor = "multi_thread")]
async fn requests_between_replicas_that_follow_each_other_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let home = producer_home(folder.path());
    let at = [(); 2].map(|()| own_address().to_string());
    let replica = |name: &str, own: usize| {
        let other = format!("http://{}", at[1 - own]);
        let options = ["--follow", &other, "--replication.address", &at[own]];
        NodeProcess::start(Path::new(PROGRAM), &replica_home(&home, name), &options)
    };
    let nodes = [replica("first", 0), replica("second", 1)];
    let requests = [
        ("eth_sendRawTransaction", json!([transfer(1, 0, DEV_ACCOUNTS[2].address)])),
        ("txpool_status", json!([])),
        ("eth_getTransactionByHash", json!([B256::repeat_byte(1)])),
    ];
    let each = nodes.iter().flat_map(|node| requests.iter().map(move |request| (node, request)));
    for (node, (method, params)) in each {
        // Before the replicas are connected to each other, the request fails with a different error.
        let refused = async {
            loop {
                let (code, text) = node.endpoints().fail(method, params.clone()).await;
                assert_eq!(code, -32000, "{text}");
                if !text.contains("no source of this replica is connected") {
                    return text;
                }
            }
        };
        let refused = tokio::time::timeout(MAX_WAIT, refused).await.expect("both are connected");
        assert!(refused.contains("8 replicas have forwarded the request"), "{method}: {refused}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_switches_to_the_next_source_when_one_stops() {
    let folder = tempfile::tempdir().unwrap();
    let home = producer_home(folder.path());
    let producer = produce(&home);
    let homes = ["first", "last"].map(|name| replica_home(&home, name));
    let mut first = follow(&homes[0], &url(&producer), &[]);
    let last = follow(&homes[1], &format!("{},{}", url(&first), url(&producer)), &[]);
    reach(&last, 3).await;
    assert_eq!(status(&last).await["source"], json!(url(&first)));
    first.kill();
    let mined = use_chain(&producer, 0).await;
    reach(&last, mined).await;
    assert_eq!(status(&last).await["source"], json!(url(&producer)));
    assert_eq!(status(&last).await["refused"], json!([]));
}
