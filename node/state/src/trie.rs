//! Derives the trie after any block from the trie of the index.
//!
//! Trie records are stored for one block only, that of the last checkpoint. For a later block, the changes since then
//! are read from the chain; for an earlier one, the values before them from history. They are applied in one trie
//! update, whose root must be that of the requested block. So any block can be proven, at a cost that grows with the
//! changes between the two blocks, up to a limit.

use super::{StateReader, View};
use alloy_primitives::{Address, B256, U256, map::HashMap};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};
use storage::{
    Account, AccountChange, ReadError, StateChanges, StateRead, TrieUpdates,
    trie::{Nibbles, Node, NodeRead, TrieError},
    update_state_root,
};

/// Maximum number of changed accounts and slots between the two blocks, which take about a second.
pub const MAX_UNDONE_RECORDS: usize = 200_000;

/// Why the trie of a block is not available.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrieViewError {
    /// The chain or the index could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A trie node is missing or damaged.
    #[error(transparent)]
    Trie(#[from] TrieError<ReadError>),
    /// Too many accounts and slots changed between the block and the last checkpoint.
    #[error(
        "more than {MAX_UNDONE_RECORDS} accounts and slots changed between block {0} and the block that \
         trie records are kept of"
    )]
    TooOld(u64),
    /// The trie of the index is already that of a newer block.
    #[error("the pending block {0} is older than the trie: try again")]
    Outdated(u64),
    /// The chain or history does not result in the block's state root.
    #[error("history gives state root {found} for block {number}, not {expected}")]
    Damaged {
        /// The block.
        number: u64,
        /// Its state root.
        expected: B256,
        /// The resulting root.
        found: B256,
    },
    /// A row of the chain is missing or cannot be decoded.
    #[error("block {0} is damaged")]
    Block(u64),
}

/// The trie after one block.
#[derive(Debug)]
pub struct TrieReader {
    state: StateReader,
    /// The nodes that differ from those of the index; `None` if there are none.
    between: Option<TrieUpdates>,
}

impl NodeRead for TrieReader {
    type Error = ReadError;

    fn node(&self, owner: Option<B256>, path: &Nibbles) -> Result<Option<Arc<Node>>, ReadError> {
        match self.between.as_ref().and_then(|between| between.get(owner, path)) {
            Some(node) => Ok(node.cloned()),
            None => self.state.index().trie_node(owner, path),
        }
    }
}

impl View {
    /// Returns the trie after block `number`, at or below the head.
    ///
    /// # Errors
    /// If more than [`MAX_UNDONE_RECORDS`] changed between the block and the last checkpoint of the trie, or data
    /// cannot be read.
    pub fn trie_at(&self, number: u64) -> Result<TrieReader, TrieViewError> {
        let state = self.state.reader_at(number)?;
        let (at, root) = state.index().trie_block()?.ok_or(TrieViewError::Block(number))?;
        let is_pending = number > self.state.canonical();
        if is_pending && at > self.state.canonical() {
            // The changes of the pending block can be applied, but the changes of the canonical block with the same
            // number cannot be reverted in the same update.
            return Err(TrieViewError::Outdated(number));
        }
        if at == number {
            return Ok(TrieReader { state, between: None });
        }
        let changes = match at < number {
            true => self.redo(at, number)?,
            false => self.undo(&state, number, at)?,
        };
        let (found, between) = update_state_root(state.index(), &changes, root)?;
        let expected = self.state_root(number)?;
        if found != expected {
            return Err(TrieViewError::Damaged { number, expected, found });
        }
        Ok(TrieReader { state, between: Some(between) })
    }

    fn state_root(&self, number: u64) -> Result<B256, TrieViewError> {
        if number == self.number() {
            return Ok(self.head.header.state_root);
        }
        let damaged = || TrieViewError::Block(number);
        let (_, header) = self.blocks()?.header(number)?.ok_or_else(damaged)?;
        let header: alloy_consensus::Header =
            alloy_rlp::decode_exact(&header).map_err(|_| damaged())?;
        Ok(header.state_root)
    }

    /// Returns the changes of the blocks after `at` up to `number`, with the values after them.
    fn redo(&self, at: u64, number: u64) -> Result<StateChanges, TrieViewError> {
        let mut touched: BTreeMap<Address, Changed> = BTreeMap::new();
        self.changes_between(at, number, number, |change| {
            let touched = touched.entry(change.address).or_default();
            if change.wiped || change.account.is_none() {
                touched.wiped = true;
                touched.slots.clear();
            }
            touched.account = change.account;
            touched.slots.extend(change.slots.iter().copied());
        })?;
        let accounts = touched.into_iter().map(|(address, touched)| AccountChange {
            address,
            account: touched.account,
            wiped: touched.wiped,
            slots: touched.slots.into_iter().collect(),
        });
        Ok(StateChanges { accounts: accounts.collect(), codes: Vec::new() })
    }

    /// Calls `each` with the changes of the blocks after `first` up to `last`. Errors name block `wanted`.
    fn changes_between(
        &self,
        first: u64,
        last: u64,
        wanted: u64,
        mut each: impl FnMut(&AccountChange),
    ) -> Result<(), TrieViewError> {
        let blocks = self.blocks()?;
        let mut weight = 0;
        for number in first + 1..=last {
            let layer = self.state.layers().iter().find(|layer| layer.number() == number);
            let stored = match layer {
                Some(_) => None,
                None => Some(blocks.changes(number)?.ok_or(TrieViewError::Block(number))?),
            };
            let changes = layer.map(|layer| layer.changes()).or(stored.as_ref());
            for change in changes.map_or(&[][..], |changes| &changes.accounts) {
                weight += 1 + change.slots.len();
                each(change);
            }
            if weight > MAX_UNDONE_RECORDS {
                return Err(TrieViewError::TooOld(wanted));
            }
        }
        Ok(())
    }

    /// Returns the changes of the blocks after `number` up to `at`, with the values before them.
    fn undo(
        &self,
        state: &StateReader,
        number: u64,
        at: u64,
    ) -> Result<StateChanges, TrieViewError> {
        let mut touched: HashMap<Address, Touched> = HashMap::default();
        self.changes_between(number, at, number, |change| {
            let touched = touched.entry(change.address).or_default();
            touched.wiped |= change.wiped || change.account.is_none();
            touched.slots.extend(change.slots.iter().map(|(slot, _)| *slot));
        })?;
        let mut accounts = Vec::with_capacity(touched.len());
        for (address, touched) in touched {
            accounts.push(touched.before(state, address)?);
        }
        accounts.sort_unstable_by_key(|change| change.address);
        Ok(StateChanges { accounts, codes: Vec::new() })
    }
}

/// The combined changes of blocks to an account.
#[derive(Default)]
struct Changed {
    account: Option<Account>,
    /// Whether the storage was cleared at least once, before these slots were set.
    wiped: bool,
    slots: BTreeMap<U256, U256>,
}

/// The changes of later blocks to an account.
#[derive(Default)]
struct Touched {
    /// Whether the storage was cleared at least once.
    wiped: bool,
    slots: BTreeSet<U256>,
}

impl Touched {
    fn before(self, state: &StateReader, address: Address) -> Result<AccountChange, TrieViewError> {
        let account = state.account(address)?;
        // The changes of a block do not list the slots that it cleared, but the history of the account does.
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
