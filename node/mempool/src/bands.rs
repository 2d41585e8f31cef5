//! The pool by price, for people.

use super::Mempool;

/// The lower bounds of the bands, in wei of effective priority fee per gas.
const BOUNDS: [u128; 7] =
    [0, 1, 10_000_000, 100_000_000, 1_000_000_000, 10_000_000_000, 100_000_000_000];

/// The executable transactions whose effective priority fee is in a range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PriceBand {
    /// The lower bound in wei per gas, inclusive; `None` for transactions below the base fee.
    pub from: Option<u128>,
    /// Number of transactions.
    pub txs: u64,
    /// Sum of their gas limits.
    pub gas: u64,
}

impl Mempool {
    /// Counts the executable transactions by effective priority fee at the base fee of the next block, the highest band
    /// last. Reads every transaction of the pool.
    pub fn price_bands(&self) -> Vec<PriceBand> {
        let bounds = std::iter::once(None).chain(BOUNDS.into_iter().map(Some));
        let mut bands: Vec<_> =
            bounds.map(|from| PriceBand { from, ..PriceBand::default() }).collect();
        for pooled in self.lanes().flat_map(|lane| lane.pending()) {
            let tip = pooled.offer.effective_tip(self.base_fee);
            let band = tip.map_or(0, |tip| BOUNDS.partition_point(|bound| *bound <= tip));
            bands[band].txs += 1;
            bands[band].gas = bands[band].gas.saturating_add(pooled.gas());
        }
        bands
    }
}
