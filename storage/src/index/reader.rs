//! A snapshot of the `index` environment.

use std::ops::{Bound, RangeInclusive};
use std::sync::Arc;

use alloy_primitives::{Address, B256, Bytes, KECCAK256_EMPTY, U256};

use super::keys::{
    SLOT_KEY_BYTES, account_at_key, decode_flushed, decode_location, decode_number, slot_at_key,
    slot_key, trie_key,
};
use super::postings::{POSTING_KEY_BYTES, decode_posting, posting_key};
use super::runs::{Entry, RunError, Runs};
use super::{FLUSHED_KEY, PostingKey, REMEDY, Tables};
use crate::checked::CheckedTable;
use crate::codec;
use crate::error::{DecodeError, ReadError};
use crate::snapshot::ReadTxn;
use crate::table::Table;
use crate::{Account, StateRead};
use trie::{Nibbles, Node, NodeRead, decode_node};

/// A snapshot of the `index` environment. It may be sent to another thread. It pins the pages that
/// it can see, so it should be held no longer than one request takes.
#[derive(Debug)]
pub struct IndexReader {
    pub(super) txn: ReadTxn,
    pub(super) tables: Tables,
}

/// Methods fail only if the file cannot be read or a value is damaged.
impl IndexReader {
    pub(super) fn new(txn: ReadTxn, tables: Tables) -> Self {
        Self { txn, tables }
    }

    /// Returns the transaction id of this snapshot. Snapshots with equal ids have equal contents.
    pub fn txn_id(&self) -> u64 {
        self.txn.id()
    }

    /// Returns the number of the last flushed block. The flat tables contain the state after this block.
    pub fn flushed(&self) -> Result<Option<u64>, ReadError> {
        Ok(self.flushed_block()?.map(|(number, _)| number))
    }

    /// Returns the number and hash of the last flushed block.
    pub fn flushed_block(&self) -> Result<Option<(u64, B256)>, ReadError> {
        self.checked(self.tables.meta, FLUSHED_KEY, decode_flushed)
    }

    /// Returns an account as of the last flushed block.
    pub fn account(&self, address: Address) -> Result<Option<Account>, ReadError> {
        let key = address.as_slice();
        self.decoded(self.tables.accounts, "accounts", key, codec::decode_account)
    }

    /// Returns the number of accounts and storage slots as of the last flushed block. The tables store their
    /// number of entries, so this is O(1).
    pub fn state_entries(&self) -> Result<u64, ReadError> {
        Ok(self.accounts()? + self.count(self.tables.storage)?)
    }

    /// Returns the number of accounts as of the last flushed block.
    pub fn accounts(&self) -> Result<u64, ReadError> {
        self.count(self.tables.accounts)
    }

    fn count(&self, table: Table) -> Result<u64, ReadError> {
        table.len(self.txn.txn()).map_err(|error| self.txn.error(error))
    }

    /// Returns up to `max` addresses from `first` on that have an account as of the last flushed block, in
    /// ascending order.
    pub fn addresses_from(&self, first: Address, max: usize) -> Result<Vec<Address>, ReadError> {
        let range = (Bound::Included(first.as_slice()), Bound::Unbounded);
        let entries = self
            .tables
            .accounts
            .range(self.txn.txn(), &range)
            .map_err(|error| self.txn.error(error))?;
        let mut addresses = Vec::new();
        for entry in entries.take(max) {
            let (key, _) = entry.map_err(|error| self.txn.error(error))?;
            let why = DecodeError { what: "key is not 20 bytes", at: key.len() };
            let address = Address::try_from(key);
            addresses.push(address.map_err(|_| self.txn.corrupt("accounts", key, why))?);
        }
        Ok(addresses)
    }

