//! The state as of one block: the layers that are not flushed yet, then the index environment.

use super::{Layer, LayerId};
use alloy_primitives::{Address, B256, Bytes, KECCAK256_EMPTY, U256};
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};
use storage::{Account, IndexDb, IndexReader, ReadError, StateChanges, StateRead};

/// The state before block `next`. It is immutable, and cheap to clone and to extend.
#[derive(Clone, Debug)]
pub struct StateView {
    next: u64,
    /// The id of the newest layer, or of the state without layers.
    id: LayerId,
    /// The next id, for all views that extend the same state.
    ids: Arc<AtomicU64>,
    /// The first non-canonical block: `next`, or the block before it if the newest layer is that of a pending
    /// block.
    canonical_next: u64,
    /// The layers of consecutive blocks up to the one before `next`, oldest first. They begin at or before the block
    /// after the last flushed one.
    layers: Arc<[Arc<Layer>]>,
    index: IndexDb,
}

impl StateView {
    /// Creates the state before block `next`, which is flushed completely.
    pub fn before(next: u64, index: IndexDb) -> Self {
        let (id, ids) = (LayerId(0), Arc::new(AtomicU64::new(1)));
        Self { next, id, ids, canonical_next: next, layers: Arc::new([]), index }
    }

    /// Creates the state before block `next`, which is completely in `index`. Its id differs from those of
    /// all states that extend the same state as this one.
    #[must_use]
    pub fn rebased(&self, next: u64, index: IndexDb) -> Self {
        let id = LayerId(self.ids.fetch_add(1, Ordering::Relaxed));
        let ids = Arc::clone(&self.ids);
        Self { next, id, ids, canonical_next: next, layers: Arc::new([]), index }
    }

    /// Creates the layer of the next block from its changes and the hashes of its transactions in block order.
    pub fn next_layer(&self, changes: StateChanges, tx_hashes: Vec<B256>) -> Layer {
        let id = LayerId(self.ids.fetch_add(1, Ordering::Relaxed));
        Layer::new([id, self.id], self.next, changes, tx_hashes)
    }

    /// Returns the state after the next block, without the layers up to block `flushed`.
    ///
    /// # Panics
    /// If the layer does not extend this state; see [`Self::next_layer`].
    #[must_use]
    pub fn with_layer(&self, layer: Arc<Layer>, flushed: u64) -> Self {
        assert_eq!(layer.parent(), self.id, "layer {} extends another state", layer.number());
        let (next, id, ids) = (layer.number() + 1, layer.id(), Arc::clone(&self.ids));
        let kept = self.layers.iter().filter(|layer| layer.number() > flushed);
        let layers = kept.cloned().chain([layer]).collect();
        Self { next, id, ids, canonical_next: next, layers, index: self.index.clone() }
    }

    /// Returns the state after a pending block, which may differ from the next canonical block. Only the pending
    /// block's layer has its changes; neither the index nor the chain ever has them.
    ///
    /// # Panics
    /// If the layer does not extend this state.
    #[must_use]
    pub fn with_pending(&self, layer: Arc<Layer>) -> Self {
        Self { canonical_next: self.next, ..self.with_layer(layer, 0) }
    }

    /// Returns the state before block `next`, if its layers are in memory or it is the state without layers. The
    /// caller must know that the index has no block from `next` on.
    #[must_use]
    pub fn as_of(&self, next: u64) -> Option<Self> {
        let id = self.id_before(next)?;
        let layers = self.layers.iter().filter(|layer| layer.number() < next).cloned().collect();
        let (ids, index) = (Arc::clone(&self.ids), self.index.clone());
        Some(Self { next, id, ids, canonical_next: next, layers, index })
    }

    /// Returns whether this is `other`, or a state after it with all layers since then in memory.
    pub fn descends_from(&self, other: &Self) -> bool {
        self.id_before(other.next) == Some(other.id)
    }

    /// Returns the id of the state before block `next`, if it is the id of this state or the parent id of a layer.
    pub(crate) fn id_before(&self, next: u64) -> Option<LayerId> {
        if next == self.next {
            return Some(self.id);
        }
        let layer = self.layers.iter().find(|layer| layer.number() == next);
        layer.map(|layer| layer.parent())
    }

    /// Returns the id of this state: that of its newest layer, if it has one.
    pub const fn id(&self) -> LayerId {
        self.id
    }

    /// Returns the number of the newest canonical block.
    pub(super) const fn canonical(&self) -> u64 {
        self.canonical_next.saturating_sub(1)
    }

    /// Returns the number of the next block.
    pub const fn next(&self) -> u64 {
        self.next
    }

    /// Returns the layers in memory, oldest first.
    pub fn layers(&self) -> &[Arc<Layer>] {
        &self.layers
    }

    /// Returns the index environment below the layers.
    pub const fn index(&self) -> &IndexDb {
        &self.index
    }

