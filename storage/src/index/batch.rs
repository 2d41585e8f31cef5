//! Blocks to be flushed, merged in memory: the last value of each key, sorted as the tables are.

use std::collections::BTreeMap;

use alloy_primitives::{Address, B256, Bytes, U256};

use super::keys::{SLOT_KEY_BYTES, account_at_key, encode_location, slot_at_key, slot_key};
use super::{FlushBlock, LogKey};
use crate::state::{Account, AccountChange};
use crate::trie::TrieUpdates;

/// Storage of one account in the batch.
#[derive(Debug, Default)]
pub(super) struct StorageBatch {
    /// What was there before the batch is gone.
    pub(super) wiped: bool,
    /// Last value of each slot touched since the last wipe.
    pub(super) slots: BTreeMap<U256, U256>,
}

/// Everything a flush puts, by table.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) accounts: BTreeMap<Address, Option<Account>>,
    pub(super) storage: BTreeMap<Address, StorageBatch>,
    pub(super) codes: BTreeMap<B256, Bytes>,
    pub(super) account_history: Vec<([u8; 28], Option<Account>)>,
    pub(super) storage_history: Vec<([u8; 60], U256)>,
    pub(super) trie: TrieUpdates,
    pub(super) block_numbers: Vec<(B256, u64)>,
    pub(super) transactions: Vec<(B256, [u8; 12])>,
    /// Key and block, in block order.
    pub(super) logs: Vec<(LogKey, u64)>,
}

impl Batch {
    /// Adds the next block. `stored` gives the slots an account has in the `storage` table; it is
    /// asked only when the account is wiped for the first time in the batch.
    pub(super) fn add<E>(
        &mut self,
        block: &FlushBlock<'_>,
        mut stored: impl FnMut(Address) -> Result<Vec<U256>, E>,
    ) -> Result<(), E> {
        for change in &block.changes.accounts {
            self.add_change(block.number, change, &mut stored)?;
        }
        let codes = block.changes.codes.iter().map(|(hash, code)| (*hash, code.clone()));
        self.codes.extend(codes);
        self.trie.extend(block.trie);
        self.block_numbers.push((block.hash, block.number));
        for (index, hash) in block.tx_hashes.iter().enumerate() {
            let index = u32::try_from(index).expect("a block has far fewer transactions");
            self.transactions.push((*hash, encode_location(block.number, index)));
        }
        self.logs.extend(block.log_keys.iter().map(|key| (*key, block.number)));
        Ok(())
    }

    fn add_change<E>(
        &mut self,
        number: u64,
        change: &AccountChange,
        stored: &mut impl FnMut(Address) -> Result<Vec<U256>, E>,
    ) -> Result<(), E> {
        let address = change.address;
        self.accounts.insert(address, change.account);
        self.account_history.push((account_at_key(address, number), change.account));
        let cleared = change.wiped || change.account.is_none();
        let mut history: BTreeMap<U256, U256> = BTreeMap::new();
        if cleared {
            let storage = self.storage.entry(address).or_default();
            if !storage.wiped {
                history.extend(stored(address)?.into_iter().map(|slot| (slot, U256::ZERO)));
            }
            // A slot that is zero already needs no second entry; one set to zero in this very
            // batch overrides what the table still shows.
            for (slot, value) in std::mem::take(&mut storage.slots) {
                if value.is_zero() {
                    history.remove(&slot);
                } else {
                    history.insert(slot, U256::ZERO);
                }
            }
            storage.wiped = true;
        }
        if change.account.is_some() && !change.slots.is_empty() {
            self.storage.entry(address).or_default().slots.extend(change.slots.iter().copied());
            history.extend(change.slots.iter().copied());
        }
        self.storage_history.extend(history.into_iter().map(|(slot, value)| {
            let key: [u8; SLOT_KEY_BYTES] = slot_key(address, slot);
            (slot_at_key(&key, number), value)
        }));
        Ok(())
    }

    /// Sorts what was collected in block order.
    pub(super) fn sort(&mut self) {
        self.account_history.sort_unstable_by_key(|entry| entry.0);
        self.storage_history.sort_unstable_by_key(|entry| entry.0);
        self.block_numbers.sort_unstable_by_key(|entry| entry.0);
        self.transactions.sort_unstable_by_key(|entry| entry.0);
        self.logs.sort_unstable();
    }
}
