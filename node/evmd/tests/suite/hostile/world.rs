//! Runs the chain that is attacked.

use super::account::Account;
use crate::{
    client::{Node, config, exchange},
    common::{GENESIS_TIME, producing},
};
use alloy_primitives::{Address, B256, Bytes, U256};
use chain::Genesis;
use home::Home;
use pipeline::{Found, PoolClient};
use serde_json::{Value, json};
use state::View;
use std::{fs, sync::Arc, time::Duration};
use storage::{ReceiptOutcome, StateRead};

/// One ether in wei.
pub(super) const ETHER: u128 = 1_000_000_000_000_000_000;
/// Minimum deposit that starts a vote, in wei: the whole balance of an attacker.
pub(super) const MIN_DEPOSIT: u64 = 1_000_000_000_000_000_000;
/// The minimum gas price of the chain, in wei.
const MIN_GAS_PRICE: &str = "1000000000.000000000000000000";
/// Number of pool slots of each kind, so low that one attacker could fill them.
pub(super) const POOL_SLOTS: usize = 64;
/// Maximum number of filters, and of JSON-RPC connections, that all clients share.
pub(super) const MAX_SHARED: usize = 32;
/// Interval at which to check whether a transaction has been dropped from the pool.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// A running node that produces a block as soon as there are transactions.
pub(super) struct World {
    pub(super) node: Node,
    pub(super) client: PoolClient,
}

impl World {
    /// Starts a chain on which these accounts have these balances, in wei.
    pub(super) async fn new<'a>(accounts: impl Iterator<Item = (&'a Account, u128)>) -> Self {
        let mut genesis: Value =
            serde_json::from_str(&Genesis::native_dev(GENESIS_TIME).to_json()).unwrap();
        for (account, balance) in accounts {
            genesis["alloc"][account.address.to_string()] =
                json!({ "balance": format!("{balance:#x}") });
        }
        let coins = |amount: u64| json!([{ "denom": "atest", "amount": amount.to_string() }]);
        // Otherwise, the base fee of a chain with low load would decrease to zero.
        genesis["config"]["evmd"]["feemarket"]["params"]["min_gas_price"] = json!(MIN_GAS_PRICE);
        let params = &mut genesis["config"]["evmd"]["gov"]["params"];
        params["min_deposit"] = coins(MIN_DEPOSIT);
        params["expedited_min_deposit"] = coins(2 * MIN_DEPOSIT);
        // Proposals without their full deposit stay for longer than the test runs; those with it do not.
        params["max_deposit_period"] = json!("172800s");
        params["voting_period"] = json!("2s");
        params["expedited_voting_period"] = json!("1s");
        let folder = tempfile::tempdir().unwrap();
        let genesis = Genesis::from_json(&genesis.to_string()).unwrap();
        let mut home = Home::init(folder.path(), &genesis).unwrap();
        home.config.engine.empty_blocks = false;
        home.config.mempool.global_slots = POOL_SLOTS;
        home.config.mempool.global_queue = POOL_SLOTS;
        let mut settings = config();
        settings.json_rpc.filter_cap = MAX_SHARED;
        settings.json_rpc.max_connections = MAX_SHARED as u32;
        let options = producing(Some(Duration::from_millis(1)));
        let node = Node::start_with(folder, home, options, settings).await;
        let client = node.pipeline.client();
        Self { node, client }
    }

    pub(super) fn view(&self) -> Arc<View> {
        self.node.pipeline.published.load()
    }

    pub(super) fn balance(&self, address: Address) -> U256 {
        let state = self.view().state.reader().unwrap();
        state.account(address).unwrap().unwrap_or_default().balance
    }

    /// Returns the next nonce of the account, after its transactions in blocks and in the pool.
    pub(super) async fn nonce(&self, account: &Account) -> u64 {
        self.client.nonce(account.address).await.unwrap().unwrap()
    }

    /// Returns the fee cap that wallets suggest, in wei per gas.
    pub(super) async fn price(&self) -> u128 {
        let price = self.node.call("eth_gasPrice", json!([])).await;
        let digits = price.as_str().unwrap().trim_start_matches("0x");
        2 * u128::from_str_radix(digits, 16).unwrap()
    }

    /// Waits until an accepted transaction succeeds in a block. The error describes why it did not.
    pub(super) async fn succeeds(&self, hash: B256) -> Result<(), String> {
        let mut heads = self.node.pipeline.published.heads();
        loop {
            heads.borrow_and_update();
            let view = self.view();
            if let Some((number, index)) = view.tx_location(hash).unwrap() {
                let receipts = view.blocks().unwrap().receipts(number).unwrap().unwrap();
                return match receipts[index as usize].outcome {
                    ReceiptOutcome::Status(true) => Ok(()),
                    _ => Err(format!("failed in block {number}")),
                };
            }
            let found = self.client.transaction(hash).await.unwrap();
            if matches!(found, Found::NotPooled { built } if built <= view.number()) {
                return Err("dropped from the pool".to_owned());
            }
            // An error means that the pipeline has ended, which the next submission reports.
            let _ = tokio::time::timeout(CHECK_INTERVAL, heads.changed()).await;
        }
    }

    /// Returns the proposal that a successful Cosmos transaction submitted.
    pub(super) async fn proposal_of(&self, raw: &Bytes) -> u64 {
        let hash = transactions::cosmos::cosmos_hash(raw);
        let request = format!(
            "GET /cosmos/tx/v1beta1/txs/{hash:x} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        )
        .replace("0x", "");
        let (status, text) = exchange(self.node.rest, request.as_bytes()).await;
        assert_eq!(status, 200, "{text}");
        let response: Value = serde_json::from_str(&text).unwrap();
        let events = response["tx_response"]["events"].as_array().unwrap();
        let attributes = events.iter().flat_map(|event| event["attributes"].as_array().unwrap());
        let mut ids = attributes.filter(|attribute| attribute["key"] == "proposal_id");
        ids.next().unwrap()["value"].as_str().unwrap().parse().unwrap()
    }

    /// Returns the size on disk of the chain and of the pool's journal, in bytes.
    pub(super) fn stored_bytes(&self) -> u64 {
        let journal = fs::metadata(self.node.home().join("mempool.journal"));
        self.view().chain.db().stats().used_bytes + journal.map_or(0, |journal| journal.len())
    }
}
