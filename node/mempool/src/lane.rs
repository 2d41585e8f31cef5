//! One sender's pooled transactions: those that can run now in a row, those behind a gap by nonce.

use super::{limits::slots, order::Offer, row::Row};
use alloy_consensus::Transaction;
use alloy_primitives::{Address, U256};
use modules::decorator;
use std::{collections::BTreeMap, sync::Arc, time::Instant};
use storage::Account;
use transactions::RecoveredTx;

/// A pooled transaction with what ordering and limits need.
#[derive(Clone, Debug)]
pub struct Pooled {
    /// The transaction.
    pub tx: Arc<RecoveredTx>,
    /// What it offers, and when it came.
    pub offer: Offer,
    /// The least of its offer and those before it in its row: what it is worth to keep, for it
    /// cannot run before they have.
    pub(super) floor: Offer,
    /// Most it can cost, in wei, see [`decorator::cost`].
    pub cost: U256,
    /// Accounts that its authorizations delegate (EIP-7702).
    pub authorities: Box<[Address]>,
    // Of the transaction, so that nobody who goes through the pool has to look there.
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
        let bytes = u32::try_from(tx.raw.len()).expect("a transaction is at most 128 KiB");
        let blob_gas = u32::try_from(tx.blob_gas()).expect("its hashes fit in those bytes");
        let authorities = Box::default();
        Self { tx, offer, floor: offer, cost, authorities, nonce, gas, bytes, blob_gas }
    }

    /// Its nonce.
    pub const fn nonce(&self) -> u64 {
        self.nonce
    }

    /// Its gas limit.
    pub const fn gas(&self) -> u64 {
        self.gas
    }

    /// Blob gas it uses; zero without blobs.
    pub fn blob_gas(&self) -> u64 {
        self.blob_gas.into()
    }

    /// The most it pays for blob gas, in wei; zero without blobs.
    pub fn blob_cap(&self) -> u128 {
        // Most have none, and are not looked at for it.
        if self.blob_gas == 0 { 0 } else { self.tx.tx.max_fee_per_blob_gas().unwrap_or_default() }
    }

    /// Bytes of its EIP-2718 form.
    pub const fn bytes(&self) -> usize {
        self.bytes as usize
    }

    /// Slots it takes.
    pub const fn slots(&self) -> usize {
        slots(self.bytes())
    }
}

/// Equal to no floor, for the last arrival never comes.
const UNKNOWN_FLOOR: Offer = Offer { tip: 0, cap: 0, arrival: u64::MAX };

/// How much a lane holds; the pool keeps the sums of all lanes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Load {
    /// Executable transactions.
    pub(super) pending: usize,
    /// Their slots.
    pub(super) pending_slots: usize,
    /// Their gas limits, summed.
    pub(super) pending_gas: u128,
    /// Transactions behind a gap.
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

    /// In a sum, goes over from what a lane held to what it holds.
    pub(super) const fn replace(&mut self, old: &Self, new: &Self) {
        self.pending = self.pending - old.pending + new.pending;
        self.pending_slots = self.pending_slots - old.pending_slots + new.pending_slots;
        self.pending_gas = self.pending_gas - old.pending_gas + new.pending_gas;
        self.queued = self.queued - old.queued + new.queued;
        self.queued_slots = self.queued_slots - old.queued_slots + new.queued_slots;
    }
}

/// What the pool's orders and sums hold of a lane, told before and after a change of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Listed {
    /// The offer of the first executable transaction.
    pub(super) head: Option<Offer>,
    /// The floor of the last executable one, and whether the lane has more than it is guaranteed.
    pub(super) tail: Option<(Offer, bool)>,
    /// The floor of the last one behind the gap, and whether the lane has more of them than it is guaranteed.
    pub(super) queue: Option<(Offer, bool)>,
    /// Counted in the sums.
    pub(super) load: Load,
}

/// A sender's account as the chain has it, and the transactions it has pooled on top.
#[derive(Clone, Debug)]
pub struct Lane {
    sender: Address,
    account: Account,
    /// Nonces from the account's on, without a gap.
    pending: Row,
    /// Later nonces, by nonce.
    queued: BTreeMap<u64, Pooled>,
    /// Sum of all costs, in wei.
    cost: U256,
    load: Load,
    /// When a transaction last came behind the gap, or moved up from there.
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

