//! The recorded sessions: without a node, and against one that runs.

use crate::{client::Node, common::transfer, session::Session};
use alloy_primitives::{Address, hex};
use serde_json::json;

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

#[tokio::test(flavor = "multi_thread")]
async fn with_a_node() {
    let _turn = crate::TURN.lock().await;
    let node = Node::native().await;
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
