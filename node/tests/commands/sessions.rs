//! The recorded sessions: without a node, and against one that runs.

use crate::{
    client::{Node, config},
    common::{native_home, producing, transfer},
    session::Session,
};
use alloy_primitives::{Address, hex};
use serde_json::json;
use std::{
    net::{SocketAddr, TcpListener},
    time::Duration,
};

#[test]
fn without_a_node() {
    let _turn = crate::TURN.blocking_lock();
    let folder = tempfile::tempdir().unwrap();
    for name in ["keys.txt", "debug.txt", "home.txt"] {
        let variables = vec![
            ("EVMD_HOME", folder.path().join("home").to_str().unwrap().to_owned()),
            ("EVMD_KEYRING_BACKEND", "test".to_owned()),
        ];
        Session { folder: folder.path(), variables }.replay(name);
    }
}

/// An address that nothing listens on.
fn free() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn with_a_node() {
    let _turn = crate::TURN.lock().await;
    let folder = tempfile::tempdir().unwrap();
    let home = native_home(folder.path());
    let mut config = config();
    // What the node tells of its addresses is to be true.
    config.json_rpc.address = free();
    config.rest.address = free();
    config.metrics.address = free();
    let options = producing(Some(Duration::from_millis(5)));
    let node = Node::start_with(folder, home, options, config).await;
    // The recordings show block 1 empty.
    node.wait_for("eth_getBlockByNumber", json!(["0x1", false])).await;
    // Something to ask about: account 1 has sent one transaction, account 2 none.
    let raw = transfer(1, 0, Address::repeat_byte(0x77));
    let hash = node.call("eth_sendRawTransaction", json!([hex::encode_prefixed(&raw)])).await;
    node.wait_for("eth_getTransactionReceipt", json!([hash])).await;
    let folder = tempfile::tempdir().unwrap();
    let at = |address| vec![("EVMD_NODE", format!("http://{address}"))];
    let replay = |address, name: &str| {
        Session { folder: folder.path(), variables: at(address) }.replay(name);
    };
    replay(node.rest.address, "query.txt");
    // Whichever address of the node is named, the answers are the same.
    replay(node.rpc.address, "query.txt");
    replay(node.observe.address, "any-address.txt");
    node.stop().await;
}