    /// Makes an empty lane that of another sender. Its memory stays where it is: only what changes is
    /// written.
    pub(super) fn give_to(&mut self, sender: Address, account: Account, now: Instant) {
        debug_assert!(self.is_empty() && self.load == Load::default(), "an empty lane is given");
        self.sender = sender;
        self.account = account;
        self.cost = U256::ZERO;
        self.beat = now;
    }

    /// Gives back what an empty lane holds for more than one transaction.
    pub(super) fn shrink(&mut self) {
        self.pending.shrink();
    }

    /// Whose.
    pub const fn sender(&self) -> Address {
        self.sender
    }

    /// The account as the chain has it.
    pub const fn account(&self) -> &Account {
        &self.account
    }

    /// Transactions that can run now, in nonce order.
    pub const fn pending(&self) -> &Row {
        &self.pending
    }

    /// Transactions behind a gap, by nonce.
    pub const fn queued(&self) -> &BTreeMap<u64, Pooled> {
        &self.queued
    }

    /// The nonce after the last executable transaction.
    pub fn next_nonce(&self) -> u64 {
        self.account.nonce + self.pending.len() as u64
    }

    /// Sum of all costs, in wei.
    pub const fn cost(&self) -> U256 {
        self.cost
    }

    /// Holds nothing.
    pub fn is_empty(&self) -> bool {
        self.pending.is_empty() && self.queued.is_empty()
    }

    /// The transaction with this nonce.
    pub fn get(&self, nonce: u64) -> Option<&Pooled> {
        match self.index(nonce) {
            Some(index) => self.pending.get(index),
            None => self.queued.get(&nonce),
        }
    }

    /// Position of a nonce in the row of executable ones, if it is there.
    fn index(&self, nonce: u64) -> Option<usize> {
        let index = usize::try_from(nonce.checked_sub(self.account.nonce)?).ok()?;
        (index < self.pending.len()).then_some(index)
    }

