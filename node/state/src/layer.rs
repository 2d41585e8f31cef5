//! The changes of one block, kept in memory until they are in the index environment.

use alloy_primitives::{
    Address, B256, Bytes, U256,
    map::{AddressMap, B256Map},
};
use std::sync::{Arc, OnceLock};
use storage::{Account, AccountChange, FlushBlock, IndexDb, PostingKey, StateChanges};

/// Identifies a layer, and the state after it, in one process. An id is known when the block is executed, before its
/// hash, and differs between blocks with the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LayerId(pub(crate) u64);

impl LayerId {
    /// The id of all layers that are not part of a view.
    const DETACHED: Self = Self(u64::MAX);
}

/// The changes of one block. The first lookup builds an index of them. A layer is immutable, except for two values
/// that the seal stage sets once: the block's hash and its posting keys.
#[derive(Debug)]
pub struct Layer {
    id: LayerId,
    parent: LayerId,
    number: u64,
    changes: Arc<StateChanges>,
    by_address: OnceLock<AddressMap<u32>>,
    codes: B256Map<Bytes>,
    tx_hashes: Vec<B256>,
    by_tx_hash: OnceLock<B256Map<u32>>,
    sealed: OnceLock<Sealed>,
}

/// The values that are known when a block is sealed.
#[derive(Debug)]
struct Sealed {
    hash: B256,
    posting_keys: Vec<PostingKey>,
}

impl Layer {
    /// Creates the layer of a stored block from its changes and the hashes of its transactions in block order. The
    /// layer can be written to the index, but cannot be part of a view.
    pub fn detached(number: u64, changes: StateChanges, tx_hashes: Vec<B256>) -> Self {
        Self::new([LayerId::DETACHED; 2], number, changes, tx_hashes)
    }

    /// Creates the layer of block `number`. `ids` are those of the layer and of its parent; see
    /// [`StateView::next_layer`](crate::StateView::next_layer).
    pub(crate) fn new(
        ids: [LayerId; 2],
        number: u64,
        changes: StateChanges,
        tx_hashes: Vec<B256>,
    ) -> Self {
        let [id, parent] = ids;
        Self {
            id,
            parent,
            number,
            by_address: OnceLock::new(),
            codes: changes.codes.iter().cloned().collect(),
            by_tx_hash: OnceLock::new(),
            changes: Arc::new(changes),
            tx_hashes,
            sealed: OnceLock::new(),
        }
    }

    /// Sets the block's hash and its posting keys.
    ///
    /// # Panics
    /// If the block was sealed before.
    pub fn seal(&self, hash: B256, posting_keys: Vec<PostingKey>) {
        let sealed = Sealed { hash, posting_keys };
        assert!(self.sealed.set(sealed).is_ok(), "block {} sealed twice", self.number);
    }

    /// Returns the id of the layer.
    pub const fn id(&self) -> LayerId {
        self.id
    }

    /// Returns the id of the state that the layer extends: that of the layer below, if there is one.
    pub const fn parent(&self) -> LayerId {
        self.parent
    }

    /// Returns the block's number.
    pub const fn number(&self) -> u64 {
        self.number
    }

    /// Returns the block's hash; `None` before it is sealed.
    pub fn hash(&self) -> Option<B256> {
        self.sealed.get().map(|sealed| sealed.hash)
    }

    /// Returns the block's posting keys, ascending; `None` before it is sealed.
    pub fn posting_keys(&self) -> Option<&[PostingKey]> {
        self.sealed.get().map(|sealed| sealed.posting_keys.as_slice())
    }

    /// Returns all state changes of the block.
    pub fn changes(&self) -> &StateChanges {
        &self.changes
    }

    /// Returns all state changes of the block, shared.
    pub fn shared_changes(&self) -> Arc<StateChanges> {
        Arc::clone(&self.changes)
    }

    /// Returns the hashes of the block's transactions, in block order.
    pub fn tx_hashes(&self) -> &[B256] {
        &self.tx_hashes
    }

