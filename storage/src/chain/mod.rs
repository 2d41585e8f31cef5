//! The `chain` environment: every block, appended, and nothing else. This is the truth.
//!
//! Tables are keyed by block number (u64 big-endian), one value a kind and block, written with
//! `MDB_APPEND` in one transaction a call and synced before the call returns. A block is there
//! whole or not at all, and numbers follow each other without gap. Must never be written by
//! anything derived from the `index` environment.

mod reader;

use std::borrow::Borrow;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

use alloy_primitives::{Address, B256, Bytes, Log};
use heed::{PutFlags, RwTxn};

use crate::codec;
use crate::env::{EnvStats, Environment, KeyRange, Kind, Table};
use crate::error::{OpenError, ReadError, WriteError};
use crate::state::StateChanges;

pub use reader::ChainReader;

/// Format number of the `chain` environment.
pub const CHAIN_FORMAT: u32 = 3;
/// Default map size, bytes: address space only, far beyond any disk meant for this.
pub const CHAIN_MAP_BYTES_DEFAULT: u64 = 1 << 40;
/// First bytes of our own keys in `meta`, so that callers' keys never meet them.
const CALLER_KEY_PREFIX: &[u8] = b"user.";

const KIND: Kind = Kind {
    name: "chain",
    map_setting: "storage.chain-map-bytes",
    format: CHAIN_FORMAT,
    remedy: "export the blocks with the program that wrote them and import them into a new home",
};

/// One transaction's receipt, without what follows from its block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredReceipt {
    /// EIP-2718 type; 0 for legacy.
    pub tx_type: u8,
    /// How it ended.
    pub outcome: ReceiptOutcome,
    /// Gas used in the block up to and including this transaction.
    pub cumulative_gas_used: u64,
    /// Logs in the order emitted.
    pub logs: Vec<Log>,
}

/// First field of a receipt (EIP-658).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiptOutcome {
    /// Since Byzantium: whether the transaction succeeded.
    Status(bool),
    /// Before Byzantium: state root after the transaction.
    PostState(B256),
}

/// A finished block with all that follows from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockRecord {
    /// Block number.
    pub number: u64,
    /// Keccak-256 of the header.
    pub hash: B256,
    /// RLP of the header.
    pub header: Bytes,
    /// RLP of the block's list items after the header (transactions, ommers and, since Shanghai,
    /// withdrawals) without the outer list header.
    pub body: Bytes,
    /// Sender of each transaction.
    pub senders: Vec<Address>,
    /// Receipt of each transaction.
    pub receipts: Vec<StoredReceipt>,
    /// What the block changed in the state.
    pub changes: Arc<StateChanges>,
    /// Row of the fee history; opaque here.
    pub fees: Bytes,
    /// Row of native module state; opaque here, may be empty.
    pub module: Bytes,
}

/// How to open the `chain` environment.
#[derive(Clone, Copy, Debug)]
pub struct ChainOptions {
    /// Most bytes the file may grow to. Costs address space only.
    pub map_bytes: u64,
}

impl Default for ChainOptions {
    fn default() -> Self {
        Self { map_bytes: CHAIN_MAP_BYTES_DEFAULT }
    }
}

/// Tables of the `chain` environment.
#[derive(Clone, Copy, Debug)]
struct Tables {
    meta: Table,
    headers: Table,
    bodies: Table,
    senders: Table,
    receipts: Table,
    changes: Table,
    fees: Table,
    module: Table,
}

const NAMES: [&str; 7] = ["headers", "bodies", "senders", "receipts", "changes", "fees", "module"];

impl Tables {
    /// All tables keyed by block number, in the order of [`NAMES`].
    fn by_number(&self) -> [Table; 7] {
        [
            self.headers,
            self.bodies,
            self.senders,
            self.receipts,
            self.changes,
            self.fees,
            self.module,
        ]
    }
}

/// The `chain` environment. Clones share it.
#[derive(Clone, Debug)]
pub struct ChainDb {
    env: Environment,
    tables: Tables,
}

impl ChainDb {
    /// Opens or makes the environment in the folder `path`.
    ///
    /// # Errors
    /// When the folder cannot be used, holds something else, or has another format.
    pub fn open(path: impl AsRef<Path>, options: ChainOptions) -> Result<Self, OpenError> {
        let (env, meta, tables) = Environment::open(path.as_ref(), KIND, options.map_bytes, NAMES)?;
        let [headers, bodies, senders, receipts, changes, fees, module] = tables;
        let tables = Tables { meta, headers, bodies, senders, receipts, changes, fees, module };
        Ok(Self { env, tables })
    }

    /// Appends blocks in one transaction; when this returns they are on disk. The first block
    /// ever appended may have any number, each later one must follow its predecessor.
    ///
    /// # Errors
    /// A gap or repetition, a full map or disk. Nothing of the slice is then kept.
    pub fn append<R: Borrow<BlockRecord>>(&self, blocks: &[R]) -> Result<(), WriteError> {
        if blocks.is_empty() {
            return Ok(());
        }
        let mut txn = self.env.write()?;
        let mut next = self.head_number(&txn)?.map(|head| head + 1);
        let mut scratch = Vec::new();
        for block in blocks {
            let block = block.borrow();
            let expected = next.unwrap_or(block.number);
            if block.number != expected {
                return Err(self.env.not_next(expected, block.number));
            }
            self.put_block(&mut txn, block, &mut scratch)
                .map_err(|error| self.env.write_error(error))?;
            next = Some(block.number + 1);
        }
        self.env.commit(txn)
    }

