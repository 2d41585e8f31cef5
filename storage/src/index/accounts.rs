//! Writes the changes of accounts and their storage: the last value of each key into the flat tables, in key
//! order, and all values into a history run.
//!
//! Changes are processed by account: after sorting, all changes of an account are adjacent, oldest
//! first, so no map is needed.

use std::collections::BTreeMap;

use alloy_primitives::{Address, U256};
use heed::RwTxn;

use super::keys::{SLOT_KEY_BYTES, account_at_key, slot_at_key, slot_key};
use super::runs::{AddedRun, NewRun, Runs};
use super::{FlushBlock, Tables};
use crate::AccountChange;
use crate::codec;
use crate::env::Environment;
use crate::error::{DecodeError, WriteError};
use crate::rows;
use crate::table::delete_prefix;
use trie::rows::Rows;

/// Position of a change: the first bytes of its address, the index of its block, and its index in the block.
#[derive(Clone, Copy)]
struct ChangePosition {
    prefix: u64,
    block: u32,
    at: u32,
}

/// Number of entries passed for history runs. It determines only the size of filters, which these runs lack.
const UNFILTERED: u64 = 0;

/// Size in bytes at which the collected accounts or slots are written to their flat table. They fit into the L2
/// cache. Tests use a small value.
const LATEST_BYTES: usize = if cfg!(test) { 1 << 8 } else { 1 << 20 };

/// A change and its block.
type Dated<'a> = (u64, &'a AccountChange);
/// A slot, the block that set it, and the value.
type SlotRow = (U256, u64, U256);

/// Writes the changes of all blocks.
pub(super) fn put(
    env: &Environment,
    tables: &Tables,
    txn: &mut RwTxn<'_>,
    blocks: &[FlushBlock<'_>],
) -> Result<[AddedRun; 2], WriteError> {
    let positions = sorted_positions(blocks);
    let begin =
        |runs: Runs| runs.begin(txn, UNFILTERED).map_err(|error| runs.write_error(env, error));
    let (accounts, slots) = (begin(tables.account_history)?, begin(tables.storage_history)?);
    let changes = || blocks.iter().flat_map(|block| &block.changes.accounts);
    let mut writer = Writer {
        env,
        tables,
        latest: Rows::default(),
        latest_slots: Rows::default(),
        max_accounts: positions.len(),
        max_slots: changes().map(|change| change.slots.len()).sum(),
        accounts,
        slots,
        value: Vec::new(),
    };
    let change = |position: &ChangePosition| {
        let block = &blocks[position.block as usize];
        (block.number, &block.changes.accounts[position.at as usize])
    };
    let mut dated: Vec<Dated<'_>> = Vec::new();
    for alike in positions.chunk_by(|a, b| a.prefix == b.prefix) {
        dated.clear();
        dated.extend(alike.iter().map(change));
        // A stable sort keeps the blocks of an account in order. There is almost always only one account.
        dated.sort_by_key(|(_, change)| change.address);
        for group in dated.chunk_by(|(_, a), (_, b)| a.address == b.address) {
            writer.put_account(txn, group)?;
        }
    }
    writer.write_latest(txn)?;
    writer.write_latest_slots(txn)?;
    let Writer { accounts, slots, .. } = writer;
    let finish = |runs: Runs, run: NewRun, txn: &mut RwTxn<'_>| {
        run.finish(txn).map_err(|error| runs.write_error(env, error))
    };
    let accounts = finish(tables.account_history, accounts, txn)?;
    let slots = finish(tables.storage_history, slots, txn)?;
    Ok([accounts, slots])
}

/// Returns all changes, sorted by the first bytes of their addresses and then by block.
fn sorted_positions(blocks: &[FlushBlock<'_>]) -> Vec<ChangePosition> {
    let mut positions = Vec::with_capacity(blocks.iter().map(|b| b.changes.accounts.len()).sum());
    for (block, flushed) in (0..).zip(blocks) {
        for (at, change) in (0..).zip(&flushed.changes.accounts) {
            let (prefix, _) = change.address.split_first_chunk().expect("20 bytes begin with 8");
            positions.push(ChangePosition { prefix: u64::from_be_bytes(*prefix), block, at });
        }
    }
    // A stable sort keeps the blocks of an account in order. The changes of a block are already
    // sorted.
    positions.sort_by_key(|position| position.prefix);
    positions
}

struct Writer<'a> {
    env: &'a Environment,
    tables: &'a Tables,
    /// Final values of accounts, not written yet.
    latest: Rows,
    /// Final values of slots, not written yet.
    latest_slots: Rows,
    /// Maximum number of accounts and of slots to write in total.
    max_accounts: usize,
    max_slots: usize,
    accounts: NewRun,
    slots: NewRun,
    value: Vec<u8>,
}

