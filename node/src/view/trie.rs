//! The trie after a block of the past: that of the index, with the blocks since undone.
//!
//! Trie nodes are kept of the newest flushed state only. What the blocks since changed is known
//! from the chain, and what was there before from history; putting that back is one trie update,
//! whose root must be the wanted block's. So any block can be proven, at a cost that grows with
//! what has changed since, up to a bound.

use super::{StateReader, View};
use alloy_primitives::{Address, B256, U256, map::HashMap};
use std::{collections::BTreeSet, sync::Arc};
use storage::{
    AccountChange, ReadError, StateChanges, StateRead, TrieUpdates,
    trie::{Nibbles, Node, NodeRead, TrieError},
    update_state_root,
};

/// Most accounts and slots put back: about a second's work.
pub const UNDONE_MAX: usize = 200_000;

/// Why there is no trie of a block.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrieViewError {
    /// The chain or the index could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A trie node is missing or damaged.
    #[error(transparent)]
    Trie(#[from] TrieError<ReadError>),
    /// Too much has changed since.
    #[error("more than {UNDONE_MAX} accounts and slots changed since block {0}")]
    TooOld(u64),
    /// What history says does not give the block's state root.
    #[error("history gives state root {found} for block {number}, not {expected}")]
    Damaged {
        /// The block.
        number: u64,
        /// Its state root.
        expected: B256,
        /// The root history gives.
        found: B256,
    },
    /// A row of the chain is missing or does not decode.
    #[error("block {0} is damaged")]
    Block(u64),
}

/// The trie after one block.
#[derive(Debug)]
pub struct TrieReader {
    state: StateReader,
    /// For a block of the past: how its nodes differ from those of the index.
    undone: Option<TrieUpdates>,
}

impl NodeRead for TrieReader {
    type Error = ReadError;

    fn node(&self, owner: Option<B256>, path: &Nibbles) -> Result<Option<Arc<Node>>, ReadError> {
        match &self.undone {
            None => self.state.node(owner, path),
            Some(undone) => match undone.get(owner, path) {
                Some(node) => Ok(node.cloned()),
                None => self.state.index().trie_node(owner, path),
            },
        }
    }
}

impl View {
    /// The trie after block `number`, at or below the head.
    ///
    /// # Errors
    /// When too much has changed since the block, or something cannot be read.
    pub fn trie_at(&self, number: u64) -> Result<TrieReader, TrieViewError> {
        let state = self.state.reader_at(number)?;
        if state.has_trie() {
            return Ok(TrieReader { state, undone: None });
        }
        let flushed = state.index().flushed()?.ok_or(TrieViewError::Block(number))?;
        let before = self.undo(&state, number, flushed)?;
        let newest = self.state_root(flushed)?;
        let (found, undone) = update_state_root(state.index(), &before, newest)?;
        let expected = self.state_root(number)?;
        if found != expected {
            return Err(TrieViewError::Damaged { number, expected, found });
        }
        Ok(TrieReader { state, undone: Some(undone) })
    }

    fn state_root(&self, number: u64) -> Result<B256, TrieViewError> {
        let damaged = || TrieViewError::Block(number);
        let (_, header) = self.blocks()?.header(number)?.ok_or_else(damaged)?;
        let header: alloy_consensus::Header =
            alloy_rlp::decode_exact(&header).map_err(|_| damaged())?;
        Ok(header.state_root)
    }

    /// What the blocks after `number` up to `flushed` changed, as it was before.
    fn undo(
        &self,
        state: &StateReader,
        number: u64,
        flushed: u64,
    ) -> Result<StateChanges, TrieViewError> {
        let blocks = self.blocks()?;
        let mut touched: HashMap<Address, Touched> = HashMap::default();
        let mut weight = 0;
        for later in number + 1..=flushed {
            let changes = blocks.changes(later)?.ok_or(TrieViewError::Block(later))?;
            for change in &changes.accounts {
                weight += 1 + change.slots.len();
                let touched = touched.entry(change.address).or_default();
                touched.wiped |= change.wiped || change.account.is_none();
                touched.slots.extend(change.slots.iter().map(|(slot, _)| *slot));
            }
            if weight > UNDONE_MAX {
                return Err(TrieViewError::TooOld(number));
            }
        }
        let mut accounts = Vec::with_capacity(touched.len());
        for (address, touched) in touched {
            accounts.push(touched.before(state, address)?);
        }
        accounts.sort_unstable_by_key(|change| change.address);
        Ok(StateChanges { accounts, codes: Vec::new() })
    }
}

/// What later blocks did to an account.
#[derive(Default)]
struct Touched {
    /// Its storage was cleared at least once.
    wiped: bool,
    slots: BTreeSet<U256>,
}

impl Touched {
    fn before(self, state: &StateReader, address: Address) -> Result<AccountChange, TrieViewError> {
        let account = state.account(address)?;
        // What was cleared is in no block's changes, but in the history of the account's slots.
        let slots = match self.wiped {
            true => state.index().slots_with_history(address)?,
            false => self.slots.into_iter().collect(),
        };
        let mut before = Vec::with_capacity(slots.len());
        for slot in slots {
            let value = state.storage(address, slot)?;
            if !(self.wiped && value.is_zero()) {
                before.push((slot, value));
            }
        }
        if account.is_none() {
            before.clear();
        }
        Ok(AccountChange { address, account, wiped: self.wiped, slots: before })
    }
}
