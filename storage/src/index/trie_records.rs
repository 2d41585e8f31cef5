//! Trie records, which checkpoints write. Checkpoints are less frequent than flushes, so the records describe the
//! state of the last flushed block or of an earlier block. The changes of later blocks are in the `chain` environment.

use alloy_primitives::B256;

use super::{IndexDb, IndexReader, Tables};
use crate::error::{DecodeError, ReadError, WriteError};
use crate::rows;
use crate::table::delete_prefix;
use trie::{RecordRead, TrieCheckpoint};

/// Key in `meta`: number of the block whose state the trie records describe (u64 big-endian), then its
/// state root.
pub(super) const TRIE_KEY: &[u8] = b"trie";

impl IndexDb {
    /// Writes a checkpoint in one transaction, and returns when it is on disk.
    ///
    /// # Errors
    /// If the map or disk is full, or if the checkpoint's block is not later than the block of the previous
    /// checkpoint or has not been flushed. In that case nothing is written.
    pub fn write_trie(&self, checkpoint: &TrieCheckpoint) -> Result<(), WriteError> {
        let mut txn = self.env.write()?;
        let reader = self.reader()?;
        let next = reader.trie_block()?.map_or(0, |(number, _)| number + 1);
        let flushed = reader.flushed()?;
        if checkpoint.number < next || flushed.is_none_or(|flushed| flushed < checkpoint.number) {
            return Err(self.env.not_next(next, checkpoint.number));
        }
        drop(reader);
        let error = |error| self.env.write_error(error);
        let Tables { meta, account_trie, storage_trie, .. } = self.tables;
        for owner in &checkpoint.wiped {
            delete_prefix(storage_trie, &mut txn, owner.as_slice()).map_err(error)?;
        }
        for (table, records) in
            [(account_trie, &checkpoint.accounts), (storage_trie, &checkpoint.storages)]
        {
            let rows = records.rows();
            rows::write(rows, table, &mut txn, rows.len()).map_err(error)?;
        }
        let mut value = [0; 40];
        value[..8].copy_from_slice(&checkpoint.number.to_be_bytes());
        value[8..].copy_from_slice(checkpoint.state_root.as_slice());
        meta.put(&mut txn, TRIE_KEY, &value).map_err(error)?;
        self.env.commit(txn)
    }
}

impl IndexReader {
    /// Returns the block whose state the trie records describe, and its state root; `None` before the first
    /// checkpoint.
    pub fn trie_block(&self) -> Result<Option<(u64, B256)>, ReadError> {
        self.checked(self.tables.meta, TRIE_KEY, |value| {
            let error = DecodeError { what: "trie block is not 40 bytes", at: value.len() };
            let (number, root) = value.split_first_chunk::<8>().ok_or(error)?;
            let root = B256::try_from(root).map_err(|_| error)?;
            Ok((u64::from_be_bytes(*number), root))
        })
    }
}

impl RecordRead for IndexReader {
    type Error = ReadError;

    fn record(&self, storage: bool, key: &[u8]) -> Result<Option<&[u8]>, ReadError> {
        self.txn.get(if storage { self.tables.storage_trie } else { self.tables.account_trie }, key)
    }
}
