//! Selects the candidates for a block, best first.

use super::{Mempool, Pooled, order::Rank};
use alloy_primitives::B256;
use std::{
    collections::{BinaryHeap, VecDeque},
    sync::Arc,
};
use storage::prefetch;
use transactions::RecoveredTx;

/// Minimum gas of a transaction. A block with less gas left is full.
const MIN_TX_GAS: u64 = 21_000;
/// Maximum number of candidates that do not fit. Without it, a pool full of large transactions would be walked
/// completely for each block.
const MAX_MISFITS: usize = 4_096;
/// Number of lanes between the prefetch of a lane's memory and its use.
const HEADS_AHEAD: usize = 8;
/// Denominator of [`BlockSpace::charged`].
const WHOLE: u64 = 1 << 32;

/// The space of a block, and the limits of the candidates for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockSpace {
    /// Gas of the block.
    pub gas: u64,
    /// Maximum sum of the candidates' gas limits. It may exceed the block's gas, because transactions use less
    /// than their limits.
    pub candidates_gas: u64,
    /// Minimum charged share of a transaction's gas limit, in parts of 2^32, rounded down.
    pub charged: u64,
    /// Maximum total size of the candidates in bytes.
    pub bytes: usize,
    /// Maximum number of candidates.
    pub txs: usize,
    /// Blob gas of the block.
    pub blob_gas: u64,
    /// Price of blob gas in the block, in wei.
    pub blob_base_fee: u128,
}

impl BlockSpace {
    /// Returns the space for transactions that are charged for their whole gas limits, and have no blobs.
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

    /// Returns whether a transaction has blobs that do not fit, or that do not pay enough.
    fn excludes_for_blobs(&self, tx: &Pooled) -> bool {
        tx.blob_gas() > self.blob_gas || tx.blob_gas() > 0 && tx.blob_cap() < self.blob_base_fee
    }

    /// Returns the maximum space that is left after this transaction.
    fn without(self, tx: &Pooled) -> Self {
        let share = u128::from(tx.gas()) * u128::from(self.charged.min(WHOLE)) / u128::from(WHOLE);
        // The charge does not exceed the gas limit, which has 64 bits.
        let charge = u64::try_from(share).unwrap_or(u64::MAX).max(MIN_TX_GAS);
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

/// The selection for a block.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// The transactions, in the order in which to execute them.
    pub txs: Vec<Arc<RecoveredTx>>,
    /// Sum of their gas limits.
    pub gas: u64,
    /// Whether a transaction was skipped because of its size in bytes.
    pub bytes_full: bool,
}

impl Mempool {
    /// Selects the best pending transactions, until the space is full: highest effective priority fee first,
    /// earlier arrival on ties, each sender's in nonce order, and none whose cap is below the base fee. A
    /// transaction that cannot fit after the selected ones, however little gas they use, is skipped together
    /// with the later ones of its lane.
    ///
    /// Takes O(j log j) for the j transactions read: the selected ones, and a limited number that do not fit.
    pub fn select(&mut self, space: BlockSpace) -> Selection {
        self.select_without(space, |_| false)
    }

    /// Does the same as [`Self::select`] for a block after others that are not part of the chain yet. Skips each
    /// transaction for whose hash `is_taken` returns true, because those blocks contain it, but not its successors.
    pub fn select_without(
        &mut self,
        mut space: BlockSpace,
        is_taken: impl Fn(&B256) -> bool,
    ) -> Selection {
        let mut reader = self.heads.read();
        let mut heads = reader.by_ref().take_while(Rank::covers);
        // The best first transactions of lanes that have not been started, in order. Their lanes are being
        // prefetched.
        let mut near: VecDeque<Rank> = VecDeque::with_capacity(HEADS_AHEAD);
        // Lanes that have been started, by their next transaction.
        let mut started: BinaryHeap<(Rank, usize)> = BinaryHeap::new();
        let mut chosen = Selection::default();
        let mut misfits = 0;
        while space.gas.min(space.candidates_gas) >= MIN_TX_GAS
            && space.txs > 0
            && misfits < MAX_MISFITS
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
            let from_heads = match (near.front(), started.peek()) {
                (Some(head), Some((next, _))) => head > next,
                (head, _) => head.is_some(),
            };
            let next =
                if from_heads { near.pop_front().map(|rank| (rank, 0)) } else { started.pop() };
            let Some((rank, index)) = next else { break };
            let lane = self.at(rank.lane);
            let pooled = lane.pending().get(index).expect("the row has this transaction");
            let next = || {
                let next = lane.pending().get(index + 1)?;
                let rank = Rank::of(&next.offer, rank.lane, self.base_fee);
                Rank::covers(&rank).then_some((rank, index + 1))
            };
            if is_taken(&pooled.tx.hash) {
                started.extend(next());
                continue;
            }
            let wide = pooled.gas() > space.gas.min(space.candidates_gas);
            let large = pooled.bytes() > space.bytes;
            if wide || large || space.excludes_for_blobs(pooled) {
                chosen.bytes_full |= large && !wide;
                misfits += 1;
                continue;
            }
            space = space.without(pooled);
            chosen.gas += pooled.gas();
            chosen.txs.push(Arc::clone(&pooled.tx));
            started.extend(next());
        }
        let moves = reader.end();
        self.heads.settle(moves);
        chosen
    }
}
