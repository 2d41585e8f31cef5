//! `ots_getContractCreator` under the rules before Cancun, which let a contract destroy itself and be created again.

use super::explorer::serve;
use crate::{
    client::Node,
    common::{FEE_CAP, sign},
};
use alloy_consensus::TxEip1559;
use alloy_primitives::{Address, B256, Bytes, TxKind, U256, address, hex};
use chain::{DEV_ACCOUNTS, Genesis};
use home::Home;
use serde_json::{Value, json};

const CHAIN_ID: u64 = 4711;
const FACTORY: Address = address!("000000000000000000000000000000000000fac7");
/// Init code of a contract that destroys itself if it is called with data, and stops otherwise.
const INIT: [u8; 17] = hex!("6736600557005b33ff60005260086018f3");
/// Maximum number of attempts to get two transactions into one block.
const ATTEMPTS: usize = 100;

/// Code that creates the contract with CREATE2.
fn factory_code() -> Vec<u8> {
    [&hex!("70")[..], &INIT, &hex!("60005260006011600f6000f500")].concat()
}

fn contract() -> Address {
    FACTORY.create2_from_code(B256::ZERO, INIT)
}

/// The genesis of a chain with the rules of Shanghai.
fn genesis() -> Genesis {
    let mut config = json!({
        "chainId": CHAIN_ID, "terminalTotalDifficulty": 0, "shanghaiTime": 0,
    });
    let forks = [
        "homestead",
        "eip150",
        "eip155",
        "eip158",
        "byzantium",
        "constantinople",
        "petersburg",
        "istanbul",
        "berlin",
        "london",
    ];
    for fork in forks {
        config[format!("{fork}Block")] = json!(0);
    }
    let (sender, code) =
        (DEV_ACCOUNTS[0].address.to_string(), hex::encode_prefixed(factory_code()));
    let genesis = json!({
        "config": config, "nonce": "0x0", "timestamp": "0x0", "extraData": "0x",
        "gasLimit": "0x1c9c380", "difficulty": "0x0", "mixHash": B256::ZERO,
        "coinbase": Address::ZERO, "baseFeePerGas": "0x7",
        "alloc": {
            sender: { "balance": "0x21e19e0c9bab2400000" },
            FACTORY.to_string(): { "balance": "0x0", "nonce": "0x1", "code": code },
        },
    });
    Genesis::from_json(&genesis.to_string()).unwrap()
}

/// The sender of all transactions.
struct Sender<'n> {
    node: &'n Node,
    nonce: u64,
}

impl Sender<'_> {
    fn signed(&mut self, to: Address, input: &'static [u8]) -> Bytes {
        let tx = TxEip1559 {
            chain_id: CHAIN_ID,
            nonce: self.nonce,
            gas_limit: 300_000,
            max_fee_per_gas: FEE_CAP,
            to: TxKind::Call(to),
            value: U256::ONE,
            input: Bytes::from_static(input),
            ..TxEip1559::default()
        };
        self.nonce += 1;
        sign(0, tx)
    }

    /// Sends transactions together. Returns their hashes, and whether one block contains all of them.
    async fn send(&self, raw: &[Bytes]) -> (Vec<Value>, bool) {
        let calls = raw.iter().map(|raw| {
            json!({ "jsonrpc": "2.0", "id": 1, "method": "eth_sendRawTransaction", "params": [raw] })
        });
        let sent = self.node.post(&calls.collect::<Value>().to_string()).await;
        let sent = sent.as_array().unwrap();
        let hashes: Vec<_> = sent.iter().map(|response| response["result"].clone()).collect();
        let mut blocks = Vec::new();
        for hash in &hashes {
            let receipt = self.node.wait_for("eth_getTransactionReceipt", json!([hash])).await;
            assert_eq!(receipt["status"], "0x1", "{receipt}");
            blocks.push(receipt["blockNumber"].clone());
        }
        (hashes, blocks.windows(2).all(|two| two[0] == two[1]))
    }

    async fn create(&mut self) -> Value {
        let create = self.signed(FACTORY, &[]);
        self.send(&[create]).await.0.remove(0)
    }

    async fn destroy(&mut self) {
        let destroy = self.signed(contract(), &[1]);
        self.send(&[destroy]).await;
    }

    /// Sends calls that change the balance of the contract, but neither create nor destroy it.
    async fn call(&mut self) {
        for _ in 0..3 {
            let call = self.signed(contract(), &[]);
            self.send(&[call]).await;
        }
    }

    /// Destroys the contract and creates it again in one block.
    async fn replace(&mut self) -> Value {
        for _ in 0..ATTEMPTS {
            let raw = [self.signed(contract(), &[1]), self.signed(FACTORY, &[])];
            if let (hashes, true) = self.send(&raw).await {
                return hashes[1].clone();
            }
        }
        panic!("no block contains both transactions");
    }
}

async fn assert_created_in(node: &Node, hash: &Value) {
    let created = node.call("ots_getContractCreator", json!([contract()])).await;
    assert_eq!(created, json!({ "hash": hash, "creator": FACTORY }));
}

#[tokio::test(flavor = "multi_thread")]
async fn creator_is_that_of_the_existing_contract() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::init(folder.path(), &genesis()).unwrap();
    let node = serve(folder, home).await;
    let mut sender = Sender { node: &node, nonce: 0 };
    let first = sender.create().await;
    sender.call().await;
    assert_created_in(&node, &first).await;
    sender.destroy().await;
    assert!(node.call("ots_getContractCreator", json!([contract()])).await.is_null());
    let second = sender.create().await;
    assert_ne!(first, second);
    // The search starts at the newest block, so it must skip the calls.
    sender.call().await;
    assert_created_in(&node, &second).await;
    sender.destroy().await;
    sender.create().await;
    let replaced = sender.replace().await;
    sender.call().await;
    assert_created_in(&node, &replaced).await;
    // Genesis created the factory.
    assert!(node.call("ots_getContractCreator", json!([FACTORY])).await.is_null());
    // After a restart, the index returns the same result.
    let folder = node.stop().await;
    let home = crate::common::reopened(folder.path());
    let node = serve(folder, home).await;
    assert_created_in(&node, &replaced).await;
    node.stop().await;
}