impl Writer<'_> {
    /// Writes all changes of one account, which are passed oldest first.
    fn put_account(&mut self, txn: &mut RwTxn<'_>, dated: &[Dated<'_>]) -> Result<(), WriteError> {
        let (_, last) = dated.last().expect("every account has a change");
        let address = last.address;
        for (number, change) in dated {
            self.value.clear();
            codec::encode_account_entry(&mut self.value, change.account.as_ref());
            let pushed = self.accounts.push(txn, &account_at_key(address, *number), &self.value);
            pushed.map_err(|error| self.tables.account_history.write_error(self.env, error))?;
        }
        // The last encoded value is the final one.
        let key = |out: &mut Vec<u8>| out.extend_from_slice(address.as_slice());
        if last.account.is_some() {
            self.latest.put(key, |out| out.extend_from_slice(&self.value));
        } else {
            self.latest.remove(key);
        }
        if self.latest.bytes() >= LATEST_BYTES {
            self.write_latest(txn)?;
        }
        let clears = |change: &AccountChange| change.wiped || change.account.is_none();
        if dated.iter().any(|(_, change)| clears(change)) {
            self.put_cleared(txn, address, dated)
        } else if dated.iter().any(|(_, change)| !change.slots.is_empty()) {
            self.put_slots(txn, address, dated)
        } else {
            Ok(())
        }
    }

    fn write_latest(&mut self, txn: &mut RwTxn<'_>) -> Result<(), WriteError> {
        let written = rows::write(&self.latest, self.tables.accounts, txn, self.max_accounts);
        self.latest.clear();
        written.map_err(|error| self.env.write_error(error))
    }

    /// Writes slots of storage that was not cleared.
    fn put_slots(
        &mut self,
        txn: &mut RwTxn<'_>,
        address: Address,
        dated: &[Dated<'_>],
    ) -> Result<(), WriteError> {
        let rows = dated.iter().flat_map(|(number, change)| {
            change.slots.iter().map(|(slot, value)| (*slot, *number, *value))
        });
        let mut rows: Vec<SlotRow> = rows.collect();
        // A stable sort keeps the blocks of a slot in order. The slots of a block are already
        // sorted.
        rows.sort_by_key(|(slot, ..)| *slot);
        self.push_history(txn, address, &rows)?;
        for group in rows.chunk_by(|a, b| a.0 == b.0) {
            let (slot, _, word) = group[group.len() - 1];
            self.put_slot(txn, address, slot, word)?;
        }
        Ok(())
    }

    /// Writes slots of storage that was cleared at least once. Slots that were set before the clearing
    /// read as zero afterwards.
    fn put_cleared(
        &mut self,
        txn: &mut RwTxn<'_>,
        address: Address,
        dated: &[Dated<'_>],
    ) -> Result<(), WriteError> {
        let mut rows: Vec<SlotRow> = Vec::new();
        // The current slots, as far as the changes processed so far determine them.
        let mut current: BTreeMap<U256, U256> = BTreeMap::new();
        let mut wiped = false;
        for (number, change) in dated {
            let mut history: BTreeMap<U256, U256> = BTreeMap::new();
            if change.wiped || change.account.is_none() {
                if !wiped {
                    let stored = self.stored_slots(txn, address)?;
                    history.extend(stored.into_iter().map(|slot| (slot, U256::ZERO)));
                }
                // A slot that is already zero needs no second entry. A slot set to zero in these
                // blocks overrides the value in the table.
                for (slot, value) in std::mem::take(&mut current) {
                    if value.is_zero() {
                        history.remove(&slot);
                    } else {
                        history.insert(slot, U256::ZERO);
                    }
                }
                wiped = true;
            }
            if change.account.is_some() {
                current.extend(change.slots.iter().copied());
                history.extend(change.slots.iter().copied());
            }
            rows.extend(history.into_iter().map(|(slot, value)| (slot, *number, value)));
        }
        rows.sort_unstable_by(|a, b| a.0.cmp(&b.0).then(a.1.cmp(&b.1)));
        self.push_history(txn, address, &rows)?;
        delete_prefix(self.tables.storage, txn, address.as_slice())
            .map_err(|error| self.env.write_error(error))?;
        for (slot, word) in current {
            self.put_slot(txn, address, slot, word)?;
        }
        Ok(())
    }

    fn push_history(
        &mut self,
        txn: &mut RwTxn<'_>,
        address: Address,
        rows: &[SlotRow],
    ) -> Result<(), WriteError> {
        for (slot, number, word) in rows {
            let key: [u8; SLOT_KEY_BYTES] = slot_key(address, *slot);
            self.value.clear();
            codec::encode_word(&mut self.value, *word);
            let pushed = self.slots.push(txn, &slot_at_key(&key, *number), &self.value);
            pushed.map_err(|error| self.tables.storage_history.write_error(self.env, error))?;
        }
        Ok(())
    }

    /// Slots of an account must be added in ascending order.
    fn put_slot(
        &mut self,
        txn: &mut RwTxn<'_>,
        address: Address,
        slot: U256,
        word: U256,
    ) -> Result<(), WriteError> {
        let key = |out: &mut Vec<u8>| out.extend_from_slice(&slot_key(address, slot));
        if word.is_zero() {
            self.latest_slots.remove(key);
        } else {
            self.latest_slots.put(key, |out| codec::encode_word(out, word));
        }
        if self.latest_slots.bytes() >= LATEST_BYTES {
            self.write_latest_slots(txn)?;
        }
        Ok(())
    }

    fn write_latest_slots(&mut self, txn: &mut RwTxn<'_>) -> Result<(), WriteError> {
        let written = rows::write(&self.latest_slots, self.tables.storage, txn, self.max_slots);
        self.latest_slots.clear();
        written.map_err(|error| self.env.write_error(error))
    }

    /// Returns the slots of an account in the `storage` table.
    fn stored_slots(&self, txn: &RwTxn<'_>, address: Address) -> Result<Vec<U256>, WriteError> {
        let error = |error| self.env.write_error(error);
        let rows = self.tables.storage.prefix_iter(txn, address.as_slice()).map_err(error)?;
        let slots = rows.map(|row| {
            let (key, _) = row.map_err(error)?;
            let slot = key.get(20..).filter(|slot| slot.len() == 32);
            slot.map(U256::from_be_slice).ok_or_else(|| {
                let why = DecodeError { what: "slot key is not 52 bytes", at: key.len() };
                self.env.corrupt("storage", key, why).into()
            })
        });
        slots.collect()
    }
}
