//! The state trie of Ethereum (yellow paper, appendix D), updated block by block.
//!
//! [`LiveTrie`] keeps the tries of the newest state in memory. [`update_state_root`] is a pure function that
//! computes the new root and the changed records from the nodes of the parent state and a block's changes. The
//! nodes can come from unflushed blocks ([`TrieUpdates::get`]) and from the `index` environment of `storage`.
//!
//! A record contains a branch, its prefix (the extension, if there is one) and those of its children that are
//! leaves. A child that is a branch has its own record, one nibble below. Only the root record of a trie may be
//! a leaf. As a result, there are about 0.35 records per account, and moving a branch never moves the records
//! below it.
//!
//! This crate must read nothing but nodes, and must not hash messages one by one if they can be hashed in a
//! batch.

mod account;
mod audit;
mod decode_node;
mod dirty;
#[cfg(test)]
mod encode_node;
mod hashing;
#[cfg(test)]
mod history;
mod live;
mod node;
mod ordered;
mod prefetch;
pub mod primitive;
mod proof;
mod range;
#[cfg(test)]
mod record_tests;
mod root;
pub mod rows;
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

use decode_node::{PLAIN_ACCOUNT_END, record};
pub use decode_node::{decode_node, encode_path_key};
#[cfg(test)]
use encode_node::encode_node;

pub use account::{Account, AccountChange, StateChanges, StateRead, address_order};
pub use alloy_trie::{EMPTY_ROOT_HASH, Nibbles};
pub use audit::{VerifiedTrie, verify_state_trie};
pub use live::{
    LiveNodes, LiveTrie, MIN_TRIE_CACHE_BYTES, RecordRead, Records, TRIE_CACHE_BYTES_DEFAULT,
    TrieCheckpoint,
};
pub use node::{Branch, Child, Leaf, Node};
pub use ordered::{ordered_root, ordered_root_with};
pub use prefetch::prefetch;
pub use proof::{AccountProof, StorageProof, account_proof};
pub use range::leaves_from;
pub use root::{state_root_from_scratch, storage_root_from_scratch};
pub use state::{storage_root, update_state_root};
pub use updates::TrieUpdates;
pub use witness::Witness;

/// Nodes of one state.
pub trait NodeRead {
    /// The error of a failed read.
    type Error;
    /// Returns the record at `path` of a trie: the storage trie of the account whose address hashes to `owner`,
    /// or the account trie if `owner` is `None`.
    ///
    /// # Errors
    /// If the store cannot be read; a record that does not exist is `None`.
    fn node(&self, owner: Option<B256>, path: &Nibbles) -> Result<Option<Arc<Node>>, Self::Error>;
}

/// Why a trie could not be read or updated.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrieError<E> {
    /// The node store failed.
    #[error("cannot read the trie: {0}")]
    Read(E),
    /// A referenced record is missing.
    #[error("trie node missing: owner {owner:?}, path {path:?}")]
    MissingNode {
        /// Hashed address of a storage trie; `None` for the account trie.
        owner: Option<B256>,
        /// Path of the record.
        path: Nibbles,
    },
    /// The nodes belong to a different state.
    #[error("trie root is {found}, expected {expected}")]
    RootMismatch {
        /// Expected root.
        expected: B256,
        /// Root of the nodes.
        found: B256,
    },
    /// A record or value is invalid at its position.
    #[error("trie damaged ({what}): owner {owner:?}, path {path:?}")]
    Damaged {
        /// What is wrong.
        what: &'static str,
        /// Hashed address of a storage trie; `None` for the account trie.
        owner: Option<B256>,
        /// Path of the record.
        path: Nibbles,
    },
}

impl<E> TrieError<TrieError<E>> {
    /// Flattens the error of a trie that was read through another trie.
    pub fn flatten(self) -> TrieError<E> {
        match self {
            Self::Read(error) => error,
            Self::MissingNode { owner, path } => TrieError::MissingNode { owner, path },
            Self::RootMismatch { expected, found } => TrieError::RootMismatch { expected, found },
            Self::Damaged { what, owner, path } => TrieError::Damaged { what, owner, path },
        }
    }
}
