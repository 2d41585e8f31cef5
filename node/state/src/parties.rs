//! The transactions of one address, block by block: those it sent, those sent to it, and the one
//! that created it. Calls inside a transaction are not searched.

use super::stored::{MinedTx, StoredBlock, StoredError};
use crate::{Appearances, View};
use alloy_consensus::Transaction as _;
use alloy_primitives::Address;
use chain::ChainSpec;
use std::cmp::Ordering;
use storage::{Account, ChainReader};
use transactions::named;

/// Which way a search goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From newer to older blocks.
    Older,
    /// From older to newer blocks.
    Newer,
}

impl Found {
    /// Number of the block.
    pub const fn number(&self) -> u64 {
        self.block.block.header.number
    }
}

/// A search through the blocks of a view. Holds read transactions: keep it for a call.
#[derive(Debug)]
pub struct Search<'v> {
    spec: &'v ChainSpec,
    appearances: Appearances<'v>,
    blocks: ChainReader,
    address: Address,
    direction: Direction,
    /// The next block to be looked at; `None` past the end.
    next: Option<u64>,
}

/// How a step of a search ends.
#[derive(Debug)]
pub enum Step {
    /// At a block.
    Found(Box<Found>),
    /// At the end of the chain.
    End,
    /// Before it, because it was not to go on.
    GivenUp,
}

/// A block with transactions of the address, and which: ascending, at least one.
#[derive(Debug)]
pub struct Found {
    /// The block.
    pub block: StoredBlock,
    /// The indices of the transactions.
    pub indices: Vec<usize>,
}

impl<'v> Search<'v> {
    /// The blocks up to `number`, from there on or back to there.
    pub fn new(
        spec: &'v ChainSpec,
        view: &'v View,
        address: Address,
        number: u64,
        direction: Direction,
    ) -> Result<Self, StoredError> {
        let appearances = Appearances::of(view, address)?;
        let blocks = view.blocks()?;
        Ok(Self { spec, appearances, blocks, address, direction, next: Some(number) })
    }

    /// The next block with a transaction of the address. `go_on` is asked before each block that is
    /// looked through: an account changes in many blocks that have none, that of a block producer in
    /// all.
    pub fn next(&mut self, mut go_on: impl FnMut() -> bool) -> Result<Step, StoredError> {
        while let Some(from) = self.next {
            let found = match self.direction {
                Direction::Older => self.appearances.up_to(from)?,
                Direction::Newer => self.appearances.from(from)?,
            };
            let Some(number) = found else { break };
            self.next = match self.direction {
                Direction::Older => number.checked_sub(1),
                Direction::Newer => number.checked_add(1),
            };
            if !go_on() {
                return Ok(Step::GivenUp);
            }
            let block = StoredBlock::read(self.spec, &self.blocks, number)?;
            let indices = self.indices(&block)?;
            if !indices.is_empty() {
                return Ok(Step::Found(Box::new(Found { block, indices })));
            }
        }
        self.next = None;
        Ok(Step::End)
    }

    fn indices(&self, block: &StoredBlock) -> Result<Vec<usize>, StoredError> {
        let mut indices = Vec::new();
        for mined in block.txs() {
            let mined = mined?;
            if is_party(&mined, self.address) {
                indices.push(mined.index);
            }
        }
        Ok(indices)
    }
}

/// The block with the transaction of a sender that has this nonce, and its index there.
pub fn sent(
    spec: &ChainSpec,
    view: &View,
    sender: Address,
    nonce: u64,
) -> Result<Option<(StoredBlock, usize)>, StoredError> {
    let spent = |account: &Option<Account>| account.is_some_and(|account| account.nonce > nonce);
    let Some(number) = view.state.first_block(view.number(), sender, spent)? else {
        return Ok(None);
    };
    let block = StoredBlock::read(spec, &view.blocks()?, number)?;
    let senders = block.senders.iter().enumerate();
    let own: Vec<_> = senders.filter(|(_, by)| **by == sender).map(|(index, _)| index).collect();
    // The nonces of one sender rise, so that few of thousands of transactions are decoded.
    let (mut low, mut high) = (0, own.len());
    while low < high {
        let middle = low + (high - low) / 2;
        let Some(found) = block.tx(own[middle])?.map(|mined| mined.tx.nonce()) else { break };
        match found.cmp(&nonce) {
            Ordering::Equal => return Ok(Some((block, own[middle]))),
            Ordering::Less => low = middle + 1,
            Ordering::Greater => high = middle,
        }
    }
    // A contract's, or one that an authorization took (EIP-7702).
    Ok(None)
}

/// Whether a transaction is from this address, or names it.
fn is_party(mined: &MinedTx<'_>, address: Address) -> bool {
    let mut named = named(&mined.tx, mined.sender, mined.cosmos.as_deref());
    mined.sender == address || named.any(|named| named == address)
}
