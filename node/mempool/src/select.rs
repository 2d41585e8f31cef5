//! The transactions a block should try, best first.

use super::{Mempool, Pooled, order::Rank};
use std::{
    collections::{BinaryHeap, VecDeque},
    sync::Arc,
};
use storage::prefetch;
use transactions::RecoveredTx;

/// Least gas of a transaction: with less left, a block is full.
const TX_GAS_MIN: u64 = 21_000;
/// Most transactions looked at that do not fit: a pool full of wide ones must not cost a walk
/// through all of it for each block.
const MISFITS_MAX: usize = 4_096;
/// Heads between asking for a lane's memory and choosing from it.
const HEADS_AHEAD: usize = 8;
/// The whole, in parts of [`Room::charged`].
const WHOLE: u64 = 1 << 32;

/// What a block has room for, and how many candidates are wanted for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Gas of the block.
    pub gas: u64,
    /// Most gas limits of all candidates, summed: more than the block's gas, for transactions use
    /// less than their limits.
    pub candidates_gas: u64,
    /// What a transaction is charged at least of its limit, in parts of 2^32, rounded down.
    pub charged: u64,
    /// Most bytes of all candidates, summed.
    pub bytes: usize,
    /// Maximum number of candidates.
    pub txs: usize,
    /// Blob gas of the block.
    pub blob_gas: u64,
    /// Price of blob gas in the block, in wei.
    pub blob_base_fee: u128,
}

impl Room {
    /// For transactions that are charged their whole limits, and have no blobs.
    pub const fn exact(gas: u64, bytes: usize) -> Self {
        Self {
            gas,
            candidates_gas: gas,
            charged: WHOLE,
            bytes,
            txs: usize::MAX,
            blob_gas: 0,
            blob_base_fee: 0,
        }
    }

    /// It has blobs that do not fit, or do not pay.
    fn refuses_blobs(&self, tx: &Pooled) -> bool {
        tx.blob_gas() > self.blob_gas || tx.blob_gas() > 0 && tx.blob_cap() < self.blob_base_fee
    }

    /// What is left at best once this one has run.
    fn without(self, tx: &Pooled) -> Self {
        let share = u128::from(tx.gas()) * u128::from(self.charged.min(WHOLE)) / u128::from(WHOLE);
        // Not more than the limit, which has 64 bits.
        let charge = u64::try_from(share).unwrap_or(u64::MAX).max(TX_GAS_MIN);
        Self {
            gas: self.gas.saturating_sub(charge),
            candidates_gas: self.candidates_gas - tx.gas(),
            bytes: self.bytes - tx.bytes(),
            txs: self.txs - 1,
            blob_gas: self.blob_gas - tx.blob_gas(),
            ..self
        }
    }
}

/// What was chosen for a block.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// In the order to try them.
    pub txs: Vec<Arc<RecoveredTx>>,
    /// Their gas limits, summed.
    pub gas: u64,
    /// Some were left out for their bytes.
    pub bytes_full: bool,
}

impl Mempool {
    /// The best pending transactions: highest effective tip first, earlier arrival on ties, each
    /// sender's in nonce order, none whose cap is below the base fee; until there are enough. One
    /// that cannot fit behind those chosen, however little they use, is left out with those after it
    /// in its lane, and the others go on.
    ///
    /// Takes O(j log j) for the j transactions looked at: those chosen, and a bounded number that do
    /// not fit.
    pub fn select(&mut self, mut room: Room) -> Selection {
        let mut reader = self.heads.read();
        let mut heads = reader.by_ref().take_while(Rank::covers);
        // The best heads not begun, in order; their lanes are on the way into the caches.
        let mut near: VecDeque<Rank> = VecDeque::with_capacity(HEADS_AHEAD);
        // Lanes already begun, at their next transaction.
        let mut begun: BinaryHeap<(Rank, usize)> = BinaryHeap::new();
        let mut chosen = Selection::default();
        let mut misfits = 0;
        while room.gas.min(room.candidates_gas) >= TX_GAS_MIN
            && room.txs > 0
            && misfits < MISFITS_MAX
        {
            while near.len() < HEADS_AHEAD
                && let Some(head) = heads.next()
            {
                prefetch(&self.lanes[head.lane as usize]);
                near.push_back(head);
            }
            if let Some(head) = near.get(HEADS_AHEAD / 2) {
                self.at(head.lane).pending().front().into_iter().for_each(|tx| prefetch(&*tx.tx));
            }
            let from_heads = match (near.front(), begun.peek()) {
                (Some(head), Some((next, _))) => head > next,
                (head, _) => head.is_some(),
            };
            let next =
                if from_heads { near.pop_front().map(|rank| (rank, 0)) } else { begun.pop() };
            let Some((rank, index)) = next else { break };
            let lane = self.at(rank.lane);
            let pooled = lane.pending().get(index).expect("a row is as long as it was looked at");
            let wide = pooled.gas() > room.gas.min(room.candidates_gas);
            let large = pooled.bytes() > room.bytes;
            if wide || large || room.refuses_blobs(pooled) {
                chosen.bytes_full |= large && !wide;
                misfits += 1;
                continue;
            }
            room = room.without(pooled);
            chosen.gas += pooled.gas();
            chosen.txs.push(Arc::clone(&pooled.tx));
            let next = lane.pending().get(index + 1);
            let next = next.map(|next| Rank::of(&next.offer, rank.lane, self.base_fee));
            begun.extend(next.filter(Rank::covers).map(|rank| (rank, index + 1)));
        }
        let moves = reader.end();
        self.heads.settle(moves);
        chosen
    }
}
