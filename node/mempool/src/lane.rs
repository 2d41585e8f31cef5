//! Stores the pooled transactions of one sender: the pending ones in a row, and those behind a gap by nonce.

use super::{limits::slots, order::Offer, row::Row};
use alloy_consensus::Transaction;
use alloy_primitives::{Address, U256};
use modules::decorator;
use std::{collections::BTreeMap, sync::Arc, time::Instant};
use storage::Account;
use transactions::RecoveredTx;

/// A pooled transaction, with values for ordering and limits.
#[derive(Clone, Debug)]
pub struct Pooled {
    /// The transaction.
    pub tx: Arc<RecoveredTx>,
    /// Its offer and its arrival.
    pub offer: Offer,
    /// The minimum of its offer and the offers before it in its lane's row or queue. This is the value of keeping
    /// it, because it cannot be executed before them.
    pub(super) floor: Offer,
    /// Its maximum cost in wei, see [`decorator::cost`].
    pub cost: U256,
    /// Authorities of its authorizations (EIP-7702).
    pub authorities: Box<[Address]>,
    // Copied from the transaction, so that iterating over the pool does not access its memory.
    nonce: u64,
    gas: u64,
    bytes: u32,
    blob_gas: u32,
}

impl Pooled {
    pub(super) fn new(tx: Arc<RecoveredTx>, arrival: u64) -> Self {
        let cap = tx.tx.max_fee_per_gas();
        let tip = tx.tx.max_priority_fee_per_gas().unwrap_or(cap).min(cap);
        let cost = decorator::cost(&tx.tx);
        let offer = Offer { tip, cap, arrival };
        let (nonce, gas) = (tx.tx.nonce(), tx.tx.gas_limit());
        let bytes = u32::try_from(tx.raw.len()).expect("a transaction is smaller than 4 GiB");
        let blob_gas = u32::try_from(tx.blob_gas()).expect("the size limits the number of blobs");
        let authorities = Box::default();
        Self { tx, offer, floor: offer, cost, authorities, nonce, gas, bytes, blob_gas }
    }

    /// Returns its nonce.
    pub const fn nonce(&self) -> u64 {
        self.nonce
    }

    /// Returns its gas limit.
    pub const fn gas(&self) -> u64 {
        self.gas
    }

    /// Returns its blob gas; zero without blobs.
    pub fn blob_gas(&self) -> u64 {
        self.blob_gas.into()
    }

    /// Returns its maximum price for blob gas in wei; zero without blobs.
    pub fn blob_cap(&self) -> u128 {
        // The memory of the transaction is not accessed if it has no blobs, as most have none.
        if self.blob_gas == 0 { 0 } else { self.tx.tx.max_fee_per_blob_gas().unwrap_or_default() }
    }

    /// Returns the size of its EIP-2718 encoding in bytes.
    pub const fn bytes(&self) -> usize {
        self.bytes as usize
    }

    /// Returns the number of slots that it occupies.
    pub const fn slots(&self) -> usize {
        slots(self.bytes())
    }
}

/// Differs from every floor, because no transaction has the highest arrival number.
const UNKNOWN_FLOOR: Offer = Offer { tip: 0, cap: 0, arrival: u64::MAX };

/// The size of a lane; the pool stores the sums over all lanes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Load {
    /// Number of pending transactions.
    pub(super) pending: usize,
    /// Their slots.
    pub(super) pending_slots: usize,
    /// Their gas limits, summed.
    pub(super) pending_gas: u128,
    /// Number of transactions behind a gap.
    pub(super) queued: usize,
    /// Their slots.
    pub(super) queued_slots: usize,
}

impl Load {
    fn add_pending(&mut self, pooled: &Pooled) {
        self.pending += 1;
        self.pending_slots += pooled.slots();
        self.pending_gas += u128::from(pooled.gas());
    }

    fn sub_pending(&mut self, pooled: &Pooled) {
        self.pending -= 1;
        self.pending_slots -= pooled.slots();
        self.pending_gas -= u128::from(pooled.gas());
    }

    fn add_queued(&mut self, pooled: &Pooled) {
        self.queued += 1;
        self.queued_slots += pooled.slots();
    }

    fn sub_queued(&mut self, pooled: &Pooled) {
        self.queued -= 1;
        self.queued_slots -= pooled.slots();
    }

    /// Updates a sum from the previous to the new size of a lane.
    pub(super) const fn replace(&mut self, old: &Self, new: &Self) {
        self.pending = self.pending - old.pending + new.pending;
        self.pending_slots = self.pending_slots - old.pending_slots + new.pending_slots;
        self.pending_gas = self.pending_gas - old.pending_gas + new.pending_gas;
        self.queued = self.queued - old.queued + new.queued;
        self.queued_slots = self.queued_slots - old.queued_slots + new.queued_slots;
    }
}