    fn put_block(
        &self,
        txn: &mut RwTxn<'_>,
        block: &BlockRecord,
        scratch: &mut Vec<u8>,
    ) -> Result<(), heed::Error> {
        let key = block.number.to_be_bytes();
        let tables = &self.tables;
        let mut put =
            |table: Table, value: &[u8]| table.put_with_flags(txn, PutFlags::APPEND, &key, value);
        scratch.clear();
        codec::encode_header(scratch, &block.hash, &block.header);
        put(tables.headers, scratch)?;
        put(tables.bodies, &block.body)?;
        scratch.clear();
        codec::encode_senders(scratch, &block.senders);
        put(tables.senders, scratch)?;
        scratch.clear();
        codec::encode_receipts(scratch, &block.receipts);
        put(tables.receipts, scratch)?;
        scratch.clear();
        codec::encode_changes(scratch, &block.changes);
        put(tables.changes, scratch)?;
        put(tables.fees, &block.fees)?;
        put(tables.module, &block.module)
    }

    /// Removes every block above `number` (rollback). Returns how many there were.
    ///
    /// An index that has flushed beyond `number` no longer belongs to the chain and has to be wiped
    /// and built again.
    ///
    /// # Errors
    /// A full map or disk; nothing is then removed.
    pub fn truncate_after(&self, number: u64) -> Result<u64, WriteError> {
        let mut txn = self.env.write()?;
        let Some(first) = number.checked_add(1) else { return Ok(0) };
        let first = first.to_be_bytes();
        let range: KeyRange<'_> = (Bound::Included(&first), Bound::Unbounded);
        let mut removed = 0;
        for table in self.tables.by_number() {
            removed = table
                .delete_range(&mut txn, &range)
                .map_err(|error| self.env.write_error(error))?;
        }
        self.env.commit(txn)?;
        Ok(removed as u64)
    }

    /// Keeps `value` under `key`, durably: what belongs to the chain but to no block, such as the
    /// genesis file. `key` is 1 to 500 bytes.
    ///
    /// # Errors
    /// A full map or disk, or a key of another length.
    pub fn put_meta(&self, key: &str, value: &[u8]) -> Result<(), WriteError> {
        let mut txn = self.env.write()?;
        self.tables
            .meta
            .put(&mut txn, &caller_key(key), value)
            .map_err(|error| self.env.write_error(error))?;
        self.env.commit(txn)
    }

    /// What [`Self::put_meta`] kept under `key`.
    ///
    /// # Errors
    /// When the environment cannot be read.
    pub fn meta(&self, key: &str) -> Result<Option<Bytes>, ReadError> {
        let txn = self.env.read()?;
        Ok(txn.get(self.tables.meta, &caller_key(key))?.map(Bytes::copy_from_slice))
    }

    /// A snapshot of what is committed now.
    ///
    /// # Errors
    /// When all reader slots are in use.
    pub fn reader(&self) -> Result<ChainReader, ReadError> {
        Ok(ChainReader::new(self.env.read()?, self.tables))
    }

    /// Copies what is committed now into the folder `to`, compacted and synced, while writing goes on.
    ///
    /// # Errors
    /// When the folder cannot be written.
    pub fn copy(&self, to: impl AsRef<Path>) -> Result<(), WriteError> {
        self.env.copy(to.as_ref())
    }

    /// Map, transaction and reader figures.
    pub fn stats(&self) -> EnvStats {
        self.env.stats()
    }

    /// Folder of the environment.
    pub fn path(&self) -> &Path {
        self.env.path()
    }

    fn head_number(&self, txn: &RwTxn<'_>) -> Result<Option<u64>, WriteError> {
        let last = self.tables.headers.last(txn).map_err(|error| self.env.write_error(error))?;
        let number = last.map(|(key, _)| reader::decode_number(key));
        number
            .transpose()
            .map_err(|source| ReadError::corrupt(self.env.path(), "headers", &[], source).into())
    }
}

fn caller_key(key: &str) -> Vec<u8> {
    [CALLER_KEY_PREFIX, key.as_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A value that no codec accepts: a count, and nothing after it.
    const DAMAGED: &[u8] = &[0x7f];

    #[test]
    fn a_damaged_value_is_told_with_its_table_and_key() {
        let folder = tempfile::tempdir().unwrap();
        let chain = ChainDb::open(folder.path(), ChainOptions { map_bytes: 1 << 20 }).unwrap();
        let mut txn = chain.env.write().unwrap();
        for table in chain.tables.by_number() {
            table.put(&mut txn, &7u64.to_be_bytes(), DAMAGED).unwrap();
        }
        chain.env.commit(txn).unwrap();
        let reader = chain.reader().unwrap();
        let errors = [
            ("headers", reader.head().unwrap_err()),
            ("headers", reader.header(7).unwrap_err()),
            ("senders", reader.senders(7).unwrap_err()),
            ("receipts", reader.receipts(7).unwrap_err()),
            ("changes", reader.changes(7).unwrap_err()),
        ];
        for (expected, error) in errors {
            match &error {
                ReadError::Corrupt { table, key, .. } => {
                    assert_eq!((*table, key.as_str()), (expected, "0000000000000007"));
                }
                other => panic!("{other}"),
            }
            assert!(error.to_string().contains(expected), "{error}");
        }
    }
}