    /// Opens a reader of this state. It holds a read transaction, so keep it only for the duration of a call.
    pub fn reader(&self) -> Result<StateReader, ReadError> {
        self.reader_before(self.next)
    }

    /// Opens a reader of the state after block `number`, or of the newest state if that is older.
    pub fn reader_at(&self, number: u64) -> Result<StateReader, ReadError> {
        self.reader_before(number.saturating_add(1).min(self.next))
    }

    /// Returns the first block up to `last` after which an account satisfies `wanted`, provided that it does so from
    /// then on. If it begins to do so more than once, as a contract that was created again, the result is any of
    /// these blocks. The search takes log2 of `last` reads: twenty in a million blocks.
    pub fn first_block(
        &self,
        last: u64,
        address: Address,
        wanted: impl Fn(&Option<Account>) -> bool,
    ) -> Result<Option<u64>, ReadError> {
        let satisfies = |number| Ok(wanted(&self.reader_at(number)?.account(address)?));
        if !satisfies(last)? {
            return Ok(None);
        }
        let (mut low, mut high) = (0, last);
        while low < high {
            let middle = low + (high - low) / 2;
            if satisfies(middle)? { high = middle } else { low = middle + 1 }
        }
        Ok(Some(low))
    }

    fn reader_before(&self, next: u64) -> Result<StateReader, ReadError> {
        let index = self.index.reader()?;
        // The index may by now have another block with the number of the pending one, which extends its parent.
        let index_next = next.min(self.canonical_next);
        // If flush is ahead of the state, the latest tables are too new, and history is read instead.
        let historic = index.flushed()?.is_some_and(|flushed| flushed >= index_next);
        let newest = self.layers.partition_point(|layer| layer.number() < next);
        let layers = Arc::clone(&self.layers);
        let id = (next == self.next).then_some(self.id);
        Ok(StateReader { next, id, index_next, layers, newest, index, historic })
    }
}

/// Reads the state after one block, from one snapshot.
#[derive(Debug)]
pub struct StateReader {
    next: u64,
    /// The id of the state; `None` if it is older than the state of the view.
    id: Option<LayerId>,
    /// The index is read as of the state before this block.
    index_next: u64,
    layers: Arc<[Arc<Layer>]>,
    /// Number of layers that are read.
    newest: usize,
    index: IndexReader,
    historic: bool,
}

impl StateReader {
    fn layers(&self) -> impl Iterator<Item = &Arc<Layer>> {
        self.layers[..self.newest].iter().rev()
    }

    /// Returns whether the index is ahead of this state.
    pub(super) const fn is_historic(&self) -> bool {
        self.historic
    }

    /// Returns the number of the next block after this state.
    pub(super) const fn next(&self) -> u64 {
        self.next
    }

    /// Returns the id of the state; `None` if it is older than the state of the view.
    pub(super) const fn id(&self) -> Option<LayerId> {
        self.id
    }

    /// Returns the block after which the index is read.
    const fn last(&self) -> u64 {
        // History contains nothing from before block 0.
        self.index_next.saturating_sub(1)
    }

    /// Returns the snapshot of the index environment.
    pub(super) const fn index(&self) -> &IndexReader {
        &self.index
    }
}

impl StateRead for StateReader {
    type Error = ReadError;

    fn account(&self, address: Address) -> Result<Option<Account>, ReadError> {
        if let Some(account) = self.layers().find_map(|layer| layer.account(address)) {
            return Ok(account);
        }
        if self.historic {
            self.index.account_at(address, self.last())
        } else {
            self.index.account(address)
        }
    }

    fn storage(&self, address: Address, slot: U256) -> Result<U256, ReadError> {
        if let Some(value) = self.layers().find_map(|layer| layer.storage(address, slot)) {
            return Ok(value);
        }
        if self.historic {
            self.index.storage_at(address, slot, self.last())
        } else {
            self.index.storage(address, slot)
        }
    }

    fn code(&self, code_hash: B256) -> Result<Bytes, ReadError> {
        if code_hash == KECCAK256_EMPTY || code_hash.is_zero() {
            return Ok(Bytes::new());
        }
        if let Some(code) = self.layers().find_map(|layer| layer.code(code_hash)) {
            return Ok(code.clone());
        }
        StateRead::code(&self.index, code_hash)
    }

    fn has_storage(&self, address: Address) -> Result<bool, ReadError> {
        if let Some(known) = self.layers().find_map(|layer| layer.has_storage(address)) {
            return Ok(known);
        }
        if self.historic && self.index.account(address)?.is_some_and(|now| !is_bare(&now)) {
            // The account received its code or nonce after this state. A contract cannot be created at an address
            // with storage (EIP-7610), and an account that signs transactions had none before its first one.
            return Ok(false);
        }
        // The storage of an account without code and nonce cannot be written, so it has not changed since this
        // state, and the latest tables have it.
        self.index.has_storage(address)
    }
}