/// The values of a lane in the pool's orders and sums, compared before and after a change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Listed {
    /// The offer of the first pending transaction.
    pub(super) head: Option<Offer>,
    /// The floor of the last pending transaction, and whether they have more slots than guaranteed.
    pub(super) tail: Option<(Offer, bool)>,
    /// The floor of the last queued transaction, and whether they have more slots than guaranteed.
    pub(super) queue: Option<(Offer, bool)>,
    /// Its contribution to the sums.
    pub(super) load: Load,
}

/// A sender's account on chain, and its pooled transactions.
#[derive(Clone, Debug)]
pub struct Lane {
    sender: Address,
    account: Account,
    /// Transactions with consecutive nonces, starting with the account's.
    pending: Row,
    /// Transactions with later nonces, by nonce.
    queued: BTreeMap<u64, Pooled>,
    /// Sum of the costs of all transactions, in wei.
    cost: U256,
    load: Load,
    /// The last time at which a transaction was added behind the gap, moved there, or moved up from there.
    pub(super) beat: Instant,
}

impl Lane {
    pub(super) fn new(sender: Address, account: Account, now: Instant) -> Self {
        Self {
            sender,
            account,
            pending: Row::default(),
            queued: BTreeMap::new(),
            cost: U256::ZERO,
            load: Load::default(),
            beat: now,
        }
    }

    /// Assigns an empty lane to another sender. Its memory is reused, and only changed fields are written.
    pub(super) fn assign_to(&mut self, sender: Address, account: Account, now: Instant) {
        debug_assert!(self.is_empty() && self.load == Load::default(), "the lane is empty");
        self.sender = sender;
        self.account = account;
        self.cost = U256::ZERO;
        self.beat = now;
    }

    /// Frees the memory of an empty lane, except the memory for one transaction.
    pub(super) fn shrink(&mut self) {
        self.pending.shrink();
    }

    /// Returns the address of the sender.
    pub const fn sender(&self) -> Address {
        self.sender
    }

    /// Returns the account on chain.
    pub const fn account(&self) -> &Account {
        &self.account
    }

    /// Returns the pending transactions, in nonce order.
    pub const fn pending(&self) -> &Row {
        &self.pending
    }

    /// Returns the transactions behind a gap, by nonce.
    pub const fn queued(&self) -> &BTreeMap<u64, Pooled> {
        &self.queued
    }

    /// Returns the nonce after the last pending transaction, or the account's nonce if none is pending.
    pub fn next_nonce(&self) -> u64 {
        self.account.nonce + self.pending.len() as u64
    }

    /// Returns the sum of the costs of all transactions, in wei.
    pub const fn cost(&self) -> U256 {
        self.cost
    }

    /// Returns whether there are no transactions.
    pub fn is_empty(&self) -> bool {
        self.pending.is_empty() && self.queued.is_empty()
    }

    /// Returns the transaction with this nonce.
    pub fn get(&self, nonce: u64) -> Option<&Pooled> {
        match self.index(nonce) {
            Some(index) => self.pending.get(index),
            None => self.queued.get(&nonce),
        }
    }

    /// Returns the position of a nonce in the row of pending transactions, if it is there.
    fn index(&self, nonce: u64) -> Option<usize> {
        let index = usize::try_from(nonce.checked_sub(self.account.nonce)?).ok()?;
        (index < self.pending.len()).then_some(index)
    }

    /// Inserts a transaction and returns the one it replaces; moves up transactions whose gap it fills.
    pub(super) fn put(&mut self, pooled: Pooled, now: Instant) -> Option<Pooled> {
        let nonce = pooled.nonce();
        self.cost = self.cost.saturating_add(pooled.cost);
        let old = if let Some(index) = self.index(nonce) {
            self.load.add_pending(&pooled);
            let current = self.pending.get_mut(index).expect("the index is in the row");
            let old = std::mem::replace(current, pooled);
            self.load.sub_pending(&old);
            self.refold(index);
            Some(old)
        } else if nonce == self.next_nonce() {
            self.push(pooled);
            self.promote(now);
            None
        } else {
            self.beat = now;
            let old = self.queue(pooled);
            self.refold_queue(nonce);
            old
        };
        if let Some(old) = &old {
            self.cost = self.cost.saturating_sub(old.cost);
        }
        old
    }

