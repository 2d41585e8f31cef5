//! In which blocks an address may have sent a transaction or been sent one.
//!
//! The history of accounts tells nearly all of it: who sends has another nonce afterwards, who is
//! sent value another balance. [`called`] names the rest, for the postings of the index; what it
//! leaves out and what [`Appearances`] relies on belong together.

use super::View;
use crate::execution::Transaction;
use alloy_consensus::Transaction as _;
use alloy_primitives::Address;
use storage::{IndexReader, PostingKey, ReadError, ReceiptOutcome, StoredReceipt};

/// Gas of a transaction that runs no code and carries no data.
const TRANSFER_GAS: u64 = 21_000;

/// Where the transactions of a block went whose receiver may be as before: all but those that moved
/// value and ran no code.
pub fn called<'a>(
    txs: impl Iterator<Item = &'a Transaction>,
    receipts: &'a [StoredReceipt],
) -> impl Iterator<Item = Address> {
    let mut gas_before = 0;
    txs.zip(receipts).filter_map(move |(tx, receipt)| {
        let gas_used = receipt.cumulative_gas_used - gas_before;
        gas_before = receipt.cumulative_gas_used;
        let plain = gas_used == TRANSFER_GAS && receipt.outcome == ReceiptOutcome::Status(true);
        if plain && !tx.value().is_zero() { None } else { tx.to() }
    })
}

/// The blocks of a view in which one address may appear: among them are all with a transaction from
/// it or to it, and all that made or removed its account. Holds a read transaction.
#[derive(Debug)]
pub struct Appearances<'v> {
    view: &'v View,
    index: IndexReader,
    address: Address,
    called: PostingKey,
}

/// All methods fail only when the index cannot be read.
impl<'v> Appearances<'v> {
    /// Those of `address`.
    pub fn of(view: &'v View, address: Address) -> Result<Self, ReadError> {
        let index = view.state.index().reader()?;
        Ok(Self { view, index, address, called: PostingKey::called(address) })
    }

    /// The newest block up to `number`.
    pub fn up_to(&self, number: u64) -> Result<Option<u64>, ReadError> {
        let number = number.min(self.view.number());
        let layer = self.layers().rev().find(|layer| *layer <= number);
        let changed = self.index.changed_up_to(self.address, number)?;
        let called = self.index.posted_up_to(self.called, number)?;
        Ok(layer.max(changed).max(called))
    }

    /// The oldest block from `number` on.
    pub fn from(&self, number: u64) -> Result<Option<u64>, ReadError> {
        let layer = self.layers().find(|layer| *layer >= number);
        let changed = self.index.changed_from(self.address, number)?;
        let called = self.index.posted_from(self.called, number)?;
        let found = [layer, changed, called].into_iter().flatten().min();
        Ok(found.filter(|found| *found <= self.view.number()))
    }

    /// Those among the blocks in memory, ascending.
    fn layers(&self) -> impl DoubleEndedIterator<Item = u64> {
        let appears = |layer: &&std::sync::Arc<super::Layer>| {
            let keys = layer.posting_keys().unwrap_or_default();
            layer.account(self.address).is_some() || keys.binary_search(&self.called).is_ok()
        };
        self.view.state.layers().iter().filter(appears).map(|layer| layer.number())
    }
}