/// Returns whether the account has neither code nor nonce, so that a contract may be created at its address.
fn is_bare(account: &Account) -> bool {
    account.nonce == 0 && account.code_hash == KECCAK256_EMPTY
}

#[cfg(test)]
mod tests {
    use super::*;
    use storage::{AccountChange, FlushBlock, IndexOptions};

    #[test]
    fn pending_state_ignores_the_indexed_block_with_its_number() {
        let [changed, other] = [1, 2].map(Address::with_last_byte);
        let balance = |address, balance: u64| AccountChange {
            address,
            account: Some(Account { balance: U256::from(balance), ..Account::default() }),
            wiped: false,
            slots: Vec::new(),
        };
        let folder = tempfile::tempdir().unwrap();
        let index = IndexDb::open(folder.path(), IndexOptions { map_bytes: 1 << 24 }).unwrap();
        let flush = |number, accounts| {
            let changes = StateChanges { accounts, codes: Vec::new() };
            let block = FlushBlock {
                number,
                hash: B256::with_last_byte(number as u8),
                tx_hashes: &[],
                posting_keys: &[],
                changes: &changes,
            };
            index.flush(&[block]).unwrap();
        };
        flush(0, vec![balance(changed, 10), balance(other, 20)]);
        let changes = StateChanges { accounts: vec![balance(changed, 11)], codes: Vec::new() };
        let view = StateView::before(1, index.clone());
        let pending = view.with_pending(Arc::new(view.next_layer(changes, Vec::new())));
        let seen = |address| {
            let account = pending.reader().unwrap().account(address).unwrap();
            account.unwrap().balance.to::<u64>()
        };
        assert_eq!([changed, other].map(seen), [11, 20]);
        // The canonical block 1 differs from the pending one.
        flush(1, vec![balance(changed, 12), balance(other, 22)]);
        assert_eq!([changed, other].map(seen), [11, 20]);
        flush(2, vec![balance(changed, 13), balance(other, 23)]);
        assert_eq!([changed, other].map(seen), [11, 20]);
    }

    #[test]
    fn account_had_no_storage_before_a_contract_was_created_at_its_address() {
        let [paid, old] = [1, 2].map(Address::with_last_byte);
        let change = |address, code_hash, slots: &[(u64, u64)]| AccountChange {
            address,
            account: Some(Account { nonce: 0, balance: U256::ONE, code_hash }),
            wiped: false,
            slots: slots
                .iter()
                .map(|(slot, word)| (U256::from(*slot), U256::from(*word)))
                .collect(),
        };
        let code = B256::repeat_byte(7);
        let blocks = [
            // Storage without code and nonce, as contracts could leave it before EIP-161.
            vec![change(old, KECCAK256_EMPTY, &[(1, 1)])],
            vec![change(paid, KECCAK256_EMPTY, &[])],
            vec![change(paid, code, &[(5, 9)])],
        ];
        let folder = tempfile::tempdir().unwrap();
        let index = IndexDb::open(folder.path(), IndexOptions { map_bytes: 1 << 24 }).unwrap();
        for (number, accounts) in (0..).zip(blocks) {
            let changes = StateChanges { accounts, codes: Vec::new() };
            let block = FlushBlock {
                number,
                hash: B256::with_last_byte(number as u8),
                tx_hashes: &[],
                posting_keys: &[],
                changes: &changes,
            };
            index.flush(&[block]).unwrap();
        }
        let view = StateView::before(3, index);
        let has_storage = |number, address| {
            let reader = view.reader_at(number).unwrap();
            reader.has_storage(address).unwrap()
        };
        assert_eq!([0, 1, 2].map(|number| has_storage(number, paid)), [false, false, true]);
        assert_eq!([0, 1, 2].map(|number| has_storage(number, old)), [true; 3]);
    }

    /// Two blocks on one parent have different layers, and each is extended by its own children only.
    #[test]
    fn layers_extend_only_the_state_that_they_were_created_for() {
        let folder = tempfile::tempdir().unwrap();
        let index = IndexDb::open(folder.path(), IndexOptions { map_bytes: 1 << 24 }).unwrap();
        let view = StateView::before(5, index);
        let layer =
            |view: &StateView| Arc::new(view.next_layer(StateChanges::default(), Vec::new()));
        let [first, second] = [layer(&view), layer(&view)];
        assert_ne!(first.id(), second.id());
        assert_eq!([first.parent(), second.parent()], [view.id(); 2]);
        assert_eq!([first.number(), second.number()], [5, 5]);
        let after = view.with_layer(Arc::clone(&first), 0);
        assert_eq!(after.id(), first.id());
        let third = layer(&after);
        assert_eq!((third.number(), third.parent()), (6, first.id()));
        let wrong = [
            (&after, second),
            (&view, third),
            (&view, Arc::new(Layer::detached(5, StateChanges::default(), Vec::new()))),
        ];
        for (view, layer) in wrong {
            let extend = || view.with_layer(layer, 0);
            assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(extend)).is_err());
        }
    }
}
