//! Stores what a block has read and changed during its execution, on top of its parent's state.
//!
//! The interpreter uses the overlay as its database. At the end, the overlay returns the block's [`StateChanges`]. It
//! does not write to the parent's state. It tracks whether empty accounts are kept, as before EIP-161, or removed.

mod hints;
mod touched_accounts;
mod touched_slots;

use std::error::Error;

use alloy_primitives::{
    Address, B256, KECCAK256_EMPTY, U256, keccak256,
    map::{AddressMap, B256Map},
};
use revm::{
    Database, DatabaseCommit, DatabaseRef,
    bytecode::Bytecode,
    state::{Account as Touched, AccountInfo},
};
use storage::{Account, AccountChange, StateChanges, StateRead};

use super::{
    account_override::AccountOverride,
    caches::{ExecutionCaches, analysed},
    deferred_parent_hash::ParentUnknown,
    error::StateError,
    host::ExecutionHost,
};
pub(crate) use hints::TxHints;
use touched_accounts::{Entry, TouchedAccounts};
use touched_slots::{NOT_PRELOADED, TouchedSlots};

/// Slots that replace those of an account.
pub(super) enum StorageOverride<'a> {
    /// All other slots are cleared.
    All(&'a [(U256, U256)]),
    /// All other slots are kept.
    Some(&'a [(U256, U256)]),
}

/// Caches every read of the parent's state and every write.
pub struct Overlay<'a, S> {
    state: &'a S,
    host: &'a dyn ExecutionHost,
    accounts: TouchedAccounts,
    codes: B256Map<Bytecode>,
    /// Whether touched empty accounts are kept, as before EIP-161.
    keep_empty: bool,
    /// Number of jump targets executed; wraps around.
    jumps: u32,
    /// The slot that [`Self::hide_slot`] hides, because its value is not known yet.
    unknown: Option<(Address, U256)>,
    /// Hints for the current transaction.
    hints: TxHints,
}

/// Number of jump targets between two checks for cancellation. A check costs as much as a few dozen instructions.
const JUMPS_PER_CHECK: u32 = 64;

