//! A frozen file system blocks every thread that writes to it. LMDB writes to `lock.mdb` when a read
//! transaction begins or ends, so threads that serve sockets must do neither.

use crate::{
    client::{Node, exchange},
    common::{native_home, producing},
};
use chain::DEV_ACCOUNTS;
use serde_json::{Value, json};

/// Number of calls of each method, more than there are threads.
const ROUNDS: usize = 20;

/// Returns the LMDB reader tables of both environments.
fn reader_tables(node: &Node) -> [Vec<u8>; 2] {
    ["chain", "index"].map(|name| std::fs::read(node.home().join(name).join("lock.mdb")).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn reads_of_published_data_do_not_write_to_the_disk() {
    let folder = tempfile::tempdir().unwrap();
    let home = native_home(folder.path());
    // The node produces no blocks, as if the disk had stopped responding.
    let node = Node::start(folder, home, producing(None)).await;
    let account = DEV_ACCOUNTS[0].address;
    let hash = format!("{:#066x}", 1);
    let calls: [(&str, Value); 14] = [
        ("eth_blockNumber", json!([])),
        ("eth_getBalance", json!([account, "latest"])),
        ("eth_getTransactionCount", json!([account, "latest"])),
        ("eth_getStorageAt", json!([account, "0x0", "latest"])),
        ("eth_getCode", json!([account, "0x0"])),
        ("eth_call", json!([{ "to": account }, "latest"])),
        ("eth_estimateGas", json!([{ "to": account }])),
        ("eth_getBlockByNumber", json!(["0x0", true])),
        ("eth_getTransactionByHash", json!([hash])),
        ("eth_getTransactionReceipt", json!([hash])),
        ("eth_getLogs", json!([{ "fromBlock": "0x0" }])),
        ("eth_feeHistory", json!(["0x1", "latest", []])),
        ("eth_gasPrice", json!([])),
        ("eth_getProof", json!([account, [], "latest"])),
    ];
    let before = reader_tables(&node);
    for (method, params) in &calls {
        let rounds = (0..ROUNDS).map(|_| node.call(method, params.clone()));
        futures_util::future::join_all(rounds).await;
        assert!(reader_tables(&node) == before, "{method} began a read transaction");
    }
    for path in ["/cosmos/base/tendermint/v1beta1/blocks/latest", "/cosmos/bank/v1beta1/supply"] {
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        let (status, text) = exchange(node.rest, request.as_bytes()).await;
        assert_eq!(status, 200, "{path}: {text}");
        assert!(reader_tables(&node) == before, "{path} began a read transaction");
    }
    assert_eq!(node.get("/metrics").await.0, 200);
    assert!(reader_tables(&node) == before, "the metrics began a read transaction");
    node.stop().await;
}
