//! State roots in receipts before Byzantium. Execution needs its own trie, because the one in seal lags behind.

use super::head::ExecutionHead;
use alloy_primitives::B256;
use evm::StateError;
use state::StateTrie;
use storage::StateChanges;

/// The trie of the execution head's state, if blocks need it.
#[derive(Debug)]
pub(super) struct ReceiptRoots {
    trie: Option<StateTrie>,
    /// Maximum bytes of memory.
    bytes: u64,
}

impl ReceiptRoots {
    pub(super) const fn new(bytes: u64) -> Self {
        Self { trie: None, bytes }
    }

    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Updates the trie to the execution head if the trie is `needed`; drops it otherwise.
    pub(super) fn follow(&mut self, needed: bool, head: &ExecutionHead) -> Result<(), StateError> {
        if !needed {
            self.trie = None;
            return Ok(());
        }
        let index = head.state.index();
        let trie = match &mut self.trie {
            Some(trie) => trie,
            none => none.insert(StateTrie::open(index, self.bytes).map_err(StateError::new)?),
        };
        let blocks = head.chain.reader().map_err(StateError::new)?;
        trie.catch_up(&head.state, &blocks).map_err(StateError::new)?;
        // Seal writes the checkpoints.
        trie.skip_checkpoint();
        let written = index.reader().and_then(|reader| reader.trie_block());
        if let Some((number, _)) = written.map_err(StateError::new)? {
            trie.written(number);
        }
        Ok(())
    }

    /// Returns the state root after `changes` to the state of the execution head.
    pub(super) fn root_after(&self, changes: &StateChanges) -> Result<B256, StateError> {
        let trie = self.trie.as_ref().expect("only called before Byzantium");
        trie.root_after(changes).map_err(StateError::new)
    }
}