    /// Returns up to `max` slots of an account from `first` on that are set as of the last flushed block, in
    /// ascending order.
    pub fn slots_from(
        &self,
        address: Address,
        first: U256,
        max: usize,
    ) -> Result<Vec<U256>, ReadError> {
        let (first, last) = (slot_key(address, first), slot_key(address, U256::MAX));
        let range = (Bound::Included(first.as_slice()), Bound::Included(last.as_slice()));
        let entries = self
            .tables
            .storage
            .range(self.txn.txn(), &range)
            .map_err(|error| self.txn.error(error))?;
        let mut slots = Vec::new();
        for entry in entries.take(max) {
            let (key, _) = entry.map_err(|error| self.txn.error(error))?;
            let slot = key.get(20..).filter(|slot| slot.len() == 32);
            let why = DecodeError { what: "slot key is not 52 bytes", at: key.len() };
            slots.push(
                slot.map(U256::from_be_slice)
                    .ok_or_else(|| self.txn.corrupt("storage", key, why))?,
            );
        }
        Ok(slots)
    }

    /// Returns a storage slot as of the last flushed block; zero if it is not set.
    pub fn storage(&self, address: Address, slot: U256) -> Result<U256, ReadError> {
        let key = slot_key(address, slot);
        let word = self.decoded(self.tables.storage, "storage", &key, codec::decode_word)?;
        Ok(word.unwrap_or_default())
    }

    /// Returns whether any storage slot of an account is set as of the last flushed block.
    pub fn has_storage(&self, address: Address) -> Result<bool, ReadError> {
        // Slots that are zero have no entry, so only the first key from the account's slot 0 on must be
        // checked.
        let first = slot_key(address, U256::ZERO);
        let entry = self
            .tables
            .storage
            .get_greater_than_or_equal_to(self.txn.txn(), &first)
            .map_err(|error| self.txn.error(error))?;
        Ok(entry.is_some_and(|(key, _)| key.starts_with(address.as_slice())))
    }

    /// Returns the code with this hash.
    pub fn code(&self, code_hash: B256) -> Result<Option<Bytes>, ReadError> {
        if code_hash == KECCAK256_EMPTY {
            return Ok(Some(Bytes::new()));
        }
        let key = code_hash.as_slice();
        self.checked(self.tables.code, key, |code| Ok(Bytes::copy_from_slice(code)))
    }

    /// Returns an account as of the end of block `number`, which must not be above the last flushed block.
    pub fn account_at(&self, address: Address, number: u64) -> Result<Option<Account>, ReadError> {
        let key = account_at_key(address, number);
        let runs = self.tables.account_history;
        let found = runs.latest(self.txn.txn(), address.as_slice(), &key);
        let Some((key, value)) = found.map_err(|error| self.run_error(runs, error))? else {
            return Ok(None);
        };
        codec::decode_account_entry(value)
            .map_err(|why| self.txn.corrupt(runs.pages.name, key, why))
    }

    /// Returns a storage slot as of the end of block `number`, which must not be above the last flushed block.
    pub fn storage_at(&self, address: Address, slot: U256, number: u64) -> Result<U256, ReadError> {
        let slot_key = slot_key(address, slot);
        let key = slot_at_key(&slot_key, number);
        let runs = self.tables.storage_history;
        let found = runs.latest(self.txn.txn(), &slot_key, &key);
        let Some((key, value)) = found.map_err(|error| self.run_error(runs, error))? else {
            return Ok(U256::ZERO);
        };
        codec::decode_word(value).map_err(|why| self.txn.corrupt(runs.pages.name, key, why))
    }

    /// Returns the newest block up to `number` that changed an account.
    pub fn changed_up_to(&self, address: Address, number: u64) -> Result<Option<u64>, ReadError> {
        let runs = self.tables.account_history;
        let found =
            runs.latest(self.txn.txn(), address.as_slice(), &account_at_key(address, number));
        let found = found.map_err(|error| self.run_error(runs, error))?;
        found.map(|(key, _)| self.block_of(runs, key)).transpose()
    }

    /// Returns the oldest block from `number` up to the last flushed block that changed an account.
    pub fn changed_from(&self, address: Address, number: u64) -> Result<Option<u64>, ReadError> {
        let runs = self.tables.account_history;
        let (first, last) = (account_at_key(address, number), account_at_key(address, u64::MAX));
        let found = runs.earliest(self.txn.txn(), &first, &last);
        let found = found.map_err(|error| self.run_error(runs, error))?;
        found.map(|(key, _)| self.block_of(runs, key)).transpose()
    }

