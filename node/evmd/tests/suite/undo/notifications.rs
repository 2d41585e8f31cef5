//! Tests that clients are notified of an undo in the same way as geth notifies them of a reorganisation.

use super::{STORE, store, transaction, undoable_home};
use crate::{
    client::{Node, Socket},
    common::producing,
};
use alloy_primitives::{Address, B256, TxKind};
use chain::DEV_ACCOUNTS;
use pipeline::UndoneTransactions;
use serde_json::{Value, json};
use std::time::Duration;

/// A node with the contract that [`STORE`] deploys.
struct Undoable {
    node: Node,
    contract: Address,
}

impl Undoable {
    async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let home = undoable_home(folder.path(), 16);
        let options = producing(Some(Duration::from_millis(2)));
        let node = Node::start(folder, home, options).await;
        let contract = DEV_ACCOUNTS[0].address.create(0);
        let this = Self { node, contract };
        this.mine(transaction(0, 0, TxKind::Create, 0, STORE.to_vec())).await;
        this
    }

    /// Submits a transaction and waits until it is mined.
    async fn mine(&self, raw: alloy_primitives::Bytes) -> B256 {
        let mut heads = self.node.pipeline.published.heads();
        let hash = self.node.pipeline.client().submit(raw).await.unwrap();
        while self.node.pipeline.published.load().tx_location(hash).unwrap().is_none() {
            heads.changed().await.unwrap();
        }
        hash
    }

    /// Mines a transaction with this nonce, which emits a log with this topic.
    async fn log(&self, nonce: u64, topic: u64) -> B256 {
        let to = TxKind::Call(self.contract);
        self.mine(transaction(0, nonce, to, 0, store(topic, 1))).await
    }

    async fn undo_one(&self, transactions: UndoneTransactions) {
        let to = self.node.pipeline.published.load().number() - 1;
        self.node.pipeline.blocks().unwrap().undo(to, transactions).await.unwrap();
    }
}

fn topics_and_removed(logs: &Value) -> Vec<(u64, bool)> {
    let number = |topic: &Value| {
        u64::from_str_radix(topic.as_str().unwrap().trim_start_matches("0x"), 16).unwrap()
    };
    let logs = logs.as_array().unwrap().iter();
    logs.map(|log| (number(&log["topics"][0]), log["removed"].as_bool().unwrap())).collect()
}

#[tokio::test]
async fn filters_report_removed_logs_once_and_the_blocks_of_the_new_branch() {
    let node = Undoable::start().await;
    let call = |method: &'static str, params: Value| node.node.call(method, params);
    let all = call("eth_newFilter", json!([{ "address": node.contract }])).await;
    let none = call("eth_newFilter", json!([{ "address": Address::repeat_byte(9) }])).await;
    let blocks = call("eth_newBlockFilter", json!([])).await;
    let changes = |id: &Value| call("eth_getFilterChanges", json!([id]));
    node.log(1, 11).await;
    node.log(2, 12).await;
    assert_eq!(topics_and_removed(&changes(&all).await), [(11, false), (12, false)]);
    assert_eq!(changes(&blocks).await.as_array().unwrap().len(), 2);

    node.undo_one(UndoneTransactions::Drop).await;
    assert_eq!(topics_and_removed(&changes(&all).await), [(12, true)]);
    assert_eq!(topics_and_removed(&changes(&all).await), []);
    node.log(2, 13).await;
    assert_eq!(topics_and_removed(&changes(&all).await), [(13, false)]);
    // The client has received block 3 of the old branch, and now receives block 3 of the new one.
    assert_eq!(changes(&blocks).await.as_array().unwrap().len(), 1);

    // A log that the client never received is not reported as removed.
    node.log(3, 14).await;
    node.undo_one(UndoneTransactions::Drop).await;
    node.log(3, 15).await;
    assert_eq!(topics_and_removed(&changes(&all).await), [(15, false)]);
    assert_eq!(topics_and_removed(&changes(&none).await), []);
    let found = call("eth_getLogs", json!([{ "fromBlock": "0x0" }])).await;
    assert_eq!(topics_and_removed(&found), [(11, false), (13, false), (15, false)]);
    node.node.stop().await;
}

/// Returns the result in the next notification of a connection with one subscription.
async fn notification(socket: &mut Socket) -> Value {
    let mut message = socket.receive().await;
    assert_eq!(message["method"], "eth_subscription", "{message}");
    message["params"]["result"].take()
}

#[tokio::test]
async fn subscriptions_report_removed_logs_and_the_heads_of_the_new_branch() {
    let node = Undoable::start().await;
    let mut logs = node.node.websocket(node.node.web_socket).await;
    logs.call("eth_subscribe", json!(["logs", { "address": node.contract }])).await;
    let mut heads = node.node.websocket(node.node.web_socket).await;
    heads.call("eth_subscribe", json!(["newHeads"])).await;
    let first = node.log(1, 11).await;
    let sent = notification(&mut logs).await;
    assert_eq!((&sent["transactionHash"], &sent["removed"]), (&json!(first), &json!(false)));
    let old_head = notification(&mut heads).await;

    node.undo_one(UndoneTransactions::Return).await;
    let removed = notification(&mut logs).await;
    assert_eq!(removed["removed"], json!(true));
    let without = |log: &Value| {
        let mut log = log.clone();
        log.as_object_mut().unwrap().remove("removed");
        log
    };
    assert_eq!(without(&removed), without(&sent), "the same log of the same block");
    // The transaction returned to the pool and is mined again.
    let again = notification(&mut logs).await;
    assert_eq!((&again["transactionHash"], &again["removed"]), (&json!(first), &json!(false)));
    let new_head = notification(&mut heads).await;
    assert_eq!(new_head["number"], old_head["number"]);
    assert_eq!(new_head["parentHash"], old_head["parentHash"]);
    node.node.stop().await;
}
