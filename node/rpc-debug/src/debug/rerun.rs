//! Executes a stored block again on the state of its parent, for data that is not stored.

use crate::replay::trace_error;
use alloy_consensus::Header;
use alloy_primitives::{Address, B256};
use evm::{BlockBuilder, CallSite, ExecutionError, ExecutionHost, StateError};
use modules::Modules;
use rpc_eth::{eth::CallHost, method::Call, module_state::modules_within};
use rpc_types::error::Error;
use state::stored::{self, MinedTx, StoredBlock};
use state::{StateReader, TrieReader};
use std::{error::Error as StdError, sync::Arc};
use storage::{
    BlockFlags, ReadError, StateChanges, StateRead, TrieUpdates,
    trie::{Nibbles, Node, NodeRead, TrieError},
    update_state_root,
};

/// A block that is executed again.
pub(super) struct Rerun<'a> {
    call: &'a Call,
    pub stored: StoredBlock,
    /// The header of the parent.
    pub parent: Header,
    modules: Option<Arc<Modules>>,
}

impl<'a> Rerun<'a> {
    /// Reads block `number`, which must be in the view and have a parent. A block whose state was set by a development
    /// method is refused.
    pub(super) fn new(call: &'a Call, number: u64) -> Result<Self, Error> {
        let blocks = call.view.blocks()?;
        let flags = blocks.flags(number)?.unwrap_or_default();
        if flags.contains(BlockFlags::STATE_SET) {
            let message = "its state was set by a development method, and not by transactions";
            return Err(Error::server(format!(
                "block {number} cannot be executed again: {message}"
            )));
        }
        let stored = StoredBlock::read(&call.context.spec, &blocks, number)?;
        let parent = number.saturating_sub(1);
        let modules = modules_within(call, number)?;
        Ok(Self { call, stored, parent: stored::header(&blocks, parent)?.1, modules })
    }

    /// Returns the state on which the block was executed.
    pub(super) fn state(&self) -> Result<StateReader, Error> {
        Ok(self.call.view.state.reader_at(self.parent.number)?)
    }

    /// Returns the trie of that state.
    pub(super) fn trie(&self) -> Result<ChangedTrie, Error> {
        let trie = self.call.view.trie_at(self.parent.number)?;
        Ok(ChangedTrie { trie, root: self.parent.state_root, updates: TrieUpdates::default() })
    }

    /// Returns the changes by the first `transactions` of the block and by the system calls before them.
    pub(super) fn changes_before(
        &self,
        state: &StateReader,
        host: &CallHost<'_>,
        transactions: usize,
    ) -> Result<StateChanges, Error> {
        let before = self.stored.txs().take(transactions);
        let before = before.map(|tx| tx.map(MinedTx::recovered)).collect::<Result<Vec<_>, _>>()?;
        let (header, hash) = (&self.stored.block.header, self.stored.block.hash);
        let (spec, modules) = (&*self.call.context.spec, self.modules.as_deref());
        let site = CallSite { spec, modules, state, host, header };
        let overlay = site.overlay_after(header, hash, &before);
        Ok(overlay.map_err(|error| trace_error(error, Address::ZERO))?.changes())
    }

    /// Starts executing the block on its parent's state.
    pub(super) fn begin<'b, S>(
        &'b self,
        state: &'b S,
        host: &'b dyn ExecutionHost,
    ) -> Result<BlockBuilder<'b, S>, ExecutionError>
    where
        S: StateRead<Error: StdError + Send + Sync + 'static>,
    {
        let (spec, modules) = (&*self.call.context.spec, self.modules.as_deref());
        BlockBuilder::start(spec, state, host, modules, &self.stored.block.header)
    }
}

/// Returns a placeholder for the state root in receipts, which are discarded.
pub(super) fn no_root(_: &StateChanges) -> Result<B256, StateError> {
    Ok(B256::ZERO)
}

/// A trie of a block with changes that are not stored.
#[derive(Debug)]
pub(super) struct ChangedTrie {
    trie: TrieReader,
    /// The current root.
    pub root: B256,
    updates: TrieUpdates,
}

impl ChangedTrie {
    /// Applies changes and returns the new root.
    pub(super) fn update(&mut self, changes: &StateChanges) -> Result<B256, TrieError<ReadError>> {
        let (root, updates) = update_state_root(self, changes, self.root)?;
        self.updates.extend(&updates);
        self.root = root;
        Ok(root)
    }
}

impl NodeRead for ChangedTrie {
    type Error = ReadError;

    fn node(&self, owner: Option<B256>, path: &Nibbles) -> Result<Option<Arc<Node>>, ReadError> {
        match self.updates.get(owner, path) {
            Some(node) => Ok(node.cloned()),
            None => self.trie.node(owner, path),
        }
    }
}