impl<'a, S> Overlay<'a, S>
where
    S: StateRead<Error: Error + Send + Sync + 'static>,
{
    pub(super) fn new(state: &'a S, host: &'a dyn ExecutionHost, keep_empty: bool) -> Self {
        Self {
            state,
            host,
            accounts: TouchedAccounts::default(),
            codes: B256Map::default(),
            keep_empty,
            jumps: 0,
            unknown: None,
            hints: TxHints::default(),
        }
    }

    /// Makes reads of this slot fail with [`ParentUnknown`] from now on, because its value depends on the parent's
    /// hash.
    pub(super) const fn hide_slot(&mut self, address: Address, slot: U256) {
        self.unknown = Some((address, slot));
    }

    pub(super) fn caches(&self) -> Option<&'a ExecutionCaches> {
        self.host.caches()
    }

    /// Returns whether the execution can be cancelled.
    pub(super) fn is_cancellable(&self) -> bool {
        self.host.is_cancellable()
    }

    /// Counts a jump target; returns false if the execution has been cancelled.
    pub(super) fn count_jump(&mut self) -> bool {
        self.jumps = self.jumps.wrapping_add(1);
        !self.jumps.is_multiple_of(JUMPS_PER_CHECK) || !self.host.is_cancelled()
    }

    /// Sets whether empty accounts are kept, before another block is executed on this overlay.
    pub(super) const fn keep_empty(&mut self, keep_empty: bool) {
        self.keep_empty = keep_empty;
    }

    /// Reads these accounts, and returns their positions.
    pub(super) fn preload(&mut self, addresses: &[Address]) -> Result<Vec<u32>, StateError> {
        let state = self.state;
        self.accounts.preload(addresses, |new| state.accounts(new).map_err(StateError::new))
    }

    /// Reads these slots of the account at a position, and returns the positions of the slots. All are
    /// [`NOT_PRELOADED`] if the block replaced the account's storage, or if one of its slots is hidden.
    pub(super) fn preload_slots(
        &mut self,
        address: Address,
        position: u32,
        keys: &[U256],
    ) -> Result<Vec<u32>, StateError> {
        let (state, unknown) = (self.state, self.unknown);
        let entry = self.accounts.at(position);
        if entry.hides_parent() || unknown.is_some_and(|(hidden, _)| hidden == address) {
            return Ok(vec![NOT_PRELOADED; keys.len()]);
        }
        let read = |new: &[U256]| state.slots(address, new).map_err(StateError::new);
        entry.slots_mut().preload(keys, read)
    }

    /// Prepares for the next transaction: clears the hints, and makes searches start with the slots at `positions` of
    /// the contract at position `contract`. Returns the hints, and the contract's slots if `positions` is not empty.
    pub(super) fn prepare_tx_slots(
        &mut self,
        contract: u32,
        positions: &[u32],
    ) -> (&mut TxHints, Option<&TouchedSlots>) {
        self.hints.clear();
        let slots = self.accounts.at(contract).touched_slots_mut();
        let slots = slots.filter(|_| !positions.is_empty()).map(|slots| {
            slots.prepare_tx(positions);
            &*slots
        });
        (&mut self.hints, slots)
    }

    /// Returns the hints for the current transaction.
    pub(super) const fn hints(&self) -> &TxHints {
        &self.hints
    }

    /// Returns the touched accounts, for prefetches by position.
    pub(super) const fn touched_accounts(&mut self) -> &mut TouchedAccounts {
        &mut self.accounts
    }

    /// Reads code from the host's caches or the parent's state.
    fn read_code(&self, code_hash: B256) -> Result<Bytecode, StateError> {
        let read = || self.state.code(code_hash).map_err(StateError::new);
        match self.host.caches() {
            Some(caches) => caches.code(code_hash, read),
            None => Ok(analysed(read()?)),
        }
    }

    fn entry(&mut self, address: Address) -> Result<&mut Entry, StateError> {
        let state = self.state;
        self.accounts.entry(address, || state.account(address).map_err(StateError::new))
    }

    /// Returns the current state of an account within the block.
    pub(super) fn account(&mut self, address: Address) -> Result<Option<Account>, StateError> {
        Ok(self.entry(address)?.current)
    }

    /// Changes an account that was read before. The new account must not be empty.
    pub(super) fn set(&mut self, address: Address, account: Account) {
        let entry = self.accounts.get_mut(&address).expect("an account is read before it is set");
        entry.current = Some(account);
    }

    /// Returns whether any slot of `address` is set, which forbids creating a contract there (EIP-7610).
    pub(super) fn has_storage(&mut self, address: Address) -> Result<bool, StateError> {
        let state = self.state;
        let entry = self.entry(address)?;
        if entry.current.is_none() {
            return Ok(false);
        }
        if entry.slots().any(|(_, slot)| !slot.current.is_zero()) {
            return Ok(true);
        }
        if entry.hides_parent() {
            return Ok(false);
        }
        state.has_storage(address).map_err(StateError::new)
    }

    /// Adds to a balance outside any transaction: rewards, withdrawals, the proposer's fees, the DAO fork. Adding zero
    /// also touches the account.
    pub(super) fn credit(&mut self, address: Address, wei: U256) -> Result<(), StateError> {
        let mut account = self.account(address)?.unwrap_or_default();
        account.balance = account.balance.saturating_add(wei);
        self.put(address, account)
    }

    /// Replaces an account outside the interpreter; its storage is unchanged. Removes the account if it is empty and
    /// empty accounts are not kept.
    pub(super) fn put(&mut self, address: Address, account: Account) -> Result<(), StateError> {
        let keep_empty = self.keep_empty;
        let entry = self.entry(address)?;
        if is_empty(&account) && !keep_empty {
            entry.destroy();
        } else {
            entry.current = Some(account);
        }
        Ok(())
    }

    /// Sets a balance to zero and returns the old one. Before EIP-161, creates a missing account, as geth does.
    pub(super) fn drain(&mut self, address: Address) -> Result<U256, StateError> {
        let balance = self.account(address)?.unwrap_or_default().balance;
        let entry = self.entry(address)?;
        if let Some(account) = &mut entry.current {
            account.balance = U256::ZERO;
        }
        self.credit(address, U256::ZERO)?;
        Ok(balance)
    }

    /// Applies the override of an account, outside any transaction. If a field is overridden, the account exists
    /// afterwards, even if it is empty.
    pub(super) fn replace(
        &mut self,
        address: Address,
        wanted: &AccountOverride,
        storage: Option<StorageOverride<'_>>,
    ) -> Result<(), StateError> {
        let state = self.state;
        if let Some(code) = &wanted.code {
            self.codes.insert(keccak256(code), analysed(code.clone()));
        }
        let untouched = wanted.nonce.is_none() && wanted.balance.is_none() && wanted.code.is_none();
        if untouched && storage.is_none() {
            return Ok(());
        }
        let entry = self.entry(address)?;
        let mut account = entry.current.unwrap_or_default();
        account.nonce = wanted.nonce.unwrap_or(account.nonce);
        account.balance = wanted.balance.unwrap_or(account.balance);
        if let Some(code) = &wanted.code {
            account.code_hash = keccak256(code);
        }
        entry.current = Some(account);
        let slots = match storage {
            None => return Ok(()),
            Some(StorageOverride::All(slots)) => {
                entry.wiped = true;
                entry.clear_slots();
                slots
            }
            Some(StorageOverride::Some(slots)) => slots,
        };
        for (key, value) in slots {
            let shows_through = !entry.hides_parent();
            let original = match entry.slot(key) {
                Some(slot) => slot.original,
                None if shows_through => state.storage(address, *key).map_err(StateError::new)?,
                None => U256::ZERO,
            };
            entry.slots_mut().set(*key, *value, original);
        }
        Ok(())
    }

    /// Returns the hashes of all code that was loaded or deployed.
    pub(super) fn code_hashes(&self) -> impl Iterator<Item = B256> {
        self.codes.keys().copied()
    }

    /// Returns all differences from the parent's state so far.
    pub fn changes(&self) -> StateChanges {
        let mut changes = StateChanges::default();
        changes.accounts.reserve(self.accounts.len());
        for (address, original, entry) in self.accounts.ascending() {
            let slots = entry.changed_slots();
            if entry.current == original && slots.is_empty() && !entry.wiped {
                continue;
            }
            let code_hash = entry.current.map_or(KECCAK256_EMPTY, |account| account.code_hash);
            let old_hash = original.map_or(KECCAK256_EMPTY, |account| account.code_hash);
            if code_hash != old_hash
                && code_hash != KECCAK256_EMPTY
                && let Some(code) = self.codes.get(&code_hash)
            {
                changes.codes.push((code_hash, code.original_bytes()));
            }
            changes.accounts.push(AccountChange {
                address,
                account: entry.current,
                wiped: entry.wiped,
                slots,
            });
        }
        changes.codes.sort_unstable_by_key(|(hash, _)| *hash);
        changes.codes.dedup_by_key(|(hash, _)| *hash);
        changes
    }
}

