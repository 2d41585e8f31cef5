//! LMDB environments, tables, codecs and the state trie. Knows nothing of `node`.
//!
//! - [`ChainDb`]: the `chain` environment, every block appended and synced: the truth.
//! - [`IndexDb`]: the `index` environment, flat state, history, trie records and lookups, flushed
//!   in bulk and rebuilt from the chain when lost.
//! - [`trie`]: the Merkle-Patricia state trie as a function from changes to a root and records.
//! - [`HomeLock`]: one process a home folder.
//!
//! Every byte on disk is described in `docs/storage-format.md`.

mod chain;
mod codec;
mod env;
mod error;
#[cfg(test)]
mod history;
mod home;
mod index;
mod room;
mod snapshot;
mod state;
pub mod trie;

pub use chain::{
    BlockRecord, CHAIN_FORMAT, CHAIN_MAP_BYTES_DEFAULT, ChainDb, ChainOptions, ChainReader,
    ReceiptOutcome, StoredReceipt,
};
pub use env::{EnvStats, READERS_MAX};
pub use error::{DecodeError, OpenError, ReadError, WriteError};
pub use home::HomeLock;
pub use index::{
    FlushBlock, INDEX_FORMAT, INDEX_MAP_BYTES_DEFAULT, IndexDb, IndexOptions, IndexReader,
};
pub use state::{Account, AccountChange, StateChanges, StateRead};
pub use trie::{TrieUpdates, update_state_root};