    /// Returns the block number at the end of a key.
    fn block_of(&self, runs: Runs, key: &[u8]) -> Result<u64, ReadError> {
        let why = DecodeError { what: "key without a block number", at: key.len() };
        let number = key.last_chunk().ok_or_else(|| self.txn.corrupt(runs.pages.name, key, why))?;
        Ok(u64::from_be_bytes(*number))
    }

    /// Returns all slots of an account that any block up to the last flushed block has set, in ascending order.
    pub fn slots_with_history(&self, address: Address) -> Result<Vec<U256>, ReadError> {
        let first = slot_at_key(&slot_key(address, U256::ZERO), 0);
        let last = slot_at_key(&slot_key(address, U256::MAX), u64::MAX);
        let runs = self.tables.storage_history;
        let mut slots = Vec::new();
        let each = runs.each(self.txn.txn(), &first, &last, |key, _| {
            let slot = U256::from_be_slice(&key[20..SLOT_KEY_BYTES]);
            if slots.last() != Some(&slot) {
                slots.push(slot);
            }
            Ok(())
        });
        each.map_err(|error| self.run_error(runs, error))?;
        // The slots of each run are ascending, but runs overlap.
        slots.sort_unstable();
        slots.dedup();
        Ok(slots)
    }

    /// Returns the number of the block with this hash.
    pub fn block_number(&self, hash: B256) -> Result<Option<u64>, ReadError> {
        self.checked(self.tables.block_numbers, hash.as_slice(), decode_number)
    }

    /// Adds to `found` the blocks in `range` up to the last flushed block that may match this key, in ascending
    /// order. A few of them may not match.
    pub fn blocks_with(
        &self,
        key: PostingKey,
        range: RangeInclusive<u64>,
        found: &mut Vec<u64>,
    ) -> Result<(), ReadError> {
        // A posting that contains the first block may begin before it.
        let (first, last) = (posting_key(key, 0), posting_key(key, *range.end()));
        let begun = self.posting_up_to(key, *range.start())?.map(|(key, _)| posting_bytes(key));
        let from = begun.unwrap_or(first);
        let runs = self.tables.postings;
        let each = runs.each(self.txn.txn(), &from, &last, |key, value| {
            let take = |block| {
                if range.contains(&block) {
                    found.push(block);
                }
            };
            decode_posting(key, value, take).map_err(|why| RunError::Corrupt(key.to_vec(), why))
        });
        each.map_err(|error| self.run_error(runs, error))
    }

    /// Returns the newest block up to `number` that may match this key.
    pub fn posted_up_to(&self, key: PostingKey, number: u64) -> Result<Option<u64>, ReadError> {
        let Some(posting) = self.posting_up_to(key, number)? else { return Ok(None) };
        let blocks = self.blocks_of(posting)?;
        Ok(blocks.into_iter().rfind(|block| *block <= number))
    }

    /// Returns the oldest block from `number` up to the last flushed block that may match this key.
    pub fn posted_from(&self, key: PostingKey, number: u64) -> Result<Option<u64>, ReadError> {
        if let Some(posting) = self.posting_up_to(key, number)? {
            let blocks = self.blocks_of(posting)?;
            if let Some(found) = blocks.into_iter().find(|block| *block >= number) {
                return Ok(Some(found));
            }
        }
        let runs = self.tables.postings;
        let (first, last) = (posting_key(key, number), posting_key(key, u64::MAX));
        let found = runs.earliest(self.txn.txn(), &first, &last);
        let found = found.map_err(|error| self.run_error(runs, error))?;
        found.map(|(key, _)| self.block_of(runs, key)).transpose()
    }