const fn account_info(account: Account) -> AccountInfo {
    AccountInfo {
        balance: account.balance,
        nonce: account.nonce,
        code_hash: account.code_hash,
        account_id: None,
        code: None,
    }
}

fn is_empty(account: &Account) -> bool {
    account.nonce == 0 && account.balance.is_zero() && account.code_hash == KECCAK256_EMPTY
}

impl<S> Database for Overlay<'_, S>
where
    S: StateRead<Error: Error + Send + Sync + 'static>,
{
    type Error = StateError;

    fn basic(&mut self, address: Address) -> Result<Option<AccountInfo>, StateError> {
        Ok(self.account(address)?.map(account_info))
    }

    fn code_by_hash(&mut self, code_hash: B256) -> Result<Bytecode, StateError> {
        if let Some(code) = self.codes.get(&code_hash) {
            return Ok(code.clone());
        }
        let code = self.read_code(code_hash)?;
        self.codes.insert(code_hash, code.clone());
        Ok(code)
    }

    fn storage(&mut self, address: Address, slot: U256) -> Result<U256, StateError> {
        if self.unknown == Some((address, slot)) {
            return Err(ParentUnknown.into());
        }
        let state = self.state;
        let entry = self.entry(address)?;
        if let Some(slot) = entry.slot(&slot) {
            return Ok(slot.current);
        }
        let value = if entry.hides_parent() {
            U256::ZERO
        } else {
            state.storage(address, slot).map_err(StateError::new)?
        };
        entry.slots_mut().set(slot, value, value);
        self.hints.add_read(address, slot);
        Ok(value)
    }

    fn block_hash(&mut self, number: u64) -> Result<B256, StateError> {
        Ok(self.host.block_hash(number)?.unwrap_or_default())
    }
}