    /// Appends to the pending transactions.
    fn push(&mut self, mut pooled: Pooled) {
        self.load.add_pending(&pooled);
        let before = self.pending.back().map(|last| last.floor);
        pooled.floor = before.map_or(pooled.offer, |floor| floor.lowered_by(pooled.offer));
        self.pending.push_back(pooled);
    }

    /// Inserts behind the gap. The caller updates the floors.
    fn queue(&mut self, pooled: Pooled) -> Option<Pooled> {
        self.load.add_queued(&pooled);
        let old = self.queued.insert(pooled.nonce(), pooled);
        if let Some(old) = &old {
            self.load.sub_queued(old);
        }
        old
    }

    /// Moves up transactions that are no longer behind a gap.
    fn promote(&mut self, now: Instant) {
        let mut moved = false;
        while let Some(entry) = self.queued.first_entry() {
            if *entry.key() != self.account.nonce + self.pending.len() as u64 {
                break;
            }
            let pooled = entry.remove();
            self.load.sub_queued(&pooled);
            self.push(pooled);
            self.beat = now;
            moved = true;
        }
        if moved {
            self.refold_queue(0);
        }
    }

    /// Updates the floors of the pending transactions at and after a position.
    fn refold(&mut self, from: usize) {
        let before = from.checked_sub(1).and_then(|index| self.pending.get(index));
        let before = before.map(|pooled| pooled.floor);
        fold(before, self.pending.range_mut(from));
    }

    /// Updates the floors of the transactions behind the gap, starting with a nonce.
    fn refold_queue(&mut self, from: u64) {
        let before = self.queued.range(..from).next_back().map(|(_, pooled)| pooled.floor);
        fold(before, self.queued.range_mut(from..).map(|(_, pooled)| pooled));
    }

    /// Removes the transaction with this nonce; pending ones after it move behind the gap.
    pub(super) fn take(&mut self, nonce: u64, now: Instant) -> Option<Pooled> {
        let Some(index) = self.index(nonce) else {
            let pooled = self.queued.remove(&nonce)?;
            self.load.sub_queued(&pooled);
            self.cost = self.cost.saturating_sub(pooled.cost);
            self.refold_queue(nonce);
            return Some(pooled);
        };
        self.demote(index + 1, now);
        self.take_last_pending()
    }

    /// Removes the last pending transaction.
    pub(super) fn take_last_pending(&mut self) -> Option<Pooled> {
        let pooled = self.pending.pop_back()?;
        self.load.sub_pending(&pooled);
        self.cost = self.cost.saturating_sub(pooled.cost);
        Some(pooled)
    }

    /// Removes the transaction with the highest nonce behind the gap.
    pub(super) fn take_last_queued(&mut self) -> Option<Pooled> {
        let (_, pooled) = self.queued.pop_last()?;
        self.load.sub_queued(&pooled);
        self.cost = self.cost.saturating_sub(pooled.cost);
        Some(pooled)
    }

    /// Moves the pending transactions at and after a position behind the gap.
    fn demote(&mut self, from: usize, now: Instant) {
        let demoted = self.pending.split_off(from);
        let Some(first) = demoted.front().map(Pooled::nonce) else { return };
        for mut pooled in demoted {
            self.load.sub_pending(&pooled);
            pooled.floor = UNKNOWN_FLOOR;
            self.queue(pooled);
        }
        self.refold_queue(first);
        self.beat = now;
    }

    /// Updates the account after a block. Moves transactions that can never be executed to `removed`: those
    /// with used nonces, and then the highest nonces, until the balance covers the rest. Returns the number of
    /// those that the balance did not cover.
    pub(super) fn advance(
        &mut self,
        account: Account,
        now: Instant,
        removed: &mut Vec<Pooled>,
    ) -> usize {
        let used = account.nonce.saturating_sub(self.account.nonce);
        if account.nonce < self.account.nonce {
            // Blocks were undone. The lane has no pending transactions until the blocks' transactions are pooled again.
            self.demote(0, now);
        }
        self.account = account;
        let first = removed.len();
        while ((removed.len() - first) as u64) < used {
            let Some(pooled) = self.pending.pop_front() else { break };
            self.load.sub_pending(&pooled);
            removed.push(pooled);
        }
        while let Some(entry) = self.queued.first_entry() {
            if *entry.key() >= self.account.nonce {
                break;
            }
            let pooled = entry.remove();
            self.load.sub_queued(&pooled);
            removed.push(pooled);
        }
        for pooled in &removed[first..] {
            self.cost = self.cost.saturating_sub(pooled.cost);
        }
        if removed.len() > first {
            self.refold(0);
            self.refold_queue(0);
        }
        self.promote(now);
        let mined = removed.len();
        while self.cost > self.account.balance {
            let Some(last) = self.take_last_queued().or_else(|| self.take_last_pending()) else {
                break;
            };
            removed.push(last);
        }
        removed.len() - mined
    }

