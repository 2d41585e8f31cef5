//! One sender's pooled transactions, in nonce order.

use crate::execution::RecoveredTx;
use alloy_consensus::Transaction;
use alloy_primitives::U256;
use std::{collections::BTreeMap, sync::Arc};

/// A pooled transaction with what ordering needs.
#[derive(Clone, Debug)]
pub struct Pooled {
    /// The transaction.
    pub tx: Arc<RecoveredTx>,
    /// Rank of arrival in the pool; lower came first.
    pub arrival: u64,
    /// Most it can cost: gas limit x fee cap + value, in wei.
    pub cost: U256,
}

impl Pooled {
    /// Tip per gas the block producer gets at this base fee; `None` when the cap is below it.
    pub fn effective_tip(&self, base_fee: u64) -> Option<u128> {
        self.tx.tx.effective_tip_per_gas(base_fee)
    }

    /// Both fee fields are raised by at least a tenth over `old`, and by at least one.
    pub fn outbids(&self, old: &Self) -> bool {
        let raised = |new: u128, old: u128| new > old && new >= old.saturating_add(old / 10);
        let tip = |pooled: &Self| pooled.tx.tx.max_priority_fee_per_gas();
        let cap = |pooled: &Self| pooled.tx.tx.max_fee_per_gas();
        raised(cap(self), cap(old))
            && raised(tip(self).unwrap_or_else(|| cap(self)), tip(old).unwrap_or_else(|| cap(old)))
    }
}

/// A sender's account as the chain has it, and the transactions it has pooled on top.
#[derive(Clone, Debug, Default)]
pub struct Lane {
    /// Next nonce on chain.
    pub nonce: u64,
    /// Balance on chain, in wei.
    pub balance: U256,
    /// By nonce; none below `nonce`.
    pub txs: BTreeMap<u64, Pooled>,
    /// Sum of their costs, in wei.
    pub cost: U256,
}

impl Lane {
    /// Transactions that can run now: those without a gap before them.
    pub fn executable(&self) -> impl Iterator<Item = &Pooled> {
        let pairs = self.txs.iter().zip(self.nonce..);
        pairs.take_while(|((nonce, _), expected)| *nonce == expected).map(|((_, tx), _)| tx)
    }

    /// The nonce after the last executable transaction.
    pub fn next_nonce(&self) -> u64 {
        self.nonce + self.executable().count() as u64
    }

    /// Puts a transaction in, giving back the one it replaces.
    pub fn put(&mut self, pooled: Pooled) -> Option<Pooled> {
        self.cost += pooled.cost;
        let old = self.txs.insert(pooled.tx.tx.nonce(), pooled);
        if let Some(old) = &old {
            self.cost -= old.cost;
        }
        old
    }

    /// Takes the transaction with this nonce out.
    pub fn take(&mut self, nonce: u64) -> Option<Pooled> {
        let pooled = self.txs.remove(&nonce)?;
        self.cost -= pooled.cost;
        Some(pooled)
    }
}
