//! Reads every entry of every table, to compare two indexes.

use super::IndexReader;
use super::postings::{SUBJECT_BYTES, decode_posting};
use super::runs::{RunError, Runs};
use crate::error::ReadError;
use crate::table::Table;

impl IndexReader {
    /// Passes the table name, key and stored value of every entry to `take`, except the entries that describe the
    /// index itself. What depends on when blocks were flushed is normalized: the entries of all runs of a table are
    /// merged in ascending order, and a posting is split into one entry per block. Indexes of the same blocks and
    /// checkpoint thus have equal entries. Holds the entries of one table in memory.
    ///
    /// # Errors
    /// If the file cannot be read or a page is damaged.
    pub fn each_entry(
        &self,
        mut take: impl FnMut(&'static str, &[u8], &[u8]),
    ) -> Result<(), ReadError> {
        let tables = &self.tables;
        let flat = [
            ("accounts", tables.accounts),
            ("storage", tables.storage),
            ("code", tables.code.table),
            ("account_trie", tables.account_trie),
            ("storage_trie", tables.storage_trie),
            ("block_numbers", tables.block_numbers.table),
        ];
        for (name, table) in flat {
            self.each_row(table, |key, value| take(name, key, value))?;
        }
        for runs in [tables.account_history, tables.storage_history, tables.transactions] {
            let mut entries = Vec::new();
            self.each_of_runs(runs, |key, value| {
                entries.push((key.to_vec(), value.to_vec()));
                Ok(())
            })?;
            entries.sort_unstable();
            entries.iter().for_each(|(key, value)| take(runs.pages.name, key, value));
        }
        let mut entries = Vec::new();
        self.each_of_runs(tables.postings, |key, value| {
            let posted =
                |block: u64| entries.push([&key[..SUBJECT_BYTES], &block.to_be_bytes()].concat());
            decode_posting(key, value, posted).map_err(|why| RunError::Corrupt(key.to_vec(), why))
        })?;
        entries.sort_unstable();
        entries.iter().for_each(|key| take(tables.postings.pages.name, key, &[]));
        Ok(())
    }

    fn each_row(&self, table: Table, mut take: impl FnMut(&[u8], &[u8])) -> Result<(), ReadError> {
        let rows = table.iter(self.txn.txn()).map_err(|error| self.txn.error(error))?;
        for row in rows {
            let (key, value) = row.map_err(|error| self.txn.error(error))?;
            take(key, value);
        }
        Ok(())
    }

    fn each_of_runs(
        &self,
        runs: Runs,
        take: impl FnMut(&[u8], &[u8]) -> Result<(), RunError>,
    ) -> Result<(), ReadError> {
        let (first, last) = (vec![0; runs.key_bytes], vec![0xff; runs.key_bytes]);
        let each = runs.each(self.txn.txn(), &first, &last, take);
        each.map_err(|error| self.run_error(runs, error))
    }
}