/// Reads without caching, for tracers that inspect the state before a transaction.
impl<S> DatabaseRef for Overlay<'_, S>
where
    S: StateRead<Error: Error + Send + Sync + 'static>,
{
    type Error = StateError;

    fn basic_ref(&self, address: Address) -> Result<Option<AccountInfo>, StateError> {
        let account = match self.accounts.get(&address) {
            Some(entry) => entry.current,
            None => self.state.account(address).map_err(StateError::new)?,
        };
        Ok(account.map(account_info))
    }

    fn code_by_hash_ref(&self, code_hash: B256) -> Result<Bytecode, StateError> {
        if let Some(code) = self.codes.get(&code_hash) {
            return Ok(code.clone());
        }
        self.read_code(code_hash)
    }

    fn storage_ref(&self, address: Address, slot: U256) -> Result<U256, StateError> {
        let Some(entry) = self.accounts.get(&address) else {
            return self.state.storage(address, slot).map_err(StateError::new);
        };
        if let Some(slot) = entry.slot(&slot) {
            return Ok(slot.current);
        }
        if entry.hides_parent() {
            return Ok(U256::ZERO);
        }
        self.state.storage(address, slot).map_err(StateError::new)
    }

    fn block_hash_ref(&self, number: u64) -> Result<B256, StateError> {
        Ok(self.host.block_hash(number)?.unwrap_or_default())
    }
}

impl<S> DatabaseCommit for Overlay<'_, S> {
    fn commit(&mut self, changes: AddressMap<Touched>) {
        self.commit_all(changes.into_iter());
    }
}

impl<S> Overlay<'_, S> {
    /// Applies the changes of a transaction to the accounts that it touched.
    pub(super) fn commit_all(&mut self, changes: impl Iterator<Item = (Address, Touched)>) {
        for (address, touched) in changes {
            if !touched.is_touched() {
                continue;
            }
            let entry = self
                .accounts
                .get_mut(&address)
                .expect("the interpreter loads an account before it touches it");
            if touched.is_selfdestructed() {
                entry.destroy();
                continue;
            }
            if touched.info.is_empty() && !self.keep_empty {
                entry.destroy();
                continue;
            }
            let info = touched.info;
            entry.current = Some(Account {
                nonce: info.nonce,
                balance: info.balance,
                code_hash: info.code_hash,
            });
            for (key, value) in touched.storage {
                if !value.is_changed() {
                    continue;
                }
                // Only slots of contracts created in this transaction are written without a read. They were zero.
                entry.slots_mut().set(key, value.present_value, U256::ZERO);
            }
            if let Some(code) = info.code
                && info.code_hash != KECCAK256_EMPTY
            {
                self.codes.entry(info.code_hash).or_insert(code);
            }
        }
    }
}

impl<S> std::fmt::Debug for Overlay<'_, S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Overlay").field("accounts", &self.accounts.len()).finish_non_exhaustive()
    }
}
