//! Finds the transactions of one address by block: those it sent, those sent to it, and the one that created it.
//! Calls within transactions are not searched.

use super::stored::{MinedTx, StoredBlock, StoredError};
use crate::{Appearances, View};
use alloy_consensus::Transaction as _;
use alloy_primitives::Address;
use chain::ChainSpec;
use std::{cmp::Ordering, ops::Range};
use storage::{Account, ChainReader};
use transactions::{may_be_participant, participants};

/// The direction of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From newer to older blocks.
    Older,
    /// From older to newer blocks.
    Newer,
}

impl Found {
    /// Returns the number of the block.
    pub const fn number(&self) -> u64 {
        self.block.block.header.number
    }
}

/// A search through the blocks of a view. It holds read transactions, so keep it only for the duration of a call.
#[derive(Debug)]
pub struct Search<'v> {
    spec: &'v ChainSpec,
    appearances: Appearances<'v>,
    blocks: ChainReader,
    address: Address,
    direction: Direction,
    /// The next block to search; `None` after the end.
    next: Option<u64>,
}

/// The result of a step of a search.
#[derive(Debug)]
pub enum Step {
    /// A block was found.
    Found(Box<Found>),
    /// The end of the chain was reached.
    End,
    /// The caller stopped the search before the end.
    Cancelled,
}

/// A block with transactions of the address.
#[derive(Debug)]
pub struct Found {
    /// The block.
    pub block: StoredBlock,
    /// The indices of the transactions, ascending; there is at least one.
    pub indices: Vec<usize>,
}

impl<'v> Search<'v> {
    /// Starts at block `number`, towards newer or older blocks.
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

    /// Returns the next block with a transaction of the address. `may_continue` is called before each block that is
    /// searched: an account may change in many blocks that have none of its transactions, and that of a block
    /// producer changes in all blocks.
    pub fn next(&mut self, mut may_continue: impl FnMut() -> bool) -> Result<Step, StoredError> {
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
            if !may_continue() {
                return Ok(Step::Cancelled);
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
        let all = 0..block.senders.len();
        of_block(block, self.address, all).map(|mined| Ok(mined?.index)).collect()
    }
}

/// Returns the transactions of an address among those of a block with these indices. Decodes few others.
pub fn of_block(
    block: &StoredBlock,
    address: Address,
    indices: Range<usize>,
) -> impl DoubleEndedIterator<Item = Result<MinedTx<'_>, StoredError>> {
    let is_candidate = move |index: &usize| {
        let sender = block.senders[*index];
        sender == address || may_be_participant(&block.block.transactions[*index], address)
    };
    let end = indices.end.min(block.senders.len());
    let decoded =
        (indices.start..end).filter(is_candidate).filter_map(|index| block.tx(index).transpose());
    decoded.filter(move |mined| mined.as_ref().map_or(true, |mined| is_participant(mined, address)))
}

/// Returns the block with the transaction of a sender that has this nonce, and the index of the transaction.
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
    // The nonces of one sender increase, so a binary search decodes only a few of thousands of transactions.
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
    // A contract used the nonce to create another one, or an authorization used it (EIP-7702).
    Ok(None)
}

/// Returns whether this address is the sender or another participant of a transaction.
fn is_participant(mined: &MinedTx<'_>, address: Address) -> bool {
    let mut others = participants(&mined.tx, mined.sender, mined.cosmos.as_deref());
    mined.sender == address || others.any(|other| other == address)
}
