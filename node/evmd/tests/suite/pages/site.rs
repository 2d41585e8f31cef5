//! Runs the chain of the page tests and the node whose pages they read: a development chain or, with
//! `EVMD_TEST_REPLICA=1`, a replica of a producer that produces a block for each transaction.

use crate::{
    client::is_replica,
    common::{sign, unsigned},
    development::PROGRAM,
    start_safety::run,
};
use alloy_consensus::TxEip1559;
use alloy_primitives::{Address, Bytes, TxKind, U256};
use chain::DEV_ACCOUNTS;
use serde_json::{Value, json};
use std::{
    fs,
    path::{Path, PathBuf},
};
use testkit::{Endpoints, NodeProcess, own_address};

/// Emits `Transfer(1, 2, 7)` when it is created, and returns 42 when it is called.
const EMITTER: &str = "0x60075f52600260017fddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef60205fa3\
    69602a60005260206000f3600052600a6016f3";
/// Settings of a producer that produces a block for each transaction, like an automining development chain.
const BLOCK_PER_TX: &str = "[engine]\nempty-blocks = false\nblock-time-ms = 1\n";

/// The nodes of a test.
pub(super) struct Site {
    /// The node that produces the blocks.
    producer: NodeProcess,
    /// The node under test, if it is not the producer.
    replica: Option<NodeProcess>,
    /// The next nonce of account 0.
    nonce: u64,
}

impl Site {
    /// Starts a chain without blocks in a new folder.
    pub(super) async fn empty(folder: &Path) -> Self {
        let home = folder.join("home");
        if is_replica() {
            assert_eq!(run(&home, &["init"]).0, 0);
            fs::write(home.join("config.toml"), BLOCK_PER_TX).unwrap();
        }
        Self::of_home(&home, &[]).await
    }

    /// Starts the chain of a home folder; `options` are those of the node that produces the blocks.
    pub(super) async fn of_home(home: &Path, options: &[&str]) -> Self {
        if !is_replica() {
            let producer = NodeProcess::start(Path::new(PROGRAM), home, options);
            return Self { producer, replica: None, nonce: 0 };
        }
        let address = own_address().to_string();
        let options = [options, &["--replication.address", &address]].concat();
        let producer = NodeProcess::start(Path::new(PROGRAM), home, &options);
        let replica = start_replica(home, &format!("http://{address}"));
        let site = Self { producer, replica: Some(replica), nonce: 0 };
        let head = site.producer.endpoints().call("eth_blockNumber", json!([])).await;
        site.endpoints().wait_for("eth_getBlockByNumber", json!([head, false])).await;
        site
    }

    /// Starts a chain; returns the hashes of its transactions: a creation, a call of the contract, and a transfer.
    pub(super) async fn filled(folder: &Path) -> (Self, [String; 3]) {
        let mut site = Self::empty(folder).await;
        let created = site.send(call(TxKind::Create, EMITTER.parse::<Bytes>().unwrap())).await;
        let contract = site.contract_of(&created).await;
        let word = format!("{:0>64}{:064x}", "3c7363726970743e", 9);
        let input: Bytes = format!("0xa9059cbb{word}").parse().unwrap();
        let called = site.send(call(TxKind::Call(contract), input)).await;
        let to = TxKind::Call(DEV_ACCOUNTS[1].address);
        let transfer = TxEip1559 {
            gas_limit: 21_000,
            value: U256::from(10).pow(U256::from(18)),
            ..call(to, Bytes::new())
        };
        let sent = site.send(transfer).await;
        (site, [created, called, sent])
    }

    /// The addresses of the node under test.
    pub(super) fn endpoints(&self) -> Endpoints {
        self.replica.as_ref().unwrap_or(&self.producer).endpoints()
    }

    /// Sends a transaction with the next nonce of account 0. Returns its hash when the node under test has its block.
    pub(super) async fn send(&mut self, tx: TxEip1559) -> String {
        let raw = sign(0, TxEip1559 { nonce: self.nonce, ..tx });
        self.nonce += 1;
        let endpoints = self.endpoints();
        let hash = endpoints.call("eth_sendRawTransaction", json!([raw])).await;
        endpoints.wait_for("eth_getTransactionReceipt", json!([hash])).await;
        hash.as_str().unwrap().to_owned()
    }

    /// Creates a contract with this code; returns its address.
    pub(super) async fn deploy(&mut self, code: &[u8]) -> Address {
        // The init code is PUSH2 length, DUP1, PUSH1 10, PUSH0, CODECOPY, PUSH0, RETURN.
        let [high, low] = u16::try_from(code.len()).unwrap().to_be_bytes();
        let init = [&[0x61, high, low, 0x80, 0x60, 10, 0x5f, 0x39, 0x5f, 0xf3], code].concat();
        let created = self.send(call(TxKind::Create, init)).await;
        self.contract_of(&created).await
    }

    async fn contract_of(&self, created: &str) -> Address {
        let receipt = self.endpoints().call("eth_getTransactionReceipt", json!([created])).await;
        serde_json::from_value(receipt["contractAddress"].clone()).unwrap()
    }

    /// The number of the newest block.
    pub(super) async fn head(&self) -> u64 {
        number_of(&self.endpoints().call("eth_blockNumber", json!([])).await)
    }
}

/// A transaction with nonce 0 and a gas limit of 200,000.
pub(super) fn call(to: TxKind, input: impl Into<Bytes>) -> TxEip1559 {
    unsigned(0, to, input)
}

/// Starts a node that follows a source, with the genesis of another home.
fn start_replica(producer: &Path, source: &str) -> NodeProcess {
    let home: PathBuf = producer.with_file_name("replica");
    let genesis = producer.join("genesis.json");
    let (code, _, error) = run(&home, &["init", "--genesis", genesis.to_str().unwrap()]);
    assert_eq!(code, 0, "{error}");
    NodeProcess::start(Path::new(PROGRAM), &home, &["--follow", source])
}

pub(super) fn number_of(quantity: &Value) -> u64 {
    u64::from_str_radix(&quantity.as_str().unwrap()[2..], 16).unwrap()
}
