//! LMDB environments, their tables and codecs. This crate does not depend on the crates in `node/`.
//!
//! - [`ChainDb`]: the `chain` environment, to which every block is appended and synced. It is the source of
//!   truth.
//! - [`IndexDb`]: the `index` environment with flat state, history, trie records and lookups, which are flushed
//!   in bulk. It can be rebuilt from the chain.
//! - [`trie`]: the crate of the state trie, which computes a root and records from state changes.
//! - [`HomeLock`]: the lock of a home folder.
//! - [`prefetch`]: prefetches memory that will be read soon.
//!
//! A block is stored as follows:
//!
//! ```
//! use alloy_primitives::{Address, B256, Bytes, U256};
//! use storage::trie::{EMPTY_ROOT_HASH, TRIE_CACHE_BYTES_DEFAULT};
//! use storage::{
//!     Account, AccountChange, BlockFlags, BlockRecord, ChainDb, ChainOptions, FlushBlock, HomeLock, IndexDb,
//!     IndexOptions, LiveTrie, StateChanges,
//! };
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let home = folder.path();
//! let _lock = HomeLock::acquire(home)?;
//! let chain = ChainDb::open(home.join("chain"), ChainOptions::default())?;
//! let index = IndexDb::open(home.join("index"), IndexOptions::default())?;
//!
//! let funded = AccountChange {
//!     address: Address::repeat_byte(1),
//!     account: Some(Account { balance: U256::from(7), ..Account::default() }),
//!     wiped: false,
//!     slots: Vec::new(),
//! };
//! let changes = StateChanges { accounts: vec![funded], codes: Vec::new() };
//! let mut trie = LiveTrie::new(EMPTY_ROOT_HASH, TRIE_CACHE_BYTES_DEFAULT);
//! let state_root = trie.update(&index.reader()?, &changes)?;
//! assert_ne!(state_root, EMPTY_ROOT_HASH);
//!
//! let block = BlockRecord {
//!     number: 0,
//!     hash: B256::repeat_byte(2),
//!     flags: BlockFlags::NONE,
//!     header: Bytes::from_static(b"header"),
//!     body: Bytes::new(),
//!     senders: Vec::new(),
//!     receipts: Vec::new(),
//!     changes: changes.into(),
//!     fees: Bytes::new(),
//!     module: Bytes::new(),
//!     governance: Vec::new(),
//!     certificate: None,
//! };
//! chain.append(&[&block])?; // durable from here
//!
//! let (number, hash, changes) = (block.number, block.hash, &block.changes);
//! index.flush(&[FlushBlock { number, hash, tx_hashes: &[], posting_keys: &[], changes }])?;
//! index.write_trie(&trie.checkpoint(number))?;
//! let reader = index.reader()?;
//! assert_eq!(reader.flushed()?, Some(0));
//! assert_eq!(reader.account(Address::repeat_byte(1))?.unwrap().balance, U256::from(7));
//! # Ok(())
//! # }
//! ```
//!
//! `docs/storage-format.md` describes every byte on disk.

mod chain;
mod checked;
mod codec;
mod data_file;
mod disk_space;
mod env;
mod error;
mod flags;
mod folders;
#[cfg(test)]
#[path = "../trie/src/history.rs"]
mod history;
mod home;
mod index;
mod kind;
mod reader_table;
mod readers;
mod receipt;
mod rows;
mod snapshot;
mod sorted_index;
mod table;

pub use chain::{
    BlockRecord, CHAIN_FORMAT, CHAIN_MAP_BYTES_DEFAULT, ChainDb, ChainOptions, ChainReader,
    GovernanceItems, GovernanceKey, GovernanceRow, MigrationProgress,
};
pub use codec::{decode_changes, decode_changes_within, decode_receipts, decode_receipts_checked};
pub use disk_space::disk_available_bytes;
pub use env::{EnvStats, MIN_MAP_BYTES, TableSize};
pub use error::{DecodeError, OpenError, ReadError, SameProcessId, WriteError};
pub use flags::BlockFlags;
pub use folders::{OPEN_FOLDER_MODE, folder_of, make_folder, sync_folder};
pub use home::{HomeLock, LOCK_FILE, refuse_root};
#[cfg(any(test, fuzzing))]
pub use index::fuzzing;
pub use index::{
    FlushBlock, INDEX_FORMAT, INDEX_MAP_BYTES_DEFAULT, IndexDb, IndexOptions, IndexReader,
    PostingKey,
};
pub use reader_table::MAX_READERS;
pub use receipt::{ReceiptOutcome, StoredReceipt};
pub use sorted_index::SortedIndex;
pub use trie;
pub use trie::{
    Account, AccountChange, LiveTrie, StateChanges, StateRead, TrieCheckpoint, TrieUpdates,
    address_order, prefetch, update_state_root,
};
