//! Creates random transactions of every kind, for native and Ethereum chains.

use super::{STORE, store, transaction};
use crate::{
    blobs,
    common::{
        GENESIS_TIME, delegate,
        signed::{any, coins, send, signed, slower_market},
    },
    random::Random,
};
use alloy_eips::eip7594::BlobTransactionSidecarVariant as Sidecar;
use alloy_primitives::{Address, Bytes, TxKind};
use chain::{DEV_ACCOUNTS, Genesis};
use home::Home;
use proto::cosmos::gov::v1::{MsgDeposit, MsgSubmitProposal, MsgVote};
use serde_json::{Value, json};
use std::path::Path;
use transactions::cosmos::TX_TYPE;

/// Number of accounts that send transactions without blobs. Account 0 is the validator of the native chain.
pub(super) const SENDERS: u64 = 6;
/// The account that sends only blob transactions, on the chain with Ethereum's rules.
pub(super) const BLOB_SENDER: usize = 6;
/// Accounts from this index on send no transactions, but delegate to code.
const FIRST_AUTHORITY: usize = 7;
/// Base fees that proposals set, in units of 10^-18 wei.
const BASE_FEES: [&str; 2] = ["1000000000000000000000000000", "3000000000000000000000000000"];

/// The rules of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rules {
    /// A native chain with a voting period of two seconds.
    Native,
    /// A chain with Ethereum's Cancun rules.
    Ethereum,
}

impl Rules {
    /// Initializes a chain with these rules. A node on it accepts transactions even if it does not produce blocks.
    pub(super) fn home(self, folder: &Path) -> Home {
        let mut home = match self {
            Self::Native => Home::init(folder, &governed()).unwrap(),
            Self::Ethereum => blobs::ethereum_home(folder),
        };
        home.config.mempool.accept_without_production = true;
        home
    }
}

/// Returns the development genesis with short governance periods.
fn governed() -> Genesis {
    let genesis = Genesis::native_dev(GENESIS_TIME).to_json();
    let mut genesis: Value = serde_json::from_str(&genesis).unwrap();
    let params = &mut genesis["config"]["evmd"]["gov"]["params"];
    params["max_deposit_period"] = json!("3s");
    params["voting_period"] = json!("2s");
    params["expedited_voting_period"] = json!("1s");
    Genesis::from_json(&genesis.to_string()).unwrap()
}

pub(super) struct Traffic {
    pub(super) rules: Rules,
    /// The contracts that the transactions create.
    pub(super) contracts: Vec<Address>,
    delegated: usize,
    sidecars: Vec<Sidecar>,
}

impl Traffic {
    pub(super) fn new(rules: Rules) -> Self {
        let sidecars = match rules {
            Rules::Native => Vec::new(),
            Rules::Ethereum => vec![blobs::whole(1), blobs::whole(2)],
        };
        Self { rules, contracts: Vec::new(), delegated: 0, sidecars }
    }

    /// Picks the account that sends the next transaction.
    pub(super) fn sender(&self, random: &mut Random) -> usize {
        match self.rules {
            Rules::Ethereum if random.chance(15) => BLOB_SENDER,
            _ => random.below(SENDERS) as usize,
        }
    }

    /// Returns a random transaction of this account.
    pub(super) fn next(&mut self, random: &mut Random, from: usize, nonce: u64) -> Bytes {
        if from == BLOB_SENDER {
            let sidecar = &self.sidecars[random.below(self.sidecars.len() as u64) as usize];
            let alone = crate::common::sign(from, blobs::blob_tx(nonce, sidecar));
            return blobs::wrapped(&alone, sidecar);
        }
        let to = Address::with_last_byte(1 + random.below(200) as u8);
        let is_native = self.rules == Rules::Native;
        match random.below(12) {
            0 => {
                self.contracts.push(DEV_ACCOUNTS[from].address.create(nonce));
                transaction(from, nonce, TxKind::Create, 0, STORE.to_vec())
            }
            1 if is_native && FIRST_AUTHORITY + self.delegated < DEV_ACCOUNTS.len() => {
                self.delegated += 1;
                delegate(from, nonce, FIRST_AUTHORITY + self.delegated - 1, to)
            }
            2 | 3 if is_native => cosmos(random, from, nonce),
            4..=7 if !self.contracts.is_empty() => {
                let at = random.below(self.contracts.len() as u64) as usize;
                let input = store(random.below(5), random.below(3));
                transaction(from, nonce, TxKind::Call(self.contracts[at]), 0, input)
            }
            _ => transaction(from, nonce, TxKind::Call(to), random.below(9), Vec::new()),
        }
    }
}

/// Returns a proposal, a deposit, a vote, or a transfer. Messages that fail in a block, such as votes on proposals that
/// do not exist, have no effect.
fn cosmos(random: &mut Random, from: usize, nonce: u64) -> Bytes {
    let (proposal_id, address) = (1 + random.below(6), crate::common::signed::address_of(from));
    let message = match random.below(5) {
        0 => any(&MsgSubmitProposal {
            proposer: address,
            ..slower_market(BASE_FEES[random.below(2) as usize])
        }),
        1 => any(&MsgDeposit { proposal_id, depositor: address, amount: coins(7) }),
        2 | 3 => any(&MsgVote { proposal_id, voter: address, option: 1, ..MsgVote::default() }),
        _ => send(from, &crate::common::signed::address_of(9), random.below(9) + 1),
    };
    [&[TX_TYPE], signed(from, nonce, vec![message]).as_slice()].concat().into()
}
