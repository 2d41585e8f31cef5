//! The transactions a block should try, best first.

use super::{Mempool, order::Rank};
use crate::execution::RecoveredTx;
use std::{collections::BinaryHeap, sync::Arc};

/// Least gas of a transaction: with less left, a block is full.
const TX_GAS_MIN: u64 = 21_000;

/// What was chosen for a block.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// In the order to try them.
    pub txs: Vec<Arc<RecoveredTx>>,
    /// Their gas limits, summed.
    pub gas: u64,
    /// Their bytes, summed.
    pub bytes: usize,
    /// Some were left out for their bytes.
    pub bytes_full: bool,
}

impl Mempool {
    /// The best pending transactions: highest effective tip first, earlier arrival on ties, each
    /// sender's in nonce order, none whose cap is below the base fee; until their gas limits sum
    /// to `gas` or their bytes to `bytes`. One that does not fit is left out with those after it
    /// in its lane, and the others go on.
    ///
    /// Takes O(j log j) for the j transactions looked at: those chosen and those that do not fit.
    pub fn select(&self, gas: u64, bytes: usize) -> Selection {
        let mut heads = self.heads.best().take_while(Rank::covers).peekable();
        // Lanes already begun, at their next transaction.
        let mut begun: BinaryHeap<(Rank, usize)> = BinaryHeap::new();
        let mut chosen = Selection::default();
        while gas - chosen.gas >= TX_GAS_MIN {
            let from_heads = match (heads.peek(), begun.peek()) {
                (Some(head), Some((next, _))) => head > next,
                (head, _) => head.is_some(),
            };
            let next = if from_heads { heads.next().map(|rank| (rank, 0)) } else { begun.pop() };
            let Some((rank, index)) = next else { break };
            let lane = self.at(rank.lane);
            let pooled = &lane.pending()[index];
            if pooled.gas() > gas - chosen.gas {
                continue;
            }
            if pooled.tx.raw.len() > bytes - chosen.bytes {
                chosen.bytes_full = true;
                continue;
            }
            chosen.gas += pooled.gas();
            chosen.bytes += pooled.tx.raw.len();
            chosen.txs.push(Arc::clone(&pooled.tx));
            let next = lane.pending().get(index + 1);
            let next = next.map(|next| Rank::of(&next.offer, rank.lane, self.base_fee));
            begun.extend(next.filter(Rank::covers).map(|rank| (rank, index + 1)));
        }
        chosen
    }
}