    /// Returns the newest posting whose first block is at most `block`.
    fn posting_up_to(&self, key: PostingKey, block: u64) -> Result<Option<Entry<'_>>, ReadError> {
        let runs = self.tables.postings;
        let found = runs.latest(self.txn.txn(), &key.0, &posting_key(key, block));
        found.map_err(|error| self.run_error(runs, error))
    }

    /// Returns the blocks of a posting, in ascending order.
    fn blocks_of(&self, (key, value): Entry<'_>) -> Result<Vec<u64>, ReadError> {
        let mut blocks = Vec::new();
        let decoded = decode_posting(key, value, |block| blocks.push(block));
        decoded.map_err(|why| self.txn.corrupt(self.tables.postings.pages.name, key, why))?;
        Ok(blocks)
    }

    /// Returns the block number and index of the transaction with this hash.
    pub fn tx_location(&self, hash: B256) -> Result<Option<(u64, u32)>, ReadError> {
        let runs = self.tables.transactions;
        let found = runs.exact(self.txn.txn(), hash.as_slice());
        let found = found.map_err(|error| self.run_error(runs, error))?;
        let decode = |value| {
            decode_location(value)
                .map_err(|why| self.txn.corrupt(runs.pages.name, hash.as_slice(), why))
        };
        found.map(decode).transpose()
    }

    /// Returns a record of the trie as of the last checkpoint.
    pub fn trie_node(
        &self,
        owner: Option<B256>,
        path: &Nibbles,
    ) -> Result<Option<Arc<Node>>, ReadError> {
        let (table, name) = match owner {
            None => (self.tables.account_trie, "account_trie"),
            Some(_) => (self.tables.storage_trie, "storage_trie"),
        };
        let node = self.decoded(table, name, &trie_key(owner, path), |value| {
            decode_node(&Bytes::copy_from_slice(value))
        })?;
        Ok(node.map(Arc::new))
    }

    /// Reads every page of every run, and verifies checksums, order, counts and filters. Returns the numbers of
    /// pages and entries.
    pub fn verify_runs(&self) -> Result<(u64, u64), ReadError> {
        let Tables { account_history, storage_history, transactions, postings, .. } = self.tables;
        let (mut pages, mut entries) = (0, 0);
        for runs in [account_history, storage_history, transactions, postings] {
            let audit = runs.audit(self.txn.txn()).map_err(|error| self.run_error(runs, error))?;
            pages += audit.pages;
            entries += audit.entries;
        }
        Ok((pages, entries))
    }

    pub(super) fn run_error(&self, runs: Runs, error: RunError) -> ReadError {
        match error {
            RunError::Lmdb(error) => self.txn.error(error),
            RunError::Corrupt(key, why) => self.txn.corrupt(runs.pages.name, &key, why),
        }
    }

    /// Returns the decoded value of a row with checksums.
    pub(super) fn checked<T>(
        &self,
        table: CheckedTable,
        key: &[u8],
        decode: impl FnOnce(&[u8]) -> Result<T, DecodeError>,
    ) -> Result<Option<T>, ReadError> {
        self.decoded(table.table, table.name, key, |row| {
            table.rows.payload(key, row).and_then(decode)
        })
    }

    pub(super) fn decoded<T>(
        &self,
        table: Table,
        name: &'static str,
        key: &[u8],
        decode: impl FnOnce(&[u8]) -> Result<T, DecodeError>,
    ) -> Result<Option<T>, ReadError> {
        let Some(value) = self.txn.get(table, key)? else { return Ok(None) };
        decode(value).map(Some).map_err(|why| self.txn.corrupt(name, key, why))
    }
}

/// Converts the key of a posting; all keys have the same length.
fn posting_bytes(key: &[u8]) -> [u8; POSTING_KEY_BYTES] {
    key.try_into().expect("keys of a table have one length")
}

impl StateRead for IndexReader {
    type Error = ReadError;

    fn account(&self, address: Address) -> Result<Option<Account>, ReadError> {
        self.account(address)
    }

    fn storage(&self, address: Address, slot: U256) -> Result<U256, ReadError> {
        self.storage(address, slot)
    }

    fn code(&self, code_hash: B256) -> Result<Bytes, ReadError> {
        let path = || self.txn.path().to_owned();
        self.code(code_hash)?.ok_or_else(|| ReadError::MissingCode {
            path: path(),
            code_hash,
            remedy: REMEDY,
        })
    }

    fn has_storage(&self, address: Address) -> Result<bool, ReadError> {
        self.has_storage(address)
    }
}

impl NodeRead for IndexReader {
    type Error = ReadError;

    fn node(&self, owner: Option<B256>, path: &Nibbles) -> Result<Option<Arc<Node>>, ReadError> {
        self.trie_node(owner, path)
    }
}