    /// Returns the index of this transaction in the block.
    pub fn tx_index(&self, hash: B256) -> Option<u32> {
        let hashes = || (0..).zip(&self.tx_hashes).map(|(i, hash)| (*hash, i)).collect();
        self.by_tx_hash.get_or_init(hashes).get(&hash).copied()
    }

    fn change(&self, address: Address) -> Option<&AccountChange> {
        let accounts = &self.changes.accounts;
        let addresses = || (0..).zip(accounts).map(|(i, change)| (change.address, i)).collect();
        let index = self.by_address.get_or_init(addresses).get(&address)?;
        Some(&accounts[*index as usize])
    }

    /// Returns the account after this block, if the block changed it. `Some(None)` means that it was removed.
    pub fn account(&self, address: Address) -> Option<Option<Account>> {
        self.change(address).map(|change| change.account)
    }

    /// Returns the slot after this block, if the block set it or cleared the account's storage.
    pub fn storage(&self, address: Address, slot: U256) -> Option<U256> {
        let change = self.change(address)?;
        match change.slots.binary_search_by(|(key, _)| key.cmp(&slot)) {
            Ok(found) => Some(change.slots[found].1),
            Err(_) => (change.wiped || change.account.is_none()).then_some(U256::ZERO),
        }
    }

    /// Returns whether the account has storage; `None` if the block neither set a slot to a value that is not zero nor
    /// cleared the storage.
    pub fn has_storage(&self, address: Address) -> Option<bool> {
        let change = self.change(address)?;
        let set = change.slots.iter().any(|(_, value)| !value.is_zero());
        (set || change.wiped || change.account.is_none()).then_some(set)
    }

    /// Returns the code with this hash, if the block stored it.
    pub fn code(&self, code_hash: B256) -> Option<&Bytes> {
        self.codes.get(&code_hash)
    }

    /// Returns the number of changed accounts and slots, by which flush limits its batches.
    pub fn weight(&self) -> usize {
        self.changes.accounts.iter().map(|change| 1 + change.slots.len()).sum()
    }
}

/// Writes sealed layers into the index environment, in one transaction.
///
/// # Panics
/// If a layer is not sealed.
pub fn write_layers(index: &IndexDb, layers: &[Arc<Layer>]) -> Result<(), storage::WriteError> {
    let blocks: Vec<_> = layers
        .iter()
        .map(|layer| FlushBlock {
            number: layer.number(),
            hash: layer.hash().expect("only sealed layers are committed"),
            tx_hashes: layer.tx_hashes(),
            posting_keys: layer.posting_keys().expect("only sealed layers are committed"),
            changes: layer.changes(),
        })
        .collect();
    index.flush(&blocks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layer_returns_only_what_its_block_changed() {
        let (kept, removed) = (Address::repeat_byte(1), Address::repeat_byte(2));
        let account = Some(Account { nonce: 7, ..Account::default() });
        let slots = vec![(U256::from(1), U256::from(10))];
        let changes = StateChanges {
            accounts: vec![
                AccountChange { address: kept, account, wiped: false, slots },
                AccountChange { address: removed, account: None, wiped: true, slots: vec![] },
            ],
            codes: vec![],
        };
        let layer = Layer::detached(3, changes, vec![B256::repeat_byte(9)]);
        assert_eq!(layer.account(kept), Some(account));
        assert_eq!(layer.account(removed), Some(None));
        assert_eq!(layer.account(Address::ZERO), None);
        assert_eq!(layer.storage(kept, U256::from(1)), Some(U256::from(10)));
        assert_eq!(layer.storage(kept, U256::from(2)), None, "the value is in an older layer");
        assert_eq!(layer.storage(removed, U256::from(2)), Some(U256::ZERO), "the block cleared it");
        assert_eq!(layer.tx_index(B256::repeat_byte(9)), Some(0));
        assert_eq!(layer.weight(), 3);
        assert_eq!(layer.hash(), None);
    }
}
