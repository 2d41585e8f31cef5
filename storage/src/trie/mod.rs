//! The state trie of Ethereum (yellow paper, appendix D), updated block by block.
//!
//! An update is a function: nodes of the parent state and the changes of a block in, the new root
//! and the records that differ out. It keeps no state, so layers of unflushed blocks can stand
//! between it and the `index` environment ([`TrieUpdates::get`]).
//!
//! A record is a branch with the path that leads to it (the extension, if any, is part of the
//! record) and with its leaves inside; a child that is a branch itself is another record, one
//! nibble further. Only the root of a trie may be a record that is a leaf. So there are about 0.35
//! records an account, and moving a branch never moves the records below it.
//!
//! Must never: read anything but nodes, or hash one message at a time what can go in a batch.

mod audit;
mod dirty;
mod hashing;
mod live;
mod node;
#[cfg(test)]
mod oracle_tests;
mod ordered;
mod proof;
mod range;
mod root;
mod state;
#[cfg(test)]
mod tests;
mod updates;
mod walk;
mod witness;
#[cfg(test)]
mod witness_tests;

use std::sync::Arc;

use alloy_primitives::B256;

pub use alloy_trie::{EMPTY_ROOT_HASH, Nibbles};
pub use audit::{VerifiedTrie, verify_state_trie};
pub use live::{
    LiveNodes, LiveTrie, RecordRead, TRIE_CACHE_BYTES_DEFAULT, TRIE_CACHE_BYTES_MIN, TrieCheckpoint,
};
pub use node::{Branch, Child, Leaf, Node};
pub use ordered::{ordered_root, ordered_root_with};
pub use proof::{AccountProof, StorageProof, account_proof};
pub use range::leaves_from;
pub use root::{state_root_from_scratch, storage_root_from_scratch};
pub use state::{storage_root, update_state_root};
pub use updates::TrieUpdates;
pub use witness::Witness;

/// Nodes of one state.
pub trait NodeRead {
    /// Why a read failed.
    type Error;
    /// The record at `path` of a trie: the storage trie of the account whose address hashes to
    /// `owner`, or the account trie when `None`.
    ///
    /// # Errors
    /// When the store cannot be read; a record that does not exist is `None`.
    fn node(&self, owner: Option<B256>, path: &Nibbles) -> Result<Option<Arc<Node>>, Self::Error>;
}

/// Why a root could not be computed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrieError<E> {
    /// The node store failed.
    #[error("cannot read the trie: {0}")]
    Read(E),
    /// A record another one refers to is not there.
    #[error("trie node missing: owner {owner:?}, path {path:?}")]
    MissingNode {
        /// Whose storage trie; `None` for the account trie.
        owner: Option<B256>,
        /// Where.
        path: Nibbles,
    },
    /// The nodes are those of another state.
    #[error("trie root is {found}, expected {expected}")]
    RootMismatch {
        /// Root asked for.
        expected: B256,
        /// Root of the nodes.
        found: B256,
    },
    /// A record or value that cannot be where it is.
    #[error("trie damaged ({what}): owner {owner:?}, path {path:?}")]
    Damaged {
        /// What is wrong.
        what: &'static str,
        /// Whose storage trie; `None` for the account trie.
        owner: Option<B256>,
        /// Where.
        path: Nibbles,
    },
}

impl<E> TrieError<TrieError<E>> {
    /// The error of a trie that is read through another one.
    pub fn flatten(self) -> TrieError<E> {
        match self {
            Self::Read(error) => error,
            Self::MissingNode { owner, path } => TrieError::MissingNode { owner, path },
            Self::RootMismatch { expected, found } => TrieError::RootMismatch { expected, found },
            Self::Damaged { what, owner, path } => TrieError::Damaged { what, owner, path },
        }
    }
}
