//! The fee-history row of a block: header scalars and the exact gas-weighted distribution of
//! effective tips. Written with the block, so that `eth_feeHistory` reads no receipts.

use alloy_rlp::{RlpDecodable, RlpEncodable};

/// One block's row.
#[derive(Clone, Debug, Default, PartialEq, Eq, RlpEncodable, RlpDecodable)]
pub struct FeeRow {
    /// Base fee of the block, in wei; zero before London.
    pub base_fee: u64,
    /// Base fee of the block after it, in wei.
    pub next_base_fee: u64,
    /// Gas used.
    pub gas_used: u64,
    /// Gas limit.
    pub gas_limit: u64,
    /// Blob gas used (EIP-4844).
    pub blob_gas_used: u64,
    /// Most blob gas of a block under its fork; zero before Cancun.
    pub blob_gas_max: u64,
    /// Blob base fee of the block, in wei.
    pub blob_base_fee: u128,
    /// Blob base fee of the block after it, in wei.
    pub next_blob_base_fee: u128,
    /// Effective tips ascending, each with the gas used at it.
    pub tips: Vec<Tip>,
}

/// Gas used at one effective tip.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, RlpEncodable, RlpDecodable,
)]
pub struct Tip {
    /// Effective tip, in wei per gas.
    pub tip: u128,
    /// Gas used by the transactions that paid it.
    pub gas: u64,
}

impl FeeRow {
    /// Sorts the tips of a block's transactions and joins equal ones.
    pub fn distribution(mut tips: Vec<Tip>) -> Vec<Tip> {
        tips.sort_unstable();
        tips.dedup_by(|later, earlier| {
            let equal = later.tip == earlier.tip;
            if equal {
                earlier.gas += later.gas;
            }
            equal
        });
        tips
    }

    /// Gas used over gas limit.
    pub fn gas_used_ratio(&self) -> f64 {
        ratio(self.gas_used, self.gas_limit)
    }

    /// Blob gas used over the most a block may use.
    pub fn blob_gas_used_ratio(&self) -> f64 {
        ratio(self.blob_gas_used, self.blob_gas_max)
    }

    /// The effective tip at each percentile, which must ascend. As geth: the first tip at which
    /// the gas used reaches `gas_used * percentile / 100`, and zero without transactions.
    pub fn rewards(&self, percentiles: &[f64]) -> Vec<u128> {
        let mut reached = 0;
        let mut tips = self.tips.iter().peekable();
        percentiles
            .iter()
            .map(|percentile| {
                // Truncated like geth's `uint64(float64)`.
                let threshold = (self.gas_used as f64 * percentile / 100.0) as u64;
                while let Some(tip) = tips.peek() {
                    if reached + tip.gas >= threshold {
                        return tip.tip;
                    }
                    reached += tip.gas;
                    tips.next();
                }
                self.tips.last().map_or(0, |tip| tip.tip)
            })
            .collect()
    }
}

fn ratio(used: u64, limit: u64) -> f64 {
    if limit == 0 { 0.0 } else { used as f64 / limit as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(tips: &[(u64, u128)]) -> FeeRow {
        let gas_used = tips.iter().map(|(gas, _)| gas).sum();
        let tips = tips.iter().map(|(gas, tip)| Tip { tip: *tip, gas: *gas }).collect();
        FeeRow { gas_used, tips: FeeRow::distribution(tips), ..FeeRow::default() }
    }

    #[test]
    fn rewards_follow_the_gas() {
        let row = row(&[(21_000, 5), (50_000, 1), (100_000, 3), (29_000, 10)]);
        let percentiles = [0.0, 25.0, 26.0, 50.0, 75.0, 76.0, 86.0, 90.0, 100.0];
        assert_eq!(row.rewards(&percentiles), [1, 1, 3, 3, 3, 5, 10, 10, 10]);
    }

    #[test]
    fn a_block_without_transactions_rewards_nothing() {
        assert_eq!(FeeRow::default().rewards(&[0.0, 100.0]), [0, 0]);
    }

    #[test]
    fn equal_tips_are_joined() {
        assert_eq!(row(&[(1, 7), (2, 7)]).tips, [Tip { tip: 7, gas: 3 }]);
    }
}