    /// Returns the values that the pool's orders and sums should have for this lane.
    pub(super) fn listing(&self, account_slots: usize) -> Listed {
        let spare = self.load.pending_slots > account_slots;
        let spare_queue = self.load.queued_slots > account_slots;
        let queue = self.queued.last_key_value();
        Listed {
            head: self.pending.front().map(|pooled| pooled.offer),
            tail: self.pending.back().map(|pooled| (pooled.floor, spare)),
            queue: queue.map(|(_, pooled)| (pooled.floor, spare_queue)),
            load: self.load,
        }
    }

    /// Returns all transactions in nonce order.
    pub fn all(&self) -> impl Iterator<Item = &Pooled> {
        self.pending.iter().chain(self.queued.values())
    }
}

/// Updates floors along a row until they no longer change; `before` is the floor of the previous transaction.
fn fold<'a>(mut before: Option<Offer>, row: impl Iterator<Item = &'a mut Pooled>) {
    for (steps, pooled) in row.enumerate() {
        let floor = before.map_or(pooled.offer, |floor| floor.lowered_by(pooled.offer));
        // Only the first floor is known to change. If a later one does not, neither do those after it.
        if steps > 0 && pooled.floor == floor {
            return;
        }
        pooled.floor = floor;
        before = Some(floor);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_consensus::{SignableTransaction, TxLegacy};
    use alloy_primitives::{B256, Bytes, Signature};
    use std::sync::OnceLock;
    use transactions::Transaction as Envelope;

    const GAS: u64 = 21_000;
    const PRICE: u128 = 100;
    const SENDER: Address = Address::repeat_byte(1);

    fn pooled(nonce: u64) -> Pooled {
        paying(nonce, U256::ZERO)
    }

    fn paying(nonce: u64, value: U256) -> Pooled {
        let tx = TxLegacy { nonce, gas_price: PRICE, gas_limit: GAS, value, ..TxLegacy::default() };
        let tx = RecoveredTx {
            raw: Bytes::new(),
            tx: Envelope::Legacy(tx.into_signed(Signature::test_signature())),
            hash: B256::left_padding_from(&nonce.to_be_bytes()),
            sender: SENDER,
            high_s: false,
            authorities: OnceLock::new(),
            cosmos: None,
        };
        Pooled::new(Arc::new(tx), nonce)
    }

    #[test]
    fn balance_equal_to_the_total_cost_keeps_all_transactions() {
        let cost = U256::from(u128::from(GAS) * PRICE);
        // Once without and once with a gap before the last nonce.
        for nonces in [[5, 6, 7], [5, 6, 8]] {
            let total = cost * U256::from(nonces.len());
            for (balance, kept) in [
                (total + U256::ONE, 3),
                (total, 3),
                (total - U256::ONE, 2),
                (total - cost, 2),
                (total - cost - U256::ONE, 1),
                (cost, 1),
                (cost - U256::ONE, 0),
            ] {
                let now = Instant::now();
                let account = Account { nonce: 5, balance: U256::MAX, ..Account::default() };
                let mut lane = Lane::new(SENDER, account, now);
                for nonce in nonces {
                    assert!(lane.put(pooled(nonce), now).is_none());
                }
                let mut removed = Vec::new();
                let unpaid = lane.advance(Account { balance, ..account }, now, &mut removed);
                assert_eq!(unpaid, nonces.len() - kept, "{nonces:?} for {balance}");
                let kept_nonces: Vec<_> = lane.all().map(Pooled::nonce).collect();
                assert_eq!(kept_nonces, nonces[..kept], "the highest nonces are removed first");
                assert_eq!(lane.cost(), cost * U256::from(kept));
            }
        }
    }

    #[test]
    fn transactions_whose_total_cost_exceeds_256_bits_are_removed() {
        let half = U256::ONE << 255;
        let (now, rich) = (Instant::now(), U256::MAX - U256::ONE);
        let account = Account { nonce: 5, balance: rich, ..Account::default() };
        let mut lane = Lane::new(SENDER, account, now);
        for nonce in [5, 6] {
            assert!(lane.put(paying(nonce, half), now).is_none());
        }
        assert_eq!(lane.cost(), U256::MAX);
        let mut removed = Vec::new();
        assert_eq!(lane.advance(account, now, &mut removed), 1);
        assert_eq!(lane.all().map(Pooled::nonce).collect::<Vec<_>>(), [5]);
    }
}