    /// Puts a transaction in, giving back the one it replaces; moves up what it fills a gap for.
    pub(super) fn put(&mut self, pooled: Pooled, now: Instant) -> Option<Pooled> {
        let nonce = pooled.nonce();
        self.cost = self.cost.saturating_add(pooled.cost);
        let old = if let Some(index) = self.index(nonce) {
            self.load.add_pending(&pooled);
            let place = self.pending.get_mut(index).expect("the index is in the row");
            let old = std::mem::replace(place, pooled);
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

    /// Appends to the executable ones.
    fn push(&mut self, mut pooled: Pooled) {
        self.load.add_pending(&pooled);
        let before = self.pending.back().map(|last| last.floor);
        pooled.floor = before.map_or(pooled.offer, |floor| floor.lowered_by(pooled.offer));
        self.pending.push_back(pooled);
    }

    /// Puts behind the gap. Floors are computed anew by the caller.
    fn queue(&mut self, pooled: Pooled) -> Option<Pooled> {
        self.load.add_queued(&pooled);
        let old = self.queued.insert(pooled.nonce(), pooled);
        if let Some(old) = &old {
            self.load.sub_queued(old);
        }
        old
    }

    /// Moves up those that are no longer behind a gap.
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

    /// Computes the floors of executable ones anew from a position on.
    fn refold(&mut self, from: usize) {
        let before = from.checked_sub(1).and_then(|index| self.pending.get(index));
        let before = before.map(|pooled| pooled.floor);
        fold(before, self.pending.range_mut(from));
    }

    /// Computes the floors behind the gap anew from a nonce on.
    fn refold_queue(&mut self, from: u64) {
        let before = self.queued.range(..from).next_back().map(|(_, pooled)| pooled.floor);
        fold(before, self.queued.range_mut(from..).map(|(_, pooled)| pooled));
    }

    /// Takes the transaction with this nonce out; executable ones after it fall behind a gap.
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

    /// Takes the last executable one out.
    pub(super) fn take_last_pending(&mut self) -> Option<Pooled> {
        let pooled = self.pending.pop_back()?;
        self.load.sub_pending(&pooled);
        self.cost = self.cost.saturating_sub(pooled.cost);
        Some(pooled)
    }

    /// Takes the one with the highest nonce behind the gap out.
    pub(super) fn take_last_queued(&mut self) -> Option<Pooled> {
        let (_, pooled) = self.queued.pop_last()?;
        self.load.sub_queued(&pooled);
        self.cost = self.cost.saturating_sub(pooled.cost);
        Some(pooled)
    }

    /// Executable ones from a position on go behind the gap.
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

    /// Takes in the account as a block left it; puts what can never run into `gone`: used nonces, and
    /// the latest ones that the balance no longer pays for beside the earlier ones. Gives how many
    /// the latter are.
    pub(super) fn advance(
        &mut self,
        account: Account,
        now: Instant,
        gone: &mut Vec<Pooled>,
    ) -> usize {
        let used = account.nonce.saturating_sub(self.account.nonce);
        if account.nonce < self.account.nonce {
            // Not on this chain, whose blocks stay; but then nothing is executable as it stands.
            self.demote(0, now);
        }
        self.account = account;
        let first = gone.len();
        while ((gone.len() - first) as u64) < used {
            let Some(pooled) = self.pending.pop_front() else { break };
            self.load.sub_pending(&pooled);
            gone.push(pooled);
        }
        while let Some(entry) = self.queued.first_entry() {
            if *entry.key() >= self.account.nonce {
                break;
            }
            let pooled = entry.remove();
            self.load.sub_queued(&pooled);
            gone.push(pooled);
        }
        for pooled in &gone[first..] {
            self.cost = self.cost.saturating_sub(pooled.cost);
        }
        if gone.len() > first {
            self.refold(0);
            self.refold_queue(0);
        }
        self.promote(now);
        let mined = gone.len();
        while self.cost > self.account.balance {
            let Some(last) = self.take_last_queued().or_else(|| self.take_last_pending()) else {
                break;
            };
            gone.push(last);
        }
        gone.len() - mined
    }

    /// What the pool's orders and sums should hold of this lane.
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

    /// Every transaction in nonce order.
    pub fn all(&self) -> impl Iterator<Item = &Pooled> {
        self.pending.iter().chain(self.queued.values())
    }
}

/// Computes floors anew along a row, as far as they change; `before` is the floor ahead of it.
fn fold<'a>(mut before: Option<Offer>, row: impl Iterator<Item = &'a mut Pooled>) {
    for (steps, pooled) in row.enumerate() {
        let floor = before.map_or(pooled.offer, |floor| floor.lowered_by(pooled.offer));
        // The first is where the change is; behind it, equal floors stay equal.
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
    fn balance_that_pays_for_all_transactions_exactly_keeps_them() {
        let cost = U256::from(u128::from(GAS) * PRICE);
        // Without and with a gap before the last nonce.
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
                let mut gone = Vec::new();
                let unpaid = lane.advance(Account { balance, ..account }, now, &mut gone);
                assert_eq!(unpaid, nonces.len() - kept, "{nonces:?} for {balance}");
                let left: Vec<_> = lane.all().map(Pooled::nonce).collect();
                assert_eq!(left, nonces[..kept], "the latest nonces go first");
                assert_eq!(lane.cost(), cost * U256::from(kept));
            }
        }
    }

    #[test]
    fn costs_whose_sum_exceeds_256_bits_are_not_paid_for() {
        let half = U256::ONE << 255;
        let (now, rich) = (Instant::now(), U256::MAX - U256::ONE);
        let account = Account { nonce: 5, balance: rich, ..Account::default() };
        let mut lane = Lane::new(SENDER, account, now);
        for nonce in [5, 6] {
            assert!(lane.put(paying(nonce, half), now).is_none());
        }
        assert_eq!(lane.cost(), U256::MAX);
        let mut gone = Vec::new();
        assert_eq!(lane.advance(account, now, &mut gone), 1);
        assert_eq!(lane.all().map(Pooled::nonce).collect::<Vec<_>>(), [5]);
    }
}
